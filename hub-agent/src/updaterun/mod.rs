//! Staged update runs: carries out what `fleet_core::updaterun` decides about one run.
//!
//! Watches runs, their strategies and approval requests, placements with what belongs to them, members, and the objects of
//! gates. Writes runs, approval requests, the bindings of clusters whose turn has come, on a snapshot that a run takes back
//! the annotation `failed-in`, and the snapshots of a run that names no index. Nothing is polled: a run is looked at when
//! something of it changes, and at the instant that the decision names.

mod advance;
mod approvals;
mod end;
mod expire;
mod gates;
mod gather;
mod initialize;
mod memory;
mod metrics;
pub(crate) mod standing;

use fleet_api::{
    annotations, finalizers,
    names::field_managers,
    patch,
    placement::{Scope, UpdateRunStatus},
};
use fleet_core::{
    session::recovery::Recovery,
    updaterun::{On, Phase, Run, Told},
};
use fleet_runtime::{Key, cache::Change, controller, queue::Next};
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};

pub(crate) use self::{memory::RunMemory, metrics::Measures};
use crate::{
    cache::{
        family::{beside, concerned, parent},
        runs::placement_of,
    },
    pipeline::{Error, Pipeline, Stage},
    writer::{Part, record, with_finalizers},
};

/// The update runs of one scope.
pub(crate) type UpdateRuns<S> = Stage<S, RunMemory>;

/// The view that decisions take.
fn view<S: Scope>(run: &S::UpdateRun) -> Run<'_> {
    Run::of(run.meta(), run.spec(), run.status())
}

/// What may let a run go on.
pub(crate) async fn feed<S: Scope>(ctx: &UpdateRuns<S>) {
    let queue = || ctx.queue.clone();
    let of_placement = |key: Option<Key>| waiting(ctx, key);
    tokio::join!(
        controller::feed(ctx.family.updates.runs.subscribe(), queue(), |change| {
            let own = edited(ctx, change).then(|| change.key.clone());
            own.into_iter().chain(expire::outdated(ctx, change)).collect::<Vec<_>>()
        }),
        controller::feed(ctx.family.updates.approvals.subscribe(), queue(), |change| {
            let request = change.object();
            let run = beside(&change.key, &request.spec().parent_stage_rollout);
            ctx.family.updates.runs.get(&run).map(|_| run)
        }),
        controller::feed(ctx.family.updates.strategies.subscribe(), queue(), |change| {
            let runs = ctx.family.updates.runs_by.get(&change.key).into_iter();
            let runs = runs.filter(|run| view::<S>(run).phase() == Phase::Uninitialized);
            runs.map(|run| Key::of(&*run)).collect::<Vec<_>>()
        }),
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            let owners = concerned(change).into_iter();
            owners.flat_map(|owner| of_placement(Some(owner))).collect::<Vec<_>>()
        }),
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            let matters = change.differs(|p| {
                let meta = p.meta();
                (meta.uid.clone(), meta.generation, meta.deletion_timestamp.is_some())
            });
            of_placement(matters.then(|| change.key.clone()))
        }),
        controller::feed(ctx.family.policies.subscribe(), queue(), |change| of_placement(parent(
            &**change.object()
        ))),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), |change| of_placement(
            parent(&**change.object())
        )),
        // What was held back for a cluster goes on.
        controller::feed(ctx.shared.internals.subscribe(), queue(), |change| {
            let matters = change.differs(|imc| Recovery::of(imc.metadata.annotations.as_ref()));
            let on = matters.then(|| ctx.family.bindings_on.get(&change.key.name().to_owned()));
            let owners = on.into_iter().flatten().filter_map(|binding| parent(&*binding));
            owners.flat_map(|owner| of_placement(Some(owner))).collect::<Vec<_>>()
        }),
        // Whether a cluster may be started now.
        controller::feed(ctx.shared.members.subscribe(), queue(), |change| {
            let matters = change.differs(|member| {
                let conditions = member.status.as_ref().map(|status| status.conditions.as_slice());
                let window = member.annotations().get(annotations::WINDOW).cloned();
                (conditions.is_some_and(gather::is_healthy), window)
            });
            let on = matters.then(|| ctx.family.bindings_on.get(&change.key.name().to_owned()));
            let owners = on.into_iter().flatten().filter_map(|binding| parent(&*binding));
            owners.flat_map(|owner| of_placement(Some(owner))).collect::<Vec<_>>()
        }),
        moved(ctx),
    );
}

