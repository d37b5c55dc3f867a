//! Reasons of placements, their clusters, policy snapshots and bindings, up to the Works; and of evictions.

use super::{Table, done, fails, waits};

const WHY: &str = "kubectl fleet why {placement}{n}";
const WHY_CLUSTER: &str = "kubectl fleet why {placement} {cluster}{n}";
const EDIT: &str = "kubectl edit {placement}{n}";
const HUB_AGENT: &str = "kubectl -n fleet-system logs deploy/hub-agent";

pub(super) const TABLE: Table = &[
    // Scheduling.
    (
        "SchedulePending",
        waits("the scheduler has not decided about this generation yet", HUB_AGENT),
    ),
    ("SchedulingPolicyFulfilled", done("all wanted clusters were found")),
    (
        "SchedulingPolicyUnfulfilled",
        fails("fewer clusters fit than the policy asks for", EDIT),
    ),
    (
        "InvalidResourceSelectors",
        fails("the resource selectors cannot be used: {message}", EDIT),
    ),
    ("Scheduled", done("the cluster is picked")),
    (
        "ScheduleFailed",
        fails("the cluster is not picked: {message}", WHY_CLUSTER),
    ),
    // Rollout.
    ("RolloutStarted", done("the latest resources are on their way")),
    (
        "RolloutNotStartedYet",
        waits(
            "the rollout waits for room in its budget or for a window: {message}",
            WHY,
        ),
    ),
    (
        "RolloutStartedUnknown",
        waits("the rollout has not decided about the cluster yet", HUB_AGENT),
    ),
    (
        "RolloutControlledByExternalController",
        waits(
            "the strategy is External: clusters get resources from update runs only",
            "kubectl get {csur}{n}",
        ),
    ),
    // Overrides.
    ("OverriddenSucceeded", done("overrides are applied")),
    ("NoOverrideSpecified", done("no override is about these resources")),
    (
        "OverriddenFailed",
        fails("an override cannot be applied: {message}", WHY_CLUSTER),
    ),
    ("OverriddenPending", waits("overrides are being applied", HUB_AGENT)),
    // Works.
    ("WorkSynchronized", done("the Works are written")),
    ("AllWorkSynced", done("the Works are written")),
    (
        "WorkNotSynchronizedYet",
        fails("the Works cannot be written for all clusters", WHY),
    ),
    (
        "WorkSynchronizedUnknown",
        waits("the Works are being written", HUB_AGENT),
    ),
    (
        "SyncWorkFailed",
        fails("the Works cannot be written: {message}", WHY_CLUSTER),
    ),
    // The copy of the status.
    ("StatusSyncSucceeded", done("the copy of the status is up to date")),
    (
        "StatusSyncFailed",
        fails(
            "the copy of the status cannot be written: {message}",
            "kubectl describe {placement}{n}",
        ),
    ),
    // Evictions.
    (
        "ClusterResourcePlacementEvictionValid",
        done("there is something to evict"),
    ),
    (
        "ClusterResourcePlacementEvictionInvalid",
        fails("there is nothing to evict: {message}", WHY_CLUSTER),
    ),
    (
        "ClusterResourcePlacementEvictionExecuted",
        done("the placement is taken off the cluster"),
    ),
    (
        "ClusterResourcePlacementEvictionNotExecuted",
        fails("{message}", "kubectl get crpdb {name} -o yaml"),
    ),
];
