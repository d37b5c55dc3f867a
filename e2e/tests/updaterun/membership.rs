//! Clusters that come and go under a run.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{BindingState, ClusterScoped};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::bound;
use fleet_e2e::played::{Act, Cast, report};
use fleet_e2e::runs::{Story, line, stage, under_way};
use jiff::SignedDuration;
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

/// A member goes for good, as its user wishes.
async fn leaves(cast: &Cast, word: &str) -> Result<()> {
    let member = cast.member(word);
    member.delete().await?;
    // Its agent says good-bye, unless the hub has given up on it already.
    let mut left = report(SignedDuration::ZERO, true);
    left["agentStatus"][0]["conditions"][0]["status"] = json!("False");
    let _ = cast.say(word, &left).await;
    member.until_gone().await
}

#[test]
fn members_fall_silent_leave_and_come_back_in_every_phase() {
    scenario("run-phases", |ctx| async move {
        let words = ["a", "b", "c", "d", "e", "f"];
        let cast = Cast::new(&ctx, &[]).await?;
        for word in words {
            cast.join(word, json!({ "stage": "all" })).await?;
        }
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let after = json!({ "afterStageTasks": [{ "type": "Approval" }] });
        story.strategy(&json!([stage("all", &after)])).await?;
        // Only initialized: one leaves before anything has begun.
        let run = story.run("run", &json!({ "state": "Initialize" })).await?;
        let status = story
            .until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        ensure!(status.stages_status[0].clusters.len() == words.len(), "{status:?}");
        leaves(&cast, "a").await?;
        cast.act(&["b"], Act::Silent);
        story.set_state(&run, "Run").await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["b"])).await?;
        // Under way: its agent falls silent, which is nothing that a run looks at. Before their turn: one leaves, one leaves
        // and comes back, one falls silent.
        cast.silence("b", SignedDuration::from_mins(10)).await?;
        leaves(&cast, "c").await?;
        leaves(&cast, "d").await?;
        cast.join("d", json!({ "stage": "all" })).await?;
        cast.silence("e", SignedDuration::from_mins(10)).await?;
        // Who has left stays on the list until a run that was made afterwards leaves it.
        let mut listed = cast.in_state(&["a", "c"], &BindingState::Unscheduled);
        listed.extend(cast.in_state(&["b"], &BindingState::Bound));
        listed.extend(cast.in_state(&["d", "e", "f"], &BindingState::Scheduled));
        story.placement.until_states(&listed).await?;
        cast.act(&["f"], Act::Silent);
        cast.act(&["b"], Act::Available);
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["b", "d", "e", "f"]))
            .await?;
        // Done: one leaves. Under way: the last one does.
        leaves(&cast, "b").await?;
        leaves(&cast, "f").await?;
        // All that is left is the approval.
        let request = format!("{run}-after-all");
        story.until_asked(&request).await?;
        leaves(&cast, "e").await?;
        story.approve(&request, 1).await?;
        let status = story.until_succeeded(&run).await?;
        let clusters = status.stages_status[0].clusters.iter();
        let said: Vec<_> = clusters
            .map(|cluster| cluster.conditions.last().map(|c| c.reason.clone()).unwrap_or_default())
            .collect();
        let (skipped, updated) = ("ClusterUpdatingSkippedNotSelected", "ClusterUpdatingSucceeded");
        let expected = [skipped, updated, skipped, updated, updated, skipped];
        ensure!(said == expected, "{said:?}");
        story.placement.until_text_on("\"one\"", &cast.names(&["d"])).await?;
        Ok(())
    });
}
