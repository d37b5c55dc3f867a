//! Works as they should be, and how those that exist differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use fleet_api::names;
use fleet_api::placement::{ApplyStrategy, NamespacedName, ReportBackStrategy};
use fleet_api::raw::RawJson;
use fleet_api::{annotations, labels};
use serde_json::json;

use super::Existing;
use super::owner::Owner;
use super::render::Piece;
use crate::envelope::EnvelopeKind;
use crate::selection::ObjectId;

/// A Work as it should be.
#[derive(Debug, Clone)]
pub struct WantedWork {
    /// Its name.
    pub name: String,
    /// Labels that it has to carry; others stay.
    pub labels: BTreeMap<String, String>,
    /// Annotations that it has to carry; others stay.
    pub annotations: BTreeMap<String, String>,
    /// Its manifests.
    pub manifests: Arc<[RawJson]>,
    /// Their hash.
    pub hash: String,
    /// How they are applied.
    pub apply_strategy: Option<ApplyStrategy>,
    /// What is reported back.
    pub report_back: Option<ReportBackStrategy>,
}

/// A Work that exists and differs.
#[derive(Debug, Clone)]
pub struct Patch {
    /// What it should be.
    pub wanted: WantedWork,
    /// Labels or annotations differ.
    pub metadata: bool,
    /// Manifests differ.
    pub manifests: bool,
    /// The apply strategy or what is reported back differs.
    pub strategy: bool,
    /// The version that was looked at; the write is refused if there is a newer one.
    pub resource_version: Option<String>,
    /// Annotations to take away.
    pub annotations_gone: Vec<&'static str>,
    /// Written after all creates, and after the patches of smaller waves: an object that moves is in its new Work before
    /// it leaves the old one.
    pub wave: usize,
}

pub(super) fn envelope_labels(kind: EnvelopeKind, object: &ObjectId) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (labels::ENVELOPE_TYPE.to_owned(), kind.envelope_type().to_string()),
        (labels::ENVELOPE_NAME.to_owned(), object.name.clone()),
    ]);
    if kind == EnvelopeKind::Namespaced {
        labels.insert(labels::ENVELOPE_NAMESPACE.to_owned(), object.namespace.clone());
    }
    labels
}

/// The hash of a list of override snapshots, as Works carry it. No list is `null`.
pub fn list_hash<T: serde::Serialize>(list: &[T]) -> String {
    let json = if list.is_empty() {
        "null".into()
    } else {
        serde_json::to_string(list).unwrap_or_default()
    };
    names::sha256_hex(json)
}

impl WantedWork {
    pub(super) fn new(owner: &Owner<'_>, piece: &Piece, name: Option<String>) -> Self {
        let mut labels = owner_labels(owner);
        labels.insert(labels::PARENT_RESOURCE_SNAPSHOT_INDEX.into(), owner.index.into());
        if let Some((kind, object)) = &piece.envelope {
            labels.extend(envelope_labels(*kind, object));
        }
        let spec = owner.spec;
        let named: &[NamespacedName] = &spec.resource_override_snapshots;
        let mut annotations = BTreeMap::from([
            (
                annotations::PARENT_RESOURCE_SNAPSHOT_NAME.to_owned(),
                spec.resource_snapshot_name.clone(),
            ),
            (annotations::PARENT_RESOURCE_OVERRIDE_HASH.to_owned(), list_hash(named)),
            (
                annotations::PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH.to_owned(),
                list_hash(&spec.cluster_resource_override_snapshots),
            ),
        ]);
        if owner.abandon {
            annotations.insert(annotations::DELETE_PROPAGATION.into(), annotations::ABANDON.into());
        }
        Self {
            name: name.unwrap_or_else(|| piece.name.clone()),
            labels,
            annotations,
            manifests: Arc::clone(&piece.manifests),
            hash: piece.hash.clone(),
            apply_strategy: spec.apply_strategy.clone(),
            report_back: owner.report_back.cloned(),
        }
    }

