//! Stop and resume, and runs that fight.

use anyhow::ensure;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::change;
use fleet_e2e::played::Act;
use fleet_e2e::runs::under_way;
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
