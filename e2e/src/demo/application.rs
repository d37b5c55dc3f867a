//! The product's main job, step by step: an application is placed on every member, changed, and drifts.

use anyhow::{Context as _, Result};
use fleet_api::conditions;
use fleet_api::names::MEMBER_NAMESPACE_PREFIX;
use fleet_api::placement::{ClusterResourcePlacement, PlacementStatus, WhenToApply, Work};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Api;

use super::{say, step};
use crate::fleet::Fleet;
use crate::fleet::state::ClusterState;
use crate::wait;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/demo/web.yaml");
const NAME: &str = "web";
const ALWAYS: &str = r#"{"spec":{"strategy":{"applyStrategy":{"whenToApply":"Always"}}}}"#;
const IF_NOT_DRIFTED: &str = r#"{"spec":{"strategy":{"applyStrategy":{"whenToApply":"IfNotDrifted"}}}}"#;

/// Places the application, changes it, and drifts it by hand on one member; in the end a drift is left to look at. Safe to
/// repeat.
pub(super) async fn show(fleet: &Fleet) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let Some(member) = fleet.members().next() else {
        return Ok(());
    };
    heal(fleet).await?;
    let applied = fleet.kubectl(&hub.name)?.ok(&["apply", "-f", MANIFESTS]).await?;
    say(
        "an application and its placement",
        hub,
        "apply -f docs/examples/demo/web.yaml",
        &applied,
    );
    until(
        fleet,
        "available everywhere",
        "ClusterResourcePlacementAvailable",
        |status| drifted(status).is_none(),
    )
    .await?;
    step(
        fleet,
        hub,
        "placed on every member",
        &["get", "clusterresourceplacement", NAME],
    )
    .await?;
    describe(fleet, "the whole story", "^Status:", "Cluster Name:").await?;
    let get = ["get", "deployments,configmaps", "--namespace", NAME];
    step(fleet, member, &format!("what arrived on {}", member.name), &get).await?;

    let scale = ["scale", "deployment", NAME, "--namespace", NAME, "--replicas=3"];
    step(fleet, hub, "a change on the hub", &scale).await?;
    replicas(fleet, 3).await?;
    let get = ["get", "deployment", NAME, "--namespace", NAME];
    for member in fleet.members() {
        step(fleet, member, &format!("{} follows", member.name), &get).await?;
    }
    until(
        fleet,
        "available everywhere",
        "ClusterResourcePlacementAvailable",
        |_| true,
    )
    .await?;
    describe(
        fleet,
        "the change in the placement's status",
        "^Status:",
        "Observed Resource Index:",
    )
    .await?;

    let title = format!("somebody interferes on {}", member.name);
    interfere(fleet, member, &title).await?;
    describe(
        fleet,
        "the drift, and where it is",
        "Drifted Placements:",
        "Observed Resource Index:",
    )
    .await?;

    step(fleet, hub, "the hub shall win", &patch(ALWAYS)).await?;
    replicas(fleet, 3).await?;
    until(fleet, "no more drift", "ClusterResourcePlacementAvailable", |status| {
        drifted(status).is_none()
    })
    .await?;
    step(
        fleet,
        hub,
        "all is well again",
        &["get", "clusterresourceplacement", NAME],
    )
    .await?;

    let title = "from here on a drift stays, for whoever looks at it";
    step(fleet, hub, title, &patch(IF_NOT_DRIFTED)).await?;
    left_alone(fleet, &member.name).await?;
    let title = format!("and somebody interferes on {} again", member.name);
    interfere(fleet, member, &title).await
}

const fn patch(how: &str) -> [&str; 6] {
    [
        "patch",
        "clusterresourceplacement",
        NAME,
        "--type=merge",
        "--patch",
        how,
    ]
}

/// Takes off what an earlier demo has left on a member.
async fn heal(fleet: &Fleet) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let api: Api<ClusterResourcePlacement> = Api::all(fleet.client(&hub.name).await?);
    if api.get_opt(NAME).await?.is_none() {
        return Ok(());
    }
    fleet.kubectl(&hub.name)?.ok(&patch(ALWAYS)).await?;
    until(
        fleet,
        "no drift is left",
        "ClusterResourcePlacementAvailable",
        |status| drifted(status).is_none(),
    )
    .await
}

