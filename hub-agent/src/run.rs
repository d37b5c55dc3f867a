//! Puts the hub agent together: caches, the channel, and the controllers that the leader runs.

mod crds;
mod doors;
mod hub;
mod leader;
mod stages;

use std::{sync::Arc, time::Duration};

use fleet_api::{
    names::{HUB_LEASE, field_managers},
    placement::{ClusterScoped, Namespaced},
};
use fleet_core::selection::apis::Apis;
use fleet_runtime::{
    client,
    clock::Clock,
    controller::Measures,
    dump::Dump,
    events::Recorder,
    files,
    health::Health,
    lease::{self, Elector, State},
    logs,
    metrics::Metrics,
    options::{self, LeaseArgs},
    shutdown::{self, Tasks},
    writes::Writes,
};
use jiff::SignedDuration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{hub::Hub, leader::Leader};
use crate::{
    admission, certificates, channel, eviction, kubefleet, membership,
    options::{MembershipArgs, Options, PlacementArgs, SchedulerArgs, UpdateRunArgs, WebhookArgs},
    pipeline,
    reports::SessionReports,
    scheduler, status, updaterun,
};

const USER_AGENT: &str = concat!("hub-agent/", env!("CARGO_PKG_VERSION"));

/// Runs the agent until it is told to stop, or something it needs ends.
pub async fn run(options: Options) -> anyhow::Result<()> {
    options
        .validate()
        .map_err(|why| anyhow::anyhow!("invalid parameter: {why}"))?;
    logs::init(&options.log)?;
    let open_files = files::raise_limit();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), open_files, ?options, "Starting");
    for line in options.ignored() {
        tracing::warn!("{line}");
    }
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
        update_runs,
        evictions,
        webhook,
        namespace,
        pod_name,
        accepted: _,
    } = options;
    let placing = placing(&placement, &scheduler, &update_runs, &membership)?;
    let clock = Clock::system();
    let metrics = Metrics::new();
    let health = Health::default();
    let mut tasks = Tasks::new(stop.clone());

    doors::serve_pages(&admin, &health, &metrics, &stop, &mut tasks).await?;
    let client = client::connect(&client_args, USER_AGENT).await?;
    let runs_served = crds::require(&client, &membership, &update_runs, &evictions, placing.namespaced).await?;
    let writes = Writes::new("hub", &metrics);
    let (events, sender) = Recorder::new(client.clone(), writes.clone(), clock.clone(), &pod_name, &metrics);
    tasks.spawn_endless("event sender", sender.run());
    let (remove, webhooks) = (membership.remove_kubefleet_webhooks, webhook.enable_webhook);
    let again = kubefleet::look(&client, &events, remove, webhooks).await;
    tasks.spawn_endless("what KubeFleet has left", again.run());

    let profiles_in = membership.enable_cluster_inventory_apis.then_some(namespace.as_str());
    let kinds = (runs_served, evictions.enable_eviction_apis);
    let hub = Hub::start(client, clock, (writes, events), profiles_in, kinds, &mut tasks);

    show(&metrics, &hub);
    let leadership = elect(&lease, &hub, metrics.dump(), &mut tasks);
    let (lead, leading) = watch::channel(false);
    tasks.spawn_endless("leadership", follow(leadership.clone(), lead));

    let source = doors::certificate_source(&channel, &namespace);
    let kept_with = kept_with(&hub, leading.clone());
    let (current, keeper) = certificates::keep(&certificates::CHANNEL, source, kept_with.clone());
    tasks.spawn_endless("channel certificate", keeper);

    hub.synced(&health).await;

    let listener = doors::listen("channel-bind-address", &channel.channel_bind_address).await?;
    tracing::info!(address = %listener.local_addr()?, "Serving members");
    let deps = channel_deps(&hub, &membership, &metrics, leading);
    tasks.spawn(
        "channel",
        channel::serve::<SessionReports>(deps, listener, current.tls.clone(), stop.clone()),
    );
    doors::serving_check(&health, current.tls.clone(), &mut tasks);

    let networking = membership.networking_agents_enabled;
    let apis = placing.rules.apis.clone();
    serve_webhooks(
        &webhook,
        &hub,
        (apis, networking),
        &namespace,
        kept_with,
        &health,
        &mut tasks,
    )
    .await?;

    let evicting = evictions.enable_eviction_apis.then(|| leader::Evicting {
        measures: eviction::Measures::new(&metrics, hub.evictions.evictions.clone()),
        ttl: signed(evictions.eviction_ttl),
    });
    let runs = measures_of_runs(&metrics, &hub, &mut tasks);
    let leader = Leader {
        hub,
        evicting,
        membership,
        placing,
        endpoint: Some(channel.channel_advertise_address).filter(|a| !a.is_empty()),
        ca: current.ca,
        namespace,
        results: membership::Results::new(&metrics),
        measures: Measures::new(&metrics),
        dump: metrics.dump().clone(),
        cycles: scheduler::Measures::new(&metrics),
        steps: pipeline::steps::Measures::new(&metrics),
        runs,
    };
    let leader = Arc::new(leader);
    tasks.spawn(
        "controllers",
        lease::lead(leadership, stop.clone(), move |term| Arc::clone(&leader).run(term)),
    );
    tasks.join().await?;
    Ok(())
}

