//! Failure budgets: deadlines, how long a cluster must work, and the breaker.

use fleet_api::placement::UpdateRunState;
use serde_json::json;

use super::hub::{Hub, at, strategy};

fn hub(clusters: &[&str], max: u32) -> Hub {
    let mut hub = Hub::new(clusters);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": max }]),
    ));
    hub
}

/// What is said of the end of a cluster of the first stage.
fn outcome(hub: &Hub, place: usize) -> &str {
    &hub.run.status.stages_status[0].clusters[place].conditions[1].message
}

#[test]
fn a_cluster_that_is_late_has_failed_frees_its_slot_and_the_run_goes_on_within_the_budget() {
    let mut hub = hub(&["a", "b", "c"], 1);
    hub.set("max-failures", "1").set("cluster-deadline", "90s");
    hub.settle();
    hub.unavailable("a");
    hub.settle();
    assert_eq!(hub.look_again, Some(at(90)));
    hub.later(89);
    assert!(hub.stage(0).ends_with("a: Started | b:  | c: "), "{}", hub.stage(0));
    hub.later(1);
    assert_eq!(
        hub.stage(0),
        "Progressing=True StageUpdatingStarted | a: Started, Failed | b: Started | c: "
    );
    assert_eq!(
        outcome(&hub, 0),
        "the cluster did not become available within 1m30s: Available=False NotAllWorkAreAvailable"
    );
    // It works after all: too late.
    hub.available("a");
    hub.available("b");
    hub.settle();
    hub.available("c");
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
    assert_eq!(
        hub.message("Succeeded"),
        "All stages are completed successfully; 1 cluster(s) failed: a"
    );
    let stage = hub.run.status.stages_status[0].conditions.last().unwrap();
    assert_eq!(
        stage.message,
        "Stage update completed successfully; 1 cluster(s) failed: a"
    );
    assert!(hub.told().iter().any(|line| line.starts_with(
        "Warning UpdateRunClusterFailed: Cluster a in stage all: the cluster did not become available within 1m30s"
    )));
}

#[test]
fn one_failure_too_many_starts_nothing_further_and_ends_the_run() {
    let mut hub = hub(&["a", "b", "c", "d"], 2);
    hub.set("max-failures", "0");
    hub.settle();
    hub.written();
    hub.later(300);
    assert_eq!(hub.written(), "status", "the deadline is the stuck threshold");
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: the failure budget is exhausted: 2 cluster(s) failed, at most 0 may: a, b"
    );
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunFailed");
    assert!(
        hub.stage(0)
            .starts_with("Progressing=False StageUpdatingFailed, Succeeded=False StageUpdatingFailed | ")
    );
}

