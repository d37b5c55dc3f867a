//! Writes a placement's status.
//!
//! Each pass looks at the stores and makes anew what of it has changed since the last (`fleet_core::rollup::Rollup`);
//! `fleet_core::rollup::Pace` says when a difference is worth a write.

use std::{collections::BTreeMap, sync::Arc};

use fleet_api::{
    annotations,
    conditions::{self, placement::Step},
    events::PlacementEvent,
    labels,
    placement::{ApplyStrategyType, PlacementStatus, RolloutStrategyType, Scope},
};
use fleet_core::rollup::{self, BindingView, Due, PolicyView, Rolled, World};
use fleet_runtime::{Key, controller, queue::Next};
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use tokio::time::Instant;

pub(crate) use super::memory::RollupMemory;
use super::{
    memory::{BindingVersion, Remembered, identifiers},
    mirror,
};
use crate::{
    cache::family::{beside, concerned, parent},
    pipeline::{Error, Pipeline, Stage, signals::Selected},
};

/// The roll-up of one scope's placements.
pub(crate) type PlacementRollup<S> = Stage<S, RollupMemory<S>>;

/// What a placement's status is made from.
pub(crate) async fn feed<S: Scope>(ctx: &PlacementRollup<S>) {
    let queue = || ctx.queue.clone();
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
            let mirrors = Pipeline::<S>::scope() == fleet_api::names::Scope::Cluster;
            let matters = mirrors && change.old.is_none() != change.new.is_none();
            matters.then(|| Key::cluster(change.key.name()))
        }),
    );
}

#[tracing::instrument(name = "rollup", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &PlacementRollup<S>, key: &Key) -> Result<Next, Error> {
    let Some(placement) = ctx.family.placements.get(key) else {
        ctx.memory.forget(key);
        return Ok(Next::Wait);
    };
    if placement.meta().deletion_timestamp.is_some() {
        return Ok(Next::Wait);
    }
    let (memory, began) = (ctx.memory.of(key), ctx.memory.began);
    let context = rollup_context::<S>(&placement, None, 0, ctx.now());
    let none = PlacementStatus::default();
    let before = placement.status().unwrap_or(&none);
    // A copy is compared with all of it; else a write makes that, when its turn has come.
    let (after, differs, copied) = {
        let mut memory = memory.lock();
        let look = look(ctx, key, &placement, &mut memory, |rolled| {
            let (after, differs) = (rolled.head.conditions.clone(), !rolled.is(before));
            let copied = mirror::is_wanted::<S>(&placement).then(|| rolled.into_status());
            (after, differs, copied)
        });
        memory.looked(Some(placement.clone()));
        match look {
            Some(look) => look,
            None => return Ok(Next::Wait),
        }
    };
    let is_stale = |placement: &S::Placement, status: Option<&PlacementStatus>| {
        status.is_some_and(|status| mirror::is_stale(ctx, key, placement, status))
    };
    {
        let pace = &mut memory.lock().pace;
        if !differs && !is_stale(&placement, copied.as_ref()) {
            pace.unchanged();
            return Ok(Next::Wait);
        }
        if let Due::At(at) = pace.look(&context, &before.conditions, &after, began.elapsed()) {
            return Ok(Next::At(began + at));
        }
    }
    let mirrored = mirror::write(ctx, key, &placement, copied.as_ref()).await;
    // Many may wait for their turn.
    drop((after, copied));
    let (mut shown, mut started) = (None, began.elapsed());
    let body = |placement: &S::Placement| {
        // Made when the turn has come: what happened while it waited is in it.
        let mut memory = memory.lock();
        let before = placement.status().unwrap_or(&none);
        let status = look(ctx, key, placement, &mut memory, |mut rolled| {
            let generation = placement.meta().generation.unwrap_or_default();
            mirrored.tell(&mut rolled.head, generation, ctx.now());
            (!rolled.is(before)).then(|| rolled.into_status())
        });
        // What is stored from here on is another, or nobody knows.
        memory.looked(None);
        let status = status.flatten()?;
        started = began.elapsed();
        let body = serde_json::to_value(&status);
        shown = Some((before.clone(), status));
        Some(body)
    };
    let placements = &ctx.family.placements;
    let written = ctx.shared.writer.replace_status(placements, key, key, body).await?;
    let mut next = Next::Wait;
    if let (Some(placement), Some((before, after))) = (written, shown) {
        let now = began.elapsed();
        let pair = (before.conditions.as_slice(), after.conditions.as_slice());
        let news = {
            let mut memory = memory.lock();
            memory.wrote(placement.clone());
            memory.pace.wrote(&context, pair, now, now.saturating_sub(started))
        };
        announce(ctx, &placement, &news, &before, &after);
        if mirror::is_stale(ctx, key, &placement, &after) {
            // Something came between the two writes.
            next = Next::At(Instant::now());
        }
    }
    match mirrored {
        mirror::Copied::Failed(_, error) => Err(error),
        _ => Ok(next),
    }
}

