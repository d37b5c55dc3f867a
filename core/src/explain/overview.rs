//! The fleet in a few columns: a row for each member, placement and run, from what their own objects say. Why something is as
//! it is takes more objects; a row names the command that tells.

mod runs;

pub use runs::{RunRow, runs};

use std::collections::BTreeMap;

use fleet_api::cluster::{AgentType, MemberCluster, Taint};
use fleet_api::conditions::placement::Step as Stage;
use fleet_api::conditions::{self, Status};
use fleet_api::placement::PerClusterPlacementStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;

use super::chain::{Chain, Verdict};
use super::cluster::reports_diff;
use super::fleet::{Fleet, Placement};
use super::names::{Names, few};
use super::{member, reasons};
use crate::membership::properties::{K8S_VERSION, NODE_COUNT};

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberRow {
    /// Its name.
    pub name: String,
    /// How it is.
    pub verdict: Verdict,
    /// The same in words.
    pub health: String,
    /// When its agent was heard of last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heartbeat: Option<Time>,
    /// The version of its Kubernetes.
    pub version: String,
    /// The version of its member agent; empty before its first session.
    pub agent: String,
    /// The version of the hub agent that it spoke with last; empty before its first session.
    pub hub_agent: String,
    /// How many nodes it has.
    pub nodes: String,
    /// What is left for further pods.
    pub free_cpu: String,
    /// What is left for further pods.
    pub free_memory: String,
    /// How many placements of those that are known are on it.
    pub placed: usize,
    /// Whether nothing new is placed there.
    pub cordoned: bool,
}

/// A placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRow {
    /// As kubectl takes it.
    pub name: String,
    /// How it is.
    pub verdict: Verdict,
    /// The step that it is at: the first that is not done, or the last.
    pub step: String,
    /// What that means.
    pub text: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The clusters that have come all the way.
    pub ready: usize,
    /// The clusters that are picked.
    pub clusters: usize,
    /// The first few of those that have not.
    pub behind: String,
    /// The index of the resource snapshot that the status speaks of.
    pub snapshot: String,
    /// Objects that somebody has changed on members.
    pub drifted: usize,
    /// Objects that differ from what members had before.
    pub differing: usize,
    /// The command that tells why.
    pub next: String,
}

/// A row for each member. Placements of the family that is looked at count as placed.
pub fn members(fleet: &Fleet<'_>) -> Vec<MemberRow> {
    let mut placed = BTreeMap::<&str, usize>::new();
    for entry in fleet.placements.iter().flat_map(Placement::entries) {
        *placed.entry(entry.cluster_name.as_str()).or_default() += 1;
    }
    let internals = fleet.internals.iter();
    let internals: BTreeMap<_, _> = internals.map(|it| (it.metadata.name.as_deref(), *it)).collect();
    let row = |member: &&MemberCluster| {
        let name = member.metadata.name.as_deref().unwrap_or_default();
        let internal = internals.get(&Some(name)).copied();
        let chain = member::explained(fleet, member, internal, member::begun(name));
        let (hub_agent, agent) = internal.map(member::versions).unwrap_or_default();
        MemberRow {
            agent: agent.to_owned(),
            hub_agent: hub_agent.to_owned(),
            ..of_member(member, name, &chain, placed.get(name).copied().unwrap_or_default())
        }
    };
    fleet.members.iter().map(row).collect()
}

fn of_member(found: &MemberCluster, name: &str, chain: &Chain, placed: usize) -> MemberRow {
    let status = found.status.as_ref();
    let property = |key: &str| {
        let found = status.and_then(|status| status.properties.get(key));
        found.map(|property| property.value.clone()).unwrap_or_default()
    };
    let free = |key: &str| {
        let available = status.and_then(|status| status.resource_usage.as_ref());
        let found = available.and_then(|usage| usage.available.get(key));
        found.map(|quantity| quantity.0.clone()).unwrap_or_default()
    };
    // The whole sentence is what `why` is for.
    let health = chain
        .cause()
        .map_or("well", |cause| cause.text.split(": ").next().unwrap_or_default());
    MemberRow {
        name: name.to_owned(),
        verdict: chain.verdict(),
        health: health.to_owned(),
        heartbeat: status
            .and_then(|status| status.agent(&AgentType::MemberAgent))
            .and_then(|agent| agent.last_received_heartbeat.clone()),
        version: property(K8S_VERSION),
        agent: String::new(),
        hub_agent: String::new(),
        nodes: property(NODE_COUNT),
        free_cpu: free("cpu"),
        free_memory: free("memory"),
        placed,
        cordoned: found.spec.taints.iter().any(Taint::is_cordon),
    }
}

/// A row for each placement of the family.
pub fn placements(fleet: &Fleet<'_>) -> Vec<PlacementRow> {
    fleet
        .placements
        .iter()
        .map(|placement| of_placement(fleet, placement))
        .collect()
}

fn of_placement(fleet: &Fleet<'_>, placement: &Placement<'_>) -> PlacementRow {
    let names = Names {
        placement: placement.name(),
        ..fleet.names()
    };
    let stages = || std::iter::once(Stage::Scheduled).chain(Stage::expected(reports_diff(placement)).iter().copied());
    let is_ready = |entry: &&PerClusterPlacementStatus| {
        let met = |stage: Stage| conditions::is_true(&entry.conditions, stage.on_cluster(), placement.generation());
        stages().all(met)
    };
    let all = placement.entries().count();
    let behind: Vec<_> = placement.entries().filter(|entry| !is_ready(entry)).collect();
    let list = placement
        .status
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let condition = |stage: Stage| conditions::fresh(list, stage.on_placement(fleet.scope()), placement.generation());
    let unmet = stages().find(|stage| condition(*stage).is_none_or(|it| Status::of(it) != Status::True));
    let (verdict, text, since) = match unmet.map(condition) {
        _ if placement.deleting() => (
            Verdict::Waiting,
            "it is being deleted".to_owned(),
            placement.meta.deletion_timestamp.clone(),
        ),
        None => (Verdict::Done, String::new(), None),
        Some(None) if list.is_empty() => (Verdict::Waiting, "the hub agent has not seen it".to_owned(), None),
        Some(None) => (
            Verdict::Waiting,
            "the hub agent has not come to it yet".to_owned(),
            None,
        ),
        Some(Some(condition)) => {
            let (verdict, text) = said(condition, &names);
            (verdict, text, Some(condition.last_transition_time.clone()))
        }
    };
    let step = unmet
        .or_else(|| stages().last())
        .map(Stage::on_cluster)
        .unwrap_or_default();
    PlacementRow {
        name: names.fill("{placement}{n}"),
        verdict,
        step: step.to_owned(),
        text,
        since,
        ready: all - behind.len(),
        clusters: all,
        behind: few(behind.iter().map(|entry| entry.cluster_name.as_str())),
        snapshot: placement
            .status
            .map(|status| status.observed_resource_index.clone())
            .unwrap_or_default(),
        drifted: placement.entries().map(|entry| entry.drifted_placements.len()).sum(),
        differing: placement.entries().map(|entry| entry.diffed_placements.len()).sum(),
        next: names.fill("kubectl fleet why {placement}{n}"),
    }
}

/// What a condition that is not true says.
fn said(condition: &Condition, names: &Names<'_>) -> (Verdict, String) {
    let step = reasons::step("", condition, names);
    (step.verdict, step.cause.map(|cause| cause.text).unwrap_or_default())
}
