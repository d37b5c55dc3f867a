//! What a binding gives its cluster, as the rollout wants it.

use fleet_api::{
    finalizers,
    names::ClusterName,
    patch,
    placement::{ApplyStrategy, BindingSpec, BindingState, Scope},
};
use fleet_core::overrides::choose::Lists;
use fleet_runtime::Key;
use kube::{Resource as _, ResourceExt as _, core::object::HasSpec as _};
use serde_json::{Value, json};

use crate::{
    pipeline::{Error, Pipeline},
    recovery,
    writer::{Part, WriteError},
};

/// What a binding should name.
pub(crate) struct DesiredContent<'a> {
    pub(crate) snapshot: &'a str,
    pub(crate) lists: &'a Lists,
    pub(crate) strategy: &'a ApplyStrategy,
}

/// Gives a binding the latest resources, and in the same write the work generator's finalizer: from then on something
/// may be on the cluster.
pub(crate) async fn advance<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    wanted: &DesiredContent<'_>,
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
        tracing::info!(
            member = binding.spec().target_cluster,
            snapshot = wanted.snapshot,
            "Started rolling out"
        );
    }
    Ok(())
}

/// Writes only the apply strategy.
pub(crate) async fn push_strategy<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    strategy: &ApplyStrategy,
) -> Result<(), Error> {
    let change = |spec: &mut BindingSpec| spec.apply_strategy = Some(strategy.clone());
    write(ctx, placement, key, change).await?;
    Ok(())
}

async fn write<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    change: impl FnOnce(&mut BindingSpec) + Send,
) -> Result<Option<std::sync::Arc<S::Binding>>, Error> {
    let body = |found: &S::Binding| {
        if found.meta().deletion_timestamp.is_some() {
            return Ok(None);
        }
        let mut spec = found.spec().clone();
        change(&mut spec);
        let bound = spec.state == BindingState::Bound;
        difference::<S>(found, &spec, bound).map(unless_empty)
    };
    let bindings = &ctx.family.bindings;
    Ok(ctx
        .shared
        .writer
        .try_patch(bindings, key, placement, Part::Object, body)
        .await?)
}

/// The patch that gives a binding this spec, and the work generator's finalizer if it is to be held: from then on something
/// may be on the cluster.
pub(super) fn difference<S: Scope>(found: &S::Binding, spec: &BindingSpec, hold: bool) -> serde_json::Result<Value> {
    let mut body = json!({});
    if let Some(difference) = patch::between(found.spec(), spec)? {
        body["spec"] = difference;
    }
    if hold && !found.finalizers().iter().any(|held| held == finalizers::WORK) {
        let mut list = found.finalizers().to_vec();
        list.push(finalizers::WORK.to_owned());
        body["metadata"]["finalizers"] = json!(list);
    }
    Ok(body)
}

/// A patch, if it has anything in it.
pub(super) fn unless_empty(patch: Value) -> Option<Value> {
    patch
        .as_object()
        .is_some_and(|patch| !patch.is_empty())
        .then_some(patch)
}

/// Deletes a binding whose cluster is no longer picked.
pub(crate) async fn remove<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key) -> Result<(), Error> {
    let bindings = &ctx.family.bindings;
    let found = bindings.get(key);
    let cluster = found
        .as_ref()
        .and_then(|b| ClusterName::new(b.spec().target_cluster.clone()).ok());
    if cluster.is_some_and(|cluster| recovery::is_held(&ctx.shared.internals, &cluster, ctx.now())) {
        return Ok(());
    }
    let uid = found.and_then(|binding| binding.uid());
    delete_unscheduled(ctx, placement, key, uid.as_deref()).await?;
    Ok(())
}

/// Deletes the binding with this uid; picked again meanwhile, it stays. True if a request was sent and answered.
pub(super) async fn delete_unscheduled<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    uid: Option<&str>,
) -> Result<bool, WriteError> {
    let unscheduled = |found: &S::Binding| found.spec().state == BindingState::Unscheduled;
    let (bindings, writer) = (&ctx.family.bindings, &ctx.shared.writer);
    let sent = writer.delete(bindings, key, placement, uid, Some(&unscheduled)).await?;
    if sent {
        tracing::info!(binding = %key, "Started removing resources");
    }
    Ok(sent)
}
