//! Kinds of cluster.kubernetes-fleet.io: who belongs to the fleet, and what each member says about itself.

mod internal_member_cluster;
mod member_cluster;
mod report;

pub use internal_member_cluster::{
    ClusterState, InternalMemberCluster, InternalMemberClusterSpec, InternalMemberClusterStatus,
};
pub use member_cluster::{
    DeleteOptions, DeleteValidationMode, MemberCluster, MemberClusterSpec, MemberClusterStatus, Taint, TaintEffect,
};
pub use report::{AgentStatus, AgentType, PropertyValue, ResourceUsage};

/// The API group of these kinds.
pub const GROUP: &str = "cluster.kubernetes-fleet.io";
