//! What was decided about an eviction, in data and in words.

use std::fmt::Write as _;

use fleet_api::conditions::Words as _;
use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_api::events::EvictionEvent;
use fleet_api::placement::EvictionTarget;
use jiff::Timestamp;

use super::budget::Count;
use super::failed;
use super::world::{Binding, World};

/// An Event names at most so many clusters.
const NAMED_MAX: usize = 10;

/// What becomes of an eviction, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of it.
    pub outcome: EvictionOutcome,
    /// What the budget counted; none if it was not asked.
    pub count: Option<Count>,
    /// The clusters of the placement that are not available, by name. Empty if nobody had to look.
    pub unavailable: Vec<Unavailable>,
}

/// What becomes of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// It has ended before. Nothing is written, ever.
    Over,
    /// There is nothing to evict. The end.
    Invalid(Valid),
    /// Record this, delete the binding if it is still the one of this UID, and say so ([`executed`](super::executed)).
    Evict(EvictionTarget),
    /// It has happened, or happens anyway: there is nothing to delete. The end.
    Executed {
        /// The words of the condition.
        message: String,
    },
    /// It may not be. The end.
    Blocked(Executed),
    /// It may not be yet, and its user chose to wait.
    Waiting {
        /// What is in the way.
        blocked: Executed,
        /// Until when.
        until: Timestamp,
        /// When to look again if nothing happens.
        look_again: Timestamp,
    },
    /// The budget decides: read it, and ask again.
    NeedsBudget,
}

/// A cluster that is not available.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// The cluster.
    pub cluster: String,
    /// Why, in a word: mostly the reason of a condition.
    pub reason: String,
}

impl From<EvictionOutcome> for Decision {
    fn from(outcome: EvictionOutcome) -> Self {
        Self {
            outcome,
            count: None,
            unavailable: Vec::new(),
        }
    }
}

impl World<'_> {
    /// The bindings that do not count as available. A target that another eviction is about to delete is judged by what is
    /// said of it: it cannot go twice.
    pub(super) fn unavailable(&self, target: &Binding<'_>) -> Vec<Unavailable> {
        let counts = |b: &Binding<'_>| failed::is_available(b) && (!b.taken || b.uid == target.uid);
        let gone = self.bindings.iter().filter(|b| !counts(b));
        let mut list: Vec<_> = gone
            .map(|b| Unavailable {
                cluster: b.cluster.to_owned(),
                reason: failed::why(b),
            })
            .collect();
        list.sort_by(|a, b| a.cluster.cmp(&b.cluster));
        list
    }
}

impl Decision {
    /// The words of the condition that says it; empty if none does.
    pub fn message(&self) -> String {
        match &self.outcome {
            EvictionOutcome::Over | EvictionOutcome::NeedsBudget => String::new(),
            EvictionOutcome::Invalid(state) => state.message(),
            EvictionOutcome::Evict(target) => target.message.clone(),
            EvictionOutcome::Executed { message } => message.clone(),
            EvictionOutcome::Blocked(state) | EvictionOutcome::Waiting { blocked: state, .. } => state.message(),
        }
    }

    /// What is in the way, which no condition says; empty if nothing is.
    pub fn detail(&self) -> String {
        let (EvictionOutcome::Blocked(state) | EvictionOutcome::Waiting { blocked: state, .. }) = &self.outcome else {
            return String::new();
        };
        let Some(count) = &self.count else {
            return state.message();
        };
        let Count {
            limit,
            available,
            needed,
            ..
        } = count;
        if count.misconfigured {
            return format!("{limit} cannot be used with PickAll: set minAvailable to a number");
        }
        let Some(needed) = needed else {
            return format!("{limit} allows no eviction");
        };
        let mut text = format!("needs {needed} available, has {available}");
        for (at, gone) in self.unavailable.iter().enumerate() {
            let separator = if at == 0 { ": " } else { ", " };
            text.push_str(separator);
            if at == NAMED_MAX {
                text.push('…');
                break;
            }
            // Writing to a string cannot fail.
            _ = write!(text, "{} ({})", gone.cluster, gone.reason);
        }
        text
    }

    /// What to tell people once it is stored.
    pub fn event(&self) -> Option<EvictionEvent> {
        match &self.outcome {
            EvictionOutcome::Over | EvictionOutcome::NeedsBudget => None,
            EvictionOutcome::Invalid(state) => Some(EvictionEvent::Invalid {
                message: state.message(),
            }),
            EvictionOutcome::Evict(_) | EvictionOutcome::Executed { .. } => Some(EvictionEvent::Executed {
                message: self.message(),
            }),
            EvictionOutcome::Blocked(_) => Some(EvictionEvent::Blocked { why: self.detail() }),
            EvictionOutcome::Waiting { until, .. } => Some(EvictionEvent::Waiting {
                until: until.to_string(),
                why: self.detail(),
            }),
        }
    }
}
