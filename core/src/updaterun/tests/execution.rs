//! Stages and clusters while a run runs.

use serde_json::json;

use super::hub::{Hub, at, strategy};
use fleet_api::conditions;
use fleet_api::conditions::binding::DiffReported;
use fleet_api::placement::BindingState;

#[test]
fn a_run_goes_through_its_stages_and_succeeds() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.member("a", &[("env", "canary")]);
    hub.strategy = Some(strategy(json!([
        { "name": "canary", "labelSelector": { "matchLabels": { "env": "canary" } } },
        { "name": "rest", "maxConcurrency": 2,
          "labelSelector": { "matchExpressions": [{ "key": "env", "operator": "DoesNotExist" }] } },
    ])));
    hub.settle();
    assert_eq!(hub.written(), "status; write a; stamp a; status");
    hub.available("a");
    hub.settle();
    // The end of the first stage is stored before the second begins.
    assert_eq!(hub.written(), "status; write b; stamp b; write c; stamp c; status");
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingSucceeded, Succeeded=True StageUpdatingSucceeded | a: Started, Succeeded"
    );
    hub.available("b");
    hub.available("c");
    hub.settle();
    assert_eq!(
        hub.said(),
        [
            "Initialized=True UpdateRunInitializedSuccessfully",
            "Progressing=False UpdateRunSucceeded",
            "Succeeded=True UpdateRunSucceeded"
        ]
    );
    assert_eq!(
        hub.stage(2),
        "Progressing=False StageUpdatingSucceeded, Succeeded=True StageUpdatingSucceeded"
    );
    let deletion = hub.run.status.deletion_stage_status.as_ref().unwrap();
    assert!(deletion.clusters.is_empty() && deletion.start_time.is_some());
    assert_eq!(
        deletion.end_time, deletion.start_time,
        "nothing to delete: it has both times"
    );
    assert_eq!(hub.written(), "status; status");
    assert_eq!(
        hub.told(),
        [
            "Normal UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully",
            "Normal StageUpdatingStarted: Stage canary: Clusters in the stage started updating",
            "Normal StageUpdatingSucceeded: Stage canary: Stage update completed successfully",
            "Normal StageUpdatingStarted: Stage rest: Clusters in the stage started updating",
            "Normal StageUpdatingSucceeded: Stage rest: Stage update completed successfully",
            "Normal StageUpdatingSucceeded: Stage kubernetes-fleet.io/deleteStage: Stage update completed successfully",
            "Normal UpdateRunSucceeded: All stages are completed successfully",
        ]
    );
    let spec = hub.binding("a").spec.clone();
    assert_eq!(spec.state, BindingState::Bound);
    assert_eq!(spec.resource_snapshot_name, "web-1-snapshot");
    assert!(spec.apply_strategy.is_some());
    let binding = hub.binding("a");
    assert_eq!(
        binding.metadata.annotations.as_ref().unwrap()["kubernetes-fleet.io/update-run"],
        "run/run-uid"
    );
    let started = conditions::find(&binding.status.conditions, "RolloutStarted").unwrap();
    assert_eq!(
        started.message,
        "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 1, \
         updateRun: run"
    );
    assert_eq!(started.observed_generation, Some(2));
}

#[test]
fn with_the_next_run_the_rollout_has_started_anew() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.available("a");
    hub.settle();
    hub.run = Hub::new(&[]).run;
    hub.run.metadata.name = Some("next".into());
    hub.run.metadata.uid = Some("next-uid".into());
    hub.run.spec.resource_snapshot_index = "2".into();
    hub.snapshots.insert("2".into(), Some("placement-uid".into()));
    hub.now = 100;
    hub.settle();
    let started = conditions::find(&hub.binding("a").status.conditions, "RolloutStarted").unwrap();
    assert!(
        started.message.ends_with("resourceSnapshotIndex: 2, updateRun: next"),
        "{}",
        started.message
    );
    // It was True all the time.
    assert_eq!(started.last_transition_time.0, at(100));
    let cluster = &hub.run.status.stages_status[0].clusters[0];
    assert_eq!(cluster.conditions[0].last_transition_time.0, at(100));
}

#[test]
fn a_finished_run_is_never_written_again() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.available("a");
    hub.settle().written();
    hub.set_state(fleet_api::placement::UpdateRunState::Stop);
    hub.take_over("a", "other");
    hub.placement = None;
    hub.later(1000);
    assert_eq!(hub.written(), "");
}

