//! "Kubernetes resource propagation from hub cluster to member clusters": its manifests, and the status that it explains.

use anyhow::{Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, core_selector, lines, nothing};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::sample;

/// In the version that the guide shows.
const KIND: &str = "clusterresourceplacements.v1beta1.placement.kubernetes-fleet.io";

#[test]
fn a_completed_placement_is_described_as_in_the_guide() {
    scenario("guide-status", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "test-1" }, "data": { "a": "b" } }))?;
        ctx.create_in("hub", &namespace, map).await?;
        let spec = json!({
            "policy": { "placementType": "PickN", "numberOfClusters": 2 },
            "resourceSelectors": [core_selector("Namespace", &namespace)],
        });
        let crp = Crp::create(&ctx, "crp-1", &spec).await?;
        crp.until_available(0).await?;
        crp.until_event("PlacementRolloutCompleted").await?;
        let printed = ctx.kubectl("hub")?.ok(&["describe", KIND, &crp.name]).await?;
        let names = [
            (crp.name.as_str(), "crp-1"),
            (namespace.as_str(), "test"),
            // Of equal clusters the greater name comes first.
            ("member-2", "aks-member-<first>"),
            ("member-1", "aks-member-2"),
            ("aks-member-<first>", "aks-member-1"),
        ];
        sample::describes(&printed, include_str!("samples/crp-1.describe.txt"), &names)?;

        let columns = ctx.kubectl("hub")?.ok(&["get", "crp", &crp.name, "-o", "wide"]).await?;
        let rows: Vec<Vec<&str>> = columns.lines().map(|line| line.split_whitespace().collect()).collect();
        let heads = [
            "NAME",
            "GEN",
            "TYPE",
            "SCHEDULED",
            "SCHEDULED-GEN",
            "WORK-SYNCHRONIZED",
            "WORK-SYNCHRONIZED-GEN",
            "AVAILABLE",
            "AVAILABLE-GEN",
            "AGE",
        ];
        ensure!(rows[0] == heads, "{columns}");
        ensure!(
            rows[1][1..9] == ["1", "PickN", "True", "1", "True", "1", "True", "1"],
            "{columns}"
        );
        Ok(())
    });
}

/// Labels on the fleet's own members, for as long as a story lasts.
pub(crate) async fn label(ctx: &Ctx, member: &str, labels: &Value) -> Result<()> {
    let api: Api<MemberCluster> = Api::all(ctx.hub().await?);
    let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
    api.patch(member, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Applies a manifest of the guide under a name of our own and gives the clusters that were picked.
async fn picked(ctx: &Ctx, word: &str, policy: &Value, strategy: Option<&Value>) -> Result<Vec<String>> {
    let selectors = nothing(ctx);
    let mut spec = json!({ "policy": policy, "resourceSelectors": selectors });
    if let Some(strategy) = strategy {
        spec["strategy"] = strategy.clone();
    }
    let crp = Crp::create(ctx, word, &spec).await?;
    let placed = crp
        .until("scheduled", |crp| {
            let status = crp.status.as_ref();
            status.is_some_and(|s| {
                lines(&s.conditions)
                    .iter()
                    .any(|l| l.starts_with("Scheduled=") && !l.contains("Unknown"))
            })
        })
        .await?;
    let entries = placed.status.unwrap_or_default().placement_statuses;
    Ok(entries
        .into_iter()
        .map(|entry| entry.cluster_name)
        .filter(|name| !name.is_empty())
        .collect())
}

#[test]
fn the_policies_of_the_guide_pick_what_it_says() {
    scenario("guide-policies", |ctx| async move {
        let both = ["member-1", "member-2"];
        label(
            &ctx,
            "member-1",
            &json!({ "environment": "production", "critical-allowed": "true", "region": "east" }),
        )
        .await?;
        let more =
            json!({ "critical-allowed": "true", "critical-level": "1", "region": "west", "updateDay": "monday" });
        label(&ctx, "member-2", &more).await?;
        let labelled = |key: &str, value: &str| json!([{ "labelSelector": { "matchLabels": { key: value } } }]);
        let required = |terms: Value| json!({ "clusterAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "clusterSelectorTerms": terms } } });
        let policy = json!({ "placementType": "PickAll", "affinity": required(labelled("environment", "production")) });
        let found = picked(&ctx, "pick-all", &policy, None).await?;
        ensure!(found == ["member-1"], "{found:?}");

        let policy = json!({ "placementType": "PickFixed", "clusterNames": both });
        let found = picked(&ctx, "pick-fixed", &policy, None).await?;
        ensure!(found == both, "{found:?}");

        let mut affinity = required(labelled("critical-allowed", "true"));
        affinity["clusterAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = json!([
            { "weight": 20, "preference": { "labelSelector": { "matchLabels": { "critical-level": "1" } } } },
        ]);
        let policy = |n: u32| json!({ "placementType": "PickN", "numberOfClusters": n, "affinity": affinity });
        let found = picked(&ctx, "pick-n-1", &policy(1), None).await?;
        ensure!(found == ["member-2"], "the preferred one first: {found:?}");
        let mut found = picked(&ctx, "pick-n-3", &policy(3), None).await?;
        found.sort();
        ensure!(found == both, "as many as there are: {found:?}");

        let spread = json!({ "placementType": "PickN", "numberOfClusters": 2, "topologySpreadConstraints": [
            { "maxSkew": 2, "topologyKey": "region", "whenUnsatisfiable": "DoNotSchedule" },
            { "maxSkew": 2, "topologyKey": "updateDay", "whenUnsatisfiable": "ScheduleAnyway" },
        ] });
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": {
            "maxUnavailable": "25%", "maxSurge": "25%", "unavailablePeriodSeconds": 60,
        } });
        let mut found = picked(&ctx, "spread", &spread, Some(&strategy)).await?;
        found.sort();
        ensure!(found == both, "{found:?}");
        let none = json!({ "environment": null, "critical-allowed": null, "critical-level": null, "region": null, "updateDay": null });
        label(&ctx, "member-1", &none).await?;
        label(&ctx, "member-2", &none).await
    });
}
