//! An object of any kind, without its content.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use fleet_core::selection::{Object, ObjectId};
use kube::{
    ResourceExt as _,
    core::{ObjectMeta, PartialObjectMeta},
};
use serde::Deserialize;
use serde_json::Value;

use super::{any_kind::of_any_kind, kinds::Gvk};

/// Bytes of labels that are kept of one object. Nothing else bounds their number: a tenant may write more than a megabyte of
/// them to each.
const LABELS_KEPT: usize = 16 * 1024;

/// Metadata, and what else selection asks for.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Light {
    #[serde(default)]
    pub(super) metadata: ObjectMeta,
    /// Of a Secret its type, for which it is watched as a whole.
    #[serde(default, rename = "type")]
    type_: Option<Value>,
    /// Of annotations and finalizers: only a change of them matters, and a tenant may write 256 KiB of them to each object. Of
    /// labels those that were not kept.
    #[serde(skip)]
    words: u64,
    #[serde(skip)]
    owned: bool,
}

impl Light {
    /// What arrives as metadata alone.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unnecessary_wraps, reason = "what a watch asks for")]
    pub(super) fn of(object: PartialObjectMeta<Self>) -> Result<Self, String> {
        let metadata = object.metadata;
        Ok(Self {
            metadata,
            ..Self::default()
        })
    }

    /// Leaves out what nobody asks for.
    pub(super) fn prune(&mut self) {
        let m = &mut self.metadata;
        m.managed_fields = None;
        let mut words = DefaultHasher::new();
        (m.annotations.take(), m.finalizers.take()).hash(&mut words);
        if let Some(labels) = &mut m.labels {
            let mut bytes = 0;
            labels.retain(|label, value| {
                let size = label.len() + value.len();
                let fits = bytes + size <= LABELS_KEPT;
                if fits {
                    bytes += size;
                } else {
                    (label, value).hash(&mut words);
                }
                fits
            });
        }
        self.words = words.finish();
        self.owned = m.owner_references.take().is_some_and(|list| !list.is_empty());
        if !matches!(self.type_, Some(Value::String(_))) {
            self.type_ = None;
        }
    }

    /// As selection sees it.
    pub(super) fn object(&self, gvk: &Gvk) -> Object {
        let secret_type = self.type_.as_ref().and_then(Value::as_str).filter(|_| gvk.is_secret());
        Object {
            id: ObjectId {
                group: gvk.group.clone(),
                version: gvk.version.clone(),
                kind: gvk.kind.clone(),
                namespace: self.metadata.namespace.clone().unwrap_or_default(),
                name: self.name_any(),
            },
            labels: self.metadata.labels.clone().unwrap_or_default(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            owned: self.owned,
            secret_type: secret_type.unwrap_or_default().to_owned(),
        }
    }

    /// What a change must touch to matter. A kind that counts generations does so for its spec and not for its status;
    /// of the others every version counts.
    pub(super) fn content(&self, gvk: &Gvk) -> impl PartialEq {
        let m = &self.metadata;
        let counts = m.generation.is_some() && !gvk.has_constant_generation();
        let version = (!counts).then(|| m.resource_version.clone());
        (
            m.uid.clone(),
            m.generation,
            version,
            (m.labels.clone(), self.words),
            self.owned,
            m.deletion_timestamp.is_some(),
        )
    }
}

of_any_kind!(Light);

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_placed_counts_and_status_does_not() {
        let light = |metadata: Value| {
            let mut light: Light = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
            light.prune();
            light
        };
        let base = json!({ "name": "a", "uid": "u", "generation": 1, "resourceVersion": "1" });
        let with = |field: &str, value: Value| {
            let mut other = base.clone();
            other[field] = value;
            other
        };
        let deployment = Gvk::new("apps", "v1", "Deployment");
        let class = Gvk::new("scheduling.k8s.io", "v1", "PriorityClass");
        for (gvk, field, value, matters) in [
            (&deployment, "resourceVersion", json!("2"), false),
            (&class, "resourceVersion", json!("2"), true),
            (&deployment, "generation", json!(2), true),
            (&deployment, "labels", json!({ "a": "b" }), true),
            (&deployment, "annotations", json!({ "a": "b" }), true),
            (&deployment, "finalizers", json!(["a/b"]), true),
            (
                &deployment,
                "ownerReferences",
                json!([{ "apiVersion": "v1", "kind": "K", "name": "n", "uid": "u" }]),
                true,
            ),
            (&deployment, "deletionTimestamp", json!("2026-01-01T00:00:00Z"), true),
        ] {
            let (before, after) = (light(base.clone()), light(with(field, value)));
            let differs = before.content(gvk) != after.content(gvk);
            assert_eq!(differs, matters, "{} {field}", gvk.kind);
        }
    }

    #[test]
    fn of_a_megabyte_of_labels_a_little_is_kept_and_every_change_is_seen() {
        let fat = |changed: usize, value: &str| {
            let mut labels: BTreeMap<_, _> = (0..3_000).map(|i| (format!("l{i:0250}"), "v".repeat(63))).collect();
            labels.insert("app".to_owned(), "web".to_owned());
            labels.insert(format!("l{changed:0250}"), value.to_owned());
            let mut light = Light::default();
            light.metadata.labels = Some(labels);
            light.prune();
            light
        };
        let gvk = Gvk::new("", "v1", "ConfigMap");
        let kept = fat(0, "a").object(&gvk).labels;
        let bytes: usize = kept.iter().map(|(label, value)| label.len() + value.len()).sum();
        assert!(bytes <= LABELS_KEPT && bytes > LABELS_KEPT / 2, "{bytes}");
        assert_eq!(kept["app"], "web", "in the order of their names");
        for changed in [0, 2_999] {
            let (before, same, after) = (fat(changed, "a"), fat(changed, "a"), fat(changed, "b"));
            assert!(before.content(&gvk) == same.content(&gvk));
            assert!(before.content(&gvk) != after.content(&gvk), "{changed}");
        }
    }

    #[test]
    fn what_only_has_to_be_told_apart_is_not_kept() {
        let owner = json!({ "apiVersion": "v1", "kind": "K", "name": "n", "uid": "u" });
        let mut light: Light = serde_json::from_value(json!({ "metadata": {
            "name": "a", "annotations": { "a": "b" }, "finalizers": ["a/b"], "ownerReferences": [owner],
            "managedFields": [{ "manager": "kubectl" }],
        } }))
        .unwrap();
        light.prune();
        assert!(light.object(&Gvk::namespace()).owned);
        let name = Some("a".to_owned());
        assert_eq!(
            light.metadata,
            ObjectMeta {
                name,
                ..ObjectMeta::default()
            }
        );
    }
}
