//! `fleet_workload_placement_status_last_timestamp_seconds`: where each placement stands, and since when.
//!
//! Read from the stores when it is scraped, so that nothing has to be kept true and a deleted placement has no series. It
//! is the one metric whose labels carry names: KubeFleet's dashboards and alerts are built on it, and there is one series for
//! each placement.

use std::fmt;

use fleet_api::placement::{ClusterScoped, Namespaced, Scope};
use fleet_core::rollup;
use fleet_runtime::{cache::Store, metrics::Metrics};
use kube::{Resource as _, ResourceExt as _, core::object::HasStatus as _};
use prometheus_client::encoding::MetricEncoder;

use super::placement::rollup_context;

const NAME: &str = "fleet_workload_placement_status_last_timestamp_seconds";
const HELP: &str = "When the first condition of a placement that is not True, or its completion, was last reached";

/// Registers the metric over the placements of both scopes.
pub(crate) fn register(
    metrics: &Metrics,
    cluster: Store<<ClusterScoped as Scope>::Placement>,
    namespaced: Store<<Namespaced as Scope>::Placement>,
) {
    metrics.register_read(NAME, HELP, move |metric| {
        write::<ClusterScoped>(&cluster, metric)?;
        write::<Namespaced>(&namespaced, metric)
    });
}

fn write<S: Scope>(placements: &Store<S::Placement>, metric: &mut MetricEncoder<'_>) -> fmt::Result {
    for placement in placements.all() {
        let meta = placement.meta();
        let context = rollup_context::<S>(&placement, None, 0, jiff::Timestamp::UNIX_EPOCH);
        let list = placement
            .status()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let standing = rollup::standing(&context, list);
        let reached = list.iter().map(|condition| condition.last_transition_time.0).max();
        let since = reached.or_else(|| placement.creation_timestamp().map(|time| time.0));
        let labels = [
            ("namespace", meta.namespace.clone().unwrap_or_default()),
            ("name", meta.name.clone().unwrap_or_default()),
            ("generation", context.generation.to_string()),
            ("conditionType", standing.condition_type.to_owned()),
            ("status", standing.status.to_owned()),
            ("reason", standing.reason.to_owned()),
        ];
        let value = since.map(jiff::Timestamp::as_second).unwrap_or_default();
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}
