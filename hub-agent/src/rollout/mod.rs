//! Rolls the latest resources out: carries out what `fleet_core::rollout` plans for one placement.
//!
//! Watches bindings, snapshots, overrides' snapshots, placements, the clusters' labels and windows, and whether one is held
//! after the hub went back in time. Has bindings written ([`crate::binding`]):
//! state, snapshot, overrides, apply strategy; has those deleted that are left, and says `RolloutStarted` False where a
//! cluster has to wait. That it has started follows from what a binding names, and is said with the rest of its status.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    annotations,
    cluster::MemberCluster,
    conditions::{self, binding::Available},
    placement::{ApplyStrategy, RolloutStrategyType, Scope},
};
use fleet_core::{
    overrides::choose::Lists,
    rollout::{self as core, Action, Blocked, Budget, Goal, Member, Target, World, apply_strategy, restamp_external},
    session::recovery::Recovery,
    work::Group,
};
use fleet_runtime::{Key, controller, queue::Next};
use futures::future::join_all;
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    binding::{self, DesiredContent},
    cache::family::{beside, concerned, parent, stored},
    overrides,
    pipeline::{Error, Pipeline, Stage, key_of, signals::Goals},
};

/// A cluster that has to wait for less than this is not worth a write.
const HOLD_AFTER: Duration = Duration::from_millis(250);

/// The rollout of one scope.
pub(crate) type Rollout<S> = Stage<S, RolloutMemory>;

/// What the rollout remembers.
#[derive(Default)]
pub(crate) struct RolloutMemory {
    /// Bindings that have to wait: since when, why, and what was said.
    held: Mutex<HashMap<Key, HeldBinding>>,
    /// When the texts of a placement's bindings were last written.
    said_at: Mutex<HashMap<Key, Instant>>,
}

struct HeldBinding {
    since: Instant,
    why: Blocked,
    /// The text, and the generation of the binding that it was said of: whoever changes the binding makes it worth saying
    /// again.
    said: Option<(i64, String)>,
}

impl RolloutMemory {
    /// Forgets a binding that is gone.
    fn forget(&self, binding: &Key) {
        self.held.lock().remove(binding);
    }
}

/// What may let a rollout go on.
pub(crate) async fn feed<S: Scope>(ctx: &Rollout<S>) {
    let queue = || ctx.queue.clone();
    let (family, stores) = (&ctx.family, &ctx.shared.overrides);
    tokio::join!(
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            if change.new.is_none() {
                ctx.memory.forget(&change.key);
            }
            let mut owners = concerned(change);
            owners.retain(|owner| change.old.is_some() || !ctx.signals.is_picking(owner));
            owners
        }),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), |change| {
            change.new.as_ref().and_then(|snapshot| parent(&**snapshot))
        }),
        controller::feed(ctx.family.policies.subscribe(), queue(), |change| {
            change
                .differs(|p| p.status().cloned())
                .then(|| parent(&**change.object()))
                .flatten()
        }),
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            change
                .differs(|p| (p.meta().uid.clone(), p.meta().generation))
                .then(|| change.key.clone())
        }),
        controller::feed(stores.cluster_wide_snapshots.subscribe(), queue(), |change| {
            overrides::concerned(family, &stores.cluster_wide_of, change)
        }),
        controller::feed(stores.namespaced_snapshots.subscribe(), queue(), |change| {
            overrides::concerned(family, &stores.namespaced_of, change)
        }),
        // What was held back for a cluster goes on.
        controller::feed(ctx.shared.internals.subscribe(), queue(), |change| {
            let matters = change.differs(|imc| Recovery::of(imc.metadata.annotations.as_ref()));
            let on = matters.then(|| ctx.family.bindings_on.get(&change.key.name().to_owned()));
            let bindings = on.into_iter().flatten();
            bindings.filter_map(|binding| parent(&*binding)).collect::<Vec<_>>()
        }),
        // Overrides select clusters by their labels; a cluster that is gone keeps no promise; windows tell when one may be
        // changed.
        controller::feed(ctx.shared.members.subscribe(), queue(), |change| {
            let matters = change.differs(|m| (m.metadata.labels.clone(), window(m).map(ToOwned::to_owned)));
            let on = matters.then(|| ctx.family.bindings_on.get(&change.key.name().to_owned()));
            let bindings = on.into_iter().flatten();
            bindings.filter_map(|binding| parent(&*binding)).collect::<Vec<_>>()
        }),
    );
}

