//! One stream from its first message to its last.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fleet_core::session::{Answer, Outcome, bucket::Bucket};
use fleet_proto::{
    convert::{FromMember, Hello, HubMessage, MemberMessage, Outcome as Said, RejectCode},
    pb,
};
use prost::Message as _;
use tokio::{sync::watch, task::JoinSet, time::Instant};
use tonic::Streaming;

use super::{
    authenticate,
    cluster::Cluster,
    convert::{agent_report, properties_report, word, work_report},
    events::Events,
    hello::{Credential, Opened, fill_labels, open},
    openings::Opening,
    outgoing::{Outgoing, Unreachable},
    registry::{Close, Live, verdict},
    reports::{Body, Context, Report, Reports},
    review,
    server::Shared,
};

/// Malformed messages that a session may send per second, and at once. A newer member may say a few things that this
/// hub does not understand; more is noise.
const MALFORMED: (u32, u32) = (1, 50);

/// Serves a stream. Whatever it is that ends it, the member is told if it still listens.
pub(super) async fn run(
    shared: Arc<Shared>,
    mut incoming: Streaming<pb::MemberMessage>,
    credential: Credential,
    out: Outgoing,
    peer: Option<SocketAddr>,
    admitted: Arc<AtomicBool>,
) {
    let opening = async {
        // Before anything is read: nobody unknown can make us hold a message.
        let caller = credential.judge(&shared).await.map_err(|close| (close, None))?;
        let full = |why: &str| Close {
            retry_after: later(),
            ..Close::new(RejectCode::Unavailable, why)
        };
        // Whoever says nothing holds only what is his own.
        let Some(opening) = Opening::begin(&shared.openings, &caller.user) else {
            return Err((full("too many streams of this identity wait for their Hello"), None));
        };
        let hello = first(&shared, &mut incoming).await?;
        drop(opening);
        let Ok(place) = shared.places.try_acquire() else {
            let why = "this replica of the hub agent serves as many members as it may";
            return Err((full(why), Some(hello.member_cluster)));
        };
        let opened = open(&shared, &caller, &hello).await;
        match opened {
            Ok(opened) => Ok((place, hello, caller, opened)),
            Err(close) => Err((close, Some(hello.member_cluster))),
        }
    };
    let opened = tokio::select! {
        opened = opening => opened,
        () = out.gone() => return,
        () = shared.stop.cancelled() => Err((stopping(), None)),
    };
    match opened {
        Ok((_place, hello, caller, Opened { live, accept })) => {
            shared.measures.hello("accepted");
            admitted.store(true, Ordering::Relaxed);
            let (member, session) = (live.cluster.as_str(), live.id.session);
            let (build, instance) = (&hello.build_version, &hello.instance_id);
            tracing::info!(member, session, ?peer, build, instance, "Member connected");
            if !hello.orphaned_applied_works.is_empty() {
                let orphans = &hello.orphaned_applied_works;
                let (count, first) = (orphans.len(), &orphans[..orphans.len().min(5)]);
                tracing::warn!(member, count, ?first, "The member has AppliedWorks without a Work");
            }
            let registered = Registered::new(shared.clone(), live.clone());
            if out.send(HubMessage::Accept(accept)).await.is_ok() {
                let session = Session::new(shared.clone(), live.clone(), out, hello);
                session.run(incoming, credential, &caller).await;
            }
            drop(registered);
            tracing::info!(
                member = live.cluster.as_str(),
                session = live.id.session,
                "Member disconnected"
            );
        }
        Err((close, member)) => {
            shared.measures.hello(word(close.code));
            tracing::info!(
                member,
                ?peer,
                answer = word(close.code),
                reason = close.message,
                "Refused a session"
            );
            out.reject(close.code, &close.message, close.retry_after).await;
        }
    }
}

/// The Hello, which must come first and soon.
async fn first(shared: &Shared, incoming: &mut Streaming<pb::MemberMessage>) -> Result<Hello, (Close, Option<String>)> {
    let misbehaved = |why: String| (Close::new(RejectCode::Misbehaved, why), None);
    let message = match tokio::time::timeout(shared.deps.settings.hello_timeout, incoming.message()).await {
        Ok(Ok(Some(message))) => message,
        Ok(Ok(None)) => return Err(misbehaved("the stream ended before Hello".into())),
        Ok(Err(status)) => {
            return Err(misbehaved(format!(
                "the first message cannot be read: {}",
                status.message()
            )));
        }
        Err(_) => return Err(misbehaved("no Hello in time".into())),
    };
    match FromMember::try_from(message) {
        Ok(FromMember {
            body: MemberMessage::Hello(hello),
            ..
        }) => Ok(hello),
        Ok(_) => Err(misbehaved("the first message must be Hello".into())),
        Err(invalid) => Err(misbehaved(invalid.to_string())),
    }
}