#[test]
fn a_share_is_of_the_plans_clusters_rounded_down() {
    let names: Vec<_> = (0..9).map(|n| format!("c{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut hub = hub(&names, 9);
    hub.set("max-failures", "33%");
    hub.settle();
    for cluster in &names[..6] {
        hub.available(cluster);
    }
    hub.later(300);
    assert_eq!(
        hub.said()[2],
        "Succeeded=False UpdateRunFailed",
        "three of nine are more than 2.97"
    );
    assert!(
        hub.message("Succeeded")
            .contains("3 cluster(s) failed, at most 2 may: c6, c7, c8")
    );
}

#[test]
fn a_cluster_must_work_for_a_while_without_a_break() {
    let mut hub = hub(&["a", "b"], 1);
    hub.set("min-success-time", "60s");
    hub.settle();
    hub.later(10);
    hub.available("a");
    hub.settle();
    assert_eq!(hub.look_again, Some(at(70)));
    hub.later(30);
    hub.unavailable("a");
    hub.settle();
    hub.later(30);
    assert!(hub.stage(0).ends_with("a: Started | b: "), "{}", hub.stage(0));
    hub.available("a");
    hub.settle();
    hub.later(59);
    assert!(hub.stage(0).ends_with("a: Started | b: "), "{}", hub.stage(0));
    hub.later(1);
    assert!(
        hub.stage(0).ends_with("a: Started, Succeeded | b: Started"),
        "{}",
        hub.stage(0)
    );
}

#[test]
fn a_cluster_that_has_not_worked_for_long_enough_by_its_deadline_has_failed() {
    let mut hub = hub(&["a", "b"], 1);
    hub.set("max-failures", "1")
        .set("cluster-deadline", "90s")
        .set("min-success-time", "60s");
    hub.settle();
    hub.later(50);
    hub.available("a");
    hub.settle();
    assert_eq!(hub.look_again, Some(at(90)));
    hub.later(40);
    assert!(
        hub.stage(0).ends_with("a: Started, Failed | b: Started"),
        "{}",
        hub.stage(0)
    );
    assert_eq!(
        outcome(&hub, 0),
        "the cluster did not become available within 1m30s: Available=True for too short a time"
    );
    // Where nobody has given a deadline it has the stuck threshold to become available, and then the time that it needs.
    let mut hub = self::hub(&["a", "b"], 1);
    hub.set("max-failures", "1").set("min-success-time", "10m");
    hub.settle();
    hub.later(290);
    hub.available("a");
    hub.later(599);
    assert!(hub.stage(0).ends_with("a: Started | b: "), "{}", hub.stage(0));
    hub.later(1);
    assert!(
        hub.stage(0).ends_with("a: Started, Succeeded | b: Started"),
        "{}",
        hub.stage(0)
    );
}

#[test]
fn a_cluster_whose_binding_cannot_be_stamped_again_is_late_too() {
    let mut hub = hub(&["a", "b"], 1);
    hub.set("max-failures", "1").set("cluster-deadline", "60s");
    hub.settle();
    let binding = hub.binding("a");
    binding.touch();
    let name = binding.name().to_owned();
    hub.refused.bindings.insert(name);
    hub.settle();
    assert_eq!(hub.look_again, Some(at(60)));
    hub.later(60);
    assert!(
        hub.stage(0).ends_with("a: Started, Failed | b: Started"),
        "{}",
        hub.stage(0)
    );
    assert_eq!(
        outcome(&hub, 0),
        "the cluster did not become available within 1m: RolloutStarted cannot be written"
    );
}

#[test]
fn settings_that_need_a_budget_are_told_of_when_there_is_none() {
    let gate = json!([{ "stage": "all", "when": "after", "apiVersion": "batch/v1", "kind": "Job", "namespace": "ops",
        "name": "check", "condition": "Complete", "failOn": "Failed" }]);
    let without = "Warning UpdateRunNoFailureBudget: Without rollout.kubernetes-fleet.io/max-failures no cluster ever fails \
                   (0 is for none may), so ";
    for (settings, told) in [
        (vec![("cluster-deadline", "60s")], "cluster-deadline does nothing"),
        (
            vec![("on-failure", "Rollback"), ("cluster-deadline", "60s")],
            "cluster-deadline does nothing and on-failure: Rollback waits for somebody to ask for it",
        ),
        (
            vec![("on-failure", "Rollback"), ("gates", &gate.to_string())],
            "on-failure: Rollback waits for a gate to fail",
        ),
        (vec![("on-failure", "Rollback"), ("max-failures", "0")], ""),
        (vec![("min-success-time", "60s"), ("on-failure", "Halt")], ""),
    ] {
        let mut hub = hub(&["a"], 1);
        hub.gates = vec![None];
        for (name, value) in &settings {
            hub.set(name, value);
        }
        hub.settle();
        let lines = hub.told();
        let found: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix(without)).collect();
        assert_eq!(found.join(", "), told, "{settings:?}");
    }
}

#[test]
fn a_clock_that_is_set_ends_no_deadline_early() {
    for step in [3600, -3600] {
        let mut hub = hub(&["a"], 1);
        hub.set("max-failures", "1").set("cluster-deadline", "90s");
        hub.settle();
        hub.later(50);
        hub.step_clock(step);
        hub.later(39);
        assert!(hub.stage(0).ends_with("a: Started"), "by {step}: {}", hub.stage(0));
        hub.later(1);
        assert!(
            hub.stage(0).contains("a: Started, Failed"),
            "by {step}: {}",
            hub.stage(0)
        );
    }
}

#[test]
fn a_cluster_that_breaks_after_it_succeeded_has_failed_too_waits_included() {
    let mut hub = hub(&["a", "b"], 2);
    let wait = json!([{ "type": "TimedWait", "waitTime": "1h" }]);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": 2, "afterStageTasks": wait }]),
    ));
    hub.set("max-failures", "0");
    hub.settle();
    hub.available("a");
    hub.available("b");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    hub.later(100);
    hub.unavailable("b");
    hub.settle();
    hub.later(29);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    hub.later(1);
    assert_eq!(hub.said()[2], "Succeeded=False UpdateRunFailed");
    assert!(
        hub.message("Succeeded")
            .ends_with("1 cluster(s) failed, at most 0 may: b")
    );
    let entry = &hub.run.status.stages_status[0].clusters[1].conditions[1];
    assert!(
        entry
            .message
            .starts_with("the cluster was updated, and then unavailable for 30s: Available=False")
    );
}

