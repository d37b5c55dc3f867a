//! Rollbacks: exactly what was recorded, newest first, whatever happens in between.

use fleet_api::placement::UpdateRunState;
use serde_json::json;

use super::hub::{Hub, strategy};

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];

/// Four clusters in two stages, which all have version 0.
fn hub() -> Hub {
    let mut hub = Hub::new(&CLUSTERS);
    for (place, cluster) in CLUSTERS.iter().enumerate() {
        hub.member(cluster, &[("stage", if place < 2 { "one" } else { "two" })]);
        hub.had(cluster, "0");
    }
    let stage = |name: &str, max: u32| json!({ "name": name, "labelSelector": { "matchLabels": { "stage": name } }, "maxConcurrency": max });
    hub.strategy = Some(strategy(json!([stage("one", 1), stage("two", 2)])));
    hub.set("max-failures", "0")
        .set("cluster-deadline", "60s")
        .set("on-failure", "Rollback");
    hub
}

/// Up to where `c` and `d` are under way.
fn to_stage_two(hub: &mut Hub) {
    hub.settle();
    for cluster in ["a", "b"] {
        hub.later(1);
        hub.available(cluster);
        hub.settle();
    }
    assert!(hub.stage(1).ends_with("c: Started | d: Started"), "{}", hub.stage(1));
}

fn version(hub: &mut Hub, cluster: &str) -> String {
    hub.binding(cluster).spec.resource_snapshot_name.clone()
}

fn stamp(hub: &mut Hub, cluster: &str) -> String {
    hub.binding(cluster).status.conditions[0].message.clone()
}

#[test]
fn all_that_was_started_gets_back_what_it_had_newest_first() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.written();
    hub.available("d");
    hub.later(60);
    assert_eq!(
        hub.message("Progressing"),
        "The update run is rolling back, 0 of 4 cluster(s) restored"
    );
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
    let log = hub.written();
    let back: Vec<_> = log.split("; ").filter(|line| line.starts_with("write")).collect();
    assert_eq!(
        back,
        ["write d", "write c"],
        "two at a time, the newest stage first: {log}"
    );
    assert!(log.contains("mark"));
    hub.available("d");
    hub.settle();
    assert_eq!(
        version(&mut hub, "b"),
        "web-1-snapshot",
        "c is not back yet, and b is older"
    );
    hub.available("c");
    hub.settle();
    assert_eq!(
        hub.written(),
        "status; write b; stamp b; status",
        "one at a time in stage one"
    );
    hub.available("b");
    hub.settle();
    hub.available("a");
    hub.settle();
    for cluster in CLUSTERS {
        assert_eq!(version(&mut hub, cluster), "web-0-snapshot");
        assert_eq!(
            stamp(&mut hub, cluster),
            "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 0, \
             updateRun: run"
        );
    }
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: the failure budget is exhausted: 1 cluster(s) failed, at most 0 may: c; rolled \
         back 4 of 4 cluster(s)"
    );
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunFailed");
    let told = hub.told();
    assert!(
        told.iter()
            .any(|line| line.starts_with("Warning UpdateRunRollingBack: The update run is rolling back: cannot"))
    );
    assert!(told.contains(&"Warning UpdateRunRolledBack: Rolled back 4 of 4 cluster(s)".to_owned()));
    assert_eq!(hub.failed_in.get("1").map(String::as_str), Some("run"));
}

#[test]
fn what_a_start_would_overwrite_is_stored_before_it() {
    let mut hub = hub();
    hub.pass();
    assert!(hub.pass());
    assert_eq!(hub.written(), "status; status", "the plan, then what a has");
    let previous = hub.run.status.stages_status[0].clusters[0].previous.clone().unwrap();
    assert_eq!(previous.resource_snapshot_name, "web-0-snapshot");
    hub.settle();
    assert_eq!(hub.written(), "write a; stamp a; status");
    // The next one was recorded in time: its start costs no further write.
    hub.available("a");
    hub.settle();
    assert_eq!(hub.written(), "write b; stamp b; status");
}

