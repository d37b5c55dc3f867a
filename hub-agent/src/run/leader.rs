//! What a replica does while it leads: the list of controllers, for one term after the other.

use std::{sync::Arc, time::Duration};

use fleet_api::{
    cluster::{AgentType, MemberCluster},
    names::field_managers,
    placement::ClusterScoped,
};
use fleet_core::membership::heartbeat::{self, Grace};
use fleet_runtime::{cache::Store, controller::Measures, dump::Dump, health::Health, lease::Term};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{hub::Hub, signed, stages};
use crate::{
    cache::user::UserResources,
    eviction::{self, Evictions},
    inventory, membership,
    options::MembershipArgs,
    overrides,
    pipeline::{self, Pipeline, Shared, steps},
    scheduler, updaterun,
};

/// Between two tries to mark members after the hub went back in time.
const MARK_PAUSE: Duration = Duration::from_secs(1);

/// How evictions are carried out.
pub(super) struct Evicting {
    pub(super) measures: eviction::Measures,
    pub(super) ttl: SignedDuration,
}

/// What the controllers of a term are made of.
pub(super) struct Leader {
    pub(super) hub: Hub,
    pub(super) membership: MembershipArgs,
    pub(super) placing: pipeline::PipelineSettings,
    pub(super) endpoint: Option<String>,
    pub(super) ca: watch::Receiver<Option<String>>,
    pub(super) namespace: String,
    pub(super) results: membership::Results,
    pub(super) measures: Measures,
    pub(super) dump: Dump,
    pub(super) cycles: scheduler::Measures,
    pub(super) steps: steps::Measures,
    pub(super) runs: updaterun::Measures,
    /// None: evictions are left as they are.
    pub(super) evicting: Option<Evicting>,
}

