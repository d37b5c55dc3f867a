//! The worked examples of the specification, and the rules one by one.

use fleet_api::placement::{BindingSpec, BindingState};

use super::*;
use crate::overrides::choose::Lists;

impl Member {
    pub(super) fn new(cluster: &str, state: State) -> Self {
        Self {
            binding: format!("crp-{cluster}-0a1b2c3d"),
            namespace: String::new(),
            cluster: cluster.into(),
            state,
            deleting: false,
            holds_content: state != State::Scheduled,
            content: if state == State::Bound {
                Content::Current
            } else {
                Content::Outdated
            },
            readiness: Readiness::Unheard,
            reports_diff: false,
            started: (state == State::Bound).then_some(true),
            strategy_differs: false,
            cluster_exists: true,
            closed: None,
        }
    }

    fn scheduled(cluster: &str) -> Self {
        Self::new(cluster, State::Scheduled)
    }

    fn bound(cluster: &str) -> Self {
        Self::new(cluster, State::Bound).ready()
    }

    fn leaving(cluster: &str) -> Self {
        Self::new(cluster, State::Unscheduled).ready()
    }

    fn ready(self) -> Self {
        Self {
            readiness: Readiness::Ready,
            ..self
        }
    }

    fn failed(self) -> Self {
        Self {
            readiness: Readiness::Failed {
                reason: "SyncWorkFailed".into(),
            },
            ..self
        }
    }

    fn slow(self) -> Self {
        Self {
            readiness: Readiness::InProgress {
                reason: "NotAllWorkAreAvailable".into(),
            },
            ..self
        }
    }

    fn outdated(self) -> Self {
        Self {
            content: Content::Outdated,
            ..self
        }
    }

    fn deleting(self) -> Self {
        Self { deleting: true, ..self }
    }

    fn as_(self, f: impl FnOnce(&mut Self)) -> Self {
        let mut member = self;
        f(&mut member);
        member
    }
}

fn pick_n(wanted: u32) -> Target {
    Target::Clusters { wanted, found: None }
}

fn budget(max_unavailable: Amount, max_surge: Amount) -> Budget {
    Budget {
        max_unavailable,
        max_surge,
        ..Budget::default()
    }
}

fn planned(target: Target, budget: &Budget, members: &[Member]) -> Plan {
    plan(&World {
        target,
        budget,
        has_snapshot: true,
        members,
    })
}

/// `cluster: verb` for each step, one line.
fn verbs(plan: &Plan) -> String {
    let verb = |action: &Action| match action {
        Action::Bind => "bind",
        Action::Update(_) => "update",
        Action::Remove(_) => "remove",
        Action::Hold(_) => "hold",
        Action::Keep(_) => "keep",
        Action::Restamp => "restamp",
        Action::PushStrategy => "push",
    };
    let lines: Vec<_> = plan
        .steps
        .values()
        .map(|step| format!("{} {}", step.cluster, verb(&step.action)))
        .collect();
    lines.join(", ")
}

fn many(n: usize, member: impl Fn(&str) -> Member) -> Vec<Member> {
    (0..n).map(|i| member(&format!("c{i:02}"))).collect()
}

fn updated(plan: &Plan) -> usize {
    plan.steps
        .values()
        .filter(|s| matches!(s.action, Action::Update(_)))
        .count()
}

#[test]
fn ten_new_clusters_are_bound_at_once() {
    let members = many(10, Member::scheduled);
    for target in [Target::AllPicked, pick_n(10)] {
        let plan = planned(target, &Budget::default(), &members);
        assert_eq!(plan.counts.may_add, 13);
        assert!(plan.steps.values().all(|s| s.action == Action::Bind));
        assert_eq!(plan.steps.len(), 10);
    }
}

#[test]
fn a_new_snapshot_takes_a_quarter_in_the_order_of_names() {
    let plan = planned(
        pick_n(10),
        &Budget::default(),
        &many(10, |c| Member::bound(c).outdated()),
    );
    assert!(
        verbs(&plan).starts_with("c00 update, c01 update, c02 update, c03 hold"),
        "{}",
        verbs(&plan)
    );
    assert_eq!(updated(&plan), 3);
}

#[test]
fn a_single_cluster_is_updated_at_once() {
    let plan = planned(pick_n(1), &Budget::default(), &[Member::bound("a").outdated()]);
    assert_eq!(plan.steps["crp-a-0a1b2c3d"].action, Action::Update(Cost::Available));
}

