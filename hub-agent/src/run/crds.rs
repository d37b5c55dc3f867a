//! Without its CRDs the agent would wait for ever in silence.

use std::time::Duration;

use anyhow::{Context as _, bail};
use fleet_runtime::client::answered;
use kube::Client;

use crate::{
    cache::family::RunKinds,
    options::{EvictionArgs, MembershipArgs, UpdateRunArgs},
};

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

const CLUSTER_RUNS: [&str; 3] = [
    "clusterstagedupdateruns",
    "clusterstagedupdatestrategies",
    "clusterapprovalrequests",
];

const NAMESPACED_RUNS: [&str; 3] = ["stagedupdateruns", "stagedupdatestrategies", "approvalrequests"];

const EVICTIONS: [&str; 2] = [
    "clusterresourceplacementevictions",
    "clusterresourceplacementdisruptionbudgets",
];

/// Waits a moment for the kinds that the agent cannot do without. Which of those of update runs are there.
pub(super) async fn require(
    client: &Client,
    membership: &MembershipArgs,
    update_runs: &UpdateRunArgs,
    evictions: &EvictionArgs,
    namespaced: bool,
) -> anyhow::Result<RunKinds> {
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
    let enabled = update_runs.enable_staged_update_run_apis;
    Ok(RunKinds {
        cluster: runs(client, CLUSTER_RUNS, enabled).await?,
        namespaced: runs(client, NAMESPACED_RUNS, enabled && namespaced).await?,
    })
}

/// Whether the kinds of one scope's update runs are there; they are waited for if runs are `carried_out`.
async fn runs(client: &Client, plurals: [&str; 3], carried_out: bool) -> anyhow::Result<bool> {
    // Runs that are not carried out stand still, but can be deleted.
    let mut all = true;
    for plural in plurals {
        if carried_out {
            wait(client, PLACEMENTS, plural, Some("enable-staged-update-run-apis")).await?;
        } else {
            all &= is_served(client, PLACEMENTS, plural).await?;
        }
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use fleet_testkit::Server;

    use super::*;
    use crate::options::Options;

    /// What an agent with these flags finds on a hub that lacks these kinds.
    async fn found(flags: &[&str], lacks: &[&str]) -> anyhow::Result<RunKinds> {
        let server = Server::new();
        let runs = CLUSTER_RUNS.into_iter().chain(NAMESPACED_RUNS);
        let others = EVICTIONS.into_iter().chain(runs);
        let others = others.map(|plural| (PLACEMENTS, plural));
        for (group_version, plural) in ALWAYS.into_iter().chain(others) {
            if !lacks.contains(&plural) {
                server.serve(&format!("/apis/{group_version}"), plural, plural, false);
            }
        }
        server.serve(&format!("/apis/{PROFILES}"), "clusterprofiles", "ClusterProfile", true);
        let options = Options::try_parse_from([&["hub-agent"], flags].concat()).unwrap();
        require(
            &server.client(),
            &options.membership,
            &options.update_runs,
            &options.evictions,
            options.placement.enable_resource_placement,
        )
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_kinds_of_runs_that_are_carried_out_are_needed() {
        let kinds = found(&[], &[]).await.unwrap();
        assert!(kinds.cluster && kinds.namespaced);
        let error = found(&[], &["approvalrequests"]).await.unwrap_err();
        assert!(error.to_string().contains("does not serve approvalrequests"), "{error}");
        // Without ResourcePlacements no runs in namespaces are carried out.
        let flags = ["--enable-resource-placement=false"];
        let kinds = found(&flags, &["approvalrequests"]).await.unwrap();
        assert!(kinds.cluster && !kinds.namespaced);
        assert!(found(&flags, &["clusterapprovalrequests"]).await.is_err());
        // Switched off, those of each scope that are there can be deleted.
        let flags = ["--enable-staged-update-run-apis=false"];
        let kinds = found(&flags, &["clusterstagedupdateruns"]).await.unwrap();
        assert!(!kinds.cluster && kinds.namespaced);
    }
}
