//! Stop and resume, and runs that fight.

use anyhow::ensure;
use fleet_api::placement::{ApprovalRequest, Namespaced};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Rp, change, config_map, core_selector};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage, under_way};
use fleet_e2e::wait;
use serde_json::json;

#[test]
fn a_run_stops_and_goes_on() {
    scenario("run-stop", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b", "c"]).await?;
        story.set_state(&run, "Stop").await?;
        story.until(&run, "Progressing=Unknown UpdateRunStopping").await?;
        cast.act(&["a", "b", "c"], Act::Available);
        let status = story.until(&run, "Progressing=False UpdateRunStopped").await?;
        ensure!(status.stages_status[0].clusters[1].conditions.is_empty(), "{status:?}");
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        story.set_state(&run, "Run").await?;
        let status = story.until_succeeded(&run).await?;
        let generations = status.stages_status[0].clusters.iter().flat_map(|c| &c.conditions);
        let mut generations = generations.map(|condition| condition.observed_generation);
        ensure!(generations.all(|generation| generation == Some(3)), "{status:?}");
        let events = story.events(&run).await?;
        events.until("UpdateRunStopped", &[]).await?;
        events.until("UpdateRunResumed", &[]).await?;
        Ok(())
    });
}

#[test]
fn a_run_whose_cluster_is_taken_over_fails_and_names_the_other() {
    scenario("run-fight", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        change(&ctx, "two").await?;
        let other = story.run("other", &json!({})).await?;
        let status = story.until(&run, "Succeeded=False UpdateRunFailed").await?;
        let said = &status.stages_status[0].clusters[0].conditions[1].message;
        ensure!(said.contains("is not up-to-date with the desired status"), "{said}");
        let events = story.events(&run).await?;
        events.until("UpdateRunPreempted", &[&other]).await?;
        cast.act(&["a", "b"], Act::Available);
        let status = story.until_succeeded(&other).await?;
        ensure!(status.resource_snapshot_index_used == "1", "{status:?}");
        Ok(())
    });
}

#[test]
fn a_namesake_in_another_namespace_keeps_its_requests() {
    scenario("run-namesake", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let here = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        let other = ctx.another_namespace("hub", "other").await?;
        ctx.create_in("hub", &other, config_map("settings", "one")).await?;
        let spec = json!({
            "resourceSelectors": [core_selector("ConfigMap", "settings")], "policy": cast.everywhere(),
            "strategy": { "type": "External" },
        });
        let there = Story {
            ctx: ctx.clone(),
            placement: Rp::create(&ctx, &other, "rp", &spec).await?,
            namespace: Some(other),
        };
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        let request = format!("{}-before-all", ctx.name("run"));
        for story in [&here, &there] {
            story.strategy(&json!([stage("all", &gate)])).await?;
            story.run("run", &json!({})).await?;
            story.until_asked(&request).await?;
        }
        here.delete(&ctx.name("run")).await?;
        let requests = here.placement.api::<ApprovalRequest>().await?;
        wait::until_gone(requests, &request).await?;
        let kept = there.placement.api::<ApprovalRequest>().await?;
        ensure!(kept.get_opt(&request).await?.is_some(), "it is another run's");
        there.approve(&request, 1).await?;
        there.until_succeeded(&ctx.name("run")).await?;
        Ok(())
    });
}
