//! A hub in trouble, for what the commands that show things print; and the texts that they are to print, in
//! `testdata/golden/` (`UPDATE_GOLDEN=1` writes them anew).
//!
//! Its objects are those of the guides: Works that cannot be written since the member's namespace is terminating, a drift, a
//! run that waits for an approval, a silent member, an eviction that its budget blocks.

use fleet_testkit::Server;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CLUSTERS, PLACEMENT_API};
use crate::{
    hub::{Hub, Place},
    output::{self, Format, Shown, Style},
};

/// The time of everything that is printed.
pub(crate) fn now() -> Timestamp {
    "2026-01-02T12:00:00Z".parse().expect("a time")
}

const BEFORE: &str = "2026-01-02T11:30:00Z";

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": BEFORE,
    })
}

/// The steps of a placement or a cluster with their reasons where they are done.
const WAY: [(&str, &str); 6] = [
    ("Scheduled", "Scheduled"),
    ("RolloutStarted", "RolloutStarted"),
    ("Overridden", "NoOverrideSpecified"),
    ("WorkSynchronized", "WorkSynchronized"),
    ("Applied", "ApplySucceeded"),
    ("Available", "ResourceAvailable"),
];

/// Conditions up to a step that is not done; all of them if it is none.
fn way(prefix: &str, unmet: Option<&Value>) -> Vec<Value> {
    let mut list = Vec::new();
    for (type_, reason) in WAY {
        if unmet.is_some_and(|unmet| unmet["type"] == type_) {
            list.extend(unmet.cloned().map(|mut unmet| {
                unmet["type"] = json!(format!("{prefix}{type_}"));
                unmet
            }));
            return list;
        }
        list.push(condition(
            &format!("{prefix}{type_}"),
            "True",
            reason,
            "as it should be",
        ));
    }
    list
}

pub(crate) fn member(name: &str, heartbeat: &str) -> Value {
    json!({
        "metadata": { "name": name, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "identity": { "kind": "User", "name": name }, "heartbeatPeriodSeconds": 60 },
        "status": {
            "conditions": [
                condition("ReadyToJoin", "True", "MemberClusterReadyToJoin", ""),
                condition("Joined", "True", "MemberClusterJoined", ""),
            ],
            "properties": {
                "k8s.io/k8s-version": { "value": "v1.36.0" }, "kubernetes-fleet.io/node-count": { "value": "3" },
            },
            "resourceUsage": { "available": { "cpu": "12", "memory": "48Gi" } },
            "agentStatus": [{
                "type": "MemberAgent", "lastReceivedHeartbeat": heartbeat,
                "conditions": [
                    condition("Joined", "True", "InternalMemberClusterJoined", ""),
                    condition("Healthy", "True", "InternalMemberClusterHealthy", ""),
                ],
            }],
        },
    })
}

/// A placement with what became of it on its clusters.
pub(crate) fn placement(name: &str, prefix: &str, unmet: Option<&Value>, entries: &[Value]) -> Value {
    let selected = match name {
        "web" => {
            json!([{ "group": "apps", "version": "v1", "kind": "Deployment", "name": "api", "namespace": "shop" }])
        }
        _ => json!([]),
    };
    json!({
        "metadata": { "name": name, "generation": 1, "creationTimestamp": BEFORE },
        "spec": { "resourceSelectors": [], "policy": { "placementType": "PickAll" } },
        "status": {
            "conditions": way(prefix, unmet), "observedResourceIndex": "1", "placementStatuses": entries,
            "selectedResources": selected,
        },
    })
}

/// A cluster of a placement.
pub(crate) fn entry(cluster: &str, unmet: Option<&Value>) -> Value {
    json!({ "clusterName": cluster, "observedResourceIndex": "1", "conditions": way("", unmet) })
}

