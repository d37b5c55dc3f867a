//! The agent is killed after every single write of a run: nothing is started twice, and the end is the same.

use fleet_api::placement::UpdateRunState;
use serde_json::json;

use super::hub::{Hub, strategy};

/// Lets the run go to its end, with each cluster available in the second after it was started. Crashes once, after
/// `writes`; false if the run had ended by then.
fn run_to_end(writes: usize) -> (Hub, bool) {
    let mut hub = Hub::new(&["a", "b", "c", "d", "z"]);
    for (cluster, stage) in [("a", "one"), ("b", "one"), ("c", "one"), ("d", "two"), ("z", "none")] {
        hub.member(cluster, &[("stage", stage)]);
    }
    hub.unschedule("z");
    let selector = |name: &str| json!({ "matchLabels": { "stage": name } });
    hub.strategy = Some(strategy(json!([
        { "name": "one", "labelSelector": selector("one"), "maxConcurrency": 2,
          "beforeStageTasks": [{ "type": "Approval" }], "afterStageTasks": [{ "type": "TimedWait", "waitTime": "5s" }] },
        { "name": "two", "labelSelector": selector("two"), "afterStageTasks": [{ "type": "Approval" }] },
    ])));
    hub.writes_left = writes;
    let mut crashed = false;
    for _ in 0..60 {
        for _ in 0..8 {
            if !hub.pass() {
                crashed = true;
                hub.writes_left = usize::MAX;
            }
        }
        hub.now += 1;
        for cluster in ["a", "b", "c", "d"] {
            hub.available(cluster);
        }
        hub.bindings.retain(|b| b.metadata.deletion_timestamp.is_none());
        for request in ["run-before-one", "run-after-two"] {
            if hub.approvals.iter().any(|a| a.name() == request) {
                hub.approve(request, 1);
            }
        }
    }
    (hub, crashed)
}

#[test]
fn after_every_write() {
    let (calm, crashed) = run_to_end(usize::MAX);
    assert!(!crashed);
    assert_eq!(calm.said()[2], "Succeeded=True UpdateRunSucceeded", "{:?}", calm.log);
    let count = |hub: &Hub, line: &str| hub.log.iter().filter(|entry| *entry == line).count();
    let mut writes = 0;
    loop {
        let (hub, crashed) = run_to_end(writes);
        assert_eq!(
            hub.said()[2],
            "Succeeded=True UpdateRunSucceeded",
            "after {writes}: {:?}",
            hub.log
        );
        for cluster in ["a", "b", "c", "d"] {
            assert_eq!(
                count(&hub, &format!("write {cluster}")),
                1,
                "after {writes}: {:?}",
                hub.log
            );
            assert_eq!(
                count(&hub, &format!("stamp {cluster}")),
                1,
                "after {writes}: {:?}",
                hub.log
            );
        }
        assert_eq!(count(&hub, "delete z"), 1, "after {writes}: {:?}", hub.log);
        for request in ["run-before-one", "run-after-two"] {
            assert_eq!(
                count(&hub, &format!("ask {request}")),
                1,
                "after {writes}: {:?}",
                hub.log
            );
            assert_eq!(
                count(&hub, &format!("accept {request}")),
                1,
                "after {writes}: {:?}",
                hub.log
            );
        }
        if !crashed {
            return assert_eq!(hub.log, calm.log);
        }
        writes += 1;
    }
}

#[test]
fn a_restart_alone_writes_nothing() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle().written();
    hub.memory = crate::updaterun::Memory::default();
    hub.later(30);
    assert_eq!(hub.written(), "");
}

#[test]
fn a_start_that_the_status_missed_is_found_also_while_stopping() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.pass();
    hub.writes_left = 1;
    assert!(!hub.pass(), "the binding is written, but not stamped");
    hub.writes_left = usize::MAX;
    hub.written();
    hub.set_state(UpdateRunState::Stop);
    hub.settle();
    assert_eq!(hub.written(), "stamp a; status");
    assert_eq!(
        hub.stage(0),
        "Progressing=Unknown StageUpdatingStopping | a: Started | b: "
    );
}

#[test]
fn a_cluster_that_broke_again_while_the_agent_was_down_does_not_end_the_run() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.settle();
    hub.available("a");
    hub.writes_left = 2;
    assert!(!hub.pass(), "b is started, and the status does not say that a is done");
    hub.writes_left = usize::MAX;
    hub.unavailable("a");
    hub.written();
    hub.settle();
    assert_eq!(hub.written(), "", "both slots are taken");
    hub.available("b");
    hub.settle();
    assert_eq!(
        hub.stage(0),
        "Progressing=True StageUpdatingStarted | a: Started | b:  | c: "
    );
    hub.available("a");
    hub.settle();
    assert!(
        hub.stage(0)
            .ends_with("a: Started, Succeeded | b: Started, Succeeded | c: Started"),
        "{}",
        hub.stage(0)
    );
}
