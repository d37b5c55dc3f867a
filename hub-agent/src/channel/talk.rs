//! An open session: what a member says, taken one message after the other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleet_core::session::Outcome;
use fleet_proto::{
    convert::{FromMember, HubMessage, MemberMessage, RejectCode},
    pb,
};
use prost::Message as _;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tonic::Streaming;

use super::{
    authenticate,
    close::{Close, later, stopping},
    hello::Credential,
    intake::Intake,
    memory::Charge,
    outgoing::Outgoing,
    registry::Live,
    review,
    shared::Shared,
};

/// What takes the messages of one session. Dropped with it.
pub(crate) trait Messages: Send + Sync + Sized + 'static {
    /// A session was accepted; these are the labels of its member's platform.
    fn open(shared: &Arc<Shared>, live: &Arc<Live>, out: &Outgoing, labels: BTreeMap<String, String>) -> Self;

    /// What goes on beside the messages, for as long as the session lasts. If it ends, so does the session.
    fn beside(&mut self) -> impl Future<Output = ()> + Send + 'static;

    /// Takes a message of this session, with its length and the memory that it is paid with.
    fn take(
        &mut self,
        message: FromMember,
        bytes: usize,
        charge: Charge,
    ) -> impl Future<Output = Result<(), Close>> + Send;

    /// Goes on with what was taken. Pends for ever while nothing is under way. Safe to cancel.
    fn next(&mut self) -> impl Future<Output = ()> + Send;

    /// Whether nothing is under way.
    fn is_idle(&self) -> bool;
}

/// An open session.
pub(super) struct Session<M> {
    shared: Arc<Shared>,
    live: Arc<Live>,
    out: Outgoing,
    messages: M,
}

/// Whether the session goes on.
type Go = Result<(), Close>;

impl<M: Messages> Session<M> {
    pub(super) fn new(shared: Arc<Shared>, live: Arc<Live>, out: Outgoing, labels: BTreeMap<String, String>) -> Self {
        Self {
            messages: M::open(&shared, &live, &out, labels),
            shared,
            live,
            out,
        }
    }

    pub(super) async fn run(
        mut self,
        mut incoming: Streaming<pb::MemberMessage>,
        intake: &Intake,
        credential: Credential,
        caller: &authenticate::Caller,
    ) {
        // Dropped, and so ended, with this function.
        let mut tasks = JoinSet::new();
        tasks.spawn(self.messages.beside());
        tasks.spawn(review::run(
            self.shared.clone(),
            self.live.clone(),
            credential,
            caller.expires,
        ));
        let mut closing = self.live.closing();
        let mut held: Option<(Instant, pb::MemberMessage, Charge)> = None;
        let close = loop {
            let resume = held.as_ref().map_or_else(Instant::now, |(at, ..)| *at);
            let next = tokio::select! {
                biased;
                why = told(&mut closing) => break why,
                () = self.shared.stop.cancelled() => {
                    self.drain().await;
                    break Some(stopping());
                }
                () = self.out.gone() => break None,
                Some(_) = tasks.join_next() => {
                    break Some(Close::new(RejectCode::Unavailable, "the session failed on the hub"));
                }
                () = self.messages.next() => continue,
                () = tokio::time::sleep_until(resume), if held.is_some() => {
                    held.take().map(|(_, message, charge)| (message, charge))
                }
                // While one message waits for its allowance the next stays on the network, and the member's own
                // flow control holds it there.
                message = incoming.message(), if held.is_none() => match message {
                    Ok(Some(message)) => Some((message, intake.charge())),
                    Ok(None) => break None,
                    Err(status) => break unreadable(&status),
                },
            };
            let Some((message, charge)) = next else { continue };
            if let Err(wait) = self.allowance(&message) {
                held = Some((Instant::now() + wait, message, charge));
                continue;
            }
            if let Err(close) = self.take(message, charge).await {
                break Some(close);
            }
        };
        drop(self.messages);
        if let Some(close) = close {
            let (member, code) = (self.live.cluster.as_str(), close.code.word());
            self.shared.measures.closed(code);
            tracing::info!(member, code, reason = close.message, "Closing a session");
            if let Some(newer) = close.fenced {
                let fenced = HubMessage::Fenced {
                    session: newer.session,
                    lease_transitions: newer.lease_transitions,
                };
                let _ = self.out.send(fenced).await;
            }
            self.out.reject(close.code, &close.message, close.retry_after).await;
        }
    }

