//! Conditions of a placement.
//!
//! Both scopes use the same words; only the types differ, by their prefix. So a state here gets its type from the
//! scope: `set(list, &scope.state(&Scheduled::Pending), …)`.

use super::selection::InvalidSelection;
use super::{ConditionState, Status, Words};
use crate::names::Scope;

/// The conditions of a placement that have a per-cluster and, but for the first, a binding counterpart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Clusters are picked.
    Scheduled,
    /// The latest resources are on their way.
    RolloutStarted,
    /// Overrides are applied.
    Overridden,
    /// Works are written.
    WorkSynchronized,
    /// Members have applied the Works.
    Applied,
    /// What was applied is available.
    Available,
    /// Differences are reported, where that is all that is asked for.
    DiffReported,
}

impl Step {
    /// All, in the order in which a placement goes through them and in which they are shown.
    pub const ALL: [Self; 7] = [
        Self::Scheduled,
        Self::RolloutStarted,
        Self::Overridden,
        Self::WorkSynchronized,
        Self::Applied,
        Self::Available,
        Self::DiffReported,
    ];

    /// What is expected after scheduling when resources are applied.
    pub const WHEN_APPLYING: &[Self] = &[
        Self::RolloutStarted,
        Self::Overridden,
        Self::WorkSynchronized,
        Self::Applied,
        Self::Available,
    ];

    /// What is expected after scheduling with apply strategy `ReportDiff`.
    pub const WHEN_REPORTING_DIFF: &[Self] = &[
        Self::RolloutStarted,
        Self::Overridden,
        Self::WorkSynchronized,
        Self::DiffReported,
    ];

    /// What is expected after scheduling. Types outside of it are removed.
    pub const fn expected(report_diff: bool) -> &'static [Self] {
        if report_diff {
            Self::WHEN_REPORTING_DIFF
        } else {
            Self::WHEN_APPLYING
        }
    }

    /// The condition's type on a placement of this scope.
    pub const fn on_placement(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::Scheduled, Scope::Cluster) => "ClusterResourcePlacementScheduled",
            (Self::RolloutStarted, Scope::Cluster) => "ClusterResourcePlacementRolloutStarted",
            (Self::Overridden, Scope::Cluster) => "ClusterResourcePlacementOverridden",
            (Self::WorkSynchronized, Scope::Cluster) => "ClusterResourcePlacementWorkSynchronized",
            (Self::Applied, Scope::Cluster) => "ClusterResourcePlacementApplied",
            (Self::Available, Scope::Cluster) => "ClusterResourcePlacementAvailable",
            (Self::DiffReported, Scope::Cluster) => "ClusterResourcePlacementDiffReported",
            (Self::Scheduled, Scope::Namespaced) => "ResourcePlacementScheduled",
            (Self::RolloutStarted, Scope::Namespaced) => "ResourcePlacementRolloutStarted",
            (Self::Overridden, Scope::Namespaced) => "ResourcePlacementOverridden",
            (Self::WorkSynchronized, Scope::Namespaced) => "ResourcePlacementWorkSynchronized",
            (Self::Applied, Scope::Namespaced) => "ResourcePlacementApplied",
            (Self::Available, Scope::Namespaced) => "ResourcePlacementAvailable",
            (Self::DiffReported, Scope::Namespaced) => "ResourcePlacementDiffReported",
        }
    }

    /// The condition's type in a placement's per-cluster entry and, but for `Scheduled`, on a binding.
    pub const fn on_cluster(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::RolloutStarted => "RolloutStarted",
            Self::Overridden => "Overridden",
            Self::WorkSynchronized => "WorkSynchronized",
            Self::Applied => "Applied",
            Self::Available => "Available",
            Self::DiffReported => "DiffReported",
        }
    }
}

/// A state of a placement's condition, whose type the scope decides.
pub trait PlacementState: Words {
    /// Which condition it is.
    const STEP: Step;
}

/// A placement's state together with the scope, and so with its type.
#[derive(Debug, Clone, Copy)]
pub struct Scoped<'a, S> {
    scope: Scope,
    state: &'a S,
}

impl Scope {
    /// `state` on a placement of this scope.
    pub const fn state<S: PlacementState>(self, state: &S) -> Scoped<'_, S> {
        Scoped { scope: self, state }
    }
}

impl<S: PlacementState> Words for Scoped<'_, S> {
    fn status(&self) -> Status {
        self.state.status()
    }

    fn reason(&self) -> &'static str {
        self.state.reason()
    }

    fn message(&self) -> String {
        self.state.message()
    }

    fn published(&self) -> bool {
        self.state.published()
    }
}

impl<S: PlacementState> ConditionState for Scoped<'_, S> {
    fn type_name(&self) -> &'static str {
        S::STEP.on_placement(self.scope)
    }
}

impl<S: PlacementState> PlacementState for super::Detailed<S> {
    const STEP: Step = S::STEP;
}

macro_rules! placement_states {
    ($($name:ident),+) => {
        $(impl PlacementState for $name {
            const STEP: Step = Step::$name;
        })+
    };
}
placement_states!(
    Scheduled,
    RolloutStarted,
    Overridden,
    WorkSynchronized,
    Applied,
    Available,
    DiffReported
);