#[test]
fn without_unavailable_clusters_allowed_nothing_is_updated_in_place() {
    let strategy = budget(Amount::Clusters(0), Amount::Clusters(3));
    let plan = planned(pick_n(5), &strategy, &many(5, |c| Member::bound(c).outdated()));
    assert!(
        plan.steps
            .values()
            .all(|s| matches!(s.action, Action::Hold(Blocked::MaxUnavailable(_))))
    );
    let Action::Hold(why) = &plan.steps["crp-c00-0a1b2c3d"].action else {
        panic!("held")
    };
    assert_eq!(
        why.to_string(),
        "maxUnavailable is 0, so no available cluster may be updated or left"
    );
    assert_eq!(plan.look_again, None);
}

#[test]
fn a_broken_cluster_is_updated_even_with_no_budget() {
    let strategy = budget(Amount::Percent(20), Amount::Percent(25));
    let mut members = many(5, |c| Member::bound(c).outdated());
    members.iter_mut().take(3).for_each(|m| *m = m.clone().failed());
    let plan = planned(pick_n(5), &strategy, &members);
    assert_eq!(verbs(&plan), "c00 update, c01 update, c02 update, c03 hold, c04 hold");
    assert_eq!(plan.steps["crp-c00-0a1b2c3d"].action, Action::Update(Cost::Nothing));
}

#[test]
fn a_cluster_that_is_not_available_yet_can_be_fixed_without_budget() {
    let strategy = budget(Amount::Clusters(1), Amount::Clusters(0));
    let members = [
        Member::bound("a").outdated().slow(),
        Member::bound("b").outdated().slow(),
    ];
    assert_eq!(verbs(&planned(pick_n(2), &strategy, &members)), "a update, b update");
}

#[test]
fn eight_of_eleven_are_broken_and_go_first() {
    let mut members = many(11, |c| Member::bound(c).outdated());
    members.iter_mut().skip(3).for_each(|m| *m = m.clone().failed());
    let plan = planned(pick_n(11), &Budget::default(), &members);
    assert_eq!(updated(&plan), 8);
    assert!(verbs(&plan).starts_with("c00 hold, c01 hold, c02 hold, c03 update"));
}

#[test]
fn one_leaves_and_one_comes_in_the_same_pass() {
    let mut members = many(4, Member::leaving);
    members.extend((4..8).map(|i| Member::scheduled(&format!("c{i:02}"))));
    let plan = planned(pick_n(4), &Budget::default(), &members);
    assert_eq!((plan.counts.may_take, plan.counts.may_add), (1, 1));
    assert_eq!(
        verbs(&plan),
        "c00 remove, c01 keep, c02 keep, c03 keep, c04 bind, c05 hold, c06 hold, c07 hold"
    );
}

#[test]
fn clusters_that_the_scheduler_could_not_find_do_not_block_the_others() {
    let members = [Member::bound("a").outdated(), Member::bound("b").outdated()];
    // The scheduler has not spoken: a third cluster may be on its way.
    assert_eq!(
        verbs(&planned(pick_n(3), &Budget::default(), &members)),
        "a hold, b hold"
    );
    let found = Target::Clusters {
        wanted: 3,
        found: Some(2),
    };
    assert_eq!(verbs(&planned(found, &Budget::default(), &members)), "a update, b hold");
    let fixed = Target::Clusters {
        wanted: 2,
        found: Some(1),
    };
    assert_eq!(verbs(&planned(fixed, &Budget::default(), &members[..1])), "a update");
}

#[test]
fn a_deleting_cluster_uses_up_surge_until_it_is_gone() {
    let strategy = budget(Amount::Clusters(2), Amount::Clusters(0));
    let members = [
        Member::leaving("a").deleting(),
        Member::leaving("b"),
        Member::scheduled("c"),
        Member::scheduled("d"),
    ];
    assert_eq!(
        verbs(&planned(pick_n(2), &strategy, &members)),
        "b remove, c hold, d hold"
    );
    assert_eq!(
        verbs(&planned(pick_n(2), &strategy, &members[1..])),
        "b remove, c bind, d hold"
    );
}

#[test]
fn scaling_down_pays_for_an_update_with_what_is_left() {
    let strategy = budget(Amount::Clusters(1), Amount::Clusters(0));
    let members = [
        Member::bound("a").outdated(),
        Member::bound("b").outdated(),
        Member::leaving("c").deleting(),
        Member::leaving("d"),
    ];
    let plan = planned(pick_n(2), &strategy, &members);
    assert_eq!(plan.counts.may_take, 2);
    assert_eq!(verbs(&plan), "a update, b hold, d remove");
}

