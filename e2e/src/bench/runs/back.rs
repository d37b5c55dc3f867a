//! The way back, on a hundred simulated members: a bad version takes itself back, and a good one is taken back on request.

use std::sync::OnceLock;

use anyhow::{Context as _, Result, ensure};
use fleet_api::annotations::{REQUESTED, ROLLBACK};
use fleet_api::conditions;
use fleet_api::placement::UpdateRunStatus;
use kube::api::{Patch, PatchParams};
use kube::core::object::HasStatus as _;
use serde_json::{Value, json};

use super::super::FIRST;
use super::super::application::Application;
use super::super::figures::{Aim, Row, count};
use super::super::hub::Hub;
use super::super::progress;
use super::super::simulated::{Members, STAGES, with_label};
use super::{Runs, STAGE, approval, has_succeeded, is_progressing, placed, row, stage};

/// Of a hundred clusters so many at a time.
const AT_ONCE: usize = FIRST / 10;
/// The first two clusters of the stage.
const GOOD: [&str; 2] = ["sim-00000", "sim-00003"];
const BACK: (&str, &str) = ("on-failure", "Rollback");

/// All of it.
pub(super) async fn measure(hub: &Hub, runs: &Runs, members: &Members) -> Result<Vec<Row>> {
    let app = placed(hub, "back".to_owned(), &with_label(STAGE, STAGES[0]), false).await?;
    let some = json!({"maxConcurrency": AT_ONCE});
    runs.strategy("back", &json!([stage(STAGES[0], &some)])).await?;
    runs.begin("back-first", &app.name, "back", [&has_succeeded]).await?;
    let mut rows = bad(runs, members, &app, &some).await?;
    rows.extend(requested(runs, &app, &some).await?);
    Ok(rows)
}

/// A version that works on two clusters and on no other.
async fn bad(runs: &Runs, members: &Members, app: &Application, some: &Value) -> Result<Vec<Row>> {
    progress(&format!("a version that is bad from the third of {FIRST} clusters on"));
    let settings = [("max-failures", "0"), ("cluster-deadline", "2s"), BACK];
    let stages = json!([stage(STAGES[0], some)]);
    runs.strategy_with("back-careful", &stages, &settings).await?;
    members.break_version("\"bad\"", &GOOD);
    app.change("bad").await?;
    let before = OnceLock::new();
    let trips = |status: &UpdateRunStatus| {
        let tripped = is_progressing(status, "UpdateRunRollingBack");
        if tripped {
            before.get_or_init(|| started(status));
        }
        tripped
    };
    let [tripped, ended] = runs
        .begin("back-bad", &app.name, "back-careful", [&trips, &has_failed])
        .await?;
    members.break_version("", &[]);
    let touched = restored(runs, "back-bad").await?;
    // Those that did not work; the law is about them.
    let failed = touched.saturating_sub(GOOD.len());
    let later = touched - before.get().copied().unwrap_or_default();
    let most = GOOD.len() + AT_ONCE;
    Ok(vec![
        row(
            format!(
                "a version that is bad from the third of {FIRST} clusters on, {AT_ONCE} at a time: clusters touched"
            ),
            count(touched),
            "",
        )
        .aim(Aim::AtMost(count(most)))
        .note(format!(
            "{} on which it works, and {AT_ONCE} at a time after them",
            GOOD.len()
        )),
        row(
            "… of these, clusters that ever failed to become available",
            count(failed),
            "",
        )
        .aim(Aim::AtMost(count(AT_ONCE)))
        .note("max-failures, which is 0, and maxConcurrency"),
        row("breaker trips → clusters started after that", count(later), "").aim(Aim::AtMost(0.0)),
        row(
            "breaker trips → all clusters touched have the old version again",
            ended - tripped,
            "s",
        )
        .aim(Aim::Below(10.0)),
    ])
}

/// A version that works everywhere, and that nobody wants.
async fn requested(runs: &Runs, app: &Application, some: &Value) -> Result<Vec<Row>> {
    progress(&format!("{FIRST} clusters are given back what they had"));
    let gated = stage(
        STAGES[0],
        &fleet_api::patch::applied(some.clone(), &json!({"afterStageTasks": approval()})),
    );
    runs.strategy_with("back-gated", &json!([gated]), &[BACK]).await?;
    app.change("3").await?;
    let waits = |status: &UpdateRunStatus| is_progressing(status, "UpdateRunWaiting");
    let [forward] = runs.begin("back-all", &app.name, "back-gated", [&waits]).await?;
    let ask = async {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {ROLLBACK: REQUESTED}}}));
        runs.api().patch("back-all", &PatchParams::default(), &patch).await?;
        Ok(())
    };
    let [took] = runs.times("back-all", [&has_failed], ask).await?;
    let all = restored(runs, "back-all").await?;
    ensure!(all == FIRST, "{all} clusters were restored");
    Ok(vec![
        row(format!("rollback of {FIRST} clusters, {AT_ONCE} at a time"), took, "s").aim(Aim::Below(10.0)),
        row("… against the way forward", took / forward, "×")
            .aim(Aim::AtMost(1.0))
            .note(format!("which took {forward:.2} s")),
    ])
}

/// How many clusters a run has started.
fn started(status: &UpdateRunStatus) -> usize {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    let started = clusters.filter(|cluster| conditions::find(&cluster.conditions, "Started").is_some());
    started.count()
}

/// The number of clusters that a run has started, all of which it has given back what they had.
async fn restored(runs: &Runs, name: &str) -> Result<usize> {
    let run = runs.api().get(name).await?;
    let status = run.status().context("a status")?;
    let count = started(status);
    let said = conditions::find(&status.conditions, "Succeeded").context("an end")?;
    let end = format!("; rolled back {count} of {count} cluster(s)");
    ensure!(said.message.ends_with(&end), "{name}: {}", said.message);
    Ok(count)
}

fn has_failed(status: &UpdateRunStatus) -> bool {
    let found = conditions::find(&status.conditions, "Succeeded");
    found.is_some_and(|condition| condition.status == "False")
}
