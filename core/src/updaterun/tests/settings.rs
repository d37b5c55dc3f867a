//! Settings: read once from annotations, recorded, and refused when they cannot be read; clusters in no stage, clusters that
//! are not healthy.

use serde_json::json;

use super::hub::{Hub, strategy};
use crate::updaterun::STUCK_THRESHOLD;

const REFUSED: &str = "cannot continue the updateRun: failed to validate the updateRun: failed to process the request due \
                       to a client error: ";

fn refusal(hub: &mut Hub) -> String {
    hub.settle();
    let message = hub.message("Initialized").to_owned();
    message
        .strip_prefix(REFUSED)
        .unwrap_or_else(|| panic!("{message}"))
        .to_owned()
}

#[test]
fn without_annotations_nothing_is_recorded() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    let stored = serde_json::to_value(&hub.run.status).unwrap();
    assert_eq!(stored.get("options"), None);
    assert_eq!(stored["stagesStatus"][0]["clusters"][0].get("previous"), None);
    assert_eq!(hub.message("Progressing"), "The update run is making progress");
}

#[test]
fn the_runs_own_go_before_those_of_its_strategy_and_later_edits_change_nothing() {
    let mut hub = Hub::new(&["a"]);
    hub.set_on_strategy("max-failures", "10%").set_on_strategy("ttl", "1h");
    hub.set("max-failures", "2").set("ignore-windows", "true");
    hub.settle();
    let recorded = json!({ "maxFailures": "2", "ttl": "1h", "ignoreWindows": true });
    assert_eq!(serde_json::to_value(&hub.run.status.options).unwrap(), recorded);
    hub.set("max-failures", "nonsense").set("nonsense", "1");
    hub.settle();
    hub.available("a");
    hub.settle();
    assert_eq!(serde_json::to_value(&hub.run.status.options).unwrap(), recorded);
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn what_cannot_be_read_fails_the_run_at_once_and_names_itself() {
    let gate = |field: &str, value: &str| {
        let mut gate = json!({ "stage": "all", "when": "before", "apiVersion": "batch/v1", "kind": "Job",
            "name": "check", "condition": "Complete" });
        gate[field] = value.into();
        json!([gate]).to_string()
    };
    for (name, value, why) in [
        (
            "max-failure",
            "1",
            "there is no such setting; there are unassigned-clusters, ",
        ),
        (
            "max-failures",
            "some",
            "\"some\" is neither a number such as 2 nor a percentage such as 10%",
        ),
        ("max-failures", "101%", "\"101%\" is neither"),
        ("max-failures", "-1", "\"-1\" is neither"),
        (
            "cluster-deadline",
            "1d",
            "\"1d\" is no duration such as 30s, 10m or 1h30m",
        ),
        ("cluster-deadline", "0s", "\"0s\" is no time at all"),
        ("min-success-time", "soon", "\"soon\" is no duration"),
        ("on-failure", "rollback", "\"rollback\" is neither Halt nor Rollback"),
        ("unassigned-clusters", "Ignore=x", "\"x\" is neither a number"),
        ("unassigned-clusters", "Drop", "\"Drop\" is none of Fail, Ignore"),
        ("unhealthy-clusters", "Kill", "\"Kill\" is neither Wait nor Skip"),
        ("window", "Mon", "\"Mon\" has not three parts"),
        (
            "not-before",
            "tomorrow",
            "\"tomorrow\" is no instant such as 2026-11-18T22:00:00Z",
        ),
        ("ignore-windows", "yes", "\"yes\" is neither false nor true"),
        ("stuck-threshold", "5", "\"5\" is no duration"),
        ("ttl", "1w", "\"1w\" is no duration"),
        ("rollback", "yes", "\"yes\" is not Requested"),
        ("plan", "", "it is empty"),
        ("gates", "{}", "it is no JSON list of gates: "),
        (
            "gates",
            &gate("stage", "none"),
            "there is no stage \"none\"; there are all",
        ),
        (
            "gates",
            &gate("when", "during"),
            "when: \"during\" is neither before nor after",
        ),
        (
            "gates",
            &gate("name", "A/b"),
            "name: \"A/b\" cannot be an object's name",
        ),
        ("gates", &gate("condition", ""), "condition: \"\" is empty or too long"),
        (
            "gates",
            &gate("extra", "x"),
            "it is no JSON list of gates: unknown field `extra`",
        ),
    ] {
        let mut hub = Hub::new(&["a"]);
        hub.set(name, value);
        let text = refusal(&mut hub);
        let start = format!(
            "the annotation rollout.kubernetes-fleet.io/{name} of ClusterStagedUpdateRun /run is invalid: {why}"
        );
        assert!(text.starts_with(&start), "{text}");
        assert_eq!(hub.written(), "status", "{name}: nothing is started");
    }
    let mut hub = Hub::new(&["a"]);
    hub.set_on_strategy("min-success-time", "5m")
        .set("max-failures", "1")
        .set("cluster-deadline", "300s");
    assert_eq!(
        refusal(&mut hub),
        "the annotation rollout.kubernetes-fleet.io/min-success-time of ClusterStagedUpdateStrategy /plan is invalid: \"5m\" \
         is not less than cluster-deadline, \"300s\": every cluster would fail"
    );
    let mut hub = Hub::new(&["a"]);
    hub.set_on_strategy("plan", "x");
    assert_eq!(
        refusal(&mut hub),
        "the annotation rollout.kubernetes-fleet.io/plan of ClusterStagedUpdateStrategy /plan is invalid: it belongs on an \
         update run"
    );
}

/// Clusters a to d, of which a alone is in a stage.
fn unassigned(value: &str) -> Hub {
    let mut hub = Hub::new(&["a", "b", "c", "d"]);
    hub.member("a", &[("stage", "one")]);
    let selector = json!({ "matchLabels": { "stage": "one" } });
    hub.strategy = Some(strategy(json!([{ "name": "one", "labelSelector": selector }])));
    hub.set("unassigned-clusters", value);
    hub
}

#[test]
fn clusters_in_no_stage_fail_the_run_or_are_left_out_or_come_last() {
    for (value, why) in [
        ("Fail", "showing up to 10: b, c, d"),
        ("Ignore=2", "at most 2 may be ignored: b, c, d"),
    ] {
        let mut hub = unassigned(value);
        let said = refusal(&mut hub);
        assert_eq!(
            said,
            format!("some clusters are not placed in any stage, total 3, {why}")
        );
        // All of them, however many there are.
        assert_eq!(hub.run.status.options.as_ref().unwrap().unassigned, ["b", "c", "d"]);
        let all = "Normal UpdateRunClustersUnassigned: 3 cluster(s) are in no stage of the strategy: b, c, d";
        assert!(hub.told().iter().any(|line| line == all), "{value}");
    }
    let mut hub = unassigned("Fail");
    hub.run.metadata.annotations = None;
    refusal(&mut hub);
    assert_eq!(
        hub.run.status.options, None,
        "without settings the status is upstream's"
    );
    for enough in ["Ignore", "Ignore=3", "Ignore=75%"] {
        let mut hub = unassigned(enough);
        hub.settle();
        hub.available("a");
        hub.settle();
        assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded", "{enough}");
        assert_eq!(hub.run.status.options.as_ref().unwrap().unassigned, ["b", "c", "d"]);
        let told = hub.told();
        let said = "Normal UpdateRunClustersUnassigned: 3 cluster(s) are in no stage of the strategy: b, c, d";
        assert!(told.iter().any(|line| line == said), "{told:?}");
        assert!(!told.iter().any(|line| line.contains("NotIncluded")), "{told:?}");
        assert!(!hub.written().contains("write b"));
    }
    assert!(refusal(&mut unassigned("Ignore=74%")).contains("total 3, at most 2 may be ignored"));
    let mut hub = unassigned("Last");
    hub.settle();
    assert_eq!(hub.run.status.stages_status[1].stage_name, "unassigned");
    let recorded = hub.run.status.staged_update_strategy_snapshot.clone().unwrap();
    assert_eq!(recorded.stages[1].name, "unassigned");
    hub.available("a");
    hub.settle();
    assert_eq!(
        hub.stage(1),
        "Progressing=True StageUpdatingStarted | b: Started | c:  | d: "
    );
    let mut hub = unassigned("Last");
    hub.strategy = Some(strategy(json!([{ "name": "unassigned" }])));
    assert!(refusal(&mut hub).ends_with("the strategy has a stage named unassigned already"));
}

#[test]
fn clusters_that_are_not_healthy_at_their_turn_are_skipped_if_asked() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.sick.extend(["b".to_owned(), "c".to_owned()]);
    hub.set("unhealthy-clusters", "Skip");
    hub.settle();
    assert_eq!(
        hub.stage(0),
        "Progressing=True StageUpdatingStarted | a: Started | b:  | c: ",
        "not before its turn"
    );
    hub.sick.remove("c");
    hub.available("a");
    hub.settle();
    assert_eq!(
        hub.stage(0),
        "Progressing=True StageUpdatingStarted | a: Started, Succeeded | b: SkippedUnhealthy | c: Started"
    );
    hub.available("c");
    hub.settle();
    assert_eq!(
        hub.told(),
        [
            "Normal UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully",
            "Normal StageUpdatingStarted: Stage all: Clusters in the stage started updating",
            "Normal UpdateRunClusterSkipped: Cluster b in stage all: Cluster skipped because it is not healthy",
            "Normal StageUpdatingSucceeded: Stage all: Stage update completed successfully",
            "Normal StageUpdatingSucceeded: Stage kubernetes-fleet.io/deleteStage: Stage update completed successfully",
            "Normal UpdateRunSucceeded: All stages are completed successfully",
        ]
    );
    let mut hub = Hub::new(&["a"]);
    hub.sick.insert("a".to_owned());
    hub.set("unhealthy-clusters", "Wait");
    hub.settle();
    assert!(hub.stage(0).ends_with("a: Started"));
}

#[test]
fn the_runs_threshold_goes_before_the_flag() {
    let mut hub = Hub::new(&["a"]);
    hub.set("stuck-threshold", "20s");
    hub.settle();
    hub.later(19);
    assert_eq!(hub.said()[1], "Progressing=True UpdateRunProgressing");
    hub.later(1);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunStuck");
    assert!(STUCK_THRESHOLD.as_secs() > 20);
}
