//! A hub in a few words of JSON. Statuses of placements are made by the roll-up, as on a real hub.

use std::collections::BTreeMap;

use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_api::names::Scope;
use fleet_api::placement::{
    ApprovalRequestSpec, ApprovalRequestStatus, BindingSpec, BindingStatus, ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction, PlacementSpec, PlacementStatus, PolicySnapshotSpec, PolicySnapshotStatus,
    RolloutStrategyType, UpdateRunSpec, UpdateRunStatus, Work,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::explain::{Fleet, Live, View};
use crate::rollup;

/// The time of all situations.
pub(super) const NOW: &str = "2026-01-02T12:00:00Z";
/// Half an hour before.
pub(super) const BEFORE: &str = "2026-01-02T11:30:00Z";

#[derive(Deserialize)]
struct Object<Spec, Status> {
    metadata: ObjectMeta,
    spec: Spec,
    status: Option<Status>,
}

impl<Spec, Status> Object<Spec, Status> {
    fn view(&self) -> View<'_, Spec, Status> {
        View::of(&self.metadata, &self.spec, self.status.as_ref())
    }
}

#[derive(Deserialize)]
struct OnMember {
    cluster: String,
    kind: String,
    metadata: ObjectMeta,
}

/// What a situation holds.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct World {
    namespace: String,
    members: Vec<MemberCluster>,
    #[serde(rename = "membersUnread")]
    members_unread: bool,
    internals: Vec<InternalMemberCluster>,
    terminating: Vec<String>,
    placements: Vec<Object<PlacementSpec, PlacementStatus>>,
    policies: Vec<Object<PolicySnapshotSpec, PolicySnapshotStatus>>,
    snapshots: Vec<ObjectMeta>,
    bindings: Vec<Object<BindingSpec, BindingStatus>>,
    works: Vec<Work>,
    runs: Vec<Object<UpdateRunSpec, UpdateRunStatus>>,
    approvals: Vec<Object<ApprovalRequestSpec, ApprovalRequestStatus>>,
    budgets: Vec<ClusterResourcePlacementDisruptionBudget>,
    evictions: Vec<ClusterResourcePlacementEviction>,
    events: Vec<Event>,
    readyz: BTreeMap<String, String>,
    live: Vec<OnMember>,
    gone: Vec<(String, String)>,
    /// No hub agent has looked at the placement.
    unseen: bool,
    /// What the placement says besides or instead, its types without their prefix.
    says: Vec<Condition>,
}

impl World {
    pub(super) fn new(namespace: &str, json: &Value) -> Self {
        let mut world: Self = serde_json::from_value(json.clone()).unwrap();
        namespace.clone_into(&mut world.namespace);
        if !world.unseen {
            world.roll_up();
        }
        world
    }

    fn scope(&self) -> Scope {
        if self.namespace.is_empty() {
            Scope::Cluster
        } else {
            Scope::Namespaced
        }
    }

    fn roll_up(&mut self) {
        let (scope, now) = (self.scope(), NOW.parse().unwrap());
        let Some(placement) = self.placements.first() else {
            return;
        };
        let generation = placement.metadata.generation.unwrap_or_default();
        let policy = self.policies.first();
        let bindings = self.bindings.iter().map(|binding| {
            let view = rollup::BindingView {
                generation: binding.metadata.generation.unwrap_or_default(),
                spec: &binding.spec,
                status: binding.status.as_ref(),
                index: "0",
            };
            (&binding.metadata, view)
        });
        let none = PlacementStatus::default();
        let mut status = rollup::roll_up(&rollup::World {
            context: rollup::Common {
                scope,
                generation,
                external: placement.spec.rollout_type() == RolloutStrategyType::External,
                reports_diff: crate::explain::cluster::reports_diff(&placement.view()),
                latest: Some(("web-0-snapshot", "0")),
                entry_bytes_max: rollup::ENTRIES_BYTES_MAX,
                now,
            },
            policy: policy.map(|policy| rollup::PolicyView {
                generation: policy.metadata.generation.unwrap_or_default(),
                policy: policy.spec.policy.as_ref(),
                number_of_clusters: None,
                status: policy.status.as_ref(),
            }),
            bindings: rollup::bindings_by_cluster("web-0", bindings),
            selected: &[],
            group_content: &|_| Vec::new(),
            previous: &none,
        });
        for condition in &self.says {
            let prefix = match scope {
                Scope::Cluster => "ClusterResourcePlacement",
                Scope::Namespaced => "ResourcePlacement",
            };
            let synced = condition.type_ == "StatusSynced";
            let prefix = if synced { "ClusterResourcePlacement" } else { prefix };
            let condition = Condition {
                type_: format!("{prefix}{}", condition.type_),
                ..condition.clone()
            };
            fleet_api::conditions::replace(&mut status.conditions, condition);
        }
        self.placements[0].status = Some(status);
    }

