//! Finalizers. Each names who removes it, and what must have happened by then.

/// On MemberClusters. The membership controller removes it once the member namespace is gone.
pub const MEMBER_CLUSTER: &str = "kubernetes-fleet.io/membercluster-finalizer";
/// On MemberClusters that were exported. The inventory export removes it once the ClusterProfile is deleted.
pub const CLUSTER_PROFILE: &str = "kubernetes-fleet.io/cluster-profile-cleanup";
/// On Works and on bindings. On a Work the hub removes it when the member has cleaned up, has left, or is given up; on
/// a binding the work generator does when its Works are gone.
pub const WORK: &str = "kubernetes-fleet.io/work-cleanup";
/// On placements of both scopes. The placement controller removes it once the snapshots are deleted.
pub const PLACEMENT: &str = "kubernetes-fleet.io/crp-cleanup";
/// On placements of both scopes. The scheduler removes it once all bindings are being deleted.
pub const SCHEDULER: &str = "kubernetes-fleet.io/scheduler-cleanup";
/// On bindings of both scopes, from creation. The scheduler removes it when it has seen the deletion.
pub const SCHEDULER_BINDING: &str = "kubernetes-fleet.io/scheduler-crb-cleanup";
/// On overrides of both scopes. The override controller removes it once the snapshots are deleted.
pub const OVERRIDE: &str = "kubernetes-fleet.io/override-cleanup";
/// On update runs of both scopes. The update run controller removes it once the approval requests are deleted.
pub const UPDATE_RUN: &str = "kubernetes-fleet.io/stagedupdaterun-finalizer";