/// Gives `then` the status that the placement should have; none while nothing can be said.
fn look<S: Scope, R>(
    ctx: &Pipeline<S>,
    key: &Key,
    placement: &S::Placement,
    memory: &mut Remembered<S>,
    then: impl FnOnce(Rolled<'_>) -> R,
) -> Option<R> {
    let generation = placement.meta().generation.unwrap_or_default();
    // A word too early would be about selectors that nobody has looked at.
    let selected = ctx.signals.verdict(key, generation)?;
    let none = PlacementStatus::default();
    let previous = placement.status().unwrap_or(&none);
    let now = ctx.now();
    let live = match selected {
        Selected::Valid(live) => live,
        Selected::Refused(state) => {
            let mut head = PlacementStatus {
                selected_resources: previous.selected_resources.clone(),
                observed_resource_index: previous.observed_resource_index.clone(),
                placement_statuses: Vec::new(),
                conditions: previous.conditions.clone(),
                other: previous.other.clone(),
            };
            let state = Pipeline::<S>::scope().state(&state);
            conditions::set(&mut head.conditions, &state, generation, now);
            return Some(then(Rolled::with_entries_of(previous, head)));
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
        ctx.signals.decision(&Key::of(&**policy), generation)
    });
    let decided = decided
        .as_deref()
        .or(policy.as_ref().and_then(|policy| policy.status()));
    let decisions = decided.map_or(0, |status| status.target_clusters.len());
    let context = rollup_context::<S>(placement, latest, decisions, now);
    let name = policy.as_ref().map(|policy| policy.name_any()).unwrap_or_default();
    let bindings = ctx.family.bindings_of.get(key);
    let versions = versions(ctx, key, &name, context.external, &bindings);
    let views = versions.iter().map(|(cluster, version)| {
        let binding = &version.binding;
        let view = BindingView {
            generation: binding.meta().generation.unwrap_or_default(),
            spec: binding.spec(),
            status: version.ahead.as_deref().or(binding.status()),
            index: &version.index,
        };
        (*cluster, view)
    });
    let origin = memory.origin(placement);
    let Remembered { rollup, content, .. } = memory;
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
        bindings: views.collect(),
        selected: match latest {
            _ if context.external => &live,
            Some((_, index)) => content.of(ctx, key, index),
            None => &[],
        },
        group_content: &|index| identifiers::<S>(&ctx.group(key, index)),
        previous,
    };
    let mut rolled = rollup.look(&world, origin, |cluster| versions.get(cluster).cloned());
    mirror::carry::<S>(placement, &mut rolled.head);
    Some(then(rolled))
}

/// The bindings that count, by cluster.
fn versions<'a, S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    policy: &str,
    external: bool,
    bindings: &'a [Arc<S::Binding>],
) -> BTreeMap<&'a str, BindingVersion<S>> {
    let all = bindings.iter().map(|binding| (binding.meta(), binding.spec(), binding));
    let counting = rollup::latest_by_cluster(policy, all).into_iter();
    let version = |binding: &Arc<S::Binding>| BindingVersion {
        binding: binding.clone(),
        ahead: ctx.ahead(binding),
        index: if external {
            index_of(ctx, placement, &binding.spec().resource_snapshot_name)
        } else {
            String::new()
        },
    };
    counting.map(|(cluster, binding)| (cluster, version(binding))).collect()
}

pub(super) fn rollup_context<'a, S: Scope>(
    placement: &S::Placement,
    latest: Option<(&'a str, &'a str)>,
    decisions: usize,
    now: jiff::Timestamp,
) -> rollup::Common<'a> {
    let strategy = placement.spec().strategy.as_ref();
    let apply = strategy.and_then(|strategy| strategy.apply_strategy.as_ref());
    rollup::Common {
        scope: Pipeline::<S>::scope(),
        generation: placement.meta().generation.unwrap_or_default(),
        external: placement.spec().rollout_type() == RolloutStrategyType::External,
        reports_diff: apply.is_some_and(|apply| apply.type_ == ApplyStrategyType::ReportDiff),
        latest,
        entry_bytes_max: rollup::entry_bytes_max(decisions),
        now,
    }
}

/// The index of a snapshot, empty if it is not there.
fn index_of<S: Scope>(ctx: &Pipeline<S>, placement: &Key, snapshot: &str) -> String {
    let found = ctx.family.snapshots.get(&beside(placement, snapshot));
    found
        .and_then(|s| s.labels().get(labels::RESOURCE_INDEX).cloned())
        .unwrap_or_default()
}

/// Events for what has become true, or false, for this generation.
fn announce<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &S::Placement,
    news: &[Step],
    before: &PlacementStatus,
    after: &PlacementStatus,
) {
    let context = rollup_context::<S>(placement, None, 0, ctx.now());
    let key = Key::of(placement);
    ctx.signals.steps.reached(&key, news, &ctx.shared.steps);
    for event in news.iter().filter_map(|step| PlacementEvent::succeeded(*step)) {
        ctx.record(placement, &event);
    }
    // From here on members act.
    if news.contains(&Step::WorkSynchronized)
        && let Some(when) = rollup::acquires(placement.spec().strategy.as_ref())
    {
        let when = when.to_string();
        ctx.record(placement, &PlacementEvent::TakesOwnership { when });
    }
    if !news.is_empty() && rollup::is_completed(&context, &after.conditions) {
        let steps_ms = ctx.signals.steps.completed(&key);
        tracing::info!(generation = context.generation, steps_ms, "Placement completed");
        ctx.record(placement, &PlacementEvent::Completed);
    }
    for (step, message) in rollup::failures(&context, before, after) {
        ctx.record(placement, &PlacementEvent::failed(step, message));
    }
}
