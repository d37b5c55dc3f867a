//! One kind of placement and everything that belongs to it, watched once, with the indexes that the pipeline asks for.

use std::sync::Arc;

use fleet_api::{
    kind::{Kind, SpecKind},
    labels,
    placement::{BindingSpec, ClusterResourcePlacementStatus, ClusterScoped, Namespaced, ResourceSnapshotSpec, Scope},
};
use fleet_core::{overrides::choose::found_under, selection::ObjectId, work::Stored};
use fleet_runtime::{
    Key,
    cache::{Change, Era, Index, Store},
    dump::Dump,
    health::Health,
    shutdown::Tasks,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Client, Resource, ResourceExt, core::object::HasSpec as _};

pub(crate) use super::beside;
pub(super) use super::watched;
use super::{overrides::OverrideStores, runs::UpdateStores};

/// The stores of one scope. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Family<S: Scope> {
    /// Placements.
    pub(crate) placements: Store<S::Placement>,
    /// Policy snapshots.
    pub(crate) policies: Store<S::PolicySnapshot>,
    /// Policy snapshots by placement.
    pub(crate) policies_of: Index<S::PolicySnapshot, Key>,
    /// Resource snapshots.
    pub(crate) snapshots: Store<S::ResourceSnapshot>,
    /// Resource snapshots by placement.
    pub(crate) snapshots_of: Index<S::ResourceSnapshot, Key>,
    /// Resource snapshots by where overrides find what they hold.
    pub(crate) snapshots_under: Index<S::ResourceSnapshot, ObjectId>,
    /// Bindings.
    pub(crate) bindings: Store<S::Binding>,
    /// Bindings by placement.
    pub(crate) bindings_of: Index<S::Binding, Key>,
    /// Bindings by cluster.
    pub(crate) bindings_on: Index<S::Binding, String>,
    /// Bindings by the override snapshots that they name, of both kinds.
    pub(crate) bindings_naming: Index<S::Binding, Key>,
    /// Update runs.
    pub(crate) updates: UpdateStores<S>,
}

impl<S: Scope> Family<S> {
    /// Starts the watches.
    pub(crate) fn start(client: &Client, era: &Era, runs: bool, tasks: &mut Tasks) -> Self {
        let placements = Store::builder(S::Placement::CRD.plural);
        let mut policies = Store::builder(S::PolicySnapshot::CRD.plural);
        let policies_of = policies.index(parents);
        let mut snapshots = Store::builder(S::ResourceSnapshot::CRD.plural);
        let snapshots_of = snapshots.index(parents);
        let snapshots_under = snapshots.index(|snapshot: &S::ResourceSnapshot| {
            let found = found_under(&snapshot.spec().selected_resources);
            found.into_iter().collect()
        });
        let mut bindings = Store::builder(S::Binding::CRD.plural);
        let of_placement = bindings.index(parents);
        let on_cluster = bindings.index(|binding: &S::Binding| vec![binding.spec().target_cluster.clone()]);
        let naming = bindings.index(|binding: &S::Binding| named_overrides(binding.spec()));
        Self {
            placements: watched(placements, client, era, tasks),
            policies: watched(policies, client, era, tasks),
            policies_of,
            snapshots: watched(snapshots, client, era, tasks),
            snapshots_of,
            snapshots_under,
            bindings: watched(bindings, client, era, tasks),
            bindings_of: of_placement,
            bindings_on: on_cluster,
            bindings_naming: naming,
            updates: UpdateStores::start(client, era, runs, tasks),
        }
    }

    fn show_in(&self, dump: &Dump) {
        self.placements.show_in(dump);
        self.policies.show_in(dump);
        self.snapshots.show_in(dump);
        self.bindings.show_in(dump);
        self.updates.show_in(dump);
    }

    /// Waits until every store has been filled once; `health` says which is not.
    pub(crate) async fn synced(&self, health: &Health) {
        let check = health.check(S::Placement::CRD.plural);
        let next = |name: &str| check.not_ready(format!("{name} are not listed yet"));
        next(self.placements.name());
        self.placements.synced().await;
        next(self.policies.name());
        self.policies.synced().await;
        next(self.snapshots.name());
        self.snapshots.synced().await;
        next(self.bindings.name());
        self.bindings.synced().await;
        check.ready();
        self.updates.synced(health).await;
    }
}

