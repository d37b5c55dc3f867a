//! What an update run is decided from: plain views of API objects of either scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use fleet_api::conditions::update_run::{Initialized, Progressing, Succeeded};
use fleet_api::conditions::update_stage::Succeeded as StageSucceeded;
use fleet_api::conditions::{self, Status, Words as _};
use fleet_api::placement::{
    ApprovalRequestSpec, ApprovalRequestStatus, BindingSpec, BindingState, BindingStatus, PlacementPolicy,
    PlacementSpec, PolicySnapshotSpec, PolicySnapshotStatus, UpdateRunSpec, UpdateRunState, UpdateRunStatus,
};
use fleet_api::{annotations, labels};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::gate_object::GateObject;
use super::spans::Spans;

static NO_STATUS: LazyLock<UpdateRunStatus> = LazyLock::new(UpdateRunStatus::default);

/// An update run.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its namespace, empty for cluster-scoped ones; also that of all objects that it deals with.
    pub namespace: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its generation.
    pub generation: i64,
    /// Its annotations.
    pub annotations: Option<&'a BTreeMap<String, String>>,
    /// What the user asks for.
    pub spec: &'a UpdateRunSpec,
    /// How far it has come.
    pub status: &'a UpdateRunStatus,
}

/// What is to be done about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It has no plan yet: [`plan`](super::plan).
    Uninitialized,
    /// It is to go on or to stop: [`advance`](super::advance).
    Active,
    /// It waits for its user to change `state`. Nothing is checked or written.
    Idle,
    /// It has ended. It is never written again.
    Finished,
}

impl<'a> Run<'a> {
    /// A run of either scope.
    pub fn of(metadata: &'a ObjectMeta, spec: &'a UpdateRunSpec, status: Option<&'a UpdateRunStatus>) -> Self {
        Self {
            name: text(metadata.name.as_ref()),
            namespace: text(metadata.namespace.as_ref()),
            uid: text(metadata.uid.as_ref()),
            generation: metadata.generation.unwrap_or_default(),
            annotations: metadata.annotations.as_ref(),
            spec,
            status: status.unwrap_or(&NO_STATUS),
        }
    }

    /// What is to be done about it. Told by what is stored alone.
    pub fn phase(&self) -> Phase {
        let status = |type_name| conditions::find(&self.status.conditions, type_name).map(Status::of);
        match status(Initialized::TYPE) {
            None | Some(Status::Unknown) => return Phase::Uninitialized,
            Some(Status::False) => return Phase::Finished,
            Some(Status::True) => {}
        }
        if matches!(status(Succeeded::TYPE), Some(Status::True | Status::False)) {
            return Phase::Finished;
        }
        match self.spec.state {
            UpdateRunState::Initialize => Phase::Idle,
            UpdateRunState::Stop if self.said(Progressing::Stopped.reason()) && !self.is_to_trip() => Phase::Idle,
            UpdateRunState::Run | UpdateRunState::Stop => Phase::Active,
        }
    }

    /// Whether it has no plan yet, and names no snapshots to roll out.
    pub fn is_to_freeze(&self) -> bool {
        self.phase() == Phase::Uninitialized && self.spec.resource_snapshot_index.is_empty()
    }

    /// The value of the annotation on bindings that this run starts. The UID tells the run from one that had its name
    /// before.
    pub fn annotation(&self) -> String {
        format!("{}/{}", self.name, self.uid)
    }

    /// The run that it is to try again, if it says so.
    pub fn retry_of(&self) -> Option<&'a str> {
        let settings = self.annotations?;
        settings.get(annotations::RETRY_OF).map(String::as_str)
    }

    /// `namespace/name` of an object that the run deals with; `/name` without namespace.
    pub(super) fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.namespace)
    }

    /// Whether its user asks it to take back what it did.
    pub(super) fn is_to_roll_back(&self) -> bool {
        self.asks_of_rollback() == Some(annotations::REQUESTED)
    }

    /// What its user has written about a rollback.
    pub(super) fn asks_of_rollback(&self) -> Option<&'a str> {
        let asked = self.annotations.and_then(|list| list.get(annotations::ROLLBACK));
        asked.map(String::as_str)
    }

    /// Whether it is asked to take back what it did, and has not heard it yet.
    fn is_to_trip(&self) -> bool {
        let stages = self
            .status
            .stages_status
            .iter()
            .chain(&self.status.deletion_stage_status);
        let mut ends = stages.filter_map(|stage| conditions::find(&stage.conditions, StageSucceeded::TYPE));
        self.is_to_roll_back() && self.has_a_way_back() && !ends.any(|end| Status::of(end) == Status::False)
    }

    fn has_a_way_back(&self) -> bool {
        let options = self.status.options.as_ref();
        options.is_some_and(|options| options.on_failure == "Rollback")
    }

    /// Whether `Progressing` has this reason.
    fn said(&self, reason: &str) -> bool {
        conditions::find(&self.status.conditions, Progressing::TYPE).is_some_and(|c| c.reason == reason)
    }
}

