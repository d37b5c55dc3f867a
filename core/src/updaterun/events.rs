//! Events of a status that has changed: what a run's stored status told before is not told again, also after a restart.

use fleet_api::conditions::update_run::{Initialized, Progressing, Succeeded};
use fleet_api::conditions::update_stage::{
    self as stage, ApprovalRequestApproved, ApprovalRequestCreated, ClusterSucceeded,
};
use fleet_api::conditions::{self, Status, Words as _};
use fleet_api::events::UpdateRunEvent;
use fleet_api::placement::{StageStatus, StageTaskStatus, UpdateRunOptions, UpdateRunStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::state::{is_true, status_of};
use super::step::Told;

/// What to tell of the way from one status to the next.
pub(super) fn between(old: &UpdateRunStatus, new: &UpdateRunStatus) -> Vec<Told> {
    let mut events = Vec::new();
    if let Some(initialized) = changed(&old.conditions, &new.conditions, Initialized::TYPE) {
        events.push(match Status::of(initialized) {
            Status::True => UpdateRunEvent::Initialized,
            _ => UpdateRunEvent::InitializationFailed {
                error: initialized.message.clone(),
            },
        });
    }
    if let Some(options) = new.options.as_ref().filter(|_| old.options.is_none())
        && !options.unassigned.is_empty()
    {
        let clusters = options.unassigned.clone();
        events.push(UpdateRunEvent::ClustersUnassigned { clusters });
    }
    if let Some(options) = new.options.as_ref().filter(|_| old.options.is_none())
        && is_true(&new.conditions, Initialized::TYPE)
    {
        events.extend(without_budget(options));
    }
    if was_stopping(old) && !was_stopping(new) && conditions::find(&new.conditions, Succeeded::TYPE).is_none() {
        events.push(UpdateRunEvent::Resumed);
    }
    let none = StageStatus::default();
    let mut before = old.stages_status.iter().chain(&old.deletion_stage_status);
    for after in new.stages_status.iter().chain(&new.deletion_stage_status) {
        of_stage(before.next().unwrap_or(&none), after, &mut events);
    }
    if let Some(progressing) = changed(&old.conditions, &new.conditions, Progressing::TYPE) {
        events.extend(of_run(old, new, progressing));
    }
    if let Some(ended) = changed(&old.conditions, &new.conditions, Succeeded::TYPE) {
        events.push(match Status::of(ended) {
            Status::True => UpdateRunEvent::Succeeded,
            _ => UpdateRunEvent::Failed {
                error: ended.message.clone(),
            },
        });
    }
    events.into_iter().map(Told::on_run).collect()
}

/// What a user may have wished for who gave no budget.
fn without_budget(options: &UpdateRunOptions) -> Option<UpdateRunEvent> {
    if !options.max_failures.is_empty() {
        return None;
    }
    let deadline = (!options.cluster_deadline.is_empty()).then_some("cluster-deadline does nothing");
    let by_gate = options.gates.iter().any(|gate| !gate.fail_on.is_empty());
    let rollback = (options.on_failure == "Rollback").then_some(if by_gate {
        "on-failure: Rollback waits for a gate to fail"
    } else {
        "on-failure: Rollback waits for somebody to ask for it"
    });
    let without_effect: Vec<_> = deadline.into_iter().chain(rollback).collect();
    (!without_effect.is_empty()).then(|| UpdateRunEvent::NoFailureBudget {
        without_effect: without_effect.join(" and "),
    })
}

/// What `Progressing` of the run tells anew.
fn of_run(old: &UpdateRunStatus, new: &UpdateRunStatus, progressing: &Condition) -> Option<UpdateRunEvent> {
    let rolling_back = Progressing::RollingBack { restored: 0, of: 0 }.reason();
    if progressing.reason == Progressing::Stopped.reason() {
        return Some(UpdateRunEvent::Stopped);
    }
    if progressing.reason == rolling_back {
        let before = conditions::find(&old.conditions, Progressing::TYPE);
        let stages = new.stages_status.iter().chain(&new.deletion_stage_status);
        let mut ends = stages.filter_map(|stage| conditions::find(&stage.conditions, stage::Succeeded::TYPE));
        let failed = ends.find(|end| Status::of(end) == Status::False)?;
        let why = failed.message.clone();
        return before
            .is_none_or(|before| before.reason != rolling_back)
            .then_some(UpdateRunEvent::RollingBack { why });
    }
    let message = progressing.message.clone();
    message
        .contains(" waiting for the window of ")
        .then_some(UpdateRunEvent::WindowClosed { message })
}

fn was_stopping(status: &UpdateRunStatus) -> bool {
    let reasons = [Progressing::Stopping.reason(), Progressing::Stopped.reason()];
    conditions::find(&status.conditions, Progressing::TYPE).is_some_and(|c| reasons.contains(&c.reason.as_str()))
}

/// The condition of this type, if it says something new.
fn changed<'a>(old: &[Condition], new: &'a [Condition], type_name: &str) -> Option<&'a Condition> {
    let new = conditions::find(new, type_name)?;
    let said = |old: &Condition| (old.status.clone(), old.reason.clone(), old.message.clone());
    (conditions::find(old, type_name).map(said) != Some(said(new))).then_some(new)
}