pub(crate) fn binding(placement: &str, cluster: &str, unmet: Option<&Value>) -> Value {
    let conditions: Vec<_> = way("", unmet).split_off(1);
    json!({
        "metadata": {
            "name": format!("{placement}-{cluster}"), "generation": 1, "labels": { "kubernetes-fleet.io/parent-CRP": placement },
            "creationTimestamp": BEFORE,
        },
        "spec": {
            "state": "Bound", "targetCluster": cluster, "resourceSnapshotName": format!("{placement}-1-snapshot"),
            "schedulingPolicySnapshotName": format!("{placement}-0"),
            "clusterDecision": { "clusterName": cluster, "selected": true, "reason": "picked by scheduling policy" },
        },
        "status": { "conditions": conditions },
    })
}

fn snapshot(placement: &str, index: u32, replicas: u32) -> Value {
    json!({
        "metadata": {
            "name": format!("{placement}-{index}-snapshot"), "creationTimestamp": format!("2026-01-02T1{index}:00:00Z"),
            "labels": {
                "kubernetes-fleet.io/parent-CRP": placement, "kubernetes-fleet.io/resource-index": index.to_string(),
                "kubernetes-fleet.io/is-latest-snapshot": if index == 1 { "true" } else { "false" },
            },
        },
        "spec": { "selectedResources": [deployment(replicas)] },
    })
}

fn deployment(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "api", "namespace": "shop" },
        "spec": { "replicas": replicas },
    })
}

fn policy(placement: &str, clusters: &[&str]) -> Value {
    let decisions: Vec<_> = clusters
        .iter()
        .map(|it| json!({ "clusterName": it, "selected": true, "reason": "picked by scheduling policy" }))
        .collect();
    json!({
        "metadata": {
            "name": format!("{placement}-0"), "generation": 1, "creationTimestamp": BEFORE,
            "labels": { "kubernetes-fleet.io/parent-CRP": placement, "kubernetes-fleet.io/is-latest-snapshot": "true" },
        },
        "spec": { "policy": { "placementType": "PickAll" }, "policyHash": "" },
        "status": {
            "observedCRPGeneration": 1, "targetClusters": decisions,
            "conditions": [condition("Scheduled", "True", "SchedulingPolicyFulfilled", "")],
        },
    })
}

fn work(cluster: &str, placement: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("{placement}-work"), "namespace": format!("fleet-member-{cluster}"),
            "labels": {
                "kubernetes-fleet.io/parent-CRP": placement,
                "kubernetes-fleet.io/parent-resource-binding": format!("{placement}-{cluster}"),
            },
            "annotations": { "kubernetes-fleet.io/parent-resource-snapshot-name": format!("{placement}-1-snapshot") },
        },
        "spec": { "workload": { "manifests": [deployment(2)] } },
        "status": { "manifestConditions": [{
            "identifier": {
                "ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments",
                "namespace": "shop", "name": "api",
            },
            "conditions": [
                condition("Applied", "True", "Applied", ""), condition("Available", "True", "Available", ""),
            ],
        }] },
    })
}

/// The drift of the guides: somebody scaled a Deployment on a member.
pub(crate) fn drifted() -> Value {
    json!([{
        "group": "apps", "version": "v1", "kind": "Deployment", "name": "api", "namespace": "shop",
        "observationTime": "2026-01-02T11:59:55Z", "firstDriftedObservedTime": BEFORE, "targetClusterObservedGeneration": 2,
        "observedDrifts": [{ "path": "/spec/replicas", "valueInHub": "2", "valueInMember": "5" }],
    }])
}

