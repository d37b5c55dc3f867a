//! A term of leadership: what only one process of a cluster does.

use std::{sync::Arc, time::Duration};

use fleet_runtime::{
    cache::{self, Era},
    clock::Clock,
    health::Check,
    lease::Term,
    logs,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt as _};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

use crate::{
    applier::{Applier, Applying},
    hub_access::{credential::Credential, settings::HubSettings},
    measures::Measures,
    membership::{self, KnownImc, Phase},
    options::Options,
    outgoing::Outgoing,
    properties::{self, Azure, BuiltIn, Collector, Identity, OwnCluster, PriceFile, Provider, Version, health},
    session,
};

/// Everything that a term of leadership needs.
pub(super) struct Member {
    pub(super) options: Options,
    pub(super) settings: Arc<HubSettings>,
    pub(super) credential: Credential,
    pub(super) hub: Client,
    pub(super) client: Client,
    /// Of this cluster's API server.
    pub(super) era: Era,
    pub(super) identity: Identity,
    pub(super) instance_id: String,
    pub(super) seen: watch::Receiver<KnownImc>,
    pub(super) hub_watch: watch::Receiver<cache::State>,
    pub(super) outgoing: Arc<Outgoing>,
    pub(super) applier: Arc<Applying>,
    pub(super) session: Check,
    pub(super) measures: Measures,
    pub(super) clock: Clock,
}

impl Member {
    /// What the leader does, until its term ends.
    pub(super) async fn term(self: Arc<Self>, term: Term) {
        let (phase_sender, phase) = watch::channel(Phase::Idle);
        let (barred, barred_seen) = watch::channel(None);
        let (health_sender, health) = watch::channel(None);
        let (report_sender, properties) = watch::channel(None);
        let beat = Arc::new(Notify::new());
        let (period_sender, period) = watch::channel(self.seen.borrow().period());
        let cluster = Arc::new(self.cluster());
        let collector = self.collector(&cluster);
        let applier: Arc<dyn Applier> = self.applier.clone();
        let speaking = async {
            let cluster_uid = cluster_uid(&self.client, &self.session).await;
            let context = session::SessionDeps {
                settings: self.settings.clone(),
                credential: self.credential.clone(),
                platform_labels: properties::platform_labels(&self.options.properties),
                cluster_uid,
                lease_transitions: u64::from(term.transitions().max(0).unsigned_abs()),
                instance_id: self.instance_id.clone(),
                seen: self.seen.clone(),
                phase,
                health,
                hub_watch: self.hub_watch.clone(),
                properties,
                beat: beat.clone(),
                outgoing: self.outgoing.clone(),
                applier: applier.clone(),
                barred,
                check: self.session.clone(),
                measures: self.measures.clone(),
                clock: self.clock.clone(),
            };
            session::run(context).await;
        };
        // Heap, not stack: each is kilobytes of state.
        tokio::select! {
            () = term.token().cancelled() => {}
            () = Box::pin(membership::run(self.seen.clone(), barred_seen, applier.clone(), phase_sender)) => {}
            () = Box::pin(health::run(self.client.clone(), period, health_sender)) => {}
            () = Box::pin(cluster.run(self.client.clone(), &self.era)) => {}
            () = Box::pin(properties::run(collector, cluster.changed(), beat.clone(), self.clock.clone(), report_sender)) => {}
            () = Box::pin(follow_period(self.seen.clone(), period_sender)) => {}
            () = Box::pin(self.applier.clone().run(term.token().clone())) => {}
            () = Box::pin(speaking) => {}
            () = Box::pin(self.renew()) => {}
        }
        // The next leader may start as soon as we return.
        self.applier.close().await;
    }

    fn cluster(&self) -> OwnCluster {
        let args = &self.options.properties;
        let pods = !args.azure() || args.use_available_res_properties_in_azure_provider;
        OwnCluster::new(pods, args.enable_namespace_collection_in_property_provider)
    }

    fn collector(&self, cluster: &Arc<OwnCluster>) -> Collector {
        let args = &self.options.properties;
        let version = Arc::new(Version::new(self.client.clone(), self.clock.clone()));
        let azure = args.azure().then(|| {
            Arc::new(Azure {
                cluster: cluster.clone(),
                version: version.clone(),
                identity: self.identity.clone(),
                region: args.region.clone(),
                costs: args.use_cost_properties_in_azure_provider,
                prices: args.vm_price_file.clone().map(PriceFile::new),
                clock: self.clock.clone(),
            }) as Arc<dyn Provider>
        });
        let built_in = BuiltIn::new(cluster.clone(), version, self.identity.clone(), self.clock.clone());
        let record = self.recorder();
        let record = move |event| {
            record(&event);
        };
        Collector::new(Arc::new(built_in), azure, Arc::new(record))
    }
}

async fn follow_period(mut seen: watch::Receiver<KnownImc>, period: watch::Sender<Duration>) {
    loop {
        period.send_replace(seen.borrow_and_update().period());
        if seen.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The uid of the kube-system namespace, which tells clusters apart.
async fn cluster_uid(client: &Client, session: &Check) -> String {
    const AGAIN: Duration = Duration::from_secs(2);
    loop {
        let error = match timeout(
            Duration::from_secs(10),
            Api::<Namespace>::all(client.clone()).get("kube-system"),
        )
        .await
        {
            Ok(Ok(namespace)) => match namespace.uid() {
                Some(uid) => return uid,
                None => "it has no uid".to_owned(),
            },
            Ok(Err(error)) => logs::chain(&error).to_string(),
            Err(_) => "no answer".to_owned(),
        };
        tracing::warn!(error, "Could not read the namespace kube-system of this cluster");
        session.not_ready(format!(
            "cannot read the namespace kube-system of this cluster: {error}"
        ));
        sleep(AGAIN).await;
    }
}
