//! From bindings to Works in the members' namespaces, and from their status back to the bindings'.
//!
//! Watches bindings, Works, snapshots, overrides and the placements' strategies. Writes Works, bindings' status and their
//! finalizer. The decisions are `fleet_core::work`.

mod removal;
mod render;
mod status;
mod write;

use std::collections::HashMap;

use fleet_api::{
    conditions::{
        self,
        binding::{RolloutStarted, WorkSynchronized},
    },
    events::Event as _,
    finalizers,
    names::ClusterName,
    placement::{BindingState, BindingStatus, DeletePropagationPolicy, Scope},
};
use fleet_core::work::{
    ContentClock, Existing, Failure, Owner, Plan, Recovery, Rendering, is_synced_without_snapshot, plan,
};
use fleet_runtime::{Key, controller, queue::Next};
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;
use serde_json::json;

use crate::{
    cache::family::parent,
    placement::{
        ahead::Ahead,
        context::{Context, Error, key_of, tell},
        told::Told,
    },
    writer::Part,
};

#[cfg(test)]
pub(crate) use self::status::write as write_status;
use self::write::Refusal;

/// What the work generator remembers.
#[derive(Default)]
pub(crate) struct Memory {
    /// Since when each binding's Works have the content that they have.
    clocks: Mutex<HashMap<Key, ContentClock>>,
    renderings: render::Cache,
    /// What bindings are about to say.
    pub(crate) ahead: Ahead<BindingStatus>,
    /// The last complaint about each binding.
    told: Told<String>,
}

/// What a binding's Works depend on.
pub(crate) async fn feed<S: Scope>(ctx: &Context<S>) {
    let queue = || ctx.queues.work.clone();
    let of_placement = |key: Option<Key>| key.map(|key| ctx.family.bindings_of.keys(&key)).unwrap_or_default();
    tokio::join!(
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| [change.key.clone()]),
        controller::feed(ctx.shared.works.store.subscribe(), queue(), |change| {
            change.object().binding().filter(Context::<S>::is_ours)
        }),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), |change| {
            of_placement(change.old.is_none().then(|| parent(&**change.object())).flatten())
        }),
        // These are read from the placement and reach all Works at once.
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            let matters = change.differs(|p| {
                let strategy = p.spec().strategy.as_ref();
                let strategies = strategy.map(|s| (s.report_back_strategy.clone(), s.delete_strategy.clone()));
                (strategies, p.meta().deletion_timestamp.is_some())
            });
            of_placement(matters.then(|| change.key.clone()))
        }),
        controller::feed(ctx.shared.members.subscribe(), queue(), |change| {
            let matters = change.differs(|m| m.metadata.labels.clone());
            let cluster = change.key.name().to_owned();
            if matters {
                ctx.family.bindings_on.keys(&cluster)
            } else {
                Vec::new()
            }
        }),
    );
}

#[tracing::instrument(name = "work", level = "error", skip_all, fields(binding = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Context<S>, key: &Key) -> Result<Next, Error> {
    let Some(binding) = ctx.family.bindings.get(key) else {
        ctx.started.lock().remove(key);
        ctx.work.clocks.lock().remove(key);
        ctx.work.told.forget(key);
        ctx.work.ahead.remove(key);
        ctx.rollout.forget(key);
        return Ok(Next::Wait);
    };
    let Some(placement) = parent(&*binding) else {
        return Ok(Next::Wait);
    };
    let Ok(cluster) = ClusterName::new(binding.spec().target_cluster.clone()) else {
        return Ok(Next::Wait);
    };
    if binding.meta().deletion_timestamp.is_some() || is_ending(ctx, &placement) {
        ctx.work.ahead.remove(key);
        return removal::pass(ctx, key, &placement, &binding, &cluster).await;
    }
    let ready = match binding.spec().state {
        BindingState::Bound => is_started::<S>(ctx, key, &binding),
        // It keeps what it has until it goes.
        BindingState::Unscheduled => !binding.spec().resource_snapshot_name.is_empty(),
        _ => false,
    };
    // Nothing is written for a cluster that is not there, or of which nothing is known: its labels decide what it gets.
    let member = ctx.shared.members.get(&Key::cluster(cluster.as_str()));
    if !ready || member.is_none() {
        ctx.work.ahead.remove(key);
        return Ok(Next::Wait);
    }
    hold(ctx, key, &placement).await?;
    let existing = own(ctx, key, &cluster);
    let outcome = match render::render(ctx, &placement, &binding) {
        Ok(rendered) => generate(ctx, key, &placement, &binding, &cluster, &rendered, existing).await?,
        Err(Failure::MasterMissing)
            if is_synced_without_snapshot(&existing, placement.name(), &binding.spec().resource_snapshot_name) =>
        {
            Ok(())
        }
        Err(failure) => Err(failure),
    };
    // Of this generation only: Works of the content before say nothing about the one that came meanwhile.
    let generation = binding.meta().generation.unwrap_or_default();
    let next = status::write(ctx, key, &placement, &cluster, generation, outcome.as_ref().err()).await?;
    complain::<S>(ctx, &binding, &cluster, outcome.as_ref().err());
    match outcome {
        Err(failure) if failure.recovery() == Recovery::Retry => Err(Error::NotYet(failure.to_string())),
        _ => Ok(next),
    }
}