#[test]
fn the_next_cluster_starts_with_the_write_that_tells_of_the_last() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.settle().written();
    assert_eq!(hub.binding("b").spec.state, BindingState::Scheduled);
    hub.available("a");
    hub.settle();
    assert_eq!(hub.written(), "write b; stamp b; status");
    assert_eq!(
        hub.stage(0),
        "Progressing=True StageUpdatingStarted | a: Started, Succeeded | b: Started | c: "
    );
    // Nothing has happened: nothing is written.
    hub.later(10);
    assert_eq!(hub.written(), "");
}

#[test]
fn a_cluster_that_has_it_already_succeeds_without_a_write() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.available("a");
    hub.settle();
    hub.available("b");
    hub.settle().written();
    let mut again = hub.clone();
    again.run = Hub::new(&[]).run;
    again.run.metadata.name = Some("again".into());
    again.run.metadata.uid = Some("again-uid".into());
    again.settle();
    assert_eq!(again.written(), "status; status; status");
    assert_eq!(
        again.stage(0),
        "Progressing=False StageUpdatingSucceeded, Succeeded=True StageUpdatingSucceeded | a: Started, Succeeded \
         | b: Started, Succeeded"
    );
    assert!(again.run.status.stages_status[0].start_time.is_some());
}

#[test]
fn a_cluster_that_has_it_already_but_is_broken_is_started_and_gets_stuck() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.unavailable("a");
    hub.run = Hub::new(&[]).run;
    hub.run.metadata.uid = Some("again-uid".into());
    hub.settle().written();
    assert_eq!(hub.stage(0), "Progressing=True StageUpdatingStarted | a: Started");
    assert_eq!(hub.look_again, Some(at(300)));
    hub.later(300);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck");
}

#[test]
fn stuck_is_said_at_the_threshold_and_taken_back() {
    let mut hub = Hub::new(&["a", "b", "c", "d", "e"]);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": 4 }]),
    ));
    hub.settle().told();
    hub.unavailable("a");
    assert_eq!(hub.look_again, Some(at(300)));
    hub.later(299);
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing");
    hub.later(1);
    assert_eq!(
        hub.message("Progressing"),
        "The updateRun is stuck waiting for a, b, c... cluster(s) in stage all to finish updating, please check \
         placement status for potential errors"
    );
    assert_eq!(
        hub.told(),
        [
            "Warning UpdateRunStuck: The updateRun is stuck waiting for a, b, c... cluster(s) in stage all to finish \
             updating, please check placement status for potential errors; \
             a (binding web-a-001): Available=False NotAllWorkAreAvailable, \
             b (binding web-b-002): nothing reported yet, c (binding web-c-003): nothing reported yet, \
             d (binding web-d-004): nothing reported yet"
        ]
    );
    assert!(hub.stage(0).starts_with("Progressing=True StageUpdatingStarted"));
    hub.later(10);
    assert!(hub.told().is_empty(), "told once");
    for cluster in ["a", "b", "c", "d"] {
        hub.available(cluster);
    }
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing");
}

#[test]
fn differences_end_a_cluster_only_when_they_are_reported() {
    let mut hub = Hub::new(&["a"]);
    let strategy = json!({ "type": "External", "applyStrategy": { "type": "ReportDiff" } });
    hub.placement.as_mut().unwrap().spec.strategy = serde_json::from_value(strategy).unwrap();
    hub.settle();
    hub.report("a", &DiffReported::Failed { work: "w".into() });
    hub.later(300);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck");
    hub.report("a", &DiffReported::AllReported);
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_share_is_of_the_stages_clusters() {
    let names: Vec<_> = (0..10).map(|i| format!("c{i}")).collect();
    let mut hub = Hub::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": "33%" }]),
    ));
    hub.settle();
    assert_eq!(
        hub.written(),
        "status; write c0; stamp c0; write c1; stamp c1; write c2; stamp c2; status"
    );
    hub.available("c1");
    hub.settle();
    assert_eq!(hub.written(), "write c3; stamp c3; status");
}

