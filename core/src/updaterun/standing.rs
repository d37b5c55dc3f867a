//! What a cluster's binding says about its update.

use fleet_api::conditions::binding::{Applied, Available, DiffReported, Overridden, RolloutStarted, WorkSynchronized};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{ApplyStrategyType, BindingState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::step::{Content, Put, Stamp};
use super::world::Binding;

/// What a run wants of a cluster, and how it signs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    /// What the plan records for the cluster.
    pub(super) content: &'a Content,
    /// The run's annotation.
    pub(super) annotation: &'a str,
    /// The run's sentence.
    pub(super) sentence: &'a str,
}

/// What is to be done about a cluster whose turn has come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Turn {
    /// It is no longer picked.
    Gone,
    /// This run has started it already; only the status does not say so.
    Own,
    /// Somebody else has given it just this content: there is nothing to write.
    There,
    /// It is to be started.
    Start,
}

/// How a cluster that a run has started fares.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Progress {
    /// It is no longer picked, or was left in between: nothing of the run is to reach it any more.
    Gone,
    /// Its binding names something else.
    Preempted,
    /// The scheduler, or a person, wrote to the binding: stamp it again.
    Unstamped,
    /// It has what it should, and that works.
    Done,
    /// Not yet, and what its binding says about that.
    Busy(String),
}

impl Wish<'_> {
    /// What is to be done about a cluster that the status does not call started.
    pub(super) fn turn(&self, binding: Option<&Binding<'_>>) -> Turn {
        let Some(binding) = binding.filter(|binding| binding.is_picked()) else {
            return Turn::Gone;
        };
        let in_sync = self.content.is_in(binding.spec);
        if in_sync && binding.update_run == Some(self.annotation) {
            Turn::Own
        } else if in_sync && !picked_again(binding) && is_bound(binding) && is_stamped(binding) {
            Turn::There
        } else {
            Turn::Start
        }
    }

    /// How a started cluster fares.
    pub(super) fn progress(&self, binding: Option<&Binding<'_>>) -> Progress {
        let Some(binding) = binding.filter(|binding| binding.is_picked()) else {
            return Progress::Gone;
        };
        // Under External a new binding waits without content for a run that includes it.
        let made_anew = !is_bound(binding) && binding.spec.resource_snapshot_name.is_empty();
        if picked_again(binding) || made_anew {
            Progress::Gone
        } else if !self.content.is_in(binding.spec) {
            Progress::Preempted
        } else if !is_bound(binding) || !is_stamped(binding) {
            Progress::Unstamped
        } else {
            self.result(binding)
        }
    }

    /// The condition that tells whether the cluster works.
    pub(super) fn done(&self) -> &'static str {
        match self.content.apply_strategy.type_ {
            ApplyStrategyType::ReportDiff => DiffReported::TYPE,
            _ => Available::TYPE,
        }
    }

    /// What the cluster reports. A condition of another generation says nothing of today.
    pub(super) fn result(&self, binding: &Binding<'_>) -> Progress {
        if conditions::is_true(binding.conditions, self.done(), binding.generation) {
            Progress::Done
        } else {
            Progress::Busy(obstacle(binding))
        }
    }

    /// Gives the cluster the plan's content. The rollout has started just now, also where it had been started before.
    pub(super) fn start(&self, now: Timestamp) -> Put {
        Put {
            content: self.content.clone(),
            annotation: Some(self.annotation.to_owned()),
            stamp: Stamp {
                message: self.sentence.to_owned(),
                at: now,
            },
        }
    }

    /// Stamps a started cluster again, with the sentence and the time that it has. Where the sentence is gone it is made
    /// again from the run's name.
    pub(super) fn stamp_again(&self, binding: &Binding<'_>, started_at: Timestamp) -> Put {
        let stamp = match stamp(binding) {
            Some((message, at)) => Stamp {
                message: message.to_owned(),
                at,
            },
            None => Stamp {
                message: self.sentence.to_owned(),
                at: started_at,
            },
        };
        Put {
            content: self.content.clone(),
            annotation: None,
            stamp,
        }
    }

    /// What is missing of a start of this run that a crash has cut short; none if nothing is.
    pub(super) fn complete(&self, binding: &Binding<'_>, since: Timestamp) -> Option<Put> {
        let complete = is_bound(binding) && is_stamped(binding);
        (!complete).then(|| Put {
            annotation: None,
            ..self.start(since)
        })
    }

    /// When this run started the cluster, by the binding's own word; none if it does not say.
    pub(super) fn started_at(&self, binding: &Binding<'_>) -> Option<Timestamp> {
        let (message, at) = stamp(binding)?;
        (message == self.sentence).then_some(at)
    }
}

/// The scheduler empties the annotation when it takes back that the cluster was no longer picked.
fn picked_again(binding: &Binding<'_>) -> bool {
    binding.update_run == Some("")
}

fn is_bound(binding: &Binding<'_>) -> bool {
    binding.spec.state == BindingState::Bound
}

fn is_stamped(binding: &Binding<'_>) -> bool {
    conditions::is_true(binding.conditions, RolloutStarted::TYPE, binding.generation)
}

/// Sentence and time of a true `RolloutStarted`, whatever its generation.
fn stamp<'a>(binding: &Binding<'a>) -> Option<(&'a str, Timestamp)> {
    let started = conditions::find(binding.conditions, RolloutStarted::TYPE)?;
    (Status::of(started) == Status::True).then_some((started.message.as_str(), started.last_transition_time.0))
}

/// Whether this run had started the cluster before `then`, by the binding's own word.
pub(super) fn was_started_by(binding: &Binding<'_>, run: &str, then: Timestamp) -> bool {
    stamp(binding).is_some_and(|(message, at)| at < then && message.ends_with(&format!(", updateRun: {run}")))
}

/// What is in the way, as Events show it.
fn obstacle(binding: &Binding<'_>) -> String {
    match failing(binding) {
        Some(condition) => format!("{}={} {}", condition.type_, condition.status, condition.reason),
        None => "nothing reported yet".to_owned(),
    }
}

/// The first condition that says that the cluster does not work.
pub(super) fn failing<'a>(binding: &Binding<'a>) -> Option<&'a Condition> {
    let types = [
        Overridden::TYPE,
        WorkSynchronized::TYPE,
        Applied::TYPE,
        Available::TYPE,
        DiffReported::TYPE,
    ];
    let said = |type_name| conditions::fresh(binding.conditions, type_name, binding.generation);
    types
        .into_iter()
        .filter_map(said)
        .find(|condition| Status::of(condition) != Status::True)
}
