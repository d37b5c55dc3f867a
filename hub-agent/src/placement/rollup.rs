//! Writes a placement's status.
//!
//! Made anew from the stores at each pass; `fleet_core::rollup::Pace` says when a difference is worth a write.

use std::collections::HashMap;

use fleet_api::{
    annotations,
    conditions::{self, placement::Step},
    events::PlacementEvent,
    labels,
    placement::{ApplyStrategyType, PlacementStatus, ResourceIdentifier, RolloutStrategyType, Scope},
};
use fleet_core::{
    rollup::{self, BindingView, Due, Pace, PolicyView, World},
    selection::ObjectId,
};
use fleet_runtime::{Key, controller, queue::Next};
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    context::{Context, Error, Selected},
    mirror,
};
use crate::cache::family::{beside, concerned, parent};

/// What the roll-up remembers of each placement.
pub(crate) struct Memory {
    paces: Mutex<HashMap<Key, Pace>>,
    began: Instant,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            paces: Mutex::default(),
            began: Instant::now(),
        }
    }
}

/// What a placement's status is made from.
pub(crate) async fn feed<S: Scope>(ctx: &Context<S>) {
    let queue = || ctx.queues.rollup.clone();
    tokio::join!(
        controller::feed(ctx.family.placements.subscribe(), queue(), |change| {
            change
                .differs(|p| (p.meta().uid.clone(), p.meta().generation))
                .then(|| change.key.clone())
        }),
        controller::feed(ctx.family.policies.subscribe(), queue(), |change| parent(
            &**change.object()
        )),
        controller::feed(ctx.family.snapshots.subscribe(), queue(), |change| parent(
            &**change.object()
        )),
        controller::feed(ctx.family.bindings.subscribe(), queue(), concerned),
        // Who deletes a copy gets it back.
        controller::feed(ctx.shared.mirrors.store.subscribe(), queue(), |change| {
            let mirrors = Context::<S>::scope() == fleet_api::names::Scope::Cluster;
            let matters = mirrors && change.old.is_none() != change.new.is_none();
            matters.then(|| Key::cluster(change.key.name()))
        }),
    );
}

#[tracing::instrument(name = "rollup", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Context<S>, key: &Key) -> Result<Next, Error> {
    let Some(placement) = ctx.family.placements.get(key) else {
        ctx.rollup.paces.lock().remove(key);
        return Ok(Next::Wait);
    };
    if placement.meta().deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let Some(status) = status(ctx, key, &placement) else {
        return Ok(Next::Wait);
    };
    let none = PlacementStatus::default();
    let before = placement.status().unwrap_or(&none);
    let context = rollup_context::<S>(&placement, None, 0, ctx.now());
    let Memory { paces, began } = &ctx.rollup;
    {
        let mut paces = paces.lock();
        let pace = paces.entry(key.clone()).or_default();
        if *before == status && !mirror::is_stale(ctx, key, &placement, &status) {
            pace.unchanged();
            return Ok(Next::Wait);
        }
        if let Due::At(at) = pace.look(&context, &before.conditions, &status.conditions, began.elapsed()) {
            return Ok(Next::At(*began + at));
        }
    }
    let mirrored = mirror::write(ctx, key, &placement, &status).await;
    // Many may wait for their turn, and each is made anew then.
    drop(status);
    let (mut shown, mut started) = (None, began.elapsed());
    let body = |placement: &S::Placement| {
        // Made when the turn has come: what happened while it waited is in it.
        let mut status = self::status(ctx, key, placement)?;
        let generation = placement.meta().generation.unwrap_or_default();
        mirrored.tell(&mut status, generation, ctx.now());
        let before = placement.status().cloned().unwrap_or_default();
        if before == status {
            return None;
        }
        started = began.elapsed();
        let body = serde_json::to_value(&status);
        shown = Some((before, status));
        Some(body)
    };
    let placements = &ctx.family.placements;
    let written = ctx.shared.writer.replace_status(placements, key, key, body).await?;
    let mut next = Next::Wait;
    if let (Some(placement), Some((before, after))) = (written, shown) {
        let now = began.elapsed();
        let pair = (before.conditions.as_slice(), after.conditions.as_slice());
        let news = {
            let mut paces = paces.lock();
            let pace = paces.entry(key.clone()).or_default();
            pace.wrote(&context, pair, now, now.saturating_sub(started))
        };
        announce(ctx, &placement, &news, &before, &after);
        if mirror::is_stale(ctx, key, &placement, &after) {
            // Something came between the two writes.
            next = Next::At(Instant::now());
        }
    }
    match mirrored {
        mirror::Outcome::Failed(_, error) => Err(error),
        _ => Ok(next),
    }
}

