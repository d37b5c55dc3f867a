//! How soon evictions are carried out, what they ask of the hub, and how long a cluster takes to drain.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterScoped, Scope,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use tokio::process::Command;

use super::super::application::{Application, State, is};
use super::super::audit::{self, Mark, Request, placing, tally};
use super::super::figures::{Aim, Row, count, percentile, ratio};
use super::super::hub::Hub;
use super::super::progress;
use super::super::simulated::{STAGE, STAGES, everywhere};
use super::super::times::times;
use super::row;
use crate::agents::{self, HUB_AGENT};

type Eviction = ClusterResourcePlacementEviction;
type Binding = <ClusterScoped as Scope>::Binding;

/// The record, the deletion and the outcome; and the budget is read, since no cache can say that there is none.
const REQUESTS: f64 = 4.0;
/// Evictions with, and as many without a budget.
const ROUNDS: usize = 20;
/// Placements on the cluster that is drained.
const DRAINED: usize = 50;
/// Evictions that have ended when the hub agent restarts.
const ENDED: usize = 100;
/// The cluster that everything is taken off.
const CLUSTER: &str = "sim-00000";
/// What follows at once (another binding, statuses, Events) is done by then.
const AFTERMATH: Duration = Duration::from_secs(2);
/// After a restart everything is derived again by then.
const RESTARTED: Duration = Duration::from_secs(20);

const AVAILABLE: &(dyn Fn(State<'_>) -> bool + Sync) = &|state| is(state, "Available");

/// All of it.
pub(super) async fn measure(hub: &Hub) -> Result<Vec<Row>> {
    let app = Application::create(&hub.client, "evicted".to_owned(), false).await?;
    app.times([AVAILABLE], app.place(&everywhere())).await?;
    let (plain, plain_requests) = rounds(hub, &app, "plain").await?;
    let budget = json!({"metadata": {"name": app.name}, "spec": {"minAvailable": 1}});
    let budget: ClusterResourcePlacementDisruptionBudget = serde_json::from_value(budget)?;
    Api::all(hub.client.clone())
        .create(&PostParams::default(), &budget)
        .await?;
    let (limited, limited_requests) = rounds(hub, &app, "limited").await?;
    let took = |what: &str, times: &[f64]| {
        let longest = format!("longest {:.3} s", percentile(times, 100));
        row(what, percentile(times, 50), "s").aim(Aim::Below(0.1)).note(longest)
    };
    let asked = |what: &str, requests: &[Request], aim| {
        row(what, ratio(requests.len(), ROUNDS), "")
            .aim(Aim::AtMost(aim))
            .note(audit::line(&tally(requests)))
    };
    Ok(vec![
        took("eviction created → Executed, p50", &plain),
        asked("requests per eviction", &plain_requests, REQUESTS),
        took("… with a budget, p50", &limited),
        asked("… with a budget: requests", &limited_requests, REQUESTS),
        drain(hub).await?,
    ])
}

/// Evicts a placement from one cluster again and again; gives the times in order, and what the evictions asked for.
async fn rounds(hub: &Hub, app: &Application, word: &str) -> Result<(Vec<f64>, Vec<Request>)> {
    progress(&format!("{ROUNDS} evictions, {word}"));
    let api = Api::<Eviction>::all(hub.client.clone());
    let (mut mark, mut all) = (hub.log.mark()?, Vec::new());
    // The first of a term that meets a budget also lists what the leader before may have done.
    for round in 0..=ROUNDS {
        let name = format!("{word}-{round}");
        let object = eviction(&name, &app.name)?;
        let create = async {
            api.create(&PostParams::default(), &object).await?;
            Ok(())
        };
        let executed = |found: Option<&Eviction>| found.is_some_and(has_been_executed);
        let [took] = times(api.clone(), &name, [&executed], create).await?;
        // The cluster is picked again, and has to have it again.
        tokio::time::sleep(AFTERMATH).await;
        app.until(AVAILABLE).await?;
        if round == 0 {
            mark = hub.log.mark()?;
        } else {
            all.push(took);
        }
    }
    all.sort_by(f64::total_cmp);
    Ok((all, asked_by_evictions(hub, mark)?))
}

/// What the hub agent has asked for because of evictions.
fn asked_by_evictions(hub: &Hub, since: Mark) -> Result<Vec<Request>> {
    let mut requests = hub.requests(since)?;
    requests.retain(|request| {
        let resource = request.resource();
        let of_evictions = [
            "clusterresourceplacementevictions",
            "clusterresourceplacementdisruptionbudgets",
        ];
        of_evictions.iter().any(|kind| resource.starts_with(kind)) || request.what() == "delete clusterresourcebindings"
    });
    Ok(requests)
}

fn eviction(name: &str, placement: &str) -> Result<Eviction> {
    let spec = json!({"placementName": placement, "clusterName": CLUSTER});
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": spec}),
    )?)
}

