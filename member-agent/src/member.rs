//! The agent as a whole: what runs, and in which order it starts.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use fleet_api::{names::MEMBER_LEASE, placement::AppliedWork};
use fleet_runtime::{
    admin::{Pages, Server},
    cache, client,
    clock::Clock,
    health::{Check, Health},
    lease::{self, Elector, State, Term},
    logs,
    metrics::Metrics,
    options::Bind,
    shutdown::{self, Tasks},
    tls,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    applier::{Applier, Applying},
    health,
    hub::{
        client as hub_client,
        credential::{Credential, TokenSource},
        settings::{Identity as HubIdentity, Settings},
    },
    measures::Measures,
    membership::{self, Phase, Seen},
    options::Options,
    properties::{self, Azure, BuiltIn, Cluster, Collector, Identity, PriceFile, Provider, Version},
    session::{self, Outgoing},
};

const USER_AGENT: &str = concat!("member-agent/", env!("CARGO_PKG_VERSION"));

/// Runs the process to its end.
pub fn main(options: &Options) -> ExitCode {
    tls::install();
    if let Err(error) = logs::init(&options.log) {
        eprintln!("error: --log-filter: {error}");
        return ExitCode::FAILURE;
    }
    // One thread: the agent waits far more than it computes, and every further one costs memory on every cluster.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        // Only name resolution runs there.
        .max_blocking_threads(2)
        .build();
    let outcome = runtime.context("could not start").and_then(|runtime| {
        runtime.block_on(async {
            let stop = shutdown::on_signal()?;
            run(options, |name| std::env::var_os(name), stop).await
        })
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that a term of leadership needs.
struct Member {
    options: Options,
    settings: Arc<Settings>,
    credential: Credential,
    client: Client,
    identity: Identity,
    instance_id: String,
    seen: watch::Receiver<Seen>,
    hub_watch: watch::Receiver<cache::State>,
    outgoing: Arc<Outgoing>,
    applier: Arc<Applying>,
    session: Check,
    measures: Measures,
    clock: Clock,
}

/// Runs until told to stop.
///
/// # Errors
/// If the settings cannot work, or a task that the agent needs has ended.
pub async fn run(
    options: &Options,
    environment: impl Fn(&str) -> Option<std::ffi::OsString>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let settings = Settings::read(environment, options.hub.use_ca_auth, options.hub.tls_insecure)?;
    announce(options, &settings);
    if let HubIdentity::TokenFile(path) = &settings.identity {
        token_file(path).await?;
    }
    let credential = Credential::new(&settings.identity);
    let (metrics, health, clock) = (Metrics::new(), Health::default(), Clock::system());
    let measures = Measures::new(&metrics);
    let mut tasks = Tasks::new(stop.clone());
    serve(options, &metrics, &health, &mut tasks).await?;

    let config = client::config(&options.client, USER_AGENT).await?;
    let identity = Identity::of(&config);
    let client = client::build(config, USER_AGENT)?;
    applied_works(&client).await?;
    let hub = hub_client::build(&settings, &credential)?;
    let settings = Arc::new(settings);

    if let Credential::Token(source) = &credential {
        follow_secret(source, &client, &mut tasks);
    }
    let leading = if options.lease.leader_elect {
        let config = lease::Config::new(&options.lease, MEMBER_LEASE);
        let (elector, leading) = Elector::new(client.clone(), config, clock.clone());
        tasks.spawn_forever("leader election", elector.run(stop.clone()));
        leading
    } else {
        lease::always(&stop)
    };
    let (seen_sender, seen) = watch::channel(Seen::NotYet);
    let store = membership::store();
    let hub_watch = store.state();
    let cluster = settings.cluster.clone();
    let (source, watched, name, from) = (credential.clone(), store.clone(), cluster.clone(), hub.clone());
    let watching = async move {
        first_token(&source).await;
        membership::watch(watched, from, name).await;
    };
    tasks.spawn_forever("hub watch", until(&stop, watching));
    let outgoing = Arc::new(Outgoing::default());
    let applier = Arc::new(Applying::new(
        cluster.clone(),
        hub,
        &client,
        outgoing.clone(),
        &options.applier,
        &metrics,
        clock.clone(),
    ));
    let following = membership::follow(store, cluster, seen_sender, health.check("hub-watch"), measures.clone());
    tasks.spawn_forever("membership", until(&stop, following));

    let session = health.check("session");
    tasks.spawn_forever("standby", until(&stop, standby(leading.clone(), session.clone())));
    let member = Arc::new(Member {
        options: options.clone(),
        settings,
        credential,
        client,
        identity,
        instance_id: format!("{:032x}", fastrand::u128(..)),
        seen,
        hub_watch,
        outgoing,
        applier,
        session,
        measures,
        clock,
    });
    let work = move |term| Box::pin(Arc::clone(&member).term(term));
    tasks.spawn("leader", lease::lead(leading, stop, work));
    Ok(tasks.join().await?)
}

impl Member {
    /// What the leader does, until its term ends.
    async fn term(self: Arc<Self>, term: Term) {
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
            let context = session::Context {
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
            () = Box::pin(cluster.run(self.client.clone())) => {}
            () = Box::pin(properties::run(collector, cluster.changed(), beat.clone(), self.clock.clone(), report_sender)) => {}
            () = Box::pin(follow_period(self.seen.clone(), period_sender)) => {}
            () = Box::pin(self.applier.clone().run(term.token().clone())) => {}
            () = Box::pin(speaking) => {}
        }
        // The next leader may start as soon as we return.
        self.applier.close().await;
    }

    fn cluster(&self) -> Cluster {
        let args = &self.options.properties;
        let pods = !args.azure() || args.use_available_res_properties_in_azure_provider;
        Cluster::new(pods, args.enable_namespace_collection_in_property_provider)
    }

    fn collector(&self, cluster: &Arc<Cluster>) -> Collector {
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
        let (outgoing, seen, clock) = (self.outgoing.clone(), self.seen.clone(), self.clock.clone());
        let announce = move |event| {
            if let Some(imc) = seen.borrow().imc() {
                outgoing.announce(&imc.uid, &event, clock.now());
            }
        };
        Collector::new(Arc::new(built_in), azure, Arc::new(announce))
    }
}

async fn follow_period(mut seen: watch::Receiver<Seen>, period: watch::Sender<Duration>) {
    loop {
        period.send_replace(seen.borrow_and_update().period());
        if seen.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Somebody else leads: this process does all that is asked of it by waiting.
async fn standby(mut leading: watch::Receiver<State>, session: Check) {
    loop {
        match &*leading.borrow_and_update() {
            State::Standby => session.ready(),
            State::Leading(_) => session.not_ready("connecting"),
        }
        if leading.changed().await.is_err() {
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

/// A token file is there at start, or nothing will ever write it.
async fn token_file(path: &std::path::Path) -> anyhow::Result<()> {
    for _ in 0..5 {
        if path.exists() {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
    bail!("cannot find the hub token file {}: check CONFIG_PATH", path.display())
}

/// Without the kind AppliedWork nothing can be applied. An API server that does not answer is another matter: it is
/// reported as unhealthy.
async fn applied_works(client: &Client) -> anyhow::Result<()> {
    let api: Api<kube::core::PartialObjectMeta<AppliedWork>> = Api::all(client.clone());
    let one = ListParams::default().limit(1);
    for wait in [10, 50, 250] {
        match timeout(Duration::from_secs(5), api.list(&one)).await {
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => sleep(Duration::from_millis(wait)).await,
            _ => return Ok(()),
        }
    }
    match api.list(&one).await {
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "this cluster does not serve AppliedWork (placement.kubernetes-fleet.io/v1beta1): install its CRD, which the \
             chart member-agent brings"
        ),
        _ => Ok(()),
    }
}

/// Waits a moment for a token that is on its way, so that the first request does not fail for want of it.
async fn first_token(credential: &Credential) {
    if let Credential::Token(source) = credential {
        for _ in 0..100 {
            if source.current().is_ok() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn follow_secret(source: &Arc<TokenSource>, client: &Client, tasks: &mut Tasks) {
    let (source, client, stop) = (source.clone(), client.clone(), tasks.stop().clone());
    tasks.spawn_forever("credential", async move { until(&stop, source.follow(client)).await });
}

/// Opens every port that a flag names. Two flags may name one port, which then has the pages of both.
async fn serve(options: &Options, metrics: &Metrics, health: &Health, tasks: &mut Tasks) -> anyhow::Result<()> {
    let (probes, scrapes) = (
        [
            &options.hub.hub_health_probe_bind_address,
            &options.admin.health_probe_bind_address,
        ],
        [
            &options.hub.hub_metrics_bind_address,
            &options.admin.metrics_bind_address,
        ],
    );
    let mut open: Vec<&Bind> = Vec::new();
    for address in probes.into_iter().chain(scrapes) {
        if open.contains(&address) {
            continue;
        }
        open.push(address);
        let pages = Pages {
            health: probes.contains(&address).then(|| health.clone()),
            metrics: scrapes.contains(&address).then(|| metrics.clone()),
        };
        if let Some(server) = Server::bind(address, pages).await? {
            tasks.spawn_forever("health and metrics", server.serve(tasks.stop().clone()));
        }
    }
    Ok(())
}

fn until<F: Future<Output = ()> + Send>(stop: &CancellationToken, task: F) -> impl Future<Output = ()> + Send + use<F> {
    let stop = stop.clone();
    async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = task => {}
        }
    }
}

/// Says once what the agent was told, without anything secret.
fn announce(options: &Options, settings: &Settings) {
    let identity = match &settings.identity {
        HubIdentity::TokenFile(path) => format!("token file {}", path.display()),
        HubIdentity::TokenSecret { namespace, name } => format!("token secret {namespace}/{name}"),
        HubIdentity::Certificate { cert, .. } => format!("client certificate {}", cert.display()),
    };
    let headers: Vec<&str> = settings.headers.iter().map(|(name, _)| name.as_str()).collect();
    let or_announced = |set: Option<String>| set.unwrap_or_else(|| "as the hub announces".to_owned());
    let channel = or_announced(settings.channel.as_ref().map(ToString::to_string));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        cluster = %settings.cluster,
        hub = %settings.server,
        channel,
        channel_ca = or_announced(settings.channel_ca.as_ref().map(|_| "from the settings".to_owned())),
        identity,
        ?headers,
        options = ?options,
        "Starting"
    );
    if options.hub.tls_insecure {
        tracing::warn!(
            "--tls-insecure: the hub's certificates are not verified, so anybody in between can pose as the hub"
        );
    }
}
