//! The member's end of the heartbeat channel: one stream to the hub agent, opened again whenever it breaks.
//!
//! ```text
//! endpoint ─► TLS (the hub proves itself) ─► credential, Hello ─► Accept ─► heartbeat, agent status, properties, Works
//!     ▲                                                                             │
//!     └────────────────────────── back-off ◄── broken · rejected · fenced ◄─────────┘
//! ```
//!
//! A session only carries what the agent has to say. While it is down the agent goes on with what it has read; only a
//! hub that says that somebody else speaks for this cluster, or nobody, makes it pause.

mod connect;
mod end;
mod heartbeat;
mod reports;
mod stream;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleet_api::{cluster::AgentType, conditions::member_agent::Healthy};
use fleet_core::session::backoff::Backoff;
use fleet_proto::{
    PROTOCOL_VERSION,
    convert::{Accept, Hello},
    limits,
};
use fleet_runtime::{cache, clock::Clock, health::Check};
use jiff::SignedDuration;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};

use self::{end::End, reports::Reports};
use crate::{
    applier::{Applier, Known},
    hub_access::{
        credential::Credential,
        endpoint::Endpoint,
        settings::{HubSettings, Trust},
    },
    measures::Measures,
    membership::{Barred, KnownImc, Phase},
    outgoing::Outgoing,
    properties::ClusterReport,
};

/// A session that lasted so long was no failure when it ended.
const LASTED: Duration = Duration::from_secs(10);
/// The hub may ask for patience, within reason.
const RETRY_AFTER_MAX: Duration = Duration::from_mins(5);

/// What a session needs, and what it tells.
pub struct SessionDeps {
    /// Where the hub is.
    pub settings: Arc<HubSettings>,
    /// How we prove who we are.
    pub credential: Credential,
    /// What the cloud says about this cluster, for labels that nobody has set.
    pub platform_labels: BTreeMap<String, String>,
    /// uid of this cluster's kube-system namespace.
    pub cluster_uid: String,
    /// Transitions of our Lease in this term.
    pub lease_transitions: u64,
    /// This process.
    pub instance_id: String,
    /// What the hub asks.
    pub seen: watch::Receiver<KnownImc>,
    /// What we do about it.
    pub phase: watch::Receiver<Phase>,
    /// How this cluster's API server is.
    pub health: watch::Receiver<Option<Healthy>>,
    /// How the watch of what the hub asks is doing.
    pub hub_watch: watch::Receiver<cache::State>,
    /// What this cluster says about itself.
    pub properties: watch::Receiver<Option<Arc<ClusterReport>>>,
    /// Told with every heartbeat.
    pub beat: Arc<Notify>,
    /// What is to be said.
    pub outgoing: Arc<Outgoing>,
    /// Who applies.
    pub applier: Arc<dyn Applier>,
    /// Told when the hub bars us from applying.
    pub barred: watch::Sender<Option<Barred>>,
    /// Ready while a session is accepted.
    pub check: Check,
    /// Metrics.
    pub measures: Measures,
    /// The time.
    pub clock: Clock,
}

/// Keeps a session open, for ever.
pub async fn run(mut context: SessionDeps) {
    let mut reports = Reports::new(
        context.outgoing.clone(),
        context.measures.clone(),
        context.clock.clone(),
    );
    // The last term may have ended in the middle of a session.
    context.outgoing.disconnected();
    let mut backoff = Backoff::default();
    let mut before: Option<End> = None;
    loop {
        context.wait_for_membership().await;
        let end = attempt(&mut context, &mut reports, &mut backoff).await;
        context.outgoing.disconnected();
        context.measures.ended(end.reason());
        context.check.not_ready(end.to_string());
        // The same again is no news; readiness and metrics have it.
        if before.as_ref() == Some(&end) {
            tracing::debug!(reason = end.reason(), "{end}");
        } else {
            tracing::warn!(reason = end.reason(), "{end}");
        }
        if (end.bars() || end.denies() && context.is_forbidden())
            && let Some(imc) = context.seen.borrow().imc()
        {
            context.barred.send_replace(Some(Barred {
                imc_uid: imc.uid.clone(),
                why: end.to_string(),
            }));
        }
        let wait = context.wait(&end, &mut backoff);
        before = Some(end);
        let endpoint = Endpoint::find(&context.settings, context.seen.borrow().imc().map(AsRef::as_ref));
        tokio::select! {
            () = sleep(wait) => {}
            // Another endpoint or another membership: no reason to wait.
            () = context.moved(endpoint) => backoff.succeeded(),
        }
    }
}

