//! The two families of kinds.

use std::fmt::Debug;

use kube::core::object::HasStatus;

use super::{
    ApprovalRequest, ApprovalRequestSpec, ApprovalRequestStatus, BindingSpec, BindingStatus, ClusterApprovalRequest,
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot,
    ClusterStagedUpdateRun, ClusterStagedUpdateStrategy, PlacementScope, PlacementSpec, PlacementStatus,
    PolicySnapshotSpec, PolicySnapshotStatus, ResourceBinding, ResourcePlacement, ResourceSnapshot,
    ResourceSnapshotSpec, ResourceSnapshotStatus, SchedulingPolicySnapshot, StagedUpdateRun, StagedUpdateStrategy,
    UpdateRunSpec, UpdateRunStatus, UpdateStrategySpec,
};
use crate::kind::SpecKind;

/// The kinds that work together for one kind of placement. Everything that deals with placements is written once, generic
/// over this.
pub trait Scope: Copy + Debug + Default + Send + Sync + 'static {
    /// Which of the two this is.
    const SCOPE: PlacementScope;

    /// What users write.
    type Placement: SpecKind<Spec = PlacementSpec> + HasStatus<Status = PlacementStatus>;
    /// Its policy at one moment, and the scheduler's decisions.
    type PolicySnapshot: SpecKind<Spec = PolicySnapshotSpec> + HasStatus<Status = PolicySnapshotStatus>;
    /// What it selected at one moment.
    type ResourceSnapshot: SpecKind<Spec = ResourceSnapshotSpec> + HasStatus<Status = ResourceSnapshotStatus>;
    /// Its claim on one cluster.
    type Binding: SpecKind<Spec = BindingSpec> + HasStatus<Status = BindingStatus>;
    /// A staged update of it.
    type UpdateRun: SpecKind<Spec = UpdateRunSpec> + HasStatus<Status = UpdateRunStatus>;
    /// The stages that such an update goes through.
    type UpdateStrategy: SpecKind<Spec = UpdateStrategySpec>;
    /// What such an update asks people.
    type ApprovalRequest: SpecKind<Spec = ApprovalRequestSpec> + HasStatus<Status = ApprovalRequestStatus>;
}

/// ClusterResourcePlacement and its family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClusterScoped;

/// ResourcePlacement and its family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Namespaced;

impl Scope for ClusterScoped {
    const SCOPE: PlacementScope = PlacementScope::Cluster;

    type Placement = ClusterResourcePlacement;
    type PolicySnapshot = ClusterSchedulingPolicySnapshot;
    type ResourceSnapshot = ClusterResourceSnapshot;
    type Binding = ClusterResourceBinding;
    type UpdateRun = ClusterStagedUpdateRun;
    type UpdateStrategy = ClusterStagedUpdateStrategy;
    type ApprovalRequest = ClusterApprovalRequest;
}

impl Scope for Namespaced {
    const SCOPE: PlacementScope = PlacementScope::Namespaced;

    type Placement = ResourcePlacement;
    type PolicySnapshot = SchedulingPolicySnapshot;
    type ResourceSnapshot = ResourceSnapshot;
    type Binding = ResourceBinding;
    type UpdateRun = StagedUpdateRun;
    type UpdateStrategy = StagedUpdateStrategy;
    type ApprovalRequest = ApprovalRequest;
}
