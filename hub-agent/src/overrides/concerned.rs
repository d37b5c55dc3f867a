//! Which placements a change of an override may concern.

use std::collections::BTreeSet;

use fleet_api::{
    names::PlacementKey,
    placement::{ClusterResourceOverrideSnapshot, ResourceOverrideSnapshot, Scope},
};
use fleet_core::{
    overrides::choose::{refers, selected_cluster_wide},
    selection::ObjectId,
};
use fleet_runtime::{
    Key,
    cache::{Change, Index},
};
use kube::{Resource, ResourceExt as _};

use crate::{
    cache::{
        family::{Family, parent},
        overrides::parents,
    },
    pipeline::key_of,
};

/// A snapshot of an override of either kind.
pub(crate) trait OverrideSnapshot: Resource {
    /// Where the resources of placements are found that it may concern.
    fn looks_under(&self) -> Vec<ObjectId>;
    /// Whether it is for this placement.
    fn is_for(&self, placement: &PlacementKey) -> bool;
}

impl OverrideSnapshot for ClusterResourceOverrideSnapshot {
    fn looks_under(&self) -> Vec<ObjectId> {
        selected_cluster_wide(&self.spec.override_spec).collect()
    }

    fn is_for(&self, placement: &PlacementKey) -> bool {
        refers(self.spec.override_spec.placement.as_ref(), None, placement)
    }
}

impl OverrideSnapshot for ResourceOverrideSnapshot {
    fn looks_under(&self) -> Vec<ObjectId> {
        vec![ObjectId::of_namespace(&self.namespace().unwrap_or_default())]
    }

    fn is_for(&self, placement: &PlacementKey) -> bool {
        let namespace = self.namespace().unwrap_or_default();
        refers(self.spec.override_spec.placement.as_ref(), Some(&namespace), placement)
    }
}

/// The placements that a change of a snapshot may concern: those that it is about, and those that another snapshot of the
/// same override is about, which may now count or no longer count.
pub(crate) fn concerned<S: Scope, N: OverrideSnapshot>(
    family: &Family<S>,
    of: &Index<N, Key>,
    change: &Change<N>,
) -> BTreeSet<Key> {
    let matters = change.differs(|s| (s.meta().labels.clone(), s.meta().deletion_timestamp.is_some()));
    if !matters {
        return BTreeSet::new();
    }
    let sides: Vec<_> = [&change.old, &change.new].into_iter().flatten().cloned().collect();
    let others = sides.iter().flat_map(|side| parents(&**side));
    let others: Vec<_> = others.flat_map(|parent| of.get(&parent)).collect();
    let mut found = BTreeSet::new();
    for snapshot in sides.iter().chain(&others) {
        let under = snapshot.looks_under().into_iter();
        let held = under.flat_map(|object| family.snapshots_under.get(&object));
        let placements = held.filter_map(|held| parent(&*held));
        let is_for = |key: &Key| key_of(key).is_ok_and(|name| snapshot.is_for(&name));
        found.extend(placements.filter(is_for));
    }
    found
}
