//! Scale out and in: the last stage leaves the clusters that are no longer picked.

use anyhow::{Context as _, ensure};
use fleet_api::placement::{BindingState, ClusterScoped, Namespaced};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::bound;
use fleet_e2e::played::{Cast, affinity};
use fleet_e2e::runs::{Story, line, stage};
use serde_json::json;

#[test]
fn a_placement_is_scaled_out_and_in_by_runs() {
    scenario("run-scale", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for word in ["a", "b", "c"] {
            cast.join(word, json!({ "stage": "all" })).await?;
        }
        let story = Story::<ClusterScoped>::new(&ctx, cast.only(&["a"])).await?;
        let all = json!({ "maxConcurrency": "100%" });
        story.strategy(&json!([stage("all", &all)])).await?;
        let run = story.run("one", &json!({})).await?;
        story.until_succeeded(&run).await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;

        story
            .placement
            .edit(json!({ "policy": cast.only(&["a", "b", "c"]) }))
            .await?;
        story.placement.until_on(&cast.names(&["a", "b", "c"])).await?;
        // The scheduler has written to it, and what the run said stands.
        let stamped = |word: &str| {
            let name = cast.name(word);
            let sentence = format!("updateRun: {run}");
            let story = &story;
            async move {
                story
                    .placement
                    .until_bindings("still started", |all| {
                        all.iter().filter(|b| b.spec.target_cluster == name).any(|b| {
                            let said = bound(b, "RolloutStarted");
                            said.is_some_and(|c| {
                                c.message.ends_with(&sentence) && c.observed_generation == b.metadata.generation
                            })
                        })
                    })
                    .await
            }
        };
        stamped("a").await?;
        let run = story.run("three", &json!({})).await?;
        story.until_succeeded(&run).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b", "c"]))
            .await?;

        story.placement.edit(json!({ "policy": cast.only(&["b"]) })).await?;
        let bindings = [
            ("a", BindingState::Unscheduled),
            ("b", BindingState::Bound),
            ("c", BindingState::Unscheduled),
        ];
        let bindings: Vec<_> = bindings.map(|(word, state)| (cast.name(word), state)).into();
        story.placement.until_states(&bindings).await?;
        let run = story.run("back", &json!({})).await?;
        let status = story.until_succeeded(&run).await?;
        story.placement.until_on(&cast.names(&["b"])).await?;
        let last = status.deletion_stage_status.as_ref().context("the last stage")?;
        let left: Vec<_> = last
            .clusters
            .iter()
            .map(|cluster| cluster.cluster_name.clone())
            .collect();
        ensure!(left == cast.names(&["a", "c"]), "{left:?}");
        let said: Vec<_> = last.conditions.iter().map(line).collect();
        let expected = [
            "Progressing=False StageUpdatingSucceeded",
            "Succeeded=True StageUpdatingSucceeded",
        ];
        ensure!(said == expected, "{said:?}");
        Ok(())
    });
}

#[test]
fn a_placement_that_picks_nothing_any_more_is_emptied_by_a_run() {
    scenario("run-nothing", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for word in ["a", "b"] {
            cast.join(word, json!({ "stage": "all" })).await?;
        }
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        let all = json!({ "maxConcurrency": 2 });
        story.strategy(&json!([stage("all", &all)])).await?;
        let run = story.run("one", &json!({})).await?;
        story.until_succeeded(&run).await?;
        let none = json!({ "affinity": affinity(&[("none", "none")]) });
        story.placement.edit(json!({ "policy": none })).await?;
        let left = cast.in_state(&["a", "b"], &BindingState::Unscheduled);
        story.placement.until_states(&left).await?;
        let run = story.run("none", &json!({})).await?;
        let status = story.until_succeeded(&run).await?;
        story.placement.until_bindings("none", <[_]>::is_empty).await?;
        story.placement.until_works("none", <[_]>::is_empty).await?;
        // The strategy's stage has nobody in it; the last one has both.
        ensure!(status.stages_status[0].clusters.is_empty(), "{status:?}");
        let last = status.deletion_stage_status.context("the last stage")?;
        ensure!(last.clusters.len() == 2, "{last:?}");
        ensure!(last.start_time.is_some() && last.end_time.is_some(), "{last:?}");
        Ok(())
    });
}
