//! What the hub is told about Works, and what it was told last.

mod message;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    events::{Event as _, InternalMemberClusterEvent, WorkEvent},
    placement::{WorkResourceIdentifier, WorkStatus},
};
use fleet_core::session::{
    Outcome,
    digest::{Digest, digest},
    seen::Subject,
};
use fleet_proto::convert::{Ack, CleanupProgress, Event, EventObject, MemberMessage};
use fleet_runtime::queue::Queue;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    measures::{Measures, Stage},
    memory::Timing,
    works::HubWork,
};
use crate::outgoing::Outgoing;

/// How often times alone are refreshed.
const REFRESH: SignedDuration = SignedDuration::from_mins(5);
/// At most one report per Work and second is repeated because somebody else has changed what the hub stores.
const REPAIR_AFTER: Duration = Duration::from_secs(1);
/// How soon a status that was too large in its shortest form is tried again.
const TOO_LARGE_PAUSE: Duration = Duration::from_mins(1);

/// Tells the hub about Works. Cheap to clone.
#[derive(Clone)]
pub(super) struct Reporter(Arc<Inner>);

struct Inner {
    outgoing: Arc<Outgoing>,
    memory: Mutex<ReportMemory>,
    /// Works to be looked at because of what the hub says.
    queue: Queue<String>,
    measures: Measures,
}

#[derive(Default)]
struct ReportMemory {
    last: BTreeMap<String, LastReport>,
    /// To be reported again although nothing changed.
    again: BTreeSet<String>,
}

/// What was last said about a Work.
#[derive(Debug, Clone)]
struct LastReport {
    uid: String,
    generation: i64,
    digest: Digest,
    /// Digest of what is mirrored, which the other does not have.
    mirrored: String,
    at: Timestamp,
    /// The hub has it.
    stored: bool,
    /// What the hub found too large goes without what is not needed.
    lean: bool,
    /// When this generation was first seen, until the hub has it.
    since: Option<Instant>,
}

impl LastReport {
    fn is_about(&self, work: &HubWork) -> bool {
        self.uid == work.uid() && self.generation == work.generation()
    }
}

/// Whether anything is to be said now.
struct News {
    report: LastReport,
    silent: bool,
}

impl Reporter {
    pub(super) fn new(outgoing: Arc<Outgoing>, queue: Queue<String>, measures: Measures) -> Self {
        Self(Arc::new(Inner {
            outgoing,
            memory: Mutex::default(),
            queue,
            measures,
        }))
    }

    /// Tells the hub the result of a round, if there is anything to tell.
    pub(super) fn say(&self, work: &HubWork, timing: &mut Timing, status: &WorkStatus, now: Timestamp) {
        let name = work.name();
        let mut memory = self.0.memory.lock();
        let Some(News { report, silent }) = memory.news(work, timing, status, now) else {
            return;
        };
        let lean = report.lean;
        memory.last.insert(name.to_owned(), report);
        drop(memory);
        if !silent {
            let message = message::message(work.reference(), work.generation(), status, lean);
            self.report(Subject::Work, name, MemberMessage::WorkStatus(message));
        }
    }

