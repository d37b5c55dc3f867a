//! An update run as a pipeline: stages, their clusters, what is waited for, and who may let it go on.

use fleet_api::{
    conditions::{self, Status},
    names::DELETE_STAGE,
    placement::{ClusterUpdatingStatus, StageStatus, StageTaskStatus, StageTaskType, UpdateRunState},
};
use fleet_core::{
    explain::{self, Run},
    updaterun::duration,
};
use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Condition, util::intstr::IntOrString};
use maud::{Markup, html};

use super::{
    Page, Site,
    parts::{self, Sign},
    runs::Standing,
};
use crate::{
    Act,
    hub::Hub,
    view::{About, Name, View},
};

/// Clusters of a stage that are drawn; the rest is counted. A stage may have thousands.
const CLUSTERS: usize = 200;

pub(super) fn page(site: &Site<'_>, name: &Name) -> Page {
    let hub = site.hub;
    let mut gathering = hub.gather();
    gathering.run(name);
    let fleet = gathering.objects.fleet(&name.namespace, hub.clock.now());
    let chain = explain::run(&fleet, &name.name);
    let body = html! {
        h1 { span.kind { (name.word("ClusterStagedUpdateRun", "StagedUpdateRun")) } " " (name.shown()) }
        @if let Some(run) = fleet.run(&name.name) {
            @let (sign, word) = Standing::of(run.status).sign();
            nav.tabs aria-label="This run" {
                a href=(View::Run(name.clone()).url()) aria-current="page" { "Pipeline" }
                a href=(View::Timeline(Some(About::Run(name.clone()))).url()) { "Timeline" }
            }
            p.standing {
                (parts::badge(sign, word)) " updates "
                (parts::link(
                    &View::Placement(Name::new(name.namespace.as_str(), run.spec.placement_name.as_str()), 0),
                    &run.spec.placement_name,
                ))
                @if let Some(status) = run.status { " to resource snapshot " (status.resource_snapshot_index_used) }
                " by " code { (run.spec.staged_rollout_strategy_name) }
            }
            (parts::buttons(site, &acts(hub, name)))
            (pipeline(site, &run, name))
        }
        section.card aria-labelledby="why" { h2 id="why" { "What it waits for" } (parts::chain(site, &chain)) }
    };
    Page {
        title: format!("Run {}", name.shown()),
        command: format!(
            "kubectl fleet why {}/{}{}",
            name.word("csur", "sur"),
            name.name,
            name.flag()
        ),
        body,
    }
}

/// What can be done about a run now.
pub(super) fn acts(hub: &Hub, name: &Name) -> Vec<Act> {
    let mut gathering = hub.gather();
    gathering.run(name);
    let fleet = gathering.objects.fleet(&name.namespace, hub.clock.now());
    let Some(run) = fleet.run(&name.name) else {
        return Vec::new();
    };
    let mut acts = Vec::new();
    let stages = run.status.iter().flat_map(|status| status.stages_status.iter());
    let tasks = stages.flat_map(|stage| {
        stage
            .before_stage_task_status
            .iter()
            .chain(&stage.after_stage_task_status)
    });
    for task in tasks.filter(|task| asks(task)) {
        acts.push(Act::Approve {
            request: Name::new(name.namespace.as_str(), task.approval_request_name.as_str()),
            run: name.name.clone(),
        });
    }
    match (Standing::of(run.status), &run.spec.state) {
        (Standing::Done | Standing::Failed, _) => {}
        (_, UpdateRunState::Run) => acts.push(Act::Stop(name.clone())),
        (_, _) => acts.push(Act::Resume(name.clone())),
    }
    acts
}

/// Whether a task waits for somebody's approval.
fn asks(task: &StageTaskStatus) -> bool {
    let is = |type_name| conditions::find(&task.conditions, type_name).is_some_and(|it| Status::of(it) == Status::True);
    task.type_ == StageTaskType::Approval && is("ApprovalRequestCreated") && !is("ApprovalRequestApproved")
}

fn pipeline(site: &Site<'_>, run: &Run<'_>, name: &Name) -> Markup {
    let Some(status) = run.status else {
        return html! {};
    };
    html! {
        ol.pipeline {
            @for stage in &status.stages_status { (one(site, run, stage, name)) }
            @if let Some(deletion) = &status.deletion_stage_status {
                @if !deletion.clusters.is_empty() { (one(site, run, deletion, name)) }
            }
        }
    }
}

fn one(site: &Site<'_>, run: &Run<'_>, stage: &StageStatus, name: &Name) -> Markup {
    let sign = of(&stage.conditions, "Succeeded", "Progressing");
    let done = stage.clusters.iter().filter(|it| of_cluster(it) == parts::DONE).count();
    let title = match stage.stage_name.as_str() {
        DELETE_STAGE => "clusters that are no longer picked",
        title => title,
    };
    html! {
        li class={ "stage " (sign.0) } {
            h2 { (parts::sign(sign)) (title) }
            p.count {
                (done) " of " (parts::many(stage.clusters.len(), "cluster")) " done"
                @if let Some(together) = together(run, stage) { ", at most " (together) " at once" }
            }
            @for task in &stage.before_stage_task_status { (self::task(site, run, stage, task, name)) }
            ul.clusters {
                @for cluster in stage.clusters.iter().take(CLUSTERS) {
                    @let sign = of_cluster(cluster);
                    @let placement = Name::new(name.namespace.as_str(), run.spec.placement_name.as_str());
                    li class=(sign.0) {
                        a href=(View::On(placement, cluster.cluster_name.clone()).url()) {
                            (parts::sign(sign)) (cluster.cluster_name)
                        }
                    }
                }
                @if stage.clusters.len() > CLUSTERS { li { "and " (stage.clusters.len() - CLUSTERS) " more" } }
            }
            @for task in &stage.after_stage_task_status { (self::task(site, run, stage, task, name)) }
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
                            "waits, until " time.until datetime=(exact) { (exact) }
                        },
                        (None, None) => "a wait, later",
                    }
                }
            }
        }
        StageTaskType::Unknown(ref word) => html! { div.task { (word) } },
    }
}

/// How many clusters of a stage are updated at once, as the strategy says it.
fn together(run: &Run<'_>, stage: &StageStatus) -> Option<String> {
    let strategy = run.status?.staged_update_strategy_snapshot.as_ref()?;
    let spec = strategy.stages.iter().find(|spec| spec.name == stage.stage_name)?;
    Some(match &spec.max_concurrency {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(share) => share.clone(),
    })
}

/// When the wait after a stage is over: it counts from its last cluster.
fn ends(run: &Run<'_>, stage: &StageStatus) -> Option<jiff::Timestamp> {
    let strategy = run.status?.staged_update_strategy_snapshot.as_ref()?;
    let spec = strategy.stages.iter().find(|spec| spec.name == stage.stage_name)?;
    let wait = spec
        .after_stage_tasks
        .iter()
        .find_map(|task| task.wait_time.as_deref())
        .and_then(duration)?;
    if stage.clusters.iter().any(|cluster| of_cluster(cluster) != parts::DONE) {
        return None;
    }
    let ends = stage
        .clusters
        .iter()
        .filter_map(|it| conditions::find(&it.conditions, "Succeeded"));
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