#[test]
fn leaving_goes_before_updating() {
    let strategy = budget(Amount::Clusters(1), Amount::Clusters(1));
    let members = [Member::bound("a").outdated(), Member::bound("b"), Member::leaving("c")];
    // Ready 3, floor 2: one may be taken.
    assert_eq!(verbs(&planned(pick_n(3), &strategy, &members)), "a hold, c remove");
}

#[test]
fn scaling_down_with_no_unavailability_removes_exactly_the_surplus() {
    let strategy = budget(Amount::Clusters(0), Amount::Clusters(0));
    let members = [
        Member::bound("a"),
        Member::bound("b"),
        Member::leaving("c").deleting(),
        Member::leaving("d"),
    ];
    assert_eq!(verbs(&planned(pick_n(2), &strategy, &members)), "d remove");
    assert_eq!(verbs(&planned(pick_n(3), &strategy, &members)), "d keep");
}

#[test]
fn shrinking_to_zero_removes_what_is_not_available_freely() {
    let strategy = budget(Amount::Clusters(0), Amount::Clusters(0));
    let members = [
        Member::leaving("a").failed(),
        Member::leaving("b").slow(),
        Member::bound("c"),
    ];
    assert_eq!(verbs(&planned(pick_n(1), &strategy, &members)), "a remove, b remove");
}

#[test]
fn a_binding_that_never_got_anything_and_one_whose_cluster_is_gone_leave_at_once() {
    let strategy = budget(Amount::Clusters(0), Amount::Clusters(0));
    let members = [
        Member::leaving("a").as_(|m| m.holds_content = false),
        Member::leaving("b").as_(|m| m.cluster_exists = false),
        Member::leaving("c").as_(|m| m.readiness = Readiness::Unsure),
    ];
    assert_eq!(
        verbs(&planned(pick_n(1), &strategy, &members)),
        "a remove, b remove, c keep"
    );
}

#[test]
fn a_cluster_last_known_to_be_available_is_not_taken_while_its_word_is_renewed() {
    let unsure = |c: &str| Member::bound(c).outdated().as_(|m| m.readiness = Readiness::Unsure);
    // Everybody's conditions went stale at once (a change of the apply strategy, say) as a new snapshot arrived.
    let plan = planned(pick_n(4), &Budget::default(), &many(4, unsure));
    assert_eq!(updated(&plan), 0);
}

#[test]
fn clusters_that_report_differences_use_no_surge() {
    let strategy = budget(Amount::Clusters(1), Amount::Clusters(0));
    let members = [
        Member::bound("a").as_(|m| m.reports_diff = true),
        Member::scheduled("b"),
    ];
    assert_eq!(verbs(&planned(pick_n(1), &strategy, &members)), "b bind");
}

#[test]
fn only_the_cluster_with_a_predecessor_waits() {
    let members = [
        Member::leaving("a").deleting(),
        Member::scheduled("a").as_(|m| m.binding = "crp-a-1".into()),
        Member::scheduled("b"),
    ];
    let plan = planned(pick_n(3), &Budget::default(), &members);
    assert_eq!(verbs(&plan), "a hold, b bind");
    let Action::Hold(why) = &plan.steps["crp-a-1"].action else {
        panic!("held")
    };
    assert_eq!(
        why.to_string(),
        "waiting for the earlier binding /crp-a-0a1b2c3d on cluster a to be deleted"
    );
}

#[test]
fn a_cluster_that_waits_for_its_predecessor_is_wanted_once() {
    let members = [
        Member::bound("a").deleting(),
        Member::scheduled("a").as_(|m| m.binding = "crp-a-1".into()),
        Member::bound("b").outdated(),
    ];
    let plan = planned(
        Target::AllPicked,
        &budget(Amount::Clusters(2), Amount::Clusters(2)),
        &members,
    );
    assert_eq!(plan.counts.reachable, 2);
    assert_eq!(verbs(&plan), "a hold, b update");
}

#[test]
fn two_live_bindings_on_one_cluster_hold_only_each_other() {
    let members = [
        Member::bound("a").outdated(),
        Member::scheduled("a").as_(|m| m.binding = "crp-a-1".into()),
        Member::bound("b").outdated(),
    ];
    let plan = planned(pick_n(2), &Budget::default(), &members);
    assert_eq!(verbs(&plan), "a hold, a hold, b update");
    let Action::Hold(why) = &plan.steps["crp-a-1"].action else {
        panic!("held")
    };
    assert_eq!(
        why.to_string(),
        "the same cluster `a` has bindings `/crp-a-0a1b2c3d` and `/crp-a-1` pointing to it"
    );
}

