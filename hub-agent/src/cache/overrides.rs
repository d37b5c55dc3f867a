//! Overrides and their snapshots, watched once.

use fleet_api::{
    kind::Kind as _,
    labels,
    placement::{ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride, ResourceOverrideSnapshot},
};
use fleet_core::{
    admission::overrides::{self as admission, Selected},
    overrides::choose::{selected_cluster_wide, selected_in},
    selection::ObjectId,
};
use fleet_runtime::{
    Key,
    cache::{Era, Index, Store},
    dump::Dump,
    health::Health,
    shutdown::Tasks,
};
use kube::{Client, Resource, ResourceExt as _};

use super::watched;

/// Overrides and their snapshots. Cheap to clone.
#[derive(Clone)]
pub(crate) struct OverrideStores {
    /// ClusterResourceOverrides.
    pub(crate) cluster_wide: Store<ClusterResourceOverride>,
    /// The same by what they select.
    pub(crate) cluster_wide_selecting: Index<ClusterResourceOverride, Selected>,
    /// Their snapshots.
    pub(crate) cluster_wide_snapshots: Store<ClusterResourceOverrideSnapshot>,
    /// Their snapshots by override.
    pub(crate) cluster_wide_of: Index<ClusterResourceOverrideSnapshot, Key>,
    /// Their snapshots by what they select.
    pub(crate) cluster_wide_about: Index<ClusterResourceOverrideSnapshot, ObjectId>,
    /// ResourceOverrides.
    pub(crate) namespaced: Store<ResourceOverride>,
    /// The same by what they select.
    pub(crate) namespaced_selecting: Index<ResourceOverride, Selected>,
    /// The same by namespace.
    pub(crate) namespaced_in: Index<ResourceOverride, String>,
    /// Their snapshots.
    pub(crate) namespaced_snapshots: Store<ResourceOverrideSnapshot>,
    /// Their snapshots by override.
    pub(crate) namespaced_of: Index<ResourceOverrideSnapshot, Key>,
    /// Their snapshots by what they select.
    pub(crate) namespaced_about: Index<ResourceOverrideSnapshot, ObjectId>,
}

impl OverrideStores {
    /// Starts the watches.
    pub(crate) fn start(client: &Client, era: &Era, tasks: &mut Tasks) -> Self {
        let mut wide = Store::builder(ClusterResourceOverrideSnapshot::CRD.plural);
        let cluster_wide_of = wide.index(parents);
        let cluster_wide_about = wide.index(|snapshot: &ClusterResourceOverrideSnapshot| {
            selected_cluster_wide(&snapshot.spec.override_spec).collect()
        });
        let mut narrow = Store::builder(ResourceOverrideSnapshot::CRD.plural);
        let namespaced_of = narrow.index(parents);
        let namespaced_about = narrow.index(|snapshot: &ResourceOverrideSnapshot| {
            let namespace = snapshot.namespace().unwrap_or_default();
            selected_in(&namespace, &snapshot.spec.override_spec).collect()
        });
        let mut own_wide = Store::builder(ClusterResourceOverride::CRD.plural);
        let cluster_wide_selecting =
            own_wide.index(|own: &ClusterResourceOverride| admission::selected_cluster_wide(&own.spec));
        let mut own_narrow = Store::builder(ResourceOverride::CRD.plural);
        let namespaced_in = own_narrow.index(|own: &ResourceOverride| own.namespace().into_iter().collect());
        let namespaced_selecting = own_narrow.index(|own: &ResourceOverride| {
            let namespace = own.namespace().unwrap_or_default();
            admission::selected_in(&namespace, &own.spec)
        });
        Self {
            cluster_wide: watched(own_wide, client, era, tasks),
            cluster_wide_selecting,
            cluster_wide_snapshots: watched(wide, client, era, tasks),
            cluster_wide_of,
            cluster_wide_about,
            namespaced: watched(own_narrow, client, era, tasks),
            namespaced_selecting,
            namespaced_in,
            namespaced_snapshots: watched(narrow, client, era, tasks),
            namespaced_of,
            namespaced_about,
        }
    }

    pub(super) fn show_in(&self, dump: &Dump) {
        self.cluster_wide.show_in(dump);
        self.cluster_wide_snapshots.show_in(dump);
        self.namespaced.show_in(dump);
        self.namespaced_snapshots.show_in(dump);
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
}

/// The override that a snapshot belongs to.
pub(crate) fn parents<K: Resource>(snapshot: &K) -> Vec<Key> {
    let name = snapshot.labels().get(labels::PARENT_OVERRIDE);
    let key = |name: &String| match snapshot.meta().namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => Key::namespaced(namespace, name.as_str()),
        _ => Key::cluster(name.as_str()),
    };
    name.map(key).into_iter().collect()
}

/// The name of one of these overrides that is another than `own`.
pub(crate) fn another(keys: Vec<Key>, own: &Key) -> Option<String> {
    let found = keys.into_iter().find(|key| key != own)?;
    Some(found.name().to_owned())
}
