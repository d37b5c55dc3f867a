//! One accepted session, from Accept to its end.

use std::{collections::BTreeSet, time::Duration};

use fleet_core::session::{WorkRef, bucket::Bucket, outbox::Settled, seen::Subject};
use fleet_proto::{
    convert::{Accept, Ack, FromMember, HubMessage, MemberMessage, SessionLimits},
    limits, pb,
};
use jiff::Timestamp;
use tokio::{
    sync::mpsc::Permit,
    time::{Instant, sleep_until},
};

use super::{SessionDeps, connect::Link, end::End, heartbeat::Beats, reports::Reports};
use crate::membership::{KnownImc, Phase, WantedState};

/// The pace at which we may send, and what is on the way.
struct Window {
    messages: Bucket,
    bytes: Bucket,
    /// What the hub has not answered yet.
    on_the_way: BTreeSet<u64>,
    most: usize,
    /// Full until then.
    until: Option<Instant>,
}

impl Window {
    fn new(said: SessionLimits, now: Timestamp) -> Self {
        // The hub lets a burst pass, of which we take half: its clock and ours differ.
        let burst = |rate: u32, most: u32| rate.saturating_mul(10).min(most / 2);
        Self {
            messages: Bucket::new(
                said.messages_per_second,
                burst(said.messages_per_second, limits::MESSAGES_BURST),
                now,
            ),
            bytes: Bucket::new(
                said.bytes_per_second,
                burst(said.bytes_per_second, limits::BYTES_BURST),
                now,
            ),
            on_the_way: BTreeSet::new(),
            most: said.max_in_flight.max(1) as usize,
            until: None,
        }
    }

    /// Something is to be sent; if it comes too early, the rest waits.
    fn sent(&mut self, bytes: usize, now: Timestamp) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        for wait in [self.messages.take(1, now), self.bytes.take(bytes, now)] {
            if let Err(wait) = wait {
                let until = Instant::now() + Duration::try_from(wait).unwrap_or_default();
                self.until = Some(self.until.map_or(until, |known| known.max(until)));
            }
        }
    }

    /// Whether another report may be on the way.
    fn is_open(&self) -> bool {
        self.on_the_way.len() < self.most
    }

    fn paused(&mut self) -> bool {
        if self.until.is_some_and(|until| until <= Instant::now()) {
            self.until = None;
        }
        self.until.is_some()
    }
}

