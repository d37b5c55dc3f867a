//! The hub that the pictures of the documentation show: a fleet of a shop, on a day with a drift and a release.

use fleet_testkit::Server;
use serde_json::{Value, json};

use super::world::{self, PLACEMENTS, binding, condition, placement};

/// Members: name, region, environment, and when they were last heard of.
const MEMBERS: [(&str, &str, &str, &str); 8] = [
    ("amsterdam", "europe", "production", "11:59:50"),
    ("dublin", "europe", "canary", "11:59:41"),
    ("frankfurt", "europe", "production", "11:59:55"),
    ("ohio", "america", "production", "11:59:38"),
    ("oregon", "america", "canary", "11:59:47"),
    ("saopaulo", "america", "production", "11:18:00"),
    ("singapore", "asia", "production", "11:59:44"),
    ("tokyo", "asia", "production", "11:59:52"),
];
const DONE: [(&str, &str, &str); 6] = [
    ("Scheduled", "True", "SchedulingPolicyFulfilled"),
    ("RolloutStarted", "True", "RolloutStarted"),
    ("Overridden", "True", "NoOverrideSpecified"),
    ("WorkSynchronized", "True", "WorkSynchronized"),
    ("Applied", "True", "ApplySucceeded"),
    ("Available", "True", "ResourceAvailable"),
];

fn until(step: usize, status: &'static str, reason: &'static str) -> Vec<(&'static str, &'static str, &'static str)> {
    let mut says = DONE[..=step].to_vec();
    (says[step].1, says[step].2) = (status, reason);
    says
}

/// Fills a hub.
pub(crate) fn hang(server: &Server) {
    for (name, region, environment, heard) in MEMBERS {
        let labels = json!({"region": region, "environment": environment});
        let taints = match name {
            "ohio" => json!([{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}]),
            _ => json!([]),
        };
        world::member(server, name, &labels, &taints, &format!("2026-01-02T{heard}Z"));
    }
    let everywhere = MEMBERS.map(|(name, ..)| name);
    let rolling = json!({"type": "RollingUpdate"});
    for (name, without) in [
        ("cert-manager", ""),
        ("ingress", "saopaulo"),
        ("metrics", ""),
        ("policies", "saopaulo"),
    ] {
        placement(server, "", name, &rolling, &DONE);
        for cluster in everywhere.into_iter().filter(|cluster| *cluster != without) {
            binding(server, "", name, cluster, None, &json!({}));
        }
    }
    // Somebody has scaled it by hand.
    placement(server, "", "web", &rolling, &until(4, "False", "ApplyFailed"));
    for cluster in everywhere {
        match cluster {
            "tokyo" => binding(server, "", "web", cluster, Some(FOUND), &drifted()),
            _ => binding(server, "", "web", cluster, None, &json!({})),
        }
    }
    // A release on its way.
    placement(
        server,
        "",
        "shop",
        &json!({"type": "External"}),
        &until(1, "Unknown", "RolloutNotStartedYet"),
    );
    for cluster in everywhere {
        let stops = (!CANARIES.contains(&cluster)).then_some(LATER);
        binding(server, "", "shop", cluster, stops, &json!({}));
    }
    run(server);
    // A tenant's own, which wants what its namespace may not have.
    placement(
        server,
        "team-a",
        "orders",
        &rolling,
        &until(3, "False", "WorkNotSynchronizedYet"),
    );
    for cluster in ["amsterdam", "frankfurt"] {
        let stops = (cluster == "frankfurt").then_some(REFUSED);
        binding(server, "team-a", "orders", cluster, stops, &json!({}));
    }
}

const CANARIES: [&str; 2] = ["dublin", "oregon"];
const FOUND: world::Stop<'static> = (
    "Applied",
    "False",
    "NotAllWorkHaveBeenApplied",
    "Failed to apply 1 manifest: the object was changed on the member",
);
const LATER: world::Stop<'static> = (
    "RolloutStarted",
    "Unknown",
    "RolloutNotStartedYet",
    "The rollout is not started yet: an update run decides when",
);
const REFUSED: world::Stop<'static> = (
    "WorkSynchronized",
    "False",
    "SyncWorkFailed",
    "Failed to synchronize the work: the override of orders selects a field that is not there",
);

