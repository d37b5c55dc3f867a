//! What a placement says of its rollout while runs control it.

use anyhow::{Result, ensure};
use fleet_api::placement::{ClusterResourceBinding, ClusterScoped, Namespaced, PlacementStatus, Scope};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{bound, change, place, rolling, selected};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage};
use serde_json::json;

const BY_RUNS: &str = "RolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an external \
                       controller and ";

fn shows_nothing(status: &PlacementStatus) -> Result<()> {
    ensure!(status.observed_resource_index.is_empty(), "{status:?}");
    ensure!(status.selected_resources.is_empty(), "{status:?}");
    // Scheduled and RolloutStarted.
    ensure!(status.conditions.len() == 2, "{:?}", status.conditions);
    Ok(())
}

async fn four_outcomes<S: Scope>(ctx: &Ctx, story: &Story<S>, cast: &Cast) -> Result<()> {
    let none =
        format!("{BY_RUNS}no resource snapshot name is observed across clusters, probably rollout has not started yet");
    shows_nothing(&story.placement.until_says(&[&none]).await?)?;

    story.strategy(&json!([stage("all", &json!({}))])).await?;
    cast.act(&["b"], Act::Silent);
    let run = story.run("run", &json!({})).await?;
    // One has it, and then both: the second says nothing yet.
    story
        .placement
        .until_text_on("\"one\"", &cast.names(&["a", "b"]))
        .await?;
    let status = story.placement.until_step("RolloutStarted", "True").await?;
    ensure!(status.observed_resource_index == "0", "{status:?}");
    cast.act(&["b"], Act::Available);
    story.until_succeeded(&run).await?;
    let status = story.placement.until_available(0).await?;
    ensure!(!selected(&status).is_empty(), "{status:?}");

    change(ctx, "two").await?;
    cast.act(&["a", "b"], Act::Silent);
    let next = story.run("next", &json!({})).await?;
    let mixed = format!("{BY_RUNS}different resource snapshot versions are observed across clusters");
    shows_nothing(&story.placement.until_says(&[&mixed]).await?)?;
    cast.act(&["a", "b"], Act::Available);
    story.until_succeeded(&next).await?;
    story.placement.until_available(1).await?;

    // One is left and picked again: it has the version, and nothing says that it was rolled out.
    story.placement.edit(json!({ "policy": cast.only(&["a"]) })).await?;
    story.placement.until_available(1).await?;
    story
        .placement
        .edit(json!({ "policy": cast.only(&["a", "b"]) }))
        .await?;
    let unknown = format!("{BY_RUNS}cluster {} is in RolloutStarted Unknown state", cast.name("b"));
    let status = story.placement.until_says(&[&unknown]).await?;
    ensure!(status.observed_resource_index == "1", "{status:?}");
    ensure!(!selected(&status).is_empty(), "{status:?}");
    let last = story.run("last", &json!({})).await?;
    story.until_succeeded(&last).await?;
    story.placement.until_available(1).await?;
    Ok(())
}

async fn two(ctx: &Ctx) -> Result<Cast> {
    let cast = Cast::new(ctx, &[]).await?;
    for word in ["a", "b"] {
        cast.join(word, json!({ "stage": "all" })).await?;
    }
    Ok(cast)
}

#[test]
fn a_placement_shows_what_its_clusters_agree_on() {
    scenario("run-outcomes", |ctx| async move {
        let cast = two(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.only(&["a", "b"])).await?;
        four_outcomes(&ctx, &story, &cast).await
    });
}

#[test]
fn the_same_for_a_resource_placement() {
    scenario("run-narrow-outcomes", |ctx| async move {
        let cast = two(&ctx).await?;
        let story = Story::<Namespaced>::new(&ctx, cast.only(&["a", "b"])).await?;
        four_outcomes(&ctx, &story, &cast).await
    });
}

#[test]
fn leaving_the_rollout_to_runs_changes_nothing_that_is_rolled_out() {
    scenario("run-switch", |ctx| async move {
        let cast = two(&ctx).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let before = crp.status().await?;
        let external = json!({ "type": "External", "rollingUpdate": null });
        crp.edit(json!({ "strategy": external })).await?;
        let mut after = crp.until_available(0).await?;
        for (now, then) in after.conditions.iter_mut().zip(&before.conditions) {
            ensure!(now.observed_generation == Some(2), "{now:?}");
            now.observed_generation = then.observed_generation;
        }
        for (now, then) in after.placement_statuses.iter_mut().zip(&before.placement_statuses) {
            for (now, then) in now.conditions.iter_mut().zip(&then.conditions) {
                now.observed_generation = then.observed_generation;
            }
        }
        ensure!(after == before, "{before:?}\n{after:?}");
        // And nothing is taken until a run asks for it.
        change(&ctx, "two").await?;
        let status = crp.status().await?;
        ensure!(status.observed_resource_index == "0", "{status:?}");
        Ok(())
    });
}

#[test]
fn a_rolling_update_under_way_is_ended_by_a_run() {
    scenario("run-half", |ctx| async move {
        let cast = two(&ctx).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&["a", "b"], Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &cast.names(&["a"])).await?;
        let external = json!({ "type": "External", "rollingUpdate": null });
        crp.edit(json!({ "strategy": external })).await?;
        let mixed = format!("{BY_RUNS}different resource snapshot versions are observed across clusters");
        shows_nothing(&crp.until_says(&[&mixed]).await?)?;
        // The other one would be next. Nobody gives it anything but a run.
        cast.act(&["a", "b"], Act::Available);
        crp.until_bindings("a has it", |all| {
            let has = |b: &ClusterResourceBinding| bound(b, "Available").is_some_and(|c| c.status == "True");
            all.iter()
                .any(|b| b.spec.target_cluster == cast.name("a") && b.metadata.generation > Some(2) && has(b))
        })
        .await?;
        crp.until_text_on("\"two\"", &cast.names(&["a"])).await?;
        let story = Story {
            ctx: ctx.clone(),
            placement: crp,
            namespace: None,
        };
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        let run = story.run("run", &json!({ "resourceSnapshotIndex": "1" })).await?;
        story.until_succeeded(&run).await?;
        story
            .placement
            .until_text_on("\"two\"", &cast.names(&["a", "b"]))
            .await?;
        story.placement.until_available(1).await?;
        Ok(())
    });
}
