//! A binding's status: `RolloutStarted`, `Overridden`, `WorkSynchronized` and what the member says, in one write.

use std::time::Duration;

use fleet_api::{
    conditions::{self, binding::RolloutStarted},
    names::ClusterName,
    patch,
    placement::{ApplyStrategyType, BindingState, BindingStatus, Scope, Work},
};
use fleet_core::work::{ContentClock, Existing, Failure, Progress, Subject, View, binding_status, is_interim};
use fleet_runtime::{Key, queue::Next};
use kube::{
    Resource as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    placement::context::{Context, Error},
    writer::Part,
};

/// How long a step on the way waits for the next one, so that both go in one write. The other stages have it at once.
const INTERIM_WAIT: Duration = Duration::from_secs(1);

/// Writes the status that the binding should have, if it differs. It is made when the turn has come, so that a member
/// that answers quickly saves a write.
pub(crate) async fn write<S: Scope>(
    ctx: &Context<S>,
    key: &Key,
    placement: &Key,
    cluster: &ClusterName,
    generation: i64,
    failure: Option<&Failure>,
) -> Result<Next, Error> {
    let current = ctx
        .family
        .bindings
        .get(key)
        .and_then(|binding| wanted::<S>(ctx, key, &binding, cluster, generation, failure));
    let Some((before, after)) = current else {
        return Ok(Next::Wait);
    };
    let ahead = &ctx.work.ahead;
    if before == after {
        ahead.remove(key);
        settle(ctx, key);
        return Ok(Next::Wait);
    }
    let interim = failure.is_none() && is_interim(&after, generation);
    let noted = ahead.set(key, generation, after);
    if noted.news {
        ctx.queues.rollup.add(placement.clone());
        ctx.queues.rollout.add(placement.clone());
    }
    let write_at = noted.since + INTERIM_WAIT;
    if interim && Instant::now() < write_at {
        return Ok(Next::At(write_at));
    }
    let mut failed = None;
    let body = |found: &S::Binding| {
        let (before, after) = wanted::<S>(ctx, key, found, cluster, generation, failure)?;
        let patch = patch::between(&before, &after)
            .map_err(|error| failed = Some(error))
            .ok()??;
        Some(json!({ "status": patch }))
    };
    let bindings = &ctx.family.bindings;
    ctx.shared
        .writer
        .patch(bindings, key, placement, Part::Status, body)
        .await?;
    if let Some(error) = failed {
        return Err(Error::Compare(key.to_string(), error));
    }
    ahead.remove(key);
    settle(ctx, key);
    Ok(Next::Wait)
}

/// After the first look nothing is unknown any more about the age of the content.
fn settle<S: Scope>(ctx: &Context<S>, key: &Key) {
    if let Some(clock) = ctx.work.clocks.lock().get_mut(key)
        && *clock == ContentClock::Unknown
    {
        *clock = ContentClock::Unchanged;
    }
}

/// The status as it is and as it should be.
fn wanted<S: Scope>(
    ctx: &Context<S>,
    key: &Key,
    binding: &S::Binding,
    cluster: &ClusterName,
    generation: i64,
    failure: Option<&Failure>,
) -> Option<(BindingStatus, BindingStatus)> {
    // Changed meanwhile: the next look is on its way, and only it knows the Works of the new content.
    if binding.meta().deletion_timestamp.is_some() || binding.meta().generation != Some(generation) {
        return None;
    }
    let (spec, now) = (binding.spec(), ctx.now());
    let before = binding.status().cloned().unwrap_or_default();
    let mut previous = before.clone();
    if spec.state == BindingState::Bound {
        let started = ctx.started.lock().get(key) == Some(&generation);
        if started {
            conditions::set(&mut previous.conditions, &RolloutStarted::Started, generation, now);
        } else if conditions::fresh(&before.conditions, RolloutStarted::TYPE, generation).is_none() {
            // The rollout speaks first. Where it has said that the cluster waits for something newer, that stands.
            return None;
        }
    }
    let held = ctx.shared.works.by_binding.get(key);
    let namespace = cluster.namespace();
    let works: Vec<Work> = held
        .iter()
        .filter(|work| work.metadata.namespace.as_ref() == Some(&namespace))
        .filter(|work| work.metadata.deletion_timestamp.is_none())
        .map(|work| work.without_manifests())
        .collect();
    let views: Vec<_> = works.iter().map(View::of).collect();
    let answered = works.iter().any(|work| Existing::of(work).answered);
    let progress = match failure {
        Some(failure) => Progress::Failed(failure),
        None if answered => Progress::Written(&views),
        // Also after a restart: what was said of older Works is not said of these.
        None => Progress::JustWritten,
    };
    let subject = Subject {
        generation,
        overridden: !spec.cluster_resource_override_snapshots.is_empty()
            || !spec.resource_override_snapshots.is_empty(),
        reports_diff: spec
            .apply_strategy
            .as_ref()
            .is_some_and(|s| s.type_ == ApplyStrategyType::ReportDiff),
        clock: ctx
            .work
            .clocks
            .lock()
            .get(key)
            .copied()
            .unwrap_or(ContentClock::Unknown),
        previous: Some(&previous),
    };
    Some((before, binding_status(&subject, progress, now)))
}
