use super::*;
use crate::apply::merge::tests::any_json;
use crate::apply::prepare::FIELD_MANAGER;
use fleet_api::placement::ServerSideApplyConfig;
use jiff::Timestamp;
use proptest::prelude::*;

fn us() -> Owner {
    Owner {
        name: "work".into(),
        uid: "u1".into(),
    }
}

fn manifest(value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "n"}, "data": {"k": value}})
}

/// What the member has after `manifest` was applied client-side.
fn applied(value: &str) -> Value {
    let mut live = prepare(&manifest(value), &us(), &ApplyStrategyType::ClientSideApply).object;
    live["metadata"]["resourceVersion"] = json!("7");
    live["metadata"]["uid"] = json!("x");
    live
}

fn foreign(value: &str) -> Value {
    let mut live = manifest(value);
    live["metadata"]["resourceVersion"] = json!("7");
    live
}

fn strategy(change: impl FnOnce(&mut ApplyStrategy)) -> ApplyStrategy {
    let mut strategy = ApplyStrategy::default();
    change(&mut strategy);
    strategy
}

#[allow(clippy::unnecessary_wraps, reason = "the shape of a lookup")]
fn no_works(_: &str) -> Result<bool, String> {
    Ok(false)
}

fn situation<'a>(manifest: &'a Value, live: Live<'a>, strategy: &'a ApplyStrategy, owner: &'a Owner) -> Situation<'a> {
    Situation {
        manifest,
        live,
        strategy,
        owner,
        rules: None,
        dry_run: None,
        work_exists: &no_works,
        last: None,
        hold: None,
        reserved: ReservedKeys::Hidden,
    }
}

fn step(live: Live<'_>, strategy: &ApplyStrategy) -> Step {
    next(&situation(&manifest("v"), live, strategy, &us()))
}

fn step_with(live: &Value, strategy: &ApplyStrategy, dry_run: &DryRun) -> Step {
    next(&Situation {
        dry_run: Some(dry_run),
        ..situation(&manifest("v"), Live::Found(live), strategy, &us())
    })
}

fn reason(step: &Step) -> &'static str {
    match step {
        Step::Done(Verdict::Failed(failure) | Verdict::Drifted(failure, _) | Verdict::Differs(failure, _)) => {
            failure.reason()
        }
        other => panic!("{other:?} is no failure"),
    }
}

#[test]
fn a_patch_that_met_somebody_elses_write_has_not_come_out() {
    let two = |a: &str, b: &str| {
        let mut object = manifest("v");
        object["data"] = json!({"a": a, "b": b});
        object
    };
    let live = |a: &str, b: &str| {
        let mut live = prepare(&two("1", "1"), &us(), &ApplyStrategyType::ClientSideApply).object;
        live["data"] = json!({"a": a, "b": b});
        live["metadata"]["resourceVersion"] = json!("7");
        live
    };
    let (wanted, always, owner) = (two("2", "1"), ApplyStrategy::default(), us());
    let before = live("1", "1");
    let Step::Patch(patch) = next(&situation(&wanted, Live::Found(&before), &always, &owner)) else {
        panic!("it is patched");
    };
    let answered = |object: &Value| came_out(&situation(&wanted, Live::Found(object), &always, &owner), &patch);
    let right = |a: &str, b: &str| {
        let mut answer = prepare(&wanted, &us(), &ApplyStrategyType::ClientSideApply).object;
        answer["data"] = json!({"a": a, "b": b});
        answer
    };
    assert!(answered(&right("2", "1")));
    assert!(answered(&right("2.0", "1")), "the API server's own word for it");
    assert!(!answered(&right("2", "5")), "somebody else has changed the other");
    let mut theirs = right("2", "1");
    theirs["metadata"]["ownerReferences"] = json!([]);
    assert!(!answered(&theirs), "it is another object by now");
}

