//! A stage of a run: what it waits for, and its clusters in the order in which they are updated.

use fleet_api::{
    conditions::{self, Status},
    names::DELETE_STAGE,
    placement::{ClusterUpdatingStatus, Gate, Stage, StageStatus, StageTaskStatus, StageTaskType},
};
use fleet_core::{
    explain::Run,
    updaterun::{concurrency, duration, shown_gate},
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use maud::{Markup, html};

use super::{
    super::{
        Site,
        parts::{self, Sign},
    },
    asks,
};
use crate::{
    Act,
    view::{Name, View},
};

/// Clusters of one state that are drawn; the rest is counted. A stage may have thousands.
const CLUSTERS: usize = 150;

pub(super) fn one(site: &Site<'_>, run: &Run<'_>, stage: &StageStatus, name: &Name) -> Markup {
    let sign = of(&stage.conditions, "Succeeded", "Progressing");
    let done = stage.clusters.iter().filter(|it| of_cluster(it) == parts::DONE).count();
    let title = match stage.stage_name.as_str() {
        DELETE_STAGE => "clusters that are no longer picked",
        title => title,
    };
    let begun = stage.start_time.is_some();
    html! {
        li class={ "stage " (sign.0) } id={ "stage-" (stage.stage_name) } {
            h2 { (parts::sign(sign)) (title) }
            p.count { (done) " of " (parts::many(stage.clusters.len(), "cluster")) " done" }
            @for (at, task) in stage.before_stage_task_status.iter().enumerate() {
                div id={ "before-" (at) "-" (stage.stage_name) } { (self::task(site, run, stage, task, name)) }
            }
            (gates(run, stage, "before", begun))
            (waves(run, stage, name))
            @for (at, task) in stage.after_stage_task_status.iter().enumerate() {
                div id={ "after-" (at) "-" (stage.stage_name) } { (self::task(site, run, stage, task, name)) }
            }
            (gates(run, stage, "after", stage.end_time.is_some()))
        }
    }
}

/// The clusters: those that are over, the wave that is under way, and what comes next.
fn waves(run: &Run<'_>, stage: &StageStatus, name: &Name) -> Markup {
    let of = |wanted: &[Sign]| -> Vec<&ClusterUpdatingStatus> {
        let all = stage.clusters.iter();
        all.filter(|cluster| wanted.contains(&of_cluster(cluster))).collect()
    };
    let (over, now, next) = (
        of(&[parts::DONE, parts::FAILED]),
        of(&[parts::WAITING]),
        of(&[parts::NOT_YET]),
    );
    let together = together(run, stage);
    let at_most = together
        .as_ref()
        .map(|(written, _)| format!(", at most {written} at once"));
    let waves = together
        .and_then(|(_, number)| number)
        .map(|number| next.len().div_ceil(number));
    html! {
        (wave(run, stage, name, "Over", &over, ""))
        (wave(run, stage, name, "Now", &now, at_most.as_deref().unwrap_or_default()))
        @let later = match waves {
            Some(1) | None => at_most.unwrap_or_default(),
            Some(waves) => format!("{}: {waves} waves", at_most.unwrap_or_default()),
        };
        (wave(run, stage, name, "Next", &next, &later))
    }
}

fn wave(
    run: &Run<'_>,
    stage: &StageStatus,
    name: &Name,
    word: &str,
    clusters: &[&ClusterUpdatingStatus],
    more: &str,
) -> Markup {
    let placement = || Name::new(name.namespace.as_str(), run.spec.placement_name.as_str());
    html! {
        @if !clusters.is_empty() {
            div.wave {
                p.count { (word) ": " (clusters.len()) (more) }
                ul.clusters {
                    @for cluster in clusters.iter().take(CLUSTERS) {
                        @let sign = of_cluster(cluster);
                        li class=(sign.0) id={ "cluster-" (stage.stage_name) "-" (cluster.cluster_name) } {
                            a href=(View::On(placement(), cluster.cluster_name.clone()).url()) {
                                (parts::sign(sign)) (cluster.cluster_name)
                            }
                        }
                    }
                    @if clusters.len() > CLUSTERS { li { "and " (clusters.len() - CLUSTERS) " more" } }
                }
            }
        }
    }
}

/// What the stage waits for besides its tasks. `over` if nothing asks for it any more.
fn gates(run: &Run<'_>, stage: &StageStatus, when: &str, over: bool) -> Markup {
    let options = run.status.and_then(|status| status.options.as_ref());
    let all = options.into_iter().flat_map(|options| &options.gates);
    let own = all.filter(|gate| gate.stage == stage.stage_name && gate.when == when);
    html! {
        @for gate in own { (self::gate(gate, over)) }
    }
}

fn gate(gate: &Gate, over: bool) -> Markup {
    let sign = if over || gate.passed.is_some() {
        parts::DONE
    } else {
        parts::WAITING
    };
    html! {
        div class={ "task gate " (sign.0) } {
            (parts::sign(sign)) "gate: " code { (shown_gate(gate)) } " is " (gate.condition)
            @if let Some(passed) = &gate.passed { " " span.since { (parts::when(passed)) } }
            @if !gate.fail_on.is_empty() { p.says { "fails the run if it is " (gate.fail_on) } }
        }
    }
}

fn task(site: &Site<'_>, run: &Run<'_>, stage: &StageStatus, task: &StageTaskStatus, name: &Name) -> Markup {
    let over = |type_name| conditions::find(&task.conditions, type_name).filter(|it| Status::of(it) == Status::True);
    match task.type_ {
        StageTaskType::Approval => {
            let approved = over("ApprovalRequestApproved");
            let sign = match (approved, asks(task)) {
                (Some(_), _) => parts::DONE,
                (None, true) => parts::WAITING,
                (None, false) => parts::NOT_YET,
            };
            let act = Act::Approve {
                request: Name::new(name.namespace.as_str(), task.approval_request_name.as_str()),
                run: name.name.clone(),
            };
            html! {
                div class={ "task " (sign.0) } {
                    (parts::sign(sign))
                    @if let Some(approved) = approved { "approved " (parts::when(&approved.last_transition_time)) }
                    @else if asks(task) {
                        "approval wanted: " code { (task.approval_request_name) } " "
                        @if site.read_only || site.rights.known(&act.needs()).is_err() { "" }
                        @else { a.button href=(act.url()) { "Approve…" } }
                    }
                    @else { "approval, later" }
                }
            }
        }
        StageTaskType::TimedWait => {
            let elapsed = over("WaitTimeElapsed");
            let until = ends(run, stage);
            let sign = match (elapsed, until) {
                (Some(_), _) => parts::DONE,
                (None, Some(_)) => parts::WAITING,
                (None, None) => parts::NOT_YET,
            };
            html! {
                div class={ "task " (sign.0) } {
                    (parts::sign(sign))
                    @match (elapsed, until) {
                        (Some(_), _) => "waited",
                        (None, Some(until)) => {
                            @let exact = until.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
                            "waits, " time.until datetime=(exact) { "until " (exact) }
                        },
                        (None, None) => "a wait, later",
                    }
                }
            }
        }
        StageTaskType::Unknown(ref word) => html! { div.task { (word) } },
    }
}

/// How many clusters of a stage are updated at once: as the strategy says it, and as a number.
fn together(run: &Run<'_>, stage: &StageStatus) -> Option<(String, Option<usize>)> {
    let field = &planned(run, stage)?.max_concurrency;
    let written = match field {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(share) => share.clone(),
    };
    Some((written, concurrency(field, stage.clusters.len())))
}

fn planned<'a>(run: &Run<'a>, stage: &StageStatus) -> Option<&'a Stage> {
    let strategy = run.status?.staged_update_strategy_snapshot.as_ref()?;
    strategy.stages.iter().find(|spec| spec.name == stage.stage_name)
}

