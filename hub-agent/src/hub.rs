//! Puts the hub agent together: caches, the channel, and the controllers that the leader runs.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use fleet_api::{
    cluster::{AgentType, MemberCluster},
    names::{HUB_LEASE, field_managers},
};
use fleet_core::membership::heartbeat::Grace;
use fleet_runtime::{
    admin::{Pages, Server},
    cache::Store,
    client,
    clock::Clock,
    controller::Measures,
    events::Recorder,
    files,
    health::Health,
    lease::{self, Elector, State, Term},
    logs,
    metrics::Metrics,
    options::{AdminArgs, Bind, Hub, LeaseArgs},
    shutdown::{self, Tasks},
    writes::Writes,
};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{Caches, family::Placements, user::UserResources},
    inventory, membership,
    options::{ChannelArgs, MembershipArgs, Options, PlacementArgs, SchedulerArgs},
    overrides,
    placement::{
        self,
        context::{Context as Placing, Settings as PlacementSettings, Shared},
    },
    session::{
        self,
        certificates::{self, Source},
    },
    writer::Writer,
};

const USER_AGENT: &str = concat!("hub-agent/", env!("CARGO_PKG_VERSION"));
/// CRDs may be applied in the same breath as the agent is started.
const CRD_TRIES: u32 = 5;
const CRD_PAUSE: Duration = Duration::from_secs(1);

/// Runs the agent until it is told to stop, or something it needs ends.
pub async fn run(options: Options) -> anyhow::Result<()> {
    options
        .validate()
        .map_err(|why| anyhow::anyhow!("invalid parameter: {why}"))?;
    logs::init(&options.log)?;
    let open_files = files::raise_limit();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), open_files, ?options, "Starting");
    let stop = shutdown::on_signal()?;
    run_until(options, stop).await
}

/// The same, until `stop` is cancelled: for tests that start agents in their own process.
pub async fn run_until(options: Options, stop: CancellationToken) -> anyhow::Result<()> {
    let Options {
        log: _,
        client: client_args,
        lease,
        admin,
        channel,
        membership,
        placement,
        scheduler,
        namespace,
        pod_name,
        ..
    } = options;
    let placing = placing(&placement, &scheduler, &membership)?;
    let clock = Clock::system();
    let metrics = Metrics::new();
    let health = Health::default();
    let mut tasks = Tasks::new(stop.clone());

    serve_pages(&admin, &health, &metrics, &stop, &mut tasks).await?;
    let client = client::connect(&client_args, USER_AGENT).await?;
    require_crds(&client, membership.enable_cluster_inventory_apis).await?;
    let writes = Writes::new("hub", &metrics);
    let (events, sender) = Recorder::new(client.clone(), writes.clone(), clock.clone(), &pod_name, &metrics);
    tasks.spawn_endless("event sender", sender.run());

    let profiles_in = membership.enable_cluster_inventory_apis.then_some(namespace.as_str());
    let caches = Caches::start(&client, profiles_in, &mut tasks);
    let works = session::Works::default();
    tasks.spawn_endless("works", works.watch(client.clone()));
    let placements = Placements::start(&client, &mut tasks);

    let leadership = elect(&lease, &client, &clock, &mut tasks);
    let (lead, leading) = watch::channel(false);
    tasks.spawn_endless("leadership", follow(leadership.clone(), lead));

    let source = certificate_source(&channel, &namespace);
    let (current, keeper) = certificates::keep(client.clone(), clock.clone(), source, leading.clone());
    tasks.spawn_endless("channel certificate", keeper);

    caches.synced(&health).await;
    works.store.synced().await;
    placements.synced(&health).await;

    let listener = listen(&channel.channel_bind_address).await?;
    tracing::info!(address = %listener.local_addr()?, "Serving members");
    let deps = session::Deps {
        client: client.clone(),
        clock: clock.clone(),
        members: caches.members.clone(),
        internals: caches.internals.clone(),
        namespaces: caches.namespaces.clone(),
        works: works.store.clone(),
        works_in: works.by_namespace.clone(),
        writes: writes.clone(),
        events: events.clone(),
        metrics: metrics.clone(),
        leading,
        settings: session::Settings {
            unhealthy_threshold: signed(membership.cluster_unhealthy_threshold),
            ..session::Settings::default()
        },
    };
    tasks.spawn(
        "channel",
        session::serve(deps, listener, current.tls.clone(), stop.clone()),
    );
    serving_check(&health, current.tls.clone(), &mut tasks);

    let (cluster, namespaced) = (&placements.cluster, &placements.namespaced);
    placement::metrics::register(&metrics, cluster.placements.clone(), namespaced.placements.clone());
    let leader = Leader {
        client,
        caches,
        works,
        placements,
        writes,
        events,
        clock,
        membership,
        placing,
        namespaced: placement.enable_resource_placement,
        endpoint: Some(channel.channel_advertise_address).filter(|a| !a.is_empty()),
        ca: current.ca,
        namespace,
        results: membership::Results::new(&metrics),
        measures: Measures::new(&metrics),
        cycles: crate::scheduler::Measures::new(&metrics),
        steps: placement::steps::Measures::new(&metrics),
    };
    let leader = Arc::new(leader);
    tasks.spawn(
        "controllers",
        lease::lead(leadership, stop.clone(), move |term| Arc::clone(&leader).run(term)),
    );
    tasks.join().await?;
    Ok(())
}

