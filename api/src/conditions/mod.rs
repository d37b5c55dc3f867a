//! Every condition's type, status, reason and message as typed states.
//!
//! One enum per condition, one file per family of objects. A state is declared together with its words, so a new one
//! does not compile until it has them. The words are API: they are kept as they are, misspellings included.

#[macro_use]
mod states;

pub mod approval_request;
pub mod binding;
pub mod cluster_profile;
pub mod decision;
pub mod error_class;
pub mod eviction;
pub mod manifest;
pub mod member_agent;
pub mod member_cluster;
pub mod placed_cluster;
pub mod placement;
pub mod policy_snapshot;
pub mod properties;
pub mod selection;
pub mod update_run;
pub mod update_stage;
pub mod work;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The longest message that the schema of a condition admits.
pub const MESSAGE_MAX: usize = 32768;

/// A condition's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Status {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// Nobody knows yet.
    Unknown,
}

impl Status {
    /// As it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }

    /// The status of `condition`. What is neither true nor false is unknown, whatever somebody wrote there.
    pub fn of(condition: &Condition) -> Self {
        match condition.status.as_str() {
            "True" => Self::True,
            "False" => Self::False,
            _ => Self::Unknown,
        }
    }
}

/// What a state says, whichever condition type it is shown under.
pub trait Words {
    /// The status that goes with this state.
    fn status(&self) -> Status;
    /// The machine-readable reason.
    fn reason(&self) -> &'static str;
    /// The sentence for people.
    fn message(&self) -> String;
    /// Whether a published guide shows this message, so that nothing may be appended to it.
    fn published(&self) -> bool;

    /// The same state with `detail` after its sentence.
    fn with_detail(self, detail: impl Into<String>) -> Detailed<Self>
    where
        Self: Sized,
    {
        Detailed {
            state: self,
            detail: detail.into(),
        }
    }
}

/// A state of one condition.
pub trait ConditionState: Words {
    /// The condition's type. It depends on the state only where the scope of a placement decides it.
    fn type_name(&self) -> &'static str;
}

/// A state whose message goes on after upstream's sentence: `sentence; detail`.
///
/// A sentence that a guide shows is left alone: people compare it with what they read there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detailed<S> {
    state: S,
    detail: String,
}

impl<S: Words> Words for Detailed<S> {
    fn status(&self) -> Status {
        self.state.status()
    }

    fn reason(&self) -> &'static str {
        self.state.reason()
    }

    fn message(&self) -> String {
        let sentence = self.state.message();
        if self.state.published() || self.detail.is_empty() {
            sentence
        } else {
            format!("{sentence}; {}", self.detail)
        }
    }

    fn published(&self) -> bool {
        self.state.published()
    }
}

impl<S: ConditionState> ConditionState for Detailed<S> {
    fn type_name(&self) -> &'static str {
        self.state.type_name()
    }
}

/// Puts `state` into `list`; true if a reader can tell. `lastTransitionTime` moves only with `status`.
pub fn set<C: ConditionState + ?Sized>(list: &mut Vec<Condition>, state: &C, generation: i64, now: Timestamp) -> bool {
    put(list, to_condition(state, generation, now), KeepTime::WhileStatusStays)
}

/// Puts `state` into `list` as if it had not been there before, so that `lastTransitionTime` is `now`: for clocks that
/// start with the content and not with the status.
pub fn set_anew<C: ConditionState + ?Sized>(list: &mut Vec<Condition>, state: &C, generation: i64, now: Timestamp) {
    put(list, to_condition(state, generation, now), KeepTime::Never);
}

/// Puts a condition into `list` as it is, time included, for one that is made elsewhere.
pub fn replace(list: &mut Vec<Condition>, condition: Condition) {
    put(list, condition, KeepTime::Never);
}

/// Puts status, reason and message of `source` into `list` under `type_name`; true if a reader can tell. For roll-ups
/// that show somebody else's condition verbatim.
pub fn mirror(list: &mut Vec<Condition>, type_name: &str, source: &Condition, generation: i64, now: Timestamp) -> bool {
    let copy = Condition {
        type_: type_name.into(),
        observed_generation: observed(generation),
        last_transition_time: whole_seconds(now),
        ..source.clone()
    };
    put(list, copy, KeepTime::WhileStatusStays)
}

/// Makes every condition in `list` speak of `generation`, without touching anything else.
pub fn observe(list: &mut [Condition], generation: i64) {
    for condition in list {
        condition.observed_generation = observed(generation);
    }
}

/// Removes the condition of this type; true if there was one.
pub fn remove(list: &mut Vec<Condition>, type_name: &str) -> bool {
    let before = list.len();
    list.retain(|c| c.type_ != type_name);
    list.len() < before
}

/// The condition of this type, whatever generation it speaks of.
pub fn find<'a>(list: &'a [Condition], type_name: &str) -> Option<&'a Condition> {
    list.iter().find(|c| c.type_ == type_name)
}

/// The condition of this type, if it speaks of this generation. An older one says nothing about the object of today.
pub fn fresh<'a>(list: &'a [Condition], type_name: &str, generation: i64) -> Option<&'a Condition> {
    // Generation 0 (a kind without generations) is left out on the wire.
    find(list, type_name).filter(|c| c.observed_generation.unwrap_or(0) == generation)
}

/// Whether the condition is true for this generation.
pub fn is_true(list: &[Condition], type_name: &str, generation: i64) -> bool {
    fresh(list, type_name, generation).is_some_and(|c| Status::of(c) == Status::True)
}

/// Whether the condition is false for this generation. Absent, stale and unknown are neither true nor false.
pub fn is_false(list: &[Condition], type_name: &str, generation: i64) -> bool {
    fresh(list, type_name, generation).is_some_and(|c| Status::of(c) == Status::False)
}

/// `state` as a condition that has just come about.
pub fn to_condition<C: ConditionState + ?Sized>(state: &C, generation: i64, now: Timestamp) -> Condition {
    Condition {
        type_: state.type_name().into(),
        status: state.status().as_str().into(),
        reason: state.reason().into(),
        message: cut(state.message()),
        observed_generation: observed(generation),
        last_transition_time: whole_seconds(now),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum KeepTime {
    WhileStatusStays,
    Never,
}

fn put(list: &mut Vec<Condition>, mut new: Condition, keep: KeepTime) -> bool {
    let Some(old) = list.iter_mut().find(|c| c.type_ == new.type_) else {
        list.push(new);
        return true;
    };
    if keep == KeepTime::WhileStatusStays && old.status == new.status {
        new.last_transition_time.clone_from(&old.last_transition_time);
    }
    let changed = *old != new;
    *old = new;
    changed
}

fn observed(generation: i64) -> Option<i64> {
    (generation != 0).then_some(generation)
}

/// Times in the API have whole seconds; a finer one would never compare equal to what the server gives back.
fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// One over-long message (an API server's error, say) would make the server refuse the whole status for ever.
fn cut(mut message: String) -> String {
    message.truncate(message.floor_char_boundary(MESSAGE_MAX));
    message
}

/// Asserts for each state its line `Type=Status Reason: message`.
#[cfg(test)]
#[track_caller]
fn assert_rows(rows: &[(&dyn ConditionState, &str)]) {
    for (state, line) in rows {
        let shown = format!(
            "{}={} {}: {}",
            state.type_name(),
            state.status().as_str(),
            state.reason(),
            state.message()
        );
        assert_eq!(shown, *line);
    }
}

#[cfg(test)]
mod tests;