/// The placement that a run is about.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// Its UID.
    pub uid: &'a str,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What its user wants.
    pub spec: &'a PlacementSpec,
}

impl<'a> Placement<'a> {
    /// A placement of either scope.
    pub fn of(metadata: &'a ObjectMeta, spec: &'a PlacementSpec) -> Self {
        Self {
            uid: text(metadata.uid.as_ref()),
            deleting: metadata.deletion_timestamp.is_some(),
            spec,
        }
    }
}

/// One of the placement's policy snapshots.
#[derive(Debug, Clone, Copy)]
pub struct PolicySnapshot<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its generation.
    pub generation: i64,
    /// Whether it is labelled as the latest.
    pub latest: bool,
    /// The label with its index; empty if it has none.
    pub index: &'a str,
    /// The annotation with the number of clusters.
    pub number_of_clusters: Option<&'a str>,
    /// The policy.
    pub policy: Option<&'a PlacementPolicy>,
    /// What the scheduler says.
    pub conditions: &'a [Condition],
}

impl<'a> PolicySnapshot<'a> {
    /// A policy snapshot of either scope.
    pub fn of(
        metadata: &'a ObjectMeta,
        spec: &'a PolicySnapshotSpec,
        status: Option<&'a PolicySnapshotStatus>,
    ) -> Self {
        let label = |key| metadata.labels.as_ref().and_then(|labels| labels.get(key));
        let number = metadata.annotations.as_ref();
        Self {
            name: text(metadata.name.as_ref()),
            generation: metadata.generation.unwrap_or_default(),
            latest: label(labels::IS_LATEST_SNAPSHOT).is_some_and(|value| labels::parse_bool(value) == Some(true)),
            index: text(label(labels::POLICY_INDEX)),
            number_of_clusters: number
                .and_then(|list| list.get(annotations::NUMBER_OF_CLUSTERS))
                .map(String::as_str),
            policy: spec.policy.as_ref(),
            conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
        }
    }
}

/// One of the placement's bindings.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The annotation that names the run that started it last.
    pub update_run: Option<&'a str>,
    /// What it names.
    pub spec: &'a BindingSpec,
    /// How its cluster fares.
    pub conditions: &'a [Condition],
}

impl<'a> Binding<'a> {
    /// A binding of either scope.
    pub fn of(metadata: &'a ObjectMeta, spec: &'a BindingSpec, status: Option<&'a BindingStatus>) -> Self {
        let annotation = metadata.annotations.as_ref();
        Self {
            name: text(metadata.name.as_ref()),
            uid: text(metadata.uid.as_ref()),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            update_run: annotation
                .and_then(|list| list.get(annotations::UPDATE_RUN))
                .map(String::as_str),
            spec,
            conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
        }
    }

    /// Whether the scheduler has picked its cluster.
    pub(super) fn is_picked(&self) -> bool {
        !self.deleting && matches!(self.spec.state, BindingState::Scheduled | BindingState::Bound)
    }
}

/// An approval request.
#[derive(Debug, Clone, Copy)]
pub struct Approval<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its generation.
    pub generation: i64,
    /// What is to be approved.
    pub spec: &'a ApprovalRequestSpec,
    /// The answer.
    pub conditions: &'a [Condition],
}

impl<'a> Approval<'a> {
    /// An approval request of either scope.
    pub fn of(
        metadata: &'a ObjectMeta,
        spec: &'a ApprovalRequestSpec,
        status: Option<&'a ApprovalRequestStatus>,
    ) -> Self {
        Self {
            name: text(metadata.name.as_ref()),
            generation: metadata.generation.unwrap_or_default(),
            spec,
            conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
        }
    }
}