#[test]
fn nothing_there_is_created_whatever_the_type() {
    let plain = ApplyStrategy::default();
    assert!(matches!(step(Live::Absent, &plain), Step::Create(object) if us().owns(&object)));
    let server = strategy(|s| s.type_ = ApplyStrategyType::ServerSideApply);
    assert!(matches!(step(Live::Absent, &server), Step::Create(_)));
    assert_eq!(
        reason(&step(Live::Failed("timeout"), &plain)),
        "FailedToFindObjInMemberCluster"
    );
    let newer = strategy(|s| s.type_ = ApplyStrategyType::Unknown("Magic".into()));
    let failed = Verdict::Failed(ApplyFailure::UnknownStrategy {
        strategy: "Magic".into(),
    });
    assert_eq!(step(Live::Absent, &newer), Step::Done(failed));
}

#[test]
fn an_object_that_is_as_it_should_be_is_left_alone() {
    assert_eq!(
        step(Live::Found(&applied("v")), &ApplyStrategy::default()),
        Step::Nothing
    );
    let server = strategy(|s| s.type_ = ApplyStrategyType::ServerSideApply);
    let (owner, wanted, live) = (us(), manifest("v"), applied("v"));
    let now = situation(&wanted, Live::Found(&live), &server, &owner);
    assert!(matches!(next(&now), Step::ServerSideApply { .. }));
    let last = record(&now, &live);
    assert_eq!(
        next(&Situation {
            last: Some(&last),
            ..now
        }),
        Step::Nothing
    );
    let other = LastApplied {
        resource_version: "6".into(),
        ..last
    };
    assert!(matches!(
        next(&Situation {
            last: Some(&other),
            ..now
        }),
        Step::ServerSideApply { .. }
    ));
}

#[test]
fn a_changed_manifest_is_patched_and_locked_only_if_asked() {
    let always = step(Live::Found(&applied("old")), &ApplyStrategy::default());
    let Step::Patch(patch) = always else {
        panic!("{always:?}")
    };
    assert_eq!(patch.body["data"], json!({"k": "v"}));
    assert_eq!(patch.body.pointer("/metadata/resourceVersion"), None);
    let careful = strategy(|s| s.when_to_apply = WhenToApply::IfNotDrifted);
    let Step::Patch(patch) = step(Live::Found(&applied("old")), &careful) else {
        panic!()
    };
    assert_eq!(patch.body["metadata"]["resourceVersion"], "7");
    let mut unversioned = applied("old");
    unversioned["metadata"]["resourceVersion"] = json!("");
    assert_eq!(
        reason(&step(Live::Found(&unversioned), &careful)),
        "ManifestApplyFailed"
    );
}

#[test]
fn an_object_in_a_fight_is_held_and_not_applied_until_it_has_stayed_as_it_should_be() {
    let (owner, wanted, plain) = (us(), manifest("v"), ApplyStrategy::default());
    let (theirs, ours) = (applied("old"), applied("v"));
    let hold = Hold {
        until: Timestamp::from_second(60).unwrap(),
        manager: Some("rival".to_owned()),
    };
    let contested = Verdict::Failed(ApplyFailure::Contested {
        manager: "rival".to_owned(),
    });
    let now = |live| Situation {
        hold: Some(&hold),
        ..situation(&wanted, live, &plain, &owner)
    };
    // Theirs, or deleted by them.
    assert_eq!(next(&now(Live::Found(&theirs))), Step::Done(contested.clone()));
    assert_eq!(next(&now(Live::Absent)), Step::Done(contested.clone()));
    // Ours for a moment.
    assert_eq!(next(&now(Live::Found(&ours))), Step::Nothing);
    assert_eq!(settle(&now(Live::Found(&ours)), &Step::Nothing, Ok(&ours)), contested);
    assert!(contested.is_contested() && !contested.is_applied());
    // Afterwards it is written again, and counts.
    let later = |live| situation(&wanted, live, &plain, &owner);
    assert!(matches!(next(&later(Live::Found(&theirs))), Step::Patch(_)));
    assert!(matches!(next(&later(Live::Absent)), Step::Create(_)));
    assert_eq!(
        settle(&later(Live::Found(&ours)), &Step::Nothing, Ok(&ours)),
        Verdict::Applied(None)
    );
}

