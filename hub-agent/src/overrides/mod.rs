//! Overrides: keeps their snapshots, and tells which of them concern a placement.
//!
//! Watches both kinds of overrides and their snapshots, and writes snapshots and the overrides' finalizer. Which snapshots
//! a binding names is the rollout's to write, what they do to a manifest the work generator's.

mod snapshots;

use std::sync::Arc;

use fleet_api::{
    kind::Kind as _,
    names::PlacementKey,
    placement::{ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride, ResourceOverrideSnapshot},
    raw::RawJson,
};
use fleet_core::overrides::{
    Cluster,
    choose::{Candidates, Chosen, ClusterScoped, Lists},
    snapshots::current,
};
use fleet_runtime::{
    cache::{Index, Store},
    health::Health,
    shutdown::Tasks,
};
use kube::{Client, Resource, ResourceExt as _};

pub(crate) use self::snapshots::{Context, run};
use crate::cache::family::watched;

/// Overrides and their snapshots. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OverrideStores {
    /// ClusterResourceOverrides.
    pub(crate) cluster_wide: Store<ClusterResourceOverride>,
    /// Their snapshots.
    pub(crate) cluster_wide_snapshots: Store<ClusterResourceOverrideSnapshot>,
    /// Their snapshots by override.
    pub(crate) cluster_wide_of: Index<ClusterResourceOverrideSnapshot, fleet_runtime::Key>,
    /// ResourceOverrides.
    pub(crate) namespaced: Store<ResourceOverride>,
    /// Their snapshots.
    pub(crate) namespaced_snapshots: Store<ResourceOverrideSnapshot>,
    /// Their snapshots by override.
    pub(crate) namespaced_of: Index<ResourceOverrideSnapshot, fleet_runtime::Key>,
}

impl OverrideStores {
    /// Starts the watches.
    pub(crate) fn start(client: &Client, tasks: &mut Tasks) -> Self {
        let mut wide = Store::builder(ClusterResourceOverrideSnapshot::CRD.plural);
        let cluster_wide_of = wide.index(snapshots::parents);
        let mut narrow = Store::builder(ResourceOverrideSnapshot::CRD.plural);
        let namespaced_of = narrow.index(snapshots::parents);
        Self {
            cluster_wide: watched(Store::builder(ClusterResourceOverride::CRD.plural), client, tasks),
            cluster_wide_snapshots: watched(wide, client, tasks),
            cluster_wide_of,
            namespaced: watched(Store::builder(ResourceOverride::CRD.plural), client, tasks),
            namespaced_snapshots: watched(narrow, client, tasks),
            namespaced_of,
        }
    }

    /// Waits until every store has been filled once.
    pub(crate) async fn synced(&self, health: &Health) {
        let check = health.check("overrides");
        check.not_ready("overrides are not listed yet");
        self.cluster_wide.synced().await;
        self.cluster_wide_snapshots.synced().await;
        self.namespaced.synced().await;
        self.namespaced_snapshots.synced().await;
        check.ready();
    }

    /// The overrides that concern a placement with these resources, on each of the clusters.
    pub(crate) fn lists<'a>(
        &self,
        placement: &PlacementKey,
        resources: impl IntoIterator<Item = &'a RawJson>,
        cluster_scoped: ClusterScoped<'_>,
        clusters: &[Cluster<'_>],
    ) -> Vec<Result<Lists, String>> {
        let (wide, narrow) = (self.cluster_wide_snapshots.all(), self.namespaced_snapshots.all());
        if wide.is_empty() && narrow.is_empty() {
            return vec![Ok(Lists::default()); clusters.len()];
        }
        let candidates = Candidates::new(resources, cluster_scoped);
        // While an override is deleted its snapshots go one by one, and an old one must not count in between.
        let wide_live = wide.iter().filter(|s| is_live(&self.cluster_wide, &***s));
        let wide: Vec<&Arc<ClusterResourceOverrideSnapshot>> = current(wide_live.map(|s| (s.meta(), s)));
        let narrow_live = narrow.iter().filter(|s| is_live(&self.namespaced, &***s));
        let narrow: Vec<&Arc<ResourceOverrideSnapshot>> = current(narrow_live.map(|s| (s.meta(), s)));
        let names: Vec<_> = narrow
            .iter()
            .map(|s| (s.namespace().unwrap_or_default(), s.name_any()))
            .collect();
        let wide_names: Vec<_> = wide.iter().map(|s| s.name_any()).collect();
        let chosen = Chosen::new(
            placement,
            &candidates,
            wide_names
                .iter()
                .zip(&wide)
                .map(|(name, s)| (name.as_str(), &s.spec.override_spec)),
            names
                .iter()
                .zip(&narrow)
                .map(|((namespace, name), s)| (namespace.as_str(), name.as_str(), &s.spec.override_spec)),
        );
        let on = |cluster| chosen.on(cluster).map_err(|bad| bad.to_string());
        clusters.iter().map(on).collect()
    }
}

/// Whether the override of a snapshot is there to stay, also as one that cannot be read.
fn is_live<O: Resource + Send + Sync + 'static>(overrides: &Store<O>, snapshot: &impl Resource) -> bool {
    snapshots::parents(snapshot).first().is_some_and(|parent| {
        let found = overrides.get(parent);
        found.map_or_else(
            || overrides.is_odd(parent),
            |found| found.meta().deletion_timestamp.is_none(),
        )
    })
}
