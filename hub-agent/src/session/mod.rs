//! The hub's end of the heartbeat channel: one stream per member, and what it says written down.
//!
//! ```text
//! listener ─► server ─► stream ── hello ──► registry (who is connected here)
//!   TLS        gRPC       │ ▲                   ▲ MemberCluster and InternalMemberCluster changes close sessions
//!                         │ └─ outgoing ◄─ answers, only after the API server has accepted the write
//!                         ├─► cluster   heartbeats, agent status, properties ─► InternalMemberCluster, MemberCluster
//!                         ├─► reports   one at a time per Work ─► work, finalizer ─► Work
//!                         └─► events    recorded on the member's behalf
//! ```
//!
//! Every replica serves members; what a stream says is confined to the namespace of the member that opened it. Rules
//! are in `fleet_core::session`; here they are carried out. Nothing here is remembered beyond a stream's life: whatever
//! counts is stored on the API server before it is acknowledged.

pub mod authenticate;
mod certificate;
pub mod certificates;
mod cluster;
mod convert;
mod events;
mod finalizer;
mod held;
mod hello;
mod listener;
mod metrics;
mod openings;
mod outgoing;
mod registry;
mod reports;
mod review;
mod server;
mod stream;
#[cfg(test)]
mod tests;
mod work;
mod write;

use std::time::Duration;

use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_proto::convert::SessionLimits;
use fleet_runtime::{
    cache::{Index, Store},
    clock::Clock,
    events::Recorder,
    metrics::Metrics,
    writes::Writes,
};
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use tokio::sync::watch;

pub use self::{
    held::{HeldWork, ManifestIdentity, Works},
    listener::bind,
    server::serve,
};

/// What the channel works with. Cheap to clone.
#[derive(Clone)]
pub struct Deps {
    /// The hub's API server.
    pub client: Client,
    /// The hub's time, which heartbeats are stamped with.
    pub clock: Clock,
    /// Every MemberCluster.
    pub members: Store<MemberCluster>,
    /// Every InternalMemberCluster.
    pub internals: Store<InternalMemberCluster>,
    /// The member namespaces, at least.
    pub namespaces: Store<Namespace>,
    /// Every Work, without its manifests.
    pub works: Store<HeldWork>,
    /// The same by namespace.
    pub works_in: Index<HeldWork, String>,
    /// The process's queue of writes.
    pub writes: Writes,
    /// Events.
    pub events: Recorder,
    /// The registry of metrics.
    pub metrics: Metrics,
    /// Whether this replica leads, and so may write MemberClusters.
    pub leading: watch::Receiver<bool>,
    /// What operators may choose.
    pub settings: Settings,
}

/// How the channel behaves.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Silence that means a lost heartbeat, as the membership controller judges it.
    pub unhealthy_threshold: SignedDuration,
    /// What members are told and held to.
    pub limits: SessionLimits,
    /// A stream without a Hello by then is closed.
    pub hello_timeout: Duration,
    /// A peer that takes nothing for so long is closed.
    pub send_timeout: Duration,
    /// How often a credential is judged again.
    pub review_interval: Duration,
    /// How long reports under way may take once told to stop.
    pub drain: Duration,
    /// Keep-alive pings on the connection; shorter than any heartbeat period worth having.
    pub keep_alive: Duration,
    /// Sessions at once on this replica.
    pub sessions_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            unhealthy_threshold: SignedDuration::from_secs(60),
            limits: SessionLimits::default(),
            hello_timeout: Duration::from_secs(10),
            send_timeout: Duration::from_secs(10),
            review_interval: Duration::from_mins(5),
            drain: Duration::from_secs(5),
            keep_alive: Duration::from_secs(10),
            sessions_max: 5_000,
        }
    }
}