/// The master of the resource snapshots that a run has recorded.
#[derive(Debug, Clone, Copy)]
pub struct RecordedSnapshot<'a> {
    /// The run that took this version back, if one did.
    pub failed_in: Option<&'a str>,
    /// The UID of the placement that owns it; none if it has no owner.
    pub placement_uid: Option<&'a str>,
}

/// What matters of a member cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterFacts<'a> {
    /// Whether it is healthy.
    pub healthy: bool,
    /// When it may be changed, as its annotation says.
    pub window: Option<&'a str>,
}

/// Everything that a run with a plan is decided from.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The placement that the run names.
    pub placement: Option<Placement<'a>>,
    /// The placement's policy snapshots, at least those labelled as the latest.
    pub policies: &'a [PolicySnapshot<'a>],
    /// All bindings of the placement, in any order.
    pub bindings: &'a [Binding<'a>],
    /// The snapshot that the run's status names ([`snapshot_name`](super::snapshot_name)), if it is still there.
    pub snapshot: Option<RecordedSnapshot<'a>>,
    /// The placement's other runs.
    pub runs: &'a [Run<'a>],
    /// Approval requests of the run's namespace, at least those that its tasks name.
    pub approvals: &'a [Approval<'a>],
    /// Member clusters by name, at least those of the plan.
    pub clusters: &'a BTreeMap<&'a str, ClusterFacts<'a>>,
    /// For each gate in the run's options its object, if it is there.
    pub gates: &'a [Option<GateObject>],
    /// Of the snapshots that the run would give back, those that are not there.
    pub missing_snapshots: &'a BTreeSet<String>,
    /// Of the override snapshots that the run would give back, those that are not there; `namespace/name` of
    /// ResourceOverride snapshots.
    pub missing_overrides: &'a BTreeSet<String>,
    /// How long a cluster may take before the run says that it is stuck, unless the run says otherwise.
    pub stuck_threshold: SignedDuration,
    /// What could not be written in this pass.
    pub refused: &'a Refused,
}

/// Objects that could not be written. The run leaves them as they are and does not say that it has written them, so that
/// one bad object does not keep it from telling how far the others have come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refused {
    /// Bindings, by name.
    pub bindings: BTreeSet<String>,
    /// Approval requests, by name.
    pub approvals: BTreeSet<String>,
}

/// What a process remembers of a run between passes. A restart loses it: that only begins a patience anew, or records an
/// Event again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// Since when something that initialization needs is not there, in steady time.
    pub lacking_since: Option<Timestamp>,
    /// Since when the placement differs from what is recorded, in steady time.
    pub edited_since: Option<Timestamp>,
    /// The UID of the placement that the run was seen with.
    pub placement_uid: Option<String>,
    /// Texts of Events that no condition remembers, by what they are about.
    pub told: BTreeMap<String, String>,
    /// Since when what is under way is so.
    pub spans: Spans,
    /// Since when the API server refuses to have a cluster given back what it had, in steady time.
    pub refused_since: BTreeMap<String, Option<Timestamp>>,
}

impl Memory {
    /// What counts while the run rests: an edit of the placement does not.
    pub fn rest(&mut self) {
        self.edited_since = None;
    }

    /// Whether `text` is new about `subject`; from now on it is not.
    pub(super) fn tells(&mut self, subject: &str, text: String) -> bool {
        self.told.insert(subject.to_owned(), text.clone()) != Some(text)
    }
}

fn text(field: Option<&String>) -> &str {
    field.map(String::as_str).unwrap_or_default()
}

/// The binding of each cluster: one that is being deleted does not count, and of several the one with the greatest name
/// does, as in the placement's status.
pub(super) fn by_cluster<'a>(bindings: &'a [Binding<'a>]) -> BTreeMap<&'a str, &'a Binding<'a>> {
    let mut chosen: BTreeMap<&str, &Binding<'_>> = BTreeMap::new();
    for binding in bindings.iter().filter(|binding| !binding.deleting) {
        let held = chosen.entry(&binding.spec.target_cluster).or_insert(binding);
        if held.name < binding.name {
            *held = binding;
        }
    }
    chosen
}
