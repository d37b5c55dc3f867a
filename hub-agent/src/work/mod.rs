//! From bindings to Works in the members' namespaces. What became of them goes to the binding roll-up (`status::binding`),
//! and so do members' reports, as long as nothing here waits for them.
//!
//! Watches bindings, Works, snapshots, the placements' strategies, the clusters' labels, and whether one is held after the hub
//! went back in time; overrides come with what a binding names. Writes Works and bindings' finalizers. The decisions are
//! `fleet_core::work`.

mod confirm;
mod kept;
mod removal;
mod render;
mod write;

use fleet_api::{
    events::Event as _,
    names::ClusterName,
    placement::{RolloutStrategy, Scope},
};
use fleet_core::session::recovery;
use fleet_core::work::{Existing, Owner, Plan, Recovery, Rendering, WorkFailure, is_synced_without_snapshot, plan};
use fleet_runtime::{Key, cache::Change, controller, queue::Next};
use kube::{
    Resource as _,
    core::{ObjectMeta, object::HasSpec as _},
};

use crate::{
    binding,
    cache::{family::parent, works::HubWork},
    pipeline::{Error, Pipeline, Stage, Told, key_of},
    writer::record,
};

use self::write::Refusal;

/// The work generator of one scope.
pub(crate) type WorkGenerator<S> = Stage<S, WorkMemory>;

/// What the work generator remembers.
#[derive(Default)]
pub(crate) struct WorkMemory {
    renderings: kept::Kept,
    /// The last complaint about each binding.
    told: Told<String>,
    departed: confirm::Departed,
}

