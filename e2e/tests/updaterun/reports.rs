//! Runs that only compare, and how runs are counted.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ClusterScoped;
use fleet_e2e::agents::{self, HUB_AGENT};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::bound;
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, line, stage, under_way};
use fleet_e2e::wait;
use serde_json::json;

#[test]
fn a_run_that_only_compares_ends_with_the_reports() {
    scenario("run-diff", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for word in ["a", "b"] {
            cast.join(word, json!({ "stage": "all" })).await?;
        }
        let story = Story::<ClusterScoped>::without_placement(&ctx).await?;
        story.place(cast.everywhere()).await?;
        let compare = json!({ "type": "External", "applyStrategy": { "type": "ReportDiff" } });
        story.placement.edit(json!({ "strategy": compare })).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        cast.act(&["a", "b"], Act::Silent);
        let run = story.run("run", &json!({})).await?;
        // One after the other, also here.
        story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
        let status = story.status(&run).await?;
        let applied = status.apply_strategy.context("the apply strategy")?;
        ensure!(
            applied.type_ == fleet_api::placement::ApplyStrategyType::ReportDiff,
            "{applied:?}"
        );
        cast.act(&["a"], Act::Different);
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b"]))
            .await?;
        cast.act(&["b"], Act::Available);
        let status = story.until_succeeded(&run).await?;
        for cluster in &status.stages_status[0].clusters {
            let said: Vec<_> = cluster.conditions.iter().map(line).collect();
            let expected = [
                "Started=True ClusterUpdatingStarted",
                "Succeeded=True ClusterUpdatingSucceeded",
            ];
            ensure!(said == expected, "{said:?}");
            let binding = story.placement.binding(&cluster.cluster_name).await?;
            let reported = bound(&binding, "DiffReported").context("DiffReported")?;
            ensure!(reported.status == "True", "{reported:?}");
            ensure!(bound(&binding, "Available").is_none(), "{binding:?}");
        }
        Ok(())
    });
}

/// The series about a run now.
async fn series(ctx: &Ctx, run: &str) -> Result<Vec<String>> {
    let text = agents::metrics(ctx.fleet(), HUB_AGENT).await?;
    let named = format!("name=\"{run}\"");
    let about = |line: &&str| line.contains(&named) && line.starts_with("fleet_workload_update_run_");
    Ok(text.lines().filter(about).map(str::to_owned).collect())
}

/// Waits until there are such series about a run. The agent's store may be a moment behind the test's.
async fn until_series(ctx: &Ctx, run: &str, wanted: impl Fn(&[String]) -> bool) -> Result<()> {
    let mut last = Vec::new();
    let found = async {
        loop {
            last = series(ctx, run).await?;
            if wanted(&last) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let outcome = tokio::time::timeout(wait::PATIENCE, found).await;
    outcome.with_context(|| format!("the series are {last:#?}"))?
}

/// Waits until a run has exactly one gauge, with these labels.
async fn until_counted(ctx: &Ctx, run: &str, labels: &str) -> Result<()> {
    const GAUGE: &str = "fleet_workload_update_run_status_last_timestamp_seconds{";
    let counted = until_series(ctx, run, |all| {
        let gauges: Vec<_> = all.iter().filter(|line| line.starts_with(GAUGE)).collect();
        gauges.len() == 1 && gauges[0].contains(labels)
    });
    counted.await.with_context(|| labels.to_owned())
}

#[test]
fn a_run_has_one_series_that_goes_with_it() {
    scenario("run-metric", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        story.until(&run, "Progressing=True UpdateRunProgressing").await?;
        let progressing = "state=\"Run\",condition=\"Progressing\",status=\"True\",reason=\"UpdateRunProgressing\",failureType=\"none\"";
        until_counted(&ctx, &run, progressing).await?;
        story.set_state(&run, "Stop").await?;
        cast.act(&["a", "b"], Act::Available);
        story.until(&run, "Progressing=False UpdateRunStopped").await?;
        let stopped = "state=\"Stop\",condition=\"Progressing\",status=\"False\",reason=\"UpdateRunStopped\",failureType=\"none\"";
        until_counted(&ctx, &run, stopped).await?;
        story.set_state(&run, "Run").await?;
        story.until_succeeded(&run).await?;
        let succeeded =
            "state=\"Run\",condition=\"Succeeded\",status=\"True\",reason=\"UpdateRunSucceeded\",failureType=\"none\"";
        until_counted(&ctx, &run, succeeded).await?;
        let updating = "fleet_workload_update_run_stage_cluster_updating_duration_seconds_count";
        let all = series(&ctx, &run).await?;
        ensure!(all.iter().any(|line| line.starts_with(updating)), "{all:?}");

        let odd = story.run("odd", &json!({ "resourceSnapshotIndex": "7" })).await?;
        story
            .until(&odd, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        let failed = "condition=\"Initialized\",status=\"False\",reason=\"UpdateRunInitializedFailed\",failureType=\"user_error\"";
        until_counted(&ctx, &odd, failed).await?;
        story.delete(&run).await?;
        until_series(&ctx, &run, <[_]>::is_empty).await?;
        until_counted(&ctx, &odd, failed).await
    });
}