#[test]
fn who_had_nothing_was_taken_over_or_is_gone_is_left_alone_and_named() {
    let mut hub = hub();
    hub.remove_binding("b");
    hub.pick("b");
    to_stage_two(&mut hub);
    hub.available("c");
    hub.settle();
    // Another run takes a finished cluster.
    hub.take_over("a", "other");
    hub.later(60);
    hub.unschedule("c");
    hub.settle();
    hub.available("d");
    hub.settle();
    assert!(
        hub.message("Succeeded").ends_with("; rolled back 1 of 4 cluster(s)"),
        "{}",
        hub.message("Succeeded")
    );
    let told = hub.told();
    assert_eq!(
        told.iter().find(|line| line.contains("UpdateRunRolledBack")).unwrap(),
        "Warning UpdateRunRolledBack: Rolled back 1 of 4 cluster(s); left alone: c (no longer selected), b (had nothing \
         before), a (taken over by update run other)"
    );
    assert_eq!(version(&mut hub, "a"), "web-2-snapshot");
}

#[test]
fn a_snapshot_that_somebody_deleted_cannot_be_given_back() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.snapshots.remove("0");
    hub.later(60);
    assert!(hub.message("Succeeded").ends_with("; rolled back 0 of 4 cluster(s)"));
    assert!(
        hub.told()
            .iter()
            .any(|line| line.contains("d (its resource snapshot web-0-snapshot is gone)"))
    );
    assert_eq!(version(&mut hub, "a"), "web-1-snapshot");
    // The run's own is not needed any more.
    let mut hub = self::hub();
    to_stage_two(&mut hub);
    hub.later(60);
    hub.snapshots.remove("1");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
}

#[test]
fn a_cluster_that_does_not_come_back_holds_up_the_others_only_for_its_deadline() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.later(60);
    hub.available("c");
    hub.settle();
    hub.unavailable("d");
    hub.later(60);
    assert_eq!(version(&mut hub, "b"), "web-0-snapshot");
    hub.available("b");
    hub.settle();
    hub.available("a");
    hub.settle();
    assert!(hub.message("Succeeded").ends_with("; rolled back 3 of 4 cluster(s)"));
    assert!(
        hub.told()
            .iter()
            .any(|line| line.contains("d (not available again within 1m: Available=False"))
    );
}

#[test]
fn stop_halts_it_and_run_goes_on() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.later(60);
    hub.set_state(UpdateRunState::Stop);
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping");
    hub.available("c");
    hub.available("d");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    hub.written();
    hub.later(500);
    assert_eq!(hub.written(), "");
    hub.set_state(UpdateRunState::Run);
    hub.settle();
    assert_eq!(
        hub.message("Progressing"),
        "The update run is rolling back, 2 of 4 cluster(s) restored"
    );
    hub.available("b");
    hub.settle();
    hub.available("a");
    hub.settle();
    assert!(hub.message("Succeeded").ends_with("; rolled back 4 of 4 cluster(s)"));
}

#[test]
fn a_stop_of_it_ends_at_the_threshold_and_names_who_does_not_work_yet() {
    for (deadline, ends) in [("10m", 300), ("60s", 60)] {
        let mut hub = hub();
        hub.set("cluster-deadline", deadline);
        to_stage_two(&mut hub);
        hub.set("rollback", "Requested");
        hub.settle();
        assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
        hub.available("d");
        hub.unavailable("c");
        hub.set_state(UpdateRunState::Stop);
        hub.settle().told();
        hub.later(ends - 1);
        assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping", "{deadline}");
        hub.later(1);
        assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped", "{deadline}");
        assert_eq!(
            hub.told(),
            [
                "Warning UpdateRunStuck: The update run was stopped with clusters that do not work yet with what they had \
                 before; c (binding web-c-003): Available=False NotAllWorkAreAvailable",
                "Normal UpdateRunStopped: The update run has been stopped",
            ],
            "{deadline}"
        );
        // With its own deadline it waits on when it goes on.
        hub.available("c");
        hub.set_state(UpdateRunState::Run);
        hub.settle();
        assert_eq!(
            hub.message("Progressing"),
            "The update run is rolling back, 2 of 4 cluster(s) restored",
            "{deadline}"
        );
    }
}

#[test]
fn the_breaker_trips_while_stopping_and_the_rollback_waits_for_run() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.set_state(UpdateRunState::Stop);
    hub.settle();
    hub.written();
    hub.later(60);
    assert!(!hub.written().contains("write"), "nothing is taken back");
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    hub.set_state(UpdateRunState::Run);
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
}

#[test]
fn its_user_asks_for_it() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.set("rollback", "Requested");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
    for cluster in ["d", "c", "b", "a"] {
        hub.available(cluster);
        hub.settle();
    }
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: a rollback was requested; rolled back 4 of 4 cluster(s)"
    );
}

