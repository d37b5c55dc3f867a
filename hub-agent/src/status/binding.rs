//! A binding's status: `RolloutStarted`, `Overridden`, `WorkSynchronized` and what the member says, in one write.
//!
//! Made from its Works and from what the work generator says became of them (signal `outcomes`), so that a member's report
//! costs no more than this.

use std::time::Duration;

use fleet_api::{
    conditions::{
        self, Words as _,
        binding::{Applied, DiffReported, RolloutStarted},
    },
    names::ClusterName,
    placement::{ApplyStrategyType, BindingState, BindingStatus, Scope, Work},
};
use fleet_core::work::{Existing, Progress, Subject, View, binding_status, is_answered, is_interim};
use fleet_runtime::{Key, controller, queue::Next};
use kube::{
    Resource as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use tokio::time::Instant;

use crate::{
    binding,
    cache::family::parent,
    pipeline::{Error, Pipeline, Stage},
};

/// How long a step on the way waits for the next one, so that both go in one write. The other stages have it at once.
const INTERIM_WAIT: Duration = Duration::from_secs(1);

/// The roll-up of one scope's bindings. It remembers nothing.
pub(crate) type BindingRollup<S> = Stage<S, ()>;

/// What a binding's status is made from. The end of a pass over its Works comes as a signal.
pub(crate) async fn feed<S: Scope>(ctx: &BindingRollup<S>) {
    let queue = || ctx.queue.clone();
    tokio::join!(
        controller::feed(ctx.family.bindings.subscribe(), queue(), |change| [change.key.clone()]),
        controller::feed(ctx.shared.works.store.subscribe(), queue(), |change| ctx
            .reported(change)),
    );
}

#[tracing::instrument(name = "binding-rollup", level = "error", skip_all, fields(binding = %key))]
pub(crate) async fn pass<S: Scope>(ctx: &BindingRollup<S>, key: &Key) -> Result<Next, Error> {
    let found = ctx.family.bindings.get(key);
    let found = found.and_then(|binding| Some((parent(&*binding)?, binding)));
    let Some((placement, binding)) = found.filter(|(placement, binding)| binding::is_ready(ctx, placement, binding))
    else {
        ctx.signals.status_stored(key);
        return Ok(Next::Wait);
    };
    // Of this generation only: Works of the content before say nothing about the one that came meanwhile.
    let generation = binding.meta().generation.unwrap_or_default();
    let Some(StatusChange {
        before,
        after,
        is_interim,
    }) = wanted(ctx, &placement, &binding, generation)
    else {
        return Ok(Next::Wait);
    };
    if before != after {
        let noted = ctx.signals.say(&placement, key, generation, after);
        let write_at = noted.since + INTERIM_WAIT;
        if is_interim && Instant::now() < write_at {
            return Ok(Next::At(write_at));
        }
        // Made when the turn has come, so that a member that answers quickly saves a write.
        let make = |found: &S::Binding| Some(wanted(ctx, &placement, found, generation)?.after);
        binding::say(ctx, &placement, key, make).await?;
    }
    ctx.signals.status_stored(key);
    ctx.signals.settle(key);
    Ok(Next::Wait)
}

/// The status as it is and as it should be.
struct StatusChange {
    before: BindingStatus,
    after: BindingStatus,
    /// It is a step on the way.
    is_interim: bool,
}

fn wanted<S: Scope>(ctx: &Pipeline<S>, placement: &Key, binding: &S::Binding, generation: i64) -> Option<StatusChange> {
    // Changed meanwhile: the next look is on its way, and only it knows the Works of the new content.
    if binding.meta().deletion_timestamp.is_some() || binding.meta().generation != Some(generation) {
        return None;
    }
    let (key, spec, now) = (&Key::of(binding), binding.spec(), ctx.now());
    // While Works are being written nothing is said of them.
    let outcome = ctx.signals.outcome(key, generation)?;
    let cluster = ClusterName::new(spec.target_cluster.clone()).ok()?;
    let before = binding.status().cloned().unwrap_or_default();
    let mut previous = before.clone();
    if spec.state == BindingState::Bound {
        binding::stamp(ctx, placement, binding, &mut previous.conditions, now);
        // The rollout speaks first. Where it has said that the cluster waits for something newer, that stands.
        conditions::fresh(&previous.conditions, RolloutStarted::TYPE, generation)?;
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
    let under_way = [Applied::InProgress.reason(), DiffReported::InProgress.reason()];
    let in_progress = [Applied::TYPE, DiffReported::TYPE].into_iter().any(|type_name| {
        let said = conditions::fresh(&before.conditions, type_name, generation);
        said.is_some_and(|said| under_way.contains(&said.reason.as_str()))
    });
    let existing: Vec<_> = works.iter().map(Existing::of).collect();
    let progress = match &outcome.failure {
        Some(failure) => Progress::Failed(failure),
        None if is_answered(&existing, outcome.batch.as_deref(), in_progress) => Progress::Written(&views),
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
        clock: outcome.clock,
        previous: Some(&previous),
    };
    let after = binding_status(&subject, progress, now);
    Some(StatusChange {
        is_interim: outcome.failure.is_none() && is_interim(&after, generation),
        before,
        after,
    })
}
