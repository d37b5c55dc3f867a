//! Picks clusters: carries out what `fleet_core::scheduler` decides about one placement.
//!
//! Watches policy snapshots, bindings, placements and MemberClusters. Writes bindings (their existence, policy and state)
//! and policy snapshots' status. The end of a placement is handled here too, so that one queue orders it with scheduling.

mod delete;
mod metrics;
mod write;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    cluster::MemberCluster,
    conditions::{self, policy_snapshot::Scheduled},
    events::PlacementEvent,
    finalizers,
    placement::{BindingState, Scope},
};
use fleet_core::scheduler::{self as core, Binding, Change, Cluster, Interest, Placement, Snapshot, Watchers, World};
use fleet_runtime::{Key, controller, queue::Next};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) use self::metrics::Measures;
use self::{delete::delete, metrics::Cycle};
use crate::{
    binding,
    cache::family::{concerned, parent},
    pipeline::{Error, Pipeline, Stage, Told, key_of},
};

/// How long the finalizer of a deleting binding is left to go together with the work generator's: mostly the Works are
/// gone by then, and one write is saved for each cluster.
const RELEASE_TOGETHER: Duration = Duration::from_secs(1);
/// The API server's clock may be ahead of ours by that.
const SKEW: SignedDuration = SignedDuration::from_mins(1);
/// How long bindings may seem to outlive their placement.
const ORPHANED: Duration = Duration::from_secs(5);
/// A broken policy is looked at again from time to time: what is wrong may be repaired outside of what is watched.
const PROBLEM_PAUSE: Duration = Duration::from_mins(1);

/// The scheduler of one scope.
pub(crate) type Scheduler<S> = Stage<S, SchedulerMemory>;

/// What the scheduler remembers.
pub(crate) struct SchedulerMemory {
    watchers: Mutex<Watchers<Key>>,
    /// The last complaint about each placement.
    told: Told<PlacementEvent>,
    /// Placements that are gone although they have bindings that are not going, and since when.
    left_behind: Mutex<HashMap<Key, Instant>>,
    cycles: Measures,
}

impl SchedulerMemory {
    pub(crate) fn new(cycles: Measures) -> Self {
        Self {
            watchers: Mutex::default(),
            told: Told::default(),
            left_behind: Mutex::default(),
            cycles,
        }
    }
}

/// What asks for a decision.
pub(crate) async fn feed<S: Scope>(ctx: &Scheduler<S>) {
    let queue = || ctx.queue.clone();
    tokio::join!(
        controller::feed(ctx.family.policies.subscribe(), queue(), |change| {
            if change.new.is_none() {
                ctx.signals.decision_stored(&change.key);
            }
            let before = change.old.as_ref().map(|old| old.meta());
            let wakes = change
                .new
                .as_ref()
                .is_some_and(|new| core::snapshot_wakes(before, new.meta()));
            wakes.then(|| parent(&**change.object())).flatten()
        }),
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            // Bindings need our finalizer on the placement: its coming counts as much as the deletion.
            let held = |p: &S::Placement| p.finalizers().iter().any(|f| f == finalizers::SCHEDULER);
            let matters = change.differs(|p| (p.meta().deletion_timestamp.is_some(), held(p)));
            matters.then(|| change.key.clone())
        }),
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            let matters = match (&change.old, &change.new) {
                (_, None) => true,
                (old, Some(new)) => core::binding_wakes(old.as_ref().map(|old| old.meta()), new.meta()),
            };
            let mut owners = concerned(change);
            // Whoever has lost it needs another.
            let moved = change.old.is_some() && change.new.is_some() && change.differs(parent);
            owners.retain(|owner| matters || moved || ctx.family.placements.get(owner).is_none());
            owners
        }),
        clusters(ctx),
    );
}

