//! How far an eviction has come, and what is written next.

use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::EvictionStatus;
use jiff::{SignedDuration, Timestamp};

use super::{Decision, Eviction, EvictionOutcome, later};

/// An end: nothing is decided about the eviction any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Whether there was something to evict.
    pub valid: bool,
    /// Since when.
    pub at: Timestamp,
}

impl Eviction<'_> {
    /// Whether it has ended: it was executed or blocked, for whatever generation, or is invalid as it is.
    pub fn ended(&self) -> Option<Ended> {
        let list = &self.status.conditions;
        if let Some(said) = conditions::find(list, Executed::TYPE) {
            let at = said.last_transition_time.0;
            return Some(Ended { valid: true, at });
        }
        let said = conditions::fresh(list, Valid::TYPE, self.generation)?;
        let at = said.last_transition_time.0;
        (Status::of(said) == Status::False).then_some(Ended { valid: false, at })
    }

    /// Whether it waits for its budget, or for the end of a deletion.
    pub fn is_under_way(&self) -> bool {
        self.ended().is_none() && conditions::is_true(&self.status.conditions, Valid::TYPE, self.generation)
    }

    /// Until when it waits for its budget, if its user chose to.
    pub(super) fn waits_until(&self) -> Option<Timestamp> {
        self.wait.map(|wait| later(self.created, wait))
    }

    /// When it is to be deleted; none if it has not ended or is kept. `ttl` counts for evictions that do not choose; zero
    /// is for ever.
    pub fn expires(&self, ttl: SignedDuration) -> Option<Timestamp> {
        let ended = self.ended()?;
        let ttl = self.ttl.unwrap_or(ttl);
        (ttl > SignedDuration::ZERO).then(|| later(ended.at, ttl))
    }
}

impl Decision {
    /// The status that is to be written for this; none if nothing is. Before a deletion it is the record, and
    /// [`executed`] follows.
    pub fn status(&self, eviction: &Eviction<'_>, now: Timestamp) -> Option<EvictionStatus> {
        let mut status = eviction.status.clone();
        let (list, generation) = (&mut status.conditions, eviction.generation);
        let valid = match &self.outcome {
            EvictionOutcome::Over | EvictionOutcome::NeedsBudget => return None,
            EvictionOutcome::Invalid(state) => state.clone(),
            _ => Valid::Valid,
        };
        conditions::set(list, &valid, generation, now);
        match &self.outcome {
            EvictionOutcome::Evict(target) => status.target = Some(target.clone()),
            EvictionOutcome::Executed { message } => return Some(with_message(status, message, generation, now)),
            EvictionOutcome::Blocked(state) => {
                conditions::set(list, state, generation, now);
                status.target = None;
            }
            // Nothing is deleted for it, whatever was meant before.
            _ => status.target = None,
        }
        Some(status)
    }
}

/// The status of an eviction once its recorded target is deleted.
pub fn executed(eviction: &Eviction<'_>, now: Timestamp) -> EvictionStatus {
    let status = eviction.status.clone();
    let message = status.target.as_ref().map(|target| target.message.clone());
    with_message(status, &message.unwrap_or_default(), eviction.generation, now)
}

fn with_message(mut status: EvictionStatus, message: &str, generation: i64, now: Timestamp) -> EvictionStatus {
    let state = Executed::Recorded {
        message: message.to_owned(),
    };
    conditions::set(&mut status.conditions, &state, generation, now);
    status
}
