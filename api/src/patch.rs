//! Changing an object without touching what we do not know.
//!
//! A typed object holds only the fields of this version. Writing it back whole (PUT) would delete whatever a newer
//! version or somebody else has put beside them. So changes are written as a JSON merge patch (RFC 7396) between what we
//! read and what we want, both as *typed* states: a field that we do not know is in neither, and so is never mentioned.
//!
//! ```
//! # use fleet_api::{patch, placement::Work};
//! # let read: Work = serde_json::from_str(r#"{"metadata":{"name":"w"}}"#)?;
//! let mut wanted = read.clone();
//! wanted.metadata.labels.get_or_insert_default().insert("team".into(), "red".into());
//! let patch = patch::between(&read, &wanted)?;
//! assert_eq!(patch, Some(serde_json::json!({ "metadata": { "labels": { "team": "red" } } })));
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Limits
//!
//! - A list is one value: if any element differs, the whole list is sent, and unknown fields inside its elements are
//!   lost. Send `metadata.resourceVersion` along ([`pinned`]) so that at least no other change to the list is lost.
//! - A merge patch cannot set a field to `null`; `null` means "remove". Our types never write `null` except inside raw
//!   JSON, which sits in lists, where a patch carries it unharmed. In a map of raw JSON (an envelope's `data`) it would
//!   vanish; we never write envelopes.

use kube::Resource;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The patch that turns `old` into `new`; `None` when there is nothing to write.
pub fn between<T: Serialize>(old: &T, new: &T) -> serde_json::Result<Option<Value>> {
    Ok(merge_patch(&serde_json::to_value(old)?, &serde_json::to_value(new)?))
}

/// The patch that turns the status `old` of an object into `new`; `None` when there is nothing to write.
pub fn between_statuses<T: Serialize>(old: &T, new: &T) -> serde_json::Result<Option<Value>> {
    Ok(between(old, new)?.map(|status| json!({ "status": status })))
}

/// [`between`] for two JSON values.
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let gone = old
        .keys()
        .filter(|key| !new.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let changed = new.iter().filter_map(|(key, value)| {
        let patch = match old.get(key) {
            Some(before) => merge_patch(before, value)?,
            None => value.clone(),
        };
        Some((key.clone(), patch))
    });
    let patch: Map<_, _> = gone.chain(changed).collect();
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The patch, to be accepted only if `read` is still what the API server has.
pub fn pinned<K: Resource>(mut patch: Value, read: &K) -> Value {
    if let Some(version) = &read.meta().resource_version {
        patch["metadata"]["resourceVersion"] = json!(version);
    }
    patch
}

/// What the API server makes of an object and a merge patch (RFC 7396). For whoever plays the API server in tests.
pub fn applied(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut target = match target {
        Value::Object(target) => target,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            let before = target.remove(key).unwrap_or(Value::Null);
            target.insert(key.clone(), applied(before, value));
        }
    }
    Value::Object(target)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::placement::ClusterResourcePlacement;

    /// Objects with few different keys, so that two of them overlap, and no null outside lists.
    fn object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0..3).prop_map(Value::from),
            "[xy]{0,2}".prop_map(Value::from),
            prop::collection::vec(prop_oneof![Just(Value::Null), (0..3).prop_map(Value::from)], 0..3)
                .prop_map(Value::from),
        ];
        let tree = leaf.prop_recursive(3, 24, 4, |inner| map_of(inner).prop_map(Value::from_iter));
        map_of(tree).prop_map(Value::from_iter)
    }

    fn map_of(value: impl Strategy<Value = Value>) -> impl Strategy<Value = BTreeMap<String, Value>> {
        prop::collection::btree_map("[abc]", value, 0..4)
    }

    proptest! {
        #[test]
        fn applying_the_patch_gives_the_new_state(old in object(), new in object()) {
            let patched = match merge_patch(&old, &new) {
                Some(patch) => applied(old, &patch),
                None => old,
            };
            prop_assert_eq!(patched, new);
        }

        #[test]
        fn equal_states_need_no_patch(state in object()) {
            prop_assert_eq!(merge_patch(&state, &state), None);
        }

        #[test]
        fn fields_that_neither_state_knows_survive(old in object(), new in object(), unknown in object()) {
            let mut stored = old.clone();
            stored["unknown"] = unknown.clone();
            if let Some(patch) = merge_patch(&old, &new) {
                stored = applied(stored, &patch);
            }
            prop_assert_eq!(&stored["unknown"], &unknown);
        }
    }

    #[test]
    fn what_others_wrote_into_a_placement_survives_our_change() {
        let stored = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "metadata": { "name": "web", "resourceVersion": "7", "fromTheFuture": 1 },
            "spec": {
                "resourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": "web" }],
                "policy": { "placementType": "PickN", "numberOfClusters": 2, "fromTheFuture": { "a": 1 } },
                "fromTheFuture": true,
            },
        });
        let read: ClusterResourcePlacement = serde_json::from_value(stored.clone()).unwrap();
        let mut wanted = read.clone();
        wanted.metadata.finalizers = Some(vec!["f".into()]);
        wanted.spec.policy.as_mut().unwrap().number_of_clusters = Some(3);
        let patch = pinned(between(&read, &wanted).unwrap().unwrap(), &read);
        assert_eq!(
            patch,
            json!({
                "metadata": { "finalizers": ["f"], "resourceVersion": "7" },
                "spec": { "policy": { "numberOfClusters": 3 } },
            })
        );
        let mut expected = stored.clone();
        expected["metadata"]["finalizers"] = json!(["f"]);
        expected["spec"]["policy"]["numberOfClusters"] = json!(3);
        assert_eq!(applied(stored, &patch), expected);
    }
}