fn of_stage(old: &StageStatus, new: &StageStatus, events: &mut Vec<UpdateRunEvent>) {
    let stage = || new.stage_name.clone();
    let tasks = |old: &[StageTaskStatus], new_tasks: &[StageTaskStatus], events: &mut Vec<UpdateRunEvent>| {
        // Nobody is asked for an approval that cannot help any more.
        if status_of(&new.conditions, stage::Succeeded::TYPE) != Some(Status::False) {
            of_tasks(old, new_tasks, &stage, events);
        }
    };
    tasks(&old.before_stage_task_status, &new.before_stage_task_status, events);
    if let Some(progressing) = changed(&old.conditions, &new.conditions, stage::Progressing::TYPE)
        && Status::of(progressing) == Status::True
    {
        events.push(UpdateRunEvent::StageStarted { stage: stage() });
    }
    for (place, cluster) in new.clusters.iter().enumerate() {
        let before = old.clusters.get(place).map(|old| old.conditions.as_slice());
        let Some(ended) = changed(before.unwrap_or_default(), &cluster.conditions, ClusterSucceeded::TYPE) else {
            continue;
        };
        let skipped = [
            ClusterSucceeded::SkippedNotSelected,
            ClusterSucceeded::SkippedSelected,
            ClusterSucceeded::SkippedUnhealthy,
        ];
        // A cluster that was taken over has an Event of its own, which names the other run.
        if Status::of(ended) == Status::False && ended.message.starts_with("the cluster ") {
            events.push(UpdateRunEvent::ClusterFailed {
                cluster: cluster.cluster_name.clone(),
                stage: stage(),
                why: ended.message.clone(),
            });
        } else if skipped.iter().any(|state| state.reason() == ended.reason) {
            events.push(UpdateRunEvent::ClusterSkipped {
                cluster: cluster.cluster_name.clone(),
                stage: stage(),
                why: ended.message.clone(),
            });
        }
    }
    tasks(&old.after_stage_task_status, &new.after_stage_task_status, events);
    // A cluster that breaks later changes the sentence; the stage has not ended anew.
    let before = conditions::find(&old.conditions, stage::Succeeded::TYPE).map(|ended| &ended.reason);
    if let Some(ended) = changed(&old.conditions, &new.conditions, stage::Succeeded::TYPE)
        && before != Some(&ended.reason)
    {
        if ended.reason == stage::Succeeded::Succeeded.reason() {
            events.push(UpdateRunEvent::StageSucceeded { stage: stage() });
        } else if ended.reason == stage::Succeeded::Skipped.reason() {
            events.push(UpdateRunEvent::StageSkipped { stage: stage() });
        }
    }
}

fn of_tasks(
    old: &[StageTaskStatus],
    new: &[StageTaskStatus],
    stage: &dyn Fn() -> String,
    events: &mut Vec<UpdateRunEvent>,
) {
    for (place, task) in new.iter().enumerate() {
        let before = old
            .get(place)
            .map(|task| task.conditions.as_slice())
            .unwrap_or_default();
        let turned = |type_name| is_true(&task.conditions, type_name) && !is_true(before, type_name);
        let request = || task.approval_request_name.clone();
        let approved = turned(ApprovalRequestApproved::TYPE);
        if turned(ApprovalRequestCreated::TYPE) && !approved {
            events.push(UpdateRunEvent::ApprovalNeeded {
                request: request(),
                stage: stage(),
            });
        }
        if approved {
            events.push(UpdateRunEvent::ApprovalAccepted {
                request: request(),
                stage: stage(),
            });
        }
    }
}
