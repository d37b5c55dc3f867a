//! One kind of placement and everything that belongs to it, watched once, with the indexes that the pipeline asks for.

use std::sync::Arc;

use fleet_api::{
    guard::Guarded,
    kind::{Kind, SpecKind},
    labels,
    placement::{ClusterResourcePlacementStatus, ClusterScoped, Namespaced, ResourceSnapshotSpec, Scope},
};
use fleet_core::work::Stored;
use fleet_runtime::{
    Key,
    cache::{Builder, Change, Index, Selection, Store},
    health::Health,
    shutdown::Tasks,
};
use kube::{Api, Client, Resource, ResourceExt, core::object::HasSpec as _};

use crate::overrides::OverrideStores;

/// The stores of one scope. Cheap to clone.
#[derive(Clone)]
pub struct Family<S: Scope> {
    /// Placements.
    pub placements: Store<S::Placement>,
    /// Policy snapshots.
    pub policies: Store<S::PolicySnapshot>,
    /// Policy snapshots by placement.
    pub policies_of: Index<S::PolicySnapshot, Key>,
    /// Resource snapshots.
    pub snapshots: Store<S::ResourceSnapshot>,
    /// Resource snapshots by placement.
    pub snapshots_of: Index<S::ResourceSnapshot, Key>,
    /// Bindings.
    pub bindings: Store<S::Binding>,
    /// Bindings by placement.
    pub bindings_of: Index<S::Binding, Key>,
    /// Bindings by cluster.
    pub bindings_on: Index<S::Binding, String>,
}

impl<S: Scope> Family<S> {
    /// Starts the watches.
    pub fn start(client: &Client, tasks: &mut Tasks) -> Self {
        let placements = Store::builder(S::Placement::CRD.plural);
        let mut policies = Store::builder(S::PolicySnapshot::CRD.plural);
        let policies_of = policies.index(parents);
        let mut snapshots = Store::builder(S::ResourceSnapshot::CRD.plural);
        let snapshots_of = snapshots.index(parents);
        let mut bindings = Store::builder(S::Binding::CRD.plural);
        let of_placement = bindings.index(parents);
        let on_cluster = bindings.index(|binding: &S::Binding| vec![binding.spec().target_cluster.clone()]);
        Self {
            placements: watched(placements, client, tasks),
            policies: watched(policies, client, tasks),
            policies_of,
            snapshots: watched(snapshots, client, tasks),
            snapshots_of,
            bindings: watched(bindings, client, tasks),
            bindings_of: of_placement,
            bindings_on: on_cluster,
        }
    }

    /// Waits until every store has been filled once; `health` says which is not.
    pub async fn synced(&self, health: &Health) {
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
    fn start(client: &Client, tasks: &mut Tasks) -> Self {
        let mut builder = Store::builder(ClusterResourcePlacementStatus::CRD.plural);
        let of = builder.index(|mirror: &ClusterResourcePlacementStatus| vec![mirror.name_any()]);
        let store = watched(builder, client, tasks);
        Self { store, of }
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
    /// Starts the watches.
    pub(crate) fn start(client: &Client, tasks: &mut Tasks) -> Self {
        Self {
            cluster: Family::start(client, tasks),
            namespaced: Family::start(client, tasks),
            overrides: OverrideStores::start(client, tasks),
            mirrors: Mirrors::start(client, tasks),
        }
    }

    /// Waits until every store has been filled once.
    pub(crate) async fn synced(&self, health: &Health) {
        self.cluster.synced(health).await;
        self.namespaced.synced(health).await;
        self.overrides.synced(health).await;
        self.mirrors.store.synced().await;
    }
}

/// A kind that users can write to: one odd object must not stop the watch.
pub(crate) fn watched<K: Kind>(builder: Builder<K>, client: &Client, tasks: &mut Tasks) -> Store<K> {
    let store = builder.build();
    let api = Api::<Guarded<K>>::all(client.clone());
    let watch = store
        .clone()
        .watch(api, Selection::default(), |guarded| guarded.0.map_err(|odd| odd.error));
    tasks.spawn_endless(store.name(), watch);
    store
}

/// The placement that an object belongs to: its label has the name, and the namespace is its own.
pub fn parent<K: Resource>(object: &K) -> Option<Key> {
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

fn parents<K: Resource>(object: &K) -> Vec<Key> {
    parent(object).into_iter().collect()
}

/// A resource snapshot as decisions take it.
pub(crate) fn stored<K: SpecKind<Spec = ResourceSnapshotSpec>>(snapshot: &Arc<K>) -> Stored<'_> {
    Stored {
        metadata: snapshot.meta(),
        resources: &snapshot.spec().selected_resources,
    }
}

/// The key of a placement's snapshot or binding with this name.
pub fn beside(placement: &Key, name: &str) -> Key {
    match placement.namespace() {
        Some(namespace) => Key::namespaced(namespace, name),
        None => Key::cluster(name),
    }
}
