//! What a placement selects, and from there its snapshots.
//!
//! Watches placements, snapshots, bindings and users' own objects. Writes the placement's finalizers and, through
//! [`crate::snapshots`], its snapshots. The decisions are `fleet_core::selection` and `fleet_core::snapshot`.

mod select;

use fleet_api::{
    conditions::{
        self, Words as _,
        error_class::ErrorClass,
        placement::{Scheduled, Step},
    },
    events::PlacementEvent,
    finalizers,
    placement::{RolloutStrategyType, Scope},
};
use fleet_core::{admission::placement as admission, selection::Interests};
use fleet_runtime::{Key, cache::Change, controller, logs, queue::Next};
use kube::{
    Resource,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;

use crate::{
    cache::{family::parent, user::Touched},
    pipeline::{
        Error, Pipeline, Stage, Told, key_of,
        signals::{Selected, Verdict},
    },
    snapshots,
    status::mirror,
    writer::{Part, with_finalizers},
};

/// The selection of one scope.
pub(crate) type Selection<S> = Stage<S, SelectionMemory>;

/// What the selection remembers.
pub(crate) struct SelectionMemory {
    /// Which placements a change of a user's object concerns.
    interests: Mutex<Interests<Key>>,
    /// The last complaint about each placement.
    told: Told<PlacementEvent>,
    /// What is wrong with the spec of each, and with which generation of it.
    pub(crate) wrong: Told<(i64, PlacementEvent)>,
}

impl SelectionMemory {
    pub(crate) fn new(scope: fleet_api::names::Scope) -> Self {
        Self {
            interests: Mutex::new(Interests::new(scope)),
            told: Told::default(),
            wrong: Told::default(),
        }
    }
}

/// What makes a placement's selection, snapshots or finalizers worth another look.
pub(crate) async fn feed<S: Scope>(ctx: &Selection<S>) {
    let queue = || ctx.queue.clone();
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
        controller::feed(ctx.family.policies.subscribe(), queue(), edited),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), edited),
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

/// The placement of a snapshot that was there before and is another now, or gone.
fn edited<K: Resource>(change: &Change<K>) -> Option<Key> {
    let matters = change.old.is_some()
        && change.differs(|s| {
            (
                s.meta().generation,
                s.meta().labels.clone(),
                s.meta().annotations.clone(),
            )
        });
    matters.then(|| parent(&**change.object())).flatten()
}

/// Users' own objects, and the kinds that they are of.
async fn touched<S: Scope>(ctx: &Selection<S>) {
    let (scope, mut changes) = (Pipeline::<S>::scope(), ctx.shared.user.listen());
    while let Some(change) = changes.recv().await {
        match change {
            Touched::Kinds((owner, key)) if owner == scope => {
                ctx.look_back(&key);
                ctx.queue.add(key);
            }
            Touched::Kinds(_) => {}
            Touched::Object(sides) => {
                let interests = ctx.memory.interests.lock();
                for object in &sides {
                    let namespace = object.id.namespace.as_str();
                    let home = (!namespace.is_empty()).then(|| ctx.shared.user.namespace(namespace));
                    for key in interests.concerned(object, home.flatten().as_ref()) {
                        // Made anew, it has no status.
                        ctx.look_back(&key);
                        ctx.queue.add(key);
                    }
                }
            }
        }
    }
    std::future::pending::<()>().await;
}

#[tracing::instrument(name = "placement", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Selection<S>, key: &Key) -> Result<Next, Error> {
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
            let event = Some(PlacementEvent::Held { error });
            ctx.record_once(&ctx.memory.told, &placement, event);
        }
        Ok((_, left_out)) => {
            let event = left_out.clone().map(|what| PlacementEvent::KindsLeftOut { what });
            ctx.record_once(&ctx.memory.told, &placement, event);
        }
    }
    placed.map(|(next, _)| next)
}

/// A placement that is gone or going needs no selection any more.
fn forget<S: Scope>(ctx: &Selection<S>, key: &Key) {
    ctx.memory.interests.lock().remove(key);
    ctx.memory.told.forget(key);
    ctx.memory.wrong.forget(key);
    ctx.signals.forget(key);
    ctx.shared.user.release(&(Pipeline::<S>::scope(), key.clone()));
}

/// Selection, finalizers and snapshots; when to look again, and which kinds could not be looked at.
async fn place<S: Scope>(
    ctx: &Selection<S>,
    key: &Key,
    placement: &S::Placement,
) -> Result<(Next, Option<String>), Error> {
    // A name that is too long for a label: nothing could be found again, so nothing is made, not even a finalizer.
    key_of(key).map_err(|error| Error::Held(error.to_string()))?;
    let generation = placement.meta().generation.unwrap_or_default();
    let said = placement.status().map(|status| status.conditions.as_slice());
    let scheduled = Step::Scheduled.on_placement(Pipeline::<S>::scope());
    if conditions::fresh(said.unwrap_or_default(), scheduled, generation).is_none() {
        ctx.signals.steps.begin(key, generation);
        warn(ctx, key, placement, generation);
    }
    // Before the objects are looked at, so that no change falls in between.
    let selectors = &placement.spec().resource_selectors;
    ctx.memory.interests.lock().set(key, key.namespace(), selectors);
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
            return Ok::<_, Error>(None);
        }
        let content = select::content(ctx, key, &selected.objects).await?;
        let frozen = snapshots::resources(ctx, key, placement, &content, false).await?;
        Ok(frozen.wait)
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

/// Says of a new spec what the webhook would have said, and no condition says.
fn warn<S: Scope>(ctx: &Selection<S>, key: &Key, placement: &S::Placement, generation: i64) {
    let errors = admission::wrong(placement.spec());
    if errors.is_empty() {
        return;
    }
    let event = PlacementEvent::Invalid {
        why: errors.to_string(),
    };
    if ctx.memory.wrong.is_news(key, (generation, event.clone())) {
        ctx.record(placement, &event);
    }
}

/// Freezes what a placement selects now, for an update run. The index of the group, or what is wrong with the selectors.
pub(crate) async fn freeze<S: Scope>(
    ctx: &Pipeline<S>,
    key: &Key,
    placement: &S::Placement,
) -> Result<Result<u64, String>, Error> {
    let selected = match select::select(ctx, key, placement).await? {
        Ok(selected) => selected,
        Err(Scheduled::InvalidSelectors { error }) => return Ok(Err(error.to_user_error())),
        Err(other) => return Ok(Err(ErrorClass::User.prefix(other.message()))),
    };
    let content = select::content(ctx, key, &selected.objects).await?;
    let frozen = snapshots::resources(ctx, key, placement, &content, true).await?;
    Ok(Ok(frozen.index))
}

fn judge<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement, selected: Selected) {
    let verdict = Verdict {
        generation: placement.meta().generation.unwrap_or_default(),
        selected,
    };
    if ctx.signals.judge(key, verdict) {
        // By now what is selected is being watched.
        ctx.look_back(key);
    }
}

/// Puts our finalizers on the placement.
async fn hold<S: Scope>(ctx: &Pipeline<S>, key: &Key, wanted: &[&str]) -> Result<(), Error> {
    let patch = |placement: &S::Placement| with_finalizers(placement, wanted);
    let placements = &ctx.family.placements;
    ctx.shared
        .writer
        .patch(placements, key, key, Part::Object, patch)
        .await?;
    Ok(())
}
