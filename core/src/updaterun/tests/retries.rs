//! Another try, an approved plan, and the end of runs that have ended.

use fleet_api::placement::{NamespacedName, UpdateRunStatus};
use jiff::SignedDuration;
use serde_json::json;

use super::hub::{Hub, RunObject, at, strategy};
use crate::overrides::choose::Lists;
use crate::updaterun::{Memory, Outline, Run, expires, needed_indexes, needed_overrides};

/// A run in which a failed, b was updated and c was never started.
fn ended() -> Hub {
    let mut hub = Hub::new(&["a", "b", "c"]);
    let order = json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": 2, "beforeStageTasks": [{ "type": "Approval" }] }]);
    hub.strategy = Some(strategy(order));
    hub.set("max-failures", "0").set("cluster-deadline", "60s");
    hub.settle();
    hub.approve("run-before-all", 1);
    hub.settle();
    hub.now += 60;
    hub.available("b");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=False UpdateRunFailed", "{}", hub.stage(0));
    hub
}

/// The run that tries it again.
fn again(ended: &Hub) -> Hub {
    let mut hub = ended.clone();
    hub.retried = Some(ended.run.clone());
    hub.run.metadata.name = Some("again".into());
    hub.run.metadata.uid = Some("again-uid".into());
    hub.run.metadata.annotations = None;
    hub.run.status = UpdateRunStatus::default();
    hub.run.spec.resource_snapshot_index = String::new();
    hub.strategy = None;
    hub.memory = Memory::default();
    hub.set("retry-of", "run");
    hub
}

#[test]
fn a_retry_has_the_same_plan_for_those_that_did_not_succeed() {
    let ended = ended();
    let mut hub = again(&ended);
    hub.settle();
    assert_eq!(hub.stage(0), "Progressing=False StageUpdatingWaiting | a:  | c: ");
    let (was, is) = (&ended.run.status, &hub.run.status);
    assert_eq!(is.resource_snapshot_index_used, was.resource_snapshot_index_used);
    assert_eq!(is.staged_update_strategy_snapshot, was.staged_update_strategy_snapshot);
    assert_eq!(
        is.stages_status[0].before_stage_task_status[0].approval_request_name,
        "again-before-all"
    );
    assert_eq!(is.deletion_stage_status.as_ref().unwrap().clusters, []);
    hub.approve("again-before-all", 1);
    hub.settle();
    hub.available("a");
    hub.available("c");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
    assert!(!hub.told().iter().any(|line| line.contains("NotIncluded")));
}

#[test]
fn a_retry_of_what_cannot_be_tried_again_is_refused() {
    let ended = ended();
    let refusal = |change: &dyn Fn(&mut Hub)| {
        let mut hub = again(&ended);
        change(&mut hub);
        hub.settle();
        hub.message("Initialized")
            .rsplit("client error: ")
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        refusal(&|hub| hub.retried = None),
        "there is no update run run to try again"
    );
    assert_eq!(
        refusal(&|hub| hub.run.spec.resource_snapshot_index = "7".into()),
        "the update run run rolled out the resource snapshot 1, not 7"
    );
    assert_eq!(
        refusal(&|hub| hub.retried.as_mut().unwrap().spec.placement_name = "other".into()),
        "the update run run is about placement other, not web"
    );
    assert_eq!(
        refusal(&|hub| { hub.retried.as_mut().unwrap().status.conditions.truncate(2) }),
        "the update run run has not ended yet"
    );
    assert_eq!(
        refusal(&|hub| hub.retried.as_mut().unwrap().status.staged_update_strategy_snapshot = None),
        "the update run run never had a plan"
    );
}

#[test]
fn a_plan_that_differs_from_the_approved_one_is_refused_and_the_same_is_run() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    let outline = |hub: &Hub| Outline::of(&hub.run.status, &[], "c0ffee");
    let shown = outline(&hub);
    assert_eq!(shown.stages[0].clusters.len(), 2);
    let fresh = Hub::new(&["a", "b"]);
    // What `kubectl fleet plan` prints: made from the same objects before the run exists.
    let mut probe = fresh.clone();
    probe.run.spec.state = fleet_api::placement::UpdateRunState::Initialize;
    probe.settle();
    let hash = probe.outline().hash();
    let mut approved = fresh.clone();
    approved.set("plan", &hash);
    approved.settle();
    assert_eq!(approved.said()[0], "Initialized=True UpdateRunInitializedSuccessfully");
    let mut other = fresh.clone();
    other.member("c", &[]);
    other.pick("c");
    other.set("plan", &hash);
    other.settle();
    let message = other.message("Initialized");
    assert!(
        message.contains(
            "failed to process the request due to a client error: the plan differs from the one that was \
                          approved: the clusters of the stages, their order or their overrides (all: a, b, c)"
        ),
        "{message}"
    );
}

