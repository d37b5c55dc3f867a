//! Another try, an approved plan, and the end of runs that have ended.

use fleet_api::placement::UpdateRunStatus;
use jiff::SignedDuration;
use serde_json::json;

use super::hub::{Hub, at, strategy};
use crate::updaterun::{Memory, Outline, Run, expires};

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
