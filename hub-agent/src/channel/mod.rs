//! The hub's end of the heartbeat channel: one stream per member, and who is at its other end.
//!
//! ```text
//! listener ─► server ─► stream ── hello ──► registry (who is connected here)
//!   TLS        gRPC       │ ▲                   ▲ MemberCluster and InternalMemberCluster changes close sessions
//!                         │ └─ outgoing ◄─ answers, only after the API server has accepted the write
//!                         └─► talk ─► whoever takes the messages: [`Messages`]
//! ```
//!
//! Every replica serves members; what a stream says is confined to the namespace of the member that opened it. What
//! becomes of a message is not the channel's to decide: it hands each to [`Messages`], with the memory it is paid with.

mod allowance;
mod authenticate;
mod behind;
mod close;
mod convert;
mod guests;
mod held_back;
mod hello;
mod intake;
mod listener;
mod memory;
mod metrics;
mod openings;
mod outgoing;
mod registry;
mod review;
mod reviews;
mod server;
mod shared;
mod stream;
mod talk;

use std::time::Duration;

use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_core::session::{budget::Rates, identity::Name};
use fleet_proto::convert::SessionLimits;
use fleet_runtime::{
    cache::{Index, Store},
    clock::Clock,
    events::Recorder,
    metrics::Metrics,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use tokio::sync::watch;

pub(crate) use self::{
    close::Close,
    convert::refusal_word,
    guests::Source,
    memory::Charge,
    outgoing::Outgoing,
    registry::{Live, imc_key},
    server::serve,
    shared::Shared,
    talk::Messages,
};
use crate::{cache::works::HubWork, writer::Writer};

/// What the channel works with. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Deps {
    /// The hub's API server.
    pub(crate) client: Client,
    /// The hub's time, which heartbeats are stamped with.
    pub(crate) clock: Clock,
    /// Every MemberCluster.
    pub(crate) members: Store<MemberCluster>,
    /// The same by who they are.
    pub(crate) members_by_identity: Index<MemberCluster, Name>,
    /// Every InternalMemberCluster.
    pub(crate) internals: Store<InternalMemberCluster>,
    /// The member namespaces, at least.
    pub(crate) namespaces: Store<Namespace>,
    /// Every Work, without its manifests.
    pub(crate) works: Store<HubWork>,
    /// The same by namespace.
    pub(crate) works_in: Index<HubWork, String>,
    /// Writes, as the hub agent itself.
    pub(crate) writer: Writer,
    /// Events.
    pub(crate) events: Recorder,
    /// The registry of metrics.
    pub(crate) metrics: Metrics,
    /// Whether this replica leads, and so may write MemberClusters.
    pub(crate) leading: watch::Receiver<bool>,
    /// What operators may choose.
    pub(crate) settings: ChannelSettings,
}

/// How the channel behaves.
#[derive(Debug, Clone)]
pub(crate) struct ChannelSettings {
    /// Silence that means a lost heartbeat, as the membership controller judges it.
    pub(crate) unhealthy_threshold: SignedDuration,
    /// What members are told and held to.
    pub(crate) limits: SessionLimits,
    /// What each MemberCluster is held to, over all its sessions.
    pub(crate) rates: Rates,
    /// A stream without a Hello by then is closed.
    pub(crate) hello_timeout: Duration,
    /// A peer that takes nothing for so long is closed.
    pub(crate) send_timeout: Duration,
    /// How often a credential is judged again.
    pub(crate) review_interval: Duration,
    /// How long reports under way may take once told to stop.
    pub(crate) drain: Duration,
    /// Keep-alive pings on the connection; shorter than any heartbeat period worth having.
    pub(crate) keep_alive: Duration,
    /// Sessions at once on this replica.
    pub(crate) sessions_max: usize,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            unhealthy_threshold: SignedDuration::from_secs(60),
            limits: SessionLimits::default(),
            rates: allowance::rates(&SessionLimits::default()),
            hello_timeout: Duration::from_secs(10),
            send_timeout: Duration::from_secs(10),
            review_interval: Duration::from_mins(5),
            drain: Duration::from_secs(5),
            keep_alive: Duration::from_secs(10),
            sessions_max: 5_000,
        }
    }
}
