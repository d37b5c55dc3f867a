//! A hub that does what the controllers decide, write by write, for a placement of ConfigMaps. It shares no code with the
//! plan but the decisions themselves.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::cluster::MemberCluster;
use fleet_api::conditions::binding::{Available, RolloutStarted};
use fleet_api::names::PlacementKey;
use fleet_api::placement::{
    BindingSpec, BindingState, BindingStatus, ClusterResourceOverrideSpec, PlacementSpec, PlacementStatus,
    PolicySnapshotSpec, PolicySnapshotStatus,
};
use fleet_api::raw::RawJson;
use fleet_api::{annotations, conditions, labels};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::explain::View;
use crate::overrides::LabelledCluster;
use crate::overrides::choose::{Candidates, Chosen, Lists};
use crate::plan::{self, HubFlags, Plan, Request};
use crate::rollout::{self, Budget, Goal, Member, Target, apply_strategy};
use crate::scheduler;
use crate::selection::ObjectId;
use crate::snapshot::delay::Flags;
use crate::snapshot::{policy, resource};
use crate::work::Stored;

pub(super) const NOW: &str = "2026-01-02T12:00:00Z";

pub(super) struct Object<Spec, Status> {
    pub(super) meta: ObjectMeta,
    pub(super) spec: Spec,
    pub(super) status: Option<Status>,
}

/// What happened, in the order in which it did: `place east`, `update east`, `remove east`.
pub(super) type Log = Vec<Vec<String>>;

pub(super) struct Hub {
    pub(super) members: BTreeMap<String, MemberCluster>,
    pub(super) placement: Object<PlacementSpec, PlacementStatus>,
    pub(super) maps: BTreeMap<String, Value>,
    pub(super) overrides: BTreeMap<String, ClusterResourceOverrideSpec>,
    pub(super) policies: Vec<Object<PolicySnapshotSpec, PolicySnapshotStatus>>,
    pub(super) snapshots: Vec<(ObjectMeta, Vec<RawJson>)>,
    pub(super) bindings: BTreeMap<String, Object<BindingSpec, BindingStatus>>,
}

pub(super) fn now() -> Timestamp {
    NOW.parse().unwrap()
}

#[expect(clippy::unnecessary_wraps, reason = "of other kinds nothing may be known")]
pub(super) fn is_cluster_scoped(object: &ObjectId) -> Option<bool> {
    Some(object.kind == "Namespace")
}

pub(super) fn member(name: &str, labels: &[(&str, &str)]) -> MemberCluster {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let conditions = ["Joined", "Healthy"].map(|type_name| {
        json!({
            "type": type_name, "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW,
        })
    });
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels, "generation": 1 },
        "spec": { "identity": { "kind": "User", "name": name } },
        "status": { "agentStatus": [
            { "type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": NOW },
        ] },
    }))
    .unwrap()
}

impl Hub {
    pub(super) fn new(policy: &Value) -> Self {
        let spec = json!({
            "resourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }], "policy": policy,
        });
        Self {
            members: BTreeMap::new(),
            placement: Object {
                meta: ObjectMeta {
                    name: Some("web".to_owned()),
                    uid: Some("4711".to_owned()),
                    generation: Some(1),
                    ..ObjectMeta::default()
                },
                spec: serde_json::from_value(spec).unwrap(),
                status: None,
            },
            maps: [("m".to_owned(), json!({ "a": "1" }))].into(),
            overrides: BTreeMap::new(),
            policies: Vec::new(),
            snapshots: Vec::new(),
            bindings: BTreeMap::new(),
        }
    }

