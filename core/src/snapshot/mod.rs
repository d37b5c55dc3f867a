//! Snapshots: a placement's policy and its selected resources, each frozen at one moment.
//!
//! [`policy`] and [`resource`] decide what to write; [`delay`] whether a new resource snapshot waits for more changes;
//! [`surplus`] which old ones go. Indexes only grow; going back to older content makes a new index.

pub mod delay;
pub mod policy;
pub mod resource;

use fleet_api::labels;
use fleet_api::placement::PlacementSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// How many snapshots of a kind a placement keeps.
pub fn history_limit(placement: &PlacementSpec) -> usize {
    usize::try_from(placement.revision_history_limit).unwrap_or(1).max(1)
}

/// The number in a snapshot's label; none if it cannot be read.
pub fn number(metadata: &ObjectMeta, label: &str) -> Option<u64> {
    metadata.labels.as_ref()?.get(label)?.parse().ok()
}

/// Whether a snapshot carries the label of the latest.
pub fn is_latest(metadata: &ObjectMeta) -> bool {
    let value = metadata
        .labels
        .as_ref()
        .and_then(|all| all.get(labels::IS_LATEST_SNAPSHOT));
    value.and_then(|value| labels::parse_bool(value)) == Some(true)
}

/// The latest of a placement's snapshots: the one with the label, of several the one with the highest index.
pub fn latest<'a, T>(snapshots: impl IntoIterator<Item = (&'a ObjectMeta, T)>, index: &str) -> Option<T> {
    let found = snapshots
        .into_iter()
        .filter(|(metadata, _)| metadata.deletion_timestamp.is_none() && is_latest(metadata));
    found
        .filter_map(|(metadata, snapshot)| Some((number(metadata, index)?, snapshot)))
        .max_by_key(|(number, _)| *number)
        .map(|(_, snapshot)| snapshot)
}

/// An old snapshot, or a group of them, as far as pruning goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldSnapshot {
    /// Its index.
    pub index: u64,
    /// Whether a binding names it.
    pub in_use: bool,
}

/// The indexes to delete so that at most `limit` remain, the one to be created (if any) included.
///
/// The oldest go first. One that a binding names is kept beyond the limit, and goes with the event that releases it: so
/// this is asked again whenever a binding moves on, not only when something is created.
pub fn surplus(held: &[OldSnapshot], limit: usize, creating: bool) -> Vec<u64> {
    let mut held = held.to_vec();
    held.sort_by_key(|held| held.index);
    let surplus = (held.len() + usize::from(creating)).saturating_sub(limit.max(1));
    held.iter()
        .take(surplus)
        .filter(|held| !held.in_use)
        .map(|held| held.index)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_those_in_use_stay() {
        let held = |uses: &[bool]| -> Vec<_> {
            uses.iter()
                .zip(0..)
                .map(|(in_use, index)| OldSnapshot { index, in_use: *in_use })
                .collect()
        };
        for (uses, limit, creating, expected) in [
            (vec![false; 3], 10, true, vec![]),
            (vec![false; 10], 10, true, vec![0]),
            (vec![false; 10], 10, false, vec![]),
            (vec![false; 3], 2, true, vec![0, 1]),
            (vec![false, true, false], 2, true, vec![0]),
            // Limit 1: the one just replaced still runs everywhere.
            (vec![true], 1, true, vec![]),
            (vec![false, true], 1, false, vec![0]),
        ] {
            assert_eq!(
                surplus(&held(&uses), limit, creating),
                expected,
                "{uses:?} {limit} {creating}"
            );
        }
    }
}
