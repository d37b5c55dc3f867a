//! Requests of a join, of a leave, and of a heartbeat that has something to say.

use std::time::Duration;

use anyhow::{Context as _, Result};
use fleet_api::cluster::MemberCluster;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use super::audit::{self, Request, tally};
use super::figures::{Aim, Row, ratio};
use super::hub::Hub;
use super::{Part, progress};
use crate::cluster::components::NODE_ANNOTATION;
use crate::{agents, wait};

/// What follows a change at once (Events, the inventory) is done by then.
const AFTERMATH: Duration = Duration::from_secs(3);
/// A join, TokenReview included, and its Events.
const JOIN: (f64, f64) = (12.0, 8.0);
/// A leave without Works, and its Events.
const LEAVE: (f64, f64) = (6.0, 2.0);
const NODE: &str = "one-more-node";
const NODE_COUNT: &str = "kubernetes-fleet.io/node-count";

/// Lets all real members join.
pub async fn join_all(hub: &Hub) -> Result<Vec<Row>> {
    let mark = hub.log.mark()?;
    agents::ensure(&hub.fleet, progress).await?;
    tokio::time::sleep(AFTERMATH).await;
    let requests = hub.requests(mark)?;
    let members: Vec<_> = hub.fleet.members().map(|m| m.name.clone()).collect();
    // A review names nobody.
    let is_review = |r: &&Request| r.resource() == "tokenreviews";
    let of_members = |r: &&Request| members.iter().any(|member| r.concerns(member)) || is_review(r);
    let of_join: Vec<_> = requests.iter().filter(of_members).collect();
    Ok(rows("join", &of_join, members.len(), JOIN))
}

/// Requests without Events, Events and reads, each beside its budget.
fn rows(event: &str, requests: &[&Request], of: usize, budget: (f64, f64)) -> Vec<Row> {
    let is_event = |r: &&&Request| r.resource() == "events";
    let is_read = |r: &&&Request| !r.is_write() && r.resource() != "tokenreviews" && r.resource() != "leases";
    let events = requests.iter().filter(is_event).count();
    let reads: Vec<_> = requests.iter().filter(is_read).copied().collect();
    let others: Vec<_> = requests
        .iter()
        .filter(|r| !is_event(r) && !is_read(r))
        .copied()
        .collect();
    let row = |what: &str, n| Row::new(Part::Writes, format!("{event}: {what}"), ratio(n, of), "");
    vec![
        row("requests without Events, per member", others.len())
            .aim(Aim::AtMost(budget.0))
            .note(format!("of {of}: {}", audit::line(&tally(others)))),
        row("Events, per member", events).aim(Aim::AtMost(budget.1)),
        row("reads, per member", reads.len())
            .aim(Aim::AtMost(0.0))
            .note(audit::line(&tally(reads))),
    ]
}

/// Adds a node to a member and takes it away; counts what the heartbeats that tell of it write.
pub async fn content_change(hub: &Hub) -> Result<Vec<Row>> {
    let member = hub.fleet.members().next().context("no member")?.name.clone();
    progress(&format!("{member} gets a node and loses it"));
    let nodes: Api<Node> = Api::all(hub.fleet.client(&member).await?);
    let api: Api<MemberCluster> = Api::all(hub.client.clone());
    let template = nodes.list(&kube::api::ListParams::default().limit(1)).await?;
    let size = template
        .items
        .first()
        .and_then(|node| node.status.as_ref()?.capacity.clone());
    let before = template.metadata.remaining_item_count.unwrap_or(0) + 1;
    let mut all = Vec::new();
    for wanted in [before + 1, before] {
        let mark = hub.log.mark()?;
        if wanted > before {
            // As a kubelet registers: complete at once.
            let (kwok, fake) = NODE_ANNOTATION;
            let node = serde_json::from_value(json!({
                "metadata": {"name": NODE, "annotations": {kwok: fake}},
                "status": {"capacity": size, "allocatable": size},
            }))?;
            nodes.create(&PostParams::default(), &node).await?;
        } else {
            nodes.delete(NODE, &DeleteParams::default()).await?;
        }
        wait::until_present(
            api.clone(),
            &member,
            &format!("{wanted} nodes"),
            |mc: &MemberCluster| {
                let value = mc.status.as_ref().and_then(|s| s.properties.get(NODE_COUNT));
                value.is_some_and(|p| p.value == wanted.to_string())
            },
        )
        .await?;
        tokio::time::sleep(AFTERMATH).await;
        let requests = hub.requests(mark)?;
        all.extend(requests.into_iter().filter(|r| r.concerns(&member)));
    }
    let of = |statuses: bool| {
        let is_status = |r: &&Request| r.resource().ends_with("memberclusters/status");
        all.iter().filter(|r| is_status(r) == statuses).collect::<Vec<_>>()
    };
    let row = |what: &str, of: &[&Request]| {
        let row = Row::new(
            Part::Writes,
            format!("heartbeat with content: {what}"),
            ratio(of.len(), 2),
            "",
        );
        row.note(format!("of 2: {}", audit::line(&tally(of.iter().copied()))))
    };
    Ok(vec![
        row("status writes per change", &of(true))
            .aim(Aim::AtMost(2.0))
            .kubefleet(2.0),
        row("what follows it", &of(false)).aim(Aim::AtMost(1.0)),
    ])
}

/// Lets the last member leave.
pub async fn leave(hub: &Hub) -> Result<Vec<Row>> {
    let member = hub.fleet.members().last().context("no member")?.name.clone();
    progress(&format!("{member} leaves"));
    let api: Api<MemberCluster> = Api::all(hub.client.clone());
    let mark = hub.log.mark()?;
    api.delete(&member, &DeleteParams::default()).await?;
    wait::until_gone(api, &member).await?;
    tokio::time::sleep(AFTERMATH).await;
    let requests = hub.requests(mark)?;
    let of_leave: Vec<_> = requests.iter().filter(|r| r.concerns(&member)).collect();
    Ok(rows("leave", &of_leave, 1, LEAVE))
}