/// What a binding's Works depend on.
pub(crate) async fn feed<S: Scope>(ctx: &WorkGenerator<S>) {
    let queue = || ctx.queue.clone();
    let of_placement = |key: Option<Key>| key.map(|key| ctx.family.bindings_of.keys(&key)).unwrap_or_default();
    tokio::join!(
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            matters(ctx, change).then(|| change.key.clone())
        }),
        controller::feed(ctx.shared.works.store.subscribe(), queue(), |change| {
            let binding = change.object().binding().filter(Pipeline::<S>::is_ours);
            binding.filter(|_| ctx.reported(change).is_none())
        }),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), |change| {
            of_placement(change.old.is_none().then(|| parent(&**change.object())).flatten())
        }),
        // These are read from the placement and reach all Works at once.
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            if change.new.is_none() {
                ctx.memory.renderings.forget(&change.key);
            }
            let matters = change.differs(|p| {
                let strategy = p.spec().strategy.as_ref();
                let strategies = strategy.map(|s| (s.report_back_strategy.clone(), s.delete_strategy.clone()));
                (strategies, p.meta().deletion_timestamp.is_some())
            });
            of_placement(matters.then(|| change.key.clone()))
        }),
        // What was held back goes on.
        controller::feed(ctx.shared.internals.subscribe(), queue(), |change| {
            let matters = change.differs(|imc| recovery::Recovery::of(imc.metadata.annotations.as_ref()));
            let cluster = change.key.name().to_owned();
            if matters {
                ctx.family.bindings_on.keys(&cluster)
            } else {
                Vec::new()
            }
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

/// Whether a binding's Works may have to be other ones: not for what is said of them, once they are what they should be.
fn matters<S: Scope>(ctx: &Pipeline<S>, change: &Change<S::Binding>) -> bool {
    let generation = change.object().meta().generation.unwrap_or_default();
    let differs = change.differs(|binding| {
        let ObjectMeta {
            uid,
            generation,
            labels,
            annotations,
            finalizers,
            deletion_timestamp,
            ..
        } = binding.meta();
        (uid, generation, labels, annotations, finalizers, deletion_timestamp)
    });
    differs || !ctx.signals.is_closed(&change.key, Some(generation))
}

#[tracing::instrument(name = "work", level = "error", skip_all, fields(binding = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &WorkGenerator<S>, key: &Key) -> Result<Next, Error> {
    // First of all: a report that this pass does not see brings the next one.
    ctx.signals.begin_works(key);
    let Some(binding) = ctx.family.bindings.get(key) else {
        ctx.signals.forget_works(key);
        ctx.memory.told.forget(key);
        return confirm::orphans(ctx, key).await;
    };
    let Some(placement) = parent(&*binding) else {
        return Ok(Next::Wait);
    };
    let Ok(cluster) = ClusterName::new(binding.spec().target_cluster.clone()) else {
        return Ok(Next::Wait);
    };
    if binding::is_ending(ctx, &placement, &binding) {
        ctx.signals.withdraw_works(key);
        return removal::pass(ctx, key, &placement, &binding, &cluster).await;
    }
    if !ctx.is_served() {
        return Ok(Next::Wait);
    }
    if !binding::is_ready(ctx, &placement, &binding) {
        ctx.signals.withdraw_works(key);
        return Ok(Next::Wait);
    }
    binding::hold(ctx, &placement, key).await?;
    let existing = own(ctx, key, &cluster);
    let outcome = match render::render(ctx, &placement, &binding) {
        Ok(rendered) => generate(ctx, key, &placement, &binding, &cluster, &rendered, existing).await?,
        Err(WorkFailure::MasterMissing)
            if is_synced_without_snapshot(&existing, placement.name(), &binding.spec().resource_snapshot_name) =>
        {
            Ok(())
        }
        Err(failure) => Err(failure),
    };
    complain::<S>(ctx, &binding, &cluster, outcome.as_ref().err());
    let generation = binding.meta().generation.unwrap_or_default();
    let again = outcome
        .as_ref()
        .err()
        .filter(|failure| failure.recovery() == Recovery::Retry);
    let again = again.map(ToString::to_string);
    ctx.signals.conclude_works(key, generation, outcome.err());
    again.map_or(Ok(Next::Wait), |why| Err(Error::NotYet(why)))
}

/// An Event for the failure that has one, once: the pass is repeated until somebody has acted.
fn complain<S: Scope>(
    ctx: &WorkGenerator<S>,
    binding: &S::Binding,
    cluster: &ClusterName,
    failure: Option<&WorkFailure>,
) {
    let key = Key::of(binding);
    let event = failure.and_then(|failure| failure.event(&cluster.namespace()));
    let Some(event) = event else {
        ctx.memory.told.forget(&key);
        return;
    };
    if ctx.memory.told.is_news(&key, event.message()) {
        record(&ctx.shared.events, Pipeline::<S>::scope(), binding, &event);
    }
}

/// The binding's Works.
fn own<S: Scope>(ctx: &Pipeline<S>, key: &Key, cluster: &ClusterName) -> Vec<Existing> {
    let namespace = cluster.namespace();
    let works = ctx.shared.works.by_binding.get(key);
    let here = works
        .iter()
        .filter(|work| work.metadata.namespace.as_ref() == Some(&namespace));
    here.map(|work| existing(work)).collect()
}

fn existing(work: &HubWork) -> Existing {
    Existing {
        hash: work.hash.to_string(),
        ..Existing::of(&work.without_manifests())
    }
}

/// Makes the Works what the binding asks for. The inner error is for the user, in the binding's status.
async fn generate<S: Scope>(
    ctx: &WorkGenerator<S>,
    key: &Key,
    placement: &Key,
    binding: &S::Binding,
    cluster: &ClusterName,
    (rendering, index): &(std::sync::Arc<Rendering>, String),
    mut existing: Vec<Existing>,
) -> Result<Result<(), WorkFailure>, Error> {
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
        abandon: strategy.is_some_and(RolloutStrategy::abandons),
    };
    let plan: Plan = plan(&owner, rendering, &existing);
    if !plan.deletes.is_empty() {
        confirm::binding(ctx, key, binding).await?;
    }
    ctx.signals.plan_works(key, &plan, ctx.now());
    let written = match write::works(ctx, placement, cluster, &plan).await {
        Err(Refusal::Conflict(error)) => return Err(error.into()),
        Err(Refusal::Failed(failure)) => Err(failure),
        // The change of its InternalMemberCluster brings the next look.
        Err(Refusal::Held) | Ok(()) => Ok(()),
    };
    Ok(written.and(plan.failures.into_iter().next().map_or(Ok(()), Err)))
}
