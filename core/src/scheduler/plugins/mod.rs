//! The rules by which clusters are filtered and scored, one file each.
//!
//! A filter answers "not this cluster" with a [`Rejection`]; that is an answer, not an error. What is wrong with the
//! policy itself is found when the policy is prepared, before any cluster is looked at.

pub mod cluster_affinity;
pub mod cluster_eligibility;
pub mod namespace_affinity;
pub mod same_placement_anti_affinity;
pub mod taint_toleration;
pub mod topology_spread;

use fleet_api::conditions::decision::Rejection;
use fleet_api::placement::PlacementPolicy;

use self::cluster_affinity::Required;
use self::taint_toleration::Tolerations;
use super::plan::Problem;
use super::world::Cluster;

/// The filters that look at one cluster at a time, prepared for one policy.
#[derive(Debug, Clone)]
pub struct Filters {
    /// Which clusters the policy requires.
    pub required: Required,
    tolerations: Tolerations,
    namespace: Option<String>,
}

impl Filters {
    /// The filters of a policy, for a placement in `namespace` if it has one.
    pub fn new(policy: Option<&PlacementPolicy>, namespace: Option<&str>) -> Result<Self, Problem> {
        Ok(Self {
            required: Required::new(policy)?,
            tolerations: Tolerations::new(policy),
            namespace: namespace.map(Into::into),
        })
    }

    /// Whether the policy admits the cluster. The order decides which of several reasons users see.
    pub fn admit(&self, cluster: &Cluster<'_>) -> Result<(), Rejection> {
        self.required.filter(cluster)?;
        cluster_eligibility::filter(cluster)?;
        namespace_affinity::filter(self.namespace.as_deref(), cluster)?;
        self.tolerations.filter(cluster)
    }
}
