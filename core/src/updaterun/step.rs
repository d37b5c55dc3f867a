//! What a pass over a run leads to: a status, writes, Events, and when to look again.

use std::collections::BTreeMap;

use fleet_api::conditions::binding::RolloutStarted;
use fleet_api::conditions::{self, Words as _};
use fleet_api::events::UpdateRunEvent;
use fleet_api::labels;
use fleet_api::placement::{
    ApplyStrategy, ApprovalRequestSpec, BindingSpec, BindingState, PreviousContent, UpdateRunStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::world::{Binding, Memory, Run};
use crate::overrides::choose::Lists;

/// What to do now.
///
/// # Expected flow
///
/// Write `approvals`, then `bindings` (all at once), the mark on the snapshot, then `status`. When a write fails, stop, add the object to
/// [`Refused`](super::Refused) and call [`advance`](super::advance) again with what is stored now and the same instant:
/// its answer tells how far the rest has come without claiming what was not written. When all is written, record `events`
/// and keep `memory`.
///
/// # Guarantees
///
/// After a crash between any two of these writes the next pass starts nothing twice: a binding that has the plan's content
/// and this run's annotation counts as started, whatever the status says.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Step {
    /// The whole new status; none if the stored one is right.
    pub status: Option<UpdateRunStatus>,
    /// Approval requests to create or to mark as accepted.
    pub approvals: Vec<ApprovalWrite>,
    /// Bindings to start, to stamp again, or to delete.
    pub bindings: Vec<BindingWrite>,
    /// Whether the snapshot that the run rolls out is to say that this run has taken it back.
    pub mark_snapshot: bool,
    /// What to tell people.
    pub events: Vec<Told>,
    /// When to look again if nothing happens; this very instant if the next stage can begin.
    pub look_again: Option<Timestamp>,
    /// What to remember until the next pass.
    pub memory: Memory,
}

impl Step {
    pub(super) fn look_at(&mut self, instant: Timestamp) {
        self.look_again = Some(self.look_again.map_or(instant, |other| other.min(instant)));
    }

    pub(super) fn tell(&mut self, event: UpdateRunEvent) {
        self.events.push(Told::on_run(event));
    }
}

/// An Event, and what it is recorded on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The object.
    pub on: On,
    /// The Event.
    pub event: UpdateRunEvent,
}

impl Told {
    pub(super) fn on_run(event: UpdateRunEvent) -> Self {
        Self { on: On::Run, event }
    }
}

/// What an Event is recorded on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum On {
    /// The run.
    Run,
    /// The approval request of this name.
    Approval(String),
}

/// A write to one binding.
#[derive(Debug, Clone, PartialEq)]
pub struct BindingWrite {
    /// The binding's name.
    pub binding: String,
    /// Its UID: a binding made anew under the name is another one.
    pub uid: String,
    /// Its cluster.
    pub cluster: String,
    /// What it named when this was decided.
    pub was: Given,
    /// What to write.
    pub action: BindingAction,
}

impl BindingWrite {
    pub(super) fn new(binding: &Binding<'_>, action: BindingAction) -> Self {
        Self {
            binding: binding.name.to_owned(),
            uid: binding.uid.to_owned(),
            cluster: binding.spec.target_cluster.clone(),
            was: Given::by(binding.update_run, binding.spec),
            action,
        }
    }
}

/// What a binding names, and which run gave it that. A write of something else in its place is decided about this, and must
/// not hit what another run has given the cluster since: it would be lost, and nobody could give it back.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    update_run: Option<String>,
    content: PreviousContent,
}

impl Given {
    /// By a binding with this annotation [`UPDATE_RUN`](fleet_api::annotations::UPDATE_RUN) and this spec.
    pub fn by(update_run: Option<&str>, spec: &BindingSpec) -> Self {
        Self {
            update_run: update_run.map(ToOwned::to_owned),
            content: PreviousContent {
                resource_snapshot_name: spec.resource_snapshot_name.clone(),
                resource_override_snapshots: spec.resource_override_snapshots.clone(),
                cluster_resource_override_snapshots: spec.cluster_resource_override_snapshots.clone(),
                apply_strategy: spec.apply_strategy.clone(),
            },
        }
    }

