//! What the rest of the agent asks of the work applier.

use fleet_core::session::{digest::KnownWork, recovery::Recovery};
use fleet_proto::convert::Ack;
use futures::future::BoxFuture;

use super::Applying;

/// What the rest of the agent asks of the work applier.
///
/// The applier reports through [`Outgoing`](crate::outgoing::Outgoing), which it is given when it is made.
pub trait Applier: Send + Sync + 'static {
    /// The barrier opens: this cluster belongs to the fleet under the InternalMemberCluster with this uid, which says
    /// this about a hub that went back in time. May be called again while it is open.
    fn open(&self, imc_uid: &str, recovery: Recovery);

    /// The barrier closes. Resolves when no round is in flight; nothing on the cluster is removed. May be called again.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// What is held for each Work, for the resync at the start of a session.
    fn known(&self) -> Known;

    /// The hub wants these Works reported again.
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

impl Applier for Applying {
    fn open(&self, imc_uid: &str, recovery: Recovery) {
        self.admission.heed(imc_uid, recovery);
        if self.barrier.open(imc_uid) {
            self.admission.wake_all();
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.barrier.close().await;
            // Whatever is found after the barrier opens again is looked at as if for the first time.
            self.watches.stop();
            self.admission.forget_rounds();
            self.reporter.clear();
        })
    }

    fn known(&self) -> Known {
        let heeded = self.barrier.is_open() || self.barrier.is_held();
        // What is written down survives restarts: a hub that went back in time is noticed by it.
        let works = self.works.all().into_iter().filter_map(|work| {
            let said = self.reporter.last(&work);
            // What somebody has looked at since is no news for the hub.
            let attempt = self.records.get(work.name()).filter(|_| heeded);
            let attempt = attempt.filter(|attempt| self.records.goes_on(&work, attempt));
            let (said_generation, status_digest) = said.unzip();
            let last = [said_generation, attempt.map(|attempt| attempt.generation)];
            Some(KnownWork {
                name: work.name().to_owned(),
                uid: work.uid().to_owned(),
                generation: last.into_iter().flatten().max()?,
                status_digest: status_digest.unwrap_or_default(),
            })
        });
        Known {
            works: works.collect(),
            orphans: self.works.orphans(&self.admission.applied),
        }
    }

    fn resend(&self, works: Vec<String>) {
        self.reporter.resend(works);
    }

    fn answered(&self, ack: &Ack) {
        self.reporter.answered(ack);
    }
}
