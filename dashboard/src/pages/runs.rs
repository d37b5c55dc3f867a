//! All update runs, those that wait for somebody first.

use fleet_api::{
    conditions::{self, Status},
    kind::{HasSpec as _, HasStatus as _, Resource as _},
    placement::{Scope, UpdateRunStatus},
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

/// Older ones are history.
const SHOWN_MAX: usize = 200;

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It cannot go on.
    Failed,
    /// It takes longer than expected.
    Stuck,
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
            "UpdateRunStopped" => Self::Stopped,
            "" => Self::Planned,
            _ => Self::Going,
        }
    }

    /// Whether somebody should look.
    fn is_held(self) -> bool {
        matches!(self, Self::Stuck | Self::Waiting)
    }

    fn is_under_way(self) -> bool {
        matches!(self, Self::Stuck | Self::Waiting | Self::Going)
    }

    pub(super) fn sign(self) -> (Sign, &'static str) {
        match self {
            Self::Failed => (parts::FAILED, "failed"),
            Self::Stuck => (parts::FAILED, "stuck"),
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

/// How many are under way, and how many of those wait.
pub(super) fn counts(hub: &Hub) -> (usize, usize) {
    let all = all(hub);
    let under_way = all.iter().filter(|run| run.standing.is_under_way()).count();
    (
        under_way,
        all.iter().filter(|run| run.standing == Standing::Waiting).count(),
    )
}

/// Those that wait for somebody, or are stuck.
pub(super) fn held(hub: &Hub) -> Vec<Name> {
    let held = all(hub).into_iter().filter(|run| run.standing.is_held());
    held.map(|run| run.name).collect()
}

pub(super) fn page(site: &Site<'_>) -> Page {
    let all = all(site.hub);
    let body = html! {
        h1 { "Update runs" }
        @if all.is_empty() {
            (parts::empty(
                "There are no update runs. A placement whose strategy is External is rolled out by them.",
                "kubectl apply -f docs/examples/demo/shop.yaml",
            ))
        } @else {
            div.scroll {
                table.list {
                    thead { tr { th { "Run" } th { "Namespace" } th { "Placement" } th { "State" } th { "Created" } } }
                    tbody {
                        @for run in all.iter().take(SHOWN_MAX) {
                            @let (sign, word) = run.standing.sign();
                            tr {
                                td { (parts::link(&View::Run(run.name.clone()), &run.name.name)) }
                                td { (run.name.namespace) }
                                td { (parts::link(&View::Placement(run.placement.clone(), 0), &run.placement.name)) }
                                td { (parts::badge(sign, word)) }
                                td { @if let Some(created) = run.created { (parts::at(created)) } }
                            }
                        }
                    }
                }
            }
            @if all.len() > SHOWN_MAX { p { "and " (all.len() - SHOWN_MAX) " older ones" } }
        }
    };
    Page {
        title: "Update runs".into(),
        command: "kubectl get csur; kubectl get sur -A".into(),
        body,
    }
}