#[test]
fn server_side_apply_forces_only_against_ourselves_or_if_told() {
    let entry = |manager: &str, subresource: &str| json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {}, "subresource": subresource});
    let forced = |entries: Value, configured: bool| {
        let mut live = applied("old");
        live["metadata"]["managedFields"] = entries;
        let server = strategy(|s| {
            s.type_ = ApplyStrategyType::ServerSideApply;
            s.server_side_apply_config = configured.then_some(ServerSideApplyConfig { force: true });
        });
        match step(Live::Found(&live), &server) {
            Step::ServerSideApply {
                force,
                migrated_managers,
                ..
            } => (force, migrated_managers.is_some()),
            other => panic!("{other:?}"),
        }
    };
    let ours = || entry(FIELD_MANAGER, "");
    assert_eq!(forced(json!([ours()]), false), (true, true));
    assert_eq!(
        forced(json!([ours(), entry("kube-controller-manager", "status")]), false),
        (true, true)
    );
    assert_eq!(forced(json!([ours(), entry("kubectl", "")]), false), (false, true));
    assert_eq!(forced(json!([entry("kubectl", "")]), true), (true, false));
}

#[test]
fn a_foreign_object_is_taken_over_as_told() {
    let live = foreign("other");
    let take = |word: WhenToTakeOver, option: ComparisonOption| {
        let strategy = strategy(|s| {
            s.when_to_take_over = word;
            s.comparison_option = option;
        });
        step(Live::Found(&live), &strategy)
    };
    let partial = || ComparisonOption::PartialComparison;
    let taken = take(WhenToTakeOver::Always, partial());
    assert!(matches!(&taken, Step::TakeOver(object) if us().owns(object) && object["data"]["k"] == "other"));
    assert_eq!(reason(&take(WhenToTakeOver::Never, partial())), "NotTakenOver");
    assert_eq!(
        reason(&take(WhenToTakeOver::Unknown("Later".into()), partial())),
        "NotTakenOver"
    );
    assert_eq!(take(WhenToTakeOver::IfNoDiff, partial()), Step::DryRun);
    let full = take(WhenToTakeOver::IfNoDiff, ComparisonOption::FullComparison);
    assert!(matches!(&full, Step::Done(Verdict::Differs(ApplyFailure::TakeOverDiffs, d)) if d.total == 1));

    let if_no_diff = strategy(|s| s.when_to_take_over = WhenToTakeOver::IfNoDiff);
    assert!(matches!(
        step_with(&live, &if_no_diff, &DryRun::Object(live.clone())),
        Step::TakeOver(_)
    ));
    let degraded = step_with(&live, &if_no_diff, &DryRun::Invalid);
    assert!(matches!(
        &degraded,
        Step::Done(Verdict::Differs(ApplyFailure::TakeOverDiffsDegraded, _))
    ));
    let failed = step_with(&live, &if_no_diff, &DryRun::Failed("no".into()));
    assert!(matches!(
        &failed,
        Step::Done(Verdict::Failed(ApplyFailure::TakeOverComparison { .. }))
    ));
    let refused = settle(
        &situation(&manifest("v"), Live::Found(&live), &if_no_diff, &us()),
        &taken,
        Err("conflict"),
    );
    assert_eq!(
        refused,
        Verdict::Failed(ApplyFailure::TakeOver { api: "conflict".into() })
    );
}

/// The table of whenToApply × comparisonOption: drift in a managed field, and an extra field on the member.
#[test]
fn drift_and_extra_fields_in_every_mode() {
    let live = |change: fn(&mut Value)| {
        let mut live = applied("v");
        change(&mut live);
        live
    };
    let drifted = live(|live| live["data"]["k"] = json!("theirs"));
    let extra = live(|live| live["data"]["extra"] = json!("theirs"));
    // What the API server would make of the manifest.
    let forced = |live: &Value| {
        let mut object = live.clone();
        object["data"]["k"] = json!("v");
        DryRun::Object(object)
    };
    for (apply, option, on_drift, on_extra) in [
        (
            WhenToApply::Always,
            ComparisonOption::PartialComparison,
            "patch, 0",
            "nothing, 0",
        ),
        (
            WhenToApply::Always,
            ComparisonOption::FullComparison,
            "patch, 0",
            "nothing, 1",
        ),
        (
            WhenToApply::IfNotDrifted,
            ComparisonOption::PartialComparison,
            "FoundDrifts, 1",
            "nothing, 0",
        ),
        (
            WhenToApply::IfNotDrifted,
            ComparisonOption::FullComparison,
            "FoundDrifts, 1",
            "FoundDrifts, 1",
        ),
    ] {
        let strategy = strategy(|s| {
            s.when_to_apply = apply.clone();
            s.comparison_option = option.clone();
        });
        for (live, expected) in [(&drifted, on_drift), (&extra, on_extra)] {
            let dry_run = forced(live);
            let step = step_with(live, &strategy, &dry_run);
            let (wanted, owner) = (manifest("v"), us());
            let now = situation(&wanted, Live::Found(live), &strategy, &owner);
            let drift = |answer: &Value| match settle(&now, &step, Ok(answer)) {
                Verdict::Applied(found) => found.map_or(0, |found| found.total),
                other => panic!("{other:?}"),
            };
            let shown = match &step {
                Step::Patch(_) => format!("patch, {}", drift(&applied("v"))),
                Step::Nothing => format!("nothing, {}", drift(live)),
                Step::Done(Verdict::Drifted(failure, found)) => format!("{}, {}", failure.reason(), found.total),
                other => panic!("{other:?}"),
            };
            assert_eq!(shown, expected, "{apply} {option}");
        }
    }
}

