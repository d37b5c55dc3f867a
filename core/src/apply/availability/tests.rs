use super::*;
use crate::apply::merge::tests::any_json;
use proptest::prelude::*;
use serde_json::json;

#[track_caller]
fn assert_rows(gvr: [&str; 3], rows: &[(Value, Available)]) {
    for (object, expected) in rows {
        assert_eq!(
            &availability(gvr[0], gvr[1], gvr[2], &json!({}), object),
            expected,
            "{object}"
        );
    }
}

fn object(spec: &Value, status: &Value) -> Value {
    json!({"metadata": {"generation": 2}, "spec": spec, "status": status})
}

#[test]
fn deployments() {
    let status = |observed: i64, available: i64, updated: i64, unavailable: i64| {
        json!({"observedGeneration": observed, "availableReplicas": available, "updatedReplicas": updated,
            "unavailableReplicas": unavailable})
    };
    let three = json!({"replicas": 3});
    assert_rows(
        ["apps", "v1", "deployments"],
        &[
            (object(&three, &status(2, 3, 3, 0)), Available::Available),
            (object(&three, &status(1, 3, 3, 0)), Available::NotYet),
            (object(&three, &status(2, 2, 3, 1)), Available::NotYet),
            (object(&three, &status(2, 3, 2, 0)), Available::NotYet),
            (object(&three, &status(2, 3, 3, 1)), Available::NotYet),
            (object(&json!({}), &status(2, 1, 1, 0)), Available::Available),
            (
                object(&json!({"replicas": 0}), &json!({"observedGeneration": 2})),
                Available::Available,
            ),
            (object(&three, &Value::Null), Available::NotYet),
            (
                object(&json!({"replicas": "x"}), &json!({})),
                Available::Failed {
                    error: "failed to convert the unstructured object to a deployment: \
                            spec.replicas is not an integer"
                        .into(),
                },
            ),
        ],
    );
}

#[test]
fn stateful_and_daemon_sets() {
    let status = |available: i64, current: i64, revision: &str| {
        json!({"observedGeneration": 2, "availableReplicas": available, "currentReplicas": current,
            "updatedReplicas": 2, "currentRevision": revision, "updateRevision": "b"})
    };
    let two = json!({"replicas": 2});
    assert_rows(
        ["apps", "v1", "statefulsets"],
        &[
            (object(&two, &status(2, 2, "b")), Available::Available),
            (object(&two, &status(1, 2, "b")), Available::NotYet),
            (object(&two, &status(2, 1, "b")), Available::NotYet),
            (object(&two, &status(2, 2, "a")), Available::NotYet),
        ],
    );
    let status = |available: i64, updated: i64| {
        json!({"observedGeneration": 2, "numberAvailable": available, "desiredNumberScheduled": 3,
            "currentNumberScheduled": 3, "updatedNumberScheduled": updated})
    };
    assert_rows(
        ["apps", "v1", "daemonsets"],
        &[
            (object(&json!({}), &status(3, 3)), Available::Available),
            (object(&json!({}), &status(2, 3)), Available::NotYet),
            (object(&json!({}), &status(3, 1)), Available::NotYet),
        ],
    );
}

#[test]
fn services() {
    let ingress = |entry: Value| {
        object(
            &json!({"type": "LoadBalancer"}),
            &json!({"loadBalancer": {"ingress": [entry]}}),
        )
    };
    assert_rows(
        ["", "v1", "services"],
        &[
            (
                object(&json!({"clusterIPs": ["10.0.0.1"]}), &json!({})),
                Available::Available,
            ),
            (
                object(&json!({"type": "ClusterIP", "clusterIPs": ["None"]}), &json!({})),
                Available::Available,
            ),
            (object(&json!({"type": "NodePort"}), &json!({})), Available::NotYet),
            (ingress(json!({"hostname": "lb"})), Available::Available),
            (ingress(json!({"ip": "1.2.3.4"})), Available::Available),
            (ingress(json!({})), Available::NotYet),
            (
                object(&json!({"type": "ExternalName"}), &json!({})),
                Available::NotTrackable,
            ),
        ],
    );
}

#[test]
fn definitions_and_budgets() {
    let crd = |established: &str, accepted: &str| {
        object(
            &json!({}),
            &json!({"conditions": [
            {"type": "Established", "status": established}, {"type": "NamesAccepted", "status": accepted}]}),
        )
    };
    assert_rows(
        ["apiextensions.k8s.io", "v1", "customresourcedefinitions"],
        &[
            (crd("True", "True"), Available::Available),
            (crd("False", "True"), Available::NotYet),
            (crd("True", "Unknown"), Available::NotYet),
        ],
    );
    let budget = |allowed: i64, status: &str, reason: &str, observed: i64| {
        object(
            &json!({}),
            &json!({"disruptionsAllowed": allowed, "conditions": [{
            "type": "DisruptionAllowed", "status": status, "reason": reason, "observedGeneration": observed}]}),
        )
    };
    assert_rows(
        ["policy", "v1", "poddisruptionbudgets"],
        &[
            (budget(1, "True", "SufficientPods", 2), Available::Available),
            (budget(0, "False", "InsufficientPods", 2), Available::Available),
            (budget(1, "False", "InsufficientPods", 2), Available::NotYet),
            (budget(0, "True", "SufficientPods", 2), Available::NotYet),
            (budget(1, "True", "SufficientPods", 1), Available::NotYet),
            (object(&json!({}), &json!({"disruptionsAllowed": 1})), Available::NotYet),
        ],
    );
}

