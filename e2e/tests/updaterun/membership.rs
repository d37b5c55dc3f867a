//! Clusters that come and go under a run.

use anyhow::{Context as _, ensure};
use fleet_api::placement::BindingState;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::bound;
use fleet_e2e::played::Act;
use fleet_e2e::runs::{line, under_way};
use kube::ResourceExt as _;
use serde_json::json;

#[test]
fn clusters_that_are_picked_later_are_left_to_the_next_run() {
    scenario("run-joined", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        cast.join("c", json!({ "stage": "all" })).await?;
        let events = story.events(&run).await?;
        events.until("UpdateRunClustersNotIncluded", &[&cast.name("c")]).await?;
        cast.act(&["a", "b"], Act::Available);
        story.until_succeeded(&run).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b"]))
            .await?;
        let binding = story.placement.binding(&cast.name("c")).await?;
        ensure!(binding.spec.state == BindingState::Scheduled, "{binding:?}");
        ensure!(bound(&binding, "RolloutStarted").is_none(), "{binding:?}");
        let next = story.run("next", &json!({})).await?;
        story.until_succeeded(&next).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b", "c"]))
            .await?;
        // Those that had it were not touched.
        let binding = story.placement.binding(&cast.name("a")).await?;
        let started = bound(&binding, "RolloutStarted").context("RolloutStarted")?;
        ensure!(started.message.ends_with(&run), "{started:?}");
        Ok(())
    });
}

#[test]
fn a_cluster_whose_binding_is_deleted_is_skipped() {
    scenario("run-left", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        let binding = story.placement.binding(&cast.name("a")).await?;
        story.placement.evict(&binding.name_any()).await?;
        cast.act(&["a", "b"], Act::Available);
        let status = story.until_succeeded(&run).await?;
        let said: Vec<_> = status.stages_status[0].clusters[0]
            .conditions
            .iter()
            .map(line)
            .collect();
        let expected = [
            "Started=True ClusterUpdatingStarted",
            "Succeeded=True ClusterUpdatingSkippedNotSelected",
        ];
        ensure!(said == expected, "{said:?}");
        let events = story.events(&run).await?;
        events.until("UpdateRunClusterSkipped", &[&cast.name("a")]).await?;
        // It is picked again, and waits for a run that includes it.
        let bindings = [("a", BindingState::Scheduled), ("b", BindingState::Bound)];
        let bindings: Vec<_> = bindings.map(|(word, state)| (cast.name(word), state)).into();
        story.placement.until_states(&bindings).await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["b"])).await?;
        Ok(())
    });
}
