//! The deletion stage.

use serde_json::json;

use super::hub::{Hub, at, strategy};

#[test]
fn clusters_that_are_no_longer_picked_are_left_last() {
    let mut hub = Hub::new(&["z", "a", "b"]);
    hub.unschedule("z");
    hub.unschedule("b");
    hub.settle();
    hub.available("a");
    hub.settle();
    assert!(hub.written().ends_with("delete b; delete z; status"));
    assert_eq!(
        hub.stage(1),
        "Progressing=True StageUpdatingStarted | b: Started | z: Started"
    );
    hub.remove_binding("b");
    hub.settle();
    assert_eq!(hub.written(), "status");
    hub.later(300);
    assert_eq!(
        hub.message("Progressing"),
        "The updateRun is stuck waiting for z cluster(s) in stage kubernetes-fleet.io/deleteStage to finish updating, \
         please check placement status for potential errors"
    );
    hub.remove_binding("z");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_run_may_only_delete() {
    let mut hub = Hub::new(&["a"]);
    hub.unschedule("a");
    hub.strategy = Some(strategy(json!([])));
    hub.settle();
    assert_eq!(hub.written(), "status; delete a; status");
    hub.remove_binding("a");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_binding_that_is_gone_counts_as_deleted_and_one_being_deleted_is_waited_for() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.unschedule("b");
    hub.unschedule("c");
    hub.settle();
    hub.remove_binding("b");
    hub.binding("c").metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    hub.available("a");
    hub.settle();
    assert!(!hub.written().contains("delete"));
    assert!(hub.stage(1).ends_with("b: Started, Succeeded | c: Started"));
}

#[test]
fn a_cluster_that_is_picked_again_is_not_left() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.unschedule("b");
    hub.settle();
    hub.restore("b");
    hub.available("a");
    hub.settle();
    assert!(!hub.written().contains("delete"));
    assert!(hub.stage(1).ends_with("b: SkippedSelected"), "{}", hub.stage(1));
    let told = hub.told();
    assert!(told.contains(
        &"Normal UpdateRunClusterSkipped: Cluster b in stage kubernetes-fleet.io/deleteStage: Cluster skipped because \
          it is selected by the placement again"
            .to_owned()
    ));
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_deletion_that_nobody_carries_out_ends_the_run() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.unschedule("a");
    hub.unschedule("b");
    hub.settle().written();
    hub.binding("a").metadata.deletion_timestamp = None;
    hub.settle();
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: unexpected behavior which cannot be handled by the controller: the cluster \
         `a` in the deleting stage is marked as deleting but its corresponding binding is not deleting"
    );
    assert!(hub.stage(1).starts_with("Progressing=False StageUpdatingFailed"));
}

#[test]
fn a_cluster_that_leaves_later_is_not_deleted_by_this_run() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle();
    hub.available("a");
    hub.settle();
    hub.available("b");
    hub.unschedule("a");
    hub.settle();
    assert!(!hub.written().contains("delete"));
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}
