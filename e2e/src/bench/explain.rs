//! `kubectl fleet status`, `why` and `plan` on a large fleet: how long they take and how often they ask.
//!
//! A hundred placements on a thousand members would take an hour to come about, and it is not their coming about that is
//! measured. So the hub agent is stopped, and the objects that it would have written are: their number and size are real, and
//! so are the API server and the command.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use fleet_api::Kind;
use fleet_api::placement::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot,
    ClusterStagedUpdateRun,
};
use fleet_api::raw::RawJson;
use fleet_api::{annotations, labels};
use fleet_core::snapshot::resource;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::figures::{Aim, Row, count};
use super::hub::Hub;
use super::{Part, Settings, progress};
use crate::agents::HUB_AGENT;
use crate::plugin;

const PLACEMENTS: usize = 100;
/// Objects in the namespace that the first placement selects.
const SELECTED: usize = 50;
/// Writes at once.
const TOGETHER: usize = 16;
/// Whose requests are counted: the one that this process and the command are.
const USER: &str = "fleet-admin";
/// Of the largest object that etcd stores, what entries may have: on more members no placement is.
const ENTRIES_BYTES_MAX: usize = 1_300_000;
const RUN: &str = "explained-run";

/// Writes the objects, asks, and counts. Nothing works on this hub afterwards.
pub async fn measure(hub: &Hub, settings: Settings) -> Result<Vec<Row>> {
    progress(&format!(
        "{PLACEMENTS} placements on {} members are written",
        settings.members
    ));
    hub.fleet.stop_process(HUB_AGENT).await?;
    let members: Vec<_> = members(hub).await?.into_iter().take(settings.members).collect();
    ensure!(!members.is_empty(), "no member has joined");
    let placements: Vec<_> = (0..PLACEMENTS).map(|number| format!("explained-{number}")).collect();
    let place = async |name: &String| place(hub, name, &members).await;
    stream::iter(&placements)
        .map(place)
        .buffer_unordered(TOGETHER)
        .try_collect::<Vec<()>>()
        .await?;
    let (first, member) = (&placements[0], &members[0]);
    select(hub, first).await?;
    let bind = async |member: &String| bind(hub, first, member).await;
    stream::iter(&members)
        .map(bind)
        .buffer_unordered(TOGETHER)
        .try_collect::<Vec<()>>()
        .await?;
    run(hub, first, &members).await?;
    let file = NamedTempFile::new()?;
    let edited = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": { "name": first }, "spec": spec(first),
    });
    std::fs::write(&file, edited.to_string())?;
    let file = file.path().to_str().context("the path is no text")?;
    let crp = format!("crp/{first}");
    let (of_member, of_run) = (format!("membercluster/{member}"), format!("csur/{RUN}"));
    let mut rows = Vec::new();
    for (what, requests, args) in [
        ("status", 10.0, &["status"][..]),
        ("status crp", 10.0, &["status", &crp]),
        ("why crp", 10.0, &["why", &crp]),
        ("why crp member", 10.0, &["why", &crp, member]),
        ("why csur", 10.0, &["why", &of_run]),
        ("why member", 10.0, &["why", &of_member]),
        // Which kinds there are, twice, and of each placement that may have it what belongs to it.
        (
            "why configmap member",
            12.0,
            &["why", "configmap/settings-0", member, "-n", first],
        ),
        // Of everything in a namespace each kind is listed.
        ("plan crp", 60.0, &["plan", &crp]),
        ("plan -f", 60.0, &["plan", "-f", file]),
    ] {
        rows.extend(ask(hub, what, requests, args, members.len()).await?);
    }
    Ok(rows)
}

fn spec(name: &str) -> Value {
    json!({
        "resourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": name }],
        "policy": { "placementType": "PickAll" },
    })
}

/// An update run that is at its first cluster.
async fn run(hub: &Hub, placement: &str, members: &[String]) -> Result<()> {
    let clusters: Vec<_> = members.iter().map(|member| json!({ "clusterName": member })).collect();
    let spec = json!({ "placementName": placement, "stagedRolloutStrategyName": "explained", "state": "Run" });
    let status = json!({
        "policySnapshotIndexUsed": "0", "resourceSnapshotIndexUsed": "0",
        "conditions": [condition("Initialized", "UpdateRunInitializedSuccessfully")],
        "stagesStatus": [{ "stageName": "all", "clusters": clusters }],
    });
    write::<ClusterStagedUpdateRun>(hub, RUN, &json!({}), spec, status).await
}

async fn members(hub: &Hub) -> Result<Vec<String>> {
    let all = Api::<fleet_api::cluster::MemberCluster>::all(hub.client.clone());
    let all = all.list_metadata(&kube::api::ListParams::default()).await?;
    Ok(all.items.into_iter().filter_map(|it| it.metadata.name).collect())
}

/// One question.
async fn ask(hub: &Hub, what: &str, at_most: f64, args: &[&str], members: usize) -> Result<Vec<Row>> {
    let context = &hub.fleet.cluster("hub")?.context;
    let kubeconfig = hub.fleet.state().kubeconfig.as_deref();
    let mark = hub.log.mark()?;
    let begun = Instant::now();
    let said = plugin::run(kubeconfig, &[args, &["--context", context]].concat()).await?;
    let took = begun.elapsed();
    ensure!(matches!(said.code, 0 | 3), "it failed: {said:?}");
    let requests = hub.log.since(mark, USER)?.len();
    let what = format!("kubectl fleet {what} ({members} members, {PLACEMENTS} placements)");
    Ok(vec![
        Row::new(Part::Explain, what.clone(), took.as_secs_f64(), "s").aim(Aim::Below(1.0)),
        Row::new(Part::Explain, format!("{what}, requests"), count(requests), "").aim(Aim::AtMost(at_most)),
    ])
}

