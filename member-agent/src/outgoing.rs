//! What the agent still has to tell the hub. Outlives sessions: nothing that has no final answer is forgotten.

use std::{collections::VecDeque, sync::Arc};

use fleet_api::{
    conditions::ConditionState,
    events::{Event as _, InternalMemberClusterEvent},
};
use fleet_core::session::{
    Outcome,
    condition::ReportedCondition,
    outbox::{Outbox, Settled},
    seen::Subject,
};
use fleet_proto::{
    convert::{Event, EventObject, MemberMessage},
    limits,
};
use fleet_runtime::dump::{Dump, Section};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

/// Agent status, properties and the end of applying have places of their own in the hub's window, so that Works never
/// crowd them out.
const CLUSTER_WINDOW: usize = 3;
/// Events are for people; more than these at once help nobody, and the hub would drop them.
const EVENTS_MAX: usize = limits::EVENTS_BURST as usize;

/// Reports and Events on their way to the hub.
#[derive(Debug)]
pub struct Outgoing {
    boxes: Mutex<Boxes>,
    more: Notify,
}

#[derive(Debug)]
struct Boxes {
    cluster: Outbox<MemberMessage>,
    works: Outbox<MemberMessage>,
    events: VecDeque<Event>,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            boxes: Mutex::new(Boxes {
                cluster: Outbox::new(CLUSTER_WINDOW),
                works: Outbox::new(limits::IN_FLIGHT as usize - CLUSTER_WINDOW),
                events: VecDeque::new(),
            }),
            more: Notify::new(),
        }
    }
}

impl Outgoing {
    /// A new report; an older one about the same subject is replaced.
    pub fn report(&self, subject: Subject, report: MemberMessage) {
        self.boxes.lock().of(&subject).put(subject, report);
        self.more.notify_one();
    }

    /// What this is about is gone, and with it every report about it.
    pub fn forget(&self, subject: &Subject) {
        self.boxes.lock().of(subject).forget(subject);
    }

    /// Something that people should see on the InternalMemberCluster. May be lost.
    pub fn record_on_cluster(&self, imc_uid: &str, event: &InternalMemberClusterEvent) {
        self.record(Event {
            object: EventObject::InternalMemberCluster,
            work_name: String::new(),
            object_uid: imc_uid.to_owned(),
            type_: event.event_type(),
            reason: event.reason().to_owned(),
            message: event.message(),
        });
    }

    /// Something that people should see. May be lost.
    pub fn record(&self, event: Event) {
        let mut boxes = self.boxes.lock();
        if boxes.events.len() == EVENTS_MAX {
            boxes.events.pop_front();
        }
        boxes.events.push_back(event);
        drop(boxes);
        self.more.notify_one();
    }

    /// Lets people who debug see how much is on its way to the hub.
    pub fn show_in(self: &Arc<Self>, dump: &Dump) {
        dump.add(Section::Sessions, "hub", self, |outgoing, _| {
            let next_retry = outgoing.next_retry();
            let boxes = outgoing.boxes.lock();
            json!({
                "reportsOfTheCluster": boxes.cluster.len(),
                "reportsOfWorks": boxes.works.len(),
                "events": boxes.events.len(),
                "nextRetry": next_retry.map(|at| at.to_string()),
            })
        });
    }

    /// Reports without a final answer.
    pub fn unanswered(&self) -> usize {
        let boxes = self.boxes.lock();
        boxes.cluster.len() + boxes.works.len()
    }

    /// Resolves when there may be more to send.
    pub(crate) async fn more(&self) {
        self.more.notified().await;
    }

    /// What to send next under `seq`, and whether it will be answered: the cluster first, then Works, then Events.
    pub(crate) fn next(&self, seq: u64, now: Timestamp, window_open: bool) -> Option<(MemberMessage, bool)> {
        let mut boxes = self.boxes.lock();
        if window_open {
            if let Some((_, report)) = boxes.cluster.next(seq, now) {
                return Some((report.clone(), true));
            }
            if let Some((_, report)) = boxes.works.next(seq, now) {
                return Some((report.clone(), true));
            }
        }
        let event = boxes.events.pop_front()?;
        Some((MemberMessage::Event(event), false))
    }

