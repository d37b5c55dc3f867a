//! Writes a placement's status.
//!
//! A change of a top-level condition goes out at once; counts, messages and entries are collected for a moment that
//! grows with the cost of the write, so that a hundred clusters do not make a hundred writes of a hundred entries each.

use std::{collections::HashMap, sync::Arc, time::Duration};

use fleet_api::{
    annotations,
    conditions::{
        self, Status,
        placement::{Scheduled, Step},
    },
    events::PlacementEvent,
    labels, patch,
    placement::{ApplyStrategyType, PlacementStatus, ResourceIdentifier, RolloutStrategyType, Scope},
    raw::RawJson,
};
use fleet_core::{
    rollup::{self, BindingView, PolicyView, World},
    selection::ObjectId,
};
use fleet_runtime::{Key, controller, queue::Next};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::context::{Context, Error, Selected};
use crate::{
    cache::family::{beside, parent},
    writer::Part,
};

/// The window of an idle hub: less than a person notices.
const WINDOW_MIN: Duration = Duration::from_millis(50);
/// However expensive the write, users wait no longer.
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// The share of the time that one placement's status may keep the API server busy, inverted.
const WINDOW_FACTOR: u32 = 10;

/// What the roll-up remembers of each placement.
#[derive(Default)]
pub(crate) struct Memory(Mutex<HashMap<Key, Last>>);

#[derive(Clone, Copy)]
struct Last {
    at: Instant,
    took: Duration,
}

impl Last {
    fn window_ends(self) -> Instant {
        self.at + (self.took * WINDOW_FACTOR).clamp(WINDOW_MIN, WINDOW_MAX)
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
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| parent(
            &**change.object()
        )),
    );
}

#[tracing::instrument(name = "rollup", level = "error", skip_all, fields(placement = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &Context<S>, key: &Key) -> Result<Next, Error> {
    let Some(placement) = ctx.family.placements.get(key) else {
        ctx.rollup.0.lock().remove(key);
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
    if *before == status {
        return Ok(Next::Wait);
    }
    let last = ctx.rollup.0.lock().get(key).copied();
    if let Some(ends) = last.map(Last::window_ends).filter(|ends| *ends > Instant::now())
        && !turns(&before.conditions, &status.conditions)
    {
        return Ok(Next::At(ends));
    }
    let mut failed = None;
    let mut shown = None;
    let body = |placement: &S::Placement| {
        // Made when the turn has come: what happened while it waited is in it.
        let status = self::status(ctx, key, placement)?;
        let before = placement.status().cloned().unwrap_or_default();
        let patch = patch::between(&before, &status)
            .map_err(|error| failed = Some(error))
            .ok()??;
        shown = Some((before, status));
        Some(json!({ "status": patch }))
    };
    let started = Instant::now();
    let placements = &ctx.family.placements;
    let written = ctx
        .shared
        .writer
        .patch(placements, key, key, Part::Rollup, body)
        .await?;
    if let Some(error) = failed {
        return Err(Error::Compare(key.to_string(), error));
    }
    if let (Some(placement), Some((before, after))) = (written, shown) {
        let last = Last {
            at: Instant::now(),
            took: started.elapsed(),
        };
        ctx.rollup.0.lock().insert(key.clone(), last);
        announce(ctx, &placement, &before, &after);
    }
    Ok(Next::Wait)
}

/// Whether a condition has another status than before, which somebody may be waiting for.
fn turns(before: &[Condition], after: &[Condition]) -> bool {
    let said = |list: &[Condition]| -> Vec<(String, String, Option<i64>)> {
        list.iter()
            .map(|c| (c.type_.clone(), c.status.clone(), c.observed_generation))
            .collect()
    };
    said(before) != said(after)
}

