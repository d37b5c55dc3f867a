//! Conditions inside an update run: of its stages, of the clusters in them, and of the tasks around them.

states! {
    /// What the stage is doing. The deletion stage has the same words.
    pub enum Progressing = "Progressing" {
        Started => True "StageUpdatingStarted" "Clusters in the stage started updating" published;
        WaitingBefore => False "StageUpdatingWaiting"
            "Not all before-stage tasks are completed, waiting for approval";
        WaitingAfter => False "StageUpdatingWaiting"
            "All clusters in the stage are updated, waiting for after-stage tasks to complete";
        Stopping => Unknown "StageUpdatingStopping"
            "Waiting for all the updating clusters to finish updating before completing the stop process";
        Stopped => False "StageUpdatingStopped"
            "All the updating clusters have finished updating, the stage is now stopped, waiting to be resumed";
        Succeeded => False "StageUpdatingSucceeded"
            "All clusters in the stage are updated and after-stage tasks are completed";
        Failed => False "StageUpdatingFailed" "Stage update aborted due to a non-recoverable error";
        Skipped => False "StageUpdatingSkippedNoClusters" "Stage skipped because it has no clusters";
    }
}

states! {
    /// How the stage ended. A failed one has the text of the run.
    pub enum Succeeded = "Succeeded" {
        Succeeded => True "StageUpdatingSucceeded" "Stage update completed successfully";
        Failed { error: String } => False "StageUpdatingFailed" "{error}" published;
        Skipped => True "StageUpdatingSkippedNoClusters" "Stage skipped because it has no clusters";
    }
}

states! {
    /// The cluster's update, or its removal, has begun.
    pub enum ClusterStarted = "Started" {
        Started => True "ClusterUpdatingStarted" "Cluster update started" published;
    }
}

states! {
    /// How the cluster's update ended.
    pub enum ClusterSucceeded = "Succeeded" {
        Succeeded => True "ClusterUpdatingSucceeded" "Cluster update completed successfully";
        /// The error is that of the run without its prefix: [`super::update_run::Abort::to_cluster_error`].
        Failed { error: String } => False "ClusterUpdatingFailed" "{error}" published;
        // Ours, both: upstream ends the run.
        SkippedNotSelected => True "ClusterUpdatingSkippedNotSelected"
            "Cluster skipped because it is no longer selected by the placement";
        /// In the deletion stage.
        SkippedSelected => True "ClusterUpdatingSkippedSelected"
            "Cluster skipped because it is selected by the placement again";
        // Ours, with settings of the run.
        SkippedUnhealthy => True "ClusterUpdatingSkippedUnhealthy" "Cluster skipped because it is not healthy";
        /// `obstacle` is what the binding says.
        NotInTime { deadline: String, obstacle: String } => False "ClusterUpdatingFailed"
            "the cluster did not become available within {deadline}: {obstacle}";
        /// After it had succeeded.
        BrokenSince { span: String, obstacle: String } => False "ClusterUpdatingFailed"
            "the cluster was updated, and then unavailable for {span}: {obstacle}";
    }
}

states! {
    /// The approval request of a task exists.
    pub enum ApprovalRequestCreated = "ApprovalRequestCreated" {
        Created => True "StageTaskApprovalRequestCreated" "ApprovalRequest object is created";
    }
}

states! {
    /// The approval request of a task is approved. Final.
    pub enum ApprovalRequestApproved = "ApprovalRequestApproved" {
        Approved => True "StageTaskApprovalRequestApproved" "ApprovalRequest object is approved";
    }
}