    /// When to look again although nothing happened.
    pub(crate) fn next_retry(&self) -> Option<Timestamp> {
        let boxes = self.boxes.lock();
        [boxes.cluster.next_retry(), boxes.works.next_retry()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The hub answered.
    pub(crate) fn answered(&self, seq: u64, outcome: Outcome, now: Timestamp) -> Settled {
        let mut boxes = self.boxes.lock();
        match boxes.cluster.answered(seq, outcome, now) {
            Settled::Stray => boxes.works.answered(seq, outcome, now),
            settled => settled,
        }
    }

    /// The stream is gone: what was on the way is sent again on the next.
    pub(crate) fn disconnected(&self) {
        let mut boxes = self.boxes.lock();
        boxes.cluster.disconnected();
        boxes.works.disconnected();
    }
}

impl Boxes {
    fn of(&mut self, subject: &Subject) -> &mut Outbox<MemberMessage> {
        match subject {
            Subject::AgentStatus | Subject::Properties | Subject::Stopped => &mut self.cluster,
            Subject::Work(_) | Subject::Claim(_) | Subject::Cleanup(_) => &mut self.works,
        }
    }
}

/// A condition as a member says it: without times and generation.
pub(crate) fn said(state: &impl ConditionState) -> ReportedCondition {
    ReportedCondition {
        type_: state.type_name().to_owned(),
        status: state.status(),
        reason: state.reason().to_owned(),
        message: state.message(),
        observed_generation: 0,
    }
}

#[cfg(test)]
mod tests {
    use fleet_core::session::WorkRef;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn claim(name: &str) -> (Subject, MemberMessage) {
        let work = WorkRef {
            name: name.into(),
            uid: "u".into(),
        };
        (Subject::Claim(name.into()), MemberMessage::Claim(work))
    }

    fn stopped(generation: i64) -> (Subject, MemberMessage) {
        let message = MemberMessage::ApplierStopped {
            imc_uid: "u".into(),
            imc_generation: generation,
        };
        (Subject::Stopped, message)
    }

    #[test]
    fn the_cluster_goes_before_works_and_both_before_events() {
        let outgoing = Outgoing::default();
        outgoing.record_on_cluster("u", &InternalMemberClusterEvent::Healthy);
        let ((work, about_work), (cluster, about_cluster)) = (claim("w"), stopped(1));
        outgoing.report(work.clone(), about_work.clone());
        outgoing.report(cluster.clone(), about_cluster.clone());
        assert_eq!(outgoing.next(1, now(), true), Some((about_cluster.clone(), true)));
        assert_eq!(outgoing.next(2, now(), true), Some((about_work, true)));
        assert!(matches!(
            outgoing.next(3, now(), true),
            Some((MemberMessage::Event(_), false))
        ));
        assert_eq!(outgoing.next(4, now(), true), None);
        assert_eq!(outgoing.answered(2, Outcome::Persisted, now()), Settled::Done(work));

        outgoing.disconnected();
        assert_eq!(outgoing.next(1, now(), false), None, "the window is closed");
        assert_eq!(outgoing.next(1, now(), true), Some((about_cluster, true)));
        assert_eq!(outgoing.answered(1, Outcome::Persisted, now()), Settled::Done(cluster));
        assert_eq!(outgoing.unanswered(), 0);
    }

    #[test]
    fn events_are_bounded() {
        let outgoing = Outgoing::default();
        for _ in 0..EVENTS_MAX * 2 {
            outgoing.record_on_cluster("u", &InternalMemberClusterEvent::Healthy);
        }
        let sent = std::iter::from_fn(|| outgoing.next(1, now(), true)).count();
        assert_eq!(sent, EVENTS_MAX);
    }
}
