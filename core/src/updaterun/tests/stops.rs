//! Stop and resume.

use fleet_api::placement::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::hub::{Hub, at, strategy};

#[test]
fn created_with_stop_it_is_initialized_and_stopped_in_one_write() {
    let mut hub = Hub::new(&["a"]);
    hub.run.spec.state = Stop;
    hub.settle();
    assert_eq!(hub.written(), "status");
    assert_eq!(
        hub.said(),
        [
            "Initialized=True UpdateRunInitializedSuccessfully",
            "Progressing=False UpdateRunStopped"
        ]
    );
    assert_eq!(hub.stage(0), "Progressing=False StageUpdatingStopped | a: ");
    hub.set_state(Run);
    hub.settle();
    assert_eq!(hub.written(), "write a; stamp a; status");
    assert!(
        hub.told()
            .contains(&"Normal UpdateRunResumed: The update run has been resumed".to_owned())
    );
}

#[test]
fn what_is_under_way_is_waited_for_and_nothing_new_begins() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle().written();
    hub.set_state(Stop);
    hub.settle();
    assert_eq!(hub.written(), "status");
    assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping");
    assert_eq!(
        hub.stage(0),
        "Progressing=Unknown StageUpdatingStopping | a: Started | b: "
    );
    assert_eq!(hub.look_again, Some(at(300)));
    hub.available("a");
    hub.settle();
    assert_eq!(hub.written(), "status");
    assert_eq!(hub.message("Progressing"), "The update run has been stopped");
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingStopped | a: Started, Succeeded | b: "
    );
    // A stopped run is not checked.
    let placement = hub.placement.take();
    hub.later(1000);
    assert_eq!(hub.written(), "");
    hub.placement = placement;
    hub.set_state(Run);
    hub.settle();
    assert_eq!(hub.written(), "write b; stamp b; status");
}

#[test]
fn a_stop_ends_at_the_threshold_and_names_who_is_still_updating() {
    let mut hub = Hub::new(&["a", "b", "c", "d"]);
    hub.strategy = Some(strategy(
        json!([{ "name": "s", "labelSelector": {}, "maxConcurrency": 4 }]),
    ));
    hub.settle();
    hub.unavailable("a");
    hub.set_state(Stop);
    hub.settle().told();
    hub.later(300);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    assert_eq!(
        hub.run.status.stages_status[0].conditions[0].message,
        "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed; still \
         updating: a, b, c..."
    );
    let told = hub.told();
    assert!(
        told[0]
            .starts_with("Warning UpdateRunStuck: The update run was stopped with clusters still updating in stage s")
            && told[0].contains("a (binding web-a-001): Available=False NotAllWorkAreAvailable"),
        "{told:?}"
    );
    assert_eq!(told[1], "Normal UpdateRunStopped: The update run has been stopped");
    hub.set_state(Run);
    hub.settle();
    // At once, although no other cluster starts; the time counts from the start.
    assert!(hub.stage(0).starts_with("Progressing=True StageUpdatingStarted"));
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck");
}

#[test]
fn other_content_ends_a_stopping_run_too() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.set_state(Stop);
    hub.settle();
    hub.take_over("a", "other");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=False UpdateRunFailed");
    assert!(hub.stage(0).contains("a: Started, Failed"));
}

#[test]
fn a_stopping_run_stamps_again_and_skips() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.strategy = Some(strategy(
        json!([{ "name": "s", "labelSelector": {}, "maxConcurrency": 2 }]),
    ));
    hub.settle();
    hub.set_state(Stop);
    hub.settle().written();
    hub.binding("a").touch();
    hub.unschedule("b");
    hub.settle();
    assert_eq!(hub.written(), "stamp a; status");
    assert!(hub.stage(0).contains("b: Started, SkippedNotSelected"));
    hub.available("a");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
}

#[test]
fn the_deletion_stage_stops_without_deleting() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.unschedule("b");
    hub.settle();
    hub.set_state(Stop);
    hub.available("a");
    hub.settle();
    hub.set_state(Run);
    hub.pass();
    assert!(hub.stage(0).contains("Succeeded=True"));
    hub.set_state(Stop);
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    assert_eq!(hub.stage(1), "Progressing=False StageUpdatingStopped | b: ");
    assert!(!hub.written().contains("delete"));
    hub.set_state(Run);
    hub.settle();
    assert_eq!(hub.written(), "delete b; status");
    hub.set_state(Stop);
    hub.settle();
    assert_eq!(hub.stage(1), "Progressing=Unknown StageUpdatingStopping | b: Started");
    hub.remove_binding("b");
    hub.settle();
    assert_eq!(
        hub.stage(1),
        "Progressing=False StageUpdatingStopped | b: Started, Succeeded"
    );
    hub.set_state(Run);
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_stop_waits_for_a_cluster_that_works_no_longer_than_the_threshold() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.set("min-success-time", "1h");
    hub.settle();
    hub.available("a");
    hub.later(310);
    assert_eq!(
        hub.said()[1],
        "Progressing=True UpdateRunProgressing",
        "it works: it is not stuck"
    );
    let mut at_once = hub.clone();
    at_once.set_state(Stop);
    at_once.settle();
    assert_eq!(at_once.said()[1], "Progressing=False UpdateRunStopped");
    let mut hub = Hub::new(&["a", "b"]);
    hub.set("min-success-time", "1h");
    hub.settle();
    hub.available("a");
    hub.set_state(Stop);
    hub.settle().told();
    assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping");
    assert_eq!(hub.look_again, Some(at(300)));
    hub.later(300);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    let stage = &hub.run.status.stages_status[0].conditions[0];
    assert!(stage.message.ends_with("; still updating: a"), "{}", stage.message);
    let told = hub.told();
    assert!(
        told[0].ends_with("a (binding web-a-001): Available=True for too short a time"),
        "{told:?}"
    );
    // It goes on with it, and its time has counted all along.
    hub.set_state(Run);
    hub.later(3300);
    assert!(
        hub.stage(0).contains("a: Started, Succeeded | b: Started"),
        "{}",
        hub.stage(0)
    );
}