/// The status that the placement should have; none while nothing can be said.
fn status<S: Scope>(ctx: &Context<S>, key: &Key, placement: &S::Placement) -> Option<PlacementStatus> {
    let generation = placement.meta().generation.unwrap_or_default();
    let judged = ctx.selections.lock().get(key).cloned();
    // A word too early would be about selectors that nobody has looked at.
    let selected = judged.filter(|judged| judged.generation == generation)?.selected;
    let previous = placement.status().cloned().unwrap_or_default();
    let now = ctx.now();
    let live = match selected {
        Selected::Valid(live) => live,
        Selected::Refused(state) => {
            let mut status = previous;
            conditions::set(
                &mut status.conditions,
                &Context::<S>::scope().state(&state),
                generation,
                now,
            );
            return Some(status);
        }
    };
    let policy = ctx.latest_policy(key);
    let master = ctx.latest_master(key);
    let latest = master.as_ref().and_then(|master| {
        let index = master.labels().get(labels::RESOURCE_INDEX)?;
        Some((master.meta().name.as_deref()?, index.as_str()))
    });
    let decided = policy.as_ref().and_then(|policy| {
        let generation = policy.meta().generation.unwrap_or_default();
        ctx.scheduler.ahead.get(&Key::of(&**policy), generation)
    });
    let decided = decided
        .as_deref()
        .or(policy.as_ref().and_then(|policy| policy.status()));
    let decisions = decided.map_or(0, |status| status.target_clusters.len());
    let context = rollup_context::<S>(placement, latest, decisions, now);
    let bindings = ctx.family.bindings_of.get(key);
    let indexes: Vec<String> = bindings
        .iter()
        .map(|binding| index_of(ctx, key, &binding.spec().resource_snapshot_name))
        .collect();
    let ahead: Vec<_> = bindings.iter().map(|binding| ctx.ahead(binding)).collect();
    let views = bindings
        .iter()
        .zip(&indexes)
        .zip(&ahead)
        .map(|((binding, index), ahead)| {
            let view = BindingView {
                generation: binding.meta().generation.unwrap_or_default(),
                spec: binding.spec(),
                status: ahead.as_deref().or(binding.status()),
                index,
            };
            (binding.meta(), view)
        });
    let name = policy.as_ref().map(|policy| policy.name_any()).unwrap_or_default();
    let selected = match latest {
        _ if context.external => live.to_vec(),
        Some((_, index)) => content(ctx, key, index),
        None => Vec::new(),
    };
    let world = World {
        context,
        policy: policy.as_ref().map(|policy| PolicyView {
            generation: policy.meta().generation.unwrap_or_default(),
            policy: policy.spec().policy.as_ref(),
            number_of_clusters: policy
                .annotations()
                .get(annotations::NUMBER_OF_CLUSTERS)
                .and_then(|text| text.parse().ok()),
            status: decided,
        }),
        bindings: rollup::bindings_by_cluster(&name, views),
        selected: &selected,
        group_content: &|index| content(ctx, key, index),
        previous: &previous,
    };
    let mut status = rollup::roll_up(&world);
    mirror::carry::<S>(placement, &mut status);
    Some(status)
}

pub(super) fn rollup_context<'a, S: Scope>(
    placement: &S::Placement,
    latest: Option<(&'a str, &'a str)>,
    decisions: usize,
    now: jiff::Timestamp,
) -> rollup::Context<'a> {
    let strategy = placement.spec().strategy.as_ref();
    let apply = strategy.and_then(|strategy| strategy.apply_strategy.as_ref());
    rollup::Context {
        scope: Context::<S>::scope(),
        generation: placement.meta().generation.unwrap_or_default(),
        external: placement.spec().rollout_type() == RolloutStrategyType::External,
        reports_diff: apply.is_some_and(|apply| apply.type_ == ApplyStrategyType::ReportDiff),
        latest,
        entry_bytes_max: rollup::entry_bytes_max(decisions),
        now,
    }
}

/// The index of a snapshot, empty if it is not there.
fn index_of<S: Scope>(ctx: &Context<S>, placement: &Key, snapshot: &str) -> String {
    let found = ctx.family.snapshots.get(&beside(placement, snapshot));
    found
        .and_then(|s| s.labels().get(labels::RESOURCE_INDEX).cloned())
        .unwrap_or_default()
}

/// What the group with this index holds, in order.
fn content<S: Scope>(ctx: &Context<S>, placement: &Key, index: &str) -> Vec<ResourceIdentifier> {
    let held = ctx.group_content(placement, index);
    held.iter().map(ObjectId::to_identifier).collect()
}

/// Events for what has become true, or false, for this generation.
fn announce<S: Scope>(
    ctx: &Context<S>,
    placement: &S::Placement,
    news: &[Step],
    before: &PlacementStatus,
    after: &PlacementStatus,
) {
    let context = rollup_context::<S>(placement, None, 0, ctx.now());
    let key = Key::of(placement);
    ctx.steps.reached(&key, news, &ctx.shared.steps);
    for event in news.iter().filter_map(|step| PlacementEvent::succeeded(*step)) {
        ctx.tell(placement, &event);
    }
    // From here on members act.
    if news.contains(&Step::WorkSynchronized)
        && let Some(when) = rollup::acquires(placement.spec().strategy.as_ref())
    {
        let when = when.to_string();
        ctx.tell(placement, &PlacementEvent::TakesOwnership { when });
    }
    if !news.is_empty() && rollup::is_completed(&context, &after.conditions) {
        let steps_ms = ctx.steps.completed(&key);
        tracing::info!(generation = context.generation, steps_ms, "Placement completed");
        ctx.tell(placement, &PlacementEvent::Completed);
    }
    for (step, message) in rollup::failures(&context, before, after) {
        ctx.tell(placement, &PlacementEvent::failed(step, message));
    }
}