fn condition(type_: &str, reason: &str) -> Value {
    json!({
        "type": type_, "status": "True", "reason": reason, "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "as long as messages of conditions are on the whole",
    })
}

fn way(prefix: &str) -> Vec<Value> {
    let steps = [
        ("Scheduled", "Scheduled"),
        ("RolloutStarted", "RolloutStarted"),
        ("Overridden", "NoOverrideSpecified"),
        ("WorkSynchronized", "WorkSynchronized"),
        ("Applied", "ApplySucceeded"),
        ("Available", "ResourceAvailable"),
    ];
    steps
        .iter()
        .map(|(type_, reason)| condition(&format!("{prefix}{type_}"), reason))
        .collect()
}

/// A placement on all members, with the status that it would have.
async fn place(hub: &Hub, name: &str, members: &[String]) -> Result<()> {
    let entry = |member: &String| json!({ "clusterName": member, "observedResourceIndex": "0", "conditions": way("") });
    let mut entries: Vec<_> = members.iter().map(entry).collect();
    let bytes = serde_json::to_vec(&entries[0])?.len();
    entries.truncate(ENTRIES_BYTES_MAX / bytes);
    let selected: Vec<_> = (0..SELECTED)
        .map(|number| json!({ "version": "v1", "kind": "ConfigMap", "name": format!("settings-{number}"), "namespace": name }))
        .collect();
    let status = json!({
        "conditions": way("ClusterResourcePlacement"), "observedResourceIndex": "0", "placementStatuses": entries,
        "selectedResources": selected,
    });
    write::<ClusterResourcePlacement>(hub, name, &json!({}), spec(name), status).await?;
    let labels = json!({ "kubernetes-fleet.io/parent-CRP": name, "kubernetes-fleet.io/is-latest-snapshot": "true" });
    let decisions: Vec<_> = members
        .iter()
        .map(|member| json!({ "clusterName": member, "selected": true, "reason": "picked by scheduling policy" }))
        .collect();
    let spec = json!({ "policy": { "placementType": "PickAll" }, "policyHash": "aGFzaA==" });
    let status = json!({
        "observedCRPGeneration": 1, "targetClusters": decisions,
        "conditions": [condition("Scheduled", "SchedulingPolicyFulfilled")],
    });
    write::<ClusterSchedulingPolicySnapshot>(hub, &format!("{name}-0"), &labels, spec, status).await
}

/// What a placement selects: a namespace with objects, and the snapshot of it from before they were changed. A plan has
/// something to select, to render for every cluster and to compare then.
async fn select(hub: &Hub, name: &str) -> Result<()> {
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let map = |number: usize, text: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("settings-{number}"), "namespace": name },
            "data": { "text": text.repeat(64) },
        })
    };
    let made: Namespace = serde_json::from_value(namespace.clone())?;
    let made = Api::all(hub.client.clone()).create(&PostParams::default(), &made).await;
    made.with_context(|| format!("cannot write namespace {name}"))?;
    let maps = Api::<ConfigMap>::namespaced(hub.client.clone(), name);
    for number in 0..SELECTED {
        let made = serde_json::from_value(map(number, "after "))?;
        maps.create(&PostParams::default(), &made).await?;
    }
    let before = std::iter::once(namespace).chain((0..SELECTED).map(|number| map(number, "before")));
    let before: Vec<RawJson> = before.map(RawJson::from).collect();
    let snapshot = json!({
        "metadata": {
            "name": format!("{name}-0-snapshot"),
            "labels": {
                labels::PARENT_PLACEMENT: name, labels::RESOURCE_INDEX: "0", labels::IS_LATEST_SNAPSHOT: labels::TRUE,
            },
            "annotations": {
                annotations::RESOURCE_HASH: resource::hash(&before), annotations::NUMBER_OF_RESOURCE_SNAPSHOTS: "1",
            },
        },
        "spec": { "selectedResources": before },
    });
    let snapshots = Api::<ClusterResourceSnapshot>::all(hub.client.clone());
    let made = serde_json::from_value(snapshot)?;
    let made = snapshots.create(&PostParams::default(), &made).await;
    made.with_context(|| format!("cannot write the snapshot of {name}"))?;
    Ok(())
}

async fn bind(hub: &Hub, placement: &str, member: &str) -> Result<()> {
    let spec = json!({
        "state": "Bound", "targetCluster": member, "resourceSnapshotName": format!("{placement}-0-snapshot"),
        "schedulingPolicySnapshotName": format!("{placement}-0"),
        "clusterDecision": { "clusterName": member, "selected": true, "reason": "picked by scheduling policy" },
    });
    let status = json!({ "conditions": way("").split_off(1) });
    let labels = json!({ "kubernetes-fleet.io/parent-CRP": placement });
    write::<ClusterResourceBinding>(hub, &format!("{placement}-{member}"), &labels, spec, status).await
}

async fn write<K: Kind>(hub: &Hub, name: &str, labels: &Value, spec: Value, status: Value) -> Result<()> {
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(hub.client.clone(), &kind);
    let mut object = DynamicObject::new(name, &kind).data(json!({ "spec": spec }));
    object.metadata.labels = serde_json::from_value(labels.clone())?;
    let made = api.create(&PostParams::default(), &object).await;
    made.with_context(|| format!("cannot write {} {name}", K::KIND))?;
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await?;
    Ok(())
}
