//! SamePlacementAntiAffinity: a placement is on a cluster once, and rather stays where it was.

use std::collections::HashMap;

use crate::scheduler::classes::Classes;

/// What a placement already has on its clusters.
#[derive(Debug, Default)]
pub struct Present<'a> {
    clusters: HashMap<&'a str, Presence>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    /// Picked by an earlier policy.
    Obsolete,
    /// Picked by this policy.
    Current,
}

impl<'a> Present<'a> {
    /// What `classes` say.
    pub fn new(classes: &Classes<'a>) -> Self {
        let obsolete = classes
            .obsolete
            .iter()
            .map(|binding| (binding.cluster, Presence::Obsolete));
        let current = classes.current().map(|binding| (binding.cluster, Presence::Current));
        Self {
            clusters: obsolete.chain(current).collect(),
        }
    }

    /// Whether this policy has already picked the cluster. Such a cluster is neither a candidate nor rejected.
    pub fn is_picked(&self, cluster: &str) -> bool {
        self.clusters.get(cluster) == Some(&Presence::Current)
    }

    /// Whether an earlier policy picked the cluster. Among equals it is preferred: moving costs more than staying.
    pub fn is_obsolete(&self, cluster: &str) -> bool {
        self.clusters.get(cluster) == Some(&Presence::Obsolete)
    }
}