/// Health and metrics, each at its address.
async fn serve_pages(
    admin: &AdminArgs<Hub>,
    health: &Health,
    metrics: &Metrics,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let pages = Pages {
        health: Some(health.clone()),
        metrics: None,
    };
    if let Some(server) = Server::bind(&admin.health_probe_bind_address, pages).await? {
        tasks.spawn_forever("health server", server.serve(stop.clone()));
    }
    let pages = Pages {
        health: None,
        metrics: Some(metrics.clone()),
    };
    if let Some(server) = Server::bind(&admin.metrics_bind_address, pages).await? {
        tasks.spawn_forever("metrics server", server.serve(stop.clone()));
    }
    Ok(())
}

fn placing(
    placement: &PlacementArgs,
    scheduler: &SchedulerArgs,
    membership: &MembershipArgs,
) -> anyhow::Result<PlacementSettings> {
    let rules = placement.rules();
    Ok(PlacementSettings {
        rules: rules.map_err(|why| anyhow::anyhow!("invalid parameter: {why}"))?,
        delay: placement.delay(),
        scheduler: scheduler.settings(),
        unhealthy_threshold: signed(membership.cluster_unhealthy_threshold),
    })
}

/// Who leads; without election we always do.
fn elect(args: &LeaseArgs<Hub>, client: &Client, clock: &Clock, tasks: &mut Tasks) -> watch::Receiver<State> {
    let stop = tasks.stop().clone();
    if !args.leader_elect {
        return lease::always(&stop);
    }
    let config = lease::Config::new(args, HUB_LEASE);
    let (elector, state) = Elector::new(client.clone(), config, clock.clone());
    tasks.spawn_forever("leader election", elector.run(stop));
    state
}

/// What the controllers of a term are made of.
struct Leader {
    client: Client,
    caches: Caches,
    works: session::Works,
    placements: Placements,
    writes: Writes,
    events: Recorder,
    clock: Clock,
    membership: MembershipArgs,
    placing: PlacementSettings,
    /// Whether ResourcePlacements are served.
    namespaced: bool,
    endpoint: Option<String>,
    ca: watch::Receiver<Option<String>>,
    namespace: String,
    results: membership::Results,
    measures: Measures,
    cycles: crate::scheduler::Measures,
    steps: placement::steps::Measures,
}

