//! The plan of a run: made once, when the run is initialized, and never again.
//!
//! Each step checks something and records it. The first that fails ends the initialization for good, and the status keeps
//! what was recorded before. What may still come (the placement, say, when a user creates everything with one command) is
//! waited for first.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::policy_snapshot::Scheduled;
use fleet_api::conditions::update_run::{Abort, Initialized, TYPES};
use fleet_api::conditions::{self, Status};
use fleet_api::events::UpdateRunEvent;
use fleet_api::placement::{
    BindingState, StageTaskType, UpdateRunOptions, UpdateRunState, UpdateRunStatus, UpdateStrategySpec,
};
use jiff::{SignedDuration, Timestamp};

use super::options::{self, Sources};
use super::outline::Outline;
use super::placement::{self, ALL};
use super::spans::Moment;
use super::stages::{self, Members};
use super::step::Told;
use super::world::by_cluster;
use super::world::{Binding, Memory, Placement, PolicySnapshot, Run};
use super::{events, gates, number, patience, retry, stop, unassigned};
use crate::overrides::choose::Lists;

/// How long initialization waits for what is not there yet. One span for a run, whatever is missing.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(10);

/// Everything that a plan is made from.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct Inputs<'a> {
    /// The placement that the run names.
    pub placement: Option<Placement<'a>>,
    /// The placement's policy snapshots, at least those labelled as the latest.
    pub policies: &'a [PolicySnapshot<'a>],
    /// All bindings of the placement, in any order.
    pub bindings: &'a [Binding<'a>],
    /// The member clusters.
    pub members: &'a Members<'a>,
    /// The update strategy that the run names.
    pub strategy: Option<&'a UpdateStrategySpec>,
    /// That strategy's annotations.
    pub settings: Option<&'a BTreeMap<String, String>>,
    /// The run that this one is to try again ([`Run::retry_of`]), if it is there.
    pub retried: Option<Run<'a>>,
    /// The resources to roll out.
    pub snapshot: Snapshot<'a>,
    /// The overrides on a cluster for the resources of the snapshot, or what is wrong with them, with its class. Asked
    /// only when there is a snapshot.
    pub overrides: &'a dyn Fn(&str) -> Result<Lists, String>,
}

/// The resource snapshots that a run is to roll out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot<'a> {
    /// The run names no index, and none has been taken for it yet.
    NotTaken,
    /// There is none with the index that the run names.
    Missing,
    /// A group of snapshots: the one that was taken for the run, or the one that it names.
    Group {
        /// The group's index label.
        index: &'a str,
        /// The hash of its content, which the master of the group has; none without master.
        hash: Option<&'a str>,
    },
    /// The group has not all its parts, as this says.
    Incomplete(&'a str),
    /// None could be taken: what is wrong with the placement's selectors, with its class.
    Invalid(&'a str),
}

/// What initialization comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Write this status before anything else. With `state: Stop` it already says that the run has stopped.
    Ready(Box<UpdateRunStatus>),
    /// Write this status; the run has failed for good.
    Failed(Box<UpdateRunStatus>),
    /// Something is not there yet. Write nothing; its event, or this instant, is when to ask again.
    Wait {
        /// None if only an event helps.
        until: Option<Timestamp>,
    },
    /// All is well so far: select and freeze the placement's resources now, then ask again.
    TakeSnapshot,
}

/// The outcome of initialization, with what to tell and to remember.
#[derive(Debug, Clone, PartialEq)]
pub struct Planning {
    /// What to do.
    pub plan: Plan,
    /// What to tell people, once it is done.
    pub events: Vec<Told>,
    /// What to remember.
    pub memory: Memory,
}

/// Why there is no plan.
enum Halt {
    /// Nothing helps.
    Final(Abort),
    /// It may still come.
    Lacking(Abort),
    /// The scheduler has yet to look at these bindings again. That is only a matter of time, so it is no failure.
    OldPolicy(Vec<String>),
    TakeSnapshot,
}

