//! An update run as a pipeline: stages, their clusters, what is waited for, and who may let it go on.

mod approving;
mod rules;
mod stage;

use fleet_api::{
    conditions::{self, Status},
    kind::{HasSpec as _, HasStatus as _},
    placement::{Scope, StageStatus, StageTaskStatus, StageTaskType, UpdateRunSpec, UpdateRunState, UpdateRunStatus},
};
use fleet_core::explain::{self, Run};
use maud::{Markup, html};

pub(crate) use self::approving::approving;
use super::{Page, Site, parts, runs::Standing};
use crate::{
    Act,
    hub::{Family, Hub, family_key},
    view::{About, Name, View},
};

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
                    &View::placement(Name::new(name.namespace.as_str(), run.spec.placement_name.as_str())),
                    &run.spec.placement_name,
                ))
                @if let Some(status) = run.status { " to resource snapshot " (status.resource_snapshot_index_used) }
                " by " code { (run.spec.staged_rollout_strategy_name) }
            }
            (parts::buttons(site, &acts(hub, name)))
            (rules::rollback(&run))
            (pipeline(site, &run, name))
            (rules::rules(&run, name))
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
    look(hub, name, |spec, status| acts_of(name, spec, status)).unwrap_or_default()
}

/// A look at a run; nothing if it is not there.
fn look<T>(hub: &Hub, name: &Name, at: impl FnOnce(&UpdateRunSpec, Option<&UpdateRunStatus>) -> T) -> Option<T> {
    if name.namespace.is_empty() {
        look_in(&hub.cluster, name, at)
    } else {
        look_in(&hub.namespaced, name, at)
    }
}

fn look_in<S: Scope, T>(
    family: &Family<S>,
    name: &Name,
    at: impl FnOnce(&UpdateRunSpec, Option<&UpdateRunStatus>) -> T,
) -> Option<T> {
    let run = family.runs.get(&family_key(name))?;
    Some(at(run.spec(), run.status()))
}

fn acts_of(name: &Name, spec: &UpdateRunSpec, status: Option<&UpdateRunStatus>) -> Vec<Act> {
    let mut acts = Vec::new();
    for task in stages(status).flat_map(tasks).filter(|task| asks(task)) {
        acts.push(Act::Approve {
            request: Name::new(name.namespace.as_str(), task.approval_request_name.as_str()),
            run: name.name.clone(),
        });
    }
    acts.extend(match (Standing::of(status), &spec.state) {
        (Standing::Done | Standing::Failed, _) => None,
        (_, UpdateRunState::Run) => Some(Act::Stop(name.clone())),
        (_, UpdateRunState::Initialize) => Some(Act::Start(name.clone())),
        (_, UpdateRunState::Stop) => Some(Act::Resume(name.clone())),
    });
    acts
}

fn stages(status: Option<&UpdateRunStatus>) -> impl Iterator<Item = &StageStatus> {
    status.into_iter().flat_map(|status| status.stages_status.iter())
}

fn tasks(stage: &StageStatus) -> impl Iterator<Item = &StageTaskStatus> {
    let before = stage.before_stage_task_status.iter();
    before.chain(&stage.after_stage_task_status)
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
    let back = if Standing::of(run.status) == Standing::RollingBack {
        " back"
    } else {
        Default::default()
    };
    html! {
        ol class={ "pipeline" (back) } {
            @for stage in &status.stages_status { (stage::one(site, run, stage, name)) }
            @if let Some(deletion) = &status.deletion_stage_status {
                @if !deletion.clusters.is_empty() { (stage::one(site, run, deletion, name)) }
            }
        }
    }
}
