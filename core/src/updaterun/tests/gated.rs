//! Windows, times and gates: what a run waits for besides its clusters.

use fleet_api::placement::Gate;
use serde_json::json;

use super::hub::{Hub, at, strategy};
use crate::updaterun::{GateCondition, GateObject, open_gates};

/// A window over the whole day before or after the day on which the tests' clock begins: 12 January 1970, a Monday.
const CLOSED: &str = "Tue 00:00-24:00 UTC";
const TUESDAY: i64 = 12 * 86400 - 1_000_000;

#[test]
fn outside_the_window_nothing_is_started_and_the_run_says_until_when() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.set("window", CLOSED);
    hub.settle();
    assert_eq!(hub.written(), "status; status");
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    let sentence =
        "The updateRun is waiting for the window of a, b cluster(s) in stage all, next at 1970-01-13T00:00:00Z";
    assert_eq!(hub.message("Progressing"), sentence);
    assert_eq!(hub.look_again, Some(at(TUESDAY)));
    assert!(
        hub.told()
            .contains(&format!("Normal UpdateRunWindowClosed: {sentence}"))
    );
    hub.later(TUESDAY - 1);
    assert_eq!(hub.written(), "");
    hub.later(1);
    assert_eq!(hub.written(), "write a; stamp a; status");
    // What is under way is finished when the window has closed; nothing more is started.
    hub.later(86400);
    hub.available("a");
    hub.settle();
    assert!(
        hub.stage(0).ends_with("a: Started, Succeeded | b: "),
        "{}",
        hub.stage(0)
    );
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    assert!(hub.message("Progressing").contains("of b cluster(s)"));
}

#[test]
fn a_clock_that_is_set_back_opens_nothing_early() {
    let mut hub = Hub::new(&["a"]);
    hub.set("window", CLOSED);
    hub.settle();
    hub.set_clock(-86400);
    hub.later(TUESDAY);
    assert_eq!(
        hub.said()[1],
        "Progressing=False UpdateRunWaiting",
        "the wall says Monday"
    );
    hub.later(86400);
    assert!(hub.stage(0).ends_with("a: Started"));
}

#[test]
fn an_open_cluster_overtakes_a_closed_one_unless_the_stage_is_sorted() {
    for sorted in [false, true] {
        let mut hub = Hub::new(&["a", "b"]);
        if sorted {
            let stage = json!([{ "name": "all", "labelSelector": {}, "sortingLabelKey": "order" }]);
            hub.strategy = Some(strategy(stage));
            hub.member("a", &[("order", "1")]);
            hub.member("b", &[("order", "2")]);
        }
        hub.windows.insert("a".into(), CLOSED.into());
        hub.settle();
        let expected = if sorted { "a:  | b: " } else { "a:  | b: Started" };
        assert!(hub.stage(0).ends_with(expected), "{}", hub.stage(0));
    }
}

#[test]
fn both_windows_must_be_open_and_one_that_cannot_be_read_is_closed() {
    let mut hub = Hub::new(&["a"]);
    hub.set("window", CLOSED);
    hub.windows.insert("a".into(), "Mon-Sun 06:00-07:00 UTC".into());
    hub.settle();
    assert!(hub.message("Progressing").ends_with("next at 1970-01-13T06:00:00Z"));
    hub.windows.insert("a".into(), "Wed 06:00-07:00 UTC".into());
    hub.settle();
    assert!(
        hub.message("Progressing")
            .ends_with("in stage all, which does not open")
    );
    hub.windows.insert("a".into(), "sometimes".into());
    hub.settle();
    hub.later(5);
    let told = hub.told();
    let warnings = told
        .iter()
        .filter(|line| line.starts_with("Warning UpdateRunWindowUnreadable: "));
    assert_eq!(warnings.count(), 1, "{told:?}");
    hub.set("ignore-windows", "true");
    assert_eq!(
        hub.said()[1],
        "Progressing=False UpdateRunWaiting",
        "too late: settings are read once"
    );
    let mut hub = Hub::new(&["a"]);
    hub.set("window", CLOSED).set("ignore-windows", "true");
    hub.settle();
    assert!(hub.stage(0).ends_with("a: Started"));
}

#[test]
fn not_before_is_waited_for_windows_or_not() {
    let mut hub = Hub::new(&["a"]);
    hub.set("not-before", "1970-01-12T14:00:00Z")
        .set("ignore-windows", "true");
    hub.settle();
    assert!(
        hub.message("Progressing")
            .ends_with("of a cluster(s) in stage all, next at 1970-01-12T14:00:00Z")
    );
    hub.later(14 * 3600 - 46 * 60 - 40 - 13 * 3600 - 1);
    assert!(hub.stage(0).ends_with("a: "), "{}", hub.stage(0));
    hub.later(1);
    assert!(hub.stage(0).ends_with("a: Started"), "{} {:?}", hub.now, hub.look_again);
}

