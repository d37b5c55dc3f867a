//! A hub in memory: the objects that a run deals with, and a shell that carries out what the machine says, wholly or until
//! it crashes.

use std::collections::BTreeMap;

use fleet_api::annotations::UPDATE_RUN;
use fleet_api::conditions::approval_request::{ApprovalAccepted, Approved};
use fleet_api::conditions::binding::{Available, RolloutStarted};
use fleet_api::conditions::policy_snapshot::Scheduled;
use fleet_api::conditions::{self, to_condition};
use fleet_api::events::Event as _;
use fleet_api::placement::{
    ApprovalRequestSpec, ApprovalRequestStatus, BindingSpec, BindingState, BindingStatus, PlacementSpec,
    PolicySnapshotSpec, PolicySnapshotStatus, UpdateRunSpec, UpdateRunState, UpdateRunStatus, UpdateStrategySpec,
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
    stepped: i64,
    pub(super) run: RunObject,
    pub(super) memory: Memory,
    pub(super) placement: Option<Object<PlacementSpec, ()>>,
    pub(super) policies: Vec<Object<PolicySnapshotSpec, PolicySnapshotStatus>>,
    pub(super) bindings: Vec<BindingObject>,
    pub(super) members: BTreeMap<String, BTreeMap<String, String>>,
    pub(super) strategy: Option<UpdateStrategySpec>,
    /// Indexes of snapshot groups, with the UID of their placement; none for a group without master.
    pub(super) snapshots: BTreeMap<String, Option<String>>,
    pub(super) overrides: BTreeMap<String, Result<Lists, String>>,
    pub(super) approvals: Vec<Object<ApprovalRequestSpec, ApprovalRequestStatus>>,
    pub(super) refused: Refused,
    /// Writes that will still succeed before the agent crashes.
    pub(super) writes_left: usize,
    /// What was written, one line each.
    pub(super) log: Vec<String>,
    /// Events, one line each.
    pub(super) events: Vec<String>,
    pub(super) look_again: Option<Timestamp>,
    serial: u32,
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
            overrides: BTreeMap::new(),
            approvals: Vec::new(),
            refused: Refused::default(),
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
        let binding = self.binding(cluster);
        if binding.spec.state == BindingState::Unscheduled {
            return;
        }
        binding.spec.state = BindingState::Bound;
        binding.spec.resource_snapshot_name = format!("{PLACEMENT}-1-snapshot");
        binding.spec.apply_strategy = strategy;
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

    // What the shell does.

    /// One pass; false if the agent has crashed in it.
    pub(super) fn pass(&mut self) -> bool {
        self.look_again = None;
        match self.view_run().phase() {
            Phase::Uninitialized => self.initialize(),
            Phase::Active => self.advance(),
            Phase::Idle | Phase::Finished => true,
        }
    }

    /// Passes until nothing is left to do without an event.
    pub(super) fn settle(&mut self) -> &mut Self {
        for _ in 0..200 {
            let before = (self.log.len(), self.run.status.clone());
            assert!(self.pass(), "no crash was asked for");
            let at_once = self.look_again == Some(at(self.now));
            if !at_once && before == (self.log.len(), self.run.status.clone()) {
                return self;
            }
        }
        panic!("not settled: {:#?}", self.log);
    }

    pub(super) fn later(&mut self, seconds: i64) -> &mut Self {
        self.now += seconds;
        self.settle()
    }

    /// Somebody sets the clock; no time passes.
    pub(super) fn set_clock(&mut self, seconds: i64) {
        self.stepped += seconds;
        self.now += seconds;
    }

    pub(super) fn step_clock(&mut self, seconds: i64) -> &mut Self {
        self.set_clock(seconds);
        self.settle()
    }

    fn moment(&self) -> Moment {
        Moment {
            now: at(self.now),
            steady: at(self.now - self.stepped),
        }
    }

    fn view_run(&self) -> Run<'_> {
        Run::of(&self.run.metadata, &self.run.spec, Some(&self.run.status))
    }

    pub(super) fn planning(&self) -> Planning {
        let labels: Members<'_> = self
            .members
            .iter()
            .map(|(name, labels)| (name.as_str(), labels))
            .collect();
        let policies = self.view_policies();
        let bindings = self.view_bindings();
        let asked = self.run.spec.resource_snapshot_index.as_str();
        let snapshot = match self.snapshots.get_key_value(asked) {
            Some((index, master)) => Snapshot::Group {
                index,
                has_master: master.is_some(),
            },
            None if asked.is_empty() => Snapshot::NotTaken,
            None => Snapshot::Missing,
        };
        let overrides = |cluster: &str| self.overrides.get(cluster).cloned().unwrap_or(Ok(Lists::default()));
        let inputs = Inputs {
            placement: self.placement.as_ref().map(|p| Placement::of(&p.metadata, &p.spec)),
            policies: &policies,
            bindings: &bindings,
            members: &labels,
            strategy: self.strategy.as_ref(),
            snapshot,
            overrides: &overrides,
        };
        plan(&self.view_run(), &inputs, &self.memory, self.moment())
    }

    fn initialize(&mut self) -> bool {
        let planning = self.planning();
        let done = match planning.plan {
            Plan::Ready(status) | Plan::Failed(status) => {
                self.look_again = Some(at(self.now));
                self.write_status(&status)
            }
            Plan::Wait { until } => {
                self.look_again = until;
                true
            }
            Plan::TakeSnapshot => panic!("these tests name an index"),
        };
        self.memory = planning.memory;
        self.tell(planning.events);
        done
    }

    pub(super) fn step(&self) -> Step {
        let policies = self.view_policies();
        let bindings = self.view_bindings();
        let approvals = self.approvals.iter();
        let approvals: Vec<_> = approvals
            .map(|a| Approval::of(&a.metadata, &a.spec, Some(&a.status)))
            .collect();
        let recorded = self.snapshots.get(&self.run.status.resource_snapshot_index_used);
        let world = World {
            placement: self.placement.as_ref().map(|p| Placement::of(&p.metadata, &p.spec)),
            policies: &policies,
            bindings: &bindings,
            snapshot: recorded.map(|owner| RecordedSnapshot {
                placement_uid: owner.as_deref(),
            }),
            approvals: &approvals,
            stuck_threshold: STUCK_THRESHOLD,
            refused: &self.refused,
        };
        advance(&self.view_run(), &world, &self.memory, self.moment())
    }

    fn advance(&mut self) -> bool {
        let step = self.step();
        self.look_again = step.look_again;
        for write in &step.approvals {
            if !self.write_approval(write) {
                return false;
            }
        }
        for write in &step.bindings {
            if !self.write_binding(write) {
                return false;
            }
        }
        if let Some(status) = &step.status
            && !self.write_status(status)
        {
            return false;
        }
        self.memory = step.memory;
        self.tell(step.events);
        true
    }

    fn view_policies(&self) -> Vec<PolicySnapshot<'_>> {
        let policies = self.policies.iter();
        policies
            .map(|p| PolicySnapshot::of(&p.metadata, &p.spec, Some(&p.status)))
            .collect()
    }

    fn view_bindings(&self) -> Vec<Binding<'_>> {
        let bindings = self.bindings.iter();
        bindings
            .map(|b| Binding::of(&b.metadata, &b.spec, Some(&b.status)))
            .collect()
    }

    fn tell(&mut self, events: Vec<Told>) {
        for Told { on, event } in events {
            let on = if on == On::Run { "" } else { "(on the request) " };
            self.events.push(format!(
                "{on}{} {}: {}",
                event.event_type().as_str(),
                event.reason(),
                event.message()
            ));
        }
    }

    /// Counts a write; false if the agent crashes instead, which costs it its memory.
    fn may_write(&mut self) -> bool {
        if self.writes_left == 0 {
            self.memory = Memory::default();
            return false;
        }
        self.writes_left -= 1;
        true
    }

    fn write_status(&mut self, status: &UpdateRunStatus) -> bool {
        if !self.may_write() {
            return false;
        }
        // As the API server stores it: what cannot be stored would show.
        let stored = serde_json::to_value(status).unwrap();
        self.run.status = serde_json::from_value(stored).unwrap();
        self.log.push("status".into());
        true
    }

    fn write_approval(&mut self, write: &ApprovalWrite) -> bool {
        if !self.may_write() {
            return false;
        }
        let now = at(self.now);
        match write {
            ApprovalWrite::Create(new) => {
                assert!(
                    !self.approvals.iter().any(|a| a.name() == new.name),
                    "{} is there",
                    new.name
                );
                let mut metadata = metadata(&new.name, self.view_run().namespace, "approval-uid");
                metadata.labels = Some(new.labels.clone());
                self.approvals.push(Object {
                    metadata,
                    spec: new.spec.clone(),
                    status: ApprovalRequestStatus::default(),
                });
                self.log.push(format!("ask {}", new.name));
            }
            ApprovalWrite::Accept { name } => {
                let found = self.approvals.iter_mut().find(|a| a.name() == name).unwrap();
                let generation = found.generation();
                conditions::set(
                    &mut found.status.conditions,
                    &ApprovalAccepted::Accepted,
                    generation,
                    now,
                );
                self.log.push(format!("accept {name}"));
            }
        }
        true
    }

    fn write_binding(&mut self, write: &BindingWrite) -> bool {
        let Some(place) = self.bindings.iter().position(|b| b.name() == write.binding) else {
            panic!("{} is gone", write.binding);
        };
        assert_eq!(self.bindings[place].metadata.uid.as_ref(), Some(&write.uid));
        assert!(self.bindings[place].metadata.deletion_timestamp.is_none(), "{write:?}");
        let put = match &write.action {
            BindingAction::Put(put) => put,
            BindingAction::Delete => {
                if !self.may_write() {
                    return false;
                }
                assert_eq!(self.bindings[place].spec.state, BindingState::Unscheduled);
                self.bindings[place].metadata.deletion_timestamp = Some(Time(at(self.now)));
                self.log.push(format!("delete {}", write.cluster));
                return true;
            }
        };
        let mut spec = self.bindings[place].spec.clone();
        assert!(put.write_to(&mut spec), "{write:?}");
        let old = self.bindings[place].metadata.annotations.clone().unwrap_or_default();
        let mut new = old.clone();
        new.extend(
            put.annotation
                .iter()
                .map(|value| (UPDATE_RUN.to_owned(), value.clone())),
        );
        if spec != self.bindings[place].spec || new != old {
            if !self.may_write() {
                return false;
            }
            let binding = &mut self.bindings[place];
            if spec != binding.spec {
                binding.spec = spec;
                binding.touch();
            }
            binding.metadata.annotations = Some(new);
            self.log.push(format!("write {}", write.cluster));
        }
        if !self.may_write() {
            return false;
        }
        let binding = &mut self.bindings[place];
        let stamp = put.stamp.condition(binding.generation());
        conditions::remove(&mut binding.status.conditions, RolloutStarted::TYPE);
        binding.status.conditions.insert(0, stamp);
        self.log.push(format!("stamp {}", write.cluster));
        true
    }

    // What tests ask.

    /// Conditions of the run as `Type=Status Reason`.
    pub(super) fn said(&self) -> Vec<String> {
        self.run.status.conditions.iter().map(line).collect()
    }

    /// `Progressing` and `Succeeded` of a stage, and each cluster's: `s | c1: Started … | c2:`.
    pub(super) fn stage(&self, index: usize) -> String {
        let deletion = &self.run.status.deletion_stage_status;
        let stage = self.run.status.stages_status.iter().chain(deletion).nth(index).unwrap();
        let mut parts = vec![stage.conditions.iter().map(line).collect::<Vec<_>>().join(", ")];
        for cluster in &stage.clusters {
            let reasons: Vec<_> = cluster
                .conditions
                .iter()
                .map(|c| c.reason.replace("ClusterUpdating", ""))
                .collect();
            parts.push(format!("{}: {}", cluster.cluster_name, reasons.join(", ")));
        }
        parts.join(" | ")
    }

    pub(super) fn message(&self, type_name: &str) -> &str {
        &conditions::find(&self.run.status.conditions, type_name)
            .unwrap()
            .message
    }

    /// The writes since the last call.
    pub(super) fn written(&mut self) -> String {
        std::mem::take(&mut self.log).join("; ")
    }

    pub(super) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    pub(super) fn every_condition(&self) -> Vec<&Condition> {
        let status = &self.run.status;
        let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
        let inner = stages.flat_map(|stage| {
            let tasks = stage
                .before_stage_task_status
                .iter()
                .chain(&stage.after_stage_task_status);
            let clusters = stage.clusters.iter().flat_map(|cluster| &cluster.conditions);
            stage
                .conditions
                .iter()
                .chain(clusters)
                .chain(tasks.flat_map(|task| &task.conditions))
        });
        status.conditions.iter().chain(inner).collect()
    }
}

fn line(condition: &Condition) -> String {
    format!("{}={} {}", condition.type_, condition.status, condition.reason)
}
