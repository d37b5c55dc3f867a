//! Without its CRDs the agent would wait for ever in silence.

use std::time::Duration;

use anyhow::{Context as _, bail};
use fleet_runtime::client::answered;
use kube::Client;

use crate::options::{EvictionArgs, MembershipArgs, UpdateRunArgs};

/// CRDs may be applied in the same breath as the agent is started.
const CRD_TRIES: u32 = 5;
const CRD_PAUSE: Duration = Duration::from_secs(1);

const CLUSTERS: &str = "cluster.kubernetes-fleet.io/v1beta1";
const PLACEMENTS: &str = "placement.kubernetes-fleet.io/v1beta1";
const PROFILES: &str = "multicluster.x-k8s.io/v1alpha1";

const ALWAYS: [(&str, &str); 5] = [
    (CLUSTERS, "memberclusters"),
    (CLUSTERS, "internalmemberclusters"),
    (PLACEMENTS, "works"),
    (PLACEMENTS, "clusterresourceplacements"),
    (PLACEMENTS, "resourceplacements"),
];

const UPDATE_RUNS: [&str; 6] = [
    "clusterstagedupdateruns",
    "clusterstagedupdatestrategies",
    "clusterapprovalrequests",
    "stagedupdateruns",
    "stagedupdatestrategies",
    "approvalrequests",
];

const EVICTIONS: [&str; 2] = [
    "clusterresourceplacementevictions",
    "clusterresourceplacementdisruptionbudgets",
];

/// Waits a moment for the kinds that the agent cannot do without. Whether those of update runs are there.
pub(super) async fn require(
    client: &Client,
    membership: &MembershipArgs,
    update_runs: &UpdateRunArgs,
    evictions: &EvictionArgs,
) -> anyhow::Result<bool> {
    for (group_version, plural) in ALWAYS {
        wait(client, group_version, plural, None).await?;
    }
    if membership.enable_cluster_inventory_apis {
        wait(
            client,
            PROFILES,
            "clusterprofiles",
            Some("enable-cluster-inventory-apis"),
        )
        .await?;
    }
    if evictions.enable_eviction_apis {
        for plural in EVICTIONS {
            wait(client, PLACEMENTS, plural, Some("enable-eviction-apis")).await?;
        }
    }
    if update_runs.enable_staged_update_run_apis {
        for plural in UPDATE_RUNS {
            wait(client, PLACEMENTS, plural, Some("enable-staged-update-run-apis")).await?;
        }
        return Ok(true);
    }
    // Runs that are there stand still, but can be deleted.
    let mut all = true;
    for plural in UPDATE_RUNS {
        all &= is_served(client, PLACEMENTS, plural).await?;
    }
    Ok(all)
}

async fn wait(client: &Client, group_version: &str, plural: &str, unless: Option<&str>) -> anyhow::Result<()> {
    let mut tries = 0;
    while !is_served(client, group_version, plural).await? {
        tries += 1;
        if tries == CRD_TRIES {
            bail!(
                "the hub does not serve {plural} ({group_version}): apply the CRDs first (the hub-agent chart does){}",
                unless
                    .map(|flag| format!(", or start with --{flag}=false"))
                    .unwrap_or_default()
            );
        }
        tokio::time::sleep(CRD_PAUSE).await;
    }
    Ok(())
}

async fn is_served(client: &Client, group_version: &str, plural: &str) -> anyhow::Result<bool> {
    match answered(client.list_api_group_resources(group_version)).await {
        Ok(list) => Ok(list.resources.iter().any(|r| r.name == plural)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(false),
        Err(error) => Err(error).context("cannot ask the hub's API server which kinds it serves"),
    }
}
