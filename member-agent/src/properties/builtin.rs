//! What can be said of any cluster.

use std::{collections::BTreeMap, sync::Arc};

use fleet_api::{cluster::ResourceUsage, conditions::properties::NamespaceCollectionSucceeded};
use fleet_core::membership::properties::{Amounts, CLUSTER_CA, CLUSTER_ENTRYPOINT, K8S_VERSION, NODE_COUNT};
use fleet_runtime::clock::Clock;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time};
use kube::Config;

use super::{Collected, OwnCluster, Provider, Version};
use crate::outgoing::said;

/// How others would reach this cluster's API server, read once at start.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// PEM text of its CA.
    pub ca: Option<String>,
    /// Its URL, as the agent uses it.
    pub entrypoint: Option<String>,
}

impl Identity {
    /// What the agent's own configuration says: the CA file first, then inline data.
    pub fn of(config: &Config) -> Self {
        let file = config.root_cert_file.as_ref();
        let file = file.and_then(|path| std::fs::read_to_string(path).ok());
        let inline = || {
            let certificates = config.root_cert.as_ref()?;
            Some(certificates.iter().map(|der| pem(der)).collect())
        };
        Self {
            ca: file.or_else(inline),
            entrypoint: Some(config.cluster_url.to_string().trim_end_matches('/').to_owned()),
        }
    }
}

fn pem(der: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .map(|start| &text[start..text.len().min(start + 64)])
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}

/// The built-in collection: from watches and the API server's version, for any cluster.
pub struct BuiltIn {
    cluster: Arc<OwnCluster>,
    version: Arc<Version>,
    identity: Identity,
    clock: Clock,
}

impl BuiltIn {
    /// Collects from what `cluster` watches.
    pub fn new(cluster: Arc<OwnCluster>, version: Arc<Version>, identity: Identity, clock: Clock) -> Self {
        Self {
            cluster,
            version,
            identity,
            clock,
        }
    }
}

impl Provider for BuiltIn {
    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn hindrance(&self) -> Option<String> {
        self.cluster.hindrance()
    }

    fn collect(&self) -> BoxFuture<'_, Collected> {
        Box::pin(async move {
            let mut collected = common(&self.cluster, &self.version, &self.identity, &self.clock).await;
            if let Some(entrypoint) = &self.identity.entrypoint {
                collected.set(CLUSTER_ENTRYPOINT, entrypoint.clone(), self.clock.now());
            }
            collected
        })
    }
}

/// What every provider says.
pub(super) async fn common(cluster: &OwnCluster, version: &Version, identity: &Identity, clock: &Clock) -> Collected {
    let mut collected = Collected::default();
    let version = version.get().await;
    cluster.ready().await;
    let now = clock.now();
    match version {
        Ok((version, at)) => collected.set(K8S_VERSION, version, at),
        Err(error) => tracing::warn!(error, "Could not read the version of the API server"),
    }
    if let Some(ca) = &identity.ca {
        collected.set(CLUSTER_CA, ca.clone(), now);
    }
    collected.set(
        NODE_COUNT,
        cluster
            .usage(fleet_core::membership::properties::Usage::node_count)
            .to_string(),
        now,
    );
    collected.usage = Some(usage(cluster, now));
    if let Some((reported, complete)) = cluster.namespaces(|n| (n.reported().clone(), n.complete())) {
        collected.namespaces = Some(reported);
        collected.conditions.push(said(&if complete {
            NamespaceCollectionSucceeded::Succeeded
        } else {
            NamespaceCollectionSucceeded::Degraded
        }));
    }
    collected
}

fn usage(cluster: &OwnCluster, now: Timestamp) -> ResourceUsage {
    let map = |amounts: Amounts| {
        BTreeMap::from([
            ("cpu".to_owned(), Quantity(amounts.cpu.to_string())),
            ("memory".to_owned(), Quantity(amounts.memory.to_string())),
        ])
    };
    let (capacity, allocatable) = cluster.usage(|usage| (usage.capacity(), usage.allocatable()));
    ResourceUsage {
        capacity: map(capacity),
        allocatable: map(allocatable),
        available: cluster.available().map(map).unwrap_or_default(),
        observation_time: Some(Time(now)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_printed_as_pem() {
        let text = pem(&[0; 100]);
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----\nAAAA"));
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        let mut config = Config::new("https://api.example:6443/".parse().unwrap());
        config.root_cert = Some(vec![vec![1], vec![2]]);
        let identity = Identity::of(&config);
        assert_eq!(identity.entrypoint.as_deref(), Some("https://api.example:6443"));
        assert_eq!(identity.ca.unwrap().matches("BEGIN").count(), 2);
    }
}
