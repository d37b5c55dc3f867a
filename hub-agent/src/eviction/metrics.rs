//! `fleet_workload_eviction_complete`: one series for each eviction that has ended or cannot go on. Read from the store when
//! it is scraped, so that it goes with the eviction.

use std::{collections::HashMap, fmt, sync::Arc};

use fleet_api::placement::ClusterResourcePlacementEviction;
use fleet_runtime::{Key, cache::Store, metrics::Metrics};
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::encoding::MetricEncoder;

use super::view;

const NAME: &str = "fleet_workload_eviction_complete";
const HELP: &str = "When an eviction ended, or since when it fails";

/// Evictions whose last pass failed, and since when. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measures(Arc<Mutex<HashMap<Key, Timestamp>>>);

impl Measures {
    /// Registers the metric over the evictions.
    pub(crate) fn new(metrics: &Metrics, evictions: Store<ClusterResourcePlacementEviction>) -> Self {
        let new = Self::default();
        let failing = new.clone();
        metrics.register_read(NAME, HELP, move |metric| failing.write(&evictions, metric));
        new
    }

    pub(super) fn failed(&self, key: &Key, now: Timestamp) {
        self.0.lock().entry(key.clone()).or_insert(now);
    }

    pub(super) fn succeeded(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    fn write(
        &self,
        evictions: &Store<ClusterResourcePlacementEviction>,
        metric: &mut MetricEncoder<'_>,
    ) -> fmt::Result {
        let failing = self.0.lock().clone();
        for eviction in evictions.all() {
            let (completed, valid, since) = match view(&eviction).ended() {
                Some(ended) => ("true", if ended.valid { "true" } else { "false" }, ended.at),
                None => match failing.get(&Key::of(&*eviction)) {
                    Some(since) => ("false", "unknown", *since),
                    None => continue,
                },
            };
            let name = eviction.metadata.name.as_deref().unwrap_or_default();
            let labels = [("name", name), ("isCompleted", completed), ("isValid", valid)];
            metric.encode_family(&labels)?.encode_gauge(&since.as_second())?;
        }
        Ok(())
    }
}