#[test]
fn an_empty_stage_is_skipped_with_its_tasks() {
    let mut hub = Hub::new(&["a"]);
    hub.strategy = Some(strategy(json!([
        { "name": "none", "beforeStageTasks": [{ "type": "Approval" }], "afterStageTasks": [{ "type": "Approval" }] },
        { "name": "all", "labelSelector": {} },
    ])));
    hub.settle();
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingSkippedNoClusters, Succeeded=True StageUpdatingSkippedNoClusters"
    );
    let stage = &hub.run.status.stages_status[0];
    assert!(stage.start_time.is_some() && stage.end_time == stage.start_time);
    assert!(hub.approvals.is_empty());
    assert_eq!(hub.written(), "status; status; write a; stamp a; status");
}

#[test]
fn a_write_by_the_scheduler_is_stamped_again_with_sentence_and_time() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    let before = hub.binding("a").status.conditions[0].clone();
    hub.now = 50;
    hub.binding("a").spec.state = BindingState::Scheduled;
    hub.binding("a").touch();
    hub.settle();
    let binding = hub.binding("a");
    assert_eq!(binding.spec.state, BindingState::Bound);
    let after = binding.status.conditions[0].clone();
    assert_eq!(after.observed_generation, Some(4));
    assert_eq!(
        (&after.message, &after.last_transition_time),
        (&before.message, &before.last_transition_time)
    );
    // By hand: the condition is gone, and made again from the run.
    hub.binding("a").status.conditions.clear();
    hub.settle();
    let again = &hub.binding("a").status.conditions[0];
    assert_eq!(
        (&again.message, &again.last_transition_time),
        (&before.message, &before.last_transition_time)
    );
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing");
}

#[test]
fn other_content_ends_the_run() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle().told();
    hub.take_over("a", "other");
    hub.settle();
    let text = "failed to process the request due to a client error: the binding of the updating cluster `a` in the \
                stage `all` is not up-to-date with the desired status, please check the status of binding \
                `web-a-001` and see if there is a concurrent updateRun referencing the same placement and updating \
                the same cluster";
    assert_eq!(
        hub.message("Succeeded"),
        format!("cannot continue the updateRun: {text}")
    );
    let stage = &hub.run.status.stages_status[0];
    assert_eq!(
        conditions::find(&stage.conditions, "Succeeded").unwrap().message,
        hub.message("Succeeded")
    );
    assert_eq!(
        conditions::find(&stage.clusters[0].conditions, "Succeeded")
            .unwrap()
            .message,
        text
    );
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingFailed, Succeeded=False StageUpdatingFailed | a: Started, Failed | b: "
    );
    assert_eq!(
        hub.message("Progressing"),
        "The stages are aborted due to a non-recoverable error"
    );
    assert_eq!(
        hub.told()[0],
        "Warning UpdateRunPreempted: Cluster a in stage all was taken over by update run other (resourceSnapshotIndex \
         2)"
    );
}

#[test]
fn a_namespaced_run_names_its_objects_with_the_namespace() {
    let mut hub = Hub::new(&["a"]);
    hub.run.metadata.namespace = Some("app".into());
    let mut lacking = hub.clone();
    lacking.strategy = None;
    lacking.settle();
    lacking.later(10);
    assert!(
        lacking
            .message("Initialized")
            .ends_with("referenced updateStrategy not found: `app/plan`")
    );
    hub.settle();
    hub.take_over("a", "other");
    hub.settle();
    assert!(
        hub.message("Succeeded")
            .contains("check the status of binding `app/web-a-001` and see")
    );
}

#[test]
fn several_causes_are_told_as_one() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": 2 }]),
    ));
    hub.settle();
    hub.take_over("a", "other");
    hub.take_over("b", "other");
    hub.settle();
    let text = hub.message("Succeeded");
    assert!(text.starts_with("[cannot continue the updateRun: "), "{text}");
    assert!(
        text.ends_with(']') && text.matches("cannot continue").count() == 2,
        "{text}"
    );
}

#[test]
fn two_runs_with_one_content_both_succeed() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    let mut other = hub.clone();
    other.run = Hub::new(&[]).run;
    other.run.metadata.uid = Some("other-uid".into());
    other.settle();
    hub.bindings.clone_from(&other.bindings);
    hub.available("a");
    other.available("a");
    assert_eq!(hub.settle().said()[2], "Succeeded=True UpdateRunSucceeded");
    assert_eq!(other.settle().said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn what_could_not_be_written_is_not_said_to_be() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": 2 }]),
    ));
    hub.refused.bindings.insert("web-a-001".into());
    hub.settle();
    assert_eq!(hub.written(), "status; write b; stamp b; status");
    assert_eq!(
        hub.stage(0),
        "Progressing=True StageUpdatingStarted | a:  | b: Started | c: "
    );
    hub.refused.bindings.clear();
    hub.settle();
    assert_eq!(hub.written(), "write a; stamp a; status");
}

