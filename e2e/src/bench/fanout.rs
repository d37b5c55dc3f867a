//! Placements on a hundred simulated members: how soon they are available everywhere, what that asks of the hub, what
//! they take of its agent, and what a restart costs.

use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use serde_json::json;

use super::application::{Application, State, is, is_available_with};
use super::audit::{self, Request, placing, tally};
use super::figures::{Aim, Row, count, mib, percentile, ratio};
use super::hub::Hub;
use super::simulated::{Members, everywhere};
use super::usage::Watched;
use super::{FIRST, HEARTBEAT, Part, progress};
use crate::agents::HUB_AGENT;

/// Placed at once after the first.
const MORE: usize = 19;
/// What follows at once (statuses, Events) is done by then.
const AFTERMATH: Duration = Duration::from_secs(3);
/// After a restart everything is derived again by then.
const RESTARTED: Duration = Duration::from_secs(30);

fn row(what: impl Into<String>, value: f64, unit: &str) -> Row {
    Row::new(Part::Fanout, what, value, unit)
}

/// All of it.
pub async fn measure(hub: &Hub, members: &Members) -> Result<Vec<Row>> {
    let mut apps = Vec::new();
    for n in 0..=MORE {
        apps.push(Application::create(&hub.client, format!("fanout-{n:02}"), false).await?);
    }
    tokio::time::sleep(AFTERMATH).await;
    let mut rows = one(hub, &apps[0]).await?;
    rows.extend(many(hub, &apps).await?);
    rows.extend(update(hub, &apps[0]).await?);
    rows.extend(restart(hub, members).await?);
    rows.extend(delete(hub, &apps).await?);
    Ok(rows)
}

