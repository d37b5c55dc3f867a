//! Runs over simulated members, which are available as soon as they have something.

use std::time::Duration;

use anyhow::Result;
use fleet_api::placement::UpdateRunStatus;
use kube::core::object::HasStatus as _;
use serde_json::{Value, json};

use super::super::audit::{self, Request, placing, tally};
use super::super::figures::{Aim, Row, count, mib, ratio};
use super::super::hub::Hub;
use super::super::simulated::{Members, STAGES, everywhere};
use super::super::usage::Watched;
use super::super::{FIRST, HEARTBEAT, Settings, progress};
use super::{AFTERMATH, Runs, approval, back, has_succeeded, is_initialized, is_progressing, placed, row, stage};
use crate::agents::HUB_AGENT;

/// Waves of a stage: a tenth of its clusters each.
const WAVES: usize = 10;
/// Runs that wait while the hub agent restarts.
const WAITING: usize = 20;
/// After a restart everything is derived again by then.
const RESTARTED: Duration = Duration::from_secs(20);

/// All of it.
pub(super) async fn measure(hub: &Hub, settings: Settings) -> Result<Vec<Row>> {
    let members = Members::new(hub).await?;
    let crowd = FIRST * STAGES.len();
    members.join(crowd).await?;
    let runs = Runs {
        client: hub.client.clone(),
    };
    let concurrency = json!({"maxConcurrency": "10%"});
    let stages: Vec<Value> = STAGES.iter().map(|name| stage(name, &concurrency)).collect();
    runs.strategy("crowd", &json!(stages)).await?;
    let mut rows = waves(hub, &runs, crowd).await?;
    rows.extend(back::measure(hub, &runs, &members).await?);
    rows.extend(restart(hub, &runs).await?);
    if settings.members > crowd {
        members.join(settings.members).await?;
        rows.extend(large(hub, &runs, settings.members).await?);
    }
    Ok(rows)
}

/// Requests by whom they are for.
#[derive(Default)]
struct Bill<'a> {
    clusters: Vec<&'a Request>,
    waves: Vec<&'a Request>,
    run: Vec<&'a Request>,
    events: Vec<&'a Request>,
}

impl<'a> Bill<'a> {
    /// Of Events those about these objects: others are still being sent of the members, which have just joined.
    fn of(requests: &'a [Request], told: [&str; 2]) -> Self {
        let mut bill = Self::default();
        for request in requests {
            match request.resource().as_str() {
                // Written for the members.
                "works/status" => {}
                "events" => bill
                    .events
                    .extend(told.iter().any(|name| request.is_event_about(name)).then_some(request)),
                "clusterstagedupdateruns/status" | "clusterresourceplacements/status" => bill.waves.push(request),
                of if of.starts_with("works") || of.starts_with("clusterresourcebindings") => {
                    bill.clusters.push(request);
                }
                _ => bill.run.push(request),
            }
        }
        bill
    }
}

async fn waves(hub: &Hub, runs: &Runs, crowd: usize) -> Result<Vec<Row>> {
    let waves = WAVES * STAGES.len();
    progress(&format!(
        "a run over {} stages of {FIRST} clusters, {waves} waves",
        STAGES.len()
    ));
    let app = placed(hub, "crowd".to_owned(), &everywhere(), false).await?;
    tokio::time::sleep(AFTERMATH).await;
    let mark = hub.log.mark()?;
    let [took] = runs.begin("crowd", &app.name, "crowd", [&has_succeeded]).await?;
    tokio::time::sleep(AFTERMATH).await;
    let requests = placing(hub.requests(mark)?);
    let bill = Bill::of(&requests, ["crowd", &app.name]);
    let line = |list: &[&Request]| audit::line(&tally(list.iter().copied()));
    Ok(vec![
        row(
            format!("{waves} waves of {WAVES} clusters: time per wave"),
            took / count(waves),
            "s",
        )
        .aim(Aim::Below(1.0))
        .note(format!("the whole run {took:.1} s, members' own time included")),
        row(
            "requests per cluster, without Events and the status of Works",
            ratio(bill.clusters.len(), crowd),
            "",
        )
        .aim(Aim::AtMost(5.0))
        .note(line(&bill.clusters)),
        row("requests per wave", ratio(bill.waves.len(), waves), "")
            .aim(Aim::AtMost(2.0))
            .note(line(&bill.waves)),
        row("other requests of the run", count(bill.run.len()), "")
            .aim(Aim::AtMost(4.0))
            .note(line(&bill.run)),
        row(
            "Events per cluster, counted in none of these",
            ratio(bill.events.len(), crowd),
            "",
        )
        .note(format!("{} in all", bill.events.len())),
    ])
}

