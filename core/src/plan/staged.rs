//! What a staged run would do, and what one that has begun still has to.

use std::collections::BTreeMap;

use fleet_api::annotations;
use fleet_api::conditions::error_class::ErrorClass;
use fleet_api::conditions::update_run::{Abort, Initialized};
use fleet_api::conditions::update_stage::{ApprovalRequestApproved, ClusterStarted, ClusterSucceeded, WaitTimeElapsed};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{
    Gate, StageStatus, StageTaskStatus, StageTaskType, UpdateRunSpec, UpdateRunStatus, UpdateStrategySpec,
};
use jiff::Timestamp;

use super::Walk;
use super::answer::{Resources, Run, StageLeft};
use super::picking::Picked;
use super::resources::Then;
use crate::updaterun::{self, Binding, Inputs, Members, Memory, Moment, Outline, Placement, PolicySnapshot, Snapshot};

/// The run that is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name of the update strategy.
    pub strategy: &'a str,
    /// The strategy, if it is there.
    pub spec: Option<&'a UpdateStrategySpec>,
    /// Its annotations, some of which are settings of its runs.
    pub settings: Option<&'a BTreeMap<String, String>>,
    /// The index of the resources to roll out; none for what is selected now.
    pub index: Option<&'a str>,
    /// The run itself, if somebody has written it already.
    pub run: Option<Written<'a>>,
}

/// A run that somebody has written.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its annotations: its own settings come before those of its strategy.
    pub annotations: &'a BTreeMap<String, String>,
    /// The run that it is to try again, if it names one that is there.
    pub retried: Option<updaterun::Run<'a>>,
}

/// The run's plan, made by the function that makes it on the hub.
pub(super) fn plan(
    walk: &Walk<'_, '_>,
    picked: &Picked,
    resources: &Resources,
    then: Option<&Then>,
    request: &Request<'_>,
) -> Run {
    let world = walk.world;
    let spec = UpdateRunSpec {
        placement_name: world.key.name().to_owned(),
        resource_snapshot_index: request.index.unwrap_or_default().to_owned(),
        staged_rollout_strategy_name: request.strategy.to_owned(),
        ..UpdateRunSpec::default()
    };
    let none = UpdateRunStatus::default();
    // Which plan was approved is no part of the plan: it is compared in the end, so that the hash is known if it differs.
    let mut own = request.run.map(|run| run.annotations.clone());
    let approved = own.as_mut().and_then(|own| own.remove(annotations::PLAN));
    let run = updaterun::Run {
        name: request.run.map_or("plan", |run| run.name),
        namespace: world.key.namespace().unwrap_or_default(),
        uid: "",
        generation: 1,
        annotations: own.as_ref(),
        spec: &spec,
        status: &none,
    };
    let is_there = request.index.is_none() || then.is_some();
    let index = resources.index.to_string();
    let policy = &picked.snapshot;
    let policies = [PolicySnapshot::of(&policy.meta, &policy.spec, policy.status.as_ref())];
    let bindings: Vec<_> = picked
        .bindings
        .iter()
        .map(|binding| Binding::of(&binding.meta, &binding.spec, binding.status.as_ref()))
        .collect();
    let members: Members<'_> = walk.labels.iter().map(|(name, labels)| (*name, *labels)).collect();
    let inputs = Inputs {
        placement: Some(Placement::of(world.placement.meta, world.placement.spec)),
        policies: &policies,
        bindings: &bindings,
        members: &members,
        strategy: request.spec,
        settings: request.settings,
        retried: request.run.and_then(|run| run.retried),
        snapshot: if is_there {
            Snapshot::Group {
                index: &index,
                hash: then
                    .is_none_or(|then| then.has_master)
                    .then_some(resources.hash.as_str()),
            }
        } else {
            Snapshot::Missing
        },
        overrides: &|cluster| walk.lists(cluster).map_err(|error| ErrorClass::User.prefix(error)),
    };
    // Nobody waits here for what is not there: it counts as missing for long enough.
    let memory = Memory {
        lacking_since: Some(Timestamp::MIN),
        ..Memory::default()
    };
    let at = Moment {
        now: world.now,
        steady: world.now,
    };
    let planned = updaterun::plan(&run, &inputs, &memory, at);
    let (status, problem) = match planned.plan {
        updaterun::Plan::Ready(status) => (Some(status), None),
        updaterun::Plan::Failed(status) => {
            let said = conditions::find(&status.conditions, Initialized::TYPE);
            let why = said.map(|condition| condition.message.clone()).unwrap_or_default();
            (Some(status), Some(why))
        }
        updaterun::Plan::Wait { .. } | updaterun::Plan::TakeSnapshot => {
            (None, Some("the scheduler has yet to look at the placement".to_owned()))
        }
    };
    let outline = status.map(|status| Outline::of(&status, &bindings, &resources.hash));
    let hash = outline.as_ref().filter(|_| problem.is_none()).map(Outline::hash);
    let differs = |outline: &Outline| {
        let difference = outline.first_difference(approved.as_deref()?)?;
        Some(Abort::PlanDiffers { difference }.message())
    };
    let problem = problem.or_else(|| outline.as_ref().and_then(differs));
    Run {
        strategy: request.strategy.to_owned(),
        outline,
        hash: hash.unwrap_or_default(),
        problem,
    }
}

