//! The way back to a member: a short queue that a member which does not read cannot make long.

use std::time::Duration;

use fleet_core::session::{Answer, Outcome, WorkRef};
use fleet_proto::{
    convert::{Ack, HubMessage, Reject, RejectCode},
    pb,
};
use tokio::sync::mpsc;
use tonic::Status;

use super::close::Close;

/// Messages that may wait for the network. More than any honest burst of answers between two reads.
const WAITING_MAX: usize = 128;

/// What tonic sends from.
pub(crate) type Receiver = mpsc::Receiver<Result<pb::HubMessage, Status>>;

/// Sends to one member. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    queue: mpsc::Sender<Result<pb::HubMessage, Status>>,
    patience: Duration,
}

/// The member is gone, or takes nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreachable;

impl From<Unreachable> for Close {
    fn from(Unreachable: Unreachable) -> Self {
        Self::new(RejectCode::Misbehaved, "the member does not read its answers")
    }
}

impl Outgoing {
    pub(crate) fn new(patience: Duration) -> (Self, Receiver) {
        let (queue, receiver) = mpsc::channel(WAITING_MAX);
        (Self { queue, patience }, receiver)
    }

    /// Waits for room, but not for ever: only this member's own tasks wait here.
    pub(crate) async fn send(&self, message: HubMessage) -> Result<(), Unreachable> {
        self.queue
            .send_timeout(Ok(message.into()), self.patience)
            .await
            .map_err(|_| Unreachable)
    }

    pub(crate) async fn ack(&self, seq: u64, work: Option<WorkRef>, answer: Answer) -> Result<(), Unreachable> {
        let Answer { outcome, reason } = answer;
        self.send(HubMessage::Ack(Ack {
            seq,
            work,
            outcome,
            reason,
        }))
        .await
    }

    /// An answer that is the channel's own, not a decision about an object.
    pub(crate) async fn refuse(&self, seq: u64, what: Outcome, reason: String) -> Result<(), Unreachable> {
        self.send(HubMessage::Ack(Ack {
            seq,
            work: None,
            outcome: what,
            reason,
        }))
        .await
    }

    /// The last message.
    pub(crate) async fn reject(&self, code: RejectCode, message: &str, retry_after: Duration) {
        let reject = Reject {
            code,
            message: message.to_owned(),
            retry_after_ms: u64::try_from(retry_after.as_millis()).unwrap_or(u64::MAX),
        };
        // Who takes nothing cannot be told why.
        let _ = self.send(HubMessage::Reject(reject)).await;
    }

    /// Resolves when the member has gone.
    pub(crate) async fn gone(&self) {
        self.queue.closed().await;
    }
}