const AVAILABLE: &(dyn Fn(State<'_>) -> bool + Sync) = &|state| is(state, "Available");

async fn one(hub: &Hub, app: &Application) -> Result<Vec<Row>> {
    progress(&format!("one placement on {FIRST} members"));
    let server = Watched::begin(&hub.fleet, "hub/kube-apiserver").await?;
    let agent = Watched::begin(&hub.fleet, HUB_AGENT).await?;
    let mark = hub.log.mark()?;
    let [took] = app.times([AVAILABLE], app.place(&everywhere())).await?;
    tokio::time::sleep(AFTERMATH).await;
    let (server, agent) = (server.end()?, agent.end()?);
    let requests = placing(hub.requests(mark)?);
    // KubeFleet's members write the status of Works themselves.
    let is_report = |r: &&Request| r.resource() == "works/status";
    let reports = requests.iter().filter(is_report).count();
    Ok(vec![
        row(format!("1 placement → Available on {FIRST}"), took, "s")
            .aim(Aim::AtMost(3.0))
            .kubefleet(11.8)
            .note(format!(
                "CPU of one core: API server {:.0} %, hub agent {:.0} %",
                server.cpu_percent, agent.cpu_percent
            )),
        row(
            "requests per cluster, without the status of Works",
            ratio(requests.len() - reports, FIRST),
            "",
        )
        .aim(Aim::AtMost(4.5))
        .kubefleet(12.4)
        .note(audit::line(&tally(&requests))),
    ])
}

async fn many(hub: &Hub, apps: &[Application]) -> Result<Vec<Row>> {
    progress(&format!("{MORE} placements at once on {FIRST} members each"));
    let before = Watched::begin(&hub.fleet, HUB_AGENT).await?.end()?;
    let mark = hub.log.mark()?;
    let policy = everywhere();
    let all = apps[1..].iter().map(|app| app.times([AVAILABLE], app.place(&policy)));
    let mut took: Vec<f64> = try_join_all(all).await?.into_iter().flatten().collect();
    took.sort_by(f64::total_cmp);
    tokio::time::sleep(HEARTBEAT).await;
    let requests = placing(hub.requests(mark)?);
    let after = Watched::begin(&hub.fleet, HUB_AGENT).await?.end()?;
    Ok(vec![
        row(
            format!("{MORE} placements at once → Available on {FIRST} each, p50"),
            percentile(&took, 50),
            "s",
        )
        .aim(Aim::AtMost(45.0))
        .kubefleet(166.0)
        .note(format!("the last after {:.1} s", percentile(&took, 100))),
        row(
            "… requests per placement and cluster",
            ratio(requests.len(), MORE * FIRST),
            "",
        )
        .note(audit::line(&tally(&requests))),
        row(
            format!(
                "hub agent with {FIRST} members × {} placements: resident memory",
                apps.len()
            ),
            mib(after.memory.resident),
            "MiB",
        )
        .aim(Aim::Below(40.0))
        .kubefleet(193.0)
        .note(format!(
            "anonymous {:.1}, peak {:.1}; before {:.1} with 1 placement",
            mib(after.memory.anonymous),
            mib(after.memory.peak),
            mib(before.memory.resident)
        )),
    ])
}

async fn update(hub: &Hub, app: &Application) -> Result<Vec<Row>> {
    progress("one of them changes");
    let mark = hub.log.mark()?;
    let changed: &(dyn Fn(State<'_>) -> bool + Sync) = &|state| is_available_with(state, "1");
    let [took] = app.times([changed], app.change("2")).await?;
    tokio::time::sleep(AFTERMATH).await;
    let requests = placing(hub.requests(mark)?);
    Ok(vec![
        row(format!("object changed → Available on {FIRST}"), took, "s").note(format!(
            "{:.1} requests per cluster: {}",
            ratio(requests.len(), FIRST),
            audit::line(&tally(&requests))
        )),
    ])
}

async fn restart(hub: &Hub, members: &Members) -> Result<Vec<Row>> {
    let bindings = FIRST * (MORE + 1);
    progress(&format!("the hub agent restarts with {bindings} bindings"));
    let app = Application::create(&hub.client, "fanout-new".to_owned(), false).await?;
    let mark = hub.log.mark()?;
    hub.fleet.restart(HUB_AGENT).await?;
    tokio::time::sleep(RESTARTED).await;
    let requests = placing(hub.requests(mark)?);
    let writes: Vec<_> = requests.iter().filter(|r| r.is_write()).collect();
    let quiet = row(
        format!("restart with {bindings} bindings and nothing to do: writes"),
        count(writes.len()),
        "",
    );
    let quiet = quiet.aim(Aim::AtMost(0.0)).kubefleet(2015.0).note(format!(
        "{}; {} of {FIRST} members were back after {} s",
        audit::line(&tally(writes.iter().copied())),
        members.board().connected(),
        RESTARTED.as_secs()
    ));
    hub.fleet.restart(HUB_AGENT).await?;
    let one = json!({"placementType": "PickFixed", "clusterNames": ["sim-00000"]});
    let [took] = app.times([AVAILABLE], app.place(&one)).await?;
    let first = row("restart: ready until a new placement is Available", took, "s");
    app.times([&|state| state.is_none()], app.withdraw()).await?;
    Ok(vec![quiet, first.aim(Aim::Below(2.0)).kubefleet(17.6)])
}

async fn delete(hub: &Hub, apps: &[Application]) -> Result<Vec<Row>> {
    progress("all placements are deleted");
    let mark = hub.log.mark()?;
    let gone: &(dyn Fn(State<'_>) -> bool + Sync) = &|state| state.is_none();
    let all = apps.iter().map(|app| app.times([gone], app.withdraw()));
    let mut took: Vec<f64> = try_join_all(all).await?.into_iter().flatten().collect();
    took.sort_by(f64::total_cmp);
    tokio::time::sleep(HEARTBEAT).await;
    let requests = placing(hub.requests(mark)?);
    Ok(vec![
        row(
            format!("{} placements deleted → gone, the last", apps.len()),
            percentile(&took, 100),
            "s",
        )
        .note(format!(
            "{:.1} requests per placement and cluster",
            ratio(requests.len(), apps.len() * FIRST)
        )),
    ])
}
