//! Rolls the latest resources out: carries out what `fleet_core::rollout` plans for one placement.
//!
//! Watches bindings, snapshots, overrides, placements and the clusters' labels. Writes bindings (state, snapshot,
//! overrides, apply strategy), deletes those that are left, and says `RolloutStarted` False where a cluster has to wait;
//! True is said by the work generator, in one write with the rest.

mod write;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    annotations,
    conditions::{self, binding::RolloutStarted},
    placement::{RolloutStrategyType, Scope},
};
use fleet_core::{
    overrides::{Cluster, choose::Lists},
    rollout::{self as core, Action, Blocked, Budget, Goal, Member, Target, World, apply_strategy, restamp_external},
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
    cache::family::{beside, concerned, parent, stored},
    placement::context::{Context, Error, key_of},
};

/// A cluster that has to wait for less than this is not worth a write.
const HOLD_AFTER: Duration = Duration::from_millis(250);

/// What the rollout remembers of bindings that have to wait: since when, why, and whether it was said.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<Key, Held>>);

struct Held {
    since: Instant,
    why: Blocked,
    /// The generation of the binding that it was said of: whoever changes the binding makes it worth saying again.
    said: Option<i64>,
}

impl Memory {
    /// Forgets a binding that is gone.
    pub(crate) fn forget(&self, binding: &Key) {
        self.0.lock().remove(binding);
    }
}

/// What a binding should become.
pub(super) struct Wanted<'a> {
    pub(super) snapshot: &'a str,
    pub(super) lists: &'a Lists,
    pub(super) strategy: &'a fleet_api::placement::ApplyStrategy,
}