/// Copies of cluster-scoped placements' status for people who may only read their namespace. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Mirrors {
    pub(crate) store: Store<ClusterResourcePlacementStatus>,
    /// By name, which is the placement's.
    pub(crate) of: Index<ClusterResourcePlacementStatus, String>,
}

impl Mirrors {
    fn start(client: &Client, era: &Era, tasks: &mut Tasks) -> Self {
        let mut builder = Store::builder(ClusterResourcePlacementStatus::CRD.plural);
        let of = builder.index(|mirror: &ClusterResourcePlacementStatus| vec![mirror.name_any()]);
        let store = watched(builder, client, era, tasks);
        Self { store, of }
    }
}

/// Whether the hub has the kinds of update runs, by scope.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunKinds {
    pub(crate) cluster: bool,
    pub(crate) namespaced: bool,
}

impl RunKinds {
    #[cfg(test)]
    pub(crate) const fn both(served: bool) -> Self {
        Self {
            cluster: served,
            namespaced: served,
        }
    }
}

/// Everything that the placement pipeline watches. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Placements {
    pub(crate) cluster: Family<ClusterScoped>,
    pub(crate) namespaced: Family<Namespaced>,
    pub(crate) overrides: OverrideStores,
    pub(crate) mirrors: Mirrors,
}

impl Placements {
    /// Starts the watches, those of update runs where the hub has these kinds.
    pub(crate) fn start(client: &Client, era: &Era, runs: RunKinds, tasks: &mut Tasks) -> Self {
        Self {
            cluster: Family::start(client, era, runs.cluster, tasks),
            namespaced: Family::start(client, era, runs.namespaced, tasks),
            overrides: OverrideStores::start(client, era, tasks),
            mirrors: Mirrors::start(client, era, tasks),
        }
    }

    /// Lets people who debug see the stores.
    pub(crate) fn show_in(&self, dump: &Dump) {
        self.cluster.show_in(dump);
        self.namespaced.show_in(dump);
        self.overrides.show_in(dump);
        self.mirrors.store.show_in(dump);
    }

    /// Waits until every store has been filled once.
    pub(crate) async fn synced(&self, health: &Health) {
        self.cluster.synced(health).await;
        self.namespaced.synced(health).await;
        self.overrides.synced(health).await;
        self.mirrors.store.synced().await;
    }
}

/// The placement that an object belongs to: its label has the name, and the namespace is its own.
pub(crate) fn parent<K: Resource>(object: &K) -> Option<Key> {
    let name = object.labels().get(labels::PARENT_PLACEMENT)?;
    Some(match object.meta().namespace.as_deref() {
        Some(namespace) if !namespace.is_empty() => Key::namespaced(namespace, name.as_str()),
        _ => Key::cluster(name.as_str()),
    })
}

/// The placements that a change concerns: two if somebody has given the object to another.
pub(crate) fn concerned<K: Resource>(change: &Change<K>) -> Vec<Key> {
    let sides = [&change.old, &change.new];
    let mut keys: Vec<Key> = sides.into_iter().flatten().filter_map(|side| parent(&**side)).collect();
    keys.dedup();
    keys
}

/// The override snapshots that a binding names.
fn named_overrides(spec: &BindingSpec) -> Vec<Key> {
    let cluster_wide = spec.cluster_resource_override_snapshots.iter();
    let namespaced = spec.resource_override_snapshots.iter();
    cluster_wide
        .map(|name| Key::cluster(name.as_str()))
        .chain(namespaced.map(|named| Key::namespaced(named.namespace.as_str(), named.name.as_str())))
        .collect()
}

fn parents<K: Resource>(object: &K) -> Vec<Key> {
    parent(object).into_iter().collect()
}

/// What belongs to an object goes with it, and a foreground deletion waits for it.
pub(crate) fn owned_by<K: Resource<DynamicType = ()>>(owner: &K) -> Option<Vec<OwnerReference>> {
    let owner = owner.controller_owner_ref(&())?;
    Some(vec![OwnerReference {
        block_owner_deletion: Some(true),
        ..owner
    }])
}

/// A resource snapshot as decisions take it.
pub(crate) fn stored<K: SpecKind<Spec = ResourceSnapshotSpec>>(snapshot: &Arc<K>) -> Stored<'_> {
    Stored {
        metadata: snapshot.meta(),
        resources: &snapshot.spec().selected_resources,
    }
}
