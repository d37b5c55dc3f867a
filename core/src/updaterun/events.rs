//! Events of a status that has changed: what a run's stored status told before is not told again, also after a restart.

use fleet_api::conditions::update_run::{Initialized, Progressing, Succeeded};
use fleet_api::conditions::update_stage::{
    self as stage, ApprovalRequestApproved, ApprovalRequestCreated, ClusterSucceeded,
};
use fleet_api::conditions::{self, Status, Words as _};
use fleet_api::events::UpdateRunEvent;
use fleet_api::placement::{StageStatus, StageTaskStatus, UpdateRunStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::state::is_true;
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
    if was_stopping(old) && !was_stopping(new) && conditions::find(&new.conditions, Succeeded::TYPE).is_none() {
        events.push(UpdateRunEvent::Resumed);
    }
    let none = StageStatus::default();
    let mut before = old.stages_status.iter().chain(&old.deletion_stage_status);
    for after in new.stages_status.iter().chain(&new.deletion_stage_status) {
        of_stage(before.next().unwrap_or(&none), after, &mut events);
    }
    if let Some(progressing) = changed(&old.conditions, &new.conditions, Progressing::TYPE)
        && progressing.reason == Progressing::Stopped.reason()
    {
        events.push(UpdateRunEvent::Stopped);
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
    of_tasks(
        &old.before_stage_task_status,
        &new.before_stage_task_status,
        &stage,
        events,
    );
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
        let skipped = [ClusterSucceeded::SkippedNotSelected, ClusterSucceeded::SkippedSelected];
        if skipped.iter().any(|state| state.reason() == ended.reason) {
            events.push(UpdateRunEvent::ClusterSkipped {
                cluster: cluster.cluster_name.clone(),
                stage: stage(),
                why: ended.message.clone(),
            });
        }
    }
    of_tasks(
        &old.after_stage_task_status,
        &new.after_stage_task_status,
        &stage,
        events,
    );
    if let Some(ended) = changed(&old.conditions, &new.conditions, stage::Succeeded::TYPE) {
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