/// What may let a rollout go on.
pub(crate) async fn feed<S: Scope>(ctx: &Context<S>) {
    let queue = || ctx.queues.rollout.clone();
    let all = |wakes: bool| -> Vec<Key> {
        let placements = wakes.then(|| ctx.family.placements.all()).into_iter().flatten();
        placements.map(|placement| Key::of(&*placement)).collect()
    };
    tokio::join!(
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| {
            let mut owners = concerned(change);
            owners.retain(|owner| change.old.is_some() || !ctx.scheduler.is_creating(owner));
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
        // A new or other override may concern any placement; the plan finds out which.
        controller::feed(
            ctx.shared.overrides.cluster_wide_snapshots.subscribe(),
            queue(),
            |change| { all(change.differs(|s| (s.meta().labels.clone(), s.meta().deletion_timestamp.is_some()))) }
        ),
        controller::feed(
            ctx.shared.overrides.namespaced_snapshots.subscribe(),
            queue(),
            |change| { all(change.differs(|s| (s.meta().labels.clone(), s.meta().deletion_timestamp.is_some()))) }
        ),
        // Overrides select clusters by their labels; a cluster that is gone keeps no promise.
        controller::feed(ctx.shared.members.subscribe(), queue(), |change| {
            let matters = change.differs(|m| m.metadata.labels.clone());
            let on = matters.then(|| ctx.family.bindings_on.get(&change.key.name().to_owned()));
            let bindings = on.into_iter().flatten();
            bindings.filter_map(|binding| parent(&*binding)).collect::<Vec<_>>()
        }),
    );
}

#[tracing::instrument(name = "rollout", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Context<S>, key: &Key) -> Result<Next, Error> {
    let placement = ctx.family.placements.get(key);
    let Some(placement) = placement.filter(|p| p.meta().deletion_timestamp.is_none()) else {
        for binding in ctx.family.bindings_of.keys(key) {
            ctx.rollout.forget(&binding);
        }
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
            let goal = Goal {
                snapshot: latest.snapshot.as_deref(),
                overrides: lists.as_ref().map_err(String::as_str),
                apply_strategy: &apply,
                cluster_exists: ctx.knows_cluster(&binding.spec().target_cluster),
            };
            Member::of(
                binding.meta(),
                binding.spec(),
                ctx.ahead(binding).as_deref().or(binding.status()),
                &goal,
                budget.unavailable_period,
                now,
            )
        })
        .collect();
    if placement.spec().rollout_type() == RolloutStrategyType::External {
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
        let wanted = Wanted {
            snapshot: latest.snapshot.as_deref().unwrap_or_default(),
            lists: lists.and_then(|lists| lists.as_ref().ok()).unwrap_or(&nothing),
            strategy: &apply,
        };
        async move {
            match &step.action {
                Action::Bind | Action::Update(_) => write::advance(ctx, key, &binding, &wanted).await,
                Action::Remove(_) => write::remove(ctx, key, &binding).await,
                // Its generation changes, so it is stamped after the next look.
                _ if step.push_strategy => write::strategy(ctx, key, &binding, wanted.strategy).await,
                Action::PushStrategy => write::strategy(ctx, key, &binding, wanted.strategy).await,
                Action::Restamp => {
                    start(ctx, &binding);
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

/// Says of bindings that have to wait why, once they have waited for a moment. When to look again for the others.
async fn hold<S: Scope>(ctx: &Context<S>, key: &Key, plan: &core::Plan) -> Result<Option<Instant>, Error> {
    let now = Instant::now();
    let (mut due, mut later) = (Vec::new(), None);
    for binding in ctx.family.bindings_of.get(key) {
        let (name, generation) = (Key::of(&*binding), binding.meta().generation.unwrap_or_default());
        let mut held = ctx.rollout.0.lock();
        let Some(Action::Hold(why)) = plan.steps.get(name.name()).map(|step| &step.action) else {
            held.remove(&name);
            continue;
        };
        let entry = held.entry(name.clone()).or_insert_with(|| Held {
            since: now,
            why: why.clone(),
            said: None,
        });
        if !entry.why.same_kind(why) {
            (entry.why, entry.said) = (why.clone(), None);
        }
        let at = entry.since + HOLD_AFTER;
        if entry.said == Some(generation) {
            continue;
        }
        if at <= now {
            due.push((name, generation, why.clone()));
        } else {
            later = Some(later.map_or(at, |other: Instant| other.min(at)));
        }
    }
    let mut outcome = Ok(later);
    for (binding, generation, why) in due {
        match write::held(ctx, key, &binding, &why).await {
            Ok(()) => {
                if let Some(entry) = ctx.rollout.0.lock().get_mut(&binding) {
                    entry.said = Some(generation);
                }
            }
            // The others are told all the same.
            Err(error) => outcome = Err(error),
        }
    }
    outcome
}

/// Tells the work generator that a binding's rollout has started, for the generation that it has.
fn start<S: Scope>(ctx: &Context<S>, binding: &Key) {
    let Some(found) = ctx.family.bindings.get(binding) else {
        return;
    };
    let generation = found.meta().generation.unwrap_or_default();
    if ctx.started.lock().insert(binding.clone(), generation) != Some(generation) {
        ctx.queues.work.add(binding.clone());
    }
}

/// Under `External` only runs start rollouts; but one that was started stays so when the scheduler writes.
fn restamp<S: Scope>(ctx: &Context<S>, key: &Key, members: &[Member]) {
    let was_started = |member: &Member| {
        let binding = ctx.family.bindings.get(&beside(key, &member.binding));
        let status = binding.as_ref().and_then(|binding| binding.status());
        let said = status.and_then(|status| conditions::find(&status.conditions, RolloutStarted::TYPE));
        said.is_some_and(|condition| condition.status == "True")
    };
    for binding in restamp_external(members, was_started) {
        start(ctx, &beside(key, binding));
    }
}

fn target<S: Scope>(ctx: &Context<S>, key: &Key, placement: &S::Placement) -> Target {
    let Some(policy) = ctx.latest_policy(key) else {
        return Target::of(placement.spec().policy.as_ref(), None, None);
    };
    let number = policy
        .annotations()
        .get(annotations::NUMBER_OF_CLUSTERS)
        .and_then(|text| text.parse().ok());
    let generation = placement.meta().generation.unwrap_or_default();
    let said = policy
        .status()
        .filter(|status| status.observed_crp_generation >= generation);
    let found = said.map(|status| status.target_clusters.iter().filter(|cluster| cluster.selected).count());
    let found = found.and_then(|found| u32::try_from(found).ok());
    Target::of(policy.spec().policy.as_ref(), number, found)
}

/// The latest snapshot, and what overrides make of it on each binding's cluster.
struct Latest {
    /// None until the group is complete.
    snapshot: Option<String>,
    /// For each binding, in order.
    lists: Vec<Result<Lists, String>>,
}

impl Latest {
    fn find<S: Scope>(ctx: &Context<S>, key: &Key, bindings: &[Arc<S::Binding>]) -> Result<Self, Error> {
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
        let members: Vec<_> = bindings
            .iter()
            .map(|binding| {
                ctx.shared
                    .members
                    .get(&Key::cluster(binding.spec().target_cluster.as_str()))
            })
            .collect();
        let empty = BTreeMap::new();
        let views: Vec<_> = bindings
            .iter()
            .zip(&members)
            .map(|(binding, member)| Cluster {
                name: binding.spec().target_cluster.as_str(),
                labels: member.as_ref().map_or(&empty, |member| member.labels()),
            })
            .collect();
        let user = &ctx.shared.user;
        let scoped = |object: &_| user.is_cluster_scoped(object);
        let mut lists = ctx.shared.overrides.lists(&name, group.resources(), &scoped, &views);
        for (list, (view, member)) in lists.iter_mut().zip(views.iter().zip(&members)) {
            if member.is_none() && ctx.knows_cluster(view.name) {
                *list = Err(format!("MemberCluster {:?} cannot be read", view.name));
            }
        }
        Ok(Self {
            snapshot: master.meta().name.clone(),
            lists,
        })
    }
}