#[tracing::instrument(name = "rollout", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Rollout<S>, key: &Key) -> Result<Next, Error> {
    let placement = ctx.family.placements.get(key);
    let Some(placement) = placement.filter(|p| p.meta().deletion_timestamp.is_none()) else {
        for binding in ctx.family.bindings_of.keys(key) {
            ctx.memory.forget(&binding);
        }
        ctx.memory.said_at.lock().remove(key);
        ctx.signals.forget_goals(key);
        return Ok(Next::Wait);
    };
    let bindings = ctx.family.bindings_of.get(key);
    if bindings.is_empty() {
        return Ok(Next::Wait);
    }
    let strategy = placement.spec().strategy.as_ref();
    let budget = Budget::of(strategy.and_then(|strategy| strategy.rolling_update.as_ref()));
    let apply = apply_strategy(strategy.and_then(|strategy| strategy.apply_strategy.as_ref()));
    let latest = Latest::find(ctx, key, &bindings)?;
    let now = ctx.now();
    let members: Vec<Member> = bindings
        .iter()
        .zip(&latest.lists)
        .filter_map(|(binding, lists)| {
            let cluster = Key::cluster(binding.spec().target_cluster.as_str());
            let cluster = ctx.shared.members.get(&cluster);
            let goal = Goal {
                snapshot: latest.snapshot.as_deref(),
                overrides: lists.as_ref().map_err(String::as_str),
                apply_strategy: &apply,
                cluster_exists: ctx.knows_cluster(&binding.spec().target_cluster),
                window: cluster.as_ref().and_then(|cluster| window(cluster)),
            };
            let ahead = ctx.ahead(binding);
            let status = ahead.as_deref().or(binding.status());
            // A clock that is set makes nothing settle sooner or later.
            let available = status.and_then(|status| conditions::find(&status.conditions, Available::TYPE));
            let moved = available.map(|available| {
                let stamp = available.last_transition_time.0;
                ctx.shared.clock.dated(stamp).duration_since(stamp)
            });
            let period = budget.unavailable_period.saturating_add(moved.unwrap_or_default());
            Member::of(binding.meta(), binding.spec(), status, &goal, period, now)
        })
        .collect();
    let external = placement.spec().rollout_type() == RolloutStrategyType::External;
    // Before anything is written: whoever is woken by a write finds the goals that it was made for.
    aim(ctx, key, external, &bindings, &latest, &apply);
    if external {
        restamp(ctx, key, &members);
        return Ok(Next::Wait);
    }
    let plan = core::plan(&World {
        target: target(ctx, key, &placement),
        budget: &budget,
        has_snapshot: latest.snapshot.is_some(),
        members: &members,
    });
    let lists: BTreeMap<String, &Result<Lists, String>> = bindings
        .iter()
        .map(|binding| binding.name_any())
        .zip(&latest.lists)
        .collect();
    let nothing = Lists::default();
    let steps = plan.steps.iter().map(|(name, step)| {
        let (binding, lists) = (beside(key, name), lists.get(name));
        let wanted = DesiredContent {
            snapshot: latest.snapshot.as_deref().unwrap_or_default(),
            lists: lists.and_then(|lists| lists.as_ref().ok()).unwrap_or(&nothing),
            strategy: &apply,
        };
        async move {
            match &step.action {
                Action::Bind | Action::Update(_) => binding::advance(ctx, key, &binding, &wanted).await,
                Action::Remove(_) => binding::remove(ctx, key, &binding).await,
                // Its generation changes, so it is stamped after the next look.
                _ if step.push_strategy => binding::push_strategy(ctx, key, &binding, wanted.strategy).await,
                Action::PushStrategy => binding::push_strategy(ctx, key, &binding, wanted.strategy).await,
                // It has started, which its status does not say yet.
                Action::Restamp => {
                    ctx.signals.restamp(&binding);
                    Ok(())
                }
                Action::Hold(_) | Action::Keep(_) => Ok(()),
            }
        }
    });
    let results = join_all(steps).await;
    let said = hold(ctx, key, &plan).await;
    // One cluster's failure is its own: the others were written all the same.
    results.into_iter().collect::<Result<Vec<()>, Error>>()?;
    Ok(said?.map_or(Next::Wait, Next::At).sooner(ctx.next(plan.look_again)))
}

/// When a cluster may be changed, if it says so. One that leaves the fleet is let go at any time.
fn window(member: &MemberCluster) -> Option<&str> {
    let stays = member.metadata.deletion_timestamp.is_none();
    let window = stays.then(|| member.annotations().get(annotations::WINDOW)).flatten();
    window.map(String::as_str)
}