impl Leader {
    async fn run(self: Arc<Self>, term: Term) {
        tracing::info!(term = term.transitions(), "Leading");
        let grace = Grace {
            leader_since: self.clock.now(),
            // Without an election there is no such record.
            previous_renewed: term
                .previous_renewed()
                .or_else(|| newest_heartbeat(&self.caches.members)),
        };
        let threshold = signed(self.membership.cluster_unhealthy_threshold);
        let membership = membership::Context {
            client: self.client.clone(),
            caches: self.caches.clone(),
            works: self.works.clone(),
            writer: self.writer(field_managers::MEMBER_CLUSTER),
            events: self.events.clone(),
            clock: self.clock.clone(),
            settings: membership::Settings {
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
        let stop = term.token().clone();
        let members = membership::run(membership, self.measures.clone(), stop.clone());
        let inventory = async {
            let Some(profiles) = self.caches.profiles.clone() else {
                return stop.cancelled().await;
            };
            let context = inventory::Context {
                members: self.caches.members.clone(),
                profiles,
                namespace: self.namespace.clone(),
                writer: self.writer(inventory::FIELD_MANAGER),
                clock: self.clock.clone(),
                threshold,
                grace,
            };
            inventory::run(context, self.measures.clone(), stop.clone()).await;
        };
        let placing = self.place(&stop);
        tokio::join!(members, inventory, placing);
        tracing::info!(term = term.transitions(), "No longer leading");
    }
}

impl Leader {
    fn writer(&self, manager: &'static str) -> Writer {
        Writer::new(self.client.clone(), self.writes.clone(), manager)
    }

    /// Both scopes of the placement pipeline.
    async fn place(&self, stop: &CancellationToken) {
        let settings = self.placing.clone();
        let shared = Shared {
            members: self.caches.members.clone(),
            internals: self.caches.internals.clone(),
            works: self.works.clone(),
            overrides: self.placements.overrides.clone(),
            mirrors: self.placements.mirrors.clone(),
            user: UserResources::new(self.client.clone(), settings.rules.apis.clone()),
            writer: self.writer(field_managers::HUB_AGENT),
            events: self.events.clone(),
            cycles: self.cycles.clone(),
            steps: self.steps.clone(),
            clock: self.clock.clone(),
            settings,
        };
        let overrides = overrides::Context {
            stores: self.placements.overrides.clone(),
            cluster: self.placements.cluster.clone(),
            namespaced: self.placements.namespaced.clone(),
            writer: self.writer(field_managers::OVERRIDE),
        };
        let cluster = Placing::new(self.placements.cluster.clone(), shared.clone());
        let namespaced = async {
            if self.namespaced {
                let context = Placing::new(self.placements.namespaced.clone(), shared.clone());
                placement::run(context, self.measures.clone(), stop.clone()).await;
            }
        };
        let pipelines = async {
            // Renders need to know which kinds have namespaces: without that, overrides of the others would be taken off.
            tokio::select! {
                () = stop.cancelled() => return,
                () = shared.user.discovered() => {}
            }
            tokio::join!(
                placement::run(cluster, self.measures.clone(), stop.clone()),
                namespaced,
                overrides::run(overrides, self.measures.clone(), stop.clone()),
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

/// When somebody was last there to receive a heartbeat: the newest that is stored for any member.
fn newest_heartbeat(members: &Store<MemberCluster>) -> Option<Timestamp> {
    let beat = |mc: Arc<MemberCluster>| {
        let agent = mc.status.as_ref()?.agent(&AgentType::MemberAgent)?;
        agent.last_received_heartbeat.as_ref().map(|t| t.0)
    };
    members.all().into_iter().filter_map(beat).max()
}

/// Readiness says whether members can connect.
fn serving_check(health: &Health, mut tls: watch::Receiver<Option<Arc<rustls::ServerConfig>>>, tasks: &mut Tasks) {
    let check = health.check("channel");
    check.not_ready("there is no serving certificate yet");
    tasks.spawn_endless("channel readiness", async move {
        if tls.wait_for(Option::is_some).await.is_ok() {
            check.ready();
        }
        std::future::pending::<()>().await;
    });
}

async fn follow(mut leadership: watch::Receiver<State>, lead: watch::Sender<bool>) {
    loop {
        let leads = matches!(&*leadership.borrow_and_update(), State::Leading(term) if !term.token().is_cancelled());
        lead.send_replace(leads);
        if leadership.changed().await.is_err() {
            lead.send_replace(false);
            return std::future::pending::<()>().await;
        }
    }
}

fn certificate_source(channel: &ChannelArgs, namespace: &str) -> Source {
    let ChannelArgs {
        channel_cert_file,
        channel_key_file,
        channel_ca_file,
        channel_certificate_secret,
        ..
    } = channel;
    match (
        channel_cert_file,
        channel_key_file,
        channel_ca_file,
        channel_certificate_secret,
    ) {
        (Some(cert), Some(key), Some(ca), _) => Source::Files {
            cert: cert.clone(),
            key: key.clone(),
            ca: ca.clone(),
        },
        (.., Some(name)) => Source::Secret {
            namespace: namespace.to_owned(),
            name: name.clone(),
        },
        _ => Source::Own {
            namespace: namespace.to_owned(),
            hosts: certificates::hosts(&channel.channel_advertise_address, &channel.channel_host),
        },
    }
}

/// Go's `:port` means every address of both families, or of IPv4 where there is no IPv6.
async fn listen(bind: &Bind) -> anyhow::Result<tokio::net::TcpListener> {
    match bind {
        Bind::Off => bail!("--channel-bind-address: members need an address to connect to"),
        Bind::Port(port) => match session::bind((std::net::Ipv6Addr::UNSPECIFIED, *port).into()).await {
            Ok(listener) => Ok(listener),
            Err(_) => session::bind((std::net::Ipv4Addr::UNSPECIFIED, *port).into()).await,
        },
        Bind::Address(address) => {
            let mut found = tokio::net::lookup_host(address)
                .await
                .with_context(|| format!("--channel-bind-address: cannot resolve {address}"))?;
            let address = found.next();
            session::bind(address.with_context(|| "--channel-bind-address: the host has no address")?).await
        }
    }
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Without its CRDs the agent would wait for ever in silence.
async fn require_crds(client: &Client, inventory: bool) -> anyhow::Result<()> {
    let mut wanted = vec![
        ("cluster.kubernetes-fleet.io/v1beta1", "memberclusters"),
        ("cluster.kubernetes-fleet.io/v1beta1", "internalmemberclusters"),
        ("placement.kubernetes-fleet.io/v1beta1", "works"),
        ("placement.kubernetes-fleet.io/v1beta1", "clusterresourceplacements"),
        ("placement.kubernetes-fleet.io/v1beta1", "resourceplacements"),
    ];
    if inventory {
        wanted.push(("multicluster.x-k8s.io/v1alpha1", "clusterprofiles"));
    }
    for (group_version, plural) in wanted {
        let mut tries = 0;
        loop {
            tries += 1;
            let served = match client.list_api_group_resources(group_version).await {
                Ok(list) => list.resources.iter().any(|r| r.name == plural),
                Err(kube::Error::Api(status)) if status.code == 404 => false,
                Err(error) => return Err(error).context("cannot ask the hub's API server which kinds it serves"),
            };
            if served {
                break;
            }
            if tries == CRD_TRIES {
                bail!(
                    "the hub does not serve {plural} ({group_version}): apply the CRDs first (the hub-agent chart does{})",
                    if plural == "clusterprofiles" {
                        "), or start with --enable-cluster-inventory-apis=false"
                    } else {
                        ")"
                    }
                );
            }
            tokio::time::sleep(CRD_PAUSE).await;
        }
    }
    Ok(())
}
