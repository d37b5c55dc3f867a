//! Where the work applier plugs in.

use std::sync::Arc;

use fleet_proto::convert::{Ack, KnownWork};
use futures::future::BoxFuture;

/// What the rest of the agent asks of the work applier.
///
/// The applier reports through [`Outgoing`](crate::session::Outgoing), which it is given when it is made.
pub trait Applier: Send + Sync + 'static {
    /// The gate opens: this cluster belongs to the fleet under the InternalMemberCluster with this uid. May be called
    /// again while it is open.
    fn open(&self, imc_uid: &str);

    /// The gate closes. Resolves when no round is in flight; nothing on the cluster is removed. May be called again.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// What is held for each Work, for the resync at the start of a session.
    fn known(&self) -> Known;

    /// How far the watch of Works has come, as the resourceVersion; empty if there is none.
    fn watched(&self) -> String;

    /// The hub wants these Works reported again; none means all.
    fn resend(&self, works: Vec<String>);

    /// The hub's answer to a report about a Work.
    fn answered(&self, ack: &Ack);
}

/// What an applier holds.
#[derive(Debug, Default)]
pub struct Known {
    /// Each Work.
    pub works: Vec<KnownWork>,
    /// AppliedWorks without a Work.
    pub orphans: Vec<String>,
}

/// No applier yet: nothing is applied and no Work is claimed, so no Work gets stuck on this cluster either.
#[derive(Debug, Default)]
pub struct Nothing;

impl Nothing {
    /// For those who want any applier.
    pub fn applier() -> Arc<dyn Applier> {
        Arc::new(Self)
    }
}

impl Applier for Nothing {
    fn open(&self, _: &str) {}

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn known(&self) -> Known {
        Known::default()
    }

    fn watched(&self) -> String {
        String::new()
    }

    fn resend(&self, _: Vec<String>) {}

    fn answered(&self, _: &Ack) {}
}
