//! A hub in memory: the objects that a run deals with, and a shell that carries out what the machine says, wholly or until
//! it crashes.

mod asked;
mod shell;

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::annotations::UPDATE_RUN;
use fleet_api::conditions::approval_request::{ApprovalAccepted, Approved};
use fleet_api::conditions::binding::{Available, RolloutStarted};
use fleet_api::conditions::policy_snapshot::Scheduled;
use fleet_api::conditions::{self, to_condition};
use fleet_api::events::Event as _;
use fleet_api::placement::{
    ApprovalRequestSpec, ApprovalRequestStatus, BindingSpec, BindingState, BindingStatus, NamespacedName,
    PlacementSpec, PolicySnapshotSpec, PolicySnapshotStatus, UpdateRunSpec, UpdateRunState, UpdateRunStatus,
    UpdateStrategySpec,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde_json::json;

use crate::overrides::choose::Lists;
use crate::updaterun::*;

pub(super) const PLACEMENT: &str = "web";

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

#[derive(Debug, Clone)]
pub(super) struct Object<S, T> {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: S,
    pub(super) status: T,
}

impl<S, T> Object<S, T> {
    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap()
    }

    pub(super) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap()
    }

    pub(super) fn touch(&mut self) {
        *self.metadata.generation.as_mut().unwrap() += 1;
    }
}

pub(super) type BindingObject = Object<BindingSpec, BindingStatus>;
pub(super) type RunObject = Object<UpdateRunSpec, UpdateRunStatus>;

#[derive(Debug, Clone)]
pub(super) struct Hub {
    /// Seconds since the test began, by the clock on the wall.
    pub(super) now: i64,
    /// By how much that was put forward.
    pub(super) stepped: i64,
    pub(super) run: RunObject,
    pub(super) memory: Memory,
    pub(super) placement: Option<Object<PlacementSpec, ()>>,
    pub(super) policies: Vec<Object<PolicySnapshotSpec, PolicySnapshotStatus>>,
    pub(super) bindings: Vec<BindingObject>,
    pub(super) members: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) strategy: Option<UpdateStrategySpec>,
    /// Indexes of snapshot groups, with the UID of their placement; none for a group without master.
    pub(super) snapshots: BTreeMap<String, Option<String>>,
    /// What is said of the group while it has not all its parts.
    pub(super) incomplete: Option<String>,
    pub(super) overrides: BTreeMap<String, Result<Lists, String>>,
    pub(super) approvals: Vec<Object<ApprovalRequestSpec, ApprovalRequestStatus>>,
    pub(super) refused: Refused,
    /// Annotations of the strategy.
    pub(super) settings: BTreeMap<String, String>,
    /// The run that this one is to try again.
    pub(super) retried: Option<RunObject>,
    /// The placement's other runs.
    pub(super) others: Vec<RunObject>,
    /// Clusters that are not healthy.
    pub(super) sick: BTreeSet<String>,
    /// Windows of clusters.
    pub(super) windows: BTreeMap<String, String>,
    /// The objects of gates, by the gate's place.
    pub(super) gates: Vec<Option<GateObject>>,
    /// Override snapshots that are gone.
    pub(super) missing_overrides: BTreeSet<String>,
    /// Runs that have taken a snapshot back, by its index.
    pub(super) failed_in: BTreeMap<String, String>,
    /// Writes that will still succeed before the agent crashes.
    pub(super) writes_left: usize,
    /// What was written, one line each.
    pub(super) log: Vec<String>,
    /// Events, one line each.
    pub(super) events: Vec<String>,
    pub(super) look_again: Option<Timestamp>,
    pub(super) serial: u32,
}

pub(super) fn metadata(name: &str, namespace: &str, uid: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        uid: Some(uid.into()),
        generation: Some(1),
        ..ObjectMeta::default()
    }
}

/// A strategy of stages `name`, each with what else is said of it.
#[expect(clippy::needless_pass_by_value, reason = "called with literals")]
pub(super) fn strategy(stages: serde_json::Value) -> UpdateStrategySpec {
    serde_json::from_value(json!({ "stages": stages })).unwrap()
}

