//! One placement on one member, as the matrix shows it.

use fleet_api::{
    conditions::{self, Status, placement::Step},
    kind::{HasSpec as _, HasStatus as _, Resource as _},
    placement::{ApplyStrategyType, BindingState, Scope},
};
use fleet_core::explain::{self, Verdict};

/// How a placement stands on a member, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mark {
    /// It is there and available.
    Done,
    /// It is on its way, or waits.
    Waiting,
    /// It is there, and somebody has changed it, or it differs.
    Drifted,
    /// Somebody has to repair something.
    Failed,
}

impl Mark {
    pub(crate) const ALL: [Self; 4] = [Self::Done, Self::Waiting, Self::Drifted, Self::Failed];
}

/// One placement on one member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) mark: Mark,
    /// The step that is not done, with the reason of its condition.
    pub(crate) says: String,
}

/// How a binding stands: the first step that is not done, and whether anything differs.
pub(super) fn of<S: Scope>(binding: &S::Binding) -> Cell {
    let (meta, spec) = (binding.meta(), binding.spec());
    let cell = |mark, says: &str| Cell {
        mark,
        says: says.to_owned(),
    };
    if meta.deletion_timestamp.is_some() || spec.state == BindingState::Unscheduled {
        return cell(Mark::Waiting, "leaves");
    }
    let Some(status) = binding.status() else {
        return cell(Mark::Waiting, "the rollout has not begun");
    };
    let compares = spec
        .apply_strategy
        .as_ref()
        .is_some_and(|strategy| strategy.type_ == ApplyStrategyType::ReportDiff);
    let generation = meta.generation.unwrap_or_default();
    for step in Step::expected(compares) {
        let name = step.on_cluster();
        let Some(condition) = conditions::fresh(&status.conditions, name, generation) else {
            return cell(Mark::Waiting, &format!("{name}: not yet"));
        };
        let mark = match (Status::of(condition), step) {
            (Status::True, _) => continue,
            (Status::False, Step::Applied) if !status.drifted_placements.is_empty() => Mark::Drifted,
            // As explanations judge the reason, so that a red cell leads to a red step.
            _ if explain::meaning(&condition.reason).is_some_and(|it| it.verdict == Verdict::Failed) => Mark::Failed,
            _ => Mark::Waiting,
        };
        return cell(mark, &format!("{name}: {}", condition.reason));
    }
    match (status.drifted_placements.len(), status.diffed_placements.len()) {
        (0, 0) => cell(Mark::Done, "available"),
        (0, differ) => cell(Mark::Drifted, &format!("{differ} objects differ")),
        (drifted, _) => cell(Mark::Drifted, &format!("{drifted} objects were changed on the member")),
    }
}
