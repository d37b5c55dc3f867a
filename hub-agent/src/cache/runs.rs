//! Update runs with what they follow and ask for, watched once.

use fleet_api::{kind::Kind as _, labels, placement::Scope};
use fleet_core::updaterun::{Run, needed_overrides};
use fleet_runtime::{
    Key,
    cache::{Builder, Era, Index, Store},
    dump::Dump,
    health::Health,
    shutdown::Tasks,
};
use kube::{
    Client, Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};

use super::{beside, watched};

/// The update runs of one scope. Cheap to clone.
#[derive(Clone)]
pub(crate) struct UpdateStores<S: Scope> {
    /// Runs.
    pub(crate) runs: Store<S::UpdateRun>,
    /// Runs by placement.
    pub(crate) runs_of: Index<S::UpdateRun, Key>,
    /// Runs by the strategy that they name.
    pub(crate) runs_by: Index<S::UpdateRun, Key>,
    /// Runs that have not ended by the override snapshots that they need.
    pub(crate) runs_needing: Index<S::UpdateRun, Key>,
    /// Update strategies.
    pub(crate) strategies: Store<S::UpdateStrategy>,
    /// Approval requests.
    pub(crate) approvals: Store<S::ApprovalRequest>,
    /// Approval requests by the run that their label names.
    pub(crate) approvals_of: Index<S::ApprovalRequest, Key>,
    watched: bool,
}

impl<S: Scope> UpdateStores<S> {
    /// Starts the watches; without them the stores stay empty, for a hub that does not have these kinds.
    pub(crate) fn start(client: &Client, era: &Era, watch: bool, tasks: &mut Tasks) -> Self {
        let mut runs = Store::builder(S::UpdateRun::CRD.plural);
        let runs_of = runs.index(placements::<S>);
        let runs_by = runs.index(strategies::<S>);
        let runs_needing = runs.index(overrides::<S>);
        let strategies = Store::builder(S::UpdateStrategy::CRD.plural);
        let mut approvals = Store::builder(S::ApprovalRequest::CRD.plural);
        let approvals_of = approvals.index(asked_by::<S>);
        if watch {
            return Self {
                runs: watched(runs, client, era, tasks),
                runs_of,
                runs_by,
                runs_needing,
                strategies: watched(strategies, client, era, tasks),
                approvals: watched(approvals, client, era, tasks),
                approvals_of,
                watched: true,
            };
        }
        Self {
            runs: runs.build(),
            runs_of,
            runs_by,
            runs_needing,
            strategies: Builder::build(strategies),
            approvals: Builder::build(approvals),
            approvals_of,
            watched: false,
        }
    }

    pub(super) fn show_in(&self, dump: &Dump) {
        if self.watched {
            self.runs.show_in(dump);
            self.strategies.show_in(dump);
            self.approvals.show_in(dump);
        }
    }

    /// Waits until every store has been filled once; `health` says which is not.
    pub(crate) async fn synced(&self, health: &Health) {
        if !self.watched {
            return;
        }
        let check = health.check(S::UpdateRun::CRD.plural);
        let next = |name: &str| check.not_ready(format!("{name} are not listed yet"));
        next(self.runs.name());
        self.runs.synced().await;
        next(self.strategies.name());
        self.strategies.synced().await;
        next(self.approvals.name());
        self.approvals.synced().await;
        check.ready();
    }
}

/// The placement that a run is about.
pub(crate) fn placement_of<S: Scope>(run: &S::UpdateRun) -> Key {
    beside(&Key::of(run), &run.spec().placement_name)
}

fn placements<S: Scope>(run: &S::UpdateRun) -> Vec<Key> {
    vec![placement_of::<S>(run)]
}

fn strategies<S: Scope>(run: &S::UpdateRun) -> Vec<Key> {
    vec![beside(&Key::of(run), &run.spec().staged_rollout_strategy_name)]
}

fn asked_by<S: Scope>(request: &S::ApprovalRequest) -> Vec<Key> {
    let run = request.labels().get(labels::TARGET_UPDATE_RUN);
    run.map(|run| beside(&Key::of(request), run)).into_iter().collect()
}

fn overrides<S: Scope>(run: &S::UpdateRun) -> Vec<Key> {
    let view = Run::of(run.meta(), run.spec(), run.status());
    let needed = needed_overrides(&view).into_iter();
    needed
        .map(|(namespace, name)| match namespace {
            Some(namespace) => Key::namespaced(namespace, name),
            None => Key::cluster(name),
        })
        .collect()
}
