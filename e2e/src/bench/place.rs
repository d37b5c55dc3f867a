//! Placements on three real members: how soon they are scheduled, placed, available, changed and gone, and what that asks
//! of the hub.

use std::cell::Cell;
use std::time::Duration;

use anyhow::Result;
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::application::{Application, CONFIG, State, WEB, is, is_available_with};
use super::audit::{self, Request, placing, tally};
use super::figures::{Aim, Row, percentile, ratio};
use super::hub::Hub;
use super::{Part, progress};
use crate::wait;

const ROUNDS: usize = 10;
/// What follows a change at once (statuses, Events) is done by then, and the next change is one after a quiet time.
const QUIET: Duration = Duration::from_secs(1);

/// What is timed: its words, the aim, and what KubeFleet takes.
const FIGURES: [(&str, f64, f64); 7] = [
    ("placement created → Scheduled", 0.02, 0.11),
    ("placement created → WorkSynchronized", 0.06, 0.65),
    ("placement created → Applied", 0.15, 0.90),
    ("placement created → Available", 1.0, 5.97),
    ("object changed → on all members", 0.3, 22.8),
    ("placement deleted → gone on members", 0.15, 0.63),
    ("placement deleted → gone", 1.0, 0.0),
];

/// All of it.
pub async fn measure(hub: &Hub) -> Result<Vec<Row>> {
    progress(&format!("{ROUNDS} placements on all members, one after the other"));
    let mut members = Vec::new();
    for member in hub.fleet.members() {
        members.push(hub.fleet.client(&member.name).await?);
    }
    let mut series: [Vec<f64>; FIGURES.len()] = Default::default();
    let mut requests: [Vec<Request>; 3] = Default::default();
    for round in 0..ROUNDS {
        let app = Application::create(&hub.client, format!("bench-{round}"), true).await?;
        tokio::time::sleep(QUIET).await;
        let (times, asked) = one(hub, &members, &app).await?;
        for (all, time) in series.iter_mut().zip(times) {
            all.push(time);
        }
        for (all, asked) in requests.iter_mut().zip(asked) {
            all.extend(asked);
        }
    }
    let mut rows = Vec::new();
    for ((what, aim, kubefleet), mut all) in FIGURES.into_iter().zip(series) {
        all.sort_by(f64::total_cmp);
        let longest = percentile(&all, 100);
        let row = Row::new(Part::Place, format!("{what}, p50"), percentile(&all, 50), "s");
        let row = row.aim(Aim::Below(aim)).note(format!("longest {longest:.3} s"));
        rows.push(Row {
            kubefleet: (kubefleet > 0.0).then_some(kubefleet),
            ..row
        });
    }
    let of = ROUNDS * members.len();
    let sum = requests.iter().map(Vec::len).sum();
    let row = Row::new(
        Part::Place,
        "own requests per placement and cluster",
        ratio(sum, of),
        "",
    );
    rows.push(
        row.aim(Aim::AtMost(25.0))
            .kubefleet(64.0)
            .note("create, update, delete; Events included"),
    );
    for (what, requests) in ["create", "update", "delete"].into_iter().zip(&requests) {
        let row = Row::new(Part::Place, format!("… {what}"), ratio(requests.len(), of), "");
        rows.push(row.note(format!("of {of}: {}", audit::line(&tally(requests)))));
    }
    Ok(rows)
}

async fn one(hub: &Hub, members: &[Client], app: &Application) -> Result<([f64; FIGURES.len()], [Vec<Request>; 3])> {
    let mark = hub.log.mark()?;
    let conditions = ["Scheduled", "WorkSynchronized", "Applied", "Available"];
    let wanted = conditions.map(|condition| move |state: State<'_>| is(state, condition));
    let [a, b, c, d] = &wanted;
    let policy = json!({"placementType": "PickAll"});
    let [scheduled, synchronized, applied, available] = app.times([a, b, c, d], app.place(&policy)).await?;
    tokio::time::sleep(QUIET).await;
    let created = placing(hub.requests(mark)?);

    let mark = hub.log.mark()?;
    let see = members.iter().map(|member| {
        let configs: Api<ConfigMap> = Api::namespaced(member.clone(), &app.name);
        wait::until_present(configs, CONFIG, "the new content", |config: &ConfigMap| {
            let value = config.data.as_ref().and_then(|data| data.get("v"));
            value.is_some_and(|v| v == "2")
        })
    });
    let on_members = on_all(app, &|state| is_available_with(state, "1"), app.change("2"), see)
        .await?
        .1;
    tokio::time::sleep(QUIET).await;
    let updated = placing(hub.requests(mark)?);

    let mark = hub.log.mark()?;
    let see = members.iter().map(|member| {
        let webs: Api<Deployment> = Api::namespaced(member.clone(), &app.name);
        wait::until_gone(webs, WEB)
    });
    let (gone, gone_on_members) = on_all(app, &|state| state.is_none(), app.withdraw(), see).await?;
    tokio::time::sleep(QUIET).await;
    let deleted = placing(hub.requests(mark)?);
    let times = [
        scheduled,
        synchronized,
        applied,
        available,
        on_members,
        gone_on_members,
        gone,
    ];
    Ok((times, [created, updated, deleted]))
}

/// How long after `act` the placement was as wanted, and how long until all members were.
async fn on_all<T>(
    app: &Application,
    wanted: &(dyn Fn(State<'_>) -> bool + Sync),
    act: impl Future<Output = Result<()>>,
    see: impl Iterator<Item = impl Future<Output = Result<T>>>,
) -> Result<(f64, f64)> {
    let began = Cell::new(Instant::now());
    let act = async {
        began.set(Instant::now());
        act.await
    };
    let members = async {
        try_join_all(see).await?;
        Ok(began.get().elapsed().as_secs_f64())
    };
    let ([placement], members) = tokio::try_join!(app.times([wanted], act), members)?;
    Ok((placement, members))
}
