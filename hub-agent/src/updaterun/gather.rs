//! The world of a run, as the stores have it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleet_api::{
    annotations,
    cluster::MemberCluster,
    conditions::{self, Status, binding::RolloutStarted, error_class::ErrorClass, member_cluster::Healthy},
    labels,
    placement::{BindingStatus, PreviousContent, Scope},
};
use fleet_core::{
    overrides::choose::Lists,
    updaterun::{Approval, Binding, ClusterFacts, Placement, PolicySnapshot, RecordedSnapshot, Run, snapshot_name},
    work::{Group, WorkFailure},
};
use fleet_runtime::{Key, cache::Store};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Resource, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};

use crate::{
    cache::{
        family::{beside, stored},
        overrides::OverrideStores,
    },
    overrides,
    pipeline::{Error, Pipeline, key_of},
};

/// What a run is decided from, held for as long as the decision takes.
pub(super) struct Seen<S: Scope> {
    pub(super) placement: Option<Arc<S::Placement>>,
    policies: Vec<Arc<S::PolicySnapshot>>,
    bindings: Vec<(Arc<S::Binding>, Option<BindingStatus>)>,
    approvals: Vec<Arc<S::ApprovalRequest>>,
    snapshot: Option<Arc<S::ResourceSnapshot>>,
    members: Vec<Arc<MemberCluster>>,
    /// The placement's other runs.
    runs: Vec<Arc<S::UpdateRun>>,
    /// Of the snapshots that the run would give back, those that are not there.
    pub(super) missing: BTreeSet<String>,
    /// The same of override snapshots.
    pub(super) missing_overrides: BTreeSet<String>,
}

impl<S: Scope> Seen<S> {
    /// Everything about the run's `placement`.
    pub(super) fn of(ctx: &Pipeline<S>, run: &Run<'_>, placement: &Key) -> Self {
        let bindings = ctx.family.bindings_of.get(placement).into_iter();
        let bindings = bindings.map(|binding| {
            let ahead = ahead(ctx, &binding);
            (binding, ahead)
        });
        let stages = run.status.stages_status.iter();
        let tasks = stages.flat_map(|stage| {
            stage
                .before_stage_task_status
                .iter()
                .chain(&stage.after_stage_task_status)
        });
        let requests = tasks.filter(|task| !task.approval_request_name.is_empty());
        let approvals = &ctx.family.updates.approvals;
        let approvals = requests.filter_map(|task| approvals.get(&beside(placement, &task.approval_request_name)));
        let snapshot = beside(placement, &snapshot_name(run));
        let stages = run.status.stages_status.iter().chain(&run.status.deletion_stage_status);
        let planned: Vec<_> = stages.flat_map(|stage| &stage.clusters).collect();
        let members = planned.iter().filter_map(|cluster| {
            let key = Key::cluster(cluster.cluster_name.as_str());
            ctx.shared.members.get(&key)
        });
        let previous = planned.iter().filter_map(|cluster| cluster.previous.as_ref());
        let missing_overrides = missing_overrides(&ctx.shared.overrides, previous.clone());
        let previous = previous.map(|previous| previous.resource_snapshot_name.clone());
        let is_gone = |name: &String| {
            let found = ctx.family.snapshots.get(&beside(placement, name));
            found.is_none_or(|found| found.meta().deletion_timestamp.is_some())
        };
        let policies = ctx.family.policies_of.get(placement).into_iter();
        let runs = ctx.family.updates.runs_of.get(placement).into_iter();
        let others = runs.filter(|other| other.meta().uid.as_deref() != Some(run.uid));
        Self {
            placement: ctx.family.placements.get(placement),
            policies: policies.filter(|p| p.meta().deletion_timestamp.is_none()).collect(),
            bindings: bindings.collect(),
            approvals: approvals.collect(),
            snapshot: ctx.family.snapshots.get(&snapshot),
            members: members.collect(),
            runs: others.collect(),
            missing: previous.filter(is_gone).collect(),
            missing_overrides,
        }
    }

    pub(super) fn placement(&self) -> Option<Placement<'_>> {
        let placement = self.placement.as_ref();
        placement.map(|placement| Placement::of(placement.meta(), placement.spec()))
    }

    pub(super) fn policies(&self) -> Vec<PolicySnapshot<'_>> {
        let policies = self.policies.iter();
        policies
            .map(|policy| PolicySnapshot::of(policy.meta(), policy.spec(), policy.status()))
            .collect()
    }

    pub(super) fn bindings(&self) -> Vec<Binding<'_>> {
        let bindings = self.bindings.iter();
        bindings
            .map(|(binding, ahead)| Binding::of(binding.meta(), binding.spec(), ahead.as_ref().or(binding.status())))
            .collect()
    }

    pub(super) fn runs(&self) -> Vec<Run<'_>> {
        let runs = self.runs.iter();
        runs.map(|run| Run::of(run.meta(), run.spec(), run.status())).collect()
    }

    pub(super) fn approvals(&self) -> Vec<Approval<'_>> {
        let approvals = self.approvals.iter();
        approvals
            .map(|request| Approval::of(request.meta(), request.spec(), request.status()))
            .collect()
    }

    pub(super) fn snapshot(&self) -> Option<RecordedSnapshot<'_>> {
        let live = self.snapshot.as_ref();
        let live = live.filter(|s| s.meta().deletion_timestamp.is_none())?;
        let owners = live.meta().owner_references.as_deref().unwrap_or_default();
        let owner = owners.iter().find(|owner| owner.controller == Some(true));
        let failed_in = live.annotations().get(annotations::FAILED_IN);
        Some(RecordedSnapshot {
            failed_in: failed_in.map(String::as_str),
            placement_uid: owner.map(|owner| owner.uid.as_str()),
        })
    }

    /// What matters of the plan's clusters.
    pub(super) fn facts(&self) -> BTreeMap<&str, ClusterFacts<'_>> {
        let members = self.members.iter().filter_map(|member| {
            let conditions = member.status.as_ref().map(|status| status.conditions.as_slice());
            let facts = ClusterFacts {
                healthy: conditions.is_some_and(is_healthy),
                window: member.annotations().get(annotations::WINDOW).map(String::as_str),
            };
            Some((member.metadata.name.as_deref()?, facts))
        });
        members.collect()
    }

    /// The clusters of its bindings.
    pub(super) fn clusters(&self) -> Vec<&str> {
        let clusters = self.bindings.iter();
        clusters
            .map(|(binding, _)| binding.spec().target_cluster.as_str())
            .collect()
    }
}

