//! Bindings by what becomes of them.

use std::cmp::Ordering;

use fleet_api::placement::BindingState;

use super::world::{Binding, Cluster, World};

/// The clusters by name. Sorted once; looked up by binary search.
#[derive(Debug)]
pub struct Fleet<'a> {
    clusters: Vec<&'a Cluster<'a>>,
}

impl<'a> Fleet<'a> {
    /// The fleet of `clusters`, in any order.
    pub fn new(clusters: &'a [Cluster<'a>]) -> Self {
        let mut clusters: Vec<_> = clusters.iter().collect();
        clusters.sort_by_key(|cluster| cluster.name);
        Self { clusters }
    }

    /// All clusters, by name.
    pub fn all(&self) -> &[&'a Cluster<'a>] {
        &self.clusters
    }

    /// The cluster of this name.
    pub fn get(&self, name: &str) -> Option<&'a Cluster<'a>> {
        self.clusters
            .binary_search_by(|cluster| cluster.name.cmp(name))
            .ok()
            .map(|at| self.clusters[at])
    }
}

/// A placement's bindings, each in the first class that fits, and in each class by name.
#[derive(Debug, Default)]
pub struct Classes<'a> {
    /// Being deleted.
    pub deleting: Vec<&'a Binding<'a>>,
    /// Not wanted any more, and waiting for the rollout to remove them.
    pub unscheduled: Vec<&'a Binding<'a>>,
    /// For a cluster that is gone or going.
    pub dangling: Vec<&'a Binding<'a>>,
    /// Of an earlier policy.
    pub obsolete: Vec<&'a Binding<'a>>,
    /// Of this policy, not rolled out yet.
    pub scheduled: Vec<&'a Binding<'a>>,
    /// Of this policy, rolled out.
    pub bound: Vec<&'a Binding<'a>>,
}

impl<'a> Classes<'a> {
    /// The bindings of `world`, classified. A cluster that merely cannot be used now keeps its binding.
    pub fn new(world: &World<'a>, fleet: &Fleet<'a>) -> Self {
        let mut sorted: Vec<&'a Binding<'a>> = world.bindings.iter().collect();
        sorted.sort_by_key(|binding| binding.name);
        let mut classes = Self::default();
        for binding in sorted {
            let class = if binding.deleting {
                &mut classes.deleting
            } else if *binding.state == BindingState::Unscheduled {
                &mut classes.unscheduled
            } else if fleet.get(binding.cluster).is_none_or(|cluster| cluster.leaving) {
                &mut classes.dangling
            } else if binding.snapshot != world.snapshot.name {
                &mut classes.obsolete
            } else if *binding.state == BindingState::Scheduled {
                &mut classes.scheduled
            } else if *binding.state == BindingState::Bound {
                &mut classes.bound
            } else {
                // A state that we do not know: somebody else's business.
                continue;
            };
            class.push(binding);
        }
        classes
    }

    /// All that this policy has picked before, `Scheduled` ones first.
    pub fn current(&self) -> impl Iterator<Item = &'a Binding<'a>> {
        self.scheduled.iter().chain(&self.bound).copied()
    }

    /// How many clusters this policy has picked before.
    pub fn current_count(&self) -> usize {
        self.scheduled.len() + self.bound.len()
    }
}

/// The order in which bindings go when a placement shrinks: those without a recorded score, then the lowest score, then
/// the smallest cluster name. Between score and name, `unusable` ones go first.
pub(super) fn trim_order(a: &Binding<'_>, b: &Binding<'_>, unusable: impl Fn(&str) -> bool) -> Ordering {
    let score = |binding: &Binding<'_>| {
        let score = binding.decision.cluster_score.as_ref()?;
        Some((
            score.priority_score.unwrap_or_default(),
            score.affinity_score.unwrap_or_default(),
        ))
    };
    score(a)
        .cmp(&score(b))
        .then_with(|| unusable(b.cluster).cmp(&unusable(a.cluster)))
        .then_with(|| a.cluster.cmp(b.cluster))
        .then_with(|| a.name.cmp(b.name))
}
