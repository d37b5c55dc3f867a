//! What Azure Kubernetes Service clusters say besides: VM sizes, and what they cost.

use std::sync::Arc;

use fleet_core::membership::properties::{PER_CPU_CORE_COST, PER_GB_MEMORY_COST, costs, sku_count};
use fleet_runtime::clock::Clock;
use futures::future::BoxFuture;

use super::{Collected, Identity, OwnCluster, PriceFile, Provider, Version, builtin::common};
use crate::outgoing::said;

/// The azure provider. Prices come from a file, never from the network.
pub struct Azure {
    /// What is watched.
    pub cluster: Arc<OwnCluster>,
    /// The API server's version.
    pub version: Arc<Version>,
    /// The API server's CA.
    pub identity: Identity,
    /// The region from the settings; empty: as nodes say.
    pub region: String,
    /// Whether costs are reported.
    pub costs: bool,
    /// Prices.
    pub prices: Option<PriceFile>,
    /// The time.
    pub clock: Clock,
}

impl Provider for Azure {
    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.version.get().await?;
            if self.costs && self.region.is_empty() {
                self.cluster.ready().await;
                let region = self.cluster.region().ok_or("no nodes found with the region label")?;
                tracing::info!(region, "The property provider found the region");
            }
            Ok(())
        })
    }

    fn hindrance(&self) -> Option<String> {
        self.cluster.hindrance()
    }

    fn collect(&self) -> BoxFuture<'_, Collected> {
        Box::pin(async move {
            let mut collected = common(&self.cluster, &self.version, &self.identity, &self.clock).await;
            let now = self.clock.now();
            let (skus, capacity) = self.cluster.usage(|usage| (usage.skus().clone(), usage.capacity()));
            for (sku, count) in &skus {
                collected.set(sku_count(sku), count.to_string(), now);
            }
            if self.costs {
                let prices = self.prices.as_ref().and_then(|file| file.prices(now));
                let costs = costs(&skus, capacity, prices.as_ref(), now);
                if let Some(values) = costs.values {
                    collected.set(PER_CPU_CORE_COST, values.per_cpu_core, now);
                    collected.set(PER_GB_MEMORY_COST, values.per_gb_memory, now);
                }
                collected.conditions.push(said(&costs.condition));
            }
            collected
        })
    }
}
