//! Evictions and the budgets that limit them, watched once.

use fleet_api::{
    kind::Kind as _,
    placement::{ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction},
};
use fleet_runtime::{
    cache::{Builder, Era, Index, Store},
    dump::Dump,
    health::Health,
    shutdown::Tasks,
};
use kube::Client;

use super::family::watched;

/// Evictions and budgets. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EvictionStores {
    /// Evictions.
    pub(crate) evictions: Store<ClusterResourcePlacementEviction>,
    /// Evictions by the name of the placement.
    pub(crate) evictions_of: Index<ClusterResourcePlacementEviction, String>,
    /// Evictions by the name of the cluster.
    pub(crate) evictions_by_cluster: Index<ClusterResourcePlacementEviction, String>,
    /// Budgets, which have the names of placements.
    pub(crate) budgets: Store<ClusterResourcePlacementDisruptionBudget>,
    watched: bool,
}

impl EvictionStores {
    /// Starts the watches; without them the stores stay empty, for a hub that may not have these kinds.
    pub(crate) fn start(client: &Client, era: &Era, watch: bool, tasks: &mut Tasks) -> Self {
        let mut evictions = Store::builder(ClusterResourcePlacementEviction::CRD.plural);
        let evictions_of =
            evictions.index(|eviction: &ClusterResourcePlacementEviction| vec![eviction.spec.placement_name.clone()]);
        let evictions_by_cluster =
            evictions.index(|eviction: &ClusterResourcePlacementEviction| vec![eviction.spec.cluster_name.clone()]);
        let budgets = Store::builder(ClusterResourcePlacementDisruptionBudget::CRD.plural);
        if watch {
            return Self {
                evictions: watched(evictions, client, era, tasks),
                evictions_of,
                evictions_by_cluster,
                budgets: watched(budgets, client, era, tasks),
                watched: true,
            };
        }
        Self {
            evictions: evictions.build(),
            evictions_of,
            evictions_by_cluster,
            budgets: Builder::build(budgets),
            watched: false,
        }
    }

    /// Lets people who debug see the stores.
    pub(crate) fn show_in(&self, dump: &Dump) {
        if self.watched {
            self.evictions.show_in(dump);
            self.budgets.show_in(dump);
        }
    }

    /// Waits until every store has been filled once; `health` says which is not.
    pub(crate) async fn synced(&self, health: &Health) {
        if !self.watched {
            return;
        }
        let check = health.check(self.evictions.name());
        let next = |name: &str| check.not_ready(format!("{name} are not listed yet"));
        next(self.evictions.name());
        self.evictions.synced().await;
        next(self.budgets.name());
        self.budgets.synced().await;
        check.ready();
    }
}
