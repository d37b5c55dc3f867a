//! Reports about Works on their way to the API server: one at a time per subject, the newest wins, bounded.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fleet_core::session::{
    Answer, Outcome, WorkRef,
    seen::{Seen, Subject},
    work::WorkReport,
};
use fleet_proto::convert::RejectCode;
use fleet_runtime::backoff::Backoff;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::{context::ReportContext, finalizer, work};
use crate::{
    channel::{Charge, Close, refusal_word},
    writer::WriteFailure,
};

/// Bytes of reports that one member may have on the way here; a few of the largest.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// A larger report does not wait here for its turn: the member keeps it, and sends the newest again.
const WAITS_MAX: usize = 64 * 1024;
/// Nor is one that waits no longer than that sent back.
const WAIT_SHORT: Duration = Duration::from_secs(2);
/// At least so long between two looks at a budget that many wait for.
const WAIT_MIN: Duration = Duration::from_millis(50);
/// Subjects whose last sequence number is remembered.
const REMEMBERED: usize = 4_096;
const RETRY: Backoff = Backoff {
    min: Duration::from_millis(250),
    max: Duration::from_secs(10),
};

/// What a report asks for.
#[derive(Debug)]
pub(super) enum Body {
    /// A Work's status.
    Status(Box<WorkReport>),
    /// The cleanup finalizer, to be added.
    Claim,
    /// The cleanup finalizer, to be removed.
    Cleanup,
    /// All cleanup finalizers, to be removed.
    Stopped { imc_uid: String, imc_generation: i64 },
}

/// A report that will be answered.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) seq: u64,
    /// None for `Stopped`.
    pub(super) work: Option<WorkRef>,
    pub(super) body: Body,
    pub(super) bytes: usize,
    /// The memory that it is paid with.
    pub(super) charge: Charge,
}

impl Report {
    fn subject(&self) -> Subject {
        let name = || self.work.as_ref().map(|work| work.name.clone()).unwrap_or_default();
        match &self.body {
            Body::Status(_) => Subject::Work(name()),
            Body::Claim => Subject::Claim(name()),
            Body::Cleanup => Subject::Cleanup(name()),
            Body::Stopped { .. } => Subject::Stopped,
        }
    }
}

/// The reports of one session.
pub(super) struct Reports {
    context: Arc<ReportContext>,
    /// What waits behind the report that is under way.
    slots: HashMap<Subject, Arc<Mutex<Option<Report>>>>,
    seen: Seen,
    bytes: usize,
    tasks: JoinSet<Done>,
}

struct Done {
    subject: Subject,
    seq: u64,
    bytes: usize,
    processed: bool,
}

impl Reports {
    pub(super) fn new(context: Arc<ReportContext>) -> Self {
        Self {
            context,
            slots: HashMap::new(),
            seen: Seen::new(REMEMBERED),
            bytes: 0,
            tasks: JoinSet::new(),
        }
    }

    /// Takes a report. Returns what is to be answered at once: this one, or one that it replaces.
    pub(super) fn offer(&mut self, report: Report) -> Option<(u64, Option<WorkRef>, Answer)> {
        let subject = report.subject();
        if !self.seen.is_newer(&subject, report.seq) {
            let answer = Answer::because(Outcome::Unchanged, "older than what was processed");
            return Some((report.seq, report.work, answer));
        }
        let too_many = || Answer::because(Outcome::RetryLater, "too many reports are on the way");
        let waiting = self.slots.get(&subject);
        let freed = waiting.map_or(0, |waiting| waiting.lock().as_ref().map_or(0, |report| report.bytes));
        if self.bytes.saturating_sub(freed).saturating_add(report.bytes) > BYTES_MAX.max(report.bytes) {
            return Some((report.seq, report.work, too_many()));
        }
        if let Some(waiting) = waiting {
            self.bytes += report.bytes;
            let replaced = waiting.lock().replace(report)?;
            self.bytes = self.bytes.saturating_sub(replaced.bytes);
            return Some((replaced.seq, replaced.work, replaced_answer()));
        }
        if self.slots.len() >= self.context.shared.deps.settings.limits.max_in_flight as usize {
            return Some((report.seq, report.work, too_many()));
        }
        self.bytes += report.bytes;
        self.start(subject, report);
        None
    }

