//! Faults in the middle of placing: the hub agent killed between any two writes, its API server gone, other flags, many
//! objects at once. Everybody feels these, so they run one after the other on a fleet of their own.

mod crashes;
mod flags;
mod many;
mod report_back;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use fleet_api::placement::{ClusterResourceBinding, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot};
use fleet_e2e::agents::{self, HUB_AGENT};
use fleet_e2e::binaries;
use fleet_e2e::harness::Ctx;
use fleet_e2e::placements::Crp;
use fleet_e2e::targets::Targets;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use serde_json::{Value, json};

const LATEST: &str = "kubernetes-fleet.io/is-latest-snapshot";

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": value } }))
        .expect("a valid ConfigMap")
}

pub(crate) fn spec(selectors: &Value, targets: &Targets) -> Value {
    let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%", "unavailablePeriodSeconds": 0 } });
    json!({ "resourceSelectors": selectors, "policy": targets.all(), "strategy": strategy })
}

/// Tells a story with a hub agent that has other values of the chart, or further flags, in place of the fleet's own, which
/// is back afterwards.
pub(crate) async fn with_agent(
    ctx: &Ctx,
    word: &str,
    values: &Value,
    flags: &[String],
    story: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    ctx.fleet().kill(HUB_AGENT).await?;
    let process = format!("hub/{}", ctx.name(word));
    let helm = binaries::find_or_build_helm().await?;
    agents::start_hub_agent_with(ctx.fleet(), &helm, &process, values, flags).await?;
    let outcome = story().await;
    ctx.fleet().kill(&process).await?;
    agents::start_hub_agent(ctx.fleet(), &helm, HUB_AGENT, &[]).await?;
    outcome
}

/// Nothing twice, nothing half: one latest of each, whole groups, one binding per cluster.
pub(crate) async fn is_whole(crp: &Crp, clusters: usize) -> Result<()> {
    let is_latest = |labels: &BTreeMap<String, String>| labels.get(LATEST).is_some_and(|v| v == "true");
    let policies = crp.made::<ClusterSchedulingPolicySnapshot>().await?;
    let latest = policies.iter().filter(|s| is_latest(s.labels())).count();
    ensure!(latest == 1, "{latest} policy snapshots are the latest: {policies:?}");
    let snapshots = crp.made::<ClusterResourceSnapshot>().await?;
    let masters: Vec<_> = snapshots
        .iter()
        .filter(|s| s.annotations().contains_key("kubernetes-fleet.io/resource-hash"))
        .collect();
    let latest = masters.iter().filter(|s| is_latest(s.labels())).count();
    ensure!(latest == 1, "{latest} resource snapshots are the latest");
    for master in masters {
        let index = &master.labels()["kubernetes-fleet.io/resource-index"];
        let same = |s: &&ClusterResourceSnapshot| s.labels()["kubernetes-fleet.io/resource-index"] == *index;
        let count = master.annotations()["kubernetes-fleet.io/number-of-resource-snapshots"].parse::<usize>()?;
        ensure!(
            snapshots.iter().filter(same).count() == count,
            "group {index} is not whole"
        );
    }
    let bindings = crp.made::<ClusterResourceBinding>().await?;
    ensure!(
        bindings.len() == clusters,
        "{} bindings for {clusters} clusters",
        bindings.len()
    );
    Ok(())
}
