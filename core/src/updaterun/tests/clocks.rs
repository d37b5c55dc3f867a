//! Clocks that are put forward and back under a run. What is measured goes on as if nothing had happened.

use fleet_api::placement::UpdateRunState::{Run, Stop};
use serde_json::json;

use super::hub::{Hub, at, strategy};
use crate::updaterun::Memory;

const HOUR: i64 = 3600;

/// One cluster that is done, and a wait of a minute after it.
fn waiting() -> Hub {
    let mut hub = Hub::new(&["a"]);
    let wait = json!([{ "type": "TimedWait", "waitTime": "1m" }]);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "afterStageTasks": wait }]),
    ));
    hub.settle();
    hub.available("a");
    hub.settle();
    assert_eq!(hub.look_again, Some(at(60)));
    hub
}

fn has_ended(hub: &Hub) -> bool {
    hub.said()
        .last()
        .is_some_and(|line| line == "Succeeded=True UpdateRunSucceeded")
}

#[test]
fn a_wait_ends_neither_early_nor_late() {
    for step in [HOUR, -HOUR] {
        let mut hub = waiting();
        hub.later(20);
        hub.step_clock(step);
        assert!(!has_ended(&hub), "by {step}");
        assert_eq!(hub.look_again, Some(at(hub.now + 40)), "by {step}");
        hub.later(39);
        assert!(!has_ended(&hub), "by {step}");
        hub.later(1);
        assert!(has_ended(&hub), "by {step}");
    }
}

#[test]
fn a_wait_goes_on_evenly_while_the_run_is_stopped() {
    let mut hub = waiting();
    hub.set_state(Stop);
    hub.later(20);
    hub.step_clock(HOUR);
    hub.set_state(Run);
    hub.later(39);
    assert!(!has_ended(&hub));
    hub.later(1);
    assert!(has_ended(&hub));
}

#[test]
fn after_a_restart_a_wait_lasts_no_longer_than_it_was_to() {
    let mut hub = waiting();
    // Nobody has seen how the clock was set back.
    hub.memory = Memory::default();
    hub.step_clock(-HOUR);
    assert_eq!(hub.look_again, Some(at(hub.now + 60)));
    hub.later(60);
    assert!(has_ended(&hub));
}

#[test]
fn the_threshold_is_reached_neither_early_nor_late() {
    for step in [HOUR, -HOUR] {
        let mut hub = Hub::new(&["a"]);
        hub.settle();
        hub.later(100);
        hub.step_clock(step);
        assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing", "by {step}");
        assert_eq!(hub.look_again, Some(at(hub.now + 200)), "by {step}");
        hub.later(199);
        assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing", "by {step}");
        hub.later(1);
        assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck", "by {step}");
        // Nor is a cluster that is stuck suddenly not so.
        hub.step_clock(-step);
        assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck", "by {step}");
    }
}

#[test]
fn a_stop_ends_neither_early_nor_late() {
    for step in [HOUR, -HOUR] {
        let mut hub = Hub::new(&["a"]);
        hub.settle();
        hub.set_state(Stop);
        hub.later(100);
        hub.step_clock(step);
        assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping", "by {step}");
        hub.later(200);
        assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped", "by {step}");
    }
}

#[test]
fn a_deletion_is_stuck_neither_early_nor_late() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.unschedule("b");
    hub.settle();
    hub.available("a");
    hub.settle();
    hub.step_clock(HOUR);
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing");
    hub.later(300);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck");
}

#[test]
fn an_edit_of_the_placement_and_what_is_missing_have_their_time() {
    for step in [HOUR, -HOUR] {
        let mut hub = Hub::new(&["a"]);
        hub.settle();
        let placement = hub.placement.take();
        hub.settle();
        hub.step_clock(step);
        hub.later(14);
        assert_eq!(hub.said().len(), 2, "it may still be taken back, by {step}");
        hub.placement = placement;
        hub.available("a");
        hub.settle();
        assert!(has_ended(&hub), "by {step}");

        let mut hub = Hub::new(&["a"]);
        let plan = hub.strategy.take();
        hub.settle();
        hub.step_clock(step);
        hub.later(9);
        assert!(hub.said().is_empty(), "it may still come, by {step}");
        hub.strategy = plan;
        hub.settle();
        assert_eq!(hub.said()[0], "Initialized=True UpdateRunInitializedSuccessfully");
    }
}
