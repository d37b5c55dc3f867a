//! Stage by stage, with approvals and waits.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterScoped, Namespaced, Scope};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{bound, change};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, line, stage};
use fleet_e2e::wait;
use jiff::SignedDuration;
use kube::api::DeleteParams;
use serde_json::json;

/// Three stages: canary, then a wait; staging, two at once; prod, after an approval.
pub(crate) async fn three(ctx: &Ctx) -> Result<Cast> {
    let cast = Cast::new(ctx, &[]).await?;
    for (word, name) in [("a", "canary"), ("b", "staging"), ("c", "staging"), ("d", "prod")] {
        cast.join(word, json!({ "stage": name })).await?;
    }
    Ok(cast)
}

async fn strategy<S: Scope>(story: &Story<S>) -> Result<()> {
    let wait = json!({ "afterStageTasks": [{ "type": "TimedWait", "waitTime": "3s" }] });
    let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
    let stages = json!([
        stage("canary", &wait),
        stage("staging", &json!({ "maxConcurrency": 2 })),
        stage("prod", &gate)
    ]);
    story.strategy(&stages).await
}

async fn to_the_end<S: Scope>(ctx: &Ctx, story: &Story<S>, cast: &Cast) -> Result<()> {
    strategy(story).await?;
    let run = story.run("run", &json!({})).await?;
    let waiting = story.until(&run, "Progressing=False UpdateRunWaiting").await?;
    ensure!(waiting.resource_snapshot_index_used == "0", "{waiting:?}");
    story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
    let request = format!("{run}-before-prod");
    story.until_asked(&request).await?;
    let status = story.status(&run).await?;
    let canary = &status.stages_status[0];
    let ended = canary.end_time.as_ref().context("the end of the stage")?.0;
    let last = &canary.clusters[0].conditions[1].last_transition_time.0;
    let took = ended.duration_since(*last);
    ensure!(took >= SignedDuration::from_secs(3), "{took}");
    ensure!(took <= SignedDuration::from_secs(5), "{took}");
    story
        .placement
        .until_text_on("\"one\"", &cast.names(&["a", "b", "c"]))
        .await?;
    // An approval of another generation counts for nothing, and says so.
    story.approve(&request, 7).await?;
    story
        .events(&run)
        .await?
        .until("UpdateRunApprovalStale", &["7, want 1"])
        .await?;
    story.approve(&request, 1).await?;
    let status = story.until_succeeded(&run).await?;
    let accepted = story.until_asked(&request).await?;
    ensure!(accepted.data.to_string().contains("ApprovalAccepted"), "{accepted:?}");
    let said: Vec<_> = status.conditions.iter().map(line).collect();
    let expected = [
        "Initialized=True UpdateRunInitializedSuccessfully",
        "Progressing=False UpdateRunSucceeded",
        "Succeeded=True UpdateRunSucceeded",
    ];
    ensure!(said == expected, "{said:?}");
    let sentence = format!("resourceSnapshotIndex: 0, updateRun: {run}");
    for word in ["a", "b", "c", "d"] {
        let binding = story.placement.binding(&cast.name(word)).await?;
        let started = bound(&binding, "RolloutStarted").context("RolloutStarted")?;
        ensure!(started.message.ends_with(&sentence), "{started:?}");
    }
    story.placement.until_available(0).await?;
    let events = story.events(&run).await?.until("UpdateRunSucceeded", &[]).await?;
    ensure!(
        events
            .iter()
            .any(|e| e.reason.as_deref() == Some("StageUpdatingStarted")),
        "{events:?}"
    );
    // The next run takes what is there now, also right after a change.
    change(ctx, "two").await?;
    let next = story.run("next", &json!({})).await?;
    let request = format!("{next}-before-prod");
    story.until_asked(&request).await?;
    story.approve(&request, 1).await?;
    let status = story.until_succeeded(&next).await?;
    ensure!(status.resource_snapshot_index_used == "1", "{status:?}");
    story
        .placement
        .until_text_on("\"two\"", &cast.names(&["a", "b", "c", "d"]))
        .await?;
    // And back.
    let back = story.run("back", &json!({ "resourceSnapshotIndex": "0" })).await?;
    let request = format!("{back}-before-prod");
    story.until_asked(&request).await?;
    story.approve(&request, 1).await?;
    story.until_succeeded(&back).await?;
    story
        .placement
        .until_text_on("\"one\"", &cast.names(&["a", "b", "c", "d"]))
        .await?;
    // A run takes its own requests with it, and nothing else.
    story.delete(&back).await?;
    let api = story.placement.api::<S::ApprovalRequest>().await?;
    wait::until_gone(api.clone(), &request).await?;
    ensure!(api.get_opt(&format!("{next}-before-prod")).await?.is_some());
    Ok(())
}

#[test]
fn three_stages_with_a_wait_and_an_approval() {
    scenario("run-stages", |ctx| async move {
        let cast = three(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        to_the_end(&ctx, &story, &cast).await
    });
}

#[test]
fn the_same_for_a_resource_placement() {
    scenario("run-narrow", |ctx| async move {
        let cast = three(&ctx).await?;
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        to_the_end(&ctx, &story, &cast).await
    });
}

#[test]
fn a_request_that_is_deleted_is_asked_for_again() {
    scenario("run-asked", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let gates = json!({
            "beforeStageTasks": [{ "type": "Approval" }], "afterStageTasks": [{ "type": "Approval" }],
        });
        story.strategy(&json!([stage("all", &gates)])).await?;
        let run = story.run("run", &json!({})).await?;
        let request = format!("{run}-before-all");
        let first = story.until_asked(&request).await?;
        let api = story
            .placement
            .api::<<ClusterScoped as Scope>::ApprovalRequest>()
            .await?;
        api.delete(&request, &DeleteParams::default()).await?;
        wait::until_present(api.clone(), &request, "another one", |again| {
            again.metadata.uid != first.metadata.uid
        })
        .await?;
        story.placement.until_text_on("\"one\"", &[]).await?;
        story.approve(&request, 1).await?;
        let request = format!("{run}-after-all");
        story.until_asked(&request).await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        story.approve(&request, 1).await?;
        story.until_succeeded(&run).await?;
        Ok(())
    });
}

#[test]
fn a_cluster_that_fails_gets_the_run_stuck_until_it_recovers() {
    scenario("run-stuck", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for word in ["a", "b"] {
            cast.join(word, json!({ "stage": "all" })).await?;
        }
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        cast.act(&["a"], Act::Broken);
        let run = story.run("run", &json!({})).await?;
        let binding = story.placement.until_bindings("a is broken", |all| {
            let says = |b| bound(b, "Applied").is_some_and(|c| c.status == "False");
            all.iter().any(says)
        });
        binding.await?;
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        // As if it had been started six minutes ago.
        let ago = fleet_e2e::now() - SignedDuration::from_mins(6);
        story
            .tamper(&run, |status| {
                status["stagesStatus"][0]["clusters"][0]["conditions"][0]["lastTransitionTime"] = json!(ago);
            })
            .await?;
        let status = story.until(&run, "Progressing=False UpdateRunStuck").await?;
        ensure!(status.conditions[1].message.contains(&cast.name("a")), "{status:?}");
        let events = story.events(&run).await?;
        events.until("UpdateRunStuck", &["Applied=False"]).await?;
        cast.act(&["a"], Act::Available);
        story.until_succeeded(&run).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b"]))
            .await?;
        Ok(())
    });
}
