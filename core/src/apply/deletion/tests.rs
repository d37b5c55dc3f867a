use super::*;

const LIVE: WorkView = WorkView {
    deleting: false,
    has_finalizer: true,
    abandon: false,
};
const DELETED: WorkView = WorkView {
    deleting: true,
    has_finalizer: true,
    abandon: false,
};

fn present() -> AppliedWorkView {
    AppliedWorkView::Present { uid: "u".into() }
}

fn going(secs: i64) -> AppliedWorkView {
    AppliedWorkView::Terminating {
        since: Timestamp::from_second(secs).unwrap(),
    }
}

#[test]
fn a_round_begins_only_under_a_finalizer_and_a_living_owner() {
    let unclaimed = WorkView {
        has_finalizer: false,
        ..LIVE
    };
    for (joined, work, applied_work, expected) in [
        (true, LIVE, present(), Entry::Begin),
        (true, LIVE, AppliedWorkView::Absent, Entry::CreateOwner),
        (true, LIVE, going(0), Entry::AwaitOldOwner),
        (true, LIVE, AppliedWorkView::Unknown, Entry::AwaitRead),
        (true, unclaimed, AppliedWorkView::Absent, Entry::Claim),
        (true, unclaimed, present(), Entry::Claim),
        (true, DELETED, present(), Entry::CleanUp),
        (false, LIVE, present(), Entry::GateClosed),
        (false, DELETED, present(), Entry::GateClosed),
    ] {
        assert_eq!(
            entry(joined, work, &applied_work),
            expected,
            "{joined} {work:?} {applied_work:?}"
        );
    }
}

#[test]
fn clean_up_step_by_step() {
    let base = |applied_work| Ending {
        joined: true,
        round_in_flight: false,
        work: DELETED,
        namespace: HubNamespace::Active,
        applied_work,
        swept: Swept::NotYet,
        help_after: SignedDuration::from_secs(300),
        now: Timestamp::from_second(1000).unwrap(),
    };
    let (there, absent, young, old) = (present(), AppliedWorkView::Absent, going(900), going(700));
    let delete = |propagation| CleanUp::DeleteOwner {
        uid: "u".into(),
        propagation,
    };
    assert_eq!(clean_up(&base(&there)), CleanUp::Sweep);
    for (swept, propagation) in [
        (Swept::Partly, Propagation::Foreground),
        (Swept::Everything, Propagation::Background),
    ] {
        assert_eq!(clean_up(&Ending { swept, ..base(&there) }), delete(propagation));
    }
    let abandoned = Ending {
        work: WorkView {
            abandon: true,
            ..DELETED
        },
        ..base(&there)
    };
    assert_eq!(clean_up(&abandoned), delete(Propagation::Orphan));
    assert_eq!(clean_up(&base(&absent)), CleanUp::Complete);
    let help_at = Timestamp::from_second(1200).unwrap();
    assert_eq!(clean_up(&base(&young)), CleanUp::AwaitOwner { help_at });
    assert_eq!(clean_up(&base(&old)), CleanUp::Help);
    assert_eq!(
        clean_up(&base(&AppliedWorkView::Unknown)),
        CleanUp::Pause(Pause::NotKnown)
    );
    assert_eq!(
        clean_up(&Ending {
            work: LIVE,
            ..base(&absent)
        }),
        CleanUp::Nothing
    );
    let stripped = WorkView {
        has_finalizer: false,
        ..DELETED
    };
    assert_eq!(
        clean_up(&Ending {
            work: stripped,
            ..base(&there)
        }),
        CleanUp::Nothing
    );
    assert_eq!(
        clean_up(&Ending {
            joined: false,
            ..base(&absent)
        }),
        CleanUp::Pause(Pause::NotJoined)
    );
    let running = Ending {
        round_in_flight: true,
        ..base(&absent)
    };
    assert_eq!(clean_up(&running), CleanUp::Pause(Pause::RoundInFlight));
    for namespace in [HubNamespace::Terminating, HubNamespace::Gone, HubNamespace::Forbidden] {
        let paused = clean_up(&Ending {
            namespace,
            ..base(&there)
        });
        assert_eq!(paused, CleanUp::Pause(Pause::NamespaceGoing));
    }
    let unread = Ending {
        namespace: HubNamespace::Unknown,
        ..base(&there)
    };
    assert_eq!(clean_up(&unread), CleanUp::Pause(Pause::NotKnown));
}

#[test]
fn the_namespace_is_read_only_before_something_is_removed() {
    let (there, absent, going) = (present(), AppliedWorkView::Absent, going(900));
    for (applied_work, asks) in [(&there, true), (&absent, false), (&going, false)] {
        let step = clean_up(&Ending {
            joined: true,
            round_in_flight: false,
            work: DELETED,
            namespace: HubNamespace::NotAsked,
            applied_work,
            swept: Swept::NotYet,
            help_after: SignedDuration::from_secs(300),
            now: Timestamp::from_second(1000).unwrap(),
        });
        assert_eq!(step == CleanUp::AskNamespace, asks, "{applied_work:?}");
    }
}

#[test]
fn only_what_may_own_others_is_waited_for() {
    for (group, kind, expected) in [
        ("", "ConfigMap", false),
        ("", "Namespace", false),
        ("rbac.authorization.k8s.io", "ClusterRole", false),
        ("", "Service", true),
        ("apps", "Deployment", true),
        ("batch", "Job", true),
        ("example.com", "ConfigMap", true),
    ] {
        assert_eq!(owns_others(group, kind), expected, "{group} {kind}");
    }
}

#[test]
fn a_leaving_member_waits_for_its_rounds() {
    assert_eq!(leave(2), Leave::AwaitRounds);
    assert_eq!(leave(0), Leave::SayStopped);
}