/// Of the override snapshots that clusters had before, those that are not there; `namespace/name` of those that have one.
fn missing_overrides<'a>(
    stores: &OverrideStores,
    previous: impl Iterator<Item = &'a PreviousContent> + Clone,
) -> BTreeSet<String> {
    fn is_gone<K: Resource + Send + Sync + 'static>(store: &Store<K>, key: &Key) -> bool {
        let found = store.get(key);
        found.is_none_or(|found| found.meta().deletion_timestamp.is_some())
    }
    let cluster_wide = previous
        .clone()
        .flat_map(|had| &had.cluster_resource_override_snapshots);
    let cluster_wide: BTreeSet<_> = cluster_wide.map(|name| Key::cluster(name.as_str())).collect();
    let namespaced = previous.flat_map(|had| &had.resource_override_snapshots);
    let namespaced = namespaced.map(|named| Key::namespaced(named.namespace.as_str(), named.name.as_str()));
    let namespaced: BTreeSet<_> = namespaced.collect();
    let cluster_wide = cluster_wide
        .iter()
        .filter(|key| is_gone(&stores.cluster_wide_snapshots, key));
    let namespaced = namespaced
        .iter()
        .filter(|key| is_gone(&stores.namespaced_snapshots, key));
    cluster_wide.chain(namespaced).map(ToString::to_string).collect()
}

/// Whether a member says that it is healthy.
pub(super) fn is_healthy(conditions: &[Condition]) -> bool {
    let healthy = conditions::find(conditions, Healthy::TYPE);
    healthy.is_some_and(|healthy| Status::of(healthy) == Status::True)
}

/// The status that a binding is about to get. What a run has stamped it with is in the stored one first.
fn ahead<S: Scope>(ctx: &Pipeline<S>, binding: &S::Binding) -> Option<BindingStatus> {
    let mut status = BindingStatus::clone(&*ctx.ahead(binding)?);
    let stored = binding.status()?;
    match conditions::find(&stored.conditions, RolloutStarted::TYPE) {
        Some(started) => conditions::replace(&mut status.conditions, started.clone()),
        None => _ = conditions::remove(&mut status.conditions, RolloutStarted::TYPE),
    }
    Some(status)
}

/// A placement's snapshots of one index.
pub(super) struct SnapshotGroup {
    /// The hash that their master has; none without a master.
    pub(super) hash: Option<String>,
    /// Which parts are missing.
    pub(super) incomplete: Option<String>,
}

/// A placement's snapshots of this index, if there are any.
pub(super) fn group<S: Scope>(ctx: &Pipeline<S>, placement: &Key, index: &str) -> Result<Option<SnapshotGroup>, Error> {
    let mut group = ctx.family.snapshots_of.get(placement);
    group.retain(|s| s.meta().deletion_timestamp.is_none());
    group.retain(|s| s.labels().get(labels::RESOURCE_INDEX).is_some_and(|own| own == index));
    if group.is_empty() {
        return Ok(None);
    }
    let hash_of = |s: &Arc<S::ResourceSnapshot>| {
        let hash = s.annotations().get(annotations::RESOURCE_HASH);
        hash.filter(|hash| !hash.is_empty()).cloned()
    };
    let found = group.iter().find_map(|s| Some((s, hash_of(s)?)));
    let Some((master, hash)) = found else {
        return Ok(Some(SnapshotGroup {
            hash: None,
            incomplete: None,
        }));
    };
    let collected = Group::collect(&key_of(placement)?, stored(master), group.iter().map(stored));
    let incomplete = collected
        .err()
        .filter(|failure| matches!(failure, WorkFailure::GroupIncomplete { .. }));
    Ok(Some(SnapshotGroup {
        hash: Some(hash),
        incomplete: incomplete.map(|failure| failure.to_string()),
    }))
}

/// The overrides on each cluster for the resources of a group, or what is wrong with them.
pub(super) fn overrides<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    index: &str,
    clusters: &[&str],
) -> Result<BTreeMap<String, Result<Lists, String>>, Error> {
    let texts = ctx.group_texts(placement, index);
    let lists = overrides::on_clusters(ctx, &key_of(placement)?, &texts, clusters);
    let named = clusters.iter().map(|cluster| (*cluster).to_owned());
    let lists = lists
        .into_iter()
        .map(|list| list.map_err(|error| ErrorClass::User.prefix(error)));
    Ok(named.zip(lists).collect())
}
