//! All update runs, those that wait for somebody first.

use std::collections::HashMap;

use fleet_api::{
    conditions::{self, Status},
    kind::{HasSpec as _, HasStatus as _, Kind as _, Resource as _},
    placement::{ClusterStagedUpdateRun, Scope, StagedUpdateRun, UpdateRunStatus},
};
use fleet_runtime::{Key, cache::Store};
use jiff::Timestamp;
use maud::html;

use super::{
    Page, Site,
    parts::{self, Sign},
};
use crate::{
    hub::{Hub, name},
    view::{Name, View},
};

/// Runs on one page.
const SHOWN: usize = 100;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It cannot go on.
    Failed,
    /// It takes longer than expected.
    Stuck,
    /// It takes back what it did.
    RollingBack,
    /// It waits for somebody, or for time to pass.
    Waiting,
    /// It goes on.
    Going,
    /// It has a plan, and has not begun.
    Planned,
    /// Somebody has stopped it.
    Stopped,
    /// It is over.
    Done,
}

impl Standing {
    pub(super) fn of(status: Option<&UpdateRunStatus>) -> Self {
        let list = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
        let is = |type_name, status| conditions::find(list, type_name).is_some_and(|it| Status::of(it) == status);
        let reason = conditions::find(list, "Progressing")
            .map(|it| it.reason.as_str())
            .unwrap_or_default();
        if is("Succeeded", Status::True) {
            return Self::Done;
        }
        if is("Succeeded", Status::False) || is("Initialized", Status::False) {
            return Self::Failed;
        }
        match reason {
            "UpdateRunWaiting" => Self::Waiting,
            "UpdateRunStuck" => Self::Stuck,
            "UpdateRunRollingBack" => Self::RollingBack,
            "UpdateRunStopped" => Self::Stopped,
            "" => Self::Planned,
            _ => Self::Going,
        }
    }

    /// Whether somebody should look: it does not go on by itself, or goes the wrong way.
    fn is_held(self) -> bool {
        !matches!(self, Self::Going | Self::Done)
    }

    pub(super) fn sign(self) -> (Sign, &'static str) {
        match self {
            Self::Failed => (parts::FAILED, "failed"),
            Self::Stuck => (parts::FAILED, "stuck"),
            Self::RollingBack => (parts::FAILED, "rolls back"),
            Self::Waiting => (parts::WAITING, "waits"),
            Self::Going => (parts::WAITING, "under way"),
            Self::Planned => (parts::NOT_YET, "not begun"),
            Self::Stopped => (parts::NOT_YET, "stopped"),
            Self::Done => (parts::DONE, "done"),
        }
    }
}

pub(super) struct Known {
    pub(super) name: Name,
    pub(super) placement: Name,
    pub(super) standing: Standing,
    created: Option<Timestamp>,
}

pub(super) fn all(hub: &Hub) -> Vec<Known> {
    let mut all = known::<fleet_api::placement::ClusterScoped>(&hub.cluster.runs);
    all.extend(known::<fleet_api::placement::Namespaced>(&hub.namespaced.runs));
    all.sort_by(|a, b| (a.standing, b.created, &a.name).cmp(&(b.standing, a.created, &b.name)));
    all
}

fn known<S: Scope>(runs: &Store<S::UpdateRun>) -> Vec<Known> {
    let known = |run: &std::sync::Arc<S::UpdateRun>| {
        let own = name(&Key::of(&**run));
        Known {
            placement: Name::new(own.namespace.as_str(), run.spec().placement_name.as_str()),
            name: own,
            standing: Standing::of(run.status()),
            created: run.meta().creation_timestamp.as_ref().map(|time| time.0),
        }
    };
    runs.all().iter().map(known).collect()
}

/// How many runs that are not over stand how.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) failed: usize,
    pub(super) stuck: usize,
    pub(super) waiting: usize,
    pub(super) going: usize,
    /// Not begun, or stopped.
    pub(super) resting: usize,
}

impl Counts {
    pub(super) fn all(&self) -> usize {
        self.failed + self.stuck + self.waiting + self.going + self.resting
    }
}

pub(super) fn counts(hub: &Hub) -> Counts {
    let mut counts = Counts::default();
    for run in current(all(hub)) {
        match run.standing {
            Standing::Failed | Standing::RollingBack => counts.failed += 1,
            Standing::Stuck => counts.stuck += 1,
            Standing::Waiting => counts.waiting += 1,
            Standing::Going => counts.going += 1,
            Standing::Planned | Standing::Stopped => counts.resting += 1,
            Standing::Done => {}
        }
    }
    counts
}

/// Those that matter still: one that has failed does until there is a later one of its placement.
fn current(all: Vec<Known>) -> Vec<Known> {
    let mut latest: HashMap<Name, Option<Timestamp>> = HashMap::new();
    for run in &all {
        let known = latest.entry(run.placement.clone()).or_default();
        *known = run.created.max(*known);
    }
    let is_last = |run: &Known| latest.get(&run.placement).is_none_or(|last| run.created >= *last);
    let matters = |run: &Known| !matches!(run.standing, Standing::Failed | Standing::Stopped) || is_last(run);
    all.into_iter().filter(matters).collect()
}

/// Those that somebody should look at.
pub(super) fn held(hub: &Hub) -> Vec<Name> {
    let held = current(all(hub)).into_iter().filter(|run| run.standing.is_held());
    held.map(|run| run.name).collect()
}

pub(super) fn page(site: &Site<'_>, page: usize) -> Page {
    let all = all(site.hub);
    let (page, pages, shown) = parts::paged(&all, page, SHOWN);
    let body = html! {
        h1 { "Update runs" }
        @if all.is_empty() {
            (parts::none(
                site,
                &[ClusterStagedUpdateRun::CRD.plural, StagedUpdateRun::CRD.plural],
                "There are no update runs. A placement whose strategy is External is rolled out by them.",
                "kubectl apply -f docs/examples/demo/shop.yaml",
            ))
        } @else {
            div.scroll {
                table.list {
                    thead { tr { th { "Run" } th { "Namespace" } th { "Placement" } th { "State" } th { "Created" } } }
                    tbody {
                        @for run in shown {
                            @let (sign, word) = run.standing.sign();
                            tr id={ "r-" (run.name.shown()) } {
                                td { (parts::link(&View::Run(run.name.clone()), &run.name.name)) }
                                td { (run.name.namespace) }
                                td { (parts::link(&View::placement(run.placement.clone()), &run.placement.name)) }
                                td { (parts::badge(sign, word)) }
                                td { @if let Some(created) = run.created { (parts::at(created)) } }
                            }
                        }
                    }
                }
            }
            (parts::pager(page, pages, "runs", |page| View::Runs(page).url()))
        }
    };
    Page {
        title: "Update runs".into(),
        command: format!("kubectl fleet top{}", site.hub.flag()),
        body,
    }
}