states! {
    /// The wait of a task is over.
    pub enum WaitTimeElapsed = "WaitTimeElapsed" {
        Elapsed => True "AfterStageTaskWaitTimeElapsed" "Wait time elapsed";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn stage_words() {
        assert_rows(&[
            (
                &Progressing::Started,
                "Progressing=True StageUpdatingStarted: Clusters in the stage started updating",
            ),
            (
                &Progressing::WaitingBefore,
                "Progressing=False StageUpdatingWaiting: \
                 Not all before-stage tasks are completed, waiting for approval",
            ),
            (
                &Progressing::WaitingAfter,
                "Progressing=False StageUpdatingWaiting: \
                 All clusters in the stage are updated, waiting for after-stage tasks to complete",
            ),
            (
                &Progressing::Stopping,
                "Progressing=Unknown StageUpdatingStopping: \
                 Waiting for all the updating clusters to finish updating before completing the stop process",
            ),
            (
                &Progressing::Stopped,
                "Progressing=False StageUpdatingStopped: All the updating clusters have finished updating, the stage \
                 is now stopped, waiting to be resumed",
            ),
            (
                &Progressing::Succeeded,
                "Progressing=False StageUpdatingSucceeded: \
                 All clusters in the stage are updated and after-stage tasks are completed",
            ),
            (
                &Progressing::Failed,
                "Progressing=False StageUpdatingFailed: Stage update aborted due to a non-recoverable error",
            ),
            (
                &Progressing::Skipped,
                "Progressing=False StageUpdatingSkippedNoClusters: Stage skipped because it has no clusters",
            ),
            (
                &Succeeded::Succeeded,
                "Succeeded=True StageUpdatingSucceeded: Stage update completed successfully",
            ),
            (
                &Succeeded::Failed { error: "e".into() },
                "Succeeded=False StageUpdatingFailed: e",
            ),
            (
                &Succeeded::Skipped,
                "Succeeded=True StageUpdatingSkippedNoClusters: Stage skipped because it has no clusters",
            ),
        ]);
    }

    #[test]
    fn cluster_and_task_words() {
        assert_rows(&[
            (
                &ClusterStarted::Started,
                "Started=True ClusterUpdatingStarted: Cluster update started",
            ),
            (
                &ClusterSucceeded::Succeeded,
                "Succeeded=True ClusterUpdatingSucceeded: Cluster update completed successfully",
            ),
            (
                &ClusterSucceeded::Failed { error: "e".into() },
                "Succeeded=False ClusterUpdatingFailed: e",
            ),
            (
                &ClusterSucceeded::SkippedNotSelected,
                "Succeeded=True ClusterUpdatingSkippedNotSelected: \
                 Cluster skipped because it is no longer selected by the placement",
            ),
            (
                &ClusterSucceeded::SkippedSelected,
                "Succeeded=True ClusterUpdatingSkippedSelected: \
                 Cluster skipped because it is selected by the placement again",
            ),
            (
                &ClusterSucceeded::SkippedUnhealthy,
                "Succeeded=True ClusterUpdatingSkippedUnhealthy: Cluster skipped because it is not healthy",
            ),
            (
                &ClusterSucceeded::NotInTime {
                    deadline: "5m".into(),
                    obstacle: "Available=False NotAvailable".into(),
                },
                "Succeeded=False ClusterUpdatingFailed: the cluster did not become available within 5m: \
                 Available=False NotAvailable",
            ),
            (
                &ClusterSucceeded::BrokenSince {
                    span: "30s".into(),
                    obstacle: "Available=False NotAvailable".into(),
                },
                "Succeeded=False ClusterUpdatingFailed: the cluster was updated, and then unavailable for 30s: \
                 Available=False NotAvailable",
            ),
            (
                &ApprovalRequestCreated::Created,
                "ApprovalRequestCreated=True StageTaskApprovalRequestCreated: ApprovalRequest object is created",
            ),
            (
                &ApprovalRequestApproved::Approved,
                "ApprovalRequestApproved=True StageTaskApprovalRequestApproved: ApprovalRequest object is approved",
            ),
            (
                &WaitTimeElapsed::Elapsed,
                "WaitTimeElapsed=True AfterStageTaskWaitTimeElapsed: Wait time elapsed",
            ),
        ]);
    }
}