impl Leader {
    /// Leads for a term. When the hub has gone back in time, nothing that the controllers remember is true any more: they
    /// begin anew, as in another term, once everything is listed.
    pub(super) async fn run(self: Arc<Self>, term: Term) {
        // Readiness was told at the start.
        let unasked = Health::default();
        while !term.token().is_cancelled() {
            let (era, stop) = (self.hub.era.number(), term.token().child_token());
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.hub.synced(&unasked) => {}
            }
            if !self.mark_all().await {
                tokio::time::sleep(MARK_PAUSE).await;
                continue;
            }
            let (control, over) = (self.control(&term, &stop), self.hub.era.over(era));
            tokio::pin!(control);
            tokio::select! {
                () = &mut control => {}
                _ = over => {
                    stop.cancel();
                    control.await;
                }
            }
        }
    }

    /// Nothing of any member is deleted by a hub that went back in time.
    async fn mark_all(&self) -> bool {
        let (caches, writer) = (&self.hub.caches, self.hub.writer(field_managers::MEMBER_CLUSTER));
        let now = self.hub.clock.now();
        self.hub
            .noticed
            .mark_all(&caches.internals, &caches.members, &writer, &self.hub.events, now)
            .await
    }

    async fn control(&self, term: &Term, stop: &CancellationToken) {
        tracing::info!(term = term.transitions(), "Leading");
        let grace = Grace {
            leader_since: self.hub.clock.now(),
            // Without an election there is no such record.
            previous_renewed: term
                .previous_renewed()
                .or_else(|| newest_heartbeat(&self.hub.caches.members, self.hub.clock.now())),
            ..Grace::NONE
        };
        let threshold = signed(self.membership.cluster_unhealthy_threshold);
        let membership = membership::Membership {
            client: self.hub.client.clone(),
            caches: self.hub.caches.clone(),
            works: self.hub.works.clone(),
            writer: self.hub.writer(field_managers::MEMBER_CLUSTER),
            events: self.hub.events.clone(),
            clock: self.hub.clock.clone(),
            settings: membership::MembershipSettings {
                networking: self.membership.networking_agents_enabled,
                profiles_in: self
                    .membership
                    .enable_cluster_inventory_apis
                    .then(|| self.namespace.clone()),
                force_delete_wait: signed(self.membership.force_delete_wait_time),
                unhealthy_threshold: threshold,
                grace,
                endpoint: self.endpoint.clone(),
                ca: self.ca.clone(),
            },
            results: self.results.clone(),
            seen: Arc::default(),
        };
        let members = membership::run(membership, self.measures.clone(), stop.clone());
        let inventory = async {
            let Some(profiles) = self.hub.caches.profiles.clone() else {
                return stop.cancelled().await;
            };
            let inventory = inventory::ClusterInventory {
                members: self.hub.caches.members.clone(),
                profiles,
                namespace: self.namespace.clone(),
                writer: self.hub.writer(inventory::FIELD_MANAGER),
                clock: self.hub.clock.clone(),
                threshold,
                grace,
            };
            inventory::run(inventory, self.measures.clone(), stop.clone()).await;
        };
        let placing = self.place(stop);
        tokio::join!(members, inventory, placing);
        tracing::info!(term = term.transitions(), "No longer leading");
    }

    /// Both scopes of the placement pipeline.
    async fn place(&self, stop: &CancellationToken) {
        let settings = self.placing.clone();
        let shared = Shared {
            members: self.hub.caches.members.clone(),
            internals: self.hub.caches.internals.clone(),
            works: self.hub.works.clone(),
            overrides: self.hub.placements.overrides.clone(),
            mirrors: self.hub.placements.mirrors.clone(),
            user: UserResources::new(
                self.hub.client.clone(),
                self.hub.era.clone(),
                settings.rules.apis.clone(),
            ),
            writer: self.hub.writer(field_managers::HUB_AGENT),
            events: self.hub.events.clone(),
            steps: self.steps.clone(),
            clock: self.hub.clock.clone(),
            settings,
        };
        shared.user.show_in(&self.dump);
        let overrides = overrides::OverrideSnapshots {
            stores: self.hub.placements.overrides.clone(),
            cluster: self.hub.placements.cluster.clone(),
            namespaced: self.hub.placements.namespaced.clone(),
            writer: self.hub.writer(field_managers::OVERRIDE),
            events: self.hub.events.clone(),
        };
        let cluster = Pipeline::new(self.hub.placements.cluster.clone(), shared.clone());
        let namespaced = Pipeline::new(self.hub.placements.namespaced.clone(), shared.clone());
        let pipelines = async {
            // Renders need to know which kinds have namespaces: without that, overrides of the others would be taken off.
            tokio::select! {
                () = stop.cancelled() => return,
                () = shared.user.discovered() => {}
            }
            tokio::join!(
                stages::run(&cluster, self.cycles.clone(), self.runs.clone(), &self.measures, stop),
                stages::run(
                    &namespaced,
                    self.cycles.clone(),
                    self.runs.clone(),
                    &self.measures,
                    stop
                ),
                overrides::run(overrides, self.measures.clone(), stop.clone()),
                self.evict(&cluster, stop),
            );
        };
        let follow = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = shared.user.follow_kinds() => {}
            }
        };
        tokio::join!(pipelines, follow);
        shared.user.stop();
    }
}

impl Leader {
    async fn evict(&self, pipeline: &Pipeline<ClusterScoped>, stop: &CancellationToken) {
        let Some(evicting) = &self.evicting else { return };
        let evictions = Evictions::new(
            pipeline.clone(),
            self.hub.evictions.clone(),
            evicting.measures.clone(),
            evicting.ttl,
            stop.clone(),
        );
        eviction::run(Arc::new(evictions), self.measures.clone()).await;
    }
}

/// When somebody was last there to receive a heartbeat: the newest that is stored for any member and can be true.
fn newest_heartbeat(members: &Store<MemberCluster>, now: Timestamp) -> Option<Timestamp> {
    let beat = |mc: Arc<MemberCluster>| {
        let agent = mc.status.as_ref()?.agent(&AgentType::MemberAgent)?;
        agent.last_received_heartbeat.as_ref().map(|t| t.0)
    };
    let known = members.all().into_iter().filter_map(beat);
    known.filter(|at| !heartbeat::is_ahead(*at, now)).max()
}
