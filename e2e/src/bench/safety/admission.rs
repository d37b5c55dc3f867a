//! What the webhooks cost those who write, and the hub agent.

use std::time::Instant;

use anyhow::{Context as _, Result};
use fleet_api::placement::{ClusterResourceOverride, ClusterResourcePlacement};
use futures::{StreamExt as _, stream};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::super::figures::{Aim, Row, count, mib, percentile};
use super::super::hub::Hub;
use super::super::progress;
use super::super::usage::Watched;
use super::row;
use crate::agents::HUB_AGENT;

/// Placements that are created one after the other.
const CREATES: usize = 300;
/// Sent at once.
const AT_ONCE: usize = 1000;
const OVERRIDES: usize = 100;
/// Placements that get a finalizer, a label, and are deleted.
const TOUCHED: usize = 20;

fn placement(name: &str) -> Result<ClusterResourcePlacement> {
    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": name});
    let policy = json!({"placementType": "PickFixed", "clusterNames": []});
    let spec = json!({"resourceSelectors": [role], "policy": policy});
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": spec}),
    )?)
}

/// Everything but storing it, which is the same with and without admission.
fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// How long the creation of a placement takes, in milliseconds and in order.
pub(super) async fn creates(hub: &Hub) -> Result<Vec<f64>> {
    progress(&format!("{CREATES} placements are created"));
    let api = Api::<ClusterResourcePlacement>::all(hub.client.clone());
    let mut all = Vec::new();
    for n in 0..CREATES {
        let object = placement(&format!("created-{n}"))?;
        let begun = Instant::now();
        api.create(&dry(), &object).await?;
        all.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// All of it. `without`: the times without admission.
pub(super) async fn measure(hub: &Hub, without: &[f64]) -> Result<Vec<Row>> {
    let with = creates(hub).await?;
    let more = |percent| percentile(&with, percent) - percentile(without, percent);
    let both = |percent| {
        format!(
            "{:.1} with, {:.1} without",
            percentile(&with, percent),
            percentile(without, percent)
        )
    };
    let mut rows = vec![
        row("placement created (dry run): more with admission, p50", more(50), "ms")
            .aim(Aim::AtMost(5.0))
            .note(both(50)),
        row("… p99", more(99), "ms").note(both(99)),
    ];
    rows.push(overrides(hub).await?);
    rows.extend(at_once(hub).await?);
    rows.push(untouched(hub).await?);
    Ok(rows)
}

async fn overrides(hub: &Hub) -> Result<Row> {
    progress(&format!("{OVERRIDES} overrides are created"));
    let api = Api::<ClusterResourceOverride>::all(hub.client.clone());
    let mark = hub.log.mark()?;
    for n in 0..OVERRIDES {
        let name = format!("override-{n}");
        let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": name});
        let patch = json!({"op": "add", "path": "/metadata/labels/a", "value": "b"});
        let change = json!({"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch]});
        let spec = json!({"clusterResourceSelectors": [role], "policy": {"overrideRules": [change]}});
        let object = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        api.create(&PostParams::default(), &object).await?;
    }
    let requests = hub.requests(mark)?;
    let lists = requests
        .iter()
        .filter(|request| request.what().starts_with("list "))
        .count();
    Ok(row(
        format!("{OVERRIDES} overrides created: lists by the hub agent"),
        count(lists),
        "",
    )
    .aim(Aim::AtMost(0.0)))
}

async fn at_once(hub: &Hub) -> Result<[Row; 2]> {
    progress(&format!("{AT_ONCE} admission requests at once"));
    let idle = Watched::begin(&hub.fleet, HUB_AGENT).await?.end()?.memory;
    let api = Api::<ClusterResourcePlacement>::all(hub.client.clone());
    let begun = Instant::now();
    let answers: Vec<Option<String>> = stream::iter(0..AT_ONCE)
        .map(|n| {
            let api = api.clone();
            async move { create_in_time(&api, n).await.err().map(|error| format!("{error:#}")) }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let took = begun.elapsed().as_secs_f64();
    let after = Watched::begin(&hub.fleet, HUB_AGENT).await?.end()?.memory;
    let errors: Vec<&String> = answers.iter().flatten().collect();
    let first = errors
        .first()
        .map_or(String::new(), |error| format!("; the first: {error}"));
    let grown = after
        .peak
        .max(after.resident)
        .saturating_sub(idle.peak.max(idle.resident));
    Ok([
        row(
            format!("{AT_ONCE} admission requests at once: errors"),
            count(errors.len()),
            "",
        )
        .aim(Aim::AtMost(0.0))
        .note(format!("answered in {took:.1} s{first}")),
        row("… hub agent's memory beyond before, at its peak", mib(grown), "MiB")
            .aim(Aim::Below(20.0))
            .note(format!(
                "resident {:.1} before, {:.1} after",
                mib(idle.resident),
                mib(after.resident)
            )),
    ])
}

/// The API server itself lets only so many write at once, and says so: that is no error of ours.
async fn create_in_time(api: &Api<ClusterResourcePlacement>, n: usize) -> Result<()> {
    let object = placement(&format!("at-once-{n}"))?;
    loop {
        match api.create(&dry(), &object).await {
            Err(kube::Error::Api(status)) if status.code == 429 => tokio::task::yield_now().await,
            answer => return Ok(answer.map(drop)?),
        }
    }
}

async fn untouched(hub: &Hub) -> Result<Row> {
    progress("finalizers, labels and deletions");
    let api = Api::<ClusterResourcePlacement>::all(hub.client.clone());
    for n in 0..TOUCHED {
        api.create(&PostParams::default(), &placement(&format!("touched-{n}"))?)
            .await?;
    }
    let before = asked(&hub.client).await?;
    let params = PatchParams::default();
    for n in 0..TOUCHED {
        let name = format!("touched-{n}");
        let change = async |metadata: Value| {
            api.patch(&name, &params, &Patch::Merge(json!({"metadata": metadata})))
                .await
        };
        let held = change(json!({"finalizers": ["bench.example.com/held"], "labels": {"a": "b"}})).await?;
        change(json!({"labels": {"a": null}})).await?;
        api.delete(&name, &DeleteParams::default()).await?;
        let others: Vec<_> = held.metadata.finalizers.unwrap_or_default();
        let others: Vec<_> = others.into_iter().filter(|name| !name.starts_with("bench.")).collect();
        change(json!({"finalizers": others})).await?;
    }
    let asked = asked(&hub.client).await? - before;
    Ok(row(
        format!(
            "{} requests for finalizers, labels, deletion: webhook requests",
            4 * TOUCHED
        ),
        asked,
        "",
    )
    .aim(Aim::AtMost(0.0)))
}

/// How often the API server has asked our webhooks so far.
async fn asked(client: &Client) -> Result<f64> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let page = client.request_text(request).await?;
    let line = |line: &str| -> Option<f64> {
        let ours = line.starts_with("apiserver_admission_webhook_request_total{") && line.contains("name=\"fleet.");
        ours.then(|| line.rsplit_once(' ')?.1.parse().ok()).flatten()
    };
    let counts: Vec<f64> = page.lines().filter_map(line).collect();
    (!counts.is_empty())
        .then(|| counts.iter().sum())
        .context("the API server counts no requests to webhooks")
}
