//! The fleet in a few columns: a row for each member, placement and run, from what their own objects say. Why something is as
//! it is takes more objects; a row names the command that tells.

use std::collections::BTreeMap;

use fleet_api::cluster::{AgentType, MemberCluster, Taint};
use fleet_api::conditions::placement::Step as Stage;
use fleet_api::conditions::update_run::{Initialized, Succeeded};
use fleet_api::conditions::update_stage::{ApprovalRequestApproved, ClusterStarted, ClusterSucceeded, WaitTimeElapsed};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{
    PerClusterPlacementStatus, StageStatus, StageTaskStatus, StageTaskType, UpdateRunState, UpdateRunStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;

use super::chain::{Chain, Verdict};
use super::cluster::reports_diff;
use super::fleet::{Fleet, Placement, Run, holds};
use super::names::{Names, clusters, few};
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

/// An update run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunRow {
    /// As kubectl takes it.
    pub name: String,
    /// The placement that it updates, as kubectl takes it.
    pub placement: String,
    /// How it is.
    pub verdict: Verdict,
    /// The stage that it is at; empty before the first and after the last.
    pub stage: String,
    /// What it does or waits for.
    pub text: String,
    /// The clusters that are updated.
    pub updated: usize,
    /// The clusters of its plan.
    pub clusters: usize,
    /// Whether it has ended, well or not.
    pub ended: bool,
    /// The command to type next; empty if nothing is to be done.
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
        let agent = internal.map_or("", |internal| member::versions(internal).1);
        MemberRow {
            agent: agent.to_owned(),
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

/// A row for each update run of the family.
pub fn runs(fleet: &Fleet<'_>) -> Vec<RunRow> {
    fleet.runs.iter().map(|run| of_run(fleet, run)).collect()
}

fn of_run(fleet: &Fleet<'_>, run: &Run<'_>) -> RunRow {
    let names = Names {
        run: run.name(),
        placement: &run.spec.placement_name,
        ..fleet.names()
    };
    let none = UpdateRunStatus::default();
    let status = run.status.unwrap_or(&none);
    let stages = || status.stages_status.iter().chain(&status.deletion_stage_status);
    let planned = || stages().flat_map(|stage| &stage.clusters);
    let is_updated = |conditions: &[Condition]| holds(conditions, ClusterSucceeded::TYPE);
    let updated = planned().filter(|cluster| is_updated(&cluster.conditions)).count();
    let why = names.fill("kubectl fleet why {run}{n}");
    let found = |type_name| conditions::find(&status.conditions, type_name).map(Status::of);
    let open = stages().find(|stage| stage.end_time.is_none());
    let (verdict, text, next) = match (found(Initialized::TYPE), found(Succeeded::TYPE)) {
        (_, Some(Status::True)) => (Verdict::Done, "done".to_owned(), String::new()),
        (Some(Status::False), _) => (Verdict::Failed, "it could not begin".to_owned(), why),
        (_, Some(Status::False)) => (Verdict::Failed, "it has failed and cannot go on".to_owned(), why),
        (None | Some(Status::Unknown), _) => (Verdict::Waiting, "it has no plan yet".to_owned(), why),
        (Some(Status::True), _) => match run.spec.state {
            UpdateRunState::Initialize => (Verdict::Waiting, "it waits for spec.state: Run".to_owned(), why),
            UpdateRunState::Stop => (Verdict::Waiting, "somebody has stopped it".to_owned(), why),
            UpdateRunState::Run => open.map_or_else(
                || (Verdict::Waiting, "it is about to end".to_owned(), why.clone()),
                |stage| at(stage, &names),
            ),
        },
    };
    let ended = matches!(found(Succeeded::TYPE), Some(Status::True | Status::False))
        || found(Initialized::TYPE) == Some(Status::False);
    RunRow {
        name: names.fill("{run}{n}"),
        placement: names.fill("{placement}{n}"),
        verdict,
        stage: open
            .filter(|_| !ended)
            .map(|stage| stage.stage_name.clone())
            .unwrap_or_default(),
        text,
        updated,
        clusters: planned().count(),
        ended,
        next,
    }
}

/// What a stage that has not ended does or waits for.
fn at(stage: &StageStatus, names: &Names<'_>) -> (Verdict, String, String) {
    let why = names.fill("kubectl fleet why {run}{n}");
    let is_updated = |list: &[Condition]| holds(list, ClusterSucceeded::TYPE);
    let left: Vec<_> = stage
        .clusters
        .iter()
        .filter(|cluster| !is_updated(&cluster.conditions))
        .collect();
    let has_begun = |list: &[Condition]| conditions::find(list, ClusterStarted::TYPE).is_some();
    let begun = stage.clusters.iter().any(|cluster| has_begun(&cluster.conditions));
    let tasks = if left.is_empty() {
        &stage.after_stage_task_status
    } else {
        &stage.before_stage_task_status
    };
    let is_open = |task: &&StageTaskStatus| {
        !holds(&task.conditions, ApprovalRequestApproved::TYPE) && !holds(&task.conditions, WaitTimeElapsed::TYPE)
    };
    let mut open = tasks.iter().filter(is_open);
    match open.next() {
        Some(task) if !begun || left.is_empty() => {
            if task.type_ == StageTaskType::TimedWait {
                return (Verdict::Waiting, "it waits for its time to pass".to_owned(), why);
            }
            let request = task.approval_request_name.as_str();
            let approve = super::run::approve(request, names);
            (Verdict::Waiting, format!("nobody has approved {request}"), approve)
        }
        _ => {
            let failed = left.iter().find(|cluster| {
                let condition = conditions::find(&cluster.conditions, ClusterSucceeded::TYPE);
                condition.is_some_and(|condition| Status::of(condition) == Status::False)
            });
            if let Some(failed) = failed {
                return (Verdict::Failed, format!("{} has failed", failed.cluster_name), why);
            }
            let under_way = left.iter().filter(|cluster| has_begun(&cluster.conditions));
            let under_way = few(under_way.map(|cluster| cluster.cluster_name.as_str()));
            let text = match under_way.as_str() {
                "" => format!("{} to update", clusters(left.len())),
                some => format!("it updates {some}"),
            };
            (Verdict::Waiting, text, why)
        }
    }
}
