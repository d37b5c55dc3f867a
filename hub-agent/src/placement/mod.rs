//! From what users write to snapshots, and from what became of it back to the placement's status.
//!
//! ```text
//! Placement ─► select ─► policy snapshot ─► scheduler ─► bindings ─► rollout ─► work ─► Works
//!     ▲                  resource snapshots ─────────────────────────────┘        │
//!     └────────────────────────── rollup ◄── bindings' status ◄──────────────────┘
//! ```
//!
//! Watches placements, snapshots, bindings and users' own objects. Writes placements (finalizers, status) and snapshots.
//! Every stage has a queue of its own in [`context`]; the decisions are `fleet_core`'s.

pub(crate) mod context;
mod delete;
pub(crate) mod metrics;
pub(crate) mod rollup;
mod select;
mod snapshots;

use fleet_api::{
    finalizers,
    placement::{RolloutStrategyType, Scope},
};
use fleet_core::selection;
use fleet_runtime::{
    Key,
    controller::{self, Measures},
    queue::Next,
};
use kube::{Resource as _, ResourceExt as _, core::object::HasSpec as _};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use self::context::{Context, Error, Judged, Selected};
pub(crate) use self::delete::delete;
use crate::{cache::family::parent, cache::user::Touched, rollout, scheduler, work, writer::Part};

/// The names under which the stages appear in logs and metrics.
struct Names {
    placement: &'static str,
    schedule: &'static str,
    rollout: &'static str,
    work: &'static str,
    rollup: &'static str,
}

const CLUSTER: Names = Names {
    placement: "clusterresourceplacement-controller",
    schedule: "clusterresourceplacement-scheduler",
    rollout: "clusterresourceplacement-rollout",
    work: "clusterresourcebinding-work-generator",
    rollup: "clusterresourceplacement-status",
};
const NAMESPACED: Names = Names {
    placement: "resourceplacement-controller",
    schedule: "resourceplacement-scheduler",
    rollout: "resourceplacement-rollout",
    work: "resourcebinding-work-generator",
    rollup: "resourceplacement-status",
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
        )
    };
    macro_rules! stage {
        ($queue:ident, $pass:path) => {{
            let options = controller::Options::new(names.$queue);
            let passing = ctx.clone();
            let pass = move |key| {
                let ctx = passing.clone();
                async move { $pass(&ctx, &key).await }
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
        )
    };
    tokio::select! {
        _ = stages => {}
        _ = feeds => {}
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

/// Users' own objects.
async fn touched<S: Scope>(ctx: &Context<S>) {
    let mut changes = ctx.shared.user.listen();
    while let Some(Touched { before, after }) = changes.recv().await {
        let sides: Vec<_> = before.iter().chain(&after).collect();
        let Some(object) = sides.first() else { continue };
        let namespace = &object.id.namespace;
        let home = (!namespace.is_empty())
            .then(|| ctx.shared.user.namespace(namespace))
            .flatten();
        for placement in ctx.family.placements.all() {
            let key = Key::of(&*placement);
            if key.namespace().is_some_and(|own| own != namespace.as_str()) {
                continue;
            }
            let selectors = &placement.spec().resource_selectors;
            let touches = |object| selection::touches(Context::<S>::scope(), selectors, object, home.as_ref());
            if sides.iter().any(|object| touches(object)) {
                ctx.queues.placement.add(key);
            }
        }
    }
    std::future::pending::<()>().await;
}

#[tracing::instrument(name = "placement", level = "error", skip_all, fields(placement = %key))]
async fn pass<S: Scope>(ctx: &Context<S>, key: &Key) -> Result<Next, Error> {
    let Some(placement) = ctx.family.placements.get(key) else {
        ctx.selections.lock().remove(key);
        return Ok(Next::Wait);
    };
    if placement.meta().deletion_timestamp.is_some() {
        // One queue does both scheduling and its end, so that no binding is made behind the deletion's back.
        ctx.queues.schedule.add(key.clone());
        return Ok(Next::Wait);
    }
    let selected = match select::select(ctx, key, &placement).await? {
        Ok(selected) => selected,
        Err(invalid) => {
            hold(ctx, key, &[finalizers::PLACEMENT]).await?;
            judge(ctx, key, &placement, Selected::Invalid(invalid));
            return Ok(Next::Wait);
        }
    };
    // The owner reference covers a placement that is deleted before the finalizers are there.
    let external = placement.spec().rollout_type() == RolloutStrategyType::External;
    let (held, policy, resources) = tokio::join!(
        hold(ctx, key, &[finalizers::PLACEMENT, finalizers::SCHEDULER]),
        snapshots::policy(ctx, key, &placement),
        async {
            // Update runs take their own.
            if external {
                return Ok(None);
            }
            snapshots::resources(ctx, key, &placement, &selected).await
        },
    );
    held?;
    policy?;
    let wait = resources?;
    let verdict = if external {
        Selected::External(selected.objects)
    } else {
        Selected::Valid
    };
    judge(ctx, key, &placement, verdict);
    Ok(ctx.next(wait))
}

fn judge<S: Scope>(ctx: &Context<S>, key: &Key, placement: &S::Placement, selected: Selected) {
    let judged = Judged {
        generation: placement.meta().generation.unwrap_or_default(),
        selected,
    };
    let before = ctx.selections.lock().insert(key.clone(), judged.clone());
    if before != Some(judged) {
        ctx.queues.rollup.add(key.clone());
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