async fn attempt(context: &mut SessionDeps, reports: &mut Reports, backoff: &mut Backoff) -> End {
    let (endpoint, period) = {
        let seen = context.seen.borrow();
        match Endpoint::find(&context.settings, seen.imc().map(AsRef::as_ref)) {
            Ok(endpoint) => (endpoint, seen.period()),
            Err(error) => return End::NoEndpoint(error.to_string()),
        }
    };
    let opened = async {
        let channel = connect::connect(&endpoint, &context.credential, period).await?;
        connect::hello(channel, &context.settings, &context.credential, context.hello()).await
    };
    let (link, accept) = match opened.await {
        Ok(opened) => opened,
        Err(end) => return end,
    };
    context.accepted(&accept, &endpoint);
    let began = Instant::now();
    let end = stream::converse(context, reports, link, &accept).await;
    if began.elapsed() >= LASTED && !end.bars() {
        backoff.succeeded();
    }
    end
}

impl SessionDeps {
    /// Whether we may not read either what the hub asks of us.
    fn is_forbidden(&self) -> bool {
        let forbidden = cache::Reason::Forbidden;
        matches!(&*self.hub_watch.borrow(), cache::State::Failing { reason, .. } if *reason == forbidden)
    }

    fn hello(&self) -> Hello {
        let Known { mut works, mut orphans } = self.applier.known();
        // The hub takes no more; the metric has them all.
        works.truncate(limits::WORKS);
        orphans.truncate(limits::ORPHANS);
        Hello {
            member_cluster: self.settings.cluster.to_string(),
            agent_type: AgentType::MemberAgent,
            protocol_version: PROTOCOL_VERSION,
            build_version: env!("CARGO_PKG_VERSION").to_owned(),
            instance_id: self.instance_id.clone(),
            lease_transitions: self.lease_transitions,
            cluster_uid: self.cluster_uid.clone(),
            platform_labels: self.platform_labels.clone(),
            works,
            orphaned_applied_works: orphans,
        }
    }

    fn accepted(&self, accept: &Accept, endpoint: &Endpoint) {
        let (uid, generation) = match self.seen.borrow().imc() {
            Some(imc) => (imc.uid.clone(), imc.generation),
            None => (String::new(), 0),
        };
        let behind = if uid == accept.imc_uid {
            accept.imc_generation - generation
        } else {
            accept.imc_generation
        };
        tracing::info!(
            session = accept.session,
            hub = accept.build_version,
            host = endpoint.host,
            behind,
            "The hub accepted our session"
        );
        self.measures.accepted(behind);
        self.check.ready();
        self.barred.send_if_modified(|barred| barred.take().is_some());
    }

    /// Waits while there is nobody to speak for, or nowhere to speak. As long as the hub could not be read we try where
    /// the settings say, for the channel may work where the API server does not; but not without knowing its CA.
    async fn wait_for_membership(&mut self) {
        let HubSettings {
            channel,
            channel_ca,
            trust,
            ..
        } = &*self.settings;
        let told_where = channel.is_some() && (channel_ca.is_some() || *trust == Trust::Anything);
        let hopeless = |seen: &KnownImc| match seen {
            KnownImc::NotYet => !told_where,
            KnownImc::Absent => true,
            KnownImc::Present(_) => false,
        };
        if hopeless(&self.seen.borrow_and_update()) {
            self.check.not_ready("waiting for the InternalMemberCluster on the hub");
            if self.seen.wait_for(|seen| !hopeless(seen)).await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn wait(&self, end: &End, backoff: &mut Backoff) -> Duration {
        let period = SignedDuration::try_from(self.seen.borrow().period()).unwrap_or(SignedDuration::MAX);
        let wait = backoff.failed(end.not_member(), period, fastrand::f64()).unsigned_abs();
        match end {
            End::Rejected { retry_after_ms, .. } => {
                wait.max(Duration::from_millis(*retry_after_ms).min(RETRY_AFTER_MAX))
            }
            // Who was fenced by a newer leader most likely loses the lease in a moment.
            End::Fenced { lease_transitions, .. } if *lease_transitions > self.lease_transitions => {
                wait.max(Duration::from_secs(5))
            }
            _ => wait,
        }
    }

    /// Resolves when an attempt may succeed for another reason than that time has passed.
    async fn moved(&mut self, from: Result<Endpoint, crate::hub_access::endpoint::Error>) {
        let uid = self.seen.borrow().imc().map(|imc| imc.uid.clone());
        loop {
            if self.seen.changed().await.is_err() {
                return std::future::pending().await;
            }
            let seen = self.seen.borrow_and_update();
            let now = Endpoint::find(&self.settings, seen.imc().map(AsRef::as_ref));
            if now != from || seen.imc().map(|imc| &imc.uid) != uid.as_ref() {
                return;
            }
        }
    }
}

impl dyn Applier {
    /// The hub has something else for these Works than what our Hello said.
    fn resend_for(&self, accept: &Accept) {
        if !accept.resend_works.is_empty() {
            self.resend(accept.resend_works.clone());
        }
    }
}
