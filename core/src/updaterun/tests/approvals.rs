//! Approvals and waits around a stage.

use fleet_api::placement::UpdateRunState;
use serde_json::json;

use super::hub::{Hub, at, strategy};

#[expect(clippy::needless_pass_by_value, reason = "called with literals")]
fn hub(before: serde_json::Value, after: serde_json::Value) -> Hub {
    let mut hub = Hub::new(&["a"]);
    let stages = json!([{ "name": "s", "labelSelector": {}, "beforeStageTasks": before, "afterStageTasks": after }]);
    hub.strategy = Some(strategy(stages));
    hub
}

fn approval() -> serde_json::Value {
    json!([{ "type": "Approval" }])
}

#[test]
fn nothing_starts_before_the_approval() {
    let mut hub = hub(approval(), json!([]));
    hub.settle();
    assert_eq!(hub.written(), "status; ask run-before-s; status");
    assert_eq!(hub.stage(0), "Progressing=False StageUpdatingWaiting | a: ");
    assert_eq!(
        hub.message("Progressing"),
        "The updateRun is waiting for before-stage tasks in stage s to complete"
    );
    assert!(hub.run.status.stages_status[0].start_time.is_none());
    let request = &hub.approvals[0];
    assert_eq!(
        serde_json::to_value(&request.metadata.labels).unwrap(),
        json!({ "kubernetes-fleet.io/targetUpdateRun": "run", "kubernetes-fleet.io/targetUpdatingStage": "s",
            "kubernetes-fleet.io/taskType": "beforeStage", "kubernetes-fleet.io/isLatestUpdateRunApproval": "true" })
    );
    assert_eq!(
        serde_json::to_value(&request.spec).unwrap(),
        json!({ "parentStageRollout": "run", "targetStage": "s" })
    );
    assert_eq!(hub.look_again, None);
    hub.approve("run-before-s", 1);
    hub.settle();
    assert_eq!(hub.written(), "accept run-before-s; write a; stamp a; status");
    let told = hub.told();
    assert_eq!(
        told[1],
        "Normal UpdateRunApprovalNeeded: Stage s is waiting for run-before-s to be approved"
    );
    assert_eq!(
        told[2],
        "Normal UpdateRunApprovalAccepted: The approval run-before-s for stage s was accepted"
    );
}

#[test]
fn an_approval_of_another_generation_does_not_count_and_is_told() {
    let mut hub = hub(approval(), json!([]));
    hub.settle().told();
    hub.approve("run-before-s", 0);
    hub.later(5);
    hub.later(5);
    let text = "Warning UpdateRunApprovalStale: The approval of run-before-s is ignored: its Approved condition has \
                observedGeneration 0, want 1";
    assert_eq!(hub.told(), [text.to_owned(), format!("(on the request) {text}")]);
    hub.approve("run-before-s", 1);
    hub.settle();
    assert_eq!(hub.stage(0), "Progressing=True StageUpdatingStarted | a: Started");
}

#[test]
fn a_request_is_made_again_until_it_was_accepted() {
    let mut hub = hub(approval(), json!([]));
    hub.settle().written();
    hub.approvals.clear();
    hub.settle();
    assert_eq!(hub.written(), "ask run-before-s");
    hub.approve("run-before-s", 1);
    hub.settle().written();
    hub.approvals.clear();
    hub.later(10);
    assert_eq!(hub.written(), "");
}

#[test]
fn acceptance_counts_although_the_approval_was_taken_back() {
    let mut hub = hub(approval(), json!([]));
    hub.settle();
    hub.approve("run-before-s", 1);
    hub.written();
    hub.writes_left = 1;
    assert!(!hub.pass(), "crashed after the acceptance");
    hub.writes_left = usize::MAX;
    hub.approvals[0]
        .status
        .conditions
        .retain(|c| c.type_ == "ApprovalAccepted");
    hub.settle();
    assert_eq!(hub.written(), "accept run-before-s; write a; stamp a; status");
}

