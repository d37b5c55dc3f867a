//! Which clusters the placement would get, and what its bindings would be then.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::placement::{BindingSpec, BindingState, BindingStatus, PolicySnapshotSpec, PolicySnapshotStatus};
use fleet_api::{annotations, finalizers, labels};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::Walk;
use super::answer::{Change, PlannedCluster, Policy, Score};
use crate::explain::scheduling::unpicked;
use crate::explain::{self, Fleet};
use crate::scheduler::{self, Placement, Snapshot};
use crate::snapshot::{self, policy};

/// What the scheduler would make of the placement.
pub(super) struct Picked {
    pub(super) policy: Policy,
    pub(super) clusters: Vec<PlannedCluster>,
    pub(super) bindings: Vec<Binding>,
    pub(super) snapshot: PolicySnapshot,
}

/// A policy snapshot as it would be.
pub(super) struct PolicySnapshot {
    pub(super) meta: ObjectMeta,
    pub(super) spec: PolicySnapshotSpec,
    pub(super) status: Option<PolicySnapshotStatus>,
}

/// A binding as it would be.
#[derive(Debug, Clone)]
pub(super) struct Binding {
    pub(super) meta: ObjectMeta,
    pub(super) spec: BindingSpec,
    /// As it is now: the hub says it again of what it changes, and nothing here changes what a cluster has.
    pub(super) status: Option<BindingStatus>,
}

impl Binding {
    fn of(binding: &explain::Binding<'_>) -> Self {
        Self {
            meta: binding.meta.clone(),
            spec: binding.spec.clone(),
            status: binding.status.cloned(),
        }
    }

    pub(super) fn is_live(&self) -> bool {
        self.meta.deletion_timestamp.is_none() && self.spec.state != BindingState::Unscheduled
    }

    fn note(&mut self, key: &str, value: Option<String>) {
        let all = self.meta.annotations.get_or_insert_default();
        match value {
            Some(value) => _ = all.insert(key.to_owned(), value),
            None => _ = all.remove(key),
        }
    }
}

/// Picks clusters.
pub(super) fn pick(walk: &Walk<'_, '_>) -> Picked {
    let (mut latest, is_new, problem) = latest_policy(walk);
    let world = walk.world;
    let members = world
        .members
        .iter()
        .map(|member| scheduler::Cluster::new(member, world.now));
    let unread = world.unread.iter().map(|name| scheduler::Cluster::unread(name));
    let clusters: Vec<_> = members.chain(unread).collect();
    let before: Vec<_> = world.bindings.iter().map(Binding::of).collect();
    let views: Vec<_> = before
        .iter()
        .map(|b| scheduler::Binding::new(&b.meta, &b.spec))
        .collect();
    let plan = scheduler::schedule(&scheduler::World {
        placement: Placement {
            key: world.key,
            uid: world.placement.meta.uid.as_deref().unwrap_or_default(),
        },
        snapshot: Snapshot::new(&latest.meta, latest.spec.policy.as_ref(), latest.status.as_ref()),
        clusters: &clusters,
        bindings: &views,
        now: world.now,
        settings: world.settings.scheduler,
    });
    let name = latest.meta.name.clone().unwrap_or_default();
    let bindings = carried_out(walk, &name, &plan, before);
    if plan.status.is_some() {
        latest.status.clone_from(&plan.status);
    }
    let found = bindings.iter().filter(|binding| binding.is_live());
    let found: BTreeSet<_> = found.map(|binding| binding.spec.target_cluster.as_str()).collect();
    let policy = Policy {
        snapshot: name,
        is_new,
        found: found.len(),
        fulfilled: plan.problem.is_none() && fulfilled(plan.status.as_ref()),
        problem: problem.or_else(|| plan.problem.as_ref().map(ToString::to_string)),
    };
    let clusters = outcome(walk, &latest, &bindings);
    Picked {
        policy,
        clusters,
        bindings,
        snapshot: latest,
    }
}

fn fulfilled(status: Option<&PolicySnapshotStatus>) -> bool {
    let said = status.and_then(|status| status.conditions.first());
    said.is_some_and(|condition| condition.status == "True")
}

