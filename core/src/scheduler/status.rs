//! The policy snapshot's status, and whether writing it would tell anybody anything.

use std::collections::HashMap;

use fleet_api::conditions::{self, ConditionState};
use fleet_api::placement::{ClusterDecision, PolicySnapshotStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::world::World;

/// The status of the world's snapshot after a decision, and whether it differs from what is there.
pub(super) fn new(
    world: &World<'_>,
    placement_generation: i64,
    target_clusters: Vec<ClusterDecision>,
    state: &impl ConditionState,
) -> (PolicySnapshotStatus, bool) {
    let snapshot = &world.snapshot;
    let mut conditions = snapshot
        .status
        .map(|status| status.conditions.clone())
        .unwrap_or_default();
    conditions::set(&mut conditions, state, snapshot.generation, world.now);
    let status = PolicySnapshotStatus {
        observed_crp_generation: placement_generation,
        target_clusters,
        conditions,
    };
    let changed = snapshot
        .status
        .is_none_or(|old| !says_the_same(old, &status, state.type_name()));
    (status, changed)
}

fn says_the_same(old: &PolicySnapshotStatus, new: &PolicySnapshotStatus, condition: &str) -> bool {
    let says = |status: &PolicySnapshotStatus| conditions::find(&status.conditions, condition).cloned();
    old.observed_crp_generation == new.observed_crp_generation
        && same_condition(says(old).as_ref(), says(new).as_ref())
        && same_decisions(&old.target_clusters, &new.target_clusters)
}

fn same_condition(old: Option<&Condition>, new: Option<&Condition>) -> bool {
    let (Some(old), Some(new)) = (old, new) else {
        return false;
    };
    // An older view of the snapshot must not move a newer status back.
    (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message)
        && old.observed_generation >= new.observed_generation
}

/// As sets: the order has a meaning only where the decisions differ too.
fn same_decisions(old: &[ClusterDecision], new: &[ClusterDecision]) -> bool {
    if old.len() != new.len() {
        return false;
    }
    let same = |old: &ClusterDecision, new: &ClusterDecision| {
        old.selected == new.selected
            && old.cluster_score == new.cluster_score
            && ageless(&old.reason) == ageless(&new.reason)
    };
    // Nearly always nothing has changed, not even the order.
    if old
        .iter()
        .zip(new)
        .all(|(old, new)| old.cluster_name == new.cluster_name && same(old, new))
    {
        return true;
    }
    let by_name: HashMap<_, _> = old.iter().map(|decision| (&decision.cluster_name, decision)).collect();
    new.iter()
        .all(|new| by_name.get(&new.cluster_name).is_some_and(|old| same(old, new)))
}

/// The reason without how long ago something was: that grows by itself, and is no news.
fn ageless(reason: &str) -> &str {
    let Some(rest) = reason.strip_suffix(" minutes ago)") else {
        return reason;
    };
    rest.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}