/// When the wait after a stage is over: it counts from its last cluster.
fn ends(run: &Run<'_>, stage: &StageStatus) -> Option<jiff::Timestamp> {
    let tasks = planned(run, stage)?.after_stage_tasks.iter();
    let wait = tasks.filter_map(|task| task.wait_time.as_deref()).find_map(duration)?;
    // One that has failed within the budget is over too; if the budget is used up, nothing is waited for any more.
    let is_over = |it: &ClusterUpdatingStatus| [parts::DONE, parts::FAILED].contains(&of_cluster(it));
    if !stage.clusters.iter().all(is_over) || of(&stage.conditions, "Succeeded", "Progressing") == parts::FAILED {
        return None;
    }
    let clusters = stage.clusters.iter();
    let ends = clusters.filter_map(|it| conditions::find(&it.conditions, "Succeeded"));
    ends.map(|it| it.last_transition_time.0).max()?.checked_add(wait).ok()
}

fn of_cluster(cluster: &ClusterUpdatingStatus) -> Sign {
    of(&cluster.conditions, "Succeeded", "Started")
}

fn of(list: &[Condition], end: &str, begin: &str) -> Sign {
    let status = |type_name| conditions::find(list, type_name).map(Status::of);
    match (status(end), status(begin)) {
        (Some(Status::True), _) => parts::DONE,
        (Some(Status::False), _) => parts::FAILED,
        (_, Some(_)) => parts::WAITING,
        (_, None) => parts::NOT_YET,
    }
}