#[test]
fn who_asks_for_what_will_not_be_is_told_so() {
    let ignored = |hub: &mut Hub| {
        let told = hub.later(1).told();
        let lines = told.iter();
        let found: Vec<_> = lines
            .filter_map(|line| line.strip_prefix("Warning UpdateRunRollbackIgnored: "))
            .collect();
        found
            .join(", ")
            .replace("The annotation rollout.kubernetes-fleet.io/rollback is ignored: ", "")
    };
    // A run without the option takes nothing back.
    let mut hub = Hub::new(&["a"]);
    hub.set("rollback", "Requested");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing");
    assert_eq!(
        ignored(&mut hub),
        "the run was initialized without on-failure: Rollback"
    );
    assert_eq!(ignored(&mut hub), "", "once");
    // One that has it reads no other word.
    let mut hub = self::hub();
    to_stage_two(&mut hub);
    hub.set("rollback", "requested");
    assert_eq!(ignored(&mut hub), "\"requested\" is not Requested");
    hub.set("rollback", "yes");
    assert_eq!(ignored(&mut hub), "\"yes\" is not Requested");
    hub.set("rollback", "Requested");
    assert_eq!(ignored(&mut hub), "");
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
}

#[test]
fn an_edit_of_the_policy_or_of_the_apply_strategy_does_not_keep_it_from_its_end() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.later(60);
    hub.policies.clear();
    for cluster in ["d", "c", "b", "a"] {
        hub.available(cluster);
        hub.later(20);
    }
    assert!(hub.message("Succeeded").ends_with("; rolled back 4 of 4 cluster(s)"));
}

#[test]
fn two_runs_roll_back_at_once_each_what_is_its_own() {
    let mut first = hub();
    to_stage_two(&mut first);
    let mut second = first.clone();
    // The second run of the same hub: it has taken over c and d in the meantime.
    for cluster in ["c", "d"] {
        first.take_over(cluster, "second");
    }
    second.run.metadata.name = Some("second".into());
    first.set("rollback", "Requested");
    first.settle();
    assert_eq!(version(&mut first, "c"), "web-2-snapshot", "the second's to give back");
    assert_eq!(version(&mut first, "b"), "web-0-snapshot");
    // Seen from the second: what it did not sign it does not touch.
    second.set("rollback", "Requested");
    second.settle();
    assert!(second.message("Succeeded").ends_with("; rolled back 0 of 4 cluster(s)"));
}

#[test]
fn two_runs_that_roll_one_version_back_mark_it_once() {
    let mut first = hub();
    to_stage_two(&mut first);
    let mut second = first.clone();
    second.run.metadata.name = Some("second".into());
    for hub in [&mut first, &mut second] {
        hub.set("rollback", "Requested");
        hub.written();
    }
    for _ in 0..4 {
        first.pass();
        second.failed_in.clone_from(&first.failed_in);
        second.pass();
        first.failed_in.clone_from(&second.failed_in);
    }
    let marks = [first.written(), second.written()].map(|log| log.matches("mark").count());
    assert_eq!(marks, [1, 0], "each would wake the other");
    assert_eq!(first.failed_in.get("1").map(String::as_str), Some("run"));
}

#[test]
fn it_may_be_asked_for_on_a_run_that_has_stopped() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    hub.set_state(UpdateRunState::Stop);
    hub.available("c");
    hub.available("d");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    hub.written();
    hub.told();
    // An edit that has come since is no reason to keep the version.
    hub.policies.clear();
    hub.set("rollback", "Requested");
    hub.later(20);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStopped");
    assert!(!hub.written().contains("write"), "it is stopped");
    let stage = hub.run.status.stages_status[1].conditions.last().unwrap();
    assert_eq!(stage.message, "cannot continue the updateRun: a rollback was requested");
    let (status, look_again) = (hub.run.status.clone(), hub.look_again);
    hub.later(500);
    assert_eq!(hub.written(), "", "{look_again:?}");
    assert_eq!(hub.run.status, status);
    hub.set_state(UpdateRunState::Run);
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
    for cluster in ["d", "c", "b", "a"] {
        hub.available(cluster);
        hub.settle();
    }
    assert!(hub.message("Succeeded").ends_with("; rolled back 4 of 4 cluster(s)"));
}