/// What a run that has a plan still has to do, stage by stage.
pub fn left(status: &UpdateRunStatus) -> Vec<StageLeft> {
    let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
    let gates = status.options.as_ref().map(|options| options.gates.as_slice());
    stages
        .map(|stage| stage_left(stage, gates.unwrap_or_default()))
        .collect()
}

fn stage_left(stage: &StageStatus, gates: &[Gate]) -> StageLeft {
    let mut left = StageLeft {
        name: stage.stage_name.clone(),
        done: 0,
        failed: Vec::new(),
        updating: Vec::new(),
        waiting: Vec::new(),
        tasks: Vec::new(),
    };
    for cluster in &stage.clusters {
        let said = |type_name| conditions::find(&cluster.conditions, type_name).map(Status::of);
        if said(ClusterSucceeded::TYPE) == Some(Status::True) {
            left.done += 1;
        } else if said(ClusterSucceeded::TYPE) == Some(Status::False) {
            left.failed.push(cluster.cluster_name.clone());
        } else if said(ClusterStarted::TYPE) == Some(Status::True) {
            left.updating.push(cluster.cluster_name.clone());
        } else {
            left.waiting.push(cluster.cluster_name.clone());
        }
    }
    let before = stage.before_stage_task_status.iter().map(|task| ("before", task));
    let after = stage.after_stage_task_status.iter().map(|task| ("after", task));
    let tasks = before.chain(after).filter_map(|(when, task)| task_left(when, task));
    let closed = gates
        .iter()
        .filter(|gate| gate.stage == stage.stage_name && gate.passed.is_none());
    let closed = closed.map(|gate| format!("{} it: the gate {}", gate.when, updaterun::shown_gate(gate)));
    left.tasks = tasks.chain(closed).collect();
    left
}

impl StageLeft {
    /// Whether nothing of it is left to do or to wait for, and no cluster has failed.
    pub fn is_done(&self) -> bool {
        let Self {
            name: _,
            done: _,
            failed,
            updating,
            waiting,
            tasks,
        } = self;
        failed.is_empty() && updating.is_empty() && waiting.is_empty() && tasks.is_empty()
    }
}

fn task_left(when: &str, task: &StageTaskStatus) -> Option<String> {
    let holds = |type_name| {
        let said = conditions::find(&task.conditions, type_name);
        said.is_some_and(|condition| Status::of(condition) == Status::True)
    };
    match task.type_ {
        StageTaskType::Approval if holds(ApprovalRequestApproved::TYPE) => None,
        StageTaskType::Approval => Some(format!("{when} it: the approval {}", task.approval_request_name)),
        StageTaskType::TimedWait if holds(WaitTimeElapsed::TYPE) => None,
        StageTaskType::TimedWait => Some(format!("{when} it: a wait")),
        StageTaskType::Unknown(_) => Some(format!("{when} it: {}", task.type_.as_str())),
    }
}