#[test]
fn a_run_that_has_ended_goes_when_its_time_is_over_but_not_the_newest_nor_one_that_is_tried_again() {
    let old = ended();
    let mut new = again(&old);
    let hour = SignedDuration::from_hours(1);
    let view = |hub: &Hub| hub.run.clone();
    let (old_run, new_run) = (view(&old), view(&new));
    let run = |of: &super::hub::RunObject, others: &[&super::hub::RunObject], ttl| {
        let others: Vec<_> = others
            .iter()
            .map(|run| Run::of(&run.metadata, &run.spec, Some(&run.status)))
            .collect();
        expires(&Run::of(&of.metadata, &of.spec, Some(&of.status)), &others, ttl)
    };
    assert_eq!(run(&old_run, &[], hour), None, "the newest");
    assert_eq!(run(&old_run, &[&new_run], hour), None, "it is tried again");
    new.settle();
    new.approve("again-before-all", 1);
    new.later(5);
    new.available("a");
    new.available("c");
    new.settle();
    let new_run = view(&new);
    assert_eq!(run(&old_run, &[&new_run], hour), Some(at(60 + 3600)));
    assert_eq!(run(&old_run, &[&new_run], SignedDuration::ZERO), None, "0 is for ever");
    assert_eq!(run(&new_run, &[&old_run], hour), None, "the newest");
    let mut refused = Hub::new(&["a"]);
    refused.set("max-failures", "x");
    refused.settle();
    assert_eq!(
        run(&refused.run, &[], hour),
        Some(at(3600)),
        "one that could not begin is never the newest"
    );
}

#[test]
fn a_retry_takes_no_other_snapshot_than_that_of_the_run_it_tries_again() {
    let mut hub = again(&ended());
    hub.snapshots.remove("1");
    hub.snapshots.insert("2".into(), Some("placement-uid".into()));
    hub.settle();
    assert_eq!(
        hub.message("Initialized"),
        "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due to a client \
         error: no resourceSnapshots with index `1` found for placement `/web`"
    );
}

#[test]
fn a_retry_whose_strategy_is_gone_keeps_the_settings_that_were_recorded() {
    let mut first = ended();
    let recorded = first.run.status.options.as_mut().unwrap();
    recorded.on_failure = "Rollback".into();
    recorded.ignore_windows = true;
    recorded.not_before = "1970-01-12T14:00:00Z".into();
    recorded.plan = "sha256:0".into();
    let mut hub = again(&first);
    hub.set("max-failures", "1");
    hub.settle();
    let recorded = serde_json::to_value(&hub.run.status.options).unwrap();
    assert_eq!(
        recorded,
        json!({ "maxFailures": "1", "clusterDeadline": "60s", "onFailure": "Rollback", "retryOf": "run" }),
        "what was for that one run alone is not for this one"
    );
    // With the strategy there its annotations count, as they are now.
    let mut hub = again(&first);
    hub.strategy = first.run.status.staged_update_strategy_snapshot.clone();
    hub.set_on_strategy("max-failures", "2");
    hub.settle();
    let recorded = serde_json::to_value(&hub.run.status.options).unwrap();
    assert_eq!(recorded, json!({ "maxFailures": "2", "retryOf": "run" }));
}

#[test]
fn a_retry_whose_strategy_is_gone_does_not_pass_by_its_gates() {
    let mut first = ended();
    let gate = json!([{ "stage": "all", "when": "after", "apiVersion": "batch/v1", "kind": "Job", "namespace": "ops",
        "name": "run-all", "condition": "Complete" }]);
    first.run.status.options.as_mut().unwrap().gates = serde_json::from_value(gate.clone()).unwrap();
    let mut hub = again(&first);
    hub.settle();
    assert!(
        hub.message("Initialized").ends_with(
            "client error: the update run run had gates, and its update strategy is gone: write them on this run"
        ),
        "{}",
        hub.message("Initialized")
    );
    let mut hub = again(&first);
    hub.set("gates", &gate.to_string());
    hub.settle();
    assert_eq!(hub.said()[0], "Initialized=True UpdateRunInitializedSuccessfully");
}

