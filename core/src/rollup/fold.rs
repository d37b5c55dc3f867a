//! Adding up the clusters' parts.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::placement::{
    Applied, Available, DiffReported, Overridden, PlacementState, RolloutStarted, Step, WorkSynchronized,
};
use fleet_api::conditions::{self, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Common, Entry};

/// How many clusters have come how far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    clusters: usize,
    by_step: BTreeMap<(Step, Status), usize>,
    overridden: usize,
    indexes: BTreeMap<String, usize>,
    /// Clusters whose rollout is undecided, by their position among the decisions.
    undecided: BTreeSet<(usize, String)>,
}

/// What one cluster adds to the sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) cluster: String,
    reached: Vec<(Step, Status)>,
    overridden: bool,
    index: String,
}

impl Share {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            cluster: entry.status.cluster_name.clone(),
            reached: entry.reached.clone(),
            overridden: entry.is_overridden(),
            index: entry.status.observed_resource_index.clone(),
        }
    }

    fn is_undecided(&self) -> bool {
        let started = self.reached.iter().find(|(step, _)| *step == Step::RolloutStarted);
        started.is_none_or(|(_, status)| *status == Status::Unknown)
    }
}

impl Counts {
    /// How many clusters were added.
    pub fn clusters(&self) -> usize {
        self.clusters
    }

    /// Adds a cluster's part; `position` is its place among the selected decisions.
    pub fn add(&mut self, position: usize, entry: &Entry) {
        self.add_share(position, &Share::of(entry));
    }

    /// Takes back a part that was added with the same position.
    pub fn remove(&mut self, position: usize, entry: &Entry) {
        self.remove_share(position, &Share::of(entry));
    }

    pub(super) fn add_share(&mut self, position: usize, share: &Share) {
        self.clusters += 1;
        for reached in &share.reached {
            *self.by_step.entry(*reached).or_default() += 1;
        }
        self.overridden += usize::from(share.overridden);
        *self.indexes.entry(share.index.clone()).or_default() += 1;
        if share.is_undecided() {
            self.undecided.insert((position, share.cluster.clone()));
        }
    }

    pub(super) fn remove_share(&mut self, position: usize, share: &Share) {
        self.clusters = self.clusters.saturating_sub(1);
        for reached in &share.reached {
            take(&mut self.by_step, reached);
        }
        self.overridden = self.overridden.saturating_sub(usize::from(share.overridden));
        take(&mut self.indexes, &share.index);
        self.undecided.remove(&(position, share.cluster.clone()));
    }

    fn of(&self, step: Step, status: Status) -> usize {
        self.by_step.get(&(step, status)).copied().unwrap_or_default()
    }
}

/// Leaves no zeros behind, so that equal sums are equal values.
fn take<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What an external rollout looks like across the clusters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum External<'a> {
    /// Clusters have different snapshots.
    Mixed,
    /// No cluster has any.
    None,
    /// All have this index, but one cluster is undecided.
    Undecided {
        /// The common index.
        index: &'a str,
        /// The first such cluster in the scheduler's order.
        cluster: &'a str,
    },
    /// All have this index.
    Settled {
        /// The common index.
        index: &'a str,
    },
}

impl External<'_> {
    /// The index that all clusters have.
    pub fn index(&self) -> Option<&str> {
        match self {
            Self::Undecided { index, .. } | Self::Settled { index } => Some(index),
            Self::Mixed | Self::None => None,
        }
    }
}

/// Looks at the clusters of an external rollout.
pub fn external(counts: &Counts) -> External<'_> {
    let mut indexes = counts.indexes.keys();
    match (indexes.next(), indexes.next(), counts.undecided.first()) {
        (_, Some(_), _) => External::Mixed,
        (None, None, _) => External::None,
        (Some(index), None, _) if index.is_empty() => External::None,
        (Some(index), None, Some((_, cluster))) => External::Undecided { index, cluster },
        (Some(index), None, None) => External::Settled { index },
    }
}

