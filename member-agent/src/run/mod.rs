//! The agent as a whole: what runs, and in which order it starts.

mod announce;
mod renewing;
mod start;
mod term;

use std::{process::ExitCode, sync::Arc};

use anyhow::Context as _;
use fleet_api::names::MEMBER_LEASE;
use fleet_runtime::{
    cache::Era,
    client,
    clock::Clock,
    health::{Check, Health},
    lease::{self, Elector, State},
    logs,
    metrics::Metrics,
    shutdown::{self, Tasks},
    tls,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::{
    start::{applied_works, first_token, follow_secret, serve, token_file},
    term::Member,
};
use crate::{
    applier::{Applying, Side},
    hub_access::{
        client as hub_client,
        credential::Credential,
        settings::{HubSettings, Identity as HubIdentity},
    },
    measures::Measures,
    membership::{self, KnownImc},
    options::Options,
    outgoing::Outgoing,
    properties::Identity,
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

/// Runs until told to stop.
///
/// # Errors
/// If the settings cannot work, or a task that the agent needs has ended.
pub async fn run(
    options: &Options,
    environment: impl Fn(&str) -> Option<std::ffi::OsString>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let settings = HubSettings::read(environment, options.hub.use_ca_auth, options.hub.tls_insecure)?;
    announce::announce(options, &settings);
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
    let (hub_era, member_era) = (Era::default(), Era::default());
    let leading = if options.lease.leader_elect {
        let config = lease::Config::new(&options.lease, MEMBER_LEASE);
        let (elector, leading) = Elector::new(client.clone(), config, clock.clone(), member_era.clone());
        elector.show_in(metrics.dump());
        tasks.spawn_forever("leader election", elector.run(stop.clone()));
        leading
    } else {
        lease::always(&stop)
    };
    let (seen_sender, seen) = watch::channel(KnownImc::NotYet);
    let store = membership::store();
    store.show_in(metrics.dump());
    let hub_watch = store.state();
    let cluster = settings.cluster.clone();
    let (source, watched, name, from) = (credential.clone(), store.clone(), cluster.clone(), hub.clone());
    let era = hub_era.clone();
    let watching = async move {
        first_token(&source).await;
        membership::watch(watched, from, era, name).await;
    };
    tasks.spawn_forever("hub watch", until(&stop, watching));
    let outgoing = Arc::new(Outgoing::default());
    outgoing.show_in(metrics.dump());
    let applier = Arc::new(Applying::new(
        cluster.clone(),
        Side {
            client: hub.clone(),
            era: hub_era,
        },
        Side {
            client: client.clone(),
            era: member_era.clone(),
        },
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
        hub,
        client,
        era: member_era,
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

fn until<F: Future<Output = ()> + Send>(stop: &CancellationToken, task: F) -> impl Future<Output = ()> + Send + use<F> {
    let stop = stop.clone();
    async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = task => {}
        }
    }
}