impl From<Abort> for Halt {
    fn from(abort: Abort) -> Self {
        match abort {
            Abort::PlacementNotFound
            | Abort::NoPolicySnapshot { .. }
            | Abort::NoBindings { .. }
            | Abort::BindingCount { .. }
            | Abort::StrategyNotFound { .. } => Self::Lacking(abort),
            _ => Self::Final(abort),
        }
    }
}

/// The plan of a run that has none.
///
/// # Expected flow
///
/// Call it when the run is [`Uninitialized`](super::Phase::Uninitialized), with the [`Memory`] of the call before, on every
/// event of what it is made from until it answers with a status.
pub fn plan(run: &Run<'_>, inputs: &Inputs<'_>, memory: &Memory, at: Moment) -> Planning {
    let mut status = UpdateRunStatus {
        conditions: run.status.conditions.clone(),
        ..UpdateRunStatus::default()
    };
    conditions::observe(&mut status.conditions, run.generation);
    let mut memory = memory.clone();
    let mut told = Vec::new();
    let plan = match draft(run, inputs, &mut status) {
        Ok(()) => {
            memory = Memory {
                placement_uid: inputs.placement.map(|placement| placement.uid.to_owned()),
                ..Memory::default()
            };
            ready(run, status, at.now)
        }
        Err(Halt::TakeSnapshot) => Plan::TakeSnapshot,
        Err(Halt::Final(abort)) => failed(run, status, &abort, at.now),
        Err(Halt::Lacking(abort)) => match patience(&mut memory.lacking_since, PATIENCE, at) {
            Some(until) => Plan::Wait { until: Some(until) },
            None => failed(run, status, &abort, at.now),
        },
        Err(Halt::OldPolicy(bindings)) => {
            let until = patience(&mut memory.lacking_since, PATIENCE, at);
            if until.is_none() && memory.tells("old policy", bindings.join(", ")) {
                told.push(Told::on_run(UpdateRunEvent::InitializationWaiting { bindings }));
            }
            Plan::Wait { until }
        }
    };
    if let Plan::Ready(status) | Plan::Failed(status) = &plan {
        told.extend(events::between(run.status, status));
    }
    Planning {
        plan,
        events: told,
        memory,
    }
}

fn ready(run: &Run<'_>, mut status: UpdateRunStatus, now: Timestamp) -> Plan {
    conditions::set(&mut status.conditions, &Initialized::Succeeded, run.generation, now);
    if run.spec.state == UpdateRunState::Stop {
        stop::at_creation(run.generation, &mut status, now);
    }
    sort(&mut status);
    Plan::Ready(Box::new(status))
}

fn failed(run: &Run<'_>, mut status: UpdateRunStatus, abort: &Abort, now: Timestamp) -> Plan {
    let state = Initialized::Failed { error: abort.message() };
    conditions::set(&mut status.conditions, &state, run.generation, now);
    sort(&mut status);
    Plan::Failed(Box::new(status))
}

fn sort(status: &mut UpdateRunStatus) {
    let place = |type_name: &str| TYPES.iter().position(|known| *known == type_name);
    status
        .conditions
        .sort_by_key(|c| place(&c.type_).unwrap_or(TYPES.len()));
}

fn draft(run: &Run<'_>, inputs: &Inputs<'_>, status: &mut UpdateRunStatus) -> Result<(), Halt> {
    status.apply_strategy = Some(placement::apply_strategy(inputs.placement)?);
    let (policy, count) = policy(run, inputs, status)?;
    let (targets, leaving) = bindings(run, inputs, policy, count, status)?;
    if let Some(other) = run.retry_of() {
        let before = inputs.retried.filter(|_| inputs.strategy.is_none());
        let sources = settings(run, inputs, retry::inherited(run, before)?, status)?;
        let index = retry::record(run, (other, inputs.retried), status)?;
        gates::place(run, &sources, status)?;
        complete(inputs.snapshot)?;
        let found = match inputs.snapshot {
            Snapshot::Group { index, hash } => Some((index, hash)),
            _ => None,
        };
        status.resource_snapshot_index_used = retry::snapshot(run, found, index)?;
    } else {
        strategy(run, inputs, &targets, status)?;
        status.deletion_stage_status = Some(stages::deletion(leaving));
        complete(inputs.snapshot)?;
        status.resource_snapshot_index_used = snapshot(run, inputs.snapshot)?;
        overrides(inputs, status)?;
    }
    approved(inputs, status)
}

