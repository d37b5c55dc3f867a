//! Whether the rollout of a binding has started, and whether it has Works therefore.

use fleet_api::{
    conditions::{
        self,
        binding::{RolloutStarted, WorkSynchronized},
    },
    placement::{BindingState, Scope},
};
use fleet_core::{
    rollout::{self, Goal},
    updaterun::{Binding, restamp},
};
use fleet_runtime::Key;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    Resource as _,
    core::object::{HasSpec as _, HasStatus as _},
};

use crate::pipeline::{Pipeline, signals::Goals};

/// Whether the rollout of a binding has started, by what its placement's bindings should name. That is made from stored
/// objects, at each look of the rollout and first of all in a new process; until then nothing is said.
pub(crate) fn is_started<S: Scope>(ctx: &Pipeline<S>, placement: &Key, binding: &S::Binding) -> bool {
    let Some(goals) = ctx.signals.goals(placement) else {
        return false;
    };
    let (name, spec) = (binding.meta().name.as_deref().unwrap_or_default(), binding.spec());
    match &*goals {
        Goals::Latest {
            snapshot,
            strategy,
            overrides,
        } => overrides.get(name).is_some_and(|lists| {
            let goal = Goal {
                snapshot: Some(snapshot),
                overrides: lists.as_ref().map_err(String::as_str),
                apply_strategy: strategy,
                cluster_exists: true,
                // Whether it may be changed now says nothing of what it names.
                window: None,
            };
            rollout::is_started(spec, &goal)
        }),
        Goals::External => again::<S>(placement, binding, Timestamp::UNIX_EPOCH).is_some(),
    }
}

/// Whether the binding is going, or about to: the end of its placement is its own.
pub(crate) fn is_ending<S: Scope>(ctx: &Pipeline<S>, placement: &Key, binding: &S::Binding) -> bool {
    let owner = ctx.family.placements.get(placement);
    binding.meta().deletion_timestamp.is_some() || owner.is_some_and(|owner| owner.meta().deletion_timestamp.is_some())
}

/// Whether a binding has Works, of which its status speaks.
pub(crate) fn is_ready<S: Scope>(ctx: &Pipeline<S>, placement: &Key, binding: &S::Binding) -> bool {
    let spec = binding.spec();
    let ready = match spec.state {
        BindingState::Bound => is_spoken_of(ctx, placement, binding),
        // It keeps what it has until it goes.
        BindingState::Unscheduled => !spec.resource_snapshot_name.is_empty(),
        _ => false,
    };
    // Nothing is written for a cluster that is not there, or of which nothing is known: its labels decide what it gets.
    let cluster = Key::cluster(spec.target_cluster.as_str());
    ready && !is_ending(ctx, placement, binding) && ctx.shared.members.get(&cluster).is_some()
}

/// Whether the rollout has spoken about the binding as it is: it has been started, or waits for something newer and keeps
/// its Works in step until then. Else nobody would renew what is said of them, and the rollout would wait for that.
fn is_spoken_of<S: Scope>(ctx: &Pipeline<S>, placement: &Key, binding: &S::Binding) -> bool {
    let generation = binding.meta().generation.unwrap_or_default();
    let list = binding
        .status()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    is_started(ctx, placement, binding)
        || conditions::fresh(list, RolloutStarted::TYPE, generation).is_some()
        || conditions::fresh(list, WorkSynchronized::TYPE, generation).is_some()
}

/// Puts `RolloutStarted` for the binding's generation into `list`, if its rollout has started and that is not said by a run.
pub(crate) fn stamp<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    binding: &S::Binding,
    list: &mut Vec<Condition>,
    now: Timestamp,
) {
    let external = ctx
        .signals
        .goals(placement)
        .is_some_and(|goals| matches!(*goals, Goals::External));
    if external {
        if let Some(said) = again::<S>(placement, binding, now) {
            conditions::replace(list, said);
        }
    } else if is_started(ctx, placement, binding) {
        let generation = binding.meta().generation.unwrap_or_default();
        conditions::set(list, &RolloutStarted::Started, generation, now);
    }
}

/// Where only runs start rollouts: what was said of a binding, for the generation that it has now.
fn again<S: Scope>(placement: &Key, binding: &S::Binding, now: Timestamp) -> Option<Condition> {
    let view = Binding::of(binding.meta(), binding.spec(), binding.status());
    restamp(placement.name(), &view, now)
}
