//! What an approval would set going, as the run stands now.

use fleet_api::{
    conditions::{self, Status},
    placement::{StageStatus, StageTaskStatus, StageTaskType, UpdateRunState, UpdateRunStatus},
};
use fleet_core::updaterun::shown_gate;

use super::{asks, look, stages};
use crate::{hub::Hub, view::Name};

/// In sentences; or why there is nothing to approve.
pub(crate) fn approving(hub: &Hub, request: &Name, run: &str) -> Result<Vec<String>, String> {
    let name = Name::new(request.namespace.as_str(), run);
    let found = look(hub, &name, |spec, status| {
        let mut says = effect(status, request, run)?;
        if spec.state != UpdateRunState::Run {
            says.push(format!(
                "The run {run} is not to run now: it goes on only once it is resumed."
            ));
        }
        Ok(says)
    });
    found.unwrap_or_else(|| Err(format!("There is no run {}.", name.shown())))
}

fn effect(status: Option<&UpdateRunStatus>, request: &Name, run: &str) -> Result<Vec<String>, String> {
    let is_it = |task: &&StageTaskStatus| task.approval_request_name == request.name;
    let all: Vec<&StageStatus> = stages(status).collect();
    for (at, stage) in all.iter().enumerate() {
        let before = stage.before_stage_task_status.iter().find(is_it);
        let after = stage.after_stage_task_status.iter().find(is_it);
        let Some(task) = before.or(after) else { continue };
        if holds(task, "ApprovalRequestApproved") {
            return Err(format!("{} is approved already.", request.shown()));
        }
        if !asks(task) {
            return Err(format!("The run {run} does not ask for {} yet.", request.shown()));
        }
        let (what, when) = match (before, all.get(at + 1)) {
            (Some(_), _) => (format!("starts stage {}", stage.stage_name), "before"),
            (None, Some(next)) => (format!("goes on with stage {}", next.stage_name), "after"),
            (None, None) => ("goes on to its end".to_owned(), "after"),
        };
        let rest = waits(status, stage, task, when);
        let first = match rest.as_str() {
            "" => format!("The run {run} {what} as soon as the hub has seen it."),
            rest => format!("The run {run} {what} once this is so too: {rest}."),
        };
        return Ok(vec![first]);
    }
    Err(format!("The run {run} has no request {}.", request.shown()))
}

/// What else the stage waits for at the same place.
fn waits(status: Option<&UpdateRunStatus>, stage: &StageStatus, own: &StageTaskStatus, when: &str) -> String {
    let tasks = match when {
        "before" => &stage.before_stage_task_status,
        _ => &stage.after_stage_task_status,
    };
    let others = tasks.iter().filter(|task| !std::ptr::eq(*task, own));
    let open = others.filter_map(|task| match task.type_ {
        StageTaskType::TimedWait => (!holds(task, "WaitTimeElapsed")).then(|| "its wait is over".to_owned()),
        _ => (!holds(task, "ApprovalRequestApproved")).then(|| format!("{} is approved", task.approval_request_name)),
    });
    let options = status.and_then(|status| status.options.as_ref());
    let gates = options.into_iter().flat_map(|options| &options.gates);
    let gates = gates.filter(|gate| gate.stage == stage.stage_name && gate.when == when && gate.passed.is_none());
    let gates = gates.map(|gate| format!("{} is {}", shown_gate(gate), gate.condition));
    open.chain(gates).collect::<Vec<_>>().join(", ")
}

fn holds(task: &StageTaskStatus, type_name: &str) -> bool {
    conditions::find(&task.conditions, type_name).is_some_and(|it| Status::of(it) == Status::True)
}