/// Whether somebody else has changed what a run is decided from: its user, or whoever edits its status or takes its
/// finalizer away. Its own writes leave nothing to do.
fn edited<S: Scope>(ctx: &UpdateRuns<S>, change: &Change<S::UpdateRun>) -> bool {
    let asked = change.differs(|run| {
        let meta = run.meta();
        let rollback = run.annotations().get(annotations::ROLLBACK).cloned();
        (
            meta.uid.clone(),
            meta.generation,
            meta.deletion_timestamp.is_some(),
            rollback,
        )
    });
    let lost = matches!((&change.old, &change.new), (Some(old), Some(new)) if is_held::<S>(old) && !is_held::<S>(new));
    let status = change.object().status();
    asked || lost || change.differs(|run| run.status()) && !ctx.memory.wrote(&change.key, status)
}

/// What the hub knows of bindings before it is stored.
async fn moved<S: Scope>(ctx: &UpdateRuns<S>) {
    loop {
        let placement = ctx.signals.moved().await;
        for run in waiting(ctx, Some(placement)) {
            ctx.queue.add(run);
        }
    }
}

/// The runs of a placement for which something can happen.
fn waiting<S: Scope>(ctx: &Pipeline<S>, placement: Option<Key>) -> Vec<Key> {
    let runs = placement.map(|key| ctx.family.updates.runs_of.get(&key));
    let waits = |run: &S::UpdateRun| matches!(view::<S>(run).phase(), Phase::Uninitialized | Phase::Active);
    let runs = runs.into_iter().flatten().filter(|run| waits(run));
    runs.map(|run| Key::of(&*run)).collect()
}

#[tracing::instrument(name = "updaterun", level = "error", skip_all, fields(run = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &UpdateRuns<S>, key: &Key) -> Result<Next, Error> {
    let Some(run) = ctx.family.updates.runs.get(key) else {
        ctx.memory.gone(key);
        return Ok(Next::Wait);
    };
    if run.meta().deletion_timestamp.is_some() {
        ctx.memory.forget(key);
        return end::pass(ctx, key, &run).await;
    }
    if !ctx.is_served() || !ctx.shared.settings.update_runs {
        return Ok(Next::Wait);
    }
    match view::<S>(&run).phase() {
        Phase::Finished => {
            ctx.memory.forget(key);
            hold(ctx, key).await?;
            expire::pass(ctx, key, &run).await
        }
        Phase::Idle => {
            ctx.memory.rest(key);
            hold(ctx, key).await?;
            Ok(Next::Wait)
        }
        Phase::Uninitialized => {
            hold(ctx, key).await?;
            initialize::pass(ctx, key).await
        }
        Phase::Active => {
            hold(ctx, key).await?;
            advance::pass(ctx, key).await
        }
    }
}

/// Whether the run has our finalizer.
fn is_held<S: Scope>(run: &S::UpdateRun) -> bool {
    run.finalizers().iter().any(|held| held == finalizers::UPDATE_RUN)
}

/// Our finalizer: its approval requests go with a run, whatever became of the finalizer meanwhile.
async fn hold<S: Scope>(ctx: &Pipeline<S>, key: &Key) -> Result<(), Error> {
    let body = |found: &S::UpdateRun| with_finalizers(found, &[finalizers::UPDATE_RUN]);
    let (runs, writer) = (
        &ctx.family.updates.runs,
        ctx.shared.writer.named(field_managers::UPDATE_RUN),
    );
    writer.patch(runs, key, key, Part::Object, body).await?;
    Ok(())
}

/// Writes a run's status, which was decided about `run`. False if the run is another by now.
async fn write_status<S: Scope>(
    ctx: &UpdateRuns<S>,
    key: &Key,
    run: &S::UpdateRun,
    status: &UpdateRunStatus,
) -> Result<bool, Error> {
    let mut overtaken = true;
    let body = |found: &S::UpdateRun| {
        if found.meta().resource_version != run.meta().resource_version {
            return Ok(None);
        }
        overtaken = false;
        ctx.memory.writes(key, status);
        patch::between_statuses(&found.status().cloned().unwrap_or_default(), status)
    };
    let runs = &ctx.family.updates.runs;
    let placement = placement_of::<S>(run);
    ctx.shared
        .writer
        .try_patch(runs, key, &placement, Part::Status, body)
        .await?;
    Ok(!overtaken)
}

/// Records Events.
fn tell<S: Scope>(ctx: &Pipeline<S>, run: &S::UpdateRun, events: &[Told]) {
    let (recorder, scope) = (&ctx.shared.events, Pipeline::<S>::scope());
    for told in events {
        match &told.on {
            On::Run => record(recorder, scope, run, &told.event),
            On::Approval(name) => {
                let request = ctx.family.updates.approvals.get(&beside(&Key::of(run), name));
                if let Some(request) = request {
                    record(recorder, scope, &*request, &told.event);
                }
            }
        }
    }
}
