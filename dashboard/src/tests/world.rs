//! A hub in memory with something of everything: what is well, what waits, what fails, and what is called as nobody should be.

use fleet_testkit::Server;
use serde_json::{Value, json};

/// The time of all pages.
pub(crate) const NOW: &str = "2026-01-02T12:00:00Z";
const BEFORE: &str = "2026-01-02T11:30:00Z";
const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";
pub(crate) const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
/// What somebody writes who wants a script to run.
pub(crate) const MARKUP: &str = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&";

const WAY: [(&str, &str); 5] = [
    ("RolloutStarted", "RolloutStarted"),
    ("Overridden", "NoOverrideSpecified"),
    ("WorkSynchronized", "AllWorkSynced"),
    ("Applied", "AllWorkHaveBeenApplied"),
    ("Available", "AllWorkAreAvailable"),
];

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": BEFORE,
    })
}

/// A member that is well, unless its last heartbeat is long ago.
pub(crate) fn member(server: &Server, name: &str, labels: &Value, taints: &Value, heartbeat: &str) {
    server.put(
        &format!("{CLUSTERS}/memberclusters/{name}"),
        json!({
            "metadata": {"labels": labels, "generation": 1, "creationTimestamp": BEFORE},
            "spec": {"identity": {"kind": "User", "name": name}, "heartbeatPeriodSeconds": 60, "taints": taints},
            "status": {
                "conditions": [
                    condition("ReadyToJoin", "True", "MemberClusterReadyToJoin", ""),
                    condition("Joined", "True", "MemberClusterJoined", ""),
                ],
                "properties": {
                    "kubernetes-fleet.io/node-count": {"value": "3", "observationTime": BEFORE},
                    "example.com/note": {"value": MARKUP, "observationTime": BEFORE},
                },
                "resourceUsage": {
                    "capacity": {"cpu": "16", "memory": "64Gi"}, "allocatable": {"cpu": "16", "memory": "64Gi"},
                    "available": {"cpu": "11500m", "memory": "12Gi"}, "observationTime": BEFORE,
                },
                "agentStatus": [{
                    "type": "MemberAgent", "lastReceivedHeartbeat": heartbeat,
                    "conditions": [
                        condition("Joined", "True", "InternalMemberClusterJoined", ""),
                        condition("Healthy", "True", "InternalMemberClusterHealthy", ""),
                    ],
                }],
            },
        }),
    );
    let path = format!("{CLUSTERS}/namespaces/fleet-member-{name}/internalmemberclusters/{name}");
    server.put(&path, json!({ "spec": { "state": "Join" } }));
}

/// The collection of a kind, in a namespace unless that is empty.
fn of(namespace: &str, cluster: &str, namespaced: &str) -> String {
    match namespace {
        "" => format!("{PLACEMENTS}/{cluster}"),
        namespace => format!("{PLACEMENTS}/namespaces/{namespace}/{namespaced}"),
    }
}

/// A placement that is as its bindings are.
pub(crate) fn placement(server: &Server, namespace: &str, name: &str, strategy: &Value, says: &[(&str, &str, &str)]) {
    let prefix = if namespace.is_empty() {
        "ClusterResourcePlacement"
    } else {
        "ResourcePlacement"
    };
    let said = says
        .iter()
        .map(|(step, status, reason)| condition(&format!("{prefix}{step}"), status, reason, ""));
    let conditions: Vec<Value> = said.collect();
    let labels = json!({"kubernetes-fleet.io/parent-CRP": name, "kubernetes-fleet.io/is-latest-snapshot": "true",
                        "kubernetes-fleet.io/resource-index": "0"});
    server.put(
        &format!(
            "{}/{name}",
            of(namespace, "clusterresourceplacements", "resourceplacements")
        ),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": BEFORE},
            "spec": {"resourceSelectors": [], "policy": {"placementType": "PickAll"}, "strategy": strategy},
            "status": {
                "conditions": conditions, "observedResourceIndex": "0", "placementStatuses": [],
                "selectedResources": [
                    {"group": "apps", "version": "v1", "kind": "Deployment", "name": name, "namespace": name},
                    {"group": "", "version": "v1", "kind": "ConfigMap", "name": MARKUP, "namespace": name},
                ],
            },
        }),
    );
    server.put(
        &format!("{}/{name}-0", of(namespace, "clusterschedulingpolicysnapshots", "schedulingpolicysnapshots")),
        json!({
            "metadata": {"generation": 1, "labels": labels},
            "spec": {"policy": {"placementType": "PickAll"}, "policyHash": ""},
            "status": {"observedCRPGeneration": 1, "conditions": [condition("Scheduled", "True", "SchedulingPolicyFulfilled", "")]},
        }),
    );
    server.put(
        &format!(
            "{}/{name}-0-snapshot",
            of(namespace, "clusterresourcesnapshots", "resourcesnapshots")
        ),
        json!({"metadata": {"labels": labels, "creationTimestamp": BEFORE}, "spec": {"selectedResources": []}}),
    );
}

