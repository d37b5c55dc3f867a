//! The plan is pinned: members that join, leave or change cannot break a run.

use fleet_api::placement::{BindingState, UpdateRunState};
use serde_json::json;

use super::hub::{Hub, strategy};

const SKIPPED: &str = "Cluster skipped because it is no longer selected by the placement";

#[test]
fn a_cluster_picked_later_is_left_to_the_next_run_and_named_once() {
    let mut hub = Hub::new(&["a"]);
    hub.settle().told();
    hub.member("b", &[]);
    hub.pick("b");
    hub.later(5);
    hub.later(5);
    assert_eq!(
        hub.told(),
        [
            "Normal UpdateRunClustersNotIncluded: 1 cluster(s) picked after the run was initialized are left to the \
             next run: b"
        ]
    );
    hub.available("a");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
    assert_eq!(hub.binding("b").spec.state, BindingState::Scheduled);
}

#[test]
fn a_cluster_under_way_that_is_gone_is_skipped_and_frees_its_slot() {
    for how in ["unscheduled", "deleting", "gone", "made anew", "picked again"] {
        let mut hub = Hub::new(&["a", "b"]);
        hub.settle().told();
        match how {
            "unscheduled" => hub.unschedule("a"),
            "deleting" => {
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(super::hub::at(0));
                hub.binding("a").metadata.deletion_timestamp = Some(now);
            }
            "gone" => hub.remove_binding("a"),
            "made anew" => {
                hub.remove_binding("a");
                hub.pick("a");
            }
            _ => {
                hub.unschedule("a");
                hub.restore("a");
            }
        }
        hub.written();
        hub.settle();
        assert_eq!(hub.written(), "write b; stamp b; status", "{how}");
        assert!(
            hub.stage(0).contains("a: Started, SkippedNotSelected | b: Started"),
            "{how}: {}",
            hub.stage(0)
        );
        assert!(
            hub.told().contains(&format!(
                "Normal UpdateRunClusterSkipped: Cluster a in stage all: {SKIPPED}"
            )),
            "{how}"
        );
    }
}

#[test]
fn a_cluster_that_left_before_its_turn_is_skipped_at_its_turn() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.settle();
    hub.unschedule("b");
    hub.settle();
    assert!(
        hub.stage(0).ends_with("| b:  | c: "),
        "it may be back: {}",
        hub.stage(0)
    );
    hub.available("a");
    hub.settle();
    assert!(hub.stage(0).ends_with("b: SkippedNotSelected | c: Started"));
    // Picked again, it stays skipped and counts as not included.
    hub.told();
    hub.restore("b");
    hub.available("c");
    hub.settle();
    assert!(hub.told()[0].ends_with("left to the next run: b"));
    assert!(hub.stage(0).contains("b: SkippedNotSelected"));
}

#[test]
fn a_cluster_may_leave_and_be_back_while_its_stage_waits_for_an_approval() {
    for (back, ends) in [
        (false, "a: SkippedNotSelected | b: Started"),
        (true, "a: Started | b: "),
    ] {
        let mut hub = Hub::new(&["a", "b"]);
        let tasks = json!([{ "type": "Approval" }]);
        hub.strategy = Some(strategy(
            json!([{ "name": "s", "labelSelector": {}, "beforeStageTasks": tasks }]),
        ));
        hub.settle().written();
        hub.remove_binding("a");
        hub.settle();
        if back {
            hub.pick("a");
            hub.settle();
        }
        assert_eq!(hub.written(), "", "it goes on waiting");
        assert_eq!(hub.stage(0), "Progressing=False StageUpdatingWaiting | a:  | b: ");
        hub.approve("run-before-s", 1);
        hub.settle();
        assert!(hub.stage(0).ends_with(ends), "{}", hub.stage(0));
    }
}

#[test]
fn a_cluster_that_is_gone_does_not_keep_a_run_from_stopping() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.set_state(UpdateRunState::Stop);
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping");
    hub.remove_binding("a");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    assert!(hub.stage(0).ends_with("a: Started, SkippedNotSelected | b: "));
    // Back meanwhile, it waits for the next run.
    hub.pick("a");
    hub.set_state(UpdateRunState::Run);
    hub.settle();
    assert!(hub.stage(0).ends_with("a: Started, SkippedNotSelected | b: Started"));
    assert_eq!(hub.binding("a").spec.state, BindingState::Scheduled);
}

#[test]
fn a_cluster_to_be_left_may_be_gone_or_back_before_its_stage_and_while_stopping() {
    for (stopping, back, ends) in [
        (false, false, "z: Started, Succeeded"),
        (false, true, "z: SkippedSelected"),
        (true, false, "z: Started, Succeeded"),
        (true, true, "z: SkippedSelected"),
    ] {
        let mut hub = Hub::new(&["a", "z"]);
        hub.unschedule("z");
        hub.settle();
        hub.available("a");
        if stopping {
            // Up to the end of the stage before, and no further.
            hub.pass();
            hub.set_state(UpdateRunState::Stop);
            hub.settle();
            assert_eq!(hub.stage(1), "Progressing=False StageUpdatingStopped | z: ");
        }
        hub.remove_binding("z");
        if back {
            hub.pick("z");
        }
        hub.set_state(UpdateRunState::Run);
        hub.settle();
        assert!(hub.stage(1).ends_with(ends), "{stopping} {back}: {}", hub.stage(1));
        assert!(!hub.written().contains("delete"), "{stopping} {back}");
        assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
    }
}

#[test]
fn a_cluster_that_is_back_before_its_turn_is_updated() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.unschedule("b");
    hub.settle();
    hub.restore("b");
    hub.available("a");
    hub.settle();
    assert!(hub.stage(0).ends_with("b: Started"));
    hub.available("b");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_cluster_that_left_after_it_succeeded_stays_succeeded() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.available("a");
    hub.settle();
    hub.remove_binding("a");
    hub.available("b");
    hub.settle();
    assert!(hub.stage(0).ends_with("a: Started, Succeeded | b: Started, Succeeded"));
}

#[test]
fn a_stage_all_of_whose_clusters_are_gone_is_as_an_empty_one() {
    let mut hub = Hub::new(&["a"]);
    let tasks = json!([{ "type": "Approval" }]);
    hub.strategy = Some(strategy(
        json!([{ "name": "s", "labelSelector": {}, "afterStageTasks": tasks }]),
    ));
    hub.settle();
    hub.unschedule("a");
    hub.settle();
    assert_eq!(
        hub.stage(0),
        "Progressing=False StageUpdatingSkippedNoClusters, Succeeded=True StageUpdatingSkippedNoClusters \
         | a: Started, SkippedNotSelected"
    );
    assert!(hub.approvals.is_empty());
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn labels_and_scheduling_do_not_matter_any_more() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.members.clear();
    hub.strategy = None;
    hub.policies[0].status.conditions.clear();
    hub.available("a");
    hub.later(100);
    hub.available("b");
    hub.later(100);
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}
