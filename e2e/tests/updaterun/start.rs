//! What a run needs to begin.

use anyhow::ensure;
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::scenario;
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use kube::api::{Patch, PatchParams};
use serde_json::json;

#[test]
fn run_strategy_and_placement_come_in_any_order() {
    scenario("run-order", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::without_placement(&ctx).await?;
        let run = story.run("run", &json!({})).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        story.place(cast.everywhere()).await?;
        let status = story.until_succeeded(&run).await?;
        ensure!(status.stages_status[0].clusters.len() == 1, "{status:?}");
        Ok(())
    });
}

#[test]
fn what_does_not_come_fails_a_run_for_good() {
    scenario("run-never", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let late = story.run("late", &json!({})).await?;
        let status = story
            .until(&late, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        ensure!(
            status.conditions[0].message.contains(&ctx.name("strategy")),
            "{status:?}"
        );
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        let odd = story.run("odd", &json!({ "resourceSnapshotIndex": "7" })).await?;
        let status = story
            .until(&odd, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        let said = &status.conditions[0].message;
        ensure!(said.contains("no resourceSnapshots with index `7` found"), "{said}");
        let run = story.run("run", &json!({ "state": "Initialize" })).await?;
        let status = story
            .until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        ensure!(status.conditions.len() == 1, "{status:?}");
        story.placement.until_text_on("\"one\"", &[]).await?;
        // An index that is given afterwards comes too late.
        let late = Patch::Merge(json!({ "spec": { "resourceSnapshotIndex": "7", "state": "Run" } }));
        let runs = story.runs().await?;
        runs.patch(&run, &PatchParams::default(), &late).await?;
        let status = story.until_succeeded(&run).await?;
        ensure!(status.resource_snapshot_index_used == "0", "{status:?}");
        Ok(())
    });
}
