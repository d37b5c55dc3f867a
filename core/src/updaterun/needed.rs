//! What runs need that have not ended: it must not be pruned under them.

use std::collections::BTreeSet;

use super::names::index_of;
use super::world::{Phase, Run};

/// The indexes of the resource snapshots that these runs of one placement need: of what they roll out, and of what they may
/// have to give back. One that is to try another again needs what that one rolled out.
pub fn needed_indexes(runs: &[Run<'_>]) -> Vec<u64> {
    let waiting = runs.iter().filter(|run| run.phase() == Phase::Uninitialized);
    let retried: BTreeSet<_> = waiting.filter_map(Run::retry_of).collect();
    let retried = runs.iter().filter(|run| retried.contains(run.name));
    let retried = retried.map(|run| run.status.resource_snapshot_index_used.as_str());
    let own = runs.iter().flat_map(own_indexes);
    own.chain(retried).filter_map(|index| index.parse().ok()).collect()
}

/// The indexes of the resource snapshots that these runs of one placement have recorded, also those of runs that have ended.
pub fn recorded_indexes(runs: &[Run<'_>]) -> Vec<u64> {
    let indexes = runs.iter().flat_map(|run| {
        let used = run.status.resource_snapshot_index_used.as_str();
        previous_indexes(run).chain([used])
    });
    indexes.filter_map(|index| index.parse().ok()).collect()
}

/// Whether a run has recorded this master snapshot: to be rolled out, or to be given back.
pub(super) fn records(run: &Run<'_>, snapshot: &str) -> bool {
    let index = index_of(&run.spec.placement_name, snapshot);
    run.status.resource_snapshot_index_used == index || previous_indexes(run).any(|previous| previous == index)
}

fn own_indexes<'a>(run: &Run<'a>) -> Vec<&'a str> {
    let named = match run.phase() {
        Phase::Finished => return Vec::new(),
        Phase::Uninitialized => &run.spec.resource_snapshot_index,
        Phase::Active | Phase::Idle => &run.status.resource_snapshot_index_used,
    };
    previous_indexes(run).chain([named.as_str()]).collect()
}

fn previous_indexes<'a>(run: &Run<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    let placement = &run.spec.placement_name;
    let clusters = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let previous = clusters.filter_map(|cluster| cluster.previous.as_ref());
    previous.map(|previous| index_of(placement, &previous.resource_snapshot_name))
}

/// The override snapshots that a run needs, with the namespace of those that have one: of its plan, and of what it may have
/// to give back.
pub fn needed_overrides<'a>(run: &Run<'a>) -> BTreeSet<(Option<&'a str>, &'a str)> {
    if run.phase() == Phase::Finished {
        return BTreeSet::new();
    }
    let clusters = run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let lists = clusters.flat_map(|cluster| {
        let planned = (
            &cluster.cluster_resource_override_snapshots,
            &cluster.resource_override_snapshots,
        );
        let previous = cluster.previous.iter().map(|previous| {
            (
                &previous.cluster_resource_override_snapshots,
                &previous.resource_override_snapshots,
            )
        });
        previous.chain([planned])
    });
    lists
        .flat_map(|(cluster_wide, namespaced)| {
            let cluster_wide = cluster_wide.iter().map(|name| (None, name.as_str()));
            let namespaced = namespaced.iter();
            cluster_wide.chain(namespaced.map(|named| (Some(named.namespace.as_str()), named.name.as_str())))
        })
        .collect()
}