fn approval_run() -> Value {
    let done = json!([
        condition("Started", "True", "ClusterUpdatingStarted", ""),
        condition("Succeeded", "True", "ClusterUpdatingSucceeded", "")
    ]);
    json!({
        "metadata": { "name": "release", "generation": 1, "creationTimestamp": BEFORE },
        "spec": {
            "placementName": "pay", "stagedRolloutStrategyName": "s", "state": "Run", "resourceSnapshotIndex": "1",
        },
        "status": {
            "resourceSnapshotIndexUsed": "1", "policySnapshotIndexUsed": "0",
            "conditions": [
                condition("Initialized", "True", "UpdateRunInitialized", ""),
                condition("Progressing", "False", "UpdateRunWaiting", ""),
            ],
            "stagesStatus": [
                {
                    "stageName": "canary", "startTime": BEFORE, "clusters": [{ "clusterName": "east", "conditions": done }],
                    "afterStageTaskStatus": [{
                        "type": "Approval", "approvalRequestName": "release-after-canary",
                        "conditions": [condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", "")],
                    }],
                },
                { "stageName": "prod", "clusters": [{ "clusterName": "west" }] },
            ],
        },
    })
}

/// The hub.
pub(crate) fn hub() -> Server {
    let server = Server::new();
    let put = |path: &str, object: Value| _ = server.put(&format!("{PLACEMENT_API}/{path}"), object);
    for (name, heartbeat) in [
        ("east", "2026-01-02T11:59:50Z"),
        ("north", "2026-01-02T11:59:40Z"),
        ("west", "2026-01-02T11:40:00Z"),
    ] {
        server.put(&format!("{CLUSTERS}/{name}"), member(name, heartbeat));
        let versions = json!({
            "kubernetes-fleet.io/member-agent-version": "0.1.0", "kubernetes-fleet.io/hub-agent-version": "0.1.0",
        });
        let internal = json!({ "metadata": { "annotations": versions }, "spec": { "state": "Join" } });
        let cluster_api = CLUSTERS.trim_end_matches("/memberclusters");
        server.put(
            &format!("{cluster_api}/namespaces/fleet-member-{name}/internalmemberclusters/{name}"),
            internal,
        );
    }
    server.put(
        "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases/136224848560.hub.fleet.azure.com",
        json!({ "spec": { "holderIdentity": "hub-agent-0", "renewTime": "2026-01-02T11:59:58.000000Z" } }),
    );
    // The guide on work synchronization.
    let terminating = "Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io \"web-work\" is forbidden: \
                       unable to create new content in namespace fleet-member-north because it is being terminated";
    let unsynced = condition("WorkSynchronized", "False", "SyncWorkFailed", terminating);
    let words = "There are 1 cluster(s) which have not finished creating or updating work(s) yet";
    let behind = condition("WorkSynchronized", "False", "WorkNotSynchronizedYet", words);
    let entries = [entry("east", None), entry("north", Some(&unsynced))];
    put(
        "clusterresourceplacements/web",
        placement("web", "ClusterResourcePlacement", Some(&behind), &entries),
    );
    put(
        "clusterschedulingpolicysnapshots/web-0",
        policy("web", &["east", "north"]),
    );
    put("clusterresourcebindings/web-east", binding("web", "east", None));
    put(
        "clusterresourcebindings/web-north",
        binding("web", "north", Some(&unsynced)),
    );
    put("clusterresourcesnapshots/web-0-snapshot", snapshot("web", 0, 1));
    put("clusterresourcesnapshots/web-1-snapshot", snapshot("web", 1, 2));
    put("namespaces/fleet-member-east/works/web-work", work("east", "web"));
    // Drift.
    let mut on_east = entry("east", None);
    on_east["driftedPlacements"] = drifted();
    put(
        "namespaces/shop/resourceplacements/api",
        placement("api", "ResourcePlacement", None, &[on_east]),
    );
    let mut bound = binding("api", "east", None);
    bound["status"]["driftedPlacements"] = drifted();
    put("namespaces/shop/resourcebindings/api-east", bound);
    // The guides on staged update runs.
    let mut pay = placement("pay", "ClusterResourcePlacement", None, &[entry("east", None)]);
    pay["spec"]["strategy"] = json!({ "type": "External" });
    put("clusterresourceplacements/pay", pay);
    put(
        "clusterschedulingpolicysnapshots/pay-0",
        policy("pay", &["east", "west"]),
    );
    put("clusterresourcebindings/pay-east", binding("pay", "east", None));
    put("clusterstagedupdateruns/release", approval_run());
    put(
        "clusterapprovalrequests/release-after-canary",
        json!({
            "metadata": { "generation": 1, "creationTimestamp": BEFORE },
            "spec": { "parentStageRollout": "release", "targetStage": "canary" },
        }),
    );
    // An eviction that its budget blocks.
    put(
        "clusterresourceplacementdisruptionbudgets/web",
        json!({ "spec": { "minAvailable": 2 } }),
    );
    let blocked = "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 1, totalPlacements: 2";
    put(
        "clusterresourceplacementevictions/move",
        json!({
            "metadata": { "generation": 1, "creationTimestamp": BEFORE },
            "spec": { "placementName": "web", "clusterName": "east" },
            "status": { "conditions": [
                condition("Valid", "True", "ClusterResourcePlacementEvictionValid", "Eviction is valid"),
                condition("Executed", "False", "ClusterResourcePlacementEvictionNotExecuted", blocked),
            ] },
        }),
    );
    server.put(
        "/api/v1/namespaces/default/events/web.1",
        event("web", "ClusterResourcePlacement", "Scheduled", "found 2 clusters"),
    );
    server.put(
        "/api/v1/namespaces/shop/events/web.2",
        event("web", "Deployment", "ScalingReplicaSet", "of somebody else"),
    );
    serve_kinds(&server);
    server
}

fn event(name: &str, kind: &str, reason: &str, message: &str) -> Value {
    let version = match kind {
        "Deployment" => "apps/v1",
        _ => "placement.kubernetes-fleet.io/v1beta1",
    };
    json!({
        "involvedObject": { "apiVersion": version, "kind": kind, "name": name }, "type": "Normal", "reason": reason,
        "message": message, "lastTimestamp": BEFORE, "count": 3,
    })
}

/// What kubectl asks first: which kinds there are.
fn serve_kinds(server: &Server) {
    server.answer(|_, path, _| match path {
        "/api" => Some((200, json!({ "items": [] }))),
        "/apis" => {
            let deployments = json!({
                "resource": "deployments", "responseKind": { "group": "apps", "version": "v1", "kind": "Deployment" },
                "scope": "Namespaced", "singularResource": "deployment", "shortNames": ["deploy"], "verbs": ["get"],
            });
            let versions = json!([{ "version": "v1", "resources": [deployments] }]);
            Some((
                200,
                json!({ "items": [{ "metadata": { "name": "apps" }, "versions": versions }] }),
            ))
        }
        _ => None,
    });
}

/// The hub as a command sees it, in the namespace `shop`.
pub(crate) fn place(server: &Server) -> Place {
    Place {
        hub: Hub::new(server.client()),
        namespace: "shop".to_owned(),
    }
}

/// A terminal of 40 columns.
pub(crate) fn narrow() -> Style {
    Style {
        unicode: true,
        width: Some(40),
        ..Style::default()
    }
}

/// What is piped.
pub(crate) fn piped(shown: &impl Shown) -> String {
    output::rendered(shown, Format::Table, &Style::default()).expect("it can be printed")
}

/// Compares with the text in `testdata/golden/`.
#[track_caller]
pub(crate) fn assert_golden(name: &str, text: &str) {
    let path = format!("{}/testdata/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("it can be written");
        return;
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        wanted == text,
        "{name} is not as expected; wanted:\n{wanted}\ngot:\n{text}"
    );
}

/// Lines that name a command begin with `next:` and are whole; other lines fit.
#[track_caller]
pub(crate) fn assert_fits(text: &str, width: usize) {
    for line in text.lines() {
        let is_command = line.contains("next: kubectl ");
        let is_word = line.split_whitespace().count() <= 2;
        assert!(line.chars().count() <= width || is_command || is_word, "{line:?}");
    }
}
