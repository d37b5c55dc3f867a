//! Clusters that come and go under a run.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{BindingState, ClusterResourceBinding, ClusterScoped, StageStatus};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{bound, change};
use fleet_e2e::played::{Act, Cast, LABEL, affinity, report};
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

const HOLD: &str = "example.com/keep";

/// Somebody keeps the binding of a cluster, or lets it go again.
async fn hold(story: &Story<ClusterScoped>, cluster: &str, held: bool) -> Result<()> {
    let bindings = story.placement.bindings().await?;
    let binding = bindings.iter().find(|b| b.spec.target_cluster == cluster);
    let binding = binding.context("its binding")?;
    let mut finalizers = binding.finalizers().to_vec();
    finalizers.retain(|finalizer| finalizer != HOLD);
    if held {
        finalizers.push(HOLD.to_owned());
    }
    let patch = json!({ "metadata": { "finalizers": finalizers } });
    story.placement.patch_binding(&binding.name_any(), patch).await?;
    Ok(())
}

#[test]
fn members_leave_in_an_approval_while_stopping_and_in_the_last_stage() {
    scenario("run-phases-late", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        let (kept, left) = (["a", "b", "c", "d"], ["x", "y", "z"]);
        for word in kept {
            cast.join(word, json!({ "stage": "all", "kept": "yes" })).await?;
        }
        for word in left {
            cast.join(word, json!({ "stage": "all" })).await?;
        }
        // All of them have something; then the placement picks some of them no longer.
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let all = json!([stage("all", &json!({ "maxConcurrency": "100%" }))]);
        let all = story.another_strategy("at-once", &all).await?;
        let first = json!({ "stagedRolloutStrategyName": all });
        let first = story.run("first", &first).await?;
        story.until_succeeded(&first).await?;
        let fewer = affinity(&[(LABEL, ctx.prefix()), ("kept", "yes")]);
        let fewer = json!({ "policy": { "placementType": "PickAll", "affinity": fewer } });
        story.placement.edit(fewer).await?;
        let mut listed = cast.in_state(&kept, &BindingState::Bound);
        listed.extend(cast.in_state(&left, &BindingState::Unscheduled));
        story.placement.until_states(&listed).await?;
        change(&ctx, "two").await?;

        let before = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        story.strategy(&json!([stage("all", &before)])).await?;
        cast.act(&kept, Act::Silent);
        let run = story.run("run", &json!({})).await?;
        let request = format!("{run}-before-all");
        story.until_asked(&request).await?;
        let status = story.status(&run).await?;
        let last = status.deletion_stage_status.context("the last stage")?;
        let planned: Vec<_> = last
            .clusters
            .iter()
            .map(|cluster| cluster.cluster_name.clone())
            .collect();
        ensure!(planned == cast.names(&left), "{planned:?}");
        // While somebody is asked: one leaves, one leaves and comes back, one falls silent; and one of the last stage leaves.
        leaves(&cast, "a").await?;
        leaves(&cast, "b").await?;
        cast.join("b", json!({ "stage": "all", "kept": "yes" })).await?;
        cast.silence("c", SignedDuration::from_mins(10)).await?;
        leaves(&cast, "x").await?;
        let mut listed = cast.in_state(&["b", "c", "d"], &BindingState::Bound);
        listed.extend(cast.in_state(&["a", "x", "y", "z"], &BindingState::Unscheduled));
        story.placement.until_states(&listed).await?;
        story.approve(&request, 1).await?;
        // The one that is back has it, and the silent one is under way.
        story
            .placement
            .until_text_on("\"two\"", &cast.names(&["b", "c"]))
            .await?;
        // While the run stops: one leaves before its turn, and the one that it waits for.
        story.set_state(&run, "Stop").await?;
        story.until(&run, "Progressing=Unknown UpdateRunStopping").await?;
        leaves(&cast, "d").await?;
        leaves(&cast, "c").await?;
        story.until(&run, "Progressing=False UpdateRunStopped").await?;
        // While it is stopped: of the last stage one leaves and comes back, and one falls silent.
        leaves(&cast, "y").await?;
        cast.join("y", json!({ "stage": "all" })).await?;
        cast.silence("z", SignedDuration::from_mins(10)).await?;
        hold(&story, &cast.name("z"), true).await?;
        story.set_state(&run, "Run").await?;
        // In the last stage: a member leaves while its binding goes.
        let going = cast.name("z");
        let is_going = |b: &ClusterResourceBinding| b.metadata.deletion_timestamp.is_some();
        story
            .placement
            .until_bindings("the last stage", |all| {
                all.iter().any(|b| b.spec.target_cluster == going && is_going(b))
            })
            .await?;
        leaves(&cast, "z").await?;
        let status = story.status(&run).await?;
        ensure!(status.conditions.iter().all(|c| c.type_ != "Succeeded"), "{status:?}");
        hold(&story, &cast.name("z"), false).await?;

        let status = story.until_succeeded(&run).await?;
        let (skipped, updated) = ("ClusterUpdatingSkippedNotSelected", "ClusterUpdatingSucceeded");
        let ends = |stage: &StageStatus| {
            let ends = stage.clusters.iter().map(|cluster| cluster.conditions.last());
            ends.map(|end| end.map(|c| c.reason.clone()).unwrap_or_default())
                .collect::<Vec<_>>()
        };
        let said = ends(&status.stages_status[0]);
        ensure!(said == [skipped, updated, skipped, skipped], "{said:?}");
        let said = ends(status.deletion_stage_status.as_ref().context("the last stage")?);
        ensure!(said == [updated; 3], "{said:?}");
        // Who has left since the plan was made stays on the list until the next run.
        let mut listed = cast.in_state(&["a", "c", "d"], &BindingState::Unscheduled);
        listed.extend(cast.in_state(&["b"], &BindingState::Bound));
        story.placement.until_states(&listed).await?;
        story.placement.until_text_on("\"two\"", &cast.names(&["b"])).await?;
        Ok(())
    });
}