#[test]
fn nothing_is_left_outside_the_window_either() {
    let mut hub = Hub::new(&["a", "z"]);
    hub.unschedule("z");
    hub.windows.insert("z".into(), CLOSED.into());
    hub.settle();
    hub.available("a");
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunWaiting");
    assert!(!hub.written().contains("delete"));
    hub.later(TUESDAY);
    assert_eq!(hub.written(), "delete z; status");
}

fn says(conditions: &[(&str, &str, Option<i64>)]) -> GateObject {
    let conditions = conditions.iter().map(|(type_, status, of)| GateCondition {
        type_: (*type_).to_owned(),
        status: (*status).to_owned(),
        reason: "Why".to_owned(),
        observed_generation: *of,
    });
    GateObject {
        generation: 2,
        conditions: conditions.collect(),
        ..GateObject::default()
    }
}

fn with_gates(fail: &str) -> Hub {
    let mut hub = Hub::new(&["a", "b"]);
    let gate = |when: &str| {
        json!({ "stage": "all", "when": when, "apiVersion": "batch/v1", "kind": "Job", "namespace": "ops",
            "name": format!("{{run}}-{{stage}}-{when}"), "condition": "Complete", "failOn": fail })
    };
    hub.set("gates", &json!([gate("before"), gate("after")]).to_string());
    hub.gates = vec![None, None];
    hub
}

#[test]
fn gates_are_further_tasks_of_their_stage() {
    let mut hub = with_gates("");
    hub.settle();
    assert_eq!(hub.run.status.options.as_ref().unwrap().gates[0].name, "run-all-before");
    assert_eq!(
        hub.message("Progressing"),
        "The updateRun is waiting for before-stage tasks in stage all to complete"
    );
    let waiting = "Normal UpdateRunGateWaiting: Stage all is waiting for the gate Job ops/run-all-before: ";
    assert!(hub.told().contains(&format!("{waiting}there is no such object")));
    for not_yet in [
        says(&[]),
        says(&[("Complete", "False", None)]),
        says(&[("Complete", "True", Some(1))]),
        says(&[("Failed", "True", None)]),
    ] {
        hub.gates[0] = Some(not_yet);
        hub.settle();
        assert_eq!(hub.stage(0), "Progressing=False StageUpdatingWaiting | a:  | b: ");
    }
    hub.gates[0] = Some(says(&[("Complete", "True", Some(2))]));
    hub.settle();
    assert!(hub.stage(0).ends_with("a: Started | b: "));
    assert!(
        hub.told().contains(
            &"Normal UpdateRunGatePassed: The gate Job ops/run-all-before of stage all has passed".to_owned()
        )
    );
    // What has passed has passed, also when the object is gone.
    hub.gates[0] = None;
    hub.available("a");
    hub.settle();
    hub.available("b");
    hub.settle();
    assert_eq!(
        hub.message("Progressing"),
        "The updateRun is waiting for after-stage tasks in stage all to complete"
    );
    hub.gates[1] = Some(says(&[("Complete", "True", None)]));
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

#[test]
fn a_gate_that_fails_trips_the_breaker_at_any_time_of_its_stage() {
    let mut hub = with_gates("Failed");
    hub.gates[0] = Some(says(&[("Complete", "True", None)]));
    hub.settle();
    assert!(hub.stage(0).contains("a: Started"));
    hub.written();
    hub.gates[1] = Some(says(&[("Failed", "True", None)]));
    hub.available("a");
    hub.settle();
    assert_eq!(hub.written(), "status", "b is not started");
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: the gate Job ops/run-all-after of stage all has failed: Failed=True Why"
    );
}

#[test]
fn a_gate_that_fails_trips_the_breaker_while_the_run_stops_too() {
    let mut hub = with_gates("Failed");
    hub.gates[0] = Some(says(&[("Complete", "True", None)]));
    hub.settle();
    hub.set_state(fleet_api::placement::UpdateRunState::Stop);
    hub.settle();
    assert_eq!(hub.said()[1], "Progressing=Unknown UpdateRunStopping");
    hub.gates[1] = Some(says(&[("Failed", "True", None)]));
    hub.settle();
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: the gate Job ops/run-all-after of stage all has failed: Failed=True Why"
    );
}

