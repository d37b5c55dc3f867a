//! The scheduler's writes. Those of one list go side by side; the lists follow one another.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use fleet_api::{
    annotations, finalizers,
    kind::SpecKind as _,
    labels, patch,
    placement::{BindingSpec, BindingState, PolicySnapshotStatus, Scope},
    raw::RawJson,
};
use fleet_core::scheduler::{Create, Patch, Unschedule};
use fleet_runtime::Key;
use futures::future::{join_all, try_join_all};
use kube::{
    Resource as _, ResourceExt as _,
    core::{
        ObjectMeta,
        object::{HasSpec as _, HasStatus as _},
    },
};
use serde_json::json;

use crate::{
    cache::family::{beside, parent},
    placement::context::{Context, Error},
    writer::Part,
};

/// How many new bindings the rollout begins with: one look at a few costs less than one at each.
const TOGETHER: usize = 16;

pub(super) async fn create<S: Scope>(
    ctx: &Context<S>,
    placement: &Key,
    policy: &str,
    list: &[Create],
) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(());
    }
    ctx.scheduler.creating.lock().insert(placement.clone());
    let answered = AtomicUsize::new(0);
    let each = list.iter().map(|create| async {
        let key = beside(placement, &create.binding);
        let make = || {
            // A placement that is going by now gets no more bindings.
            let owner = ctx.family.placements.get(placement)?;
            if owner.meta().deletion_timestamp.is_some() {
                return None;
            }
            let label = (labels::PARENT_PLACEMENT.to_owned(), placement.name().to_owned());
            let meta = ObjectMeta {
                name: Some(create.binding.clone()),
                namespace: placement.namespace().map(ToOwned::to_owned),
                labels: Some(BTreeMap::from([label])),
                finalizers: Some(vec![finalizers::SCHEDULER_BINDING.to_owned()]),
                ..ObjectMeta::default()
            };
            let spec = BindingSpec {
                state: BindingState::Scheduled,
                scheduling_policy_snapshot_name: policy.to_owned(),
                target_cluster: create.cluster.clone(),
                cluster_decision: create.decision.clone(),
                ..BindingSpec::default()
            };
            Some(RawJson::from_serialize(&S::Binding::from_spec(meta, spec)))
        };
        let written = ctx
            .shared
            .writer
            .create(&ctx.family.bindings, &key, placement, make)
            .await?;
        if written.is_some() {
            tracing::info!(cluster = create.cluster, binding = %key, "Picked cluster");
        } else if let Some(found) = ctx.family.bindings.get(&key) {
            // Its name is derived, so this is ours from a request whose answer was lost, or somebody has changed it.
            let (owner, cluster) = (parent(&*found), found.spec().target_cluster.as_str());
            if owner.as_ref() != Some(placement) || cluster != create.cluster {
                return Err(Error::Held(format!(
                    "cannot place on cluster {:?}: binding {key} has its name and is not this placement's binding for it; \
                     restore its label {} and its targetCluster, or delete it",
                    create.cluster,
                    labels::PARENT_PLACEMENT
                )));
            }
        }
        if (answered.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(TOGETHER) {
            ctx.queues.rollout.add(placement.clone());
        }
        Ok::<_, Error>(())
    });
    // All of them, whatever becomes of the others.
    let all: Result<Vec<()>, Error> = join_all(each).await.into_iter().collect();
    ctx.scheduler.creating.lock().remove(placement);
    ctx.queues.rollout.add(placement.clone());
    all.map(drop)
}

pub(crate) async fn patch<S: Scope>(
    ctx: &Context<S>,
    placement: &Key,
    policy: &str,
    list: &[Patch],
) -> Result<(), Error> {
    let each = list.iter().map(|change| async move {
        let key = beside(placement, &change.binding);
        let body = |found: &S::Binding| {
            if found.meta().deletion_timestamp.is_some() {
                return None;
            }
            let spec = found.spec();
            // The rollout may have bound it since; only what is picked again gets another state.
            let state = if change.restored { &change.state } else { &spec.state };
            let current = spec.scheduling_policy_snapshot_name == policy
                && spec.state == *state
                && spec.cluster_decision == change.decision;
            let mut patch = json!({ "spec": {
                "state": state,
                "schedulingPolicySnapshotName": policy,
                "clusterDecision": change.decision,
            } });
            if change.restored {
                patch["metadata"]["annotations"][annotations::PREVIOUS_BINDING_STATE] = json!(null);
            }
            (!current).then_some(patch)
        };
        ctx.shared
            .writer
            .patch(&ctx.family.bindings, &key, placement, Part::Object, body)
            .await
    });
    try_join_all(each).await?;
    Ok(())
}

pub(crate) async fn unschedule<S: Scope>(ctx: &Context<S>, placement: &Key, list: &[Unschedule]) -> Result<(), Error> {
    let each = list.iter().map(|gone| async move {
        let key = beside(placement, &gone.binding);
        let body = |found: &S::Binding| {
            let stays = found.meta().deletion_timestamp.is_none() && found.spec().state != BindingState::Unscheduled;
            stays.then(|| {
                json!({
                    "metadata": { "annotations": { annotations::PREVIOUS_BINDING_STATE: found.spec().state } },
                    "spec": { "state": BindingState::Unscheduled },
                })
            })
        };
        let bindings = &ctx.family.bindings;
        if ctx
            .shared
            .writer
            .patch(bindings, &key, placement, Part::Object, body)
            .await?
            .is_some()
        {
            tracing::info!(cluster = gone.cluster, binding = %key, "Cluster is no longer picked");
        }
        Ok::<_, Error>(())
    });
    try_join_all(each).await?;
    Ok(())
}

/// Takes the scheduler's finalizer off.
pub(super) async fn release<S: Scope>(ctx: &Context<S>, placement: &Key, list: &[Key]) -> Result<(), Error> {
    let each = list.iter().map(|key| {
        let body = |found: &S::Binding| {
            let ours = |held: &&String| held.as_str() == finalizers::SCHEDULER_BINDING;
            let rest: Vec<_> = found.finalizers().iter().filter(|held| !ours(held)).collect();
            (rest.len() < found.finalizers().len()).then(|| json!({ "metadata": { "finalizers": rest } }))
        };
        ctx.shared
            .writer
            .patch(&ctx.family.bindings, key, placement, Part::Object, body)
    });
    try_join_all(each).await?;
    Ok(())
}

pub(super) async fn status<S: Scope>(
    ctx: &Context<S>,
    placement: &Key,
    policy: &S::PolicySnapshot,
    status: &PolicySnapshotStatus,
) -> Result<(), Error> {
    let key = Key::of(policy);
    let mut failed = None;
    let body = |found: &S::PolicySnapshot| {
        // `observedCRPGeneration` is required, so the first status is sent whole.
        let patch = match found.status() {
            Some(before) => patch::between(before, status),
            None => serde_json::to_value(status).map(Some),
        };
        let patch = patch.map_err(|error| failed = Some(error)).ok()??;
        Some(json!({ "status": patch }))
    };
    let policies = &ctx.family.policies;
    ctx.shared
        .writer
        .patch(policies, &key, placement, Part::Status, body)
        .await?;
    failed.map_or(Ok(()), |error| Err(Error::Compare(key.to_string(), error)))
}
