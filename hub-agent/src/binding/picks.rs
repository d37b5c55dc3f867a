//! Bindings as the scheduler wants them. Those of one list go side by side; the lists follow one another.

use std::sync::atomic::{AtomicUsize, Ordering};

use fleet_api::{
    annotations,
    kind::SpecKind as _,
    labels,
    placement::{BindingState, RolloutStrategyType, Scope},
    raw::RawJson,
};
use fleet_core::scheduler::{Create, Patch, Unschedule};
use fleet_runtime::Key;
use futures::future::{join_all, try_join_all};
use kube::{Resource as _, core::object::HasSpec as _};
use serde_json::json;

use crate::{
    cache::family::{beside, parent},
    pipeline::{Error, Pipeline},
    writer::Part,
};

/// How many new bindings the rollout begins with: one look at a few costs less than one at each.
const TOGETHER: usize = 16;

/// Creates the bindings of picked clusters.
pub(crate) async fn create<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    policy: &str,
    list: &[Create],
) -> Result<(), Error> {
    if list.is_empty() {
        return Ok(());
    }
    ctx.signals.begin_picking(placement);
    let answered = AtomicUsize::new(0);
    let each = list.iter().map(|create| async {
        let key = beside(placement, &create.binding);
        let make = || {
            // A placement that is going by now gets no more bindings.
            let owner = ctx.family.placements.get(placement)?;
            if owner.meta().deletion_timestamp.is_some() {
                return None;
            }
            let (meta, spec) = create.binding(placement.namespace(), placement.name(), policy);
            Some(RawJson::from_serialize(&S::Binding::from_spec(meta, spec)))
        };
        let written = ctx
            .shared
            .writer
            .create(&ctx.family.bindings, &key, placement, make)
            .await?;
        if written.is_some() {
            tracing::info!(member = create.cluster, binding = %key, "Picked cluster");
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
            ctx.signals.picked_some(placement);
        }
        Ok::<_, Error>(())
    });
    // All of them, whatever becomes of the others.
    let all: Result<Vec<()>, Error> = join_all(each).await.into_iter().collect();
    ctx.signals.end_picking(placement);
    all.map(drop)
}

/// Gives bindings the decision of another policy, and those that are picked again their state.
pub(crate) async fn move_to_policy<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    policy: &str,
    list: &[Patch],
) -> Result<(), Error> {
    let owner = ctx.family.placements.get(placement);
    let external = owner.is_some_and(|owner| owner.spec().rollout_type() == RolloutStrategyType::External);
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
                // Only a run that includes it may start it again.
                if external {
                    patch["metadata"]["annotations"][annotations::UPDATE_RUN] = json!("");
                }
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

/// Clusters that are no longer picked; the rollout decides when their bindings go.
pub(crate) async fn unschedule<S: Scope>(ctx: &Pipeline<S>, placement: &Key, list: &[Unschedule]) -> Result<(), Error> {
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
            tracing::info!(member = gone.cluster, binding = %key, "Cluster is no longer picked");
        }
        Ok::<_, Error>(())
    });
    try_join_all(each).await?;
    Ok(())
}
