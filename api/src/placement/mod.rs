//! Kinds of placement.kubernetes-fleet.io: what runs where, and how it gets there.
//!
//! ```text
//! placement ─► policy snapshot ─► bindings ─┬─► Works ─► AppliedWorks (on members)
//!     └──────► resource snapshots ──────────┤
//!              override snapshots ──────────┘
//! ```
//!
//! Most kinds come as a cluster-scoped and a namespaced one over the same spec and status; [`Scope`] names the family.

mod applied_work;
mod approval;
mod binding;
mod disruption_budget;
mod envelope;
mod eviction;
mod overrides;
#[expect(clippy::module_inception, reason = "the kind is the group's namesake")]
mod placement;
mod policy;
mod run_options;
mod scope;
mod selector;
mod snapshot;
mod status;
mod strategy;
mod update_run;
mod update_strategy;
mod work;

pub use applied_work::{
    AppliedResource, AppliedWork, AppliedWorkInventory, AppliedWorkSpec, AppliedWorkStatus, InventoryObjects,
};
pub use approval::{ApprovalRequest, ApprovalRequestSpec, ApprovalRequestStatus, ClusterApprovalRequest};
pub use binding::{
    BindingSpec, BindingState, BindingStatus, ClusterDecision, ClusterResourceBinding, ClusterScore, ResourceBinding,
};
pub use disruption_budget::{ClusterResourcePlacementDisruptionBudget, DisruptionBudgetSpec};
pub use envelope::{ClusterResourceEnvelope, ResourceEnvelope};
pub use eviction::{ClusterResourcePlacementEviction, EvictionSpec, EvictionStatus, EvictionTarget};
pub use overrides::{
    ClusterResourceOverride, ClusterResourceOverrideSnapshot, ClusterResourceOverrideSnapshotSpec,
    ClusterResourceOverrideSpec, JsonPatchOp, JsonPatchOverride, OverridePolicy, OverrideRule, OverrideType,
    PlacementRef, PlacementScope, ResourceOverride, ResourceOverrideSelector, ResourceOverrideSnapshot,
    ResourceOverrideSnapshotSpec, ResourceOverrideSpec,
};
pub use placement::{
    ClusterResourcePlacement, ClusterResourcePlacementStatus, PlacementSpec, ResourcePlacement, StatusReportingScope,
};
pub use policy::{
    Affinity, ClusterAffinity, ClusterSelector, ClusterSelectorTerm, PlacementPolicy, PlacementType,
    PreferredClusterSelector, PropertyOperator, PropertyRequirement, PropertySelector, PropertySorter, SortOrder,
    Toleration, TolerationOperator, TopologySpreadConstraint, UnsatisfiableAction,
};
pub use run_options::{Gate, PreviousContent, UpdateRunOptions};
pub use scope::{ClusterScoped, Namespaced, Scope};
pub use selector::{ResourceSelector, SelectionScope};
pub use snapshot::{
    ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, PolicySnapshotSpec, PolicySnapshotStatus,
    ResourceSnapshot, ResourceSnapshotSpec, ResourceSnapshotStatus, SchedulingPolicySnapshot,
};
pub use status::{
    DiffedPlacement, DriftedPlacement, EnvelopeIdentifier, EnvelopeType, FailedPlacement, NamespacedName, PatchDetail,
    PerClusterPlacementStatus, PlacementStatus, ResourceIdentifier,
};
pub use strategy::{
    ApplyStrategy, ApplyStrategyType, ComparisonOption, DeletePropagationPolicy, DeleteStrategy, ReportBackDestination,
    ReportBackStrategy, ReportBackStrategyType, RollingUpdate, RolloutStrategy, RolloutStrategyType,
    ServerSideApplyConfig, WhenToApply, WhenToTakeOver,
};
pub use update_run::{
    ClusterStagedUpdateRun, ClusterUpdatingStatus, StageStatus, StageTaskStatus, StagedUpdateRun, UpdateRunSpec,
    UpdateRunState, UpdateRunStatus,
};
pub use update_strategy::{
    ClusterStagedUpdateStrategy, Stage, StageTask, StageTaskType, StagedUpdateStrategy, UpdateStrategySpec,
};
pub use work::{
    BackReportedStatus, DiffDetails, DriftDetails, ManifestCondition, Work, WorkResourceIdentifier, WorkSpec,
    WorkStatus, Workload,
};

/// The API group of these kinds.
pub const GROUP: &str = "placement.kubernetes-fleet.io";