/// What the channel works with.
fn channel_deps(
    hub: &Hub,
    membership: &MembershipArgs,
    metrics: &Metrics,
    leading: watch::Receiver<bool>,
) -> channel::Deps {
    channel::Deps {
        client: hub.client.clone(),
        clock: hub.clock.clone(),
        members: hub.caches.members.clone(),
        members_by_identity: hub.caches.members_by_identity.clone(),
        internals: hub.caches.internals.clone(),
        namespaces: hub.caches.namespaces.clone(),
        works: hub.works.store.clone(),
        works_in: hub.works.by_namespace.clone(),
        writer: hub.writer(field_managers::HUB_AGENT),
        events: hub.events.clone(),
        metrics: metrics.clone(),
        leading,
        settings: channel::ChannelSettings {
            unhealthy_threshold: signed(membership.cluster_unhealthy_threshold),
            ..channel::ChannelSettings::default()
        },
    }
}

/// What certificates are kept with.
fn kept_with(hub: &Hub, leading: watch::Receiver<bool>) -> certificates::Deps {
    certificates::Deps {
        client: hub.client.clone(),
        era: hub.era.clone(),
        clock: hub.clock.clone(),
        writer: hub.writer(field_managers::HUB_AGENT),
        leading,
    }
}

/// The webhooks, or where there are to be none, the end of those that there were.
async fn serve_webhooks(
    args: &WebhookArgs,
    hub: &Hub,
    (apis, networking): (Apis, bool),
    namespace: &str,
    kept_with: certificates::Deps,
    health: &Health,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    if !args.enable_webhook {
        admission::withdraw(hub.client.clone(), kept_with.leading, tasks);
        return Ok(());
    }
    let listener = doors::listen("webhook-bind-address", &args.webhook_bind_address).await?;
    tracing::info!(address = %listener.local_addr()?, "Serving webhooks");
    let deps = admission::Deps {
        client: hub.client.clone(),
        era: hub.era.clone(),
        stores: hub.placements.clone(),
        apis,
        networking,
        namespace: namespace.to_owned(),
        kept_with,
    };
    admission::start(args, deps, listener, health, tasks);
    Ok(())
}

/// Measures of update runs, on every replica without those of runs that are gone.
fn measures_of_runs(metrics: &Metrics, hub: &Hub, tasks: &mut Tasks) -> updaterun::Measures {
    let (measures, placements) = (updaterun::Measures::new(metrics), &hub.placements);
    let (cluster, namespaced) = (&placements.cluster.updates.runs, &placements.namespaced.updates.runs);
    let of_cluster = measures.clone().follow::<ClusterScoped>(cluster.subscribe());
    let of_namespaces = measures.clone().follow::<Namespaced>(namespaced.subscribe());
    tasks.spawn_endless("measures of update runs", async {
        tokio::join!(of_cluster, of_namespaces);
    });
    measures
}

/// What is read when somebody looks: metrics about stored objects, and the stores themselves.
fn show(metrics: &Metrics, hub: &Hub) {
    let (cluster, namespaced) = (&hub.placements.cluster, &hub.placements.namespaced);
    status::metrics::register(metrics, cluster.placements.clone(), namespaced.placements.clone());
    let runs = (cluster.updates.runs.clone(), namespaced.updates.runs.clone());
    updaterun::standing::register(metrics, runs.0, runs.1);
    hub.caches.show_in(metrics.dump());
    hub.works.store.show_in(metrics.dump());
    hub.placements.show_in(metrics.dump());
    hub.evictions.show_in(metrics.dump());
}

fn placing(
    placement: &PlacementArgs,
    scheduler: &SchedulerArgs,
    update_runs: &UpdateRunArgs,
    membership: &MembershipArgs,
) -> anyhow::Result<pipeline::PipelineSettings> {
    let rules = placement.rules();
    Ok(pipeline::PipelineSettings {
        rules: rules.map_err(|why| anyhow::anyhow!("invalid parameter: {why}"))?,
        delay: placement.delay(),
        namespaced: placement.enable_resource_placement,
        scheduler: scheduler.settings(),
        rbac: placement.rbac(),
        unhealthy_threshold: signed(membership.cluster_unhealthy_threshold),
        update_runs: update_runs.enable_staged_update_run_apis,
        stuck_threshold: signed(update_runs.update_run_stuck_threshold),
        update_run_ttl: signed(update_runs.update_run_ttl),
    })
}

/// Who leads; without election we always do.
fn elect(args: &LeaseArgs<options::Hub>, hub: &Hub, dump: &Dump, tasks: &mut Tasks) -> watch::Receiver<State> {
    let stop = tasks.stop().clone();
    if !args.leader_elect {
        return lease::always(&stop);
    }
    let config = lease::Config::new(args, HUB_LEASE);
    let (elector, state) = Elector::new(hub.client.clone(), config, hub.clock.clone(), hub.era.clone());
    elector.show_in(dump);
    tasks.spawn_forever("leader election", elector.run(stop));
    state
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

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