    fn start(&mut self, subject: Subject, report: Report) {
        let waiting = self.slots.entry(subject.clone()).or_default().clone();
        self.tasks
            .spawn(process(self.context.clone(), subject, report, waiting));
    }

    /// Whether nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits for the next report to end, and starts what waited behind it. Pends for ever while there is none. Safe to
    /// cancel.
    pub(super) async fn next(&mut self) {
        let Some(ended) = self.tasks.join_next().await else {
            return std::future::pending().await;
        };
        match ended {
            Ok(Done {
                subject,
                seq,
                bytes,
                processed,
            }) => {
                self.bytes = self.bytes.saturating_sub(bytes);
                let next = self.slots.remove(&subject).and_then(|waiting| waiting.lock().take());
                if processed {
                    self.seen.processed(subject.clone(), seq);
                }
                if let Some(report) = next {
                    self.start(subject, report);
                }
            }
            // A bug, but one report's. Without its slot the subject would be blocked; a new session starts clean.
            Err(error) => {
                tracing::error!(member = self.context.live.cluster.as_str(), %error, "A report's processing failed");
                let close = Close::new(RejectCode::Unavailable, "a report could not be processed");
                self.context.live.close(close);
            }
        }
    }
}

fn replaced_answer() -> Answer {
    Answer::because(Outcome::Superseded, "a newer report of the same has arrived")
}

/// Carries one report out, however often it takes, and answers it; gives way to a newer one between attempts.
async fn process(
    context: Arc<ReportContext>,
    subject: Subject,
    report: Report,
    waiting: Arc<Mutex<Option<Report>>>,
) -> Done {
    let Report {
        seq,
        work,
        body,
        bytes,
        charge,
    } = report;
    let mut failures = 0;
    let answer = loop {
        let attempt = match (&body, &work) {
            (Body::Status(report), Some(work)) => work::status(&context, &work.name, report).await,
            (Body::Claim, Some(work)) => finalizer::claim(&context, work).await,
            (Body::Cleanup, Some(work)) => finalizer::cleanup_complete(&context, work).await,
            (
                Body::Stopped {
                    imc_uid,
                    imc_generation,
                },
                _,
            ) => finalizer::stopped(&context, imc_uid, *imc_generation).await,
            (_, None) => Ok(Answer::because(Outcome::Invalid, "names no Work")),
        };
        let failure = match attempt {
            Ok(answer) => break answer,
            Err(WriteFailure::Gone) => break Answer::because(Outcome::Gone, "no such Work"),
            Err(WriteFailure::TooLarge(why)) => break Answer::because(Outcome::TooLarge, why),
            Err(WriteFailure::Invalid(why)) => break Answer::because(Outcome::Invalid, why),
            Err(WriteFailure::Held(wait)) => {
                if bytes > WAITS_MAX && wait > WAIT_SHORT {
                    break Answer::because(Outcome::RetryLater, "held back: the member has too much written");
                }
                tokio::time::sleep(wait.max(WAIT_MIN)).await;
                if waiting.lock().is_some() {
                    break replaced_answer();
                }
                continue;
            }
            Err(WriteFailure::Conflict) => "somebody else keeps writing it".to_owned(),
            Err(WriteFailure::Unavailable(why)) => why,
        };
        failures += 1;
        let member = context.live.cluster.as_str();
        if failures == 1 {
            tracing::warn!(member, report = ?subject, error = failure, "A report could not be stored");
        } else {
            tracing::debug!(member, report = ?subject, error = failure, failures, "It could still not be stored");
        }
        if waiting.lock().is_some() {
            break replaced_answer();
        }
        tokio::time::sleep(RETRY.delay(failures)).await;
        if waiting.lock().is_some() {
            break replaced_answer();
        }
    };
    match refusal_word(answer.outcome) {
        Some(word) => context.shared.measures.refused(word),
        None => context.shared.measures.persisted("work"),
    }
    drop((body, charge));
    let processed = answer.outcome.is_final();
    if let Err(unreachable) = context.out.ack(seq, work, answer).await {
        context.live.close(unreachable.into());
    }
    Done {
        subject,
        seq,
        bytes,
        processed,
    }
}
