//! A placement taken apart: its clusters, and on each the objects that are not as they should be. Its status says how the
//! clusters are; which objects are meant, their bindings say: of a large fleet the status has no room for that.

use std::collections::BTreeMap;

use fleet_api::conditions::placement::Step as Stage;
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{BindingStatus, PatchDetail, PerClusterPlacementStatus, ResourceIdentifier};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::chain::Verdict;
use super::cluster::reports_diff;
use super::fleet::{Fleet, Placement};
use super::names::{Names, object, spoken};
use super::{drift, manifest, reasons};

/// A placement on one of its clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRow {
    /// The cluster; empty for one that was asked for and not found.
    pub cluster: String,
    /// How the placement is there.
    pub verdict: Verdict,
    /// The first step that is not done, or the last.
    pub step: String,
    /// What that means.
    pub text: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The index of the resource snapshot there.
    pub snapshot: String,
    /// Objects that are not as they should be.
    pub objects: Vec<ObjectRow>,
    /// The command that tells why.
    pub next: String,
}

/// An object that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// As kubectl takes it.
    pub object: String,
    /// As people say it.
    pub name: String,
    /// How it is.
    pub verdict: Verdict,
    /// What is wrong with it.
    pub text: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// The command to type next.
    pub next: String,
}

/// Fields of an object that are not the same on hub and member.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DiffRow {
    /// The cluster.
    pub cluster: String,
    /// The object as kubectl takes it.
    pub object: String,
    /// Whether somebody changed it after it was applied; otherwise it was different before.
    pub drifted: bool,
    /// Since when.
    pub since: Time,
    /// When it was looked at last.
    pub observed: Time,
    /// The fields.
    pub fields: Vec<PatchDetail>,
}

/// The clusters of a placement; nothing if there is no such placement.
pub fn cluster_rows(fleet: &Fleet<'_>, name: &str) -> Vec<ClusterRow> {
    let placement = fleet.placement(name);
    let known = by_cluster(fleet, name);
    let placement = placement.iter();
    let rows = placement.flat_map(|placement| {
        let entries = placement
            .status
            .into_iter()
            .flat_map(|status| &status.placement_statuses);
        entries.map(|entry| row(fleet, placement, entry, &details(entry, &known)))
    });
    rows.collect()
}

/// What the bindings of a placement say, by cluster. One that is being deleted counts only if there is no other.
fn by_cluster<'a>(fleet: &Fleet<'a>, name: &str) -> BTreeMap<&'a str, &'a BindingStatus> {
    let mut bindings: Vec<_> = fleet.bindings_of(name).collect();
    bindings.sort_by_key(|binding| !binding.deleting());
    let said = bindings.into_iter().filter_map(|binding| {
        let status = binding.status?;
        Some((binding.spec.target_cluster.as_str(), status))
    });
    said.collect()
}

/// The objects of a cluster that are not as they should be: from its binding, or else as far as the placement has them.
fn details(entry: &PerClusterPlacementStatus, known: &BTreeMap<&str, &BindingStatus>) -> BindingStatus {
    match known.get(entry.cluster_name.as_str()) {
        Some(status) => (*status).clone(),
        None => BindingStatus {
            failed_placements: entry.failed_placements.clone(),
            drifted_placements: entry.drifted_placements.clone(),
            diffed_placements: entry.diffed_placements.clone(),
            ..BindingStatus::default()
        },
    }
}