#[test]
fn a_cluster_that_is_not_picked_any_more_is_that_and_neither_closed_nor_sick() {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.set("unhealthy-clusters", "Skip");
    hub.settle();
    hub.windows.insert("b".into(), "sometimes".into());
    for cluster in ["b", "c"] {
        hub.unschedule(cluster);
        hub.sick.insert(cluster.into());
    }
    hub.available("a");
    hub.settle();
    assert!(
        hub.stage(0)
            .ends_with("a: Started, Succeeded | b: SkippedNotSelected | c: SkippedNotSelected"),
        "{}",
        hub.stage(0)
    );
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}

/// The places of the gates whose objects matter now.
fn open(hub: &Hub) -> Vec<usize> {
    open_gates(&hub.view_run())
        .into_iter()
        .map(|(place, _)| place)
        .collect()
}

#[test]
fn only_gates_of_the_stage_at_hand_are_looked_at_and_none_once_all_is_taken_back() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.member("a", &[("ring", "1")]);
    hub.member("b", &[("ring", "2")]);
    let stage = |name: &str, ring: &str| json!({ "name": name, "labelSelector": { "matchLabels": { "ring": ring } } });
    hub.strategy = Some(strategy(json!([stage("first", "1"), stage("second", "2")])));
    let gate = |stage: &str, when: &str| {
        json!({ "stage": stage, "when": when, "apiVersion": "v1", "kind": "Pod", "name": "p",
            "condition": "Ready", "failOn": "Bad" })
    };
    let gates = [
        gate("first", "before"),
        gate("second", "before"),
        gate("first", "after"),
    ];
    hub.set("gates", &json!(gates).to_string())
        .set("max-failures", "0")
        .set("on-failure", "Rollback");
    hub.gates = vec![None; 3];
    hub.settle();
    assert_eq!(open(&hub), [0, 2]);
    hub.gates[0] = Some(says(&[("Ready", "True", None)]));
    hub.settle();
    assert_eq!(open(&hub), [2], "what has passed is not looked at again");
    hub.gates[2] = Some(says(&[("Ready", "True", None)]));
    hub.available("a");
    hub.settle();
    assert_eq!(open(&hub), [1]);
    hub.gates[1] = Some(says(&[("Bad", "True", None)]));
    hub.settle();
    assert!(open(&hub).is_empty(), "{:?}", hub.said());
}

#[test]
fn gates_that_were_written_into_the_status_by_hand_are_never_looked_at() {
    let gate = |namespace: &str, name: &str, fail_on: String| Gate {
        stage: "all".into(),
        when: "after".into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        name: name.into(),
        namespace: namespace.into(),
        condition: "Ready".into(),
        fail_on,
        passed: None,
    };
    let fine = || gate("team", "web", "Failed".into());
    for (what, gates, sound) in [
        ("as they are recorded", vec![fine(); 8], true),
        (
            "another namespace",
            vec![gate("kube-system", "web", String::new())],
            false,
        ),
        ("no namespace", vec![gate("", "web", String::new())], false),
        ("too many", vec![fine(); 9], false),
        (
            "another name",
            vec![gate("team", "web,metadata.namespace=x", String::new())],
            false,
        ),
        ("a long text", vec![gate("team", "web", "x".repeat(254))], false),
    ] {
        let mut hub = Hub::new(&["a"]);
        hub.run.metadata.namespace = Some("team".into());
        hub.settle();
        let options = hub.run.status.options.get_or_insert_default();
        options.gates = gates;
        assert_eq!(!open(&hub).is_empty(), sound, "{what}");
        hub.settle();
        let failed = hub.said().iter().any(|said| said.starts_with("Succeeded=False"));
        assert_eq!(failed, !sound, "{what}: {:?}", hub.said());
    }
}

#[test]
fn texts_of_gates_are_bounded() {
    let long = "x".repeat(254);
    for field in ["namespace", "failOn", "condition"] {
        let mut hub = Hub::new(&["a"]);
        let mut gate = json!({ "stage": "all", "when": "after", "apiVersion": "v1", "kind": "Pod", "name": "p",
            "condition": "Ready" });
        gate[field] = json!(long);
        hub.set("gates", &json!([gate]).to_string());
        hub.settle();
        assert!(
            hub.message("Initialized").contains(&format!("{field}: ")),
            "{}",
            hub.message("Initialized")
        );
    }
    let mut hub = Hub::new(&["a"]);
    let gate = json!({ "stage": "all", "when": "after", "apiVersion": "v1", "kind": "Pod", "name": "p",
        "namespace": "a/../b", "condition": "Ready" });
    hub.set("gates", &json!([gate]).to_string());
    hub.settle();
    assert!(hub.message("Initialized").contains("cannot be a namespace's name"));
}
