//! The copy of a placement's status in its namespace.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourcePlacementStatus, ClusterResourceSnapshot};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, core_selector, furnished, lines, spec, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

/// A placement whose status its namespace may read.
fn accessible(selectors: &Value, policy: &Value) -> Value {
    let mut spec = spec(selectors, policy);
    spec["statusReportingScope"] = json!("NamespaceAccessible");
    spec
}

fn synced(namespace: &str) -> String {
    format!(
        "StatusSynced=True StatusSyncSucceeded: Successfully created or updated ClusterResourcePlacementStatus in namespace \
         '{namespace}'"
    )
}

async fn copies(ctx: &Ctx, namespace: &str) -> Result<Api<ClusterResourcePlacementStatus>> {
    Ok(Api::namespaced(ctx.hub().await?, namespace))
}

/// Waits until the copy is the status without the word on the copy itself.
async fn until_equal(ctx: &Ctx, crp: &Crp, namespace: &str) -> Result<ClusterResourcePlacementStatus> {
    let mut status = crp.status().await?;
    status
        .conditions
        .retain(|c| c.type_ != "ClusterResourcePlacementStatusSynced");
    wait::until_present(
        copies(ctx, namespace).await?,
        &crp.name,
        "the same as the placement says",
        |copy| copy.source_status == status,
    )
    .await
}

#[test]
fn a_namespace_has_a_copy_of_its_placements_status() {
    scenario("mirror", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let selectors = whole_namespace(&namespace);
        let crp = Crp::create(&ctx, "crp", &accessible(&selectors, &cast.everywhere())).await?;
        crp.until_available(0).await?;
        crp.until_says(&[&synced(&namespace)]).await?;
        let copy = until_equal(&ctx, &crp, &namespace).await?;
        let owners = copy.owner_references();
        ensure!(
            owners.len() == 1 && owners[0].name == crp.name && owners[0].controller == Some(true),
            "{owners:?}"
        );
        ensure!(owners[0].block_owner_deletion == Some(true), "{owners:?}");

        // Its columns.
        let printed = ctx.kubectl("hub")?.ok(&["get", "crps", "-n", &namespace]).await?;
        let heads: Vec<_> = printed.lines().next().unwrap_or_default().split_whitespace().collect();
        ensure!(heads == ["NAME", "RESOURCE-INDEX", "LAST-UPDATED", "AGE"], "{printed}");

        // Deleted by hand it comes back.
        let api = copies(&ctx, &namespace).await?;
        api.delete(&crp.name, &DeleteParams::default()).await?;
        wait::until_present(api.clone(), &crp.name, "made again", |again| again.uid() != copy.uid()).await?;

        // A quiet placement writes no copies.
        let before = api.get(&crp.name).await?.resource_version();
        let marker = Crp::create(&ctx, "marker", &accessible(&selectors, &cast.everywhere())).await?;
        marker.until_says(&[&synced(&namespace)]).await?;
        ensure!(
            api.get(&crp.name).await?.resource_version() == before,
            "written without need"
        );

        crp.remove().await?;
        wait::until_gone(api, &crp.name).await
    });
}

#[test]
fn a_copy_waits_for_its_namespace() {
    scenario("mirror-late", |ctx| async move {
        let namespace = ctx.name("late");
        let policy = json!({ "placementType": "PickN", "numberOfClusters": 0 });
        let selectors = whole_namespace(&namespace);
        let crp = Crp::create(&ctx, "crp", &accessible(&selectors, &policy)).await?;
        let status = crp.until_step("StatusSynced", "False").await?;
        let said = lines(&status.conditions);
        let begin = "StatusSynced=False StatusSyncFailed: Failed to create or update ClusterResourcePlacementStatus: error \
                     returned by the API server: failed to create or update ClusterResourcePlacementStatus: ";
        ensure!(said.iter().any(|line| line.starts_with(begin)), "{said:#?}");
        let made: Namespace = serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
        ctx.create("hub", made).await?;
        // Without a cluster all other conditions go; this one comes back.
        crp.until_says(&[&synced(&namespace)]).await?;
        until_equal(&ctx, &crp, &namespace).await?;
        Ok(())
    });
}

#[test]
fn the_namespace_of_a_copy_never_changes() {
    scenario("mirror-moved", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let other = ctx.another_namespace("hub", "other").await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = Crp::create(
            &ctx,
            "crp",
            &accessible(&whole_namespace(&namespace), &cast.everywhere()),
        )
        .await?;
        crp.until_available(0).await?;
        crp.until_says(&[&synced(&namespace)]).await?;
        crp.patch(&json!({ "spec": { "resourceSelectors": whole_namespace(&other) } }))
            .await?;
        let moved = format!(
            "Scheduled=False InvalidResourceSelectors: namespace resource selector is choosing a different namespace \
             '{other}' from what was originally picked '{namespace}'. This is not allowed for NamespaceAccessible \
             ClusterResourcePlacement"
        );
        crp.until_says(&[&moved]).await?;
        ensure!(
            crp.made::<ClusterResourceSnapshot>().await?.len() == 1,
            "clusters keep what they have"
        );
        ensure!(
            copies(&ctx, &other).await?.get_opt(&crp.name).await?.is_none(),
            "no copy elsewhere"
        );
        crp.patch(&json!({ "spec": { "resourceSelectors": whole_namespace(&namespace) } }))
            .await?;
        crp.until_available(0).await?;
        crp.until_says(&[&synced(&namespace)]).await?;

        // Something else that is wrong reaches the copy.
        let wrong = json!([
            core_selector("Namespace", &namespace),
            { "group": "example.com", "version": "v3", "kind": "Gizmo", "name": "x" },
        ]);
        crp.patch(&json!({ "spec": { "resourceSelectors": wrong } })).await?;
        crp.until_step("Scheduled", "False").await?;
        let copy = wait::until_present(copies(&ctx, &namespace).await?, &crp.name, "says so", |copy| {
            lines(&copy.source_status.conditions)
                .iter()
                .any(|line| line.starts_with("Scheduled=False InvalidResourceSelectors"))
        })
        .await?;
        ensure!(!copy.name_any().is_empty(), "{copy:?}");

        let labelled = json!([{
            "group": "", "version": "v1", "kind": "Namespace",
            "labelSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
        }]);
        let nobody = Crp::create(&ctx, "labelled", &accessible(&labelled, &cast.everywhere())).await?;
        nobody
            .until_says(&[
                "Scheduled=False InvalidResourceSelectors: NamespaceAccessible ClusterResourcePlacement doesn't specify a \
                 resource selector which selects a namespace",
            ])
            .await
            .context("a label names no namespace")?;
        ensure!(
            copies(&ctx, &namespace).await?.get_opt(&nobody.name).await?.is_none(),
            "no copy"
        );
        Ok(())
    });
}
