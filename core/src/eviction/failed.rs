//! Failed, or still on its way? What has failed needs no budget; a rollout under way is no way around one.

use fleet_api::conditions::binding::{Applied, Available, DiffReported, Overridden, WorkSynchronized};
use fleet_api::conditions::{self, Status};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{Binding, later};

/// Of two states with one reason, only the sentence of this one has it.
const FAILED_TO_APPLY: &str = "has failed to apply";

/// Whether the binding has failed, or only reports differences. Conditions of another generation say nothing of today.
pub(super) fn is_failed(binding: &Binding<'_>, period: SignedDuration, now: Timestamp) -> bool {
    let is_false = |type_name| conditions::is_false(binding.conditions, type_name, binding.generation);
    let fresh = |type_name| conditions::fresh(binding.conditions, type_name, binding.generation);
    let not_applied = fresh(Applied::TYPE)
        .is_some_and(|said| Status::of(said) == Status::False && said.message.contains(FAILED_TO_APPLY));
    is_false(Overridden::TYPE)
        || is_false(WorkSynchronized::TYPE)
        || not_applied
        || fails_at(binding, period).is_some_and(|at| at <= now)
        || fresh(DiffReported::TYPE).is_some()
}

/// When a binding that is not available counts as failed, if nothing changes.
pub(super) fn fails_at(binding: &Binding<'_>, period: SignedDuration) -> Option<Timestamp> {
    let said: &Condition = conditions::fresh(binding.conditions, Available::TYPE, binding.generation)?;
    (Status::of(said) == Status::False).then(|| later(said.last_transition_time.0, period))
}

/// Whether the binding counts as available.
pub(super) fn is_available(binding: &Binding<'_>) -> bool {
    !binding.deleting && conditions::is_true(binding.conditions, Available::TYPE, binding.generation)
}

/// Why a binding is not available, in a word.
pub(super) fn why(binding: &Binding<'_>) -> String {
    if binding.deleting || binding.taken {
        return "Deleting".to_owned();
    }
    let types = [Overridden::TYPE, WorkSynchronized::TYPE, Applied::TYPE, Available::TYPE];
    let is_false = |said: &&Condition| Status::of(said) == Status::False;
    let fresh = |type_name| conditions::fresh(binding.conditions, type_name, binding.generation);
    let reason = types.into_iter().filter_map(fresh).find(is_false);
    match reason {
        Some(said) => said.reason.clone(),
        None if binding.placed => "NotReportedYet".to_owned(),
        None => binding.state.as_str().to_owned(),
    }
}