/// Where a binding stops: the step, its status, its reason, and what it says.
pub(crate) type Stop<'a> = (&'a str, &'a str, &'a str, &'a str);

/// A binding that has come all the way, or stops at a step; and what its placement says of the cluster.
pub(crate) fn binding(
    server: &Server,
    namespace: &str,
    placement: &str,
    cluster: &str,
    stops: Option<Stop<'_>>,
    more: &Value,
) {
    let status = bound(server, namespace, placement, cluster, stops, more);
    let own = of(namespace, "clusterresourceplacements", "resourceplacements");
    server.edit(&format!("{own}/{placement}"), |placement| {
        let mut said = status;
        said["clusterName"] = json!(cluster);
        let list = said["conditions"].as_array_mut().expect("it has conditions");
        list.insert(0, condition("Scheduled", "True", "Scheduled", ""));
        let all = placement["status"]["placementStatuses"].as_array_mut();
        all.expect("it has a status").push(said);
    });
}

/// A binding alone; says its status.
fn bound(
    server: &Server,
    namespace: &str,
    placement: &str,
    cluster: &str,
    stops: Option<Stop<'_>>,
    more: &Value,
) -> Value {
    let mut way: Vec<Value> = Vec::new();
    for (step, reason) in WAY {
        if let Some((_, status, reason, says)) = stops.filter(|(at, ..)| *at == step) {
            way.push(condition(step, status, reason, says));
            break;
        }
        way.push(condition(step, "True", reason, ""));
    }
    let mut status = json!({"conditions": way});
    if let (Some(status), Some(more)) = (status.as_object_mut(), more.as_object()) {
        status.extend(more.clone());
    }
    server.put(
        &format!("{}/{placement}-{cluster}", of(namespace, "clusterresourcebindings", "resourcebindings")),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": BEFORE, "labels": {"kubernetes-fleet.io/parent-CRP": placement}},
            "spec": {
                "state": "Bound", "resourceSnapshotName": format!("{placement}-0-snapshot"),
                "schedulingPolicySnapshotName": format!("{placement}-0"), "targetCluster": cluster,
                "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked"},
            },
            "status": status,
        }),
    );
    status
}

/// An update run that has done its first stage and asks for approval.
pub(crate) fn run(server: &Server) {
    let done = |type_| {
        json!([
            condition("Started", "True", "ClusterUpdatingStarted", ""),
            condition(type_, "True", "ClusterUpdatingSucceeded", "")
        ])
    };
    let tasks = json!([{"type": "Approval"}, {"type": "TimedWait", "waitTime": "1h"}]);
    server.put(
        &format!("{PLACEMENTS}/clusterstagedupdateruns/shop-1"),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": BEFORE},
            "spec": {"placementName": "shop", "stagedRolloutStrategyName": "canary-first", "state": "Run"},
            "status": {
                "resourceSnapshotIndexUsed": "0", "policySnapshotIndexUsed": "0",
                "stagedUpdateStrategySnapshot": {"stages": [
                    {"name": "canary", "afterStageTasks": tasks}, {"name": "production"},
                ]},
                "conditions": [
                    condition("Initialized", "True", "UpdateRunInitializedSuccessfully", ""),
                    condition("Progressing", "False", "UpdateRunWaiting", "waits"),
                ],
                "stagesStatus": [
                    {
                        "stageName": "canary", "clusters": [{"clusterName": "east", "conditions": done("Succeeded")}],
                        "conditions": [condition("Progressing", "False", "StageUpdatingWaiting", "")],
                        "startTime": BEFORE,
                        "afterStageTaskStatus": [
                            {
                                "type": "Approval", "approvalRequestName": "shop-1-after-canary",
                                "conditions": [condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", "")],
                            },
                            {"type": "TimedWait"},
                        ],
                    },
                    {"stageName": "production", "clusters": [{"clusterName": "north"}, {"clusterName": "west"}]},
                ],
            },
        }),
    );
    server.put(
        &format!("{PLACEMENTS}/clusterapprovalrequests/shop-1-after-canary"),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": BEFORE},
            "spec": {"parentStageRollout": "shop-1", "targetStage": "canary"},
        }),
    );
}