#[test]
fn every_condition_carries_the_generation_of_the_last_write() {
    use fleet_api::placement::UpdateRunState::{Initialize, Run, Stop};
    let mut hub = Hub::new(&["a", "b"]);
    hub.run.spec.state = Initialize;
    hub.settle();
    assert_eq!(hub.said(), ["Initialized=True UpdateRunInitializedSuccessfully"]);
    let initialized = hub.run.status.conditions[0].last_transition_time.clone();
    hub.now = 100;
    for state in [Run, Stop, Run] {
        hub.set_state(state);
        hub.settle();
        let generation = Some(hub.run.generation());
        assert!(
            hub.every_condition()
                .iter()
                .all(|c| c.observed_generation == generation)
        );
    }
    assert_eq!(hub.run.status.conditions[0].last_transition_time, initialized);
    // An edit that changes nothing is told with the next write; here it is one.
    hub.available("a");
    hub.settle();
    hub.available("b");
    hub.settle();
    assert!(hub.every_condition().iter().all(|c| c.observed_generation == Some(4)));
}

/// A run that has found on `a` what it wanted, signed by the one before, and that one.
fn found_there() -> Hub {
    let mut hub = Hub::new(&["a"]);
    hub.had("a", "1");
    hub.unavailable("a");
    let mut before = Hub::new(&[]).run;
    before.metadata.name = Some("before".into());
    before.metadata.uid = Some("before-uid".into());
    before.status.resource_snapshot_index_used = "1".into();
    let list = &mut before.status.conditions;
    conditions::set(
        list,
        &fleet_api::conditions::update_run::Initialized::Succeeded,
        1,
        at(0),
    );
    conditions::set(list, &fleet_api::conditions::update_run::Succeeded::Succeeded, 1, at(5));
    hub.others.push(before);
    hub.now = 10;
    hub.settle();
    assert_eq!(hub.written(), "status; status");
    assert_eq!(hub.stage(0), "Progressing=True StageUpdatingStarted | a: Started");
    hub.told();
    hub
}

/// Somebody gives `a` another snapshot; whether it is stamped for that before the run looks.
fn edit(hub: &mut Hub, stamped: bool) {
    let now = at(hub.now + 10);
    let binding = hub.binding("a");
    binding.spec.resource_snapshot_name = "web-2-snapshot".into();
    binding.touch();
    if stamped {
        let view = hub.view_bindings();
        let stamp = crate::updaterun::restamp("web", &view[0], now).unwrap();
        assert!(stamp.message.ends_with("updateRun: before"), "{stamp:?}");
        assert_eq!(stamp.last_transition_time.0, now);
        conditions::replace(&mut hub.binding("a").status.conditions, stamp);
    }
    hub.later(10);
}

#[test]
fn an_earlier_run_is_not_blamed_for_what_somebody_edits_by_hand() {
    let by_hand = "Warning UpdateRunPreempted: Cluster a in stage all was given other content (resourceSnapshotIndex 2), not \
                   by an update run";
    for (stamped, run_is_there) in [(false, true), (false, false), (true, true)] {
        let mut hub = found_there();
        if !run_is_there {
            hub.others.clear();
        }
        edit(&mut hub, stamped);
        let told = hub.told();
        assert!(
            told.iter().any(|line| line == by_hand),
            "{stamped} {run_is_there}: {told:?}"
        );
    }
    // It had ended before this one began, whatever it has in store.
    let mut hub = found_there();
    hub.others[0].status.resource_snapshot_index_used = "2".into();
    edit(&mut hub, true);
    let told = hub.told();
    assert!(told.iter().any(|line| line == by_hand), "{told:?}");
    // It goes on, and has this in store: it may well have done it.
    let mut hub = found_there();
    hub.others[0].status.resource_snapshot_index_used = "2".into();
    conditions::remove(&mut hub.others[0].status.conditions, "Succeeded");
    edit(&mut hub, true);
    let told = hub.told();
    let taken = "was taken over by update run before (resourceSnapshotIndex 2)";
    assert!(told.iter().any(|line| line.ends_with(taken)), "{told:?}");
}