/// A fleet's clusters report all the time; only placements whose decision may change are looked at again.
async fn clusters<S: Scope>(ctx: &Scheduler<S>) {
    let mut changes = ctx.shared.members.subscribe();
    loop {
        let change = changes.next().await;
        let now = ctx.now();
        let view = |side: &Option<Arc<MemberCluster>>| side.clone();
        let (before, after) = (view(&change.old), view(&change.new));
        let both = Change {
            before: before.as_deref().map(|cluster| seen(ctx, cluster, now)),
            after: after.as_deref().map(|cluster| seen(ctx, cluster, now)),
        };
        let placed: BTreeSet<Key> = ctx
            .family
            .bindings_on
            .get(&change.key.name().to_owned())
            .iter()
            .filter(|b| b.meta().deletion_timestamp.is_none() && b.spec().state != BindingState::Unscheduled)
            .filter_map(|binding| parent(&**binding))
            .collect();
        for key in ctx.memory.watchers.lock().concerned(&both, &placed) {
            ctx.queue.add(key);
        }
    }
}

/// A cluster as it is seen now, however the clock was set since it was heard of.
fn seen<'a, S: Scope>(ctx: &Scheduler<S>, cluster: &'a MemberCluster, now: Timestamp) -> Cluster<'a> {
    Cluster::dated(cluster, now, |stamp| ctx.shared.clock.dated(stamp))
}

#[tracing::instrument(name = "schedule", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Scheduler<S>, key: &Key) -> Result<Next, Error> {
    ctx.memory.cycles.cycle(cycle(ctx, key)).await
}

async fn cycle<S: Scope>(ctx: &Scheduler<S>, key: &Key) -> Result<Cycle, Error> {
    let placement = ctx.family.placements.get(key);
    let live = placement.as_ref().filter(|p| p.meta().deletion_timestamp.is_none());
    let live = live.filter(|_| ctx.is_served());
    let policy = ctx.latest_policy(key);
    let (Some(live), Some(policy)) = (live, policy) else {
        if live.is_none() {
            ctx.memory.watchers.lock().remove(key);
            ctx.memory.told.forget(key);
        }
        if let Some(going) = placement.as_ref().filter(|p| p.meta().deletion_timestamp.is_some()) {
            delete(ctx, key, going).await?;
        }
        let bindings = ctx.family.bindings_of.get(key);
        let left_behind = placement.is_none() && bindings.iter().any(|b| b.meta().deletion_timestamp.is_none());
        let look = orphans(ctx, key, left_behind).await?;
        // Whatever is left of its bindings is going; nobody decides about them any more.
        let going = bindings.iter().filter(|b| b.meta().deletion_timestamp.is_some());
        let names: Vec<_> = going.map(|binding| binding.name_any()).collect();
        return Ok(Cycle::Done(release(ctx, key, &names).await?.sooner(look)));
    };
    let name = key_of(key)?;
    ctx.memory.left_behind.lock().remove(key);
    // Whatever happens to clusters from here on until all is written wakes us again.
    let interest = |fulfilled| Interest::new(policy.spec().policy.as_ref(), key.namespace(), fulfilled);
    ctx.memory.watchers.lock().set(key.clone(), interest(false));
    let (members, odd) = (ctx.shared.members.all(), ctx.shared.members.odd());
    let bindings = ctx.family.bindings_of.get(key);
    let (plan, fulfilled) = {
        let now = ctx.now();
        let uid = live.uid().unwrap_or_default();
        let unread = odd.iter().filter(|odd| ctx.shared.members.get(&odd.key).is_none());
        let clusters: Vec<_> = members
            .iter()
            .map(|member| seen(ctx, member, now))
            .chain(unread.map(|odd| Cluster::unread(odd.key.name())))
            .collect();
        let bindings: Vec<_> = bindings.iter().map(|b| Binding::new(b.meta(), b.spec())).collect();
        let world = World {
            placement: Placement { key: &name, uid: &uid },
            snapshot: Snapshot::new(policy.meta(), policy.spec().policy.as_ref(), policy.status()),
            clusters: &clusters,
            bindings: &bindings,
            now,
            settings: ctx.shared.settings.scheduler,
        };
        let plan = core::schedule(&world);
        let fulfilled = plan.status.as_ref().is_some_and(|status| {
            let generation = policy.meta().generation.unwrap_or_default();
            plan.problem.is_none() && conditions::is_true(&status.conditions, Scheduled::TYPE, generation)
        });
        (plan, fulfilled)
    };

    let released = release(ctx, key, &plan.release).await?;
    binding::unschedule(ctx, key, &plan.vacate).await?;
    let held = live.finalizers().iter().any(|f| f == finalizers::SCHEDULER);
    if !held && !plan.create.is_empty() {
        // Without it the placement could vanish and leave the binding behind. It is on its way, and wakes us.
        return Ok(Cycle::Done(released));
    }
    let created = binding::create(ctx, key, &policy.name_any(), &plan.create).await;
    let hindrance = match &created {
        Err(Error::Held(error)) => Some(PlacementEvent::Held { error: error.clone() }),
        _ => None,
    };
    ctx.record_once(&ctx.memory.told, live, hindrance);
    // A name that is taken is one cluster's trouble; the others go on.
    let held = match created {
        Err(error @ Error::Held(_)) => Some(error),
        other => other.map(|()| None)?,
    };
    binding::move_to_policy(ctx, key, &policy.name_any(), &plan.patch).await?;
    binding::unschedule(ctx, key, &plan.unschedule).await?;
    let snapshot = Key::of(&*policy);
    match plan.status.filter(|_| plan.status_changed) {
        Some(status) => {
            let generation = policy.meta().generation.unwrap_or_default();
            ctx.signals.decide(key, &snapshot, generation, status.clone());
            write::status(ctx, key, &policy, &status).await?;
            ctx.signals.decision_stored(&snapshot);
        }
        None => ctx.signals.undecide(key, &snapshot),
    }
    ctx.memory.watchers.lock().set(key.clone(), interest(fulfilled));
    if let Some(error) = held {
        return Err(error);
    }
    if let Some(problem) = &plan.problem {
        let error = problem.to_string();
        ctx.record(live, &PlacementEvent::Held { error });
        let next = released.sooner(Next::At(Instant::now() + PROBLEM_PAUSE));
        return Ok(Cycle::Broken(next));
    }
    Ok(Cycle::Done(released.sooner(ctx.next(plan.look_again))))
}