#[test]
fn the_breaker_trips_while_the_run_is_stopping() {
    let mut hub = hub(&["a", "b"], 1);
    hub.set("max-failures", "0").set("cluster-deadline", "60s");
    hub.settle();
    hub.set_state(UpdateRunState::Stop);
    hub.settle();
    hub.later(60);
    assert_eq!(hub.said()[2], "Succeeded=False UpdateRunFailed");
}

#[test]
fn a_silent_member_is_late_like_any_other() {
    let mut hub = hub(&["a", "b"], 1);
    hub.set("max-failures", "1").set("cluster-deadline", "60s");
    hub.settle();
    hub.later(60);
    let entry = &hub.run.status.stages_status[0].clusters[0].conditions[1];
    assert_eq!(
        entry.message,
        "the cluster did not become available within 1m: nothing reported yet"
    );
}

#[test]
fn without_a_budget_nothing_ever_fails() {
    let mut hub = hub(&["a"], 1);
    hub.set("cluster-deadline", "60s");
    hub.settle();
    hub.later(4000);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck");
    assert_eq!(hub.stage(0), "Progressing=True StageUpdatingStarted | a: Started");
}

/// `a` has been updated; the stage of `b`, with these tasks before it, is next.
fn between_stages(before: serde_json::Value, gates: &str) -> Hub {
    let mut hub = Hub::new(&["a", "b"]);
    for (cluster, stage) in [("a", "canary"), ("b", "production")] {
        hub.member(cluster, &[("stage", stage)]);
        hub.had(cluster, "0");
    }
    let stage = |name: &str, before: serde_json::Value| json!({ "name": name, "beforeStageTasks": before, "labelSelector": { "matchLabels": { "stage": name } } });
    hub.strategy = Some(strategy(json!([
        stage("canary", json!([])),
        stage("production", before)
    ])));
    hub.set("max-failures", "0").set("on-failure", "Rollback");
    if !gates.is_empty() {
        hub.set("gates", gates);
        hub.gates = vec![None];
    }
    hub.settle();
    hub.available("a");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    hub
}

#[test]
fn the_breaker_trips_while_a_stage_waits_for_its_approval_or_its_gate() {
    let gate = json!([{ "stage": "production", "when": "before", "apiVersion": "batch/v1", "kind": "Job",
        "namespace": "ops", "name": "check", "condition": "Complete" }]);
    for (before, gates) in [
        (json!([{ "type": "Approval" }]), String::new()),
        (json!([]), gate.to_string()),
    ] {
        let mut hub = between_stages(before, &gates);
        hub.later(100);
        hub.unavailable("a");
        hub.settle();
        hub.later(29);
        assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
        hub.later(1);
        assert_eq!(hub.said()[1], "Progressing=True UpdateRunRollingBack");
        assert_eq!(
            hub.binding("a").spec.resource_snapshot_name,
            "web-0-snapshot",
            "without anybody approving"
        );
    }
}

#[test]
fn a_stage_that_has_ended_names_those_that_break_later() {
    let mut hub = between_stages(json!([{ "type": "Approval" }]), "");
    hub.run.status.options.as_mut().unwrap().max_failures = "1".into();
    hub.unavailable("a");
    hub.settle();
    hub.later(30);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting", "one may");
    let ended = hub.run.status.stages_status[0].conditions.last().unwrap();
    assert_eq!(
        (ended.status.as_str(), ended.message.as_str()),
        ("True", "Stage update completed successfully; 1 cluster(s) failed: a")
    );
    assert_eq!(ended.last_transition_time.0, at(0), "it has not ended anew");
}