#[test]
fn who_has_the_version_from_somebody_else_is_not_counted() {
    let mut hub = hub();
    hub.settle();
    let entry = |hub: &Hub| hub.run.status.stages_status[0].clusters[1].previous.clone();
    assert!(entry(&hub).is_some(), "recorded ahead");
    hub.forestall("b");
    hub.available("a");
    hub.settle();
    hub.available("b");
    hub.settle();
    assert_eq!(entry(&hub), None, "this run has nothing to give back");
    assert!(hub.stage(1).ends_with("c: Started | d: Started"), "{}", hub.stage(1));
    hub.later(60);
    assert_eq!(
        hub.message("Progressing"),
        "The update run is rolling back, 0 of 3 cluster(s) restored"
    );
}

#[test]
fn a_binding_that_cannot_be_written_holds_up_the_others_only_for_the_deadline() {
    let mut hub = hub();
    to_stage_two(&mut hub);
    let name = hub.binding("d").name().to_owned();
    hub.later(59);
    hub.refused.bindings.insert(name);
    hub.later(1);
    hub.available("c");
    hub.later(59);
    assert_eq!(version(&mut hub, "b"), "web-1-snapshot", "d may be written yet");
    hub.later(1);
    hub.available("b");
    hub.settle();
    hub.available("a");
    hub.settle();
    assert!(
        hub.message("Succeeded").ends_with("; rolled back 3 of 4 cluster(s)"),
        "{}",
        hub.message("Succeeded")
    );
    assert!(
        hub.told()
            .iter()
            .any(|line| line.contains("left alone: d (could not be written within 1m)"))
    );
}

#[test]
fn an_override_snapshot_that_is_gone_cannot_be_given_back() {
    let mut hub = hub();
    hub.binding("d").spec.cluster_resource_override_snapshots = vec!["gone-0".into()];
    to_stage_two(&mut hub);
    hub.missing_overrides.insert("gone-0".into());
    hub.later(60);
    assert_eq!(version(&mut hub, "c"), "web-0-snapshot");
    assert_eq!(version(&mut hub, "d"), "web-1-snapshot");
    for cluster in ["c", "b", "a"] {
        hub.available(cluster);
        hub.settle();
    }
    assert!(
        hub.told()
            .iter()
            .any(|line| line.contains("left alone: d (its override snapshot gone-0 is gone)"))
    );
}

#[test]
fn a_later_run_of_the_same_version_warns() {
    let mut hub = hub();
    hub.failed_in.insert("1".into(), "earlier".into());
    hub.settle();
    hub.later(1);
    let told = hub.told();
    let warning = "Warning UpdateRunSnapshotHasFailed: The resource snapshot web-1-snapshot was taken back by update run \
                   earlier";
    assert_eq!(told.iter().filter(|line| *line == warning).count(), 1, "{told:?}");
}

/// Rolls back to the end, with each cluster available in the second after its write. Crashes once, after `writes`.
fn run_to_end(writes: usize) -> (Hub, bool) {
    let mut hub = hub();
    hub.writes_left = writes;
    let mut crashed = false;
    for second in 0..200 {
        for _ in 0..8 {
            if !hub.pass() {
                crashed = true;
                hub.writes_left = usize::MAX;
            }
        }
        hub.now += 1;
        for cluster in CLUSTERS {
            // Version 1 does not work on c.
            if cluster != "c" || version(&mut hub, cluster) == "web-0-snapshot" {
                hub.available(cluster);
            } else {
                hub.unavailable(cluster);
            }
        }
        if second > 150 && hub.said().len() == 3 {
            break;
        }
    }
    (hub, crashed)
}

#[test]
fn killed_after_every_write() {
    let (calm, crashed) = run_to_end(usize::MAX);
    assert!(!crashed);
    let mut writes = 0;
    loop {
        let (mut hub, crashed) = run_to_end(writes);
        assert!(
            hub.message("Succeeded")
                .ends_with("1 cluster(s) failed, at most 0 may: c; rolled back 4 of 4 cluster(s)"),
            "after {writes}: {} {:?}",
            hub.message("Succeeded"),
            hub.log
        );
        for cluster in CLUSTERS {
            assert_eq!(version(&mut hub, cluster), "web-0-snapshot", "after {writes}");
            let count = hub
                .log
                .iter()
                .filter(|line| **line == format!("write {cluster}"))
                .count();
            assert_eq!(count, 2, "there and back, after {writes}: {:?}", hub.log);
            assert!(
                stamp(&mut hub, cluster).contains("resourceSnapshotIndex: 0, updateRun: run"),
                "after {writes}"
            );
        }
        assert_eq!(hub.failed_in.get("1").map(String::as_str), Some("run"));
        if !crashed {
            return assert_eq!(hub.log, calm.log);
        }
        writes += 1;
    }
}
