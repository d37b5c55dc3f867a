//! What a run rolls out: the overrides of its plan, and a version that stays until it has ended.

use anyhow::{Result, ensure};
use fleet_api::placement::{ClusterScoped, Namespaced, ResourceOverride, ResourceOverrideSnapshot, ResourceSnapshot};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::change;
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use fleet_e2e::wait;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// Gives the ConfigMap of the scenario's namespace another value on the clusters of a stage.
fn rules(stage: &str, value: &str) -> Value {
    let terms = json!([{ "labelSelector": { "matchLabels": { "stage": stage } } }]);
    let patch = json!([{ "op": "replace", "path": "/data/key", "value": value }]);
    json!([{ "clusterSelector": { "clusterSelectorTerms": terms }, "jsonPatchOverrides": patch }])
}

async fn overridden(ctx: &Ctx, word: &str, placement: Value, rules: Value) -> Result<String> {
    let selector = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": "settings" });
    let spec = json!({
        "placement": placement, "resourceSelectors": [selector], "policy": { "overrideRules": rules },
    });
    let object = json!({ "metadata": { "name": ctx.name(word) }, "spec": spec });
    ctx.create_in::<ResourceOverride>("hub", ctx.prefix(), serde_json::from_value(object)?)
        .await?;
    // Its snapshot is what runs read.
    let snapshots = Api::<ResourceOverrideSnapshot>::namespaced(ctx.hub().await?, ctx.prefix());
    let name = format!("{}-0", ctx.name(word));
    wait::until_present(snapshots, &name, "snapshotted", |_| true).await?;
    Ok(name)
}

#[test]
fn overrides_are_those_of_the_plan_and_of_this_very_placement() {
    scenario("run-overrides", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for (word, name) in [("a", "first"), ("b", "second")] {
            cast.join(word, json!({ "stage": name })).await?;
        }
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        let name = &story.placement.name;
        let ours = json!({ "name": name, "scope": "Namespaced" });
        let theirs = json!({ "name": name, "scope": "Cluster" });
        let snapshot = overridden(&ctx, "ours", ours, rules("second", "ours")).await?;
        // For a namesake without a namespace.
        overridden(&ctx, "theirs", theirs, rules("second", "theirs")).await?;
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        let stages = json!([stage("first", &json!({})), stage("second", &gate)]);
        story.strategy(&stages).await?;
        let run = story.run("run", &json!({})).await?;
        let request = format!("{run}-before-second");
        story.until_asked(&request).await?;
        let status = story.status(&run).await?;
        let listed: Vec<_> = status
            .stages_status
            .iter()
            .flat_map(|stage| &stage.clusters)
            .map(|cluster| {
                let lists = &cluster.resource_override_snapshots;
                lists.iter().map(|list| list.name.clone()).collect::<Vec<_>>()
            })
            .collect();
        ensure!(listed == [vec![], vec![snapshot]], "{listed:?}");
        // Edited under the run: its plan stands.
        let overrides = Api::<ResourceOverride>::namespaced(ctx.hub().await?, ctx.prefix());
        let edit = Patch::Merge(json!({ "spec": { "policy": { "overrideRules": rules("second", "late") } } }));
        overrides
            .patch(&ctx.name("ours"), &PatchParams::default(), &edit)
            .await?;
        let snapshots = Api::<ResourceOverrideSnapshot>::namespaced(ctx.hub().await?, ctx.prefix());
        let late = format!("{}-1", ctx.name("ours"));
        wait::until_present(snapshots, &late, "snapshotted", |_| true).await?;
        story.approve(&request, 1).await?;
        story.until_succeeded(&run).await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        story.placement.until_text_on("\"ours\"", &cast.names(&["b"])).await?;
        Ok(())
    });
}

/// The indexes of these snapshots.
fn indexes(snapshots: &[ResourceSnapshot]) -> Vec<&str> {
    let labels = snapshots
        .iter()
        .filter_map(|snapshot| snapshot.metadata.labels.as_ref());
    let mut found: Vec<_> = labels
        .filter_map(|labels| labels.get("kubernetes-fleet.io/resource-index"))
        .map(String::as_str)
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn the_version_of_a_run_is_kept_until_it_has_ended() {
    scenario("run-history", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        story.placement.edit(json!({ "revisionHistoryLimit": 1 })).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        // The first waits for its user; others come and go.
        let first = story.run("first", &json!({ "state": "Initialize" })).await?;
        story
            .until(&first, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        for word in ["two", "three", "four"] {
            change(&ctx, word).await?;
            let run = story.run(word, &json!({})).await?;
            story.until_succeeded(&run).await?;
        }
        // Of those in between the last may still be on a cluster while the next one is made.
        story
            .placement
            .until_made("the first and the last", |all| {
                let kept = indexes(all);
                kept.contains(&"0") && kept.contains(&"3") && !kept.contains(&"1")
            })
            .await?;
        // It rolls out what it was made for.
        story.set_state(&first, "Run").await?;
        story.until_succeeded(&first).await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        Ok(())
    });
}

#[test]
fn a_run_that_is_held_up_holds_up_no_other() {
    scenario("run-others", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        // The API server takes its time with whatever the agent writes about the first.
        let slow = ctx.name("slow");
        let gate = fleet_e2e::gate::Gate::new(&ctx, &slow, 0).await?;
        story.run_called(&slow, &json!({})).await?;
        gate.held().await;
        let run = story.run("run", &json!({})).await?;
        story.until_succeeded(&run).await?;
        ensure!(story.status(&slow).await?.conditions.is_empty());
        gate.open().await?;
        story.until_succeeded(&slow).await?;
        Ok(())
    });
}
