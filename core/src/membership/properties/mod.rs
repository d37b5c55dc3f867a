//! What a cluster says about itself: sums over nodes and pods, namespaces, costs, and when to say it.
//!
//! Owned by the member agent. Everything here is fed by watches and answers in constant time per change.

mod cadence;
mod cost;
mod namespaces;
mod quantity;
mod requests;
mod usage;

pub use cadence::{Cadence, Change};
pub use cost::{Costs, MISSING_PRICE, Prices, STALE_AFTER, Values, costs};
pub use namespaces::{Namespaces, TRACK_LIMIT};
pub use quantity::{Format, NotAQuantity, Quantity};
pub use requests::{Amounts, InitContainer, PodRequests};
pub use usage::{NodeFacts, UNDEFINED_SKU, Usage};

/// How many nodes the cluster has.
pub const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";
/// The API server's version.
pub const K8S_VERSION: &str = "k8s.io/k8s-version";
/// PEM text of the API server's CA.
pub const CLUSTER_CA: &str = "k8s.io/cluster-certificate-authority-data";
/// URL of the API server.
pub const CLUSTER_ENTRYPOINT: &str = "k8s.io/cluster-entrypoint";
/// Hourly US dollars per core.
pub const PER_CPU_CORE_COST: &str = "kubernetes.azure.com/per-cpu-core-cost";
/// Hourly US dollars per gigabyte.
pub const PER_GB_MEMORY_COST: &str = "kubernetes.azure.com/per-gb-memory-cost";

/// The property that counts nodes of one SKU.
pub fn sku_count(sku: &str) -> String {
    format!("kubernetes.azure.com/vm-sizes/{sku}/count")
}