/// Waits until the member has been told to leave drifts alone.
async fn left_alone(fleet: &Fleet, member: &str) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let works = Api::namespaced(
        fleet.client(&hub.name).await?,
        &format!("{MEMBER_NAMESPACE_PREFIX}{member}"),
    );
    wait::until_present(
        works,
        &format!("{NAME}-work"),
        "drifts are left alone",
        |work: &Work| {
            let how = work
                .spec
                .apply_strategy
                .as_ref()
                .map(|strategy| &strategy.when_to_apply);
            let generation = work.metadata.generation.unwrap_or_default();
            let is_applied = |status: &fleet_api::placement::WorkStatus| {
                conditions::is_true(&status.conditions, "Applied", generation)
            };
            how == Some(&WhenToApply::IfNotDrifted) && work.status.as_ref().is_some_and(is_applied)
        },
    )
    .await?;
    Ok(())
}

/// Scales the application on a member, and waits until the hub says so.
async fn interfere(fleet: &Fleet, member: &ClusterState, title: &str) -> Result<()> {
    let scale = ["scale", "deployment", NAME, "--namespace", NAME, "--replicas=9"];
    step(fleet, member, title, &scale).await?;
    let hub = &fleet.clusters()[0];
    let api: Api<ClusterResourcePlacement> = Api::all(fleet.client(&hub.name).await?);
    wait::until_present(api, NAME, "the drift is reported", |crp| {
        crp.status.as_ref().is_some_and(|status| drifted(status).is_some())
    })
    .await?;
    Ok(())
}

/// Prints the part of `kubectl describe` from a line with one text to a line with another, as `sed` picks it.
async fn describe(fleet: &Fleet, title: &str, from: &str, to: &str) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let args = ["describe", "clusterresourceplacement", NAME];
    let printed = fleet.kubectl(&hub.name)?.ok(&args).await?;
    let is = |line: &str, pattern: &str| match pattern.strip_prefix('^') {
        Some(start) => line.starts_with(start),
        None => line.contains(pattern),
    };
    let mut part = String::new();
    for line in printed.lines().skip_while(|line| !is(line, from)) {
        let last = !part.is_empty() && is(line, to);
        part.extend([line, "\n"]);
        if last {
            break;
        }
    }
    say(
        title,
        hub,
        &format!("{} | sed -n '/{from}/,/{to}/p'", args.join(" ")),
        &part,
    );
    Ok(())
}

/// Waits until a condition of the placement is true for what it asks for now, and `also` holds.
async fn until(fleet: &Fleet, what: &str, condition: &str, also: impl Fn(&PlacementStatus) -> bool) -> Result<()> {
    let api: Api<ClusterResourcePlacement> = Api::all(fleet.client("hub").await?);
    wait::until_present(api, NAME, what, |crp| {
        let generation = crp.metadata.generation.unwrap_or_default();
        crp.status
            .as_ref()
            .is_some_and(|status| conditions::is_true(&status.conditions, condition, generation) && also(status))
    })
    .await?;
    Ok(())
}

/// The first cluster with drift.
fn drifted(status: &PlacementStatus) -> Option<&str> {
    let entry = status
        .placement_statuses
        .iter()
        .find(|entry| !entry.drifted_placements.is_empty())?;
    Some(&entry.cluster_name)
}

/// Waits until every member runs that many.
async fn replicas(fleet: &Fleet, count: i32) -> Result<()> {
    try_join_all(fleet.members().map(|member| async move {
        let client = fleet.client(&member.name).await.context("the member's API server")?;
        wait::until_present(Api::namespaced(client, NAME), NAME, "scaled", |found: &Deployment| {
            found
                .status
                .as_ref()
                .is_some_and(|status| status.ready_replicas == Some(count))
        })
        .await
    }))
    .await?;
    Ok(())
}