/// The status that the placement should have; none while nothing can be said.
fn status<S: Scope>(ctx: &Context<S>, key: &Key, placement: &S::Placement) -> Option<PlacementStatus> {
    let generation = placement.meta().generation.unwrap_or_default();
    let judged = ctx.selections.lock().get(key).cloned();
    // A word too early would be about selectors that nobody has looked at.
    let selected = judged.filter(|judged| judged.generation == generation)?.selected;
    let previous = placement.status().cloned().unwrap_or_default();
    let now = ctx.now();
    if let Selected::Invalid(error) = selected {
        let mut status = previous;
        let state = Scheduled::InvalidSelectors { error };
        conditions::set(
            &mut status.conditions,
            &Context::<S>::scope().state(&state),
            generation,
            now,
        );
        return Some(status);
    }
    let policy = ctx.latest_policy(key);
    let master = ctx.latest_master(key);
    let latest = master.as_ref().and_then(|master| {
        let index = master.labels().get(labels::RESOURCE_INDEX)?;
        Some((master.meta().name.as_deref()?, index.as_str()))
    });
    let decisions = policy
        .as_ref()
        .and_then(|p| p.status())
        .map_or(0, |s| s.target_clusters.len());
    let context = rollup_context::<S>(placement, latest, decisions, now);
    let bindings = ctx.family.bindings_of.get(key);
    let indexes: Vec<String> = bindings
        .iter()
        .map(|binding| index_of(ctx, key, &binding.spec().resource_snapshot_name))
        .collect();
    let views = bindings.iter().zip(&indexes).map(|(binding, index)| {
        let view = BindingView {
            generation: binding.meta().generation.unwrap_or_default(),
            spec: binding.spec(),
            status: binding.status(),
            index,
        };
        (binding.meta(), view)
    });
    let name = policy.as_ref().map(|policy| policy.name_any()).unwrap_or_default();
    let selected = match selected {
        Selected::External(live) => live,
        _ => latest.map(|(_, index)| content(ctx, key, index)).unwrap_or_default(),
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
            status: policy.status(),
        }),
        bindings: rollup::bindings_by_cluster(&name, views),
        selected: &selected,
        group_content: &|index| content(ctx, key, index),
        previous: &previous,
    };
    Some(rollup::roll_up(&world))
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
    let mut group: Vec<Arc<S::ResourceSnapshot>> = ctx.family.snapshots_of.get(placement);
    group.retain(|s| s.labels().get(labels::RESOURCE_INDEX).is_some_and(|own| own == index));
    let position = |s: &Arc<S::ResourceSnapshot>| {
        let text = s.annotations().get(annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT);
        text.and_then(|text| text.parse::<usize>().ok())
    };
    group.sort_by_key(position);
    let resources = group.iter().flat_map(|s| &s.spec().selected_resources);
    let identify = |text: &RawJson| Some(ObjectId::of(text).ok()?.to_identifier());
    resources.filter_map(identify).collect()
}

/// Events for what has become true, or false, for this generation.
fn announce<S: Scope>(ctx: &Context<S>, placement: &S::Placement, before: &PlacementStatus, after: &PlacementStatus) {
    let context = rollup_context::<S>(placement, None, 0, ctx.now());
    for step in rollup::newly_true(&context, &before.conditions, &after.conditions) {
        if let Some(event) = PlacementEvent::succeeded(step) {
            ctx.tell(placement, &event);
        }
    }
    let completed = |status: &PlacementStatus| rollup::is_completed(&context, &status.conditions);
    if completed(after) && !completed(before) {
        tracing::info!(generation = context.generation, "Placement completed");
        ctx.tell(placement, &PlacementEvent::Completed);
    }
    let unmet = rollup::first_unmet(&context, &after.conditions);
    // The other steps are false for a moment in every rollout, which is no news.
    if let Some((step @ (Step::Scheduled | Step::Overridden | Step::WorkSynchronized), Some(condition))) = unmet
        && Status::of(condition) == Status::False
        && !conditions::is_false(&before.conditions, &condition.type_, context.generation)
    {
        ctx.tell(placement, &PlacementEvent::failed(step, condition.message.clone()));
    }
}
