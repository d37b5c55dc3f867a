//! ClusterEligibility: only clusters that are connected and healthy get something new. What is there stays.

use std::time::Duration;

use fleet_api::cluster::MemberCluster;
use fleet_api::conditions::decision::{Ineligible, Rejection};
use jiff::Timestamp;

use crate::membership::eligibility::{self, Eligibility, eligibility};
use crate::scheduler::world::Cluster;

/// Rejects a cluster that cannot be used now.
pub fn filter(cluster: &Cluster<'_>) -> Result<(), Rejection> {
    cluster.ineligible.map_or(Ok(()), |why| Err(Rejection::Ineligible(why)))
}

/// Until when the cluster can be used if nothing is heard from it, or why it cannot.
pub fn of(cluster: &MemberCluster, now: Timestamp) -> Result<Timestamp, Ineligible> {
    let age = |minutes: f64| Duration::try_from_secs_f64(minutes * 60.0).unwrap_or(Duration::MAX);
    match eligibility(cluster, now) {
        Eligibility::Eligible { until } => Ok(until),
        Eligibility::Ineligible(why) => Err(match why {
            eligibility::Ineligible::Left => Ineligible::Left,
            eligibility::Ineligible::NotOnline => Ineligible::NotOnline,
            eligibility::Ineligible::NoHeartbeat { minutes } => Ineligible::HeartbeatLost(age(minutes)),
            eligibility::Ineligible::NotJoined => Ineligible::NotJoined,
            eligibility::Ineligible::NoHealth => Ineligible::NoHealth,
            eligibility::Ineligible::Unhealthy { minutes } => Ineligible::Unhealthy(age(minutes)),
        }),
    }
}