#[test]
fn data_at_once_and_everything_else_untracked() {
    for gvr in [
        ["", "v1", "namespaces"],
        ["storage.k8s.io", "v1", "csinodes"],
        ["apps", "v1", "controllerrevisions"],
    ] {
        assert_rows(gvr, &[(json!({}), Available::Available)]);
    }
    for gvr in [
        ["batch", "v1", "jobs"],
        ["", "v1", "pods"],
        ["apps", "v1beta1", "deployments"],
        ["e.com", "v1", "x"],
    ] {
        assert_rows(gvr, &[(json!({}), Available::NotTrackable)]);
    }
}

fn said(expression: &str) -> Value {
    json!({"metadata": {"annotations": {AVAILABLE_WHEN: expression}}})
}

#[test]
fn a_manifest_says_when_its_object_is_available() {
    let failed = |why: &str| Available::Failed {
        error: format!("rollout.kubernetes-fleet.io/available-when: {why}"),
    };
    let ready = "self.status.phase == 'Ready'";
    let phase = |phase: &str| object(&json!({}), &json!({"phase": phase}));
    let rows = [
        (ready, json!({"metadata": {}}), Available::NotYet),
        (ready, object(&json!({}), &json!({})), failed("no such key: phase")),
        (ready, phase("Waiting"), Available::NotYet),
        (ready, phase("Ready"), Available::Available),
        (
            "object.status.phase",
            phase("Ready"),
            failed("it is a text, not true or false"),
        ),
        (
            "self.status.phase = 'Ready'",
            phase("Ready"),
            failed("at 1:19: Syntax error: mismatched input '=' expecting <EOF>"),
        ),
        (
            "",
            phase("Ready"),
            failed("at 1:1: Syntax error: mismatched input '<EOF>' expecting expression"),
        ),
    ];
    for (expression, object, expected) in rows {
        let shown = availability("e.com", "v1", "gadgets", &said(expression), &object);
        assert_eq!(shown, expected, "{expression} of {object}");
    }
}

#[test]
fn the_manifest_counts_and_not_what_is_on_the_member() {
    let mut live = said("true");
    live["metadata"]["generation"] = json!(1);
    assert_eq!(
        availability("e.com", "v1", "gadgets", &said("false"), &live),
        Available::NotYet
    );
    assert_eq!(
        availability("e.com", "v1", "gadgets", &json!({}), &said("false")),
        Available::NotTrackable
    );
}

#[test]
fn an_expression_comes_on_top_of_the_rule_of_its_kind() {
    let of = |expression: &str, ready: i64| {
        let status = json!({"observedGeneration": 2, "availableReplicas": ready, "updatedReplicas": 3});
        let live = object(&json!({"replicas": 3}), &status);
        availability("apps", "v1", "deployments", &said(expression), &live)
    };
    assert_eq!(of("true", 2), Available::NotYet);
    assert_eq!(of("false", 3), Available::NotYet);
    assert_eq!(of("true", 3), Available::Available);
    assert!(matches!(of("self.nothing", 2), Available::Failed { .. }));
    let config = availability("", "v1", "configmaps", &said("false"), &json!({}));
    assert_eq!(config, Available::NotYet);
}

#[test]
fn a_status_of_an_older_generation_says_nothing() {
    let of = |observed: Value| {
        let live = object(&json!({}), &json!({"ready": true, "observedGeneration": observed}));
        availability("e.com", "v1", "gadgets", &said("self.status.ready"), &live)
    };
    assert_eq!(of(json!(1)), Available::NotYet);
    assert_eq!(of(json!(2)), Available::Available);
    assert_eq!(of(json!("one")), Available::Available);
}

#[test]
fn nothing_is_asked_about_secrets() {
    let secret = json!({"data": {"token": "YQ=="}});
    for expression in ["self.data.token.startsWith('Y')", "true"] {
        let shown = availability("", "v1", "secrets", &said(expression), &secret);
        assert!(matches!(shown, Available::Failed { .. }), "{shown:?}");
    }
}

proptest! {
    #[test]
    fn no_object_is_too_odd(status in any_json(), spec in any_json()) {
        let odd = json!({"metadata": {"generation": 1}, "spec": spec, "status": status});
        for resource in ["deployments", "statefulsets", "daemonsets"] {
            let _ = availability("apps", "v1", resource, &odd, &odd);
        }
        let _ = availability("", "v1", "services", &odd, &odd);
        let _ = availability("policy", "v1", "poddisruptionbudgets", &odd, &odd);
    }
}
