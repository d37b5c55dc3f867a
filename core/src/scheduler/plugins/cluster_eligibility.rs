//! ClusterEligibility: only clusters that are connected and healthy get something new. What is there stays.

use fleet_api::conditions::decision::Rejection;

use crate::scheduler::world::Cluster;

/// Rejects a cluster that cannot be used now.
pub fn filter(cluster: &Cluster<'_>) -> Result<(), Rejection> {
    cluster.ineligible.map_or(Ok(()), |why| Err(Rejection::Ineligible(why)))
}
