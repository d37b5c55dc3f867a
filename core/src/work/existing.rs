//! A Work on the hub, as far as decisions need it; its manifests are not kept.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::work::{Applied, DiffReported};
use fleet_api::conditions::{Status, fresh};
use fleet_api::labels;
use fleet_api::placement::{ApplyStrategy, ReportBackStrategy, Work};

use super::owner::Owner;
use super::render::content_hash;
use crate::selection::ObjectId;

/// A Work on the hub.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// The version that was looked at.
    pub resource_version: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The hash of its manifests.
    pub hash: String,
    /// How they are applied.
    pub apply_strategy: Option<ApplyStrategy>,
    /// What is reported back.
    pub report_back: Option<ReportBackStrategy>,
    /// What the member says that it holds because of it.
    pub holds: BTreeSet<ObjectId>,
    /// Whether the member has had its say on this generation, good or bad.
    pub answered: bool,
}

impl Existing {
    /// All that is needed of `work`; it can be dropped afterwards.
    pub fn of(work: &Work) -> Self {
        let metadata = &work.metadata;
        let generation = metadata.generation.unwrap_or_default();
        let status = work.status.as_ref();
        let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let manifests = status
            .map(|status| status.manifest_conditions.as_slice())
            .unwrap_or_default();
        let said =
            |type_name| fresh(conditions, type_name, generation).is_some_and(|c| Status::of(c) != Status::Unknown);
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: metadata.annotations.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone(),
            deleting: metadata.deletion_timestamp.is_some(),
            hash: content_hash(&work.spec.workload.manifests),
            apply_strategy: work.spec.apply_strategy.clone(),
            report_back: work.spec.report_back_strategy.clone(),
            holds: manifests
                .iter()
                .map(|manifest| ObjectId::from(&manifest.identifier))
                .collect(),
            answered: said(Applied::TYPE) || said(DiffReported::TYPE),
        }
    }

    /// Whether it is this binding's. The namespace counts: bindings of both scopes may have the same name.
    pub(super) fn belongs_to(&self, owner: &Owner<'_>) -> bool {
        self.label(labels::PARENT_BINDING) == Some(owner.binding)
            && self.label(labels::PARENT_PLACEMENT_NAMESPACE) == owner.placement.namespace()
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    pub(super) fn is_envelope(&self) -> bool {
        self.labels.contains_key(labels::ENVELOPE_TYPE)
    }

    pub(super) fn owner_text(&self) -> String {
        let Some(placement) = self.label(labels::PARENT_PLACEMENT) else {
            return "no placement".to_owned();
        };
        let binding = self.label(labels::PARENT_BINDING).unwrap_or("unknown");
        match self.label(labels::PARENT_PLACEMENT_NAMESPACE) {
            Some(namespace) => format!("ResourcePlacement {namespace}/{placement} (binding {binding})"),
            None => format!("ClusterResourcePlacement {placement} (binding {binding})"),
        }
    }
}