    pub(super) fn fleet(&self) -> Fleet<'_> {
        let now: Timestamp = NOW.parse().unwrap();
        let mut fleet = Fleet::new(&self.namespace, now);
        fleet.members = self.members.iter().collect();
        fleet.members_unread = self.members_unread;
        fleet.internals = self.internals.iter().collect();
        fleet.terminating = self.terminating.iter().map(String::as_str).collect();
        fleet.placements = self.placements.iter().map(Object::view).collect();
        fleet.policies = self.policies.iter().map(Object::view).collect();
        fleet.snapshots = self.snapshots.iter().collect();
        fleet.bindings = self.bindings.iter().map(Object::view).collect();
        fleet.works = self.works.iter().collect();
        fleet.runs = self.runs.iter().map(Object::view).collect();
        fleet.approvals = self.approvals.iter().map(Object::view).collect();
        fleet.budgets = self.budgets.iter().collect();
        fleet.evictions = self.evictions.iter().collect();
        fleet.events = self.events.iter().collect();
        let readyz = self.readyz.iter();
        fleet.readyz = readyz.map(|(name, says)| (name.as_str(), says.as_str())).collect();
        let live = self.live.iter().map(|live| Live {
            cluster: &live.cluster,
            kind: &live.kind,
            meta: &live.metadata,
        });
        fleet.live = live.collect();
        let gone = self.gone.iter();
        fleet.gone = gone
            .map(|(namespace, name)| (namespace.as_str(), name.as_str()))
            .collect();
        fleet
    }
}

pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1,
        "lastTransitionTime": BEFORE,
    })
}

/// A member that is well.
pub(super) fn member(name: &str, labels: &Value) -> Value {
    json!({
        "metadata": {"name": name, "generation": 1, "labels": labels},
        "spec": {"identity": {"kind": "User", "name": name}, "heartbeatPeriodSeconds": 60},
        "status": {
            "conditions": [
                condition("ReadyToJoin", "True", "MemberClusterReadyToJoin", ""),
                condition("Joined", "True", "MemberClusterJoined", ""),
            ],
            "agentStatus": [{
                "type": "MemberAgent", "lastReceivedHeartbeat": "2026-01-02T11:59:50Z",
                "conditions": [
                    condition("Joined", "True", "InternalMemberClusterJoined", ""),
                    condition("Healthy", "True", "InternalMemberClusterHealthy", ""),
                ],
            }],
        },
    })
}

/// The words of a binding that has come all the way.
const WAY: [(&str, &str, &str); 5] = [
    ("RolloutStarted", "RolloutStarted", "started"),
    ("Overridden", "NoOverrideSpecified", ""),
    ("WorkSynchronized", "AllWorkSynced", ""),
    ("Applied", "AllWorkHaveBeenApplied", ""),
    ("Available", "AllWorkAreAvailable", ""),
];

