use proptest::prelude::*;

use super::super::{defaults, policy as policies};
use super::*;
use crate::scheduler::plugins::cluster_affinity::Required;

fn maybe(values: &[Value]) -> impl Strategy<Value = Option<Value>> + use<> {
    prop::option::of(prop::sample::select(values.to_vec()))
}

/// Placements as users may write them, fields left out at will.
fn placements() -> impl Strategy<Value = Value> {
    let policy = maybe(&[
        json!(null),
        json!({}),
        json!({"placementType": "PickFixed", "clusterNames": ["a"]}),
        json!({"placementType": "PickN", "numberOfClusters": 2, "tolerations": [{"key": "a"}],
            "topologySpreadConstraints": [{"topologyKey": "region"}]}),
    ]);
    let type_ = maybe(&[json!("RollingUpdate"), json!("External")]);
    let update = maybe(&[json!({}), json!({"maxSurge": 1}), json!(null)]);
    let apply = maybe(&[
        json!({}),
        json!({"type": "ServerSideApply"}),
        json!({"type": "ReportDiff", "whenToApply": "Always"}),
    ]);
    let strategy = prop::option::of((type_, update, apply));
    (policy, strategy).prop_map(|(policy, strategy)| {
        let mut spec = json!({"resourceSelectors": [roles()]});
        let mut set = |path: &str, value: Option<Value>| {
            if let Some(value) = value {
                spec[path] = value;
            }
        };
        set("policy", policy);
        if let Some((type_, update, apply)) = strategy {
            let fields = [("type", type_), ("rollingUpdate", update), ("applyStrategy", apply)];
            let given = fields
                .into_iter()
                .filter_map(|(key, value)| Some((key.to_owned(), value?)));
            set("strategy", Some(Value::Object(given.collect())));
        }
        json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "metadata": {"name": "p"}, "spec": spec})
    })
}

fn fill(object: &Value) -> Vec<defaults::Addition> {
    defaults::patch(&object["spec"].to_string())
}

fn apply(object: &Value) -> Value {
    use crate::overrides::patch::{Operation, apply};
    let mut patched = object.clone();
    for addition in fill(object) {
        let operation = Operation {
            op: fleet_api::placement::JsonPatchOp::Add,
            path: &addition.path,
            value: addition.value,
        };
        apply(&mut patched, operation).expect("a patch that applies");
    }
    patched
}

proptest! {
    #[test]
    fn defaulting_twice_changes_nothing(object in placements()) {
        let once = apply(&object);
        prop_assert_eq!(fill(&once), vec![]);
        let mut typed = spec(&object["spec"]);
        defaults::placement(&mut typed);
        prop_assert_eq!(spec(&once["spec"]), typed.clone());
        let mut again = typed.clone();
        defaults::placement(&mut again);
        prop_assert_eq!(typed, again);
    }

    #[test]
    fn a_policy_that_passes_does_not_fail_inside(
        name in "[a-z./-]{0,12}|resources.kubernetes-fleet.io/(total|free)-?[a-z]{0,3}",
        operator in prop::sample::select(vec!["Gt", "Ge", "Eq", "Ne", "Lt", "Le", "About", ""]),
        values in prop::collection::vec("[0-9]{0,3}(Ki|m|x)?", 0..3),
        key in "[a-z /.-]{0,6}",
        label in prop::sample::select(vec!["In", "NotIn", "Exists", "Like"]),
        labels in prop::collection::vec("[a-z -]{0,4}", 0..3),
    ) {
        let term = json!({
            "labelSelector": {"matchExpressions": [{"key": key, "operator": label, "values": labels}]},
            "propertySelector": {"matchExpressions": [{"name": name, "operator": operator, "values": values}]},
        });
        let policy = json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"clusterSelectorTerms": [term]}}}});
        let policy = serde_json::from_value(policy).expect("a policy");
        if policies::policy(&policy).is_empty() {
            prop_assert!(Required::new(Some(&policy)).is_ok());
        }
    }
}

#[test]
fn an_empty_placement_gets_every_default() {
    let object = json!({"spec": {"resourceSelectors": [roles()]}});
    let filled = apply(&object);
    assert_eq!(filled["spec"]["policy"], json!({"placementType": "PickAll"}));
    assert_eq!(filled["spec"]["revisionHistoryLimit"], 10);
    assert_eq!(
        filled["spec"]["strategy"],
        json!({
            "type": "RollingUpdate",
            "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60},
            "applyStrategy": {"type": "ClientSideApply", "comparisonOption": "PartialComparison", "whenToApply": "Always",
                "whenToTakeOver": "Always"},
        })
    );
    let external = apply(&json!({"spec": {"resourceSelectors": [], "strategy": {"type": "External"}}}));
    assert_eq!(external["spec"]["strategy"].get("rollingUpdate"), None);
    for odd in [
        json!({}),
        json!({"spec": 1}),
        json!({"spec": {"policy": {"placementType": "PickSome"}}}),
        json!(null),
    ] {
        assert_eq!(fill(&odd), [], "{odd}");
    }
    // A tree of what a tenant may send takes more than the agent has.
    let many = vec![json!({"key": ""}); defaults::SPEC_MAX / 10];
    let large = json!({"spec": {"resourceSelectors": [], "other": many}});
    assert_eq!(fill(&large), []);
    let fits = json!({"spec": {"resourceSelectors": [], "other": "x".repeat(defaults::SPEC_MAX - 100)}});
    assert_ne!(fill(&fits), []);
}