/// Puts the conditions after scheduling into `list`: in order up to the first that is not true, and none after it.
pub fn conditions(context: &Common<'_>, counts: &Counts, list: &mut Vec<Condition>) {
    let reached = write(context, counts, list);
    for step in Step::ALL
        .iter()
        .filter(|step| **step != Step::Scheduled && !reached.contains(step))
    {
        conditions::remove(list, step.on_placement(context.scope));
    }
}

fn write(context: &Common<'_>, counts: &Counts, list: &mut Vec<Condition>) -> Vec<Step> {
    if context.external {
        let state = match external(counts) {
            External::Mixed => Some(RolloutStarted::ExternalMixed),
            External::None => Some(RolloutStarted::ExternalNone),
            External::Undecided { cluster, .. } => Some(RolloutStarted::ExternalUndecided {
                cluster: cluster.into(),
            }),
            External::Settled { .. } => None,
        };
        if let Some(state) = state {
            set(context, list, &state);
            return vec![Step::RolloutStarted];
        }
    }
    let mut reached = Vec::new();
    for step in context.steps() {
        reached.push(*step);
        let status = [Status::Unknown, Status::False]
            .into_iter()
            .find(|status| counts.of(*step, *status) > 0);
        let clusters = status.map_or(counts.clusters, |status| counts.of(*step, status));
        write_step(
            context,
            list,
            *step,
            status.unwrap_or(Status::True),
            clusters,
            counts.overridden > 0,
        );
        if status.is_some() {
            break;
        }
    }
    reached
}

fn set(context: &Common<'_>, list: &mut Vec<Condition>, state: &impl PlacementState) {
    conditions::set(list, &context.scope.state(state), context.generation, context.now);
}

fn write_step(
    context: &Common<'_>,
    list: &mut Vec<Condition>,
    step: Step,
    status: Status,
    clusters: usize,
    overridden: bool,
) {
    use Status::{False, True, Unknown};
    match (step, status) {
        (Step::Scheduled, _) => {}
        (Step::RolloutStarted, True) => set(context, list, &RolloutStarted::Started { clusters }),
        (Step::RolloutStarted, False) => set(context, list, &RolloutStarted::NotStarted { clusters }),
        (Step::RolloutStarted, Unknown) => set(context, list, &RolloutStarted::Undecided { clusters }),
        (Step::Overridden, True) if overridden => set(context, list, &Overridden::Succeeded { clusters }),
        (Step::Overridden, True) => set(context, list, &Overridden::NoneSpecified),
        (Step::Overridden, False) => set(context, list, &Overridden::Failed { clusters }),
        (Step::Overridden, Unknown) => set(context, list, &Overridden::Pending { clusters }),
        (Step::WorkSynchronized, True) => set(context, list, &WorkSynchronized::Synchronized { clusters }),
        (Step::WorkSynchronized, False) => set(context, list, &WorkSynchronized::NotYet { clusters }),
        (Step::WorkSynchronized, Unknown) => set(context, list, &WorkSynchronized::Pending { clusters }),
        (Step::Applied, True) => set(context, list, &Applied::Succeeded { clusters }),
        (Step::Applied, False) => set(context, list, &Applied::Failed { clusters }),
        (Step::Applied, Unknown) => set(context, list, &Applied::Pending { clusters }),
        (Step::Available, True) => set(context, list, &Available::Available { clusters }),
        (Step::Available, False) => set(context, list, &Available::NotYet { clusters }),
        (Step::Available, Unknown) => set(context, list, &Available::Pending { clusters }),
        (Step::DiffReported, True) => set(context, list, &DiffReported::Completed { clusters }),
        (Step::DiffReported, False) => set(context, list, &DiffReported::Incomplete { clusters }),
        (Step::DiffReported, Unknown) => set(context, list, &DiffReported::Pending { clusters }),
    }
}