impl Hub {
    /// A run that may start at once, on a PickAll placement over these clusters, all in one stage `all`.
    pub(super) fn new(clusters: &[&str]) -> Self {
        let mut hub = Self {
            now: 0,
            stepped: 0,
            run: Object {
                metadata: metadata("run", "", "run-uid"),
                spec: UpdateRunSpec {
                    placement_name: PLACEMENT.into(),
                    resource_snapshot_index: "1".into(),
                    staged_rollout_strategy_name: "plan".into(),
                    state: UpdateRunState::Run,
                },
                status: UpdateRunStatus::default(),
            },
            memory: Memory::default(),
            placement: None,
            policies: Vec::new(),
            bindings: Vec::new(),
            members: BTreeMap::new(),
            strategy: Some(strategy(json!([{ "name": "all", "labelSelector": {} }]))),
            snapshots: [("1".to_owned(), Some("placement-uid".to_owned()))].into(),
            incomplete: None,
            overrides: BTreeMap::new(),
            approvals: Vec::new(),
            refused: Refused::default(),
            settings: BTreeMap::new(),
            retried: None,
            others: Vec::new(),
            sick: BTreeSet::new(),
            windows: BTreeMap::new(),
            gates: Vec::new(),
            missing_overrides: BTreeSet::new(),
            failed_in: BTreeMap::new(),
            writes_left: usize::MAX,
            log: Vec::new(),
            events: Vec::new(),
            look_again: None,
            serial: 0,
        };
        hub.place("placement-uid");
        hub.set_policy(json!(null), None);
        for cluster in clusters {
            hub.member(cluster, &[]);
            hub.pick(cluster);
        }
        hub
    }

    pub(super) fn place(&mut self, uid: &str) {
        let spec = json!({ "resourceSelectors": [], "strategy": { "type": "External" } });
        self.placement = Some(Object {
            metadata: metadata(PLACEMENT, "", uid),
            spec: serde_json::from_value(spec).unwrap(),
            status: (),
        });
    }

    #[expect(clippy::needless_pass_by_value, reason = "called with literals")]
    pub(super) fn set_policy(&mut self, policy: serde_json::Value, number: Option<&str>) {
        let mut metadata = metadata(&format!("{PLACEMENT}-0"), "", "policy-uid");
        metadata.labels = Some(
            [
                ("kubernetes-fleet.io/is-latest-snapshot", "true"),
                ("kubernetes-fleet.io/policy-index", "0"),
            ]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        );
        metadata.annotations =
            number.map(|number| [("kubernetes-fleet.io/number-of-clusters".to_owned(), number.to_owned())].into());
        let scheduled = to_condition(&Scheduled::Fulfilled { clusters: 1 }, 1, at(0));
        self.policies = vec![Object {
            metadata,
            spec: serde_json::from_value(json!({ "policy": policy, "policyHash": "" })).unwrap(),
            status: PolicySnapshotStatus {
                conditions: vec![scheduled],
                ..PolicySnapshotStatus::default()
            },
        }];
    }

    pub(super) fn member(&mut self, cluster: &str, labels: &[(&str, &str)]) {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.members.insert(cluster.into(), labels.collect());
    }

    /// The scheduler picks a cluster.
    pub(super) fn pick(&mut self, cluster: &str) -> &mut BindingObject {
        self.serial += 1;
        let name = format!("{PLACEMENT}-{cluster}-{:03}", self.serial);
        let spec = json!({
            "state": "Scheduled", "resourceSnapshotName": "", "schedulingPolicySnapshotName": format!("{PLACEMENT}-0"),
            "targetCluster": cluster, "clusterDecision": { "clusterName": cluster, "selected": true, "reason": "" },
        });
        self.bindings.push(Object {
            metadata: metadata(&name, "", &format!("uid-{}", self.serial)),
            spec: serde_json::from_value(spec).unwrap(),
            status: BindingStatus::default(),
        });
        self.bindings.last_mut().unwrap()
    }

    /// A setting on the run.
    pub(super) fn set(&mut self, name: &str, value: &str) -> &mut Self {
        let annotations = self.run.metadata.annotations.get_or_insert_default();
        annotations.insert(format!("rollout.kubernetes-fleet.io/{name}"), value.into());
        self
    }

    /// A setting on the strategy.
    pub(super) fn set_on_strategy(&mut self, name: &str, value: &str) -> &mut Self {
        self.settings
            .insert(format!("rollout.kubernetes-fleet.io/{name}"), value.into());
        self
    }

    /// An earlier run has given the cluster this index, and it works.
    pub(super) fn had(&mut self, cluster: &str, index: &str) {
        self.snapshots.insert(index.into(), Some("placement-uid".into()));
        let now = at(self.now);
        let binding = self.binding(cluster);
        binding.spec.state = BindingState::Bound;
        binding.spec.resource_snapshot_name = format!("{PLACEMENT}-{index}-snapshot");
        binding.spec.apply_strategy = Some(fleet_api::placement::ApplyStrategy::default());
        let annotations = binding.metadata.annotations.get_or_insert_default();
        annotations.insert(UPDATE_RUN.into(), "before/before-uid".into());
        binding.touch();
        let generation = binding.generation();
        let run = RolloutStarted::StartedByRun {
            index: index.into(),
            run: "before".into(),
        };
        conditions::set(&mut binding.status.conditions, &run, generation, now);
        conditions::set(
            &mut binding.status.conditions,
            &Available::AllAvailable,
            generation,
            now,
        );
    }