    /// The content, to be given back one day; empty if there is none.
    pub(super) fn content(self) -> PreviousContent {
        if self.content.resource_snapshot_name.is_empty() {
            return PreviousContent::default();
        }
        self.content
    }
}

/// What to write to a binding.
#[derive(Debug, Clone, PartialEq)]
pub enum BindingAction {
    /// Write what differs from this, then the stamp for the generation that this leads to.
    Put(Box<Put>),
    /// Delete it, if it is still `Unscheduled`. One that is gone already counts as deleted.
    Delete,
}

/// What a binding is to say: spec and annotation in one request, then `RolloutStarted` in another.
#[derive(Debug, Clone, PartialEq)]
pub struct Put {
    /// What it names.
    pub content: Content,
    /// The value of the annotation [`UPDATE_RUN`](fleet_api::annotations::UPDATE_RUN); none to leave it alone.
    pub annotation: Option<String>,
    /// Its `RolloutStarted`.
    pub stamp: Stamp,
}

impl Put {
    /// Writes it into `spec`, unless the scheduler was faster and the cluster is no longer picked; then false.
    pub fn write_to(&self, spec: &mut BindingSpec) -> bool {
        if !matches!(spec.state, BindingState::Scheduled | BindingState::Bound) {
            return false;
        }
        spec.state = BindingState::Bound;
        spec.resource_snapshot_name.clone_from(&self.content.snapshot);
        spec.cluster_resource_override_snapshots
            .clone_from(&self.content.overrides.cluster_wide);
        spec.resource_override_snapshots
            .clone_from(&self.content.overrides.namespaced);
        spec.apply_strategy = Some(self.content.apply_strategy.clone());
        true
    }
}

/// What a cluster gets, as the plan records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The master resource snapshot.
    pub snapshot: String,
    /// The overrides on this cluster.
    pub overrides: Lists,
    /// How objects are applied.
    pub apply_strategy: ApplyStrategy,
}

impl Content {
    /// Whether a binding names just this.
    pub fn is_in(&self, spec: &BindingSpec) -> bool {
        spec.resource_snapshot_name == self.snapshot
            && spec.cluster_resource_override_snapshots == self.overrides.cluster_wide
            && spec.resource_override_snapshots == self.overrides.namespaced
            && spec.apply_strategy.as_ref() == Some(&self.apply_strategy)
    }
}

/// `RolloutStarted=True` with its sentence and time. The time is that of the start, also when it is stamped again later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// The sentence.
    pub message: String,
    /// `lastTransitionTime`.
    pub at: Timestamp,
}

impl Stamp {
    /// The condition for this generation of the binding. It replaces the old one, time included.
    pub fn condition(&self, generation: i64) -> Condition {
        let started = conditions::to_condition(&RolloutStarted::Started, generation, self.at);
        Condition {
            message: self.message.clone(),
            ..started
        }
    }
}

/// A write to one approval request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalWrite {
    /// Create it in the run's namespace.
    Create(NewApproval),
    /// Write `ApprovalAccepted`.
    Accept {
        /// Its name.
        name: String,
    },
}

impl ApprovalWrite {
    /// The request's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Create(new) => &new.name,
            Self::Accept { name } => name,
        }
    }
}

/// An approval request to create. It has neither owner nor finalizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewApproval {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// What is to be approved.
    pub spec: ApprovalRequestSpec,
}

impl NewApproval {
    pub(super) fn new(run: &Run<'_>, name: &str, stage: &str, task_type: &str) -> Self {
        let labels = [
            (labels::TARGET_UPDATE_RUN, run.name),
            (labels::TARGET_UPDATING_STAGE, stage),
            (labels::TASK_TYPE, task_type),
            (labels::IS_LATEST_UPDATE_RUN_APPROVAL, labels::TRUE),
        ];
        Self {
            name: name.to_owned(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            spec: ApprovalRequestSpec {
                parent_stage_rollout: run.name.to_owned(),
                target_stage: stage.to_owned(),
            },
        }
    }
}

/// An instant as the API stores it.
pub(super) fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// The sentence of a stamp that a run makes.
pub(super) fn sentence(index: &str, run: &str) -> String {
    let (index, run) = (index.to_owned(), run.to_owned());
    RolloutStarted::StartedByRun { index, run }.message()
}