/// What tokyo says of web.
fn drifted() -> Value {
    let (at, since) = ("2026-01-02T11:58:00Z", "2026-01-02T10:14:00Z");
    let id = |group: &str, kind: &str, name: &str| json!({"group": group, "version": "v1", "kind": kind, "name": name, "namespace": "web"});
    let drift = |mut object: Value, fields: &[(&str, &str, &str)]| {
        let fields = fields
            .iter()
            .map(|(path, hub, member)| json!({"path": path, "valueInHub": hub, "valueInMember": member}));
        object["observationTime"] = json!(at);
        object["firstDriftedObservedTime"] = json!(since);
        object["targetClusterObservedGeneration"] = json!(7);
        object["observedDrifts"] = fields.collect();
        object
    };
    let mut failed = id("apps", "Deployment", "web");
    failed["condition"] = condition(
        "Applied",
        "False",
        "FoundDrifts",
        "Failed to apply the manifest (error: cannot apply manifest: drifts are found between the manifest and the object from the member cluster)",
    );
    json!({
        "failedPlacements": [failed],
        "driftedPlacements": [
            drift(id("apps", "Deployment", "web"), &[
                ("/spec/replicas", "3", "9"),
                ("/spec/template/spec/containers/0/image", "registry.example.com/web:1.8.2", "registry.example.com/web:1.8.3-hotfix"),
                ("/spec/template/spec/containers/0/resources/limits/memory", "512Mi", ""),
            ]),
            drift(id("", "Secret", "web-session"), &[("/data/key", "old", "new")]),
        ],
    })
}

/// Two canaries are done, an approval is wanted, and production comes after it.
fn run(server: &Server) {
    let done = json!([
        condition("Started", "True", "ClusterUpdatingStarted", ""),
        condition("Succeeded", "True", "ClusterUpdatingSucceeded", ""),
    ]);
    let clusters = |wanted: bool, conditions: &Value| -> Vec<Value> {
        let all = MEMBERS.iter().filter(|(name, ..)| CANARIES.contains(name) == wanted);
        all.map(|(name, ..)| json!({"clusterName": name, "conditions": conditions}))
            .collect()
    };
    let tasks = json!([{"type": "Approval"}, {"type": "TimedWait", "waitTime": "45m"}]);
    let asked = condition("ApprovalRequestCreated", "True", "StageTaskApprovalRequestCreated", "");
    let begun = "2026-01-02T11:20:00Z";
    server.put(
        &format!("{PLACEMENTS}/clusterstagedupdateruns/shop-v42"),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": begun},
            "spec": {"placementName": "shop", "stagedRolloutStrategyName": "canary-first", "state": "Run"},
            "status": {
                "resourceSnapshotIndexUsed": "42", "policySnapshotIndexUsed": "0",
                "stagedUpdateStrategySnapshot": {"stages": [
                    {"name": "canary", "afterStageTasks": tasks, "maxConcurrency": 2},
                    {"name": "production", "maxConcurrency": "50%"},
                ]},
                "conditions": [
                    condition("Initialized", "True", "UpdateRunInitializedSuccessfully", ""),
                    condition("Progressing", "False", "UpdateRunWaiting", "waits"),
                ],
                "stagesStatus": [
                    {
                        "stageName": "canary", "clusters": clusters(true, &done), "startTime": begun,
                        "conditions": [condition("Progressing", "False", "StageUpdatingWaiting", "")],
                        "afterStageTaskStatus": [
                            {"type": "Approval", "approvalRequestName": "shop-v42-after-canary", "conditions": [asked]},
                            {"type": "TimedWait"},
                        ],
                    },
                    {"stageName": "production", "clusters": clusters(false, &json!([]))},
                ],
            },
        }),
    );
    server.put(
        &format!("{PLACEMENTS}/clusterapprovalrequests/shop-v42-after-canary"),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": "2026-01-02T11:30:00Z"},
            "spec": {"parentStageRollout": "shop-v42", "targetStage": "canary"},
        }),
    );
}