/// Whether the plan is the one that was approved, if one was.
fn approved(inputs: &Inputs<'_>, status: &UpdateRunStatus) -> Result<(), Halt> {
    let approved = status.options.as_ref().map(|options| options.plan.as_str());
    let Some(approved) = approved.filter(|hash| !hash.is_empty()) else {
        return Ok(());
    };
    let content = match inputs.snapshot {
        Snapshot::Group { hash, .. } => hash.unwrap_or_default(),
        _ => "",
    };
    match Outline::of(status, inputs.bindings, content).first_difference(approved) {
        Some(difference) => Err(Abort::PlanDiffers { difference }.into()),
        None => Ok(()),
    }
}

/// Reads the settings, once and for all, beginning with these.
fn settings(
    run: &Run<'_>,
    inputs: &Inputs<'_>,
    inherited: Option<UpdateRunOptions>,
    status: &mut UpdateRunStatus,
) -> Result<Sources, Halt> {
    let Some((recorded, sources)) = options::read(run, inputs.settings, inherited)? else {
        return Ok(Sources::new());
    };
    status.options = Some(recorded);
    Ok(sources)
}

fn policy<'a>(
    run: &Run<'_>,
    inputs: &Inputs<'a>,
    status: &mut UpdateRunStatus,
) -> Result<(&'a PolicySnapshot<'a>, i64), Halt> {
    let policy = placement::latest_policy(run, inputs.policies)?;
    policy.index.clone_into(&mut status.policy_snapshot_index_used);
    let count = placement::cluster_count(run, policy)?;
    record_count(status, count);
    let scheduled = conditions::fresh(policy.conditions, Scheduled::TYPE, policy.generation).map(Status::of);
    let abort = || Abort::NotScheduled {
        name: policy.name.to_owned(),
    };
    match scheduled {
        Some(Status::True) => Ok((policy, count)),
        // The scheduler's last word: there are not enough clusters.
        Some(Status::False) => Err(Halt::Final(abort())),
        Some(Status::Unknown) | None => Err(Halt::Lacking(abort())),
    }
}

/// Zero is left out, as the API does.
fn record_count(status: &mut UpdateRunStatus, count: i64) {
    status.policy_observed_cluster_count = Some(count).filter(|count| *count != 0);
}

/// The clusters to update and those to leave.
fn bindings<'a>(
    run: &Run<'_>,
    inputs: &Inputs<'a>,
    policy: &PolicySnapshot<'_>,
    count: i64,
    status: &mut UpdateRunStatus,
) -> Result<(BTreeSet<&'a str>, BTreeSet<&'a str>), Halt> {
    let (mut targets, mut leaving, mut old) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (cluster, binding) in by_cluster(inputs.bindings) {
        match binding.spec.state {
            BindingState::Unscheduled => _ = leaving.insert(cluster),
            BindingState::Unknown(_) => {}
            BindingState::Scheduled | BindingState::Bound
                if binding.spec.scheduling_policy_snapshot_name == policy.name =>
            {
                targets.insert(cluster);
            }
            BindingState::Scheduled | BindingState::Bound => old.push(binding.name.to_owned()),
        }
    }
    if !old.is_empty() {
        old.sort_unstable();
        return Err(Halt::OldPolicy(old));
    }
    if targets.is_empty() && leaving.is_empty() {
        let key = run.key(policy.name);
        return Err(Abort::NoBindings { key }.into());
    }
    let found = i64::try_from(targets.len()).unwrap_or(i64::MAX);
    if count == ALL {
        record_count(status, found);
    } else if count != found {
        let abort = Abort::BindingCount {
            bindings: targets.len(),
            clusters: count,
        };
        return Err(abort.into());
    }
    Ok((targets, leaving))
}