/// A hub with everything in it.
pub(crate) fn everything(server: &Server) {
    members(server);
    let all_done = [
        ("Scheduled", "True", "SchedulingPolicyFulfilled"),
        ("RolloutStarted", "True", "RolloutStarted"),
        ("Overridden", "True", "NoOverrideSpecified"),
        ("WorkSynchronized", "True", "WorkSynchronized"),
        ("Applied", "True", "ApplySucceeded"),
        ("Available", "True", "ResourceAvailable"),
    ];
    let until = |step: usize, reason| {
        let mut says = all_done[..=step].to_vec();
        says[step].1 = "False";
        says[step].2 = reason;
        says
    };
    let (rolling, external) = (json!({"type": "RollingUpdate"}), json!({"type": "External"}));
    placement(server, "", "metrics", &rolling, &all_done);
    for cluster in ["east", "west", "north", "south"] {
        binding(server, "", "metrics", cluster, None, &json!({}));
    }
    // Somebody has changed it on a member.
    placement(server, "", "web", &rolling, &until(4, "ApplyFailed"));
    binding(
        server,
        "",
        "web",
        "east",
        Some(("Applied", "False", "NotAllWorkHaveBeenApplied", MARKUP)),
        &drifted(),
    );
    binding(server, "", "web", "west", None, &json!({}));
    // An update run brings it, stage by stage.
    placement(server, "", "shop", &external, &until(1, "RolloutNotStartedYet"));
    binding(server, "", "shop", "east", None, &json!({}));
    binding(
        server,
        "",
        "shop",
        "west",
        Some(("RolloutStarted", "Unknown", "RolloutNotStartedYet", MARKUP)),
        &json!({}),
    );
    run(server);
    // A tenant's own.
    placement(server, "team-a", "api", &rolling, &until(3, "WorkNotSynchronizedYet"));
    let refused = Some(("WorkSynchronized", "False", "SyncWorkFailed", MARKUP));
    binding(server, "team-a", "api", "west", refused, &json!({}));
    events(server);
}

fn members(server: &Server) {
    let none = json!([]);
    member(
        server,
        "east",
        &json!({"environment": "canary", "region": "eu"}),
        &none,
        "2026-01-02T11:59:50Z",
    );
    member(
        server,
        "west",
        &json!({"environment": "production", "region": "us"}),
        &none,
        "2026-01-02T11:59:40Z",
    );
    member(
        server,
        "north",
        &json!({"environment": "production", "region": "eu"}),
        &none,
        "2026-01-02T11:10:00Z",
    );
    let cordon = json!([{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}]);
    member(
        server,
        "south",
        &json!({"note": "b.o.l.d", "region": "eu"}),
        &cordon,
        "2026-01-02T11:59:55Z",
    );
}

/// What a member says of objects that somebody has changed there.
fn drifted() -> Value {
    let id = |kind: &str| json!({"group": if kind == "Secret" { "" } else { "apps" }, "version": "v1", "kind": kind, "name": "web", "namespace": "web"});
    let with = |kind: &str, more: Value| {
        let mut object = id(kind);
        if let (Some(object), Some(more)) = (object.as_object_mut(), more.as_object()) {
            object.extend(more.clone());
        }
        object
    };
    let drift = |kind: &str, path: &str, hub: &str, member: &str| {
        with(
            kind,
            json!({
                "observationTime": BEFORE, "firstDriftedObservedTime": BEFORE, "targetClusterObservedGeneration": 3,
                "observedDrifts": [{"path": path, "valueInHub": hub, "valueInMember": member}],
            }),
        )
    };
    let failed = with(
        "Deployment",
        json!({"condition": condition("Applied", "False", "FoundDrifts",
        "Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster)")}),
    );
    json!({
        "failedPlacements": [failed],
        "driftedPlacements": [
            drift("Deployment", "/spec/replicas", "3", "9"),
            drift("Deployment", "/metadata/annotations/note", "", MARKUP),
            drift("Secret", "/data/password", "aHVudGVyMg==", "b3RoZXI="),
        ],
    })
}

fn events(server: &Server) {
    for (reason, kind, name, minute) in [
        ("PlacementRolloutCompleted", "ClusterResourcePlacement", "metrics", 40),
        ("Drifted", "ClusterResourcePlacement", "web", 50),
    ] {
        server.put(
            &format!("/api/v1/namespaces/default/events/{name}.{minute}"),
            json!({
                "involvedObject": {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "name": name},
                "reason": reason, "message": MARKUP, "type": if reason == "Drifted" { "Warning" } else { "Normal" },
                "lastTimestamp": format!("2026-01-02T11:{minute}:00Z"), "count": 2,
            }),
        );
    }
}

/// A fleet of this size with placements on so many of its members, on which everything but a little is well.
pub(crate) fn crowd(server: &Server, members: usize, placements: usize, on: usize) {
    for at in 0..members {
        let labels = json!({"region": (["eu", "us", "asia"][at % 3])});
        member(
            server,
            &format!("member-{at:04}"),
            &labels,
            &json!([]),
            "2026-01-02T11:59:50Z",
        );
    }
    for number in 0..placements {
        let name = format!("placement-{number:03}");
        placement(
            server,
            "",
            &name,
            &json!({"type": "RollingUpdate"}),
            &[("Scheduled", "True", "SchedulingPolicyFulfilled")],
        );
        for at in 0..on.min(members) {
            let stops =
                (at + number)
                    .is_multiple_of(97)
                    .then_some(("Applied", "False", "NotAllWorkHaveBeenApplied", MARKUP));
            bound(server, "", &name, &format!("member-{at:04}"), stops, &json!({}));
        }
    }
}