fn has_been_executed(eviction: &Eviction) -> bool {
    let found = conditions_of(eviction).find(|condition| condition.type_ == "Executed");
    found.is_some_and(|condition| condition.status == "True")
}

fn conditions_of(eviction: &Eviction) -> impl Iterator<Item = &Condition> {
    eviction.status.iter().flat_map(|status| &status.conditions)
}

/// Takes everything off a cluster with the command that people use.
async fn drain(hub: &Hub) -> Result<Row> {
    progress(&format!("{DRAINED} placements on a cluster that is drained"));
    let policy = first_stage();
    let mut apps = Vec::new();
    for n in 0..DRAINED {
        let app = Application::create(&hub.client, format!("drained-{n:02}"), false).await?;
        app.place(&policy).await?;
        apps.push(app);
    }
    for app in &apps {
        app.until(AVAILABLE).await?;
    }
    let kubeconfig = hub
        .fleet
        .state()
        .kubeconfig
        .as_deref()
        .context("the fleet has no kubeconfig")?;
    let begun = Instant::now();
    let output = Command::new(agents::program("kubectl-fleet")?)
        .env("KUBECONFIG", kubeconfig)
        .args([
            "drain",
            CLUSTER,
            "--wait",
            "--hub-cluster-context",
            &hub.fleet.cluster("hub")?.context,
        ])
        .kill_on_drop(true)
        .output()
        .await?;
    let took = begun.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "the drain ended with {}: {said}",
        output.status
    );
    let bindings = Api::<Binding>::all(hub.client.clone())
        .list(&ListParams::default())
        .await?;
    let left = bindings
        .iter()
        .filter(|binding| binding.spec.target_cluster == CLUSTER)
        .count();
    ensure!(left == 0, "{left} bindings are left after the drain");
    Ok(row(
        format!("cluster with {DRAINED} placements drained: nothing left on the hub after"),
        took,
        "s",
    )
    .aim(Aim::Below(5.0)))
}

/// A policy that picks the clusters of the first stage.
fn first_stage() -> Value {
    let term = json!({"labelSelector": {"matchLabels": {STAGE: STAGES[0]}}});
    let required = json!({"clusterSelectorTerms": [term]});
    let affinity = json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    json!({"placementType": "PickAll", "affinity": affinity})
}

/// A restart beside many evictions that have ended.
pub(super) async fn restart(hub: &Hub) -> Result<Row> {
    let api = Api::<Eviction>::all(hub.client.clone());
    let there = api.list(&ListParams::default()).await?.items.len();
    for n in there..ENDED {
        // Of nothing: invalid for ever.
        let name = format!("ended-{n}");
        let object = eviction(&name, "nothing")?;
        let create = async {
            api.create(&PostParams::default(), &object).await?;
            Ok(())
        };
        let ended = |found: Option<&Eviction>| found.is_some_and(|found| conditions_of(found).next().is_some());
        times(api.clone(), &name, [&ended], create).await?;
    }
    progress(&format!(
        "the hub agent restarts beside {ENDED} evictions that have ended"
    ));
    tokio::time::sleep(AFTERMATH).await;
    let mark = hub.log.mark()?;
    hub.fleet.restart(HUB_AGENT).await?;
    tokio::time::sleep(RESTARTED).await;
    let mut writes = placing(hub.requests(mark)?);
    writes.retain(Request::is_write);
    Ok(row(
        format!("restart with {ENDED} evictions that have ended: writes"),
        count(writes.len()),
        "",
    )
    .aim(Aim::AtMost(0.0))
    .note(audit::line(&tally(&writes))))
}
