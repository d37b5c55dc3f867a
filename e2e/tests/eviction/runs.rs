//! Evictions under update runs.

use anyhow::ensure;
use fleet_api::placement::BindingState;
use fleet_e2e::evictions::{NO_BUDGET, VALID};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::bound;
use fleet_e2e::played::Act;
use fleet_e2e::runs::{line, under_way};
use serde_json::json;

#[test]
fn a_run_skips_a_cluster_that_is_evicted_and_the_next_one_includes_it() {
    scenario("evict-run", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        cast.act(&["a", "b"], Act::Available);
        story.until_succeeded(&run).await?;
        fleet_e2e::placements::change(&ctx, "two").await?;
        cast.act(&["a", "b"], Act::Silent);
        let next = story.run("next", &json!({})).await?;
        story.placement.until_text_on("\"two\"", &cast.names(&["a"])).await?;

        // It has got its resources and says nothing yet.
        let eviction = story.placement.evict_from(&ctx, "e", &cast.name("a")).await?;
        ensure!(
            eviction.until_ended().await? == [VALID, NO_BUDGET],
            "{:?}",
            eviction.says().await?
        );
        cast.act(&["a", "b"], Act::Available);
        let status = story.until_succeeded(&next).await?;
        let clusters = &status.stages_status[0].clusters;
        let evicted = clusters.iter().find(|c| c.cluster_name == cast.name("a"));
        let said: Vec<_> = evicted.into_iter().flat_map(|c| &c.conditions).map(line).collect();
        ensure!(
            said.iter()
                .any(|line| line == "Succeeded=True ClusterUpdatingSkippedNotSelected"),
            "{said:?}"
        );
        let wanted = [
            (cast.name("a"), BindingState::Scheduled),
            (cast.name("b"), BindingState::Bound),
        ];
        story.placement.until_states(&wanted).await?;
        let waits = story.placement.binding(&cast.name("a")).await?;
        ensure!(bound(&waits, "RolloutStarted").is_none(), "{waits:?}");
        ensure!(waits.spec.resource_snapshot_name.is_empty(), "{waits:?}");

        let last = story.run("last", &json!({})).await?;
        story.until_succeeded(&last).await?;
        story
            .placement
            .until_text_on("\"two\"", &cast.names(&["a", "b"]))
            .await?;
        Ok(())
    });
}
