//! From what users write to snapshots, and from what became of it back to the placement's status.
//!
//! ```text
//! Placement ─► select ─► policy snapshot ─► scheduler ─► bindings ─► rollout ─► work ─► Works
//!     ▲                  resource snapshots ─────────────────────────────┘        │
//!     └────────────────────────── rollup ◄── bindings' status ◄──────────────────┤
//! users' objects ◄────────── report back ◄── Works' status ◄──────────────────────┘
//! ```
//!
//! Watches placements, snapshots, bindings and users' own objects. Writes placements (finalizers, status), snapshots and,
//! where a placement asks for it, the status of users' objects.
//! Every stage has a queue of its own in [`context`]; the decisions are `fleet_core`'s.

pub(crate) mod ahead;
pub(crate) mod context;
mod delete;
pub(crate) mod metrics;
mod mirror;
pub(crate) mod report_back;
pub(crate) mod rollup;
mod select;
mod snapshots;
pub(crate) mod steps;
#[cfg(test)]
mod tests;
pub(crate) mod told;

use fleet_api::{
    conditions::{self, placement::Step},
    events::PlacementEvent,
    finalizers,
    placement::{RolloutStrategyType, Scope},
};
use fleet_runtime::{
    Key,
    controller::{self, Measures},
    logs,
    queue::Next,
};
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::context::{Context, Error, Judged, Selected, key_of};
pub(crate) use self::delete::delete;
use crate::{cache::family::parent, cache::user::Touched, rollout, scheduler, work, writer::Part};

/// The names under which the stages appear in logs and metrics.
struct Names {
    placement: &'static str,
    schedule: &'static str,
    rollout: &'static str,
    work: &'static str,
    rollup: &'static str,
    report: &'static str,
}

const CLUSTER: Names = Names {
    placement: "clusterresourceplacement-controller",
    schedule: "clusterresourceplacement-scheduler",
    rollout: "clusterresourceplacement-rollout",
    work: "clusterresourcebinding-work-generator",
    rollup: "clusterresourceplacement-status",
    report: "clusterresourceplacement-status-back-reporter",
};
const NAMESPACED: Names = Names {
    placement: "resourceplacement-controller",
    schedule: "resourceplacement-scheduler",
    rollout: "resourceplacement-rollout",
    work: "resourcebinding-work-generator",
    rollup: "resourceplacement-status",
    report: "resourceplacement-status-back-reporter",
};

/// Runs all stages of one scope for one term of leadership.
pub(crate) async fn run<S: Scope>(ctx: Context<S>, measures: Measures, stop: CancellationToken) {
    let names = match Context::<S>::scope() {
        fleet_api::names::Scope::Cluster => CLUSTER,
        fleet_api::names::Scope::Namespaced => NAMESPACED,
    };
    let feeds = async {
        tokio::join!(
            feed(&ctx),
            scheduler::feed(&ctx),
            rollout::feed(&ctx),
            work::feed(&ctx),
            rollup::feed(&ctx),
            report_back::feed(&ctx),
        )
    };
    macro_rules! stage {
        ($queue:ident, $pass:path) => {{
            let options = controller::Options::new(names.$queue);
            let passing = ctx.clone();
            let pass = move |key| {
                let ctx = passing.clone();
                async move { again_after_conflict($pass(&ctx, &key).await) }
            };
            controller::run(ctx.queues.$queue.clone(), options, measures.clone(), stop.clone(), pass)
        }};
    }
    let stages = async {
        tokio::join!(
            stage!(placement, pass),
            stage!(schedule, scheduler::pass),
            stage!(rollout, rollout::pass),
            stage!(work, work::pass),
            stage!(rollup, rollup::pass),
            stage!(report, report_back::pass),
        )
    };
    tokio::select! {
        _ = stages => {}
        _ = feeds => {}
    }
}

/// Somebody else's write is no failure: nothing is waited for, since the store has it by now.
fn again_after_conflict(outcome: Result<Next, Error>) -> Result<Next, Error> {
    match outcome {
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "Deciding anew after a conflict");
            Ok(Next::At(Instant::now()))
        }
        other => other,
    }
}