fn strategy(
    run: &Run<'_>,
    inputs: &Inputs<'_>,
    targets: &BTreeSet<&str>,
    status: &mut UpdateRunStatus,
) -> Result<(), Halt> {
    let strategy = inputs.strategy.ok_or_else(|| Abort::StrategyNotFound {
        key: run.key(&run.spec.staged_rollout_strategy_name),
    })?;
    let mut recorded = strategy.clone();
    drop_waits_of_approvals(&mut recorded);
    status.staged_update_strategy_snapshot = Some(recorded);
    let sources = settings(run, inputs, None, status)?;
    let stages = stages::assign(run, strategy, inputs.members, targets)?;
    let clusters = stages.iter().flat_map(|stage| &stage.clusters);
    let placed: BTreeSet<_> = clusters.map(|cluster| cluster.cluster_name.as_str()).collect();
    let unplaced: Vec<_> = targets
        .difference(&placed)
        .map(|cluster| (*cluster).to_owned())
        .collect();
    status.stages_status = stages;
    unassigned::settle(run, unplaced, targets.len(), &sources, status)?;
    gates::place(run, &sources, status)?;
    Ok(())
}

/// An approval has no time to wait; older releases let one in.
pub(super) fn drop_waits_of_approvals(strategy: &mut UpdateStrategySpec) {
    for stage in &mut strategy.stages {
        let tasks = stage.before_stage_tasks.iter_mut().chain(&mut stage.after_stage_tasks);
        for task in tasks.filter(|task| task.type_ == StageTaskType::Approval) {
            task.wait_time = None;
        }
    }
}

/// Missing parts may still come. Without them nobody knows which overrides matter, and no cluster can be given the rest.
fn complete(snapshot: Snapshot<'_>) -> Result<(), Halt> {
    let Snapshot::Incomplete(error) = snapshot else {
        return Ok(());
    };
    let error = error.to_owned();
    Err(Halt::Lacking(Abort::Invalid { error }))
}

/// The index of the snapshots to roll out.
fn snapshot(run: &Run<'_>, snapshot: Snapshot<'_>) -> Result<String, Halt> {
    let key = || run.key(&run.spec.placement_name);
    let asked = run.spec.resource_snapshot_index.as_str();
    let asked = if asked.is_empty() {
        None
    } else {
        let number = number::parse(asked).ok().and_then(|number| u64::try_from(number).ok());
        Some(number.ok_or_else(|| Abort::SnapshotIndex {
            index: asked.to_owned(),
        })?)
    };
    match (snapshot, asked) {
        (Snapshot::Group { hash: None, .. }, _) => Err(Abort::NoMasterSnapshot { key: key() }.into()),
        (Snapshot::Group { index, .. }, _) => Ok(index.to_owned()),
        (Snapshot::Missing | Snapshot::NotTaken, Some(index)) => Err(Abort::NoSnapshots { index, key: key() }.into()),
        (Snapshot::Missing | Snapshot::NotTaken, None) => Err(Halt::TakeSnapshot),
        (Snapshot::Invalid(error) | Snapshot::Incomplete(error), _) => Err(Abort::Invalid {
            error: error.to_owned(),
        }
        .into()),
    }
}

/// The overrides on each cluster of the strategy's stages, recorded once.
fn overrides(inputs: &Inputs<'_>, status: &mut UpdateRunStatus) -> Result<(), Halt> {
    let mut stages = status.stages_status.clone();
    for cluster in stages.iter_mut().flat_map(|stage| &mut stage.clusters) {
        let lists = (inputs.overrides)(&cluster.cluster_name).map_err(|error| Abort::Invalid { error })?;
        cluster.cluster_resource_override_snapshots = lists.cluster_wide;
        cluster.resource_override_snapshots = lists.namespaced;
    }
    status.stages_status = stages;
    Ok(())
}
