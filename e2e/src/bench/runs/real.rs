//! Runs over three real members.

use anyhow::Result;
use fleet_api::cluster::MemberCluster;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::figures::{Aim, Row, percentile};
use super::super::hub::{Hub, STUCK};
use super::super::{progress, writes};
use super::{AFTERMATH, Runs, STAGE, approval, has_begun, has_succeeded, is_progressing, placed, row, stage};
use crate::agents::member_agent;

const ROUNDS: usize = 5;
const STAGES: [&str; 3] = ["one", "two", "three"];

/// All of it.
pub(super) async fn measure(hub: &Hub) -> Result<Vec<Row>> {
    writes::join_all(hub).await?;
    let clusters: Api<MemberCluster> = Api::all(hub.client.clone());
    let members: Vec<String> = hub.fleet.members().map(|member| member.name.clone()).collect();
    for (member, stage) in members.iter().zip(STAGES) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {STAGE: stage}}}));
        clusters.patch(member, &PatchParams::default(), &patch).await?;
    }
    let runs = Runs {
        client: hub.client.clone(),
    };
    let plain: Vec<Value> = STAGES.iter().map(|name| stage(name, &json!({}))).collect();
    runs.strategy("plain", &json!(plain)).await?;
    let mut gated = plain.clone();
    gated[0] = stage(STAGES[0], &json!({"afterStageTasks": approval()}));
    runs.strategy("gated", &json!(gated)).await?;

    progress(&format!("{ROUNDS} runs over three real members, one a stage"));
    let policy = json!({"placementType": "PickFixed", "clusterNames": members});
    let (mut whole, mut approved, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let app = placed(hub, format!("run-{round}"), &policy, true).await?;
        let [took] = runs.begin(&app.name, &app.name, "plain", [&has_succeeded]).await?;
        whole.push(took);
        app.change("2").await?;
        let waits = |status: &_| is_progressing(status, "UpdateRunWaiting");
        let name = format!("{}-gated", app.name);
        runs.begin(&name, &app.name, "gated", [&waits]).await?;
        tokio::time::sleep(AFTERMATH).await;
        let is_stopped = |status: &_| is_progressing(status, "UpdateRunStopped");
        let [took] = runs.times(&name, [&is_stopped], runs.set_state(&name, "Stop")).await?;
        stopped.push(took);
        runs.times(&name, [&waits], runs.set_state(&name, "Run")).await?;
        let begun = |status: &_| has_begun(status, 1);
        let request = format!("{name}-after-{}", STAGES[0]);
        let [took, _] = runs
            .times(&name, [&begun, &has_succeeded], runs.approve(&request))
            .await?;
        approved.push(took);
    }
    let median = |what: &str, mut all: Vec<f64>, aim| {
        all.sort_by(f64::total_cmp);
        let longest = format!("longest {:.3} s", percentile(&all, 100));
        row(what, percentile(&all, 50), "s").aim(Aim::Below(aim)).note(longest)
    };
    let mut rows = vec![
        median("3 stages × 1 real cluster: created → Succeeded, p50", whole, 3.0).kubefleet(45.3),
        median("approved → first cluster of the next stage started, p50", approved, 0.2),
        median("Stop → Stopped with nothing in flight, p50", stopped, 0.2),
    ];
    rows.push(stuck(hub, &runs, &members[0]).await?);
    Ok(rows)
}

/// The first member says nothing.
async fn stuck(hub: &Hub, runs: &Runs, member: &str) -> Result<Row> {
    progress("a run over a member that says nothing");
    runs.strategy("first", &json!([stage(STAGES[0], &json!({}))])).await?;
    let policy = json!({"placementType": "PickFixed", "clusterNames": [member]});
    let app = placed(hub, "run-stuck".to_owned(), &policy, false).await?;
    let agent = member_agent(member);
    hub.fleet.pause(&agent).await?;
    let is_stuck = |status: &_| is_progressing(status, "UpdateRunStuck");
    let begun = |status: &_| has_begun(status, 0);
    let times = runs.begin("stuck", &app.name, "first", [&begun, &is_stuck]).await;
    hub.fleet.resume(&agent).await?;
    let [begun, stuck] = times?;
    let late = stuck - begun - STUCK.as_secs_f64();
    // It counts from a start that the API stores in whole seconds, so it may be early by less than one.
    let note = format!("threshold {} s; below zero: early", STUCK.as_secs());
    Ok(row("threshold passed → stuck shown", late, "s")
        .aim(Aim::Below(1.0))
        .note(note))
}
