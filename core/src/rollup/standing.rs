//! Where a placement stands, in the words of its metric.

use fleet_api::conditions::placement::Step;
use fleet_api::conditions::{self, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Common;

/// The first condition that is not True for the generation, or that all are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing<'a> {
    /// The condition's type, or `Completed`.
    pub condition_type: &'a str,
    /// Its status; `nil` if it says nothing about this generation.
    pub status: &'a str,
    /// Its reason; likewise.
    pub reason: &'a str,
}

/// What nobody has said anything about.
const NOTHING: &str = "nil";
/// All that was asked for.
const COMPLETED: &str = "Completed";

/// Where a placement with these conditions stands.
pub fn standing<'a>(context: &Common<'_>, list: &'a [Condition]) -> Standing<'a> {
    for step in std::iter::once(&Step::Scheduled).chain(context.steps()) {
        let type_name = step.on_placement(context.scope);
        match conditions::fresh(list, type_name, context.generation) {
            Some(condition) if Status::of(condition) == Status::True => {}
            said => {
                return Standing {
                    condition_type: type_name,
                    status: said.map_or(NOTHING, |condition| condition.status.as_str()),
                    reason: said.map_or(NOTHING, |condition| condition.reason.as_str()),
                };
            }
        }
    }
    Standing {
        condition_type: COMPLETED,
        status: "True",
        reason: COMPLETED,
    }
}