    /// The Work to create. Whether it starts with the cleanup finalizer is [`super::starts_with_finalizer`]'s answer.
    pub fn to_json(&self, namespace: &str, finalizer: bool) -> serde_json::Result<RawJson> {
        let mut metadata = json!({
            "name": self.name, "namespace": namespace, "labels": self.labels, "annotations": self.annotations,
        });
        if finalizer {
            metadata["finalizers"] = json!([fleet_api::finalizers::WORK]);
        }
        RawJson::from_serialize(&Body {
            api_version: Some("placement.kubernetes-fleet.io/v1beta1"),
            kind: Some("Work"),
            metadata: Some(metadata),
            spec: Some(Spec {
                workload: Some(Workload {
                    manifests: &self.manifests,
                }),
                apply_strategy: self.apply_strategy.as_ref().map(|strategy| json!(strategy)),
                report_back_strategy: self.report_back.as_ref().map(|strategy| json!(strategy)),
            }),
        })
    }
}

fn owner_labels(owner: &Owner<'_>) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::from([
        (labels::PARENT_BINDING.to_owned(), owner.binding.to_owned()),
        (labels::PARENT_PLACEMENT.to_owned(), owner.placement.name().to_owned()),
    ]);
    if let Some(namespace) = owner.placement.namespace() {
        labels.insert(labels::PARENT_PLACEMENT_NAMESPACE.into(), namespace.into());
    }
    labels
}

impl Patch {
    pub(super) fn between(existing: &Existing, wanted: WantedWork) -> Option<Self> {
        let has = |have: &BTreeMap<String, String>, want: &BTreeMap<String, String>| {
            want.iter().all(|(key, value)| have.get(key) == Some(value))
        };
        let mut annotations_gone = Vec::new();
        if existing.annotations.contains_key(annotations::DELETE_PROPAGATION)
            && !wanted.annotations.contains_key(annotations::DELETE_PROPAGATION)
        {
            annotations_gone.push(annotations::DELETE_PROPAGATION);
        }
        let patch = Self {
            metadata: !has(&existing.labels, &wanted.labels)
                || !has(&existing.annotations, &wanted.annotations)
                || !annotations_gone.is_empty(),
            manifests: existing.hash != wanted.hash,
            strategy: existing.apply_strategy != wanted.apply_strategy || existing.report_back != wanted.report_back,
            resource_version: existing.resource_version.clone(),
            annotations_gone,
            wave: 0,
            wanted,
        };
        (patch.metadata || patch.manifests || patch.strategy).then_some(patch)
    }

    /// The merge patch. Only what differs is in it: the size of the whole Work would be paid for a label.
    pub fn to_json(&self) -> serde_json::Result<RawJson> {
        let wanted = &self.wanted;
        let mut metadata = json!({});
        if let Some(version) = &self.resource_version {
            metadata["resourceVersion"] = json!(version);
        }
        if self.metadata {
            metadata["labels"] = json!(wanted.labels);
            metadata["annotations"] = json!(wanted.annotations);
            for key in &self.annotations_gone {
                metadata["annotations"][*key] = json!(null);
            }
        }
        let strategy = self.strategy.then(|| {
            // A merge patch keeps what it does not mention.
            let mut apply = json!(wanted.apply_strategy);
            if let Some(apply) = apply.as_object_mut() {
                apply.entry("serverSideApplyConfig").or_insert(json!(null));
                apply.entry("allowCoOwnership").or_insert(json!(null));
            }
            let mut back = json!(wanted.report_back);
            if let Some(back) = back.as_object_mut() {
                back.entry("destination").or_insert(json!(null));
            }
            (apply, back)
        });
        let workload = self.manifests.then_some(Workload {
            manifests: &wanted.manifests,
        });
        let (apply_strategy, report_back_strategy) = strategy.unzip();
        let spec = (self.manifests || self.strategy).then_some(Spec {
            workload,
            apply_strategy,
            report_back_strategy,
        });
        RawJson::from_serialize(&Body {
            api_version: None,
            kind: None,
            metadata: Some(metadata),
            spec,
        })
    }
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<Spec<'a>>,
}

#[derive(serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    workload: Option<Workload<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    apply_strategy: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report_back_strategy: Option<serde_json::Value>,
}

#[derive(serde::Serialize)]
struct Workload<'a> {
    manifests: &'a [RawJson],
}