fn row(
    fleet: &Fleet<'_>,
    placement: &Placement<'_>,
    entry: &PerClusterPlacementStatus,
    details: &BindingStatus,
) -> ClusterRow {
    let names = Names {
        placement: placement.name(),
        cluster: &entry.cluster_name,
        ..fleet.names()
    };
    let stages = || std::iter::once(Stage::Scheduled).chain(Stage::expected(reports_diff(placement)).iter().copied());
    let fresh = |stage: Stage| conditions::fresh(&entry.conditions, stage.on_cluster(), placement.generation());
    let unmet = stages().find(|stage| fresh(*stage).is_none_or(|it| Status::of(it) != Status::True));
    let condition = unmet.and_then(fresh);
    let step = condition.map(|condition| reasons::step("", condition, &names));
    let (verdict, text) = match (unmet, step) {
        (None, _) => (Verdict::Done, String::new()),
        (Some(_), None) => (Verdict::Waiting, "the hub agent has not come to it yet".to_owned()),
        (Some(_), Some(step)) => (step.verdict, step.cause.map(|cause| cause.text).unwrap_or_default()),
    };
    let next = if entry.cluster_name.is_empty() {
        names.fill("kubectl fleet why {placement}{n}")
    } else {
        names.fill("kubectl fleet why {placement} {cluster}{n}")
    };
    ClusterRow {
        cluster: entry.cluster_name.clone(),
        verdict,
        step: unmet
            .or_else(|| stages().last())
            .map(Stage::on_cluster)
            .unwrap_or_default()
            .to_owned(),
        text,
        since: condition.map(|condition| condition.last_transition_time.clone()),
        snapshot: entry.observed_resource_index.clone(),
        objects: objects(fleet, details, &names),
        next,
    }
}

/// Objects in trouble, and those that have only drifted or differ.
fn objects(fleet: &Fleet<'_>, status: &BindingStatus, names: &Names<'_>) -> Vec<ObjectRow> {
    let failed = status.failed_placements.iter().map(|failed| {
        let id = failed.resource();
        let cause = manifest::cause(fleet, status, &id, &failed.condition, names);
        let known = reasons::meaning(&failed.condition.reason);
        let text = cause
            .text
            .strip_prefix(&format!("{}: ", spoken(&id)))
            .unwrap_or(&cause.text);
        ObjectRow {
            object: object(&id),
            name: spoken(&id),
            verdict: known.map_or(Verdict::Failed, |known| known.verdict),
            text: text.to_owned(),
            since: Some(failed.condition.last_transition_time.clone()),
            next: cause.next,
        }
    });
    let mut rows: Vec<_> = failed.collect();
    for diff in differing(names.cluster, status) {
        if rows.iter().any(|row| row.object == diff.0.object) {
            continue;
        }
        let (found, id) = diff;
        let what = if found.drifted { "has drifted" } else { "differs" };
        let words = drift::words(fleet, names.cluster, &id, &found.fields);
        rows.push(ObjectRow {
            name: spoken(&id),
            verdict: Verdict::Done,
            text: format!("{what}: {words}"),
            since: Some(found.since),
            next: names.fill("kubectl fleet diff {placement} {cluster}{n}"),
            object: found.object,
        });
    }
    rows
}

/// What differs between hub and members, for all clusters of a placement or one.
pub fn diff_rows(fleet: &Fleet<'_>, name: &str, cluster: Option<&str>) -> Vec<DiffRow> {
    let placement = fleet.placement(name);
    let status = placement.and_then(|placement| placement.status);
    let entries = status.into_iter().flat_map(|status| &status.placement_statuses);
    let entries = entries.filter(|entry| cluster.is_none_or(|cluster| cluster == entry.cluster_name));
    let known = by_cluster(fleet, name);
    let rows = entries.flat_map(|entry| differing(&entry.cluster_name, &details(entry, &known)));
    rows.map(|(row, _)| row).collect()
}

fn differing(cluster: &str, status: &BindingStatus) -> Vec<(DiffRow, ResourceIdentifier)> {
    let row = |id: ResourceIdentifier, drifted: bool, since: &Time, observed: &Time, fields: &[PatchDetail]| {
        let row = DiffRow {
            cluster: cluster.to_owned(),
            object: object(&id),
            drifted,
            since: since.clone(),
            observed: observed.clone(),
            fields: fields.to_vec(),
        };
        (row, id)
    };
    let drifted = status.drifted_placements.iter().map(|it| {
        row(
            it.resource(),
            true,
            &it.first_drifted_observed_time,
            &it.observation_time,
            &it.observed_drifts,
        )
    });
    let differing = status.diffed_placements.iter().map(|it| {
        row(
            it.resource(),
            false,
            &it.first_diffed_observed_time,
            &it.observation_time,
            &it.observed_diffs,
        )
    });
    drifted.chain(differing).collect()
}
