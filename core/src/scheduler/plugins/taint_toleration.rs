//! TaintToleration: every taint of a cluster must be tolerated.

use fleet_api::cluster::Taint;
use fleet_api::conditions::decision::Rejection;
use fleet_api::placement::{PlacementPolicy, Toleration, TolerationOperator};

use crate::scheduler::world::Cluster;

/// What a policy tolerates.
#[derive(Debug, Clone, Default)]
pub struct Tolerations(Vec<Toleration>);

impl Tolerations {
    /// The tolerations of `policy`.
    pub fn new(policy: Option<&PlacementPolicy>) -> Self {
        Self(policy.map(|policy| policy.tolerations.clone()).unwrap_or_default())
    }

    /// Whether a taint is tolerated.
    pub fn tolerate(&self, taint: &Taint) -> bool {
        self.0.iter().any(|toleration| tolerates(toleration, taint))
    }

    /// Rejects a cluster for its first taint that is not tolerated.
    pub fn filter(&self, cluster: &Cluster<'_>) -> Result<(), Rejection> {
        match cluster.taints.iter().find(|taint| !self.tolerate(taint)) {
            None => Ok(()),
            Some(Taint { key, value, effect }) => Err(Rejection::Taint {
                key: key.clone(),
                value: value.clone(),
                effect: effect.to_string(),
            }),
        }
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    // No effect stands for every effect.
    if toleration.effect.as_ref().is_some_and(|effect| *effect != taint.effect) {
        return false;
    }
    match toleration.operator {
        TolerationOperator::Exists => toleration.key.is_empty() || toleration.key == taint.key,
        TolerationOperator::Equal => toleration.key == taint.key && toleration.value == taint.value,
    }
}