/// Says of bindings that have to wait why, once they have waited for a moment, and again when they wait for others. When to
/// look again for the rest.
async fn hold<S: Scope>(ctx: &Rollout<S>, key: &Key, plan: &core::Plan) -> Result<Option<Instant>, Error> {
    let now = Instant::now();
    let holds = |name: &Key| match plan.steps.get(name.name()).map(|step| &step.action) {
        Some(Action::Hold(why)) => Some(why.clone()),
        _ => None,
    };
    let bindings = ctx.family.bindings_of.get(key);
    let waiting = plan
        .steps
        .values()
        .filter(|step| matches!(step.action, Action::Hold(_)));
    let pause = core::renew_after(waiting.count());
    let said_at = ctx.memory.said_at.lock().get(key).copied();
    let renew_at = said_at.map_or(now, |at| at + pause);
    let (mut due, mut later) = (Vec::new(), None);
    for binding in bindings {
        let (name, generation) = (Key::of(&*binding), binding.meta().generation.unwrap_or_default());
        let mut held = ctx.memory.held.lock();
        let Some(why) = holds(&name) else {
            held.remove(&name);
            continue;
        };
        let entry = held.entry(name.clone()).or_insert_with(|| HeldBinding {
            since: now,
            why: why.clone(),
            said: None,
        });
        if !entry.why.same_kind(&why) {
            (entry.why, entry.said) = (why.clone(), None);
        }
        let at = match &entry.said {
            Some((of, said)) if *of == generation && *said == why.to_string() => continue,
            Some((of, _)) if *of == generation => renew_at,
            _ => entry.since + HOLD_AFTER,
        };
        if at <= now {
            due.push((name, generation, why));
        } else {
            later = Some(later.map_or(at, |other: Instant| other.min(at)));
        }
    }
    if !due.is_empty() {
        ctx.memory.said_at.lock().insert(key.clone(), now);
    }
    let mut outcome = Ok(later);
    for (binding, generation, why) in due {
        match binding::say_held(ctx, key, &binding, &why).await {
            Ok(()) => {
                if let Some(entry) = ctx.memory.held.lock().get_mut(&binding) {
                    entry.said = Some((generation, why.to_string()));
                }
            }
            // The others are told all the same.
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Says what the bindings should name. While there is no complete snapshot, what was said before stands.
fn aim<S: Scope>(
    ctx: &Rollout<S>,
    key: &Key,
    external: bool,
    bindings: &[Arc<S::Binding>],
    latest: &Latest,
    strategy: &ApplyStrategy,
) {
    if external {
        return ctx.signals.aim(key, Goals::External);
    }
    let Some(snapshot) = &latest.snapshot else { return };
    let names = bindings.iter().map(|binding| binding.name_any());
    let goals = Goals::Latest {
        snapshot: snapshot.clone(),
        strategy: strategy.clone(),
        overrides: names.zip(latest.lists.iter().cloned()).collect(),
    };
    ctx.signals.aim(key, goals);
}

/// Under `External` only runs start rollouts; but one that was started stays so when the scheduler writes.
fn restamp<S: Scope>(ctx: &Pipeline<S>, key: &Key, members: &[Member]) {
    let was_started = |member: &Member| {
        let found = ctx.family.bindings.get(&beside(key, &member.binding));
        found.is_some_and(|found| binding::is_started(ctx, key, &found))
    };
    for binding in restamp_external(members, was_started) {
        ctx.signals.restamp(&beside(key, binding));
    }
}

fn target<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Target {
    let policy = ctx.latest_policy(key);
    let snapshot = policy
        .as_ref()
        .map(|policy| (policy.meta(), policy.spec(), policy.status()));
    let generation = placement.meta().generation.unwrap_or_default();
    Target::by(snapshot, placement.spec().policy.as_ref(), generation)
}

/// The latest snapshot, and what overrides make of it on each binding's cluster.
struct Latest {
    /// None until the group is complete.
    snapshot: Option<String>,
    /// For each binding, in order.
    lists: Vec<Result<Lists, String>>,
}

impl Latest {
    fn find<S: Scope>(ctx: &Pipeline<S>, key: &Key, bindings: &[Arc<S::Binding>]) -> Result<Self, Error> {
        let (name, all) = (key_of(key)?, ctx.family.snapshots_of.get(key));
        let master = ctx.latest_master(key);
        let group = master
            .as_ref()
            .and_then(|master| Group::collect(&name, stored(master), all.iter().map(stored)).ok());
        let (Some(master), Some(group)) = (&master, group) else {
            // There is none yet, or its other parts are on their way.
            return Ok(Self {
                snapshot: None,
                lists: vec![Ok(Lists::default()); bindings.len()],
            });
        };
        let clusters: Vec<_> = bindings.iter().map(|b| b.spec().target_cluster.as_str()).collect();
        let lists = overrides::on_clusters(ctx, &name, group.resources(), &clusters);
        Ok(Self {
            snapshot: master.meta().name.clone(),
            lists,
        })
    }
}
