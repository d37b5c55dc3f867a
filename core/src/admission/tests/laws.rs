use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;

use std::collections::BTreeMap;

use fleet_api::placement::{ClusterResourceOverrideSpec, PlacementType};
use fleet_api::raw::RawJson;

use super::super::{defaults, overrides, policy as policies};
use super::*;
use crate::overrides::{LabelledCluster, Overrides};
use crate::rollout::Amount;
use crate::scheduler::Selector;
use crate::scheduler::plugins::cluster_affinity::{Preferred, Required};
use crate::selection::ObjectId;

/// A word that is mostly right, and otherwise whatever it may be.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-z]{1,3}", 1 => "[a-zé /.-]{0,6}"]
}

/// Label selectors, mostly right.
fn labels() -> impl Strategy<Value = Value> {
    let of_values = (
        prop::sample::select(vec!["In", "NotIn"]),
        prop::collection::vec(word(), 1..3),
    );
    let alone = prop::sample::select(vec!["Exists", "DoesNotExist"]).prop_map(|operator| (operator, Vec::new()));
    let odd = (
        prop::sample::select(vec!["In", "Exists", "Like"]),
        prop::collection::vec(word(), 0..2),
    );
    let how = prop_oneof![4 => of_values, 4 => alone, 1 => odd];
    let expression =
        (word(), how).prop_map(|(key, (operator, values))| json!({"key": key, "operator": operator, "values": values}));
    let expressions = prop::collection::vec(expression, 0..2);
    let pairs = prop::collection::btree_map(word(), word(), 0..2);
    (expressions, pairs).prop_map(|(all, pairs)| json!({"matchExpressions": all, "matchLabels": pairs}))
}

/// Whole specs: every part that the scheduler and the rollout take apart.
fn specs() -> impl Strategy<Value = Value> {
    let all = Just(("PickAll", None, Vec::new()));
    let n = (0..5).prop_map(|number| ("PickN", Some(number), Vec::new()));
    let fixed = prop::collection::vec(word(), 0..3).prop_map(|names| ("PickFixed", None, names));
    let type_ = prop::sample::select(vec!["PickAll", "PickN", "PickFixed"]);
    let odd = (type_, prop::option::of(-1..5), prop::collection::vec(word(), 0..2));
    let policy = prop_oneof![2 => all, 4 => n, 1 => fixed, 1 => odd];
    let preferred = (labels(), prop::option::of(word()), -100..=100_i32).prop_map(|(labels, sorter, weight)| {
        let sorter = sorter.map(|name| json!({"name": name, "sortOrder": "Descending"}));
        json!({"weight": weight, "preference": {"labelSelector": labels, "propertySorter": sorter}})
    });
    let toleration = (
        word(),
        prop::sample::select(vec!["Equal", "Exists"]),
        prop_oneof![1 => word(), 2 => Just(String::new())],
    )
        .prop_map(|(key, operator, value)| json!({"key": key, "operator": operator, "value": value}));
    let parts = (
        prop::collection::vec(labels(), 0..2),
        prop::collection::vec(preferred, 0..2),
        prop::collection::vec(toleration, 0..2),
    );
    let spread = prop::option::of((1..4, prop::sample::select(vec!["DoNotSchedule", "ScheduleAnyway"])));
    let amount = || prop_oneof![8 => "[0-9]{1,2}%|100%", 1 => "[0-9]{1,2}"];
    let amounts = (amount(), amount());
    (policy, parts, spread, amounts, labels()).prop_map(|(policy, parts, spread, amounts, selected)| {
        let (type_, number, names) = policy;
        let (required, preferred, tolerations) = parts;
        let required: Vec<_> = required
            .into_iter()
            .map(|labels| json!({"labelSelector": labels}))
            .collect();
        let mut policy = json!({"placementType": type_, "clusterNames": names, "tolerations": tolerations});
        let mut affinity = json!({});
        if !required.is_empty() {
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"clusterSelectorTerms": required});
        }
        if !preferred.is_empty() {
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = json!(preferred);
        }
        if affinity != json!({}) {
            policy["affinity"] = json!({"clusterAffinity": affinity});
        }
        if let Some(number) = number {
            policy["numberOfClusters"] = json!(number);
        }
        if let Some((skew, action)) = spread {
            let constraint = json!({"topologyKey": "region", "maxSkew": skew, "whenUnsatisfiable": action});
            policy["topologySpreadConstraints"] = json!([constraint]);
        }
        let mut role = roles();
        role["name"] = json!("");
        role["labelSelector"] = selected;
        let update = json!({"maxUnavailable": amounts.0, "maxSurge": amounts.1});
        json!({"resourceSelectors": [role], "policy": policy, "strategy": {"rollingUpdate": update}})
    })
}

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

    #[test]
    fn a_placement_that_passes_does_not_fail_inside(given in specs()) {
        let spec = spec(&given);
        if !created(&given).is_allowed() {
            return Ok(());
        }
        let policy = spec.policy.as_ref();
        prop_assert!(Required::new(policy).is_ok());
        prop_assert!(Preferred::new(policy, &[]).is_ok());
        let wants = policy.map(|policy| (policy.placement_type, policy.number_of_clusters.is_some()));
        prop_assert!(wants.is_none_or(|(type_, number)| (type_ == PlacementType::PickN) == number), "{wants:?}");
        for selector in &spec.resource_selectors {
            prop_assert!(selector.label_selector.as_ref().is_none_or(|labels| Selector::new(labels).is_ok()));
        }
        let update = spec.strategy.and_then(|strategy| strategy.rolling_update).expect("it was given");
        for amount in [&update.max_unavailable, &update.max_surge] {
            prop_assert!(!matches!(Amount::parse(amount), Amount::Invalid(_)), "{amount:?}");
        }
    }

    #[test]
    fn an_override_that_passes_does_not_fail_inside(
        labels in labels(),
        path in "(/(metadata|labels|annotations|status|kind|spec|a|~1kind|é)){0,4}/?",
        op in prop::sample::select(vec!["add", "remove", "replace"]),
        value in prop::sample::select(vec![json!("x"), json!(1), json!({}), json!(null)]),
    ) {
        let mut patch = json!({"op": op, "path": path});
        if op != "remove" {
            patch["value"] = value;
        }
        let rule = json!({"clusterSelector": {"clusterSelectorTerms": [{"labelSelector": labels}]}, "jsonPatchOverrides": [patch]});
        let given = json!({"clusterResourceSelectors": [roles()], "policy": {"overrideRules": [rule]}});
        let given: ClusterResourceOverrideSpec = serde_json::from_value(given).expect("an override");
        if !overrides::policy(&given.policy).is_empty() {
            return Ok(());
        }
        let cluster = LabelledCluster { name: "east", labels: &BTreeMap::new() };
        let prepared = Overrides::new(cluster, [("o", &given)], []);
        prop_assert!(prepared.is_ok());
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}});
        let manifest = RawJson::from(role);
        let object = ObjectId::of(&manifest).expect("an object");
        if let Ok(Err(failed)) = prepared.map(|prepared| prepared.apply(&object, true, &manifest)) {
            prop_assert!(!failed.cause.starts_with("cannot override"), "{path}: {}", failed.cause);
        }
    }
}

/// Laws about what passes say little where nothing does.
#[test]
fn enough_of_what_is_tried_passes() {
    let mut runner = TestRunner::deterministic();
    let mut is_good = || {
        let tried = specs().new_tree(&mut runner).expect("a placement").current();
        created(&tried).is_allowed()
    };
    let passed = (0..200).filter(|_| is_good()).count();
    assert!(passed > 20, "{passed} of 200");
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
