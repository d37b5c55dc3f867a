//! Reasons of update runs, their stages, clusters and tasks, and of approval requests.

use super::{Table, done, fails, waits};

const WHY: &str = "kubectl fleet why {run}{n}";
const WATCH: &str = "kubectl fleet rollout watch {run}{n}";
const DESCRIBE: &str = "kubectl describe {run}{n}";
const RESUME: &str = "kubectl patch {run}{n} --type merge --patch '{\"spec\":{\"state\":\"Run\"}}'";

pub(super) const TABLE: Table = &[
    ("UpdateRunInitializedSuccessfully", done("the run has a plan")),
    (
        "UpdateRunInitializedFailed",
        fails("the run could not make its plan, and never will: {message}", DESCRIBE),
    ),
    ("UpdateRunProgressing", waits("clusters are being updated", WATCH)),
    ("UpdateRunWaiting", waits("the run waits for a task: {message}", WHY)),
    (
        "UpdateRunStuck",
        fails("clusters have been updating for too long: {message}", WHY),
    ),
    (
        "UpdateRunStopping",
        waits(
            "the run is stopping, once clusters that are being updated are done",
            WATCH,
        ),
    ),
    (
        "UpdateRunRollingBack",
        waits("the run takes back what it did: {message}", WATCH),
    ),
    ("UpdateRunStopped", waits("the run is stopped", RESUME)),
    (
        "UpdateRunFailed",
        fails("the run has ended and cannot go on: {message}", DESCRIBE),
    ),
    ("UpdateRunSucceeded", done("all stages are done")),
    // Stages.
    (
        "StageUpdatingStarted",
        waits("clusters of the stage are being updated", WATCH),
    ),
    (
        "StageUpdatingWaiting",
        waits("the stage waits for a task: {message}", WHY),
    ),
    (
        "StageUpdatingStopping",
        waits(
            "the stage is stopping, once clusters that are being updated are done",
            WATCH,
        ),
    ),
    ("StageUpdatingStopped", waits("the stage is stopped", RESUME)),
    ("StageUpdatingSucceeded", done("the stage is done")),
    (
        "StageUpdatingFailed",
        fails("the stage has failed: {message}", DESCRIBE),
    ),
    ("StageUpdatingSkippedNoClusters", done("the stage has no clusters")),
    // Clusters.
    ("ClusterUpdatingStarted", waits("the cluster is being updated", WHY)),
    ("ClusterUpdatingSucceeded", done("the cluster is updated")),
    (
        "ClusterUpdatingFailed",
        fails("the cluster has failed: {message}", DESCRIBE),
    ),
    (
        "ClusterUpdatingSkippedNotSelected",
        done("skipped: the placement no longer picks the cluster"),
    ),
    (
        "ClusterUpdatingSkippedSelected",
        done("skipped: the placement picks the cluster again"),
    ),
    (
        "ClusterUpdatingSkippedUnhealthy",
        done("skipped: the cluster was not healthy when its turn came"),
    ),
    // Tasks and approvals.
    ("StageTaskApprovalRequestCreated", done("somebody is asked to approve")),
    ("StageTaskApprovalRequestApproved", done("approved")),
    ("AfterStageTaskWaitTimeElapsed", done("the wait is over")),
    ("ClusterApprovalRequestApproved", done("approved")),
    ("ApprovalRequestApproved", done("approved")),
    ("ApprovalRequestApprovalAccepted", done("approved, for good")),
];