    pub(super) fn with(mut self, name: &str, labels: &[(&str, &str)]) -> Self {
        self.members.insert(name.to_owned(), member(name, labels));
        self
    }

    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut PlacementSpec)) {
        edit(&mut self.placement.spec);
        *self.placement.meta.generation.as_mut().unwrap() += 1;
    }

    fn key() -> PlacementKey {
        PlacementKey::new(None, "web").unwrap()
    }

    pub(super) fn texts(&self) -> Vec<RawJson> {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "app" } });
        let maps = self.maps.iter().map(|(name, data)| {
            RawJson::from(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "app" }, "data": data,
            }))
        });
        std::iter::once(RawJson::from(namespace)).chain(maps).collect()
    }

    pub(super) fn plan(&self, request: Option<&Request<'_>>) -> Plan {
        let (key, texts) = (Self::key(), self.texts());
        let members: Vec<_> = self.members.values().cloned().collect();
        let policies: Vec<_> = self.policies.iter().map(view).collect();
        let bindings: Vec<_> = self.bindings.values().map(view).collect();
        let snapshots: Vec<_> = self
            .snapshots
            .iter()
            .map(|(metadata, resources)| Stored { metadata, resources })
            .collect();
        let overrides = plan::Overrides {
            cluster_wide: self
                .overrides
                .iter()
                .map(|(name, spec)| (name.as_str(), spec))
                .collect(),
            current_cluster_wide: self.overrides.keys().map(String::as_str).collect(),
            ..plan::Overrides::default()
        };
        plan::plan(
            &plan::World {
                now: now(),
                key: &key,
                placement: view(&self.placement),
                is_new: false,
                selected: Ok(&texts),
                members: &members,
                unread: &[],
                policies: &policies,
                snapshots: &snapshots,
                bindings: &bindings,
                overrides,
                cluster_scoped: &is_cluster_scoped,
                named_by_runs: &[],
                recorded_by_runs: &[],
                settings: HubFlags::default(),
            },
            request,
        )
    }

    /// Lets the controllers act until nothing is left to do. All clusters that have something new become available together.
    pub(super) fn settle(&mut self) -> Log {
        let mut log = Log::new();
        for _ in 0..100 {
            self.keep_policy();
            self.keep_resources();
            self.schedule();
            let wave = self.roll_out();
            let reported = self.report();
            if wave.is_empty() && !reported {
                return log;
            }
            if !wave.is_empty() {
                log.push(wave);
            }
        }
        panic!("not settled: {log:?}");
    }

    /// Only the policy, as where update runs roll out.
    pub(super) fn settle_policy(&mut self) {
        self.keep_policy();
        self.schedule();
    }

    /// Only the resources, as a run does that names no index.
    pub(super) fn settle_resources(&mut self) {
        self.keep_resources();
    }

    fn keep_policy(&mut self) {
        let named: BTreeSet<_> = self
            .bindings
            .values()
            .map(|binding| binding.spec.scheduling_policy_snapshot_name.clone())
            .collect();
        let existing: Vec<_> = self
            .policies
            .iter()
            .map(|it| policy::Existing::of(&it.meta, &it.spec, named.contains(name(&it.meta))))
            .collect();
        let (spec, generation) = (&self.placement.spec, self.placement.meta.generation.unwrap());
        let changes = policy::plan(&Self::key(), generation, spec.policy.as_ref(), 10, &existing).unwrap();
        self.policies
            .retain(|it| !changes.delete.iter().any(|gone| gone == name(&it.meta)));
        for snapshot in &mut self.policies {
            if changes.demote.iter().any(|demoted| demoted == name(&snapshot.meta)) {
                let all = snapshot.meta.labels.as_mut().unwrap();
                all.insert(labels::IS_LATEST_SNAPSHOT.into(), "false".into());
            }
            if let Some(update) = changes.update.as_ref().filter(|it| it.name == name(&snapshot.meta)) {
                snapshot.meta.labels.as_mut().unwrap().extend(update.labels.clone());
                snapshot
                    .meta
                    .annotations
                    .as_mut()
                    .unwrap()
                    .extend(update.annotations.clone());
            }
        }
        if let Some(new) = changes.create {
            let meta = ObjectMeta {
                name: Some(new.name),
                labels: Some(new.labels),
                annotations: Some(new.annotations),
                generation: Some(1),
                ..ObjectMeta::default()
            };
            let spec = PolicySnapshotSpec {
                policy: spec.policy.clone(),
                policy_hash: ByteString(new.hash),
            };
            self.policies.push(Object {
                meta,
                spec,
                status: None,
            });
        }
    }

    fn keep_resources(&mut self) {
        let texts = self.texts();
        let existing: Vec<_> = self
            .snapshots
            .iter()
            .map(|(meta, _)| resource::Existing::of(meta))
            .collect();
        let rules = resource::Rules {
            history_limit: 10,
            flags: Flags::default(),
            at_once: true,
            above: None,
        };
        let selection = resource::Selection {
            objects: &texts,
            envelopes: 0,
        };
        let changes = resource::plan(&Self::key(), selection, rules, &existing, &|_| true, now());
        for (meta, _) in &mut self.snapshots {
            if changes.demote.iter().any(|demoted| demoted == name(meta)) {
                let all = meta.labels.as_mut().unwrap();
                all.insert(labels::IS_LATEST_SNAPSHOT.into(), "false".into());
            }
        }
        for new in changes.create {
            let meta = ObjectMeta {
                name: Some(new.name),
                labels: Some(new.labels),
                annotations: Some(new.annotations),
                ..ObjectMeta::default()
            };
            self.snapshots.push((meta, texts[new.range].to_vec()));
        }
    }

    fn latest_policy(&self) -> usize {
        let is_latest = |meta: &ObjectMeta| meta.labels.as_ref().unwrap()[labels::IS_LATEST_SNAPSHOT] == "true";
        self.policies.iter().position(|it| is_latest(&it.meta)).unwrap()
    }

    fn schedule(&mut self) {
        let at = self.latest_policy();
        let (key, latest) = (Self::key(), &self.policies[at]);
        let clusters: Vec<_> = self
            .members
            .values()
            .map(|it| scheduler::Cluster::new(it, now()))
            .collect();
        let bindings: Vec<_> = self
            .bindings
            .values()
            .map(|it| scheduler::Binding::new(&it.meta, &it.spec))
            .collect();
        let plan = scheduler::schedule(&scheduler::World {
            placement: scheduler::Placement { key: &key, uid: "4711" },
            snapshot: scheduler::Snapshot::new(&latest.meta, latest.spec.policy.as_ref(), latest.status.as_ref()),
            clusters: &clusters,
            bindings: &bindings,
            now: now(),
            settings: scheduler::SchedulerSettings::default(),
        });
        let policy = name(&latest.meta).to_owned();
        for create in plan.create {
            let (mut meta, spec) = create.binding(None, "web", &policy);
            meta.generation = Some(1);
            self.bindings.insert(
                create.binding,
                Object {
                    meta,
                    spec,
                    status: None,
                },
            );
        }
        for patch in plan.patch {
            let binding = self.bindings.get_mut(&patch.binding).unwrap();
            binding.spec.scheduling_policy_snapshot_name.clone_from(&policy);
            binding.spec.cluster_decision = patch.decision;
            if patch.restored {
                binding.spec.state = patch.state;
                binding.meta.annotations = None;
            }
            binding.rewritten();
        }
        for gone in plan.vacate.into_iter().chain(plan.unschedule) {
            let binding = self.bindings.get_mut(&gone.binding).unwrap();
            binding.spec.state = BindingState::Unscheduled;
            let note = (
                annotations::PREVIOUS_BINDING_STATE.to_owned(),
                gone.previous.as_str().to_owned(),
            );
            binding.meta.annotations = Some([note].into());
            binding.rewritten();
        }
        if plan.status_changed {
            self.policies[at].status = plan.status;
        }
    }

    pub(super) fn lists(&self, cluster: &str) -> Result<Lists, String> {
        let candidates = Candidates::new(&self.texts(), &is_cluster_scoped);
        let all = self.overrides.iter().map(|(name, spec)| (name.as_str(), spec));
        let chosen = Chosen::new(&Self::key(), &candidates, all, []);
        let (none, member) = (BTreeMap::new(), self.members.get(cluster));
        let labels = member.and_then(|it| it.metadata.labels.as_ref()).unwrap_or(&none);
        chosen
            .on(&LabelledCluster { name: cluster, labels })
            .map_err(|bad| bad.to_string())
    }

    fn roll_out(&mut self) -> Vec<String> {
        let strategy = self.placement.spec.strategy.clone();
        let budget = Budget::of(strategy.as_ref().and_then(|it| it.rolling_update.as_ref()));
        let apply = apply_strategy(strategy.as_ref().and_then(|it| it.apply_strategy.as_ref()));
        let index = self
            .snapshots
            .iter()
            .filter_map(|(meta, _)| resource::Existing::of(meta).index)
            .max();
        let master = format!("web-{}-snapshot", index.unwrap());
        let lists: BTreeMap<String, _> = self
            .bindings
            .iter()
            .map(|(name, binding)| (name.clone(), self.lists(&binding.spec.target_cluster)))
            .collect();
        let members: Vec<_> = self
            .bindings
            .iter()
            .filter_map(|(name, binding)| {
                let goal = Goal {
                    snapshot: Some(&master),
                    overrides: lists[name].as_ref().map_err(String::as_str),
                    apply_strategy: &apply,
                    cluster_exists: self.members.contains_key(&binding.spec.target_cluster),
                    window: None,
                };
                let status = binding.status.as_ref();
                Member::of(
                    &binding.meta,
                    &binding.spec,
                    status,
                    &goal,
                    budget.unavailable_period,
                    now(),
                )
            })
            .collect();
        let latest = &self.policies[self.latest_policy()];
        let target = Target::by(
            Some((&latest.meta, &latest.spec, latest.status.as_ref())),
            self.placement.spec.policy.as_ref(),
            self.placement.meta.generation.unwrap(),
        );
        let plan = rollout::plan(&rollout::World {
            target,
            budget: &budget,
            has_snapshot: true,
            members: &members,
        });
        let mut done = Vec::new();
        for (name, step) in plan.steps {
            let word = match step.action {
                rollout::Action::Bind => "place",
                rollout::Action::Update(_) => "update",
                rollout::Action::Remove(_) => {
                    self.bindings.remove(&name);
                    done.push(format!("remove {}", step.cluster));
                    continue;
                }
                rollout::Action::Restamp => {
                    self.bindings.get_mut(&name).unwrap().started();
                    continue;
                }
                _ => continue,
            };
            done.push(format!("{word} {}", step.cluster));
            let binding = self.bindings.get_mut(&name).unwrap();
            let lists = lists[&name].clone().unwrap();
            binding.spec.state = BindingState::Bound;
            binding.spec.resource_snapshot_name.clone_from(&master);
            binding.spec.cluster_resource_override_snapshots = lists.cluster_wide;
            binding.spec.apply_strategy = Some(apply.clone());
            binding.rewritten();
            binding.status = None;
            binding.started();
        }
        done
    }

    /// What has been sent becomes available.
    fn report(&mut self) -> bool {
        let mut changed = false;
        for binding in self
            .bindings
            .values_mut()
            .filter(|it| it.spec.state == BindingState::Bound)
        {
            let generation = binding.meta.generation.unwrap();
            let status = binding.status.get_or_insert_default();
            changed |= conditions::set(&mut status.conditions, &Available::AllAvailable, generation, now());
        }
        changed
    }

    /// The clusters that have the placement.
    pub(super) fn placed(&self) -> Vec<&str> {
        let bound = self.bindings.values().filter(|it| it.spec.state == BindingState::Bound);
        let mut names: Vec<_> = bound.map(|it| it.spec.target_cluster.as_str()).collect();
        names.sort_unstable();
        names
    }
}

impl Object<BindingSpec, BindingStatus> {
    /// The API server counts the generation up; the status is said again of the new one.
    fn rewritten(&mut self) {
        let generation = self.meta.generation.as_mut().unwrap();
        *generation += 1;
        let generation = *generation;
        for condition in self.status.iter_mut().flat_map(|status| &mut status.conditions) {
            condition.observed_generation = Some(generation);
        }
    }

    fn started(&mut self) {
        let generation = self.meta.generation.unwrap();
        let status = self.status.get_or_insert_default();
        conditions::set(&mut status.conditions, &RolloutStarted::Started, generation, now());
    }
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap()
}

fn view<Spec, Status>(object: &Object<Spec, Status>) -> View<'_, Spec, Status> {
    View::of(&object.meta, &object.spec, object.status.as_ref())
}