#[test]
fn a_request_for_something_else_ends_the_run() {
    let mut hub = hub(approval(), json!([]));
    let mut made = hub.clone();
    made.settle();
    hub.approvals = made.approvals;
    hub.approvals[0].spec.target_stage = "other".into();
    hub.approvals[0].spec.parent_stage_rollout = "theirs".into();
    hub.settle();
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the approval \
         request task `/run-before-s` is targeting update run `/theirs` and stage `other`, want target update run \
         `/run and stage `s`"
    );
    assert!(
        hub.stage(0)
            .starts_with("Progressing=False StageUpdatingFailed, Succeeded=False StageUpdatingFailed")
    );
    // There is a request of that name; nobody is asked to approve it.
    let task = &hub.run.status.stages_status[0].before_stage_task_status[0];
    let said: Vec<_> = task
        .conditions
        .iter()
        .map(|c| (c.type_.as_str(), c.status.as_str()))
        .collect();
    assert_eq!(said, [("ApprovalRequestCreated", "True")]);
    let told = hub.told();
    assert!(!told.iter().any(|line| line.contains("ApprovalNeeded")), "{told:?}");
}

#[test]
fn a_request_that_a_user_made_before_counts() {
    let mut hub = hub(approval(), json!([]));
    let mut made = hub.clone();
    made.settle();
    made.approve("run-before-s", 1);
    hub.approvals = made.approvals;
    hub.settle();
    assert_eq!(hub.written(), "status; accept run-before-s; write a; stamp a; status");
}

/// The stage says `Progressing=False` from the request for the approval on; what counts is when its cluster was done.
#[test]
fn a_wait_after_an_approval_counts_from_the_last_success_too() {
    let mut hub = hub(approval(), json!([{ "type": "TimedWait", "waitTime": "1h" }]));
    hub.had("a", "1");
    hub.settle();
    assert_eq!(hub.stage(0), "Progressing=False StageUpdatingWaiting | a: ");
    hub.now = 100;
    hub.approve("run-before-s", 1);
    hub.settle();
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingWaiting | a: Started, Succeeded"
    );
    assert_eq!(
        hub.run.status.stages_status[0].conditions[0].last_transition_time.0,
        at(0)
    );
    assert_eq!(hub.look_again, Some(at(3700)));
    hub.later(3599);
    assert!(hub.stage(0).starts_with("Progressing=False StageUpdatingWaiting"));
    hub.later(1);
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_wait_counts_from_the_last_success_and_the_approval_is_asked_for_at_once() {
    let tasks = json!([{ "type": "TimedWait", "waitTime": "1h" }, { "type": "Approval" }]);
    let mut hub = hub(json!([]), tasks);
    hub.settle();
    hub.now = 100;
    hub.available("a");
    hub.settle();
    assert!(hub.written().ends_with("ask run-after-s; status"));
    assert_eq!(
        hub.message("Progressing"),
        "The updateRun is waiting for after-stage tasks in stage s to complete"
    );
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingWaiting | a: Started, Succeeded"
    );
    assert_eq!(hub.look_again, Some(at(3700)));
    let since = hub.run.status.conditions[1].last_transition_time.clone();
    // Stopping neither restarts nor suspends it, and an approval is not accepted meanwhile.
    hub.now = 200;
    hub.set_state(UpdateRunState::Stop);
    hub.settle();
    hub.approve("run-after-s", 1);
    hub.later(3000);
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingStopped | a: Started, Succeeded"
    );
    assert!(!hub.written().contains("accept"));
    hub.set_state(UpdateRunState::Run);
    hub.settle();
    assert_eq!(hub.written(), "accept run-after-s; status");
    assert_eq!(
        hub.run.status.conditions[1].last_transition_time, since,
        "it was False all the time"
    );
    assert_eq!(hub.look_again, Some(at(3700)));
    assert!(
        hub.run.status.stages_status[0].after_stage_task_status[0]
            .conditions
            .is_empty()
    );
    hub.now = 3699;
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    hub.later(1);
    let stage = &hub.run.status.stages_status[0];
    assert_eq!(
        stage.after_stage_task_status[0].conditions[0].reason,
        "AfterStageTaskWaitTimeElapsed"
    );
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_stage_that_waits_has_begun_although_its_clusters_had_it_already() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.available("a");
    hub.settle();
    hub.run = Hub::new(&[]).run;
    hub.run.metadata.uid = Some("again-uid".into());
    let tasks = json!([{ "type": "TimedWait", "waitTime": "1h" }]);
    hub.strategy = Some(strategy(
        json!([{ "name": "s", "labelSelector": {}, "afterStageTasks": tasks }]),
    ));
    hub.now = 100;
    hub.settle();
    let times = |hub: &Hub| {
        let stage = &hub.run.status.stages_status[0];
        [&stage.start_time, &stage.end_time].map(|time| time.as_ref().map(|time| time.0))
    };
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingWaiting | a: Started, Succeeded"
    );
    assert_eq!(times(&hub), [Some(at(100)), None]);
    hub.later(3600);
    assert_eq!(times(&hub), [Some(at(100)), Some(at(3700))]);
}

#[test]
fn a_request_that_could_not_be_made_is_not_said_to_be() {
    let mut hub = hub(approval(), json!([]));
    hub.refused.approvals.insert("run-before-s".into());
    hub.settle();
    assert!(
        hub.run.status.stages_status[0].before_stage_task_status[0]
            .conditions
            .is_empty()
    );
    hub.refused.approvals.clear();
    hub.settle();
    hub.approve("run-before-s", 1);
    hub.refused.approvals.insert("run-before-s".into());
    hub.settle().written();
    assert_eq!(hub.stage(0), "Progressing=False StageUpdatingWaiting | a: ");
}