#[test]
fn drift_is_overwritten_by_a_changed_manifest_and_degrades_with_an_invalid_one() {
    let careful = strategy(|s| s.when_to_apply = WhenToApply::IfNotDrifted);
    assert!(matches!(step(Live::Found(&applied("old")), &careful), Step::Patch(_)));
    let mut drifted = applied("v");
    drifted["data"]["k"] = json!("theirs");
    assert_eq!(step(Live::Found(&drifted), &careful), Step::DryRun);
    assert_eq!(
        reason(&step_with(&drifted, &careful, &DryRun::Invalid)),
        "FoundDriftsInDegradedMode"
    );
    let failed = step_with(&drifted, &careful, &DryRun::Failed("no".into()));
    assert_eq!(reason(&failed), "FailedToRunDriftDetection");
}

#[test]
fn reserved_labels_drift_only_where_they_are_compared_and_a_new_one_is_no_drift() {
    let labelled = |value: &str| {
        let mut manifest = manifest("v");
        manifest["metadata"]["labels"] = json!({"app.kubernetes.io/version": value});
        manifest
    };
    let (owner, wanted) = (us(), labelled("1"));
    for type_ in [ApplyStrategyType::ClientSideApply, ApplyStrategyType::ServerSideApply] {
        let careful = strategy(|s| {
            s.when_to_apply = WhenToApply::IfNotDrifted;
            s.type_ = type_.clone();
        });
        let mut live = prepare(&wanted, &owner, &type_).object;
        live["metadata"]["resourceVersion"] = json!("7");
        let last = record(&situation(&wanted, Live::Found(&live), &careful, &owner), &live);
        live["metadata"]["resourceVersion"] = json!("8");
        live["metadata"]["labels"]["app.kubernetes.io/version"] = json!("theirs");
        let forced = DryRun::Object(wanted.clone());
        let at = |manifest: &Value, reserved| {
            next(&Situation {
                reserved,
                last: Some(&last),
                dry_run: Some(&forced),
                ..situation(manifest, Live::Found(&live), &careful, &owner)
            })
        };
        assert_eq!(reason(&at(&wanted, ReservedKeys::Compared)), "FoundDrifts", "{type_}");
        let hidden = at(&wanted, ReservedKeys::Hidden);
        assert!(!matches!(hidden, Step::Done(_)), "{type_}: {hidden:?}");
        let newer = at(&labelled("2"), ReservedKeys::Compared);
        assert!(
            matches!(newer, Step::Patch(_) | Step::ServerSideApply { .. }),
            "{type_}: the manifest was changed, not the object: {newer:?}"
        );
    }
}

