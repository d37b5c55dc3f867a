//! As many of everything as there may be.

use anyhow::ensure;
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::bound;
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use futures::future::try_join_all;
use serde_json::{Value, json};

#[test]
fn thirty_one_stages_a_long_name_and_fifty_runs() {
    scenario("run-many", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for (word, name) in [("a", "s1"), ("b", "s16"), ("c", "s31")] {
            cast.join(word, json!({ "stage": name })).await?;
        }
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        let none = json!({});
        let stages: Vec<Value> = (1..=31)
            .map(|n| stage(&format!("s{n}"), if n == 31 { &gate } else { &none }))
            .collect();
        story.strategy(&json!(stages)).await?;
        let name = ctx.name("");
        let name = format!("{name}{}", "r".repeat(63 - name.len()));
        let run = story.run_called(&name, &json!({})).await?;
        let request = format!("{run}-before-s31");
        story.until_asked(&request).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b"]))
            .await?;
        story.approve(&request, 1).await?;
        let status = story.until_succeeded(&run).await?;
        ensure!(status.stages_status.len() == 31, "{status:?}");
        let ended = status.stages_status.iter().filter(|stage| stage.end_time.is_some());
        ensure!(ended.count() == 31, "{status:?}");
        // Those with nothing in them were skipped.
        let skipped = status.stages_status.iter().filter(|stage| stage.clusters.is_empty());
        ensure!(
            skipped.clone().count() == 28
                && skipped
                    .flat_map(|stage| &stage.conditions)
                    .all(|c| c.reason == "StageUpdatingSkippedNoClusters"),
            "{status:?}"
        );

        // Fifty that want what is there: each succeeds, and nothing is started again.
        let all = json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": 3 }]);
        let strategy = story.another_strategy("all", &all).await?;
        let names = try_join_all((0..50).map(|n| {
            let (story, strategy) = (&story, &strategy);
            let more = json!({ "stagedRolloutStrategyName": strategy, "resourceSnapshotIndex": "0" });
            async move { story.run(&format!("r{n}"), &more).await }
        }))
        .await?;
        try_join_all(names.iter().map(|run| story.until_succeeded(run))).await?;
        for binding in story.placement.bindings().await? {
            let said = bound(&binding, "RolloutStarted");
            ensure!(said.is_some_and(|said| said.message.ends_with(&run)), "{binding:?}");
        }
        Ok(())
    });
}