/// What makes a placement's selection, snapshots or finalizers worth another look.
async fn feed<S: Scope>(ctx: &Context<S>) {
    let queue = || ctx.queues.placement.clone();
    tokio::join!(
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            let matters = change.differs(|p| {
                let m = p.meta();
                (
                    m.uid.clone(),
                    m.generation,
                    m.deletion_timestamp.clone(),
                    m.finalizers.clone(),
                )
            });
            matters.then(|| change.key.clone())
        }),
        // Others' edits and deletions; our own writes leave nothing to do.
        controller::feed(ctx.family.policies.subscribe(), queue(), |change| {
            let matters = change.old.is_some()
                && change.differs(|s| {
                    (
                        s.meta().generation,
                        s.meta().labels.clone(),
                        s.meta().annotations.clone(),
                    )
                });
            matters.then(|| parent(&**change.object())).flatten()
        }),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), |change| {
            let matters = change.old.is_some()
                && change.differs(|s| {
                    (
                        s.meta().generation,
                        s.meta().labels.clone(),
                        s.meta().annotations.clone(),
                    )
                });
            matters.then(|| parent(&**change.object())).flatten()
        }),
        // A binding that moves on may have been the last to name an old snapshot.
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            let matters = change.old.is_some()
                && change.differs(|b| {
                    let spec = b.spec();
                    (
                        spec.resource_snapshot_name.clone(),
                        spec.scheduling_policy_snapshot_name.clone(),
                    )
                });
            let owner = matters.then(|| parent(&**change.object())).flatten();
            owner.filter(|key| snapshots::has_surplus(ctx, key))
        }),
        touched(ctx),
    );
}

/// Users' own objects, and the kinds that they are of.
async fn touched<S: Scope>(ctx: &Context<S>) {
    let (scope, mut changes) = (Context::<S>::scope(), ctx.shared.user.listen());
    while let Some(change) = changes.recv().await {
        match change {
            Touched::Kinds((owner, key)) if owner == scope => {
                report_back::wake(ctx, &key);
                ctx.queues.placement.add(key);
            }
            Touched::Kinds(_) => {}
            Touched::Object(sides) => {
                let interests = ctx.interests.lock();
                for object in &sides {
                    let namespace = object.id.namespace.as_str();
                    let home = (!namespace.is_empty()).then(|| ctx.shared.user.namespace(namespace));
                    for key in interests.concerned(object, home.flatten().as_ref()) {
                        // Made anew, it has no status.
                        report_back::wake(ctx, &key);
                        ctx.queues.placement.add(key);
                    }
                }
            }
        }
    }
    std::future::pending::<()>().await;
}

#[tracing::instrument(name = "placement", level = "error", skip_all, fields(placement = %key))]
async fn pass<S: Scope>(ctx: &Context<S>, key: &Key) -> Result<Next, Error> {
    let live = ctx.family.placements.get(key);
    let Some(placement) = live.filter(|placement| placement.meta().deletion_timestamp.is_none()) else {
        forget(ctx, key);
        return Ok(Next::Wait);
    };
    let placed = place(ctx, key, &placement).await;
    match &placed {
        Err(error) if error.is_conflict() || matches!(error, Error::NotYet(_)) => {}
        Err(error) => {
            let error = logs::chain(error).to_string();
            ctx.complain(&placement, Some(PlacementEvent::Held { error }));
        }
        Ok((_, left_out)) => {
            let event = left_out.clone().map(|what| PlacementEvent::KindsLeftOut { what });
            ctx.complain(&placement, event);
        }
    }
    placed.map(|(next, _)| next)
}