/// The policy snapshot that would count, whether it would be made, and why none can be.
fn latest_policy(walk: &Walk<'_, '_>) -> (PolicySnapshot, bool, Option<String>) {
    let world = walk.world;
    let bindings = world.bindings.iter();
    let named: BTreeSet<&str> = bindings
        .map(|binding| binding.spec.scheduling_policy_snapshot_name.as_str())
        .collect();
    let mut stored: Vec<PolicySnapshot> = world
        .policies
        .iter()
        .filter(|snapshot| !snapshot.deleting())
        .map(|snapshot| PolicySnapshot {
            meta: snapshot.meta.clone(),
            spec: snapshot.spec.clone(),
            status: snapshot.status.cloned(),
        })
        .collect();
    let existing: Vec<_> = world
        .policies
        .iter()
        .filter(|snapshot| !snapshot.deleting())
        .map(|snapshot| policy::Existing::of(snapshot.meta, snapshot.spec, named.contains(snapshot.name())))
        .collect();
    let wanted = world.placement.spec.policy.as_ref();
    let generation = world.placement.generation();
    let changes = policy::plan(world.key, generation, wanted, walk.history_limit(), &existing);
    let (changes, problem) = match changes {
        Ok(changes) => (changes, None),
        Err(error) => (
            policy::Changes::default(),
            Some(format!("the policy cannot be compared: {error}")),
        ),
    };
    for snapshot in &mut stored {
        let name = snapshot.meta.name.clone().unwrap_or_default();
        if changes.demote.contains(&name) {
            let all = snapshot.meta.labels.get_or_insert_default();
            all.insert(labels::IS_LATEST_SNAPSHOT.into(), labels::FALSE.into());
        }
        if let Some(update) = changes.update.as_ref().filter(|update| update.name == name) {
            snapshot
                .meta
                .labels
                .get_or_insert_default()
                .extend(update.labels.clone());
            let all = snapshot.meta.annotations.get_or_insert_default();
            all.extend(update.annotations.clone());
        }
    }
    stored.retain(|snapshot| !changes.delete.contains(&snapshot.meta.name.clone().unwrap_or_default()));
    if let Some(new) = changes.create {
        let meta = ObjectMeta {
            name: Some(new.name),
            namespace: world.key.namespace().map(str::to_owned),
            generation: Some(1),
            labels: Some(new.labels),
            annotations: Some(new.annotations),
            ..ObjectMeta::default()
        };
        let spec = PolicySnapshotSpec {
            policy: wanted.cloned(),
            policy_hash: ByteString(new.hash),
        };
        return (
            PolicySnapshot {
                meta,
                spec,
                status: None,
            },
            true,
            problem,
        );
    }
    let mut metas: Vec<_> = stored.into_iter().map(|it| (it.meta.clone(), it)).collect();
    let at = snapshot::latest(
        metas.iter().enumerate().map(|(at, (meta, _))| (meta, at)),
        labels::POLICY_INDEX,
    );
    if let Some(at) = at {
        return (metas.swap_remove(at).1, false, problem);
    }
    let empty = PolicySnapshot {
        meta: ObjectMeta::default(),
        spec: PolicySnapshotSpec {
            policy: None,
            policy_hash: ByteString::default(),
        },
        status: None,
    };
    (empty, false, problem)
}

