//! NamespaceAffinity: a namespaced placement goes only where its namespace is.

use fleet_api::conditions::decision::Rejection;

use crate::scheduler::world::{Cluster, Namespaces};

/// Rejects a cluster without `namespace`. A cluster-scoped placement has none and passes.
pub fn filter(namespace: Option<&str>, cluster: &Cluster<'_>) -> Result<(), Rejection> {
    let Some(namespace) = namespace else { return Ok(()) };
    match cluster.namespaces {
        Namespaces::NotCollected => Ok(()),
        Namespaces::Unknown => Err(Rejection::NoNamespaces),
        Namespaces::Known(known) if known.contains_key(namespace) => Ok(()),
        Namespaces::Known(_) => Err(Rejection::NamespaceMissing),
    }
}