/// Talks until the session ends, and says why it did.
pub(super) async fn converse(context: &mut SessionDeps, reports: &mut Reports, link: Link, accept: &Accept) -> End {
    let Link { send, mut receive } = link;
    let mut window = Window::new(accept.limits, context.clock.steady());
    let mut beats = Beats::new(context.seen.borrow().period(), Instant::now());
    let mut seq = 1;
    let mut beat_due = false;

    reports.set_phase(context.phase.borrow_and_update().clone());
    reports.set_health(context.health.borrow_and_update().clone());
    reports.set_properties(context.properties.borrow_and_update().clone());
    reports.say_again();
    context.applier.resend_for(accept);
    loop {
        if let KnownImc::Absent = *context.seen.borrow_and_update() {
            return End::Gone;
        }
        beats.set_period(context.seen.borrow().period(), Instant::now());
        let beating = context.is_beating(reports);
        if beating && beats.next() <= Instant::now() {
            beats.beat(Instant::now());
            beat_due = true;
        }
        // As long as the connection takes messages: the heartbeat first, which no limit on reports holds back.
        let mut blocked = false;
        while beat_due || !window.paused() {
            let Ok(permit) = send.try_reserve() else {
                blocked = true;
                break;
            };
            let body = if std::mem::take(&mut beat_due) {
                reports.beat();
                // What goes with a heartbeat is collected now, and follows when it is there.
                context.beat.notify_one();
                Some((MemberMessage::Heartbeat, false))
            } else {
                context.outgoing.next(seq + 1, context.clock.steady(), window.is_open())
            };
            let Some((body, answered)) = body else { break };
            seq += 1;
            if answered {
                window.on_the_way.insert(seq);
            }
            let bytes = put(permit, seq, accept.session, body);
            window.sent(bytes, context.clock.steady());
        }
        // Where nothing may be sent there is nothing to wake up for.
        let may_send = window.is_open() && window.until.is_none();
        let retry = context.outgoing.next_retry().filter(|_| may_send);
        let wake = [
            beating.then(|| beats.next()),
            window.until,
            retry.map(|at| context.instant(at)),
        ];
        let wake = wake.into_iter().flatten().min();
        tokio::select! {
            message = receive.message() => match message {
                Err(status) => return status.into(),
                Ok(None) => return End::Closed,
                Ok(Some(message)) => if let Some(end) = heard(context, reports, &mut window, message) {
                    return end;
                },
            },
            () = send.closed() => return End::Closed,
            Ok(()) = context.seen.changed() => {}
            Ok(()) = context.phase.changed() => reports.set_phase(context.phase.borrow_and_update().clone()),
            Ok(()) = context.health.changed() => reports.set_health(context.health.borrow_and_update().clone()),
            Ok(()) = context.properties.changed() => {
                reports.set_properties(context.properties.borrow_and_update().clone());
            }
            () = context.outgoing.more() => {}
            _ = send.reserve(), if blocked => {}
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }
}

fn put(permit: Permit<'_, pb::MemberMessage>, seq: u64, epoch: u64, body: MemberMessage) -> usize {
    let message = pb::MemberMessage::from(FromMember { seq, epoch, body });
    let bytes = size(&message);
    permit.send(message);
    bytes
}

fn size(message: &pb::MemberMessage) -> usize {
    prost::Message::encoded_len(message)
}

/// Deals with what the hub said; an end if that was the last.
fn heard(
    context: &mut SessionDeps,
    reports: &mut Reports,
    window: &mut Window,
    message: pb::HubMessage,
) -> Option<End> {
    let message = match HubMessage::try_from(message) {
        Ok(message) => message,
        Err(invalid) => {
            // A newer hub may say more than we understand; nothing that we must not ignore.
            tracing::debug!(%invalid, "The hub said something that this agent does not understand");
            return None;
        }
    };
    match message {
        HubMessage::Reject(reject) => return Some(reject.into()),
        HubMessage::Fenced {
            session,
            lease_transitions,
        } => {
            return Some(End::Fenced {
                session,
                lease_transitions,
            });
        }
        HubMessage::Ack(ack) => {
            let settled = reports.answered(&ack);
            // Also of a report whose subject is forgotten by now.
            window.on_the_way.remove(&ack.seq);
            if let Settled::Done(subject) | Settled::Again(subject) | Settled::Trim(subject) = &settled
                && let Subject::Work(name) | Subject::Claim(name) | Subject::Cleanup(name) = subject
            {
                // Of a message that it has not read the hub cannot say what it was about; we can.
                let work = ack.work.clone().unwrap_or_else(|| WorkRef {
                    name: name.clone(),
                    uid: String::new(),
                });
                context.applier.answered(&Ack {
                    work: Some(work),
                    ..ack
                });
            }
        }
        HubMessage::Accept(_) => tracing::debug!("The hub accepted a session that it had accepted already"),
    }
    None
}

impl SessionDeps {
    /// Whether heartbeats are due: while the cluster belongs to the fleet or is leaving, and while we cannot know.
    fn is_beating(&self, reports: &Reports) -> bool {
        match &*self.seen.borrow() {
            KnownImc::NotYet => true,
            KnownImc::Absent => false,
            KnownImc::Present(imc) => match imc.wanted {
                WantedState::Join => true,
                WantedState::Leave => !reports.has_left(imc),
                WantedState::Unknown(_) => *self.phase.borrow() != Phase::Idle,
            },
        }
    }

    fn instant(&self, at: Timestamp) -> Instant {
        let wait = at.duration_since(self.clock.steady());
        Instant::now() + Duration::try_from(wait).unwrap_or_default()
    }
}