/// A placement that is gone or going needs no selection any more.
fn forget<S: Scope>(ctx: &Context<S>, key: &Key) {
    ctx.interests.lock().remove(key);
    ctx.selections.lock().remove(key);
    ctx.told.forget(key);
    ctx.steps.forget(key);
    ctx.shared.user.release(&(Context::<S>::scope(), key.clone()));
    if ctx.family.placements.get(key).is_none() {
        work::forget(ctx, key);
    } else {
        // One queue does both scheduling and its end, so that no binding is made behind the deletion's back.
        ctx.queues.schedule.add(key.clone());
    }
}

/// Selection, finalizers and snapshots; when to look again, and which kinds could not be looked at.
async fn place<S: Scope>(
    ctx: &Context<S>,
    key: &Key,
    placement: &S::Placement,
) -> Result<(Next, Option<String>), Error> {
    // A name that is too long for a label: nothing could be found again, so nothing is made, not even a finalizer.
    key_of(key).map_err(|error| Error::Held(error.to_string()))?;
    let generation = placement.meta().generation.unwrap_or_default();
    let said = placement.status().map(|status| status.conditions.as_slice());
    let scheduled = Step::Scheduled.on_placement(Context::<S>::scope());
    if conditions::fresh(said.unwrap_or_default(), scheduled, generation).is_none() {
        ctx.steps.begin(key, generation);
    }
    // Before the objects are looked at, so that no change falls in between.
    let selectors = &placement.spec().resource_selectors;
    ctx.interests.lock().set(key, key.namespace(), selectors);
    let selected = match mirror::check(ctx, key, placement) {
        Ok(()) => select::select(ctx, key, placement).await?,
        Err(refusal) => Err(refusal),
    };
    let selected = match selected {
        Ok(selected) => selected,
        Err(refusal) => {
            hold(ctx, key, &[finalizers::PLACEMENT]).await?;
            judge(ctx, key, placement, Selected::Refused(refusal));
            return Ok((Next::Wait, None));
        }
    };
    let by_runs = placement.spec().rollout_type() == RolloutStrategyType::External;
    let resources = async {
        if by_runs {
            return Ok(None);
        }
        let content = select::content(ctx, key, &selected.objects).await?;
        snapshots::resources(ctx, key, placement, &content).await
    };
    // The owner reference covers a placement that is deleted before the finalizers are there.
    let (held, policy, resources) = tokio::join!(
        hold(ctx, key, &[finalizers::PLACEMENT, finalizers::SCHEDULER]),
        snapshots::policy(ctx, key, placement),
        resources,
    );
    held?;
    policy?;
    let wait = resources?;
    let shown = selected.objects.iter().filter(|_| by_runs);
    let shown = shown.map(fleet_core::selection::ObjectId::to_identifier).collect();
    judge(ctx, key, placement, Selected::Valid(shown));
    Ok((ctx.next(wait), selected.left_out))
}

fn judge<S: Scope>(ctx: &Context<S>, key: &Key, placement: &S::Placement, selected: Selected) {
    let judged = Judged {
        generation: placement.meta().generation.unwrap_or_default(),
        selected,
    };
    let before = ctx.selections.lock().insert(key.clone(), judged.clone());
    if before != Some(judged) {
        ctx.queues.rollup.add(key.clone());
        // By now what is selected is being watched.
        report_back::wake(ctx, key);
    }
}

/// Puts our finalizers on the placement.
async fn hold<S: Scope>(ctx: &Context<S>, key: &Key, wanted: &[&str]) -> Result<(), Error> {
    let patch = |placement: &S::Placement| {
        let mut list = placement.finalizers().to_vec();
        let missing = wanted
            .iter()
            .filter(|f| !placement.finalizers().iter().any(|held| held == *f));
        let missing: Vec<_> = missing.map(|f| (*f).to_owned()).collect();
        if missing.is_empty() || placement.meta().deletion_timestamp.is_some() {
            return None;
        }
        list.extend(missing);
        Some(json!({ "metadata": { "finalizers": list } }))
    };
    let placements = &ctx.family.placements;
    ctx.shared
        .writer
        .patch(placements, key, key, Part::Object, patch)
        .await?;
    Ok(())
}