async fn restart(hub: &Hub, runs: &Runs) -> Result<Vec<Row>> {
    progress(&format!("the hub agent restarts with {WAITING} runs that wait"));
    let one = json!({"placementType": "PickFixed", "clusterNames": ["sim-00000"]});
    runs.strategy(
        "waiting",
        &json!([stage(STAGES[0], &json!({"beforeStageTasks": approval()}))]),
    )
    .await?;
    let mut asking = Vec::new();
    for n in 0..WAITING {
        let app = placed(hub, format!("waiting-{n:02}"), &one, false).await?;
        let waits = |status: &UpdateRunStatus| is_progressing(status, "UpdateRunWaiting");
        // It has its plan before it asks, so that what it costs to ask can be told from what a plan costs.
        let create = runs.create(&app.name, &app.name, "waiting", "Initialize");
        runs.times(&app.name, [&is_initialized], create).await?;
        if n == 0 {
            tokio::time::sleep(AFTERMATH).await;
        }
        let mark = hub.log.mark()?;
        runs.times(&app.name, [&waits], runs.set_state(&app.name, "Run"))
            .await?;
        if n == 0 {
            tokio::time::sleep(AFTERMATH).await;
            asking = placing(hub.requests(mark)?);
            asking.retain(|request| request.resource() != "events");
        }
    }
    tokio::time::sleep(HEARTBEAT).await;
    let mark = hub.log.mark()?;
    hub.fleet.restart(HUB_AGENT).await?;
    tokio::time::sleep(RESTARTED).await;
    let requests = placing(hub.requests(mark)?);
    let writes: Vec<_> = requests.iter().filter(|request| request.is_write()).collect();
    let restart = row(
        format!("restart with {WAITING} unfinished runs: writes"),
        count(writes.len()),
        "",
    );
    let restart = restart.aim(Aim::AtMost(0.0)).note(audit::line(&tally(writes)));

    let mark = hub.log.mark()?;
    let request = format!("waiting-00-before-{}", STAGES[0]);
    runs.times("waiting-00", [&has_succeeded], runs.approve(&request))
        .await?;
    tokio::time::sleep(AFTERMATH).await;
    let requests = placing(hub.requests(mark)?);
    let of_approval: Vec<_> = requests
        .iter()
        .filter(|request| request.resource().starts_with("clusterapprovalrequests"))
        .collect();
    let of_approval: Vec<_> = asking.iter().chain(of_approval).collect();
    let approval = row(
        "requests per approval, asked for and accepted, without Events",
        count(of_approval.len()),
        "",
    );
    let approval = approval.aim(Aim::AtMost(3.0)).note(audit::line(&tally(of_approval)));
    Ok(vec![restart, approval])
}

async fn large(hub: &Hub, runs: &Runs, all: usize) -> Result<Vec<Row>> {
    progress(&format!("a run over {all} clusters"));
    runs.strategy(
        "large",
        &json!([{"name": "all", "labelSelector": {}, "maxConcurrency": "10%"}]),
    )
    .await?;
    let app = placed(hub, "large".to_owned(), &everywhere(), false).await?;
    tokio::time::sleep(HEARTBEAT).await;
    let before = Watched::begin(&hub.fleet, HUB_AGENT).await?.end()?;
    let [took] = runs.begin("large", &app.name, "large", [&has_succeeded]).await?;
    tokio::time::sleep(HEARTBEAT).await;
    let after = Watched::begin(&hub.fleet, HUB_AGENT).await?.end()?;
    let run = runs.api().get("large").await?;
    let bytes = serde_json::to_string(&run.status())?.len();
    Ok(vec![
        row(format!("run over {all} clusters: status"), ratio(bytes, 1024), "KiB")
            .aim(Aim::Below(1024.0))
            .note(format!("the run took {took:.1} s")),
        row(
            format!("run over {all} clusters: hub agent's memory beside the same fleet without it"),
            mib(after.memory.resident) - mib(before.memory.resident),
            "MiB",
        )
        .note(format!("{:.1} before", mib(before.memory.resident))),
    ])
}