/// Deletes bindings that a placement has left behind: it went by somebody's force, without our finalizer. After our own
/// deletion the watch needs a moment to show that they are going; and a store that does not have the placement is no
/// proof, so the API server is asked.
async fn orphans<S: Scope>(ctx: &Scheduler<S>, key: &Key, left_behind: bool) -> Result<Next, Error> {
    let memory = &ctx.memory.left_behind;
    if !left_behind {
        memory.lock().remove(key);
        return Ok(Next::Wait);
    }
    let since = *memory.lock().entry(key.clone()).or_insert_with(Instant::now);
    if since.elapsed() < ORPHANED {
        return Ok(Next::At(since + ORPHANED));
    }
    memory.lock().remove(key);
    let writer = &ctx.shared.writer;
    if !writer.exists::<S::Placement>(key).await? {
        tracing::warn!("Deleting the bindings of a placement that is gone");
        binding::delete_all(ctx, key).await?;
    }
    Ok(Next::Wait)
}

/// Takes our finalizer off deleting bindings; off one whose Works are still there only after a moment.
async fn release<S: Scope>(ctx: &Pipeline<S>, key: &Key, names: &[String]) -> Result<Next, Error> {
    let (mut now, mut later) = (Vec::new(), None);
    for name in names {
        let binding = crate::cache::family::beside(key, name);
        let Some(found) = ctx.family.bindings.get(&binding) else {
            continue;
        };
        if !found.finalizers().iter().any(|f| f == finalizers::SCHEDULER_BINDING) {
            continue;
        }
        let since = found
            .meta()
            .deletion_timestamp
            .as_ref()
            .map(|time| time.0)
            .unwrap_or_default();
        let age = ctx.now().duration_since(since);
        // What is yet to come for long was long ago: the clock was set back.
        let age = if age < -SKEW {
            Duration::MAX
        } else {
            Duration::try_from(age).unwrap_or_default()
        };
        let works = found.finalizers().iter().any(|f| f == finalizers::WORK);
        // The time of deletion has whole seconds, so one more is a full one.
        match (RELEASE_TOGETHER + Duration::from_secs(1)).checked_sub(age) {
            Some(rest) if works && !rest.is_zero() => {
                let at = Instant::now() + rest;
                later = Some(later.map_or(at, |other: Instant| other.min(at)));
            }
            _ => now.push(binding),
        }
    }
    binding::release_picks(ctx, key, &now).await?;
    Ok(later.map_or(Next::Wait, Next::At))
}
