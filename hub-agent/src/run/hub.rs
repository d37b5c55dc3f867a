//! One handle on the hub: its API server, what is known of it, and the way to write.

use fleet_runtime::{cache::Era, clock::Clock, events::Recorder, health::Health, shutdown::Tasks, writes::Writes};
use kube::Client;

use crate::{
    cache::{
        Caches,
        evictions::EvictionStores,
        family::{Placements, RunKinds},
        works::Works,
    },
    recovery::Noticed,
    writer::Writer,
};

/// What the channel and the controllers are made of. Each takes from it what it needs. Cheap to clone.
#[derive(Clone)]
pub(super) struct Hub {
    pub(super) client: Client,
    pub(super) clock: Clock,
    /// Of the hub's API server.
    pub(super) era: Era,
    pub(super) noticed: Noticed,
    pub(super) caches: Caches,
    pub(super) works: Works,
    pub(super) placements: Placements,
    pub(super) evictions: EvictionStores,
    pub(super) writes: Writes,
    pub(super) events: Recorder,
}

impl Hub {
    /// Starts every watch: ClusterProfiles in this namespace, if any, update runs if the hub serves them, and evictions if
    /// they are carried out.
    pub(super) fn start(
        client: Client,
        clock: Clock,
        (writes, events): (Writes, Recorder),
        profiles_in: Option<&str>,
        (runs_served, evicting): (RunKinds, bool),
        tasks: &mut Tasks,
    ) -> Self {
        let (era, noticed, works) = (Era::default(), Noticed::default(), Works::default());
        tasks.spawn_endless("era", noticed.clone().follow(era.clone(), clock.clone()));
        let caches = Caches::start(&client, &era, profiles_in, tasks);
        tasks.spawn_endless("works", works.watch(client.clone(), &era));
        let placements = Placements::start(&client, &era, runs_served, tasks);
        let evictions = EvictionStores::start(&client, &era, evicting, tasks);
        Self {
            client,
            clock,
            era,
            noticed,
            caches,
            works,
            placements,
            evictions,
            writes,
            events,
        }
    }

    /// Waits until every store is filled; `health` says which is not.
    pub(super) async fn synced(&self, health: &Health) {
        self.caches.synced(health).await;
        self.works.store.synced().await;
        self.placements.synced(health).await;
        self.evictions.synced(health).await;
    }

    /// Writes under this name.
    pub(super) fn writer(&self, manager: &'static str) -> Writer {
        Writer::new(self.client.clone(), self.writes.clone(), manager)
    }
}