/// Somewhere in the next seconds, so that members do not come back in one instant.
fn later() -> Duration {
    Duration::from_millis(fastrand::u64(500..5_000))
}

fn stopping() -> Close {
    Close {
        // Soon: another replica is there, or the next one starts.
        retry_after: Duration::from_millis(fastrand::u64(100..2_000)),
        ..Close::new(RejectCode::Unavailable, "the hub agent is stopping")
    }
}

/// Takes the session out of the books when it ends, however it ends.
struct Registered {
    shared: Arc<Shared>,
    live: Arc<Live>,
}

impl Registered {
    fn new(shared: Arc<Shared>, live: Arc<Live>) -> Self {
        shared.registry.insert(&live);
        shared.measures.sessions.inc();
        // What has changed between the verdict and here woke nobody.
        if let Some(close) = verdict(&live, &shared.deps.members, &shared.deps.internals) {
            live.close(close);
        }
        Self { shared, live }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.registry.remove(&self.live);
        self.shared.measures.sessions.dec();
    }
}

/// An open session.
struct Session {
    shared: Arc<Shared>,
    live: Arc<Live>,
    out: Outgoing,
    hello: Hello,
    cluster: Arc<Cluster>,
    reports: Reports,
    events: Events,
    messages: Bucket,
    bytes: Bucket,
    malformed: Bucket,
    /// The last sequence numbers of agent status and properties.
    last: [u64; 2],
}

/// Whether the session goes on.
type Go = Result<(), Close>;

impl Session {
    fn new(shared: Arc<Shared>, live: Arc<Live>, out: Outgoing, hello: Hello) -> Self {
        let now = shared.deps.clock.now();
        let limits = shared.deps.settings.limits;
        let cluster = Cluster::new(shared.clone(), live.clone(), out.clone());
        let context = Context {
            shared: shared.clone(),
            live: live.clone(),
            out: out.clone(),
            cluster: cluster.clone(),
        };
        let bytes_burst = fleet_proto::limits::BYTES_BURST;
        Self {
            reports: Reports::new(Arc::new(context)),
            events: Events::new(now),
            messages: Bucket::new(limits.messages_per_second, fleet_proto::limits::MESSAGES_BURST, now),
            bytes: Bucket::new(limits.bytes_per_second, bytes_burst, now),
            malformed: Bucket::new(MALFORMED.0, MALFORMED.1, now),
            last: [0; 2],
            shared,
            live,
            out,
            hello,
            cluster,
        }
    }

    async fn run(
        mut self,
        mut incoming: Streaming<pb::MemberMessage>,
        credential: Credential,
        caller: &authenticate::Caller,
    ) {
        // Dropped, and so ended, with this function.
        let mut tasks = JoinSet::new();
        tasks.spawn(self.cluster.clone().run());
        tasks.spawn(review::run(
            self.shared.clone(),
            self.live.clone(),
            credential,
            caller.expires,
        ));
        if !self.hello.platform_labels.is_empty() {
            let (shared, live) = (self.shared.clone(), self.live.clone());
            let labels = std::mem::take(&mut self.hello.platform_labels);
            tasks.spawn(async move {
                fill_labels(&shared, live.cluster.as_str(), &labels).await;
                std::future::pending::<()>().await;
            });
        }
        let mut closing = self.live.closing();
        let mut held: Option<(Instant, pb::MemberMessage)> = None;
        let close = loop {
            let resume = held.as_ref().map_or_else(Instant::now, |(at, _)| *at);
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
                () = self.reports.next() => continue,
                () = tokio::time::sleep_until(resume), if held.is_some() => held.take().map(|(_, message)| message),
                // While one message waits for its allowance the next stays on the network, and the member's own
                // flow control holds it there.
                message = incoming.message(), if held.is_none() => match message {
                    Ok(Some(message)) => Some(message),
                    Ok(None) => break None,
                    Err(status) => break unreadable(&status),
                },
            };
            let Some(message) = next else { continue };
            if let Err(wait) = self.allowance(&message) {
                held = Some((Instant::now() + wait, message));
                continue;
            }
            if let Err(close) = self.take(message).await {
                break Some(close);
            }
        };
        drop(self.reports);
        if let Some(close) = close {
            let (member, code) = (self.live.cluster.as_str(), word(close.code));
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
        let reports = &mut self.reports;
        let all = async {
            while !reports.is_empty() {
                reports.next().await;
            }
        };
        let _ = tokio::time::timeout(self.shared.deps.settings.drain, all).await;
    }