#[test]
fn a_bound_binding_beside_a_deleting_one_says_so() {
    let members = [
        Member::bound("a").deleting(),
        Member::bound("a").outdated().as_(|m| {
            m.binding = "crp-a-1".into();
            m.namespace = "app".into();
        }),
    ];
    let plan = planned(pick_n(1), &Budget::default(), &members);
    let Action::Hold(why) = &plan.steps["crp-a-1"].action else {
        panic!("held")
    };
    assert!(
        why.to_string().starts_with(
            "find a cluster `a` that has a bound binding `app/crp-a-1` and a deleting binding point to it"
        )
    );
}

#[test]
fn an_override_that_cannot_be_told_holds_one_cluster_only() {
    let members = [
        Member::bound("a").as_(|m| m.content = Content::Unknown("cluster a is not found".into())),
        Member::bound("b").outdated(),
    ];
    let plan = planned(pick_n(2), &Budget::default(), &members);
    assert_eq!(verbs(&plan), "a hold, b update");
}

#[test]
fn a_lost_status_write_is_made_again() {
    let members = [Member::bound("a").as_(|m| m.started = None), Member::bound("b")];
    assert_eq!(verbs(&planned(pick_n(2), &Budget::default(), &members)), "a restamp");
}

#[test]
fn an_apply_strategy_reaches_every_binding_beside_the_budget() {
    let strategy = budget(Amount::Clusters(0), Amount::Clusters(0));
    let members: Vec<_> = [
        Member::bound("a").outdated(),
        Member::bound("b"),
        Member::leaving("c"),
        Member::bound("d").deleting(),
        Member::leaving("e").failed(),
        Member::scheduled("f"),
    ]
    .into_iter()
    .map(|m| m.as_(|m| m.strategy_differs = true))
    .collect();
    let plan = planned(pick_n(4), &strategy, &members);
    assert_eq!(verbs(&plan), "a hold, b push, c keep, e remove, f hold");
    let pushed: Vec<_> = plan
        .steps
        .values()
        .filter(|s| s.push_strategy || s.action == Action::PushStrategy)
        .collect();
    assert_eq!(pushed.len(), 4);
    // Without a snapshot too.
    let plan = plan_without_snapshot(&members);
    assert_eq!(verbs(&plan), "a push, b push, c push, e push");
}

fn plan_without_snapshot(members: &[Member]) -> Plan {
    plan(&World {
        target: pick_n(4),
        budget: &Budget::default(),
        has_snapshot: false,
        members,
    })
}

#[test]
fn without_a_snapshot_nothing_moves() {
    let fresh = Member::scheduled("a").as_(|m| m.strategy_differs = true);
    let plan = plan_without_snapshot(&[fresh, Member::leaving("b")]);
    assert_eq!(plan.steps.len(), 0);
}

#[test]
fn the_timer_is_the_first_settling_cluster_and_only_if_somebody_waits() {
    let at = |s| Timestamp::from_second(s).unwrap();
    let settling = |c: &str, s| Member::bound(c).as_(|m| m.readiness = Readiness::Settling { until: at(s) });
    let strategy = budget(Amount::Clusters(1), Amount::Clusters(1));
    let members = [settling("a", 25), settling("b", 20), Member::bound("c").outdated()];
    let plan = planned(pick_n(3), &strategy, &members);
    assert_eq!((verbs(&plan).as_str(), plan.look_again), ("c hold", Some(at(20))));
    let Action::Hold(why) = &plan.steps["crp-c-0a1b2c3d"].action else {
        panic!("held")
    };
    assert_eq!(
        why.to_string(),
        "waiting for 2 of 3 clusters to become available: \
         a (not trackable, counts as available at 1970-01-01T00:00:25Z), \
         b (not trackable, counts as available at 1970-01-01T00:00:20Z)"
    );
    assert_eq!(planned(pick_n(3), &strategy, &members[..2]).look_again, None);
}

#[test]
fn the_message_names_a_few_of_those_it_waits_for() {
    let mut members = many(6, |c| Member::bound(c).slow());
    members.push(Member::bound("z").outdated());
    let plan = planned(pick_n(7), &Budget::default(), &members);
    let Action::Hold(why) = &plan.steps["crp-z-0a1b2c3d"].action else {
        panic!("held")
    };
    assert_eq!(
        why.to_string(),
        "waiting for 6 of 7 clusters to become available: c00 (NotAllWorkAreAvailable), c01 (NotAllWorkAreAvailable), \
         c02 (NotAllWorkAreAvailable) and 3 more"
    );
}