#[test]
fn a_comparison_changes_nothing_but_the_owner() {
    let compare = |take_over: WhenToTakeOver| {
        strategy(|s| {
            s.type_ = ApplyStrategyType::ReportDiff;
            s.comparison_option = ComparisonOption::FullComparison;
            s.when_to_take_over = take_over;
        })
    };
    let never = compare(WhenToTakeOver::Never);
    assert_eq!(
        step(Live::Absent, &never),
        Step::Done(Verdict::Diff(Differences::absent()))
    );
    assert!(matches!(step(Live::Found(&foreign("x")), &never), Step::Done(Verdict::Diff(d)) if d.total == 1));
    assert_eq!(step(Live::Found(&foreign("v")), &never), Step::Done(Verdict::NoDiff));
    let Step::TakeOver(taken) = step(Live::Found(&foreign("x")), &compare(WhenToTakeOver::Always)) else {
        panic!()
    };
    assert!(merely_taken_over(&us(), &taken));
    assert!(!merely_taken_over(&us(), &applied("v")));
    assert!(matches!(
        step(Live::Found(&taken), &compare(WhenToTakeOver::Always)),
        Step::Done(Verdict::Diff(_))
    ));
    let partial = strategy(|s| {
        s.type_ = ApplyStrategyType::ReportDiff;
        s.when_to_take_over = WhenToTakeOver::Never;
    });
    let failed = step_with(&foreign("x"), &partial, &DryRun::Failed("no".into()));
    assert!(matches!(failed, Step::Done(Verdict::DiffFailed(_))));
    let degraded = step_with(&foreign("x"), &partial, &DryRun::Invalid);
    assert!(matches!(degraded, Step::Done(Verdict::Diff(d)) if d.degraded));
}

#[test]
fn a_large_object_is_created_and_then_merged_by_the_server() {
    let big = manifest(&"x".repeat(600_000));
    let (owner, plain) = (us(), ApplyStrategy::default());
    let Step::Create(created) = next(&situation(&big, Live::Absent, &plain, &owner)) else {
        panic!()
    };
    assert_eq!(
        created["metadata"]["annotations"][annotations::LAST_APPLIED_CONFIGURATION],
        ""
    );
    let step = next(&situation(&big, Live::Found(&created), &plain, &owner));
    assert!(matches!(
        step,
        Step::ServerSideApply {
            migrated_managers: None,
            ..
        }
    ));
}

#[test]
fn each_refusal_has_its_words() {
    let (owner, wanted, plain) = (us(), manifest("v"), ApplyStrategy::default());
    let now = situation(&wanted, Live::Absent, &plain, &owner);
    let apply = Step::ServerSideApply {
        object: json!({}),
        force: false,
        migrated_managers: None,
    };
    let patch = step(Live::Found(&applied("old")), &plain);
    let refused = |step: &Step| settle(&now, step, Err("no"));
    let api = || "no".to_owned();
    assert_eq!(
        refused(&Step::Create(json!({}))),
        Verdict::Failed(ApplyFailure::Create { api: api() })
    );
    assert_eq!(
        refused(&apply),
        Verdict::Failed(ApplyFailure::ServerSideApply { api: api() })
    );
    assert_eq!(refused(&patch), Verdict::Failed(ApplyFailure::Patch { api: api() }));
    let mut with_owner = wanted.clone();
    with_owner["metadata"]["ownerReferences"] = json!([{"kind": "X"}]);
    assert_eq!(
        reason(&next(&Situation {
            manifest: &with_owner,
            ..now
        })),
        "ManifestApplyFailed"
    );
    let shared = strategy(|s| s.allow_co_ownership = true);
    let step = next(&Situation {
        manifest: &with_owner,
        strategy: &shared,
        ..now
    });
    assert!(matches!(step, Step::Create(object) if object["metadata"]["ownerReferences"] == json!([us().reference()])));
}

proptest! {
    #[test]
    fn no_object_is_too_odd(wanted in any_json(), live in any_json(), dry in any_json(), kind in 0..3usize, word in 0..3usize) {
        let strategy = strategy(|s| {
            s.type_ = ApplyStrategyType::KNOWN[kind].clone();
            s.when_to_take_over = WhenToTakeOver::KNOWN[word].clone();
            s.when_to_apply = WhenToApply::KNOWN[word % 2].clone();
        });
        let (dry_run, owner) = (DryRun::Object(dry), us());
        let now = Situation { dry_run: Some(&dry_run), ..situation(&wanted, Live::Found(&live), &strategy, &owner) };
        let step = next(&now);
        let _ = settle(&now, &step, Ok(&live));
        let _ = next(&Situation { live: Live::Absent, ..now });
    }
}
