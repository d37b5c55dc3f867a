//! Conditions of one cluster's entry in a placement's status.
//!
//! Most are the binding's, shown verbatim with [`super::mirror`]; here are those that the placement controller words
//! itself.

use super::ConditionState;
use super::placement::Step;

states! {
    /// Whether the cluster is picked; the message is the decision's. An entry that is not has no cluster name.
    pub enum Scheduled = "Scheduled" {
        Scheduled { decision: String } => True "Scheduled" "{decision}" published;
        Failed { decision: String } => False "ScheduleFailed" "{decision}";
    }
}

states! {
    /// The binding still names an older snapshot and must wait.
    pub enum RolloutStarted = "RolloutStarted" {
        Blocked => False "RolloutNotStartedYet" "The rollout is being blocked by the rollout strategy";
    }
}

states! {
    /// What is shown for the first condition that the binding does not have, or not for its current generation.
    pub enum Undecided {
        RolloutStarted => Unknown "RolloutStartedUnknown"
            "In the process of deciding whether to roll out some version of the resources or not" published;
        Overridden => Unknown "OverriddenPending"
            "In the process of overriding the selected resources if there is any override defined";
        WorkSynchronized => Unknown "WorkSynchronizedUnknown"
            "In the process of creating or updating the work object(s) in the hub cluster";
        Applied => Unknown "ApplyPending" "In the process of applying the resources on the member cluster";
        Available => Unknown "ResourceAvailableUnknown"
            "The availability of the selected resources is unknown yet ";
        DiffReported => Unknown "DiffReportingPending"
            "Diff reporting has just started; its status is not yet to be known";
    }
}

impl Undecided {
    /// The state for this step; none for scheduling, which no binding has.
    pub const fn of(step: Step) -> Option<Self> {
        match step {
            Step::Scheduled => None,
            Step::RolloutStarted => Some(Self::RolloutStarted),
            Step::Overridden => Some(Self::Overridden),
            Step::WorkSynchronized => Some(Self::WorkSynchronized),
            Step::Applied => Some(Self::Applied),
            Step::Available => Some(Self::Available),
            Step::DiffReported => Some(Self::DiffReported),
        }
    }
}

impl ConditionState for Undecided {
    fn type_name(&self) -> &'static str {
        match self {
            Self::RolloutStarted => Step::RolloutStarted,
            Self::Overridden => Step::Overridden,
            Self::WorkSynchronized => Step::WorkSynchronized,
            Self::Applied => Step::Applied,
            Self::Available => Step::Available,
            Self::DiffReported => Step::DiffReported,
        }
        .on_cluster()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (
                &Scheduled::Scheduled {
                    decision: "picked".into(),
                },
                "Scheduled=True Scheduled: picked",
            ),
            (
                &Scheduled::Failed {
                    decision: "not found".into(),
                },
                "Scheduled=False ScheduleFailed: not found",
            ),
            (
                &RolloutStarted::Blocked,
                "RolloutStarted=False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy",
            ),
            (
                &Undecided::RolloutStarted,
                "RolloutStarted=Unknown RolloutStartedUnknown: \
                 In the process of deciding whether to roll out some version of the resources or not",
            ),
            (
                &Undecided::Overridden,
                "Overridden=Unknown OverriddenPending: \
                 In the process of overriding the selected resources if there is any override defined",
            ),
            (
                &Undecided::WorkSynchronized,
                "WorkSynchronized=Unknown WorkSynchronizedUnknown: \
                 In the process of creating or updating the work object(s) in the hub cluster",
            ),
            (
                &Undecided::Applied,
                "Applied=Unknown ApplyPending: In the process of applying the resources on the member cluster",
            ),
            (
                &Undecided::Available,
                "Available=Unknown ResourceAvailableUnknown: \
                 The availability of the selected resources is unknown yet ",
            ),
            (
                &Undecided::DiffReported,
                "DiffReported=Unknown DiffReportingPending: \
                 Diff reporting has just started; its status is not yet to be known",
            ),
        ]);
    }

    #[test]
    fn every_step_but_scheduling_can_be_undecided() {
        for step in Step::ALL {
            assert_eq!(
                Undecided::of(step).map(|u| u.type_name()),
                Some(step.on_cluster()).filter(|t| *t != "Scheduled")
            );
        }
    }
}
