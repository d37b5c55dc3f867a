//! A row for each update run.

use fleet_api::conditions::update_run::{Initialized, Progressing, Succeeded};
use fleet_api::conditions::update_stage::{
    ApprovalRequestApproved, ClusterStarted, ClusterSucceeded, Succeeded as StageSucceeded, WaitTimeElapsed,
};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{
    ClusterUpdatingStatus, StageStatus, StageTaskStatus, StageTaskType, UpdateRunState, UpdateRunStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;

use super::super::chain::Verdict;
use super::super::fleet::{Fleet, Run, holds};
use super::super::names::{Names, clusters, few};
use super::super::run::{approve, is_rolling_back, is_stuck, used_budget, waiting_gate, window_said};
use crate::updaterun;

/// An update run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// As kubectl takes it.
    pub name: String,
    /// The placement that it updates, as kubectl takes it.
    pub placement: String,
    /// How it is.
    pub verdict: Verdict,
    /// The stage that it is at; empty before the first and after the last.
    pub stage: String,
    /// What it does or waits for.
    pub text: String,
    /// The clusters that are updated.
    pub updated: usize,
    /// The clusters of its plan.
    pub clusters: usize,
    /// Whether it has ended, well or not.
    pub ended: bool,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// The command to type next; empty if nothing is to be done.
    pub next: String,
}

/// A row for each update run of the family.
pub fn runs(fleet: &Fleet<'_>) -> Vec<RunRow> {
    fleet.runs.iter().map(|run| of_run(fleet, run)).collect()
}

/// How something is, in words, and the command to type next.
type Said = (Verdict, String, String);

fn of_run(fleet: &Fleet<'_>, run: &Run<'_>) -> RunRow {
    let names = Names {
        run: run.name(),
        placement: &run.spec.placement_name,
        ..fleet.names()
    };
    let none = UpdateRunStatus::default();
    let status = run.status.unwrap_or(&none);
    let stages = || status.stages_status.iter().chain(&status.deletion_stage_status);
    let planned = || stages().flat_map(|stage| &stage.clusters);
    let updated = planned().filter(|cluster| is_updated(cluster)).count();
    let why = names.fill("kubectl fleet why {run}{n}");
    let found = |type_name| conditions::find(&status.conditions, type_name).map(Status::of);
    let ended = matches!(found(Succeeded::TYPE), Some(Status::True | Status::False))
        || found(Initialized::TYPE) == Some(Status::False);
    let rolls_back = is_rolling_back(status);
    // Of a run that rolls back the stage counts that has set it off.
    let at_hand = stages().find(|stage| {
        let end = conditions::find(&stage.conditions, StageSucceeded::TYPE).map(Status::of);
        if rolls_back {
            end == Some(Status::False)
        } else {
            stage.end_time.is_none()
        }
    });
    let (verdict, text, next) = match (found(Initialized::TYPE), found(Succeeded::TYPE)) {
        (_, Some(Status::True)) => (Verdict::Done, "done".to_owned(), String::new()),
        (Some(Status::False), _) => (Verdict::Failed, "it could not begin".to_owned(), why),
        (_, Some(Status::False)) => (Verdict::Failed, "it has failed and cannot go on".to_owned(), why),
        (None | Some(Status::Unknown), _) => (Verdict::Waiting, "it has no plan yet".to_owned(), why),
        (Some(Status::True), _) => match run.spec.state {
            UpdateRunState::Initialize => (Verdict::Waiting, "it waits for spec.state: Run".to_owned(), why),
            UpdateRunState::Stop => (Verdict::Waiting, "somebody has stopped it".to_owned(), why),
            UpdateRunState::Run if rolls_back => (Verdict::Waiting, own_words(status), why),
            UpdateRunState::Run => at_hand.map_or_else(
                || (Verdict::Waiting, "it is about to end".to_owned(), why.clone()),
                |stage| at(run, status, stage, &names),
            ),
        },
    };
    RunRow {
        name: names.fill("{run}{n}"),
        placement: names.fill("{placement}{n}"),
        verdict,
        stage: at_hand
            .filter(|_| !ended)
            .map(|stage| stage.stage_name.clone())
            .unwrap_or_default(),
        text,
        updated,
        clusters: planned().count(),
        ended,
        created: run.meta.creation_timestamp.clone(),
        next,
    }
}

