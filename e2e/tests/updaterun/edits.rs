//! Edits of the placement under a run.

use anyhow::ensure;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::change;
use fleet_e2e::played::Act;
use fleet_e2e::runs::{line, under_way};
use serde_json::json;

#[test]
fn an_edit_of_the_placement_ends_a_run_only_if_it_lasts() {
    scenario("run-edit", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        let compare = |option: &str| json!({ "strategy": { "applyStrategy": { "comparisonOption": option } } });
        story.placement.edit(compare("FullComparison")).await?;
        // The hub agent has seen it.
        story.placement.until_step("Scheduled", "True").await?;
        cast.act(&["a", "b"], Act::Available);
        story.placement.edit(compare("PartialComparison")).await?;
        story.until_succeeded(&run).await?;

        change(&ctx, "two").await?;
        cast.act(&["a", "b"], Act::Silent);
        let next = story.run("next", &json!({})).await?;
        story.placement.until_text_on("\"two\"", &cast.names(&["a"])).await?;
        story.until(&next, "Progressing=True UpdateRunProgressing").await?;
        story.placement.edit(compare("FullComparison")).await?;
        let status = story.until(&next, "Succeeded=False UpdateRunFailed").await?;
        let said = &status.conditions[2].message;
        let begin = "cannot continue the updateRun: failed to process the request due to a client error: the applyStrategy \
                     in the updateRun is outdated, latest: ";
        ensure!(said.starts_with(begin), "{said}");
        // What was under way stays as it was.
        let stage = &status.stages_status[0];
        let said: Vec<_> = stage
            .conditions
            .iter()
            .chain(&stage.clusters[0].conditions)
            .map(line)
            .collect();
        let expected = [
            "Progressing=True StageUpdatingStarted",
            "Started=True ClusterUpdatingStarted",
        ];
        ensure!(said == expected, "{said:?}");
        ensure!(stage.clusters[1].conditions.is_empty(), "{stage:?}");
        Ok(())
    });
}