    /// An earlier run gave the cluster these overrides and another way of applying, and the run will give it others.
    pub(super) fn had_its_own(&mut self, cluster: &str) {
        let lists = |word: &str| Lists {
            cluster_wide: vec![format!("{word}-{cluster}-0"), format!("{word}-1")],
            namespaced: vec![NamespacedName {
                namespace: "shop".into(),
                name: format!("{word}-{cluster}"),
            }],
        };
        self.overrides.insert(cluster.into(), Ok(lists("new")));
        let old = lists("old");
        let binding = self.binding(cluster);
        binding.spec.cluster_resource_override_snapshots = old.cluster_wide;
        binding.spec.resource_override_snapshots = old.namespaced;
        let strategy = json!({ "type": "ServerSideApply", "serverSideApplyConfig": { "force": true } });
        binding.spec.apply_strategy = serde_json::from_value(strategy).unwrap();
    }

    /// The newest binding of a cluster.
    pub(super) fn binding(&mut self, cluster: &str) -> &mut BindingObject {
        let found = self
            .bindings
            .iter_mut()
            .rev()
            .find(|b| b.spec.target_cluster == cluster);
        found.unwrap_or_else(|| panic!("{cluster} has no binding"))
    }

    pub(super) fn unschedule(&mut self, cluster: &str) {
        let binding = self.binding(cluster);
        binding.spec.state = BindingState::Unscheduled;
        binding.touch();
    }

    /// The scheduler picks an Unscheduled binding again.
    pub(super) fn restore(&mut self, cluster: &str) {
        let binding = self.binding(cluster);
        binding.spec.state = if binding.spec.resource_snapshot_name.is_empty() {
            BindingState::Scheduled
        } else {
            BindingState::Bound
        };
        let annotations = binding.metadata.annotations.get_or_insert_default();
        annotations.insert(UPDATE_RUN.into(), String::new());
        binding.touch();
    }

    pub(super) fn remove_binding(&mut self, cluster: &str) {
        self.bindings.retain(|b| b.spec.target_cluster != cluster);
    }

    /// The member reports, as the work generator would write it: only about what was started.
    pub(super) fn report(&mut self, cluster: &str, state: &impl conditions::ConditionState) {
        let now = at(self.now);
        let binding = self.binding(cluster);
        let generation = binding.generation();
        if conditions::is_true(&binding.status.conditions, RolloutStarted::TYPE, generation) {
            conditions::set(&mut binding.status.conditions, state, generation, now);
        }
    }

    pub(super) fn available(&mut self, cluster: &str) {
        self.report(cluster, &Available::AllAvailable);
    }

    pub(super) fn unavailable(&mut self, cluster: &str) {
        self.report(cluster, &Available::NotYet { work: "w".into() });
    }

    /// Another run gives a cluster another snapshot.
    pub(super) fn take_over(&mut self, cluster: &str, run: &str) {
        let binding = self.binding(cluster);
        binding.spec.resource_snapshot_name = format!("{PLACEMENT}-2-snapshot");
        let annotations = binding.metadata.annotations.get_or_insert_default();
        annotations.insert(UPDATE_RUN.into(), format!("{run}/other-uid"));
        binding.touch();
    }

    /// Another run gives a cluster what this one would, and starts it.
    pub(super) fn forestall(&mut self, cluster: &str) {
        let (now, strategy) = (at(self.now), self.run.status.apply_strategy.clone());
        let lists = self
            .overrides
            .get(cluster)
            .cloned()
            .and_then(Result::ok)
            .unwrap_or_default();
        let binding = self.binding(cluster);
        if binding.spec.state == BindingState::Unscheduled {
            return;
        }
        binding.spec.state = BindingState::Bound;
        binding.spec.resource_snapshot_name = format!("{PLACEMENT}-1-snapshot");
        binding.spec.apply_strategy = strategy;
        binding.spec.cluster_resource_override_snapshots = lists.cluster_wide;
        binding.spec.resource_override_snapshots = lists.namespaced;
        let annotations = binding.metadata.annotations.get_or_insert_default();
        annotations.insert(UPDATE_RUN.into(), "other/other-uid".into());
        binding.touch();
        let generation = binding.generation();
        conditions::set(
            &mut binding.status.conditions,
            &RolloutStarted::Started,
            generation,
            now,
        );
    }

    pub(super) fn set_state(&mut self, state: UpdateRunState) {
        self.run.spec.state = state;
        self.run.touch();
    }

    /// A user approves, with this generation.
    pub(super) fn approve(&mut self, request: &str, generation: i64) {
        let now = at(self.now);
        let found = self.approvals.iter_mut().find(|request_| request_.name() == request);
        let found = found.unwrap_or_else(|| panic!("there is no {request}"));
        conditions::set(&mut found.status.conditions, &Approved::Cluster, generation, now);
    }
}
