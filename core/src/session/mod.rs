//! One session of the channel between a member agent and the hub agent: the rules of both ends.
//!
//! ```text
//! hub     hello (who, which cluster, newer or older) ─► beat · cluster · work · finalizer ─► write, then answer
//! member  outbox (newest per object, until answered) · backoff (when to knock again)
//! ```
//!
//! A session has no truth of its own: every decision is made from objects that the API server holds and one message, so
//! that any message may be lost, repeated or late. What messages say are the structs here; `fleet-proto` makes them from
//! the wire, checked for form and size.

pub mod backoff;
pub mod beat;
pub mod bucket;
pub mod budget;
pub mod cluster;
pub mod condition;
pub mod digest;
pub mod epoch;
pub mod finalizer;
pub mod hello;
pub mod identity;
pub mod merge;
pub mod outbox;
pub mod recovery;
pub mod seen;
pub mod token;
pub mod trim;
pub mod work;

/// A Work by name and uid. Its namespace is the session's, never the message's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkRef {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// What becomes of a report. The hub says it only after the API server has accepted what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// Written.
    Persisted,
    /// Already so, or older than something already processed.
    Unchanged,
    /// For an older generation, or for something that has changed since.
    Superseded,
    /// The name belongs to another object now.
    UidMismatch,
    /// No such Work.
    Gone,
    /// Nothing is being deleted.
    NotDeleting,
    /// Never acceptable.
    Invalid,
    /// Send it again later.
    RetryLater,
    /// Trim it, then send.
    TooLarge,
}

impl Outcome {
    /// Whether the member may forget the report.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::RetryLater | Self::TooLarge)
    }
}

/// An outcome and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of it.
    pub outcome: Outcome,
    /// Why; empty where the outcome says it all.
    pub reason: String,
}

impl Answer {
    /// An outcome that needs no words.
    pub fn plain(outcome: Outcome) -> Self {
        Self {
            outcome,
            reason: String::new(),
        }
    }

    /// An outcome with its reason.
    pub fn because(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self {
            outcome,
            reason: reason.into(),
        }
    }
}

/// What to do about a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision<T> {
    /// Answer at once: there is nothing to write.
    Answer(Answer),
    /// Write this, guarded by the resourceVersion that was read; answer only when it is stored. On a conflict read again
    /// and decide again.
    Write {
        /// What to write.
        write: T,
        /// What to say then.
        then: Answer,
    },
    /// The cache may be behind: read the object from the API server and decide again.
    ReadAgain,
}

impl<T> Decision<T> {
    /// Nothing to write.
    pub fn answer(outcome: Outcome, reason: impl Into<String>) -> Self {
        Self::Answer(Answer::because(outcome, reason))
    }

    /// Something to write.
    pub fn write(write: T) -> Self {
        Self::Write {
            write,
            then: Answer::plain(Outcome::Persisted),
        }
    }

    /// The outcome that follows if writes succeed; none if undecided.
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Answer(answer) | Self::Write { then: answer, .. } => Some(answer.outcome),
            Self::ReadAgain => None,
        }
    }
}
