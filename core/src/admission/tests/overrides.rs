use fleet_api::placement::{ClusterResourceOverrideSpec, ResourceOverrideSpec};

use super::super::overrides::{Others, Selected, cluster_wide, namespaced, selected_in};
use super::*;

fn wide(value: &Value) -> ClusterResourceOverrideSpec {
    serde_json::from_value(value.clone()).expect("a spec")
}

fn narrow(value: &Value) -> ResourceOverrideSpec {
    serde_json::from_value(value.clone()).expect("a spec")
}

fn nobody(_: &Selected) -> Option<String> {
    None
}

fn alone(count: usize) -> Others<'static> {
    Others {
        count,
        selecting: &nobody,
    }
}

fn patching(patches: &Value) -> Value {
    json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": patches}]})
}

fn good() -> Value {
    patching(&json!([{"op": "add", "path": "/metadata/labels/a", "value": "b"}]))
}

fn of_role(policy: &Value) -> Value {
    json!({"clusterResourceSelectors": [roles()], "policy": policy})
}

fn of_map(policy: &Value) -> Value {
    json!({"resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "m"}], "policy": policy})
}

#[test]
fn selectors_name_one_object_each() {
    let shown = |name: &str, labels: &str| {
        format!(
            "{{Group:rbac.authorization.k8s.io Version:v1 Kind:ClusterRole Name:{name} LabelSelector:{labels} \
             SelectionScope:NamespaceWithResources}}"
        )
    };
    let (mut labelled, mut nameless) = (roles(), roles());
    labelled["labelSelector"] = json!({});
    nameless["name"] = json!("");
    let nothing = "&LabelSelector{MatchLabels:map[string]string{},MatchExpressions:[]LabelSelectorRequirement{},}";
    for (selectors, text) in [
        (
            json!([labelled]),
            format!(
                "label selector is not supported for resource selection {}",
                shown("r", nothing)
            ),
        ),
        (
            json!([nameless]),
            format!("resource name is required for resource selection {}", shown("", "nil")),
        ),
        (
            json!([roles(), roles()]),
            format!(
                "resource selector {} already exists, and must be unique",
                shown("r", "nil")
            ),
        ),
    ] {
        // Selectors are told alone, whatever is wrong with the rules.
        let spec = json!({"clusterResourceSelectors": selectors, "policy": patching(&json!([]))});
        assert_eq!(cluster_wide("o", &wide(&spec), None, &alone(0)), Verdict::Denied(text));
    }
    let mut twice = of_map(&good());
    twice["resourceSelectors"] = json!([twice["resourceSelectors"][0], twice["resourceSelectors"][0]]);
    assert_eq!(
        namespaced(("ns", "o"), &narrow(&twice), None, &alone(0)).message(),
        "resource selector {Group: Version:v1 Kind:ConfigMap Name:m} already exists, and must be unique"
    );
}

#[test]
fn nothing_is_overridden_by_two() {
    let spec = narrow(&of_map(&good()));
    let theirs = selected_in("ns", &spec);
    let selecting = |selected: &Selected| theirs.contains(selected).then(|| "other".to_owned());
    let others = Others {
        count: 1,
        selecting: &selecting,
    };
    assert_eq!(
        namespaced(("ns", "o"), &spec, None, &others).message(),
        "invalid resource selector {Group: Version:v1 Kind:ConfigMap Name:m}: the resource has been selected by both o and \
         other, which is not supported"
    );
    assert!(namespaced(("elsewhere", "o"), &spec, None, &others).is_allowed());
    // What was so before does not keep the rest from being changed.
    assert!(namespaced(("ns", "o"), &spec, Some(&spec), &others).is_allowed());
}

#[test]
fn there_are_at_most_a_hundred() {
    let (role, map) = (wide(&of_role(&good())), narrow(&of_map(&good())));
    assert_eq!(
        cluster_wide("o", &role, None, &alone(99)),
        Verdict::allowed("clusterResourceOverride has valid fields")
    );
    assert_eq!(
        namespaced(("ns", "o"), &map, None, &alone(99)),
        Verdict::allowed("resourceOverride has valid fields")
    );
    assert_eq!(
        cluster_wide("o", &role, None, &alone(100)),
        Verdict::denied(
            "clusterResourceOverride limit has been reached: at most 100 cluster resources can be created."
        )
    );
    assert_eq!(
        namespaced(("ns", "o"), &map, None, &alone(100)),
        Verdict::denied("resourceOverride limit has been reached: at most 100 resources can be created.")
    );
    assert!(cluster_wide("o", &role, Some(&role), &alone(100)).is_allowed());
}

#[test]
fn rules_are_refused_with_what_is_wrong_with_each() {
    let on = |term: Value| {
        let mut policy = good();
        policy["overrideRules"][0]["clusterSelector"]["clusterSelectorTerms"] = json!([term]);
        policy
    };
    let bad_labels = json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}});
    let mut deleting = good();
    deleting["overrideRules"][0]["overrideType"] = json!("Delete");
    let mut deleting_badly = on(json!({}));
    deleting_badly["overrideRules"][0]["overrideType"] = json!("Delete");
    for (policy, text) in [
        (
            on(json!({"labelSelector": {}, "propertySorter": {"name": "p", "sortOrder": "Ascending"}})),
            "invalid clusterSelector {LabelSelector:&LabelSelector{MatchLabels:map[string]string{},\
             MatchExpressions:[]LabelSelectorRequirement{},} PropertySelector:nil PropertySorter:&{Name:p \
             SortOrder:Ascending}}: only labelSelector is supported",
        ),
        (
            on(json!({})),
            "invalid clusterSelector {LabelSelector:nil PropertySelector:nil PropertySorter:nil}: labelSelector is \
             required",
        ),
        (
            on(bad_labels),
            "the labelSelector in cluster selector &LabelSelector{MatchLabels:map[string]string{},MatchExpressions:\
             []LabelSelectorRequirement{LabelSelectorRequirement{Key:a,Operator:Like,Values:[],},},} is invalid: \"Like\" \
             is not a valid label selector operator",
        ),
        (
            deleting,
            "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
        ),
        (
            deleting_badly,
            "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete",
        ),
        (
            patching(&json!([])),
            "invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty",
        ),
        (
            patching(&json!([{"op": "remove", "path": "/spec/x", "value": {"a": 1}}])),
            "invalid JSONPatchOverride {remove /spec/x {{\"a\":1}}}: remove operation cannot have value",
        ),
        (
            patching(&json!([{"op": "add", "path": "/kind", "value": "x"}, {"op": "remove", "path": ""}])),
            "[invalid JSONPatchOverride {add /kind {\"x\"}}: cannot override typeMeta fields, invalid JSONPatchOverride \
             {remove  {}}: path cannot be empty]",
        ),
    ] {
        let verdict = cluster_wide("o", &wide(&of_role(&policy)), None, &alone(0));
        assert_eq!(verdict, Verdict::denied(text));
        assert_eq!(
            namespaced(("ns", "o"), &narrow(&of_map(&policy)), None, &alone(0)),
            Verdict::denied(text)
        );
        // And they can be repaired, or left as they are.
        let (old, new) = (wide(&of_role(&policy)), wide(&of_role(&good())));
        assert!(cluster_wide("o", &new, Some(&old), &alone(0)).is_allowed());
        assert!(cluster_wide("o", &old, Some(&old), &alone(0)).is_allowed());
    }
    let deletion = json!({"overrideRules": [{"overrideType": "Delete"}]});
    assert!(cluster_wide("o", &wide(&of_role(&deletion)), None, &alone(0)).is_allowed());
}