pub(super) fn binding(cluster: &str) -> Value {
    let way: Vec<_> = WAY
        .iter()
        .map(|(type_, reason, text)| condition(type_, "True", reason, text))
        .collect();
    json!({
        "metadata": {
            "name": format!("web-{cluster}-1"), "generation": 1, "uid": cluster,
            "labels": {"kubernetes-fleet.io/parent-CRP": "web"}, "creationTimestamp": BEFORE,
        },
        "spec": {
            "state": "Bound", "resourceSnapshotName": "web-0-snapshot", "schedulingPolicySnapshotName": "web-0",
            "targetCluster": cluster, "clusterDecision": {"clusterName": cluster, "selected": true, "reason": "picked"},
        },
        "status": {"conditions": way},
    })
}

/// A hub with placement `web` (PickAll) on these members, all done.
pub(super) fn web(clusters: &[&str]) -> Value {
    let decisions: Vec<_> = clusters
        .iter()
        .map(|cluster| json!({"clusterName": cluster, "selected": true, "reason": "picked"}))
        .collect();
    let policy = json!({"placementType": "PickAll"});
    json!({
        "members": clusters.iter().map(|cluster| member(cluster, &json!({}))).collect::<Vec<_>>(),
        "placements": [{
            "metadata": {"name": "web", "generation": 1, "uid": "web"},
            "spec": {"resourceSelectors": [], "policy": policy},
        }],
        "policies": [{
            "metadata": {
                "name": "web-0", "generation": 1,
                "labels": {"kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/is-latest-snapshot": "true"},
            },
            "spec": {"policy": policy, "policyHash": ""},
            "status": {
                "observedCRPGeneration": 1, "targetClusters": decisions,
                "conditions": [condition("Scheduled", "True", "SchedulingPolicyFulfilled", "")],
            },
        }],
        "bindings": clusters.iter().map(|cluster| binding(cluster)).collect::<Vec<_>>(),
    })
}

/// `world` with a value at a JSON pointer, whose last part may be new.
pub(super) fn with(mut world: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match world.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.insert(key.replace("~1", "/"), value);
        }
        Some(Value::Array(list)) if key == "-" => list.push(value),
        Some(Value::Array(list)) => list[key.parse::<usize>().unwrap()] = value,
        _ => panic!("nothing at {parent}"),
    }
    world
}

/// `world` with this policy, and these clusters not picked, each for a reason.
pub(super) fn policy(world: Value, policy: &Value, unpicked: &[(&str, &str)], fulfilled: bool) -> Value {
    let mut world = with(world, "/placements/0/spec/policy", policy.clone());
    world = with(world, "/policies/0/spec/policy", policy.clone());
    for (cluster, reason) in unpicked {
        let decision = json!({"clusterName": cluster, "selected": false, "reason": reason});
        world = with(world, "/policies/0/status/targetClusters/-", decision);
    }
    if !fulfilled {
        let said = condition("Scheduled", "False", "SchedulingPolicyUnfulfilled", "");
        world = with(world, "/policies/0/status/conditions/0", said);
    }
    world
}

/// The first binding stops at this step, with these words.
pub(super) fn stops(world: Value, type_: &str, status: &str, reason: &str, message: &str) -> Value {
    let reached = WAY.iter().position(|(step, ..)| *step == type_).unwrap_or(3);
    let mut way = world
        .pointer("/bindings/0/status/conditions")
        .unwrap()
        .as_array()
        .unwrap()
        .clone();
    way.truncate(reached);
    way.push(condition(type_, status, reason, message));
    with(world, "/bindings/0/status/conditions", Value::Array(way))
}

/// The first binding's member could not apply a Deployment, with these words of its condition.
pub(super) fn fails(world: Value, reason: &str, message: &str) -> Value {
    let world = stops(
        world,
        "Applied",
        "False",
        "NotAllWorkHaveBeenApplied",
        "Work object web-work has failed to apply",
    );
    let failed = json!([{
        "group": "apps", "version": "v1", "kind": "Deployment", "name": "api", "namespace": "shop",
        "condition": condition("Applied", "False", reason, message),
    }]);
    with(world, "/bindings/0/status/failedPlacements", failed)
}
