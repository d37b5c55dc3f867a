//! Under `External` the scheduler's writes make what is said of a binding stale, also when no run is at work.

use fleet_api::conditions;
use fleet_api::conditions::Status;
use fleet_api::conditions::binding::RolloutStarted;
use fleet_api::placement::BindingState;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::names::index_of;
use super::step::{Stamp, sentence};
use super::world::Binding;

/// The `RolloutStarted` that a binding should have for the generation that it has now; none if it has one, or if only a
/// run may start it.
///
/// It is made from the binding alone, so that a start which was cut short before its stamp ends with the right sentence.
pub fn restamp(placement: &str, binding: &Binding<'_>, now: Timestamp) -> Option<Condition> {
    if binding.deleting || binding.spec.state != BindingState::Bound || binding.spec.resource_snapshot_name.is_empty() {
        return None;
    }
    let said = conditions::find(binding.conditions, RolloutStarted::TYPE);
    if conditions::fresh(binding.conditions, RolloutStarted::TYPE, binding.generation).is_some() {
        return None;
    }
    match binding.update_run {
        // It was left and picked again: a run that includes it starts it.
        Some("") => None,
        Some(annotation) => {
            let run = annotation.split('/').next().unwrap_or_default();
            let message = sentence(index_of(placement, &binding.spec.resource_snapshot_name), run);
            let started = said.filter(|said| Status::of(said) == Status::True && said.message == message);
            let at = started.map_or(now, |said| said.last_transition_time.0);
            Some(Stamp { message, at }.condition(binding.generation))
        }
        // Rolled out before runs took over.
        None => said.map(|said| Condition {
            observed_generation: Some(binding.generation),
            ..said.clone()
        }),
    }
}
