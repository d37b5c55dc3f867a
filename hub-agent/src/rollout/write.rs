//! The rollout's writes.

use fleet_api::{
    conditions, finalizers, patch,
    placement::{ApplyStrategy, BindingSpec, BindingState, Scope},
};
use fleet_core::rollout::Blocked;
use fleet_runtime::Key;
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use serde_json::json;

use super::Wanted;
use crate::{
    placement::context::{Context, Error},
    writer::Part,
};

/// Gives a binding the latest resources, and in the same write the work generator's finalizer: from then on something
/// may be on the cluster.
pub(super) async fn advance<S: Scope>(
    ctx: &Context<S>,
    placement: &Key,
    key: &Key,
    wanted: &Wanted<'_>,
) -> Result<(), Error> {
    let change = |spec: &mut BindingSpec| {
        // The scheduler was faster: what is to go is not given anything new.
        if spec.state == BindingState::Unscheduled {
            return;
        }
        spec.state = BindingState::Bound;
        wanted.snapshot.clone_into(&mut spec.resource_snapshot_name);
        spec.cluster_resource_override_snapshots
            .clone_from(&wanted.lists.cluster_wide);
        spec.resource_override_snapshots.clone_from(&wanted.lists.namespaced);
        spec.apply_strategy = Some(wanted.strategy.clone());
    };
    if let Some(binding) = write(ctx, placement, key, change).await? {
        let generation = binding.meta().generation.unwrap_or_default();
        ctx.started.lock().insert(key.clone(), generation);
        // The store has woken the work generator already, perhaps before it could know that this was the start.
        ctx.queues.work.add(key.clone());
        tracing::info!(
            cluster = binding.spec().target_cluster,
            snapshot = wanted.snapshot,
            "Started rolling out"
        );
    }
    Ok(())
}

/// Writes only the apply strategy.
pub(super) async fn strategy<S: Scope>(
    ctx: &Context<S>,
    placement: &Key,
    key: &Key,
    strategy: &ApplyStrategy,
) -> Result<(), Error> {
    let change = |spec: &mut BindingSpec| spec.apply_strategy = Some(strategy.clone());
    write(ctx, placement, key, change).await?;
    Ok(())
}

async fn write<S: Scope>(
    ctx: &Context<S>,
    placement: &Key,
    key: &Key,
    change: impl FnOnce(&mut BindingSpec) + Send,
) -> Result<Option<std::sync::Arc<S::Binding>>, Error> {
    let mut failed = None;
    let body = |found: &S::Binding| {
        if found.meta().deletion_timestamp.is_some() {
            return None;
        }
        let mut spec = found.spec().clone();
        change(&mut spec);
        let bound = spec.state == BindingState::Bound;
        let difference = patch::between(found.spec(), &spec)
            .map_err(|error| failed = Some(error))
            .ok()?;
        let mut body = json!({});
        if let Some(difference) = difference {
            body["spec"] = difference;
        }
        if bound && !found.finalizers().iter().any(|held| held == finalizers::WORK) {
            let mut list = found.finalizers().to_vec();
            list.push(finalizers::WORK.to_owned());
            body["metadata"]["finalizers"] = json!(list);
        }
        body.as_object().is_some_and(|body| !body.is_empty()).then_some(body)
    };
    let bindings = &ctx.family.bindings;
    let written = ctx
        .shared
        .writer
        .patch(bindings, key, placement, Part::Object, body)
        .await?;
    match failed {
        Some(error) => Err(Error::Compare(key.to_string(), error)),
        None => Ok(written),
    }
}

/// Deletes a binding whose cluster is no longer picked.
pub(super) async fn remove<S: Scope>(ctx: &Context<S>, placement: &Key, key: &Key) -> Result<(), Error> {
    let bindings = &ctx.family.bindings;
    let uid = bindings.get(key).and_then(|binding| binding.uid());
    // Picked again meanwhile, it stays.
    let unscheduled = |found: &S::Binding| found.spec().state == BindingState::Unscheduled;
    if ctx
        .shared
        .writer
        .delete(bindings, key, placement, uid.as_deref(), Some(unscheduled))
        .await?
    {
        tracing::info!(binding = %key, "Started removing resources");
    }
    Ok(())
}

/// Says that a cluster has to wait, and why.
pub(super) async fn held<S: Scope>(ctx: &Context<S>, placement: &Key, key: &Key, why: &Blocked) -> Result<(), Error> {
    // From here on the work generator leaves the word to us.
    ctx.started.lock().remove(key);
    let mut failed = None;
    let now = ctx.now();
    let body = |found: &S::Binding| {
        let before = found.status().cloned().unwrap_or_default();
        let generation = found.meta().generation.unwrap_or_default();
        let mut after = before.clone();
        conditions::set(&mut after.conditions, &why.state(), generation, now);
        let patch = patch::between(&before, &after)
            .map_err(|error| failed = Some(error))
            .ok()??;
        Some(json!({ "status": patch }))
    };
    let bindings = &ctx.family.bindings;
    ctx.shared
        .writer
        .patch(bindings, key, placement, Part::Status, body)
        .await?;
    failed.map_or(Ok(()), |error| Err(Error::Compare(key.to_string(), error)))
}
