//! What `kubectl apply` would send for an object that it has written before: what the file says, and that what it no longer
//! says is to go.
//!
//! kubectl notes what it has applied in an annotation. Fields of that note that the file no longer has are removed; fields
//! that neither has, such as defaults and what controllers write, stay. Lists of the kinds that kubectl knows are merged by a
//! key of their items; all others are replaced.

use fleet_api::annotations::KUBECTL_LAST_APPLIED_CONFIGURATION;
use serde_json::{Map, Value, json};

/// How the API server is to take a patch.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// As JSON merge patch: lists are replaced.
    Merge(Value),
    /// As strategic merge patch: lists are merged where the kind says so.
    Strategic(Value),
}

/// The groups whose kinds kubectl knows itself.
const KNOWN_GROUPS: [&str; 18] = [
    "",
    "admissionregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
];

/// Lists of these kinds that are merged, and the key of their items.
const MERGED: [(&str, &str); 12] = [
    ("containers", "name"),
    ("env", "name"),
    ("ephemeralContainers", "name"),
    ("hostAliases", "ip"),
    ("imagePullSecrets", "name"),
    ("initContainers", "name"),
    ("resourceClaims", "name"),
    ("secrets", "name"),
    ("topologySpreadConstraints", "topologyKey"),
    ("volumeDevices", "devicePath"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// What `kubectl apply` would send; none if the live object does not say what was applied before.
pub fn patch(live: &Value, written: &Value) -> Option<Patch> {
    let note = live["metadata"]["annotations"][KUBECTL_LAST_APPLIED_CONFIGURATION].as_str()?;
    let (mut before, mut after) = (serde_json::from_str(note).ok()?, written.clone());
    for object in [&mut before, &mut after] {
        drop_nulls(object);
        object.as_object_mut()?.remove("status");
        // kubectl always writes some: its note.
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        metadata.entry("annotations").or_insert_with(|| json!({}));
        // The note has it also where the file leaves it to the context.
        metadata.remove("namespace");
    }
    let group = written["apiVersion"]
        .as_str()?
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    let is_known = KNOWN_GROUPS.contains(&group);
    let kind = if is_known { written["kind"].as_str() } else { None };
    let patch = between(&before, &after, kind);
    Some(if is_known {
        Patch::Strategic(patch)
    } else {
        Patch::Merge(patch)
    })
}

/// All that is wanted, and `null` for what was there before and is not wanted any more.
fn between(before: &Value, after: &Value, known: Option<&str>) -> Value {
    let (Some(old), Some(new)) = (before.as_object(), after.as_object()) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for (field, value) in new {
        let was = old.get(field).unwrap_or(&Value::Null);
        match merge_key(known, field, value) {
            Some(key) => merged(&mut patch, field, key, (was, value), known),
            None => _ = patch.insert(field.clone(), between(was, value, known)),
        }
    }
    let gone = old.keys().filter(|field| !new.contains_key(*field));
    patch.extend(gone.map(|field| (field.clone(), Value::Null)));
    patch.into()
}

/// A list that is merged: its items, those that are to go, and the order.
fn merged(patch: &mut Map<String, Value>, field: &str, key: &str, (was, is): (&Value, &Value), known: Option<&str>) {
    let none = Vec::new();
    let (was, is) = (was.as_array().unwrap_or(&none), is.as_array().unwrap_or(&none));
    let same = |one: &Value, other: &Value| one[key] == other[key];
    let mut items: Vec<Value> = is
        .iter()
        .map(|item| {
            let before = was.iter().find(|was| same(was, item)).unwrap_or(&Value::Null);
            between(before, item, known)
        })
        .collect();
    let gone = was.iter().filter(|was| !is.iter().any(|item| same(was, item)));
    items.extend(gone.map(|was| json!({ "$patch": "delete", key: was[key] })));
    patch.insert(field.to_owned(), items.into());
    if !is.is_empty() {
        let order: Vec<Value> = is.iter().map(|item| json!({ key: item[key] })).collect();
        patch.insert(format!("$setElementOrder/{field}"), order.into());
    }
}

/// The key by which the items of this list are told apart, if it is merged.
fn merge_key(known: Option<&str>, field: &str, value: &Value) -> Option<&'static str> {
    let (kind, items) = (known?, value.as_array()?);
    let every = |key: &str| items.iter().all(|item| !item[key].is_null());
    if field == "ports" {
        // Those of a NetworkPolicy are replaced.
        let keys = [("containerPort", true), ("port", kind == "Service")];
        let found = keys
            .into_iter()
            .find(|(key, may)| *may && !items.is_empty() && every(key));
        return found.map(|(key, _)| key);
    }
    let known = MERGED.iter().find(|(name, _)| *name == field);
    known.map(|(_, key)| *key).filter(|key| every(key))
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(applied: &Value) -> Value {
        let note = applied.to_string();
        json!({ "metadata": { "name": "web", "annotations": { KUBECTL_LAST_APPLIED_CONFIGURATION: note } } })
    }

    fn placement(spec: Value) -> Value {
        let mut object = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
            "metadata": { "name": "web" },
        });
        object["spec"] = spec;
        object
    }

    fn deployment(pod: Value) -> Value {
        let mut object = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web", "namespace": "shop" } });
        object["spec"]["template"]["spec"] = pod;
        object
    }

    #[test]
    fn what_the_file_no_longer_says_goes_and_what_it_never_said_stays() {
        let before = placement(
            json!({ "policy": { "placementType": "PickN", "numberOfClusters": 2 }, "revisionHistoryLimit": 5 }),
        );
        let after = placement(json!({ "policy": { "placementType": "PickAll" }, "strategy": null }));
        let Some(Patch::Merge(patch)) = patch(&live(&before), &after) else {
            panic!("a merge patch");
        };
        assert_eq!(
            patch["spec"],
            json!({ "policy": { "placementType": "PickAll", "numberOfClusters": null }, "revisionHistoryLimit": null })
        );
        assert_eq!(patch["metadata"], json!({ "name": "web", "annotations": {} }));
    }

    #[test]
    fn annotations_of_others_stay_and_labels_that_the_file_drops_go() {
        let mut before = placement(json!({}));
        before["metadata"]["annotations"] = json!({ "a": "1", "b": "2" });
        before["metadata"]["labels"] = json!({ "x": "1" });
        let mut after = placement(json!({}));
        after["metadata"]["annotations"] = json!({ "b": "3" });
        let Some(Patch::Merge(one)) = patch(&live(&before), &after) else {
            panic!("a merge patch");
        };
        let wanted = json!({ "name": "web", "annotations": { "a": null, "b": "3" }, "labels": null });
        assert_eq!(one["metadata"], wanted);
        let Some(Patch::Merge(none)) = patch(&live(&before), &placement(json!({}))) else {
            panic!("a merge patch");
        };
        assert_eq!(none["metadata"]["annotations"], json!({ "a": null, "b": null }));
    }

    #[test]
    fn lists_of_the_kinds_that_kubectl_knows_are_merged_by_key() {
        let container = |name: &str, env: Value| json!({ "name": name, "image": "i", "env": env });
        let before = deployment(json!({ "containers": [
            container("web", json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }])), container("old", json!([])),
        ], "tolerations": [{ "key": "x" }] }));
        let after = deployment(json!({ "containers": [
            container("web", json!([{ "name": "A", "value": "3" }])),
        ], "tolerations": [{ "key": "y" }] }));
        let Some(Patch::Strategic(patch)) = patch(&live(&before), &after) else {
            panic!("a strategic merge patch");
        };
        let pod = &patch["spec"]["template"]["spec"];
        assert_eq!(pod["$setElementOrder/containers"], json!([{ "name": "web" }]));
        assert_eq!(
            pod["containers"],
            json!([
                {
                    "name": "web", "image": "i",
                    "env": [{ "name": "A", "value": "3" }, { "$patch": "delete", "name": "B" }],
                    "$setElementOrder/env": [{ "name": "A" }],
                },
                { "$patch": "delete", "name": "old" },
            ])
        );
        assert_eq!(pod["tolerations"], json!([{ "key": "y" }]));
    }

    #[test]
    fn a_list_that_is_empty_now_loses_what_was_applied() {
        let volumes = |list: Value| deployment(json!({ "volumes": list }));
        let patch = patch(&live(&volumes(json!([{ "name": "a" }]))), &volumes(json!([])));
        let Some(Patch::Strategic(patch)) = patch else {
            panic!("a strategic merge patch");
        };
        let pod = &patch["spec"]["template"]["spec"];
        assert_eq!(*pod, json!({ "volumes": [{ "$patch": "delete", "name": "a" }] }));
    }

    #[test]
    fn ports_are_merged_where_kubectl_merges_them() {
        let port = json!([{ "port": 80 }]);
        assert_eq!(merge_key(Some("Service"), "ports", &port), Some("port"));
        assert_eq!(merge_key(Some("NetworkPolicy"), "ports", &port), None);
        assert_eq!(
            merge_key(Some("Pod"), "ports", &json!([{ "containerPort": 80 }])),
            Some("containerPort")
        );
        assert_eq!(merge_key(None, "containers", &json!([{ "name": "web" }])), None);
    }

    #[test]
    fn an_object_that_kubectl_did_not_apply_is_nothing_to_compare_with() {
        assert_eq!(
            patch(&json!({ "metadata": { "name": "web" } }), &placement(json!({}))),
            None
        );
        let odd = json!({ "metadata": { "annotations": { KUBECTL_LAST_APPLIED_CONFIGURATION: "{" } } });
        assert_eq!(patch(&odd, &placement(json!({}))), None);
    }
}