/// Whether the placement is being deleted: its bindings are about to be, and their Works need not wait for it.
fn is_ending<S: Scope>(ctx: &Context<S>, placement: &Key) -> bool {
    let placement = ctx.family.placements.get(placement);
    placement.is_some_and(|placement| placement.meta().deletion_timestamp.is_some())
}

/// An Event for the failure that has one, once: the pass is repeated until somebody has acted.
fn complain<S: Scope>(ctx: &Context<S>, binding: &S::Binding, cluster: &ClusterName, failure: Option<&Failure>) {
    let key = Key::of(binding);
    let event = failure.and_then(|failure| failure.event(&cluster.namespace()));
    let Some(event) = event else {
        ctx.work.told.forget(&key);
        return;
    };
    if ctx.work.told.is_news(&key, event.message()) {
        tell(&ctx.shared.events, Context::<S>::scope(), binding, &event);
    }
}

/// Whether the rollout has spoken about the binding as it is: it has been started, or waits for something newer and keeps
/// its Works in step until then. Else nobody would renew what is said of them, and the rollout would wait for that.
fn is_started<S: Scope>(ctx: &Context<S>, key: &Key, binding: &S::Binding) -> bool {
    let generation = binding.meta().generation.unwrap_or_default();
    let list = binding
        .status()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    ctx.started.lock().get(key) == Some(&generation)
        || conditions::fresh(list, RolloutStarted::TYPE, generation).is_some()
        || conditions::fresh(list, WorkSynchronized::TYPE, generation).is_some()
}

/// Our finalizer, where the rollout has not put it: on bindings of update runs, or of other versions.
async fn hold<S: Scope>(ctx: &Context<S>, key: &Key, placement: &Key) -> Result<(), Error> {
    let body = |found: &S::Binding| {
        if found.meta().deletion_timestamp.is_some() || found.finalizers().iter().any(|f| f == finalizers::WORK) {
            return None;
        }
        let mut list = found.finalizers().to_vec();
        list.push(finalizers::WORK.to_owned());
        Some(json!({ "metadata": { "finalizers": list } }))
    };
    let bindings = &ctx.family.bindings;
    ctx.shared
        .writer
        .patch(bindings, key, placement, Part::Object, body)
        .await?;
    Ok(())
}

/// The binding's Works.
fn own<S: Scope>(ctx: &Context<S>, key: &Key, cluster: &ClusterName) -> Vec<Existing> {
    let namespace = cluster.namespace();
    let works = ctx.shared.works.by_binding.get(key);
    let here = works
        .iter()
        .filter(|work| work.metadata.namespace.as_ref() == Some(&namespace));
    here.map(|work| existing(work)).collect()
}

fn existing(work: &crate::session::HeldWork) -> Existing {
    Existing {
        hash: work.hash.to_string(),
        ..Existing::of(&work.without_manifests())
    }
}

/// Makes the Works what the binding asks for. The inner error is for the user, in the binding's status.
async fn generate<S: Scope>(
    ctx: &Context<S>,
    key: &Key,
    placement: &Key,
    binding: &S::Binding,
    cluster: &ClusterName,
    (rendering, index): &(std::sync::Arc<Rendering>, String),
    mut existing: Vec<Existing>,
) -> Result<Result<(), Failure>, Error> {
    let name = key_of(placement)?;
    for piece in &rendering.pieces {
        let taken = crate::cache::in_namespace(&cluster.namespace(), &piece.name);
        if existing.iter().all(|work| work.name != piece.name)
            && let Some(work) = ctx.shared.works.store.get(&taken)
        {
            existing.push(self::existing(&work));
        }
    }
    let owner_object = ctx.family.placements.get(placement);
    let strategy = owner_object
        .as_ref()
        .and_then(|placement| placement.spec().strategy.as_ref());
    let owner = Owner {
        placement: &name,
        binding: key.name(),
        spec: binding.spec(),
        index,
        report_back: strategy.and_then(|strategy| strategy.report_back_strategy.as_ref()),
        abandon: strategy.is_some_and(|s| {
            let delete = s.delete_strategy.as_ref();
            delete.is_some_and(|delete| delete.propagation_policy == DeletePropagationPolicy::Abandon)
        }),
    };
    let plan: Plan = plan(&owner, rendering, &existing);
    let clock = if plan.changes_content() {
        ContentClock::Since(ctx.now())
    } else {
        // What this process has not changed while it knew the binding is as it was.
        let known = ctx.work.clocks.lock().get(key).copied();
        known.unwrap_or(ContentClock::Unknown)
    };
    ctx.work.clocks.lock().insert(key.clone(), clock);
    let written = match write::works(ctx, placement, cluster, &plan).await {
        Err(Refusal::Conflict(error)) => return Err(error.into()),
        Err(Refusal::Failed(failure)) => Err(failure),
        Ok(()) => Ok(()),
    };
    Ok(written.and(plan.failures.into_iter().next().map_or(Ok(()), Err)))
}

/// Forgets what was rendered for a placement that is gone.
pub(crate) fn forget<S: Scope>(ctx: &Context<S>, placement: &Key) {
    ctx.work.renderings.forget(placement);
}
