//! Clusters that a run which took back what it did has left alone. Its Event says why for an hour; bindings say which for as
//! long as nobody starts their clusters again.

use fleet_api::conditions::update_stage::ClusterStarted;
use fleet_api::placement::UpdateRunStatus;

use super::super::fleet::{Fleet, Run, holds};
use super::super::names::few;

/// The words by which a run says that it has taken back what it did.
const WORDS: &str = "; rolled back ";

/// What to add to the end of a run that `message` speaks of; nothing if every cluster has been given back what it had.
pub(super) fn alone(fleet: &Fleet<'_>, run: &Run<'_>, status: &UpdateRunStatus, message: &str) -> String {
    if !message.contains(WORDS) {
        return String::new();
    }
    let version = format!(
        "{}-{}-snapshot",
        run.spec.placement_name, status.resource_snapshot_index_used
    );
    let keeps = |cluster: &str| {
        let binding = fleet.binding(&run.spec.placement_name, cluster);
        binding.is_some_and(|binding| binding.run() == run.name() && binding.spec.resource_snapshot_name == version)
    };
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let started = clusters.filter(|cluster| holds(&cluster.conditions, ClusterStarted::TYPE));
    let left: Vec<_> = started
        .map(|cluster| cluster.cluster_name.as_str())
        .filter(|cluster| keeps(cluster))
        .collect();
    if left.is_empty() {
        return String::new();
    }
    format!("; left alone with resource snapshot {version}: {}", few(left))
}