#[test]
fn external_restamps_only_what_had_been_started() {
    let members = [
        Member::bound("a").as_(|m| m.started = None),
        Member::bound("b"),
        Member::scheduled("c"),
        Member::bound("d").as_(|m| m.started = Some(false)),
    ];
    assert_eq!(restamp_external(&members, |_| true), ["crp-a-0a1b2c3d"]);
    assert!(restamp_external(&members, |_| false).is_empty());
}

#[test]
fn a_bound_binding_that_names_what_it_should_has_started() {
    let (lists, strategy) = (Lists::default(), apply_strategy(None));
    let goal = |snapshot| Goal {
        snapshot: Some(snapshot),
        overrides: Ok(&lists),
        apply_strategy: &strategy,
        cluster_exists: true,
        window: None,
    };
    let spec = BindingSpec {
        state: BindingState::Bound,
        resource_snapshot_name: "crp-1-snapshot".to_owned(),
        apply_strategy: Some(strategy.clone()),
        ..BindingSpec::default()
    };
    assert!(is_started(&spec, &goal("crp-1-snapshot")));
    assert!(
        !is_started(&spec, &goal("crp-2-snapshot")),
        "it waits for the newer one"
    );
    let unknown = Goal {
        overrides: Err("a rule is invalid"),
        ..goal("crp-1-snapshot")
    };
    assert!(!is_started(&spec, &unknown));
    let leaving = BindingSpec {
        state: BindingState::Unscheduled,
        ..spec.clone()
    };
    assert!(!is_started(&leaving, &goal("crp-1-snapshot")));
    let other_strategy = BindingSpec {
        apply_strategy: None,
        ..spec
    };
    assert!(
        !is_started(&other_strategy, &goal("crp-1-snapshot")),
        "the strategy is on its way, and makes another generation"
    );
}

#[test]
fn a_closed_cluster_waits_for_its_window_and_takes_nothing_from_the_others() {
    let opens = Timestamp::from_second(1_000_000).unwrap();
    let closed = |member: &mut Member| {
        member.closed = Some(Closed {
            next: Some(opens),
            why: "waiting for the window".into(),
        });
    };
    let members = [
        Member::bound("a").outdated().as_(closed),
        Member::bound("b").outdated(),
        Member::bound("c"),
        Member::scheduled("d").as_(closed),
        Member::bound("e").as_(closed),
        Member::leaving("f").failed().as_(closed),
        // There is nothing on it that could change.
        Member::leaving("g").as_(|m| m.holds_content = false).as_(closed),
        // It has left the fleet, with its window.
        Member::leaving("h").as_(closed).as_(|m| m.cluster_exists = false),
    ];
    let plan = planned(
        Target::AllPicked,
        &budget(Amount::Clusters(2), Amount::Clusters(0)),
        &members,
    );
    assert_eq!(verbs(&plan), "a hold, b update, d hold, f keep, g remove, h remove");
    assert_eq!(plan.look_again, Some(opens));
    let held = &plan.steps["crp-a-0a1b2c3d"].action;
    assert_eq!(*held, Action::Hold(Blocked::Window("waiting for the window".into())));
}

#[test]
fn an_apply_strategy_waits_for_the_window_as_all_changes_do() {
    let opens = Timestamp::from_second(1_000_000).unwrap();
    let closed = |member: &mut Member| {
        member.strategy_differs = true;
        member.closed = Some(Closed {
            next: Some(opens),
            why: "waiting for the window".into(),
        });
    };
    let held = Action::Hold(Blocked::Window("waiting for the window".into()));
    for (what, member) in [
        ("nothing else is new", Member::bound("a").as_(closed)),
        ("a newer version too", Member::bound("a").outdated().as_(closed)),
        ("nothing yet", Member::scheduled("a").as_(closed)),
    ] {
        let plan = planned(Target::AllPicked, &Budget::default(), &[member]);
        let step = &plan.steps["crp-a-0a1b2c3d"];
        assert_eq!((&step.action, step.push_strategy), (&held, false), "{what}");
        assert_eq!(plan.look_again, Some(opens), "{what}");
    }
    let leaving = [Member::leaving("a").as_(closed)];
    let plan = planned(pick_n(0), &Budget::default(), &leaving);
    assert_eq!((verbs(&plan).as_str(), plan.look_again), ("a keep", Some(opens)));
    assert!(!plan.steps["crp-a-0a1b2c3d"].push_strategy);
    assert_eq!(plan_without_snapshot(&[Member::bound("a").as_(closed)]).steps.len(), 0);
}