    /// Lets what is on its way to the API server arrive.
    async fn drain(&mut self) {
        let messages = &mut self.messages;
        let all = async {
            while !messages.is_idle() {
                messages.next().await;
            }
        };
        let _ = tokio::time::timeout(self.shared.deps.settings.drain, all).await;
    }

    /// Takes a message from what the session may send, or says how long it has to wait.
    fn allowance(&self, message: &pb::MemberMessage) -> Result<(), Duration> {
        let now = self.shared.deps.clock.steady();
        let size = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
        let passed = self.live.allowance.budget().message(size, now);
        passed.map_err(jiff::SignedDuration::unsigned_abs)
    }

    async fn take(&mut self, message: pb::MemberMessage, charge: Charge) -> Go {
        let (seq, size) = (message.seq, message.encoded_len());
        let Some(kind) = message.body.as_ref().map(kind) else {
            // From a newer member, which does not rely on it.
            self.shared.measures.message("unknown");
            return Ok(());
        };
        self.shared.measures.message(kind);
        if u64::try_from(size).unwrap_or(u64::MAX) > self.shared.deps.settings.limits.max_message_bytes {
            self.shared.measures.refused("too_large");
            let limit = self.shared.deps.settings.limits.max_message_bytes;
            let reason = format!("{size} bytes exceed the limit of {limit}");
            return Ok(self.out.refuse(seq, Outcome::TooLarge, reason).await?);
        }
        let answered = !matches!(kind, "heartbeat" | "event" | "cleanup_progress");
        let message = match FromMember::try_from(message) {
            Ok(message) if message.epoch == self.live.id.session => message,
            Ok(FromMember {
                body: MemberMessage::Hello(_),
                ..
            }) => return Err(Close::new(RejectCode::Misbehaved, "a second Hello on one stream")),
            Ok(other) => {
                let why = format!("epoch {} is not this session's", other.epoch);
                return self.invalid(seq, answered, why).await;
            }
            Err(invalid) => return self.invalid(seq, answered, invalid.to_string()).await,
        };
        self.messages.take(message, size, charge).await
    }

    /// Something that cannot be accepted: said so, and not too often.
    async fn invalid(&mut self, seq: u64, answered: bool, why: String) -> Go {
        self.shared.measures.refused("malformed");
        tracing::debug!(
            member = self.live.cluster.as_str(),
            seq,
            error = why,
            "Malformed message"
        );
        let now = self.shared.deps.clock.steady();
        if self.live.allowance.budget().malformed.take(1, now).is_err() {
            return Err(Close {
                retry_after: later(),
                ..Close::new(
                    RejectCode::Misbehaved,
                    format!("too many malformed messages, the last: {why}"),
                )
            });
        }
        if seq == 0 || !answered {
            return Ok(());
        }
        Ok(self.out.refuse(seq, Outcome::Invalid, why).await?)
    }
}

/// The reason to end, once there is one.
async fn told(closing: &mut watch::Receiver<Option<Close>>) -> Option<Close> {
    // The sender lives in the session itself, so it is never gone.
    closing.wait_for(Option::is_some).await.ok().and_then(|why| why.clone())
}

/// The message type as a label.
fn kind(body: &pb::member_message::Body) -> &'static str {
    use pb::member_message::Body;
    match body {
        Body::Hello(_) => "hello",
        Body::Heartbeat(_) => "heartbeat",
        Body::AgentStatus(_) => "agent_status",
        Body::Properties(_) => "properties",
        Body::WorkStatus(_) => "work_status",
        Body::Claim(_) => "claim",
        Body::CleanupProgress(_) => "cleanup_progress",
        Body::CleanupComplete(_) => "cleanup_complete",
        Body::ApplierStopped(_) => "applier_stopped",
        Body::Event(_) => "event",
    }
}

/// What to tell a member whose message could not be read. A connection that broke gets no answer.
fn unreadable(status: &tonic::Status) -> Option<Close> {
    match status.code() {
        tonic::Code::OutOfRange
        | tonic::Code::Internal
        | tonic::Code::InvalidArgument
        | tonic::Code::DeadlineExceeded
        | tonic::Code::Unimplemented => {
            let why = format!("a message cannot be read: {}", status.message());
            Some(Close {
                retry_after: later(),
                ..Close::new(RejectCode::Misbehaved, why)
            })
        }
        _ => None,
    }
}
