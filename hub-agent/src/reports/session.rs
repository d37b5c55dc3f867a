//! What one session says, message by message.

use std::{collections::BTreeMap, sync::Arc};

use fleet_core::session::{Answer, Outcome};
use fleet_proto::convert::{FromMember, MemberMessage, RejectCode};

use super::{
    cluster::ClusterReports,
    context::ReportContext,
    events,
    labels::fill_labels,
    queue::{Body, Report, Reports},
};
use crate::channel::{Charge, Close, Live, Messages, Outgoing, Shared};

/// The reports of one session.
pub(crate) struct SessionReports {
    shared: Arc<Shared>,
    live: Arc<Live>,
    out: Outgoing,
    platform_labels: BTreeMap<String, String>,
    cluster: Arc<ClusterReports>,
    queue: Reports,
    /// The last sequence numbers of agent status and properties.
    last: [u64; 2],
}

impl Messages for SessionReports {
    fn open(shared: &Arc<Shared>, live: &Arc<Live>, out: &Outgoing, labels: BTreeMap<String, String>) -> Self {
        let cluster = ClusterReports::new(shared.clone(), live.clone(), out.clone());
        let context = ReportContext {
            shared: shared.clone(),
            live: live.clone(),
            out: out.clone(),
            cluster: cluster.clone(),
        };
        Self {
            queue: Reports::new(Arc::new(context)),
            last: [0; 2],
            shared: shared.clone(),
            live: live.clone(),
            out: out.clone(),
            platform_labels: labels,
            cluster,
        }
    }

    fn beside(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let (cluster, shared, live) = (self.cluster.clone(), self.shared.clone(), self.live.clone());
        let labels = std::mem::take(&mut self.platform_labels);
        async move {
            let filled = async {
                if !labels.is_empty() {
                    fill_labels(&shared, live.cluster.as_str(), &labels).await;
                }
            };
            tokio::join!(cluster.run(), filled);
        }
    }

    async fn take(&mut self, message: FromMember, bytes: usize, charge: Charge) -> Result<(), Close> {
        let FromMember { seq, body, .. } = message;
        let (work, body) = match body {
            MemberMessage::Heartbeat => {
                self.cluster.heartbeat();
                return Ok(());
            }
            MemberMessage::AgentStatus(status) => {
                if self.is_old(0, seq) {
                    return self.unchanged(seq).await;
                }
                let replaced = self.cluster.agent_status(seq, status);
                return self.replaced(replaced).await;
            }
            MemberMessage::Properties(report) => {
                if self.is_old(1, seq) {
                    return self.unchanged(seq).await;
                }
                let replaced = self.cluster.properties(seq, report);
                return self.replaced(replaced).await;
            }
            MemberMessage::WorkStatus(report) => (Some(report.work.clone()), Body::Status(Box::new(report))),
            MemberMessage::Claim(work) => (Some(work), Body::Claim),
            MemberMessage::CleanupComplete(work) => (Some(work), Body::Cleanup),
            MemberMessage::ApplierStopped {
                imc_uid,
                imc_generation,
            } => {
                let body = Body::Stopped {
                    imc_uid,
                    imc_generation,
                };
                (None, body)
            }
            MemberMessage::CleanupProgress(progress) => {
                events::progress(&self.shared, &self.live, &progress);
                // Answered, since what the member says next about this Work waits for that.
                let answer = Answer::because(Outcome::Unchanged, "noted");
                return Ok(self.out.ack(seq, Some(progress.work), answer).await?);
            }
            MemberMessage::Event(event) => {
                events::record(&self.shared, &self.live, event);
                return Ok(());
            }
            MemberMessage::Hello(_) => {
                return Err(Close::new(RejectCode::Misbehaved, "a second Hello on one stream"));
            }
        };
        let report = Report {
            seq,
            work,
            body,
            bytes,
            charge,
        };
        match self.queue.offer(report) {
            Some((seq, work, answer)) => Ok(self.out.ack(seq, work, answer).await?),
            None => Ok(()),
        }
    }

    async fn next(&mut self) {
        self.queue.next().await;
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }
}

impl SessionReports {
    fn is_old(&mut self, which: usize, seq: u64) -> bool {
        let old = seq <= self.last[which];
        self.last[which] = self.last[which].max(seq);
        old
    }

    async fn unchanged(&self, seq: u64) -> Result<(), Close> {
        let answer = Answer::because(Outcome::Unchanged, "older than what was processed");
        Ok(self.out.ack(seq, None, answer).await?)
    }

    async fn replaced(&self, seq: Option<u64>) -> Result<(), Close> {
        let Some(seq) = seq else { return Ok(()) };
        let answer = Answer::because(Outcome::Superseded, "a newer report of the same has arrived");
        Ok(self.out.ack(seq, None, answer).await?)
    }
}
