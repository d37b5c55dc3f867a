//! What a stage waits for before and after its clusters: approvals and waits.

use fleet_api::conditions::approval_request::Approved;
use fleet_api::conditions::update_stage::{ApprovalRequestApproved, ClusterSucceeded, WaitTimeElapsed};
use fleet_api::conditions::{self, Status};
use fleet_api::names::Scope;
use fleet_api::placement::{StageStatus, StageTaskStatus, StageTaskType};
use jiff::Timestamp;

use super::super::chain::{Cause, Step};
use super::super::fleet::{Fleet, Run, holds, span};
use super::super::names::Names;
use super::super::shell::quoted;
use crate::updaterun::duration;

pub(super) fn before(fleet: &Fleet<'_>, stage: &StageStatus, names: &Names<'_>) -> Vec<Step> {
    let tasks = stage.before_stage_task_status.iter();
    let name = format!("approval before stage {}", stage.stage_name);
    tasks.map(|task| approval(fleet, &name, stage, task, names)).collect()
}

pub(super) fn after(fleet: &Fleet<'_>, run: &Run<'_>, stage: &StageStatus, names: &Names<'_>) -> Vec<Step> {
    let tasks = stage.after_stage_task_status.iter();
    let step = |task: &StageTaskStatus| match task.type_ {
        StageTaskType::Approval => {
            let name = format!("approval after stage {}", stage.stage_name);
            approval(fleet, &name, stage, task, names)
        }
        StageTaskType::TimedWait => wait(fleet, run, stage, task, names),
        StageTaskType::Unknown(ref word) => Step::failed(
            format!("task {word}"),
            Cause::new(
                "this version does not know the task: the hub agent is older than the strategy",
                "kubectl fleet check",
            ),
        ),
    };
    tasks.map(step).collect()
}

fn wait(fleet: &Fleet<'_>, run: &Run<'_>, stage: &StageStatus, task: &StageTaskStatus, names: &Names<'_>) -> Step {
    let name = format!("wait after stage {}", stage.stage_name);
    if holds(&task.conditions, WaitTimeElapsed::TYPE) {
        return Step::done(name, "");
    }
    let strategy = run
        .status
        .and_then(|status| status.staged_update_strategy_snapshot.as_ref());
    let spec = strategy.and_then(|strategy| strategy.stages.iter().find(|spec| spec.name == stage.stage_name));
    let asked = spec.and_then(|spec| spec.after_stage_tasks.iter().find(|asked| asked.type_ == task.type_));
    let asked = asked.and_then(|asked| asked.wait_time.as_deref());
    let left = asked.and_then(duration).zip(last_success(stage)).map(|(wait, since)| {
        let passed = fleet.now.duration_since(since);
        wait.saturating_sub(passed)
    });
    let text = match (left, asked) {
        (Some(left), Some(asked)) => format!("{} left of {asked}", span(left)),
        _ => "the wait is not over".to_owned(),
    };
    Step::waiting(
        name,
        Cause::new(text, names.fill("kubectl fleet rollout watch {run}{n}")),
    )
}

/// When the last cluster of the stage was done: a wait counts from then.
fn last_success(stage: &StageStatus) -> Option<Timestamp> {
    let ends = stage.clusters.iter();
    let ends = ends.filter_map(|cluster| conditions::find(&cluster.conditions, ClusterSucceeded::TYPE));
    ends.map(|condition| condition.last_transition_time.0).max()
}

fn approval(fleet: &Fleet<'_>, name: &str, stage: &StageStatus, task: &StageTaskStatus, names: &Names<'_>) -> Step {
    if holds(&task.conditions, ApprovalRequestApproved::TYPE) {
        return Step::done(name, "");
    }
    let request = task.approval_request_name.as_str();
    let approve = approve(request, names);
    let Some(found) = fleet.approvals.iter().find(|found| found.name() == request) else {
        let text = format!("the hub agent has not asked for the approval {request} yet");
        return Step::waiting(name, Cause::new(text, "kubectl -n fleet-system logs deploy/hub-agent"));
    };
    if found.spec.parent_stage_rollout != names.run || found.spec.target_stage != stage.stage_name {
        let text = format!(
            "the request {request} is about run {} and stage {}: it was not made for this run",
            found.spec.parent_stage_rollout, found.spec.target_stage
        );
        let kind = kind(names);
        return Step::failed(
            name,
            Cause::new(
                text,
                format!("kubectl delete {kind} {}{}", quoted(request), names.fill("{n}")),
            ),
        );
    }
    let list = found
        .status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let given = conditions::find(list, Approved::TYPE).filter(|condition| Status::of(condition) == Status::True);
    let (wanted, observed) = (
        found.generation(),
        given.map(|condition| condition.observed_generation.unwrap_or_default()),
    );
    match observed {
        Some(observed) if observed != wanted => {
            let text = format!(
                "the approval of {request} does not count: it is for generation {observed}, and the request has generation \
                 {wanted}"
            );
            Step::failed(name, Cause::new(text, approve))
        }
        Some(_) => Step::waiting(
            name,
            Cause::new(
                format!("{request} is approved; the run is about to go on"),
                names.fill("kubectl fleet rollout watch {run}{n}"),
            ),
        ),
        None => Step::waiting(name, Cause::new(format!("nobody has approved {request}"), approve)),
    }
    .since(found.meta.creation_timestamp.as_ref())
}

fn kind(names: &Names<'_>) -> &'static str {
    match names.scope() {
        Scope::Cluster => "clusterapprovalrequest",
        Scope::Namespaced => "approvalrequest",
    }
}

/// The command that approves a request.
pub(in crate::explain) fn approve(request: &str, names: &Names<'_>) -> String {
    format!(
        "kubectl fleet approve {} --name {}{}",
        kind(names),
        quoted(request),
        names.fill("{n}")
    )
}