/// The bindings once the scheduler's plan is written, as the hub agent writes it.
fn carried_out(walk: &Walk<'_, '_>, policy: &str, plan: &scheduler::Plan, before: Vec<Binding>) -> Vec<Binding> {
    let mut bindings: BTreeMap<String, Binding> = before
        .into_iter()
        .map(|binding| (binding.meta.name.clone().unwrap_or_default(), binding))
        .collect();
    for name in &plan.release {
        let held = bindings
            .get_mut(name)
            .and_then(|binding| binding.meta.finalizers.as_mut());
        if let Some(held) = held {
            held.retain(|finalizer| finalizer != finalizers::SCHEDULER_BINDING);
        }
    }
    for create in &plan.create {
        let (mut meta, spec) = create.binding(walk.world.key.namespace(), walk.world.key.name(), policy);
        meta.generation = Some(1);
        let status = None;
        bindings.insert(create.binding.clone(), Binding { meta, spec, status });
    }
    for patch in &plan.patch {
        let Some(binding) = bindings.get_mut(&patch.binding) else {
            continue;
        };
        if patch.restored {
            binding.spec.state = patch.state.clone();
            binding.note(annotations::PREVIOUS_BINDING_STATE, None);
        }
        policy.clone_into(&mut binding.spec.scheduling_policy_snapshot_name);
        binding.spec.cluster_decision = patch.decision.clone();
    }
    for gone in plan.vacate.iter().chain(&plan.unschedule) {
        let Some(binding) = bindings.get_mut(&gone.binding) else {
            continue;
        };
        binding.spec.state = BindingState::Unscheduled;
        binding.note(
            annotations::PREVIOUS_BINDING_STATE,
            Some(gone.previous.as_str().to_owned()),
        );
    }
    bindings.into_values().collect()
}

/// What becomes of each cluster, and why.
fn outcome(walk: &Walk<'_, '_>, policy: &PolicySnapshot, bindings: &[Binding]) -> Vec<PlannedCluster> {
    let world = walk.world;
    let picked: BTreeMap<&str, &Binding> = bindings
        .iter()
        .filter(|binding| binding.is_live())
        .map(|binding| (binding.spec.target_cluster.as_str(), binding))
        .collect();
    let had = world.bindings.iter();
    let had: BTreeSet<&str> = had.map(|binding| binding.spec.target_cluster.as_str()).collect();
    let decisions = policy.status.iter().flat_map(|status| &status.target_clusters);
    let decisions: BTreeMap<&str, _> = decisions.map(|it| (it.cluster_name.as_str(), it)).collect();
    let members = world
        .members
        .iter()
        .filter_map(|member| member.metadata.name.as_deref());
    let unread = world.unread.iter().map(String::as_str);
    let all: BTreeSet<&str> = members
        .chain(unread)
        .chain(had.iter().copied())
        .chain(decisions.keys().copied())
        .collect();
    let reasons = Reasons::new(walk, policy);
    let each = all.into_iter().map(|name| {
        let binding = picked.get(name);
        let change = match (binding, had.contains(name)) {
            (Some(_), true) => Change::Kept,
            (Some(_), false) => Change::Added,
            (None, true) => Change::Removed,
            (None, false) => Change::NotPicked,
        };
        let decision = binding.map(|binding| &binding.spec.cluster_decision);
        let decision = decision.or_else(|| decisions.get(name).copied().filter(|it| !it.selected));
        let score = decision.and_then(|it| it.cluster_score.as_ref()).map(|score| Score {
            affinity: score.affinity_score.unwrap_or_default(),
            spread: score.priority_score.unwrap_or_default(),
        });
        let (reason, hint) = match binding {
            Some(binding) => (binding.spec.cluster_decision.reason.clone(), None),
            None => reasons.against(name),
        };
        PlannedCluster {
            name: name.to_owned(),
            change,
            score,
            reason,
            hint,
            overrides: Vec::new(),
            problem: None,
        }
    });
    each.collect()
}

/// Why clusters are not picked, in the words of `kubectl fleet why`.
struct Reasons<'r> {
    fleet: Fleet<'r>,
    placement: explain::Placement<'r>,
}

impl<'r> Reasons<'r> {
    fn new(walk: &Walk<'r, '_>, policy: &'r PolicySnapshot) -> Self {
        let world = walk.world;
        let namespace = world.key.namespace().unwrap_or_default();
        let mut fleet = Fleet::new(namespace, world.now);
        fleet.members = world.members.iter().collect();
        fleet.policies = vec![explain::Policy::of(&policy.meta, &policy.spec, policy.status.as_ref())];
        Self {
            fleet,
            placement: world.placement,
        }
    }

    fn against(&self, cluster: &str) -> (String, Option<String>) {
        match unpicked(&self.fleet, &self.placement, cluster) {
            Some(cause) => (cause.text, Some(cause.next).filter(|next| !next.is_empty())),
            None => (
                "it fits, and the placement has as many clusters as it asks for".to_owned(),
                None,
            ),
        }
    }
}
