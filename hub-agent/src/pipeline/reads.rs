//! What several stages read from the stores.

use std::sync::Arc;

use fleet_api::{
    annotations, labels,
    placement::{BindingStatus, Scope},
    raw::RawJson,
};
use fleet_core::{report_back, selection::ObjectId, snapshot};
use fleet_runtime::{
    Key,
    cache::{Change, Index},
};
use kube::{
    Resource, ResourceExt as _,
    core::{ObjectMeta, object::HasSpec as _},
};

use super::Pipeline;
use crate::cache::works::HubWork;

impl<S: Scope> Pipeline<S> {
    /// The status that a binding is about to get, if that is not stored yet.
    pub(crate) fn ahead(&self, binding: &S::Binding) -> Option<Arc<BindingStatus>> {
        let generation = binding.meta().generation.unwrap_or_default();
        self.signals.status(&Key::of(binding), generation)
    }

    /// The binding of a Work of which nothing but its status has changed, if that is all that its binding's status waits
    /// for. Else the work generator has to look first.
    pub(crate) fn reported(&self, change: &Change<HubWork>) -> Option<Key> {
        let is_report = change.old.is_some()
            && change.new.is_some()
            && !change.differs(|work| {
                let ObjectMeta {
                    uid,
                    generation,
                    labels,
                    annotations,
                    deletion_timestamp,
                    ..
                } = &work.metadata;
                (uid, generation, labels, annotations, deletion_timestamp)
            });
        let binding = change.object().binding().filter(Self::is_ours)?;
        (is_report && self.signals.is_closed(&binding, None)).then_some(binding)
    }

    /// Whether the placement asks for the status of what it places.
    pub(crate) fn reports_back(&self, placement: &Key) -> bool {
        let placement = self.family.placements.get(placement);
        placement.is_some_and(|placement| report_back::asks_for(placement.spec().strategy.as_ref()))
    }

    /// What users' objects show may have to be written again, where the placement asks for that.
    pub(crate) fn look_back(&self, placement: &Key) {
        if self.reports_back(placement) {
            self.signals.look_back(placement);
        }
    }

    /// The latest snapshot of a placement: the one with the label, of several the one with the highest index.
    pub(crate) fn latest_policy(&self, placement: &Key) -> Option<Arc<S::PolicySnapshot>> {
        latest(&self.family.policies_of, placement, labels::POLICY_INDEX)
    }

    /// The latest master of a placement's resource snapshots.
    pub(crate) fn latest_master(&self, placement: &Key) -> Option<Arc<S::ResourceSnapshot>> {
        latest(&self.family.snapshots_of, placement, labels::RESOURCE_INDEX)
    }

    /// The snapshots of the group with this index, in order.
    pub(crate) fn group(&self, placement: &Key, index: &str) -> Vec<Arc<S::ResourceSnapshot>> {
        let mut group = self.family.snapshots_of.get(placement);
        group.retain(|s| s.labels().get(labels::RESOURCE_INDEX).is_some_and(|own| own == index));
        let position = |s: &Arc<S::ResourceSnapshot>| {
            let text = s.annotations().get(annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT);
            text.and_then(|text| text.parse::<usize>().ok())
        };
        group.sort_by_key(position);
        group
    }

    /// The texts of the group with this index, in order.
    pub(crate) fn group_texts(&self, placement: &Key, index: &str) -> Vec<RawJson> {
        let group = self.group(placement, index);
        let resources = group.iter().flat_map(|s| &s.spec().selected_resources);
        resources.cloned().collect()
    }

    /// The texts of the newest group, whether or not it is labelled latest at the moment.
    pub(crate) fn frozen(&self, placement: &Key) -> Vec<RawJson> {
        let all = self.family.snapshots_of.get(placement);
        let index = |s: &Arc<S::ResourceSnapshot>| s.labels().get(labels::RESOURCE_INDEX)?.parse::<u64>().ok();
        let newest = all.iter().filter_map(index).max();
        newest.map_or_else(Vec::new, |index| self.group_texts(placement, &index.to_string()))
    }

    /// What is placed now.
    pub(crate) fn placed(&self, placement: &Key) -> Vec<ObjectId> {
        let texts = self.frozen(placement);
        texts.iter().filter_map(|text| ObjectId::of(text).ok()).collect()
    }
}

fn latest<K: Resource>(index: &Index<K, Key>, placement: &Key, index_label: &str) -> Option<Arc<K>> {
    let found = index.get(placement);
    snapshot::latest(found.iter().map(|object| (object.meta(), object.clone())), index_label)
}