/// A run that may take back what it did: `a` was updated, `b` is under way, and both had something before.
fn with_a_way_back() -> Hub {
    let mut hub = Hub::new(&["a", "b"]);
    for cluster in ["a", "b"] {
        hub.had(cluster, "0");
    }
    hub.set("max-failures", "0").set("on-failure", "Rollback");
    hub.settle();
    hub.available("a");
    hub.settle();
    assert!(
        hub.stage(0).ends_with("a: Started, Succeeded | b: Started"),
        "{}",
        hub.stage(0)
    );
    hub
}

#[test]
fn a_retry_of_a_run_that_was_taken_over_leaves_alone_what_that_had_updated() {
    let mut first = with_a_way_back();
    first.take_over("b", "other");
    first.settle();
    assert_eq!(first.said()[2], "Succeeded=False UpdateRunFailed");
    // It was not rolled back, and somebody gave it something newer since.
    first.take_over("a", "other");
    let mut hub = again(&first);
    hub.settle();
    assert!(hub.stage(0).ends_with(" | b: Started"), "{}", hub.stage(0));
    assert_eq!(hub.binding("a").spec.resource_snapshot_name, "web-2-snapshot");
}

#[test]
fn a_retry_of_a_run_that_was_rolled_back_has_all_that_it_took_back() {
    let rolled_back = || {
        let mut first = with_a_way_back();
        first.later(300);
        assert_eq!(first.said()[1], "Progressing=True UpdateRunRollingBack");
        first.available("b");
        first.settle();
        assert_eq!(first.binding("a").spec.resource_snapshot_name, "web-0-snapshot");
        first
    };
    let mut whole = rolled_back();
    whole.available("a");
    whole.settle();
    // One whose end somebody cut short took back some.
    let mut partly = rolled_back();
    partly.placement = None;
    partly.settle();
    partly.later(20);
    for (first, end) in [
        (whole, "; rolled back 2 of 2 cluster(s)"),
        (partly, "parent placement not found"),
    ] {
        assert!(
            first.message("Succeeded").ends_with(end),
            "{}",
            first.message("Succeeded")
        );
        let mut hub = again(&first);
        hub.place("placement-uid");
        hub.settle();
        assert!(hub.stage(0).ends_with("a: Started | b: "), "{end}: {}", hub.stage(0));
    }
}

#[test]
fn what_an_unfinished_run_needs_stays() {
    let mut hub = Hub::new(&["a"]);
    hub.had("a", "0");
    hub.binding("a").spec.cluster_resource_override_snapshots = vec!["old-3".into()];
    let lists = Lists {
        cluster_wide: Vec::new(),
        namespaced: vec![NamespacedName {
            namespace: "shop".into(),
            name: "new-4".into(),
        }],
    };
    hub.overrides.insert("a".into(), Ok(lists));
    hub.set("on-failure", "Rollback");
    hub.settle();
    let view = |run: &RunObject| {
        let view = Run::of(&run.metadata, &run.spec, Some(&run.status));
        let overrides = needed_overrides(&view);
        let overrides: Vec<_> = overrides
            .iter()
            .map(|(of, name)| (of.unwrap_or("-").to_owned(), (*name).to_owned()))
            .collect();
        (needed_indexes(&[view]), overrides)
    };
    let overrides = [("-", "old-3"), ("shop", "new-4")].map(|(of, name)| (of.to_owned(), name.to_owned()));
    assert_eq!(view(&hub.run), (vec![0, 1], overrides.to_vec()));
    hub.available("a");
    hub.settle();
    assert_eq!(view(&hub.run), (vec![], vec![]), "it has ended");
    // One that is yet to try another again needs what that one rolled out.
    let ended = ended();
    let retry = again(&ended);
    let views = [&ended.run, &retry.run].map(|run| Run::of(&run.metadata, &run.spec, Some(&run.status)));
    assert_eq!(needed_indexes(&views), [1]);
}