    /// Says that a round has begun that takes its time.
    pub(super) fn preparing<'a>(&self, work: &HubWork, good: impl Iterator<Item = &'a WorkResourceIdentifier>) {
        // It replaces what the hub has: the result is told whether or not it is the same as before.
        self.0.memory.lock().again.insert(work.name().to_owned());
        let message = message::preparing(work.reference(), work.generation(), good);
        self.report(Subject::Work, work.name(), MemberMessage::WorkStatus(message));
    }

    /// Asks for the finalizer without which nothing is applied.
    pub(super) fn claim(&self, work: &HubWork) {
        self.report(Subject::Claim, work.name(), MemberMessage::Claim(work.reference()));
    }

    /// Nothing is left of a deleted Work.
    pub(super) fn cleaned_up(&self, work: &HubWork) {
        let message = MemberMessage::CleanupComplete(work.reference());
        self.report(Subject::Cleanup, work.name(), message);
    }

    /// What keeps a deleted Work.
    pub(super) fn stuck(&self, work: &HubWork, progress: CleanupProgress) {
        let message = MemberMessage::CleanupProgress(progress);
        self.report(Subject::Cleanup, work.name(), message);
    }

    fn report(&self, subject: fn(String) -> Subject, name: &str, message: MemberMessage) {
        self.0.outgoing.report(subject(name.to_owned()), message);
    }

    /// Something that people should see on the Work.
    pub(super) fn record(&self, work: &HubWork, event: &WorkEvent) {
        self.0.outgoing.record(Event {
            object: EventObject::Work,
            work_name: work.name().to_owned(),
            object_uid: work.uid().to_owned(),
            type_: event.event_type(),
            reason: event.reason().to_owned(),
            message: event.message(),
        });
    }

    /// Something that people should see on the InternalMemberCluster.
    pub(super) fn record_on_cluster(&self, imc_uid: &str, event: &InternalMemberClusterEvent) {
        self.0.outgoing.record_on_cluster(imc_uid, event);
    }

    /// Whether the hub was told about this generation already.
    pub(super) fn has_said(&self, work: &HubWork) -> bool {
        let memory = self.0.memory.lock();
        memory.last.get(work.name()).is_some_and(|last| last.is_about(work))
    }

    /// Whether the Work is to be reported although nothing changed.
    pub(super) fn is_asked(&self, name: &str) -> bool {
        self.0.memory.lock().again.contains(name)
    }

    /// Generation and digest of what was last said about a Work.
    pub(super) fn last(&self, work: &HubWork) -> Option<(i64, Vec<u8>)> {
        let memory = self.0.memory.lock();
        let last = memory.last.get(work.name()).filter(|last| last.uid == work.uid())?;
        Some((last.generation, last.digest.to_vec()))
    }

    /// The hub shows another status of a Work than before: if it is not what was said, that is said again.
    pub(super) fn repair(&self, work: &HubWork) {
        let name = work.name();
        let mut memory = self.0.memory.lock();
        let differs = memory.last.get(name).is_some_and(|last| {
            last.stored && last.is_about(work) && work.stored.is_none_or(|stored| stored != last.digest)
        });
        if differs {
            memory.again.insert(name.to_owned());
            self.0.queue.add_after(name.to_owned(), REPAIR_AFTER);
        }
    }

    /// The hub wants these Works reported again.
    pub(super) fn resend(&self, works: Vec<String>) {
        self.0.memory.lock().again.extend(works.iter().cloned());
        for work in works {
            self.0.queue.add(work);
        }
    }

    /// The hub's answer to a report about a Work.
    pub(super) fn answered(&self, ack: &Ack) {
        let Some(work) = &ack.work else { return };
        let queue = &self.0.queue;
        match ack.outcome {
            Outcome::Persisted | Outcome::Unchanged => {
                let mut memory = self.0.memory.lock();
                if let Some(last) = memory.last.get_mut(&work.name).filter(|last| last.uid == work.uid) {
                    last.stored = true;
                    if let Some(since) = last.since.take() {
                        self.0.measures.stage(Stage::Persisted, since);
                    }
                }
            }
            // Without the details it may fit. What does not even then is tried again from time to time.
            Outcome::TooLarge => {
                if self.0.memory.lock().make_lean(&work.name) {
                    tracing::error!(work = work.name, "The status of the Work is too large for the hub");
                    queue.add_after(work.name.clone(), TOO_LARGE_PAUSE);
                } else {
                    queue.add(work.name.clone());
                }
            }
            // The hub's view of the Work is another than ours: look again in a moment.
            Outcome::NotDeleting => queue.add_at(work.name.clone(), Instant::now() + REPAIR_AFTER),
            // The watch brings what there is to know.
            Outcome::Superseded | Outcome::UidMismatch | Outcome::Gone | Outcome::RetryLater => {}
            Outcome::Invalid => {
                tracing::error!(work = work.name, reason = ack.reason, "The hub finds a report invalid");
            }
        }
    }

    /// Forgets a Work, and what is still to be told about it but its end.
    pub(super) fn forget(&self, name: &str) {
        self.0.memory.lock().forget(name);
        self.0.outgoing.forget(&Subject::Work(name.to_owned()));
        self.0.outgoing.forget(&Subject::Claim(name.to_owned()));
    }

    /// The hub has no such Work: nobody waits for its end.
    pub(super) fn forget_end(&self, name: &str) {
        self.0.outgoing.forget(&Subject::Cleanup(name.to_owned()));
    }

    /// What was said may never have happened.
    pub(super) fn forget_all_said(&self) {
        self.0.memory.lock().last.clear();
    }

    /// Forgets all.
    pub(super) fn clear(&self) {
        *self.0.memory.lock() = ReportMemory::default();
    }
}

impl ReportMemory {
    /// What there is to say of a status; none if nothing changed since it was said.
    fn news(&mut self, work: &HubWork, timing: &mut Timing, status: &WorkStatus, now: Timestamp) -> Option<News> {
        let again = self.again.remove(work.name());
        let (digest, mirrored) = (digest(status), message::mirrored(status));
        let before = self.last.get(work.name()).filter(|last| last.is_about(work));
        let same = before.is_some_and(|last| last.digest == digest && last.mirrored == mirrored);
        let lean = same && before.is_some_and(|last| last.lean);
        let old = message::has_times(status) && before.is_some_and(|last| now.duration_since(last.at) >= REFRESH);
        // After a restart the hub has most of it already.
        let stored = before.is_none() && mirrored.is_empty() && work.stored == Some(digest);
        if stored {
            // There is nothing to time.
            timing.since = None;
        }
        let silent = !again && (stored || same && !old);
        if silent && before.is_some() {
            return None;
        }
        let report = LastReport {
            uid: work.uid().to_owned(),
            generation: work.generation(),
            digest,
            mirrored,
            at: now,
            stored,
            lean,
            since: timing.since.filter(|_| before.is_none()),
        };
        Some(News { report, silent })
    }

    /// From now on the Work is reported without details. Whether it was before.
    fn make_lean(&mut self, name: &str) -> bool {
        self.again.insert(name.to_owned());
        let last = self.last.get_mut(name);
        last.is_some_and(|last| std::mem::replace(&mut last.lean, true))
    }

    fn forget(&mut self, name: &str) {
        self.last.remove(name);
        self.again.remove(name);
    }
}
