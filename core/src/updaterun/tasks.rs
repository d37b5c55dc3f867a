//! What must happen before and after a stage: approvals and waits.

use fleet_api::conditions::approval_request::{ApprovalAccepted, Approved};
use fleet_api::conditions::update_run::Abort;
use fleet_api::conditions::update_stage::{
    ApprovalRequestApproved, ApprovalRequestCreated, ClusterSucceeded, WaitTimeElapsed,
};
use fleet_api::conditions::{self, Status};
use fleet_api::events::{Event as _, UpdateRunEvent};
use fleet_api::labels;
use fleet_api::placement::{Stage, StageStatus, StageTaskStatus, StageTaskType};
use jiff::{SignedDuration, Timestamp};

use super::pass::Pass;
use super::state::is_true;
use super::step::{ApprovalWrite, NewApproval, On, Told};
use super::world::Approval;
use super::{later, number};

/// Whether the stage may start.
pub(super) fn before(pass: &mut Pass<'_>, stage: &mut StageStatus) -> Result<bool, Abort> {
    let mut approved = true;
    for task in &mut stage.before_stage_task_status {
        approved &= approval(pass, &stage.stage_name, task, labels::BEFORE_STAGE)?;
    }
    Ok(approved)
}

/// Whether the stage, all of whose clusters are done, may end. All tasks are looked at, so that an approval is asked for
/// while a wait is running.
pub(super) fn after(pass: &mut Pass<'_>, stage: &mut StageStatus, spec: &Stage) -> Result<bool, Abort> {
    let since = last_success(stage);
    let mut done = true;
    for task in &mut stage.after_stage_task_status {
        done &= match task.type_ {
            StageTaskType::Approval => approval(pass, &stage.stage_name, task, labels::AFTER_STAGE)?,
            StageTaskType::TimedWait => timed_wait(pass, &stage.stage_name, task, spec, since),
            // A newer release asks for something that this one cannot judge.
            StageTaskType::Unknown(_) => false,
        };
    }
    Ok(done)
}

/// A wait counts from the moment at which the stage's last cluster was done. Nothing that happens to the run later moves
/// it, a stop included.
fn timed_wait(
    pass: &mut Pass<'_>,
    stage: &str,
    task: &mut StageTaskStatus,
    spec: &Stage,
    since: Option<Timestamp>,
) -> bool {
    if is_true(&task.conditions, WaitTimeElapsed::TYPE) {
        return true;
    }
    let asked = spec.after_stage_tasks.iter().find(|asked| asked.type_ == task.type_);
    let wait = asked
        .and_then(|asked| asked.wait_time.as_deref())
        .and_then(number::duration);
    let since = since.map_or(pass.now(), |since| pass.since(&format!("wait {stage}"), since));
    let end = later(since, wait.unwrap_or(SignedDuration::ZERO));
    if pass.now() < end {
        pass.step.look_at(end);
        return false;
    }
    pass.pen.set(&mut task.conditions, &WaitTimeElapsed::Elapsed);
    true
}

fn last_success(stage: &StageStatus) -> Option<Timestamp> {
    let ends = stage.clusters.iter();
    let ends = ends.filter_map(|cluster| conditions::find(&cluster.conditions, ClusterSucceeded::TYPE));
    ends.map(|condition| condition.last_transition_time.0).max()
}

/// Whether the task is approved. What was accepted once stays so; the request is not looked at again.
fn approval(pass: &mut Pass<'_>, stage: &str, task: &mut StageTaskStatus, task_type: &str) -> Result<bool, Abort> {
    if is_true(&task.conditions, ApprovalRequestApproved::TYPE) {
        return Ok(true);
    }
    let name = task.approval_request_name.clone();
    let Some(request) = pass.world.approvals.iter().find(|request| request.name == name) else {
        if !pass.world.refused.approvals.contains(&name) {
            ask(pass, stage, task, task_type);
        }
        return Ok(false);
    };
    pass.pen.set(&mut task.conditions, &ApprovalRequestCreated::Created);
    check_target(pass, stage, request)?;
    let says = |type_name| conditions::is_true(request.conditions, type_name, request.generation);
    if !says(ApprovalAccepted::TYPE) {
        if !says(Approved::TYPE) {
            tell_stale(pass, request);
            return Ok(false);
        }
        if pass.world.refused.approvals.contains(&name) {
            return Ok(false);
        }
        pass.step.approvals.push(ApprovalWrite::Accept { name: name.clone() });
    }
    pass.memory.told.remove(&name);
    pass.pen.set(&mut task.conditions, &ApprovalRequestApproved::Approved);
    Ok(true)
}

/// Asks for the approval, also when the request was deleted before it was accepted.
fn ask(pass: &mut Pass<'_>, stage: &str, task: &mut StageTaskStatus, task_type: &str) {
    let request = task.approval_request_name.clone();
    let new = NewApproval::new(&pass.run, &request, stage, task_type);
    pass.step.approvals.push(ApprovalWrite::Create(new));
    if is_true(&task.conditions, ApprovalRequestCreated::TYPE) {
        let stage = stage.to_owned();
        pass.step.tell(UpdateRunEvent::ApprovalNeeded { request, stage });
    }
    pass.pen.set(&mut task.conditions, &ApprovalRequestCreated::Created);
}

/// An object of the right name about something else was not made for this task.
fn check_target(pass: &Pass<'_>, stage: &str, request: &Approval<'_>) -> Result<(), Abort> {
    let (found_run, found_stage) = (&request.spec.parent_stage_rollout, &request.spec.target_stage);
    if found_run == pass.run.name && found_stage == stage {
        return Ok(());
    }
    Err(Abort::ForeignApproval {
        task: pass.run.key(request.name),
        found_run: pass.run.key(found_run),
        found_stage: found_stage.clone(),
        run: pass.run.key(pass.run.name),
        stage: stage.to_owned(),
    })
}

/// An approval of another generation does not count. Nothing else would tell its author.
fn tell_stale(pass: &mut Pass<'_>, request: &Approval<'_>) {
    let approved = conditions::find(request.conditions, Approved::TYPE);
    let Some(approved) = approved.filter(|condition| Status::of(condition) == Status::True) else {
        return;
    };
    let event = UpdateRunEvent::ApprovalStale {
        request: request.name.to_owned(),
        observed: approved.observed_generation.unwrap_or_default(),
        generation: request.generation,
    };
    if pass.memory.tells(request.name, event.message()) {
        pass.step.tell(event.clone());
        pass.step.events.push(Told {
            on: On::Approval(request.name.to_owned()),
            event,
        });
    }
}