fn is_updated(cluster: &ClusterUpdatingStatus) -> bool {
    holds(&cluster.conditions, ClusterSucceeded::TYPE)
}

fn has_failed(cluster: &ClusterUpdatingStatus) -> bool {
    let condition = conditions::find(&cluster.conditions, ClusterSucceeded::TYPE);
    condition.is_some_and(|condition| Status::of(condition) == Status::False)
}

/// What a run says of what it does, as one says it of something that has a name already.
fn own_words(status: &UpdateRunStatus) -> String {
    let said = conditions::find(&status.conditions, Progressing::TYPE);
    let message = said.map(|said| said.message.as_str()).unwrap_or_default();
    let rest = ["The update run is ", "The updateRun is "]
        .iter()
        .find_map(|lead| message.strip_prefix(lead));
    rest.map_or_else(|| message.to_owned(), |rest| format!("it is {rest}"))
}

/// What a stage that has not ended does or waits for.
fn at(run: &Run<'_>, status: &UpdateRunStatus, stage: &StageStatus, names: &Names<'_>) -> Said {
    let (verdict, mut text, next) = waits_for(run, status, stage, names);
    // The clusters of the last stage, which are removed, do not count.
    let is_planned = status
        .stages_status
        .iter()
        .any(|planned| planned.stage_name == stage.stage_name);
    if let Some(failures) = updaterun::failures(status).filter(|_| is_planned) {
        text = format!("{text}; {}", used_budget(&failures));
    }
    (verdict, text, next)
}

fn waits_for(run: &Run<'_>, status: &UpdateRunStatus, stage: &StageStatus, names: &Names<'_>) -> Said {
    let why = || names.fill("kubectl fleet why {run}{n}");
    // Where failures are counted a cluster that has failed is done with.
    let counts = updaterun::failures(status).is_some();
    let is_left = |cluster: &&ClusterUpdatingStatus| !(is_updated(cluster) || counts && has_failed(cluster));
    let left: Vec<_> = stage.clusters.iter().filter(is_left).collect();
    let has_begun = |list: &[Condition]| conditions::find(list, ClusterStarted::TYPE).is_some();
    let begun = stage.clusters.iter().any(|cluster| has_begun(&cluster.conditions));
    let tasks = match (left.is_empty(), begun) {
        (true, _) => Some(("after", &stage.after_stage_task_status)),
        (false, false) => Some(("before", &stage.before_stage_task_status)),
        (false, true) => None,
    };
    if let Some((when, tasks)) = tasks {
        let is_open = |task: &&StageTaskStatus| {
            !holds(&task.conditions, ApprovalRequestApproved::TYPE) && !holds(&task.conditions, WaitTimeElapsed::TYPE)
        };
        if let Some(task) = tasks.iter().find(is_open) {
            if task.type_ == StageTaskType::TimedWait {
                return (Verdict::Waiting, "it waits for its time to pass".to_owned(), why());
            }
            let request = task.approval_request_name.as_str();
            return (
                Verdict::Waiting,
                format!("nobody has approved {request}"),
                approve(request, names),
            );
        }
        let is_over = when == "before" && stage.start_time.is_some();
        if let Some(gate) = waiting_gate(run, stage, when).filter(|_| !is_over) {
            return (Verdict::Waiting, format!("it {}", gate.text), gate.next);
        }
    }
    if let Some(failed) = left.iter().find(|cluster| has_failed(cluster)) {
        return (Verdict::Failed, format!("{} has failed", failed.cluster_name), why());
    }
    let under_way = left.iter().filter(|cluster| has_begun(&cluster.conditions));
    let under_way = few(under_way.map(|cluster| cluster.cluster_name.as_str()));
    if is_stuck(status, stage) {
        return (Verdict::Failed, format!("it is stuck at {under_way}"), why());
    }
    if window_said(status, stage).is_some() {
        return (Verdict::Waiting, own_words(status), why());
    }
    let text = match under_way.as_str() {
        _ if left.is_empty() => "the stage is about to end".to_owned(),
        "" => format!("{} to update", clusters(left.len())),
        some => format!("it updates {some}"),
    };
    (Verdict::Waiting, text, why())
}