    /// Takes a message from what the session may send, or says how long it has to wait.
    fn allowance(&mut self, message: &pb::MemberMessage) -> Result<(), Duration> {
        let now = self.shared.deps.clock.now();
        let size = u32::try_from(message.encoded_len()).unwrap_or(u32::MAX);
        let wait = |wait: jiff::SignedDuration| wait.unsigned_abs();
        // Bytes first: what waits for them has not used up a message.
        self.bytes.take(size, now).map_err(wait)?;
        self.messages.take(1, now).map_err(wait)
    }

    async fn take(&mut self, message: pb::MemberMessage) -> Go {
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
            return sent(self.out.refuse(seq, Said::TooLarge, reason).await);
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
        self.dispatch(message, size).await
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
        if self.malformed.take(1, self.shared.deps.clock.now()).is_err() {
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
        sent(self.out.refuse(seq, Said::Invalid, why).await)
    }

    async fn dispatch(&mut self, message: FromMember, bytes: usize) -> Go {
        let now = self.shared.deps.clock.now();
        let FromMember { seq, body, .. } = message;
        let (work, body) = match body {
            MemberMessage::Heartbeat(_) => {
                self.cluster.heartbeat(now);
                return Ok(());
            }
            MemberMessage::AgentStatus(status) => {
                if self.is_old(0, seq) {
                    return self.unchanged(seq).await;
                }
                let replaced = self.cluster.agent_status(seq, agent_report(status), now);
                return self.replaced(replaced).await;
            }
            MemberMessage::Properties(report) => {
                if self.is_old(1, seq) {
                    return self.unchanged(seq).await;
                }
                let replaced = self.cluster.properties(seq, properties_report(report), now);
                return self.replaced(replaced).await;
            }
            MemberMessage::WorkStatus(status) => {
                let work = status.work.clone();
                match work_report(status) {
                    Ok(report) => (Some(work), Body::Status(Box::new(report))),
                    Err(why) => return self.invalid(seq, true, why).await,
                }
            }
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
                self.events.progress(&self.shared, &self.live, &progress);
                // Answered, since what the member says next about this Work waits for that.
                let answer = Answer::because(Outcome::Unchanged, "noted");
                return sent(self.out.ack(seq, Some(progress.work), answer).await);
            }
            MemberMessage::Event(event) => {
                self.events.record(&self.shared, &self.live, event);
                return Ok(());
            }
            MemberMessage::Hello(_) => return Err(Close::new(RejectCode::Misbehaved, "a second Hello on one stream")),
        };
        let report = Report { seq, work, body, bytes };
        match self.reports.offer(report) {
            Some((seq, work, answer)) => sent(self.out.ack(seq, work, answer).await),
            None => Ok(()),
        }
    }

    fn is_old(&mut self, which: usize, seq: u64) -> bool {
        let old = seq <= self.last[which];
        self.last[which] = self.last[which].max(seq);
        old
    }

    async fn unchanged(&self, seq: u64) -> Go {
        let answer = Answer::because(Outcome::Unchanged, "older than what was processed");
        sent(self.out.ack(seq, None, answer).await)
    }

    async fn replaced(&self, seq: Option<u64>) -> Go {
        let Some(seq) = seq else { return Ok(()) };
        let answer = Answer::because(Outcome::Superseded, "a newer report of the same has arrived");
        sent(self.out.ack(seq, None, answer).await)
    }
}

/// The reason to end, once there is one.
async fn told(closing: &mut watch::Receiver<Option<Close>>) -> Option<Close> {
    // The sender lives in the session itself, so it is never gone.
    closing.wait_for(Option::is_some).await.ok().and_then(|why| why.clone())
}

fn sent(result: Result<(), Unreachable>) -> Go {
    result.map_err(|Unreachable| Close::new(RejectCode::Misbehaved, "the member does not read its answers"))
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
        tonic::Code::OutOfRange | tonic::Code::Internal | tonic::Code::InvalidArgument | tonic::Code::Unimplemented => {
            let why = format!("a message cannot be read: {}", status.message());
            Some(Close {
                retry_after: later(),
                ..Close::new(RejectCode::Misbehaved, why)
            })
        }
        _ => None,
    }
}