states! {
    /// Whether clusters are picked. `Fulfilled` and `Unfulfilled` are copied from the policy snapshot.
    pub enum Scheduled {
        Pending => Unknown "SchedulePending" "Scheduling has not completed";
        Fulfilled { clusters: usize } => True "SchedulingPolicyFulfilled"
            "found all cluster needed as specified by the scheduling policy, found {clusters} cluster(s)" published;
        Unfulfilled { clusters: usize } => False "SchedulingPolicyUnfulfilled"
            "could not find all clusters needed as specified by the scheduling policy, found {clusters} cluster(s) \
             instead";
        InvalidSelectors { error: InvalidSelection } => False "InvalidResourceSelectors" {
            format!("The resource selectors are invalid: {}", error.to_user_error())
        };
        NoNamespaceSelector => False "InvalidResourceSelectors"
            "NamespaceAccessible ClusterResourcePlacement doesn't specify a resource selector which selects a \
             namespace";
        NamespaceChanged { namespace: String, original: String } => False "InvalidResourceSelectors"
            "namespace resource selector is choosing a different namespace '{namespace}' from what was originally \
             picked '{original}'. This is not allowed for NamespaceAccessible ClusterResourcePlacement";
    }
}

states! {
    /// Whether the selected clusters receive the latest resources. The `External` ones are for placements whose rollout
    /// update runs control.
    pub enum RolloutStarted {
        Started { clusters: usize } => True "RolloutStarted"
            "All {clusters} cluster(s) start rolling out the latest resource" published;
        NotStarted { clusters: usize } => False "RolloutNotStartedYet"
            "The rollout is being blocked by the rollout strategy in {clusters} cluster(s)";
        Undecided { clusters: usize } => Unknown "RolloutStartedUnknown"
            "There are still {clusters} cluster(s) in the process of deciding whether to roll out the latest \
             resources or not";
        ExternalMixed => Unknown "RolloutControlledByExternalController"
            "Rollout is controlled by an external controller and different resource snapshot versions are observed \
             across clusters";
        ExternalNone => Unknown "RolloutControlledByExternalController"
            "Rollout is controlled by an external controller and no resource snapshot name is observed across clusters, \
             probably rollout has not started yet";
        ExternalUndecided { cluster: String } => Unknown "RolloutControlledByExternalController"
            "Rollout is controlled by an external controller and cluster {cluster} is in RolloutStarted Unknown state";
    }
}

states! {
    /// Whether overrides are applied.
    pub enum Overridden {
        Succeeded { clusters: usize } => True "OverriddenSucceeded"
            "The selected resources are successfully overridden in {clusters} cluster(s)";
        NoneSpecified => True "NoOverrideSpecified"
            "No override rules are configured for the selected resources" published;
        Failed { clusters: usize } => False "OverriddenFailed" "Failed to override resources in {clusters} cluster(s)";
        Pending { clusters: usize } => Unknown "OverriddenPending"
            "There are still {clusters} cluster(s) in the process of overriding the selected resources if there is \
             any override defined";
    }
}

states! {
    /// Whether the Works are written.
    pub enum WorkSynchronized {
        Synchronized { clusters: usize } => True "WorkSynchronized"
            "Work(s) are successfully created or updated in {clusters} target cluster(s)' namespaces";
        NotYet { clusters: usize } => False "WorkNotSynchronizedYet"
            "There are {clusters} cluster(s) which have not finished creating or updating work(s) yet" published;
        Pending { clusters: usize } => Unknown "WorkSynchronizedUnknown"
            "There are still {clusters} cluster(s) in the process of creating or updating the work object(s) in the \
             hub cluster";
    }
}

states! {
    /// Whether the members have applied the Works.
    pub enum Applied {
        Succeeded { clusters: usize } => True "ApplySucceeded"
            "The selected resources are successfully applied to {clusters} cluster(s)";
        Failed { clusters: usize } => False "ApplyFailed"
            "Failed to apply resources to {clusters} cluster(s), please check the `failedPlacements` status";
        Pending { clusters: usize } => Unknown "ApplyPending"
            "There are still {clusters} cluster(s) in the process of applying the resources on the member cluster";
    }
}

states! {
    /// Whether what was applied is available.
    pub enum Available {
        Available { clusters: usize } => True "ResourceAvailable"
            "The selected resources in {clusters} cluster(s) are available now";
        NotYet { clusters: usize } => False "ResourceNotAvailableYet"
            "The selected resources in {clusters} cluster(s) are still not available yet";
        Pending { clusters: usize } => Unknown "ResourceAvailableUnknown"
            "There are still {clusters} cluster(s) in the process of checking the availability of the selected \
             resources";
    }
}

states! {
    /// Whether differences are reported.
    pub enum DiffReported {
        Completed { clusters: usize } => True "DiffReportingCompleted"
            "Diff reporting in {clusters} cluster(s) has been completed";
        Incomplete { clusters: usize } => False "DiffReportingIncompleteOrFailed"
            "Diff reporting in {clusters} clusters is still in progress or has failed";
        Pending { clusters: usize } => Unknown "DiffReportingPending"
            "There are still {clusters} cluster(s) in the process of checking for configuration differences";
    }
}

states! {
    /// Whether the namespaced mirror of the status is up to date. Only on cluster-scoped placements that ask for it.
    pub enum StatusSynced = "ClusterResourcePlacementStatusSynced" {
        Succeeded { namespace: String } => True "StatusSyncSucceeded"
            "Successfully created or updated ClusterResourcePlacementStatus in namespace '{namespace}'";
        Failed { error: String } => False "StatusSyncFailed"
            "Failed to create or update ClusterResourcePlacementStatus: error returned by the API server: failed to \
             create or update ClusterResourcePlacementStatus: {error}";
    }
}

#[cfg(test)]
mod tests;
