//! Conditions of a binding, in the order in which they come about.
//!
//! Errors in them carry no class: see [`super::error_class::ErrorClass::strip`].

states! {
    /// Whether the binding may be carried out. Written by the rollout controller or an update run; why it may not goes
    /// after the sentence.
    pub enum RolloutStarted = "RolloutStarted" {
        Started => True "RolloutStarted"
            "Detected the new changes on the resources and started the rollout process" published;
        StartedByRun { index: String, run: String } => True "RolloutStarted"
            "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: \
             {index}, updateRun: {run}" published;
        NotStartedYet => False "RolloutNotStartedYet"
            "The resources cannot be updated to the latest because of the rollout strategy";
    }
}

states! {
    /// Whether overrides are applied. Written by the work generator.
    pub enum Overridden = "Overridden" {
        NoneSpecified => True "NoOverrideSpecified"
            "No override rules are configured for the selected resources" published;
        Succeeded => True "OverriddenSucceeded" "Successfully applied the override rules on the resources";
        Failed { error: String } => False "OverriddenFailed"
            "Failed to apply the override rules on the resources: {error}";
    }
}

states! {
    /// Whether the Works are written. Written by the work generator.
    pub enum WorkSynchronized = "WorkSynchronized" {
        Synced => True "AllWorkSynced" "All of the works are synchronized to the latest" published;
        Failed { error: String } => False "SyncWorkFailed"
            "Failed to synchronize the work to the latest: {error}" published;
    }
}

states! {
    /// Whether the member has applied all Works. Written by the work generator.
    pub enum Applied = "Applied" {
        InProgress => False "ApplyInProgress" "Resources are being applied";
        Incomplete { work: String } => False "NotAllWorkHaveBeenApplied"
            "Work object {work} has not yet completed the apply op";
        Failed { work: String } => False "NotAllWorkHaveBeenApplied" "Work object {work} has failed to apply";
        AllApplied => True "AllWorkHaveBeenApplied" "All corresponding work objects are applied" published;
    }
}

states! {
    /// Whether what was applied is available. Written by the work generator.
    pub enum Available = "Available" {
        Incomplete { work: String } => False "NotAllWorkAreAvailable"
            "Work object {work} has not yet completed availability check";
        NotYet { work: String } => False "NotAllWorkAreAvailable" "Work object {work} is not yet available" published;
        NotTrackable { work: String } => True "NotAllWorkAreAvailabilityTrackable"
            "The availability of work object {work} is not trackable";
        AllAvailable => True "AllWorkAreAvailable" "All corresponding work objects are available";
    }
}

states! {
    /// Whether differences are reported. Written by the work generator.
    pub enum DiffReported = "DiffReported" {
        InProgress => False "DiffReportInProgress" "Diff reporting on resources is in progress";
        Incomplete { work: String } => False "NotAllWorkHaveDiffReported"
            "Work object {work} has not yet completed diff reporting";
        Failed { work: String } => False "NotAllWorkHaveDiffReported" "Work object {work} has failed to report diff";
        AllReported => True "AllWorkHaveDiffReported" "All corresponding work objects have reported diff";
    }
}

/// Reasons of a true `Available` that only means that nobody can tell; readiness then needs time. Bindings have the
/// first; the others come from Works and are accepted too.
pub const NOT_TRACKABLE_REASONS: [&str; 3] = [
    "NotAllWorkAreAvailabilityTrackable",
    "WorkNotTrackable",
    "SomeManifestsAreNotAvailabilityTrackable",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn rollout_and_work_words() {
        assert_rows(&[
            (
                &RolloutStarted::Started,
                "RolloutStarted=True RolloutStarted: \
                 Detected the new changes on the resources and started the rollout process",
            ),
            (
                &RolloutStarted::StartedByRun {
                    index: "1".into(),
                    run: "example-run".into(),
                },
                "RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout \
                 process, resourceSnapshotIndex: 1, updateRun: example-run",
            ),
            (
                &RolloutStarted::NotStartedYet,
                "RolloutStarted=False RolloutNotStartedYet: \
                 The resources cannot be updated to the latest because of the rollout strategy",
            ),
            (
                &Overridden::NoneSpecified,
                "Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources",
            ),
            (
                &Overridden::Succeeded,
                "Overridden=True OverriddenSucceeded: Successfully applied the override rules on the resources",
            ),
            (
                &Overridden::Failed {
                    error: "the master resource snapshot is not found".into(),
                },
                "Overridden=False OverriddenFailed: Failed to apply the override rules on the resources: \
                 the master resource snapshot is not found",
            ),
            (
                &WorkSynchronized::Synced,
                "WorkSynchronized=True AllWorkSynced: All of the works are synchronized to the latest",
            ),
            (
                &WorkSynchronized::Failed {
                    error: "works.placement.kubernetes-fleet.io \"crp1-work\" is forbidden: unable to create new \
                            content in namespace fleet-member-kind-cluster-1 because it is being terminated"
                        .into(),
                },
                "WorkSynchronized=False SyncWorkFailed: Failed to synchronize the work to the latest: \
                 works.placement.kubernetes-fleet.io \"crp1-work\" is forbidden: unable to create new content in \
                 namespace fleet-member-kind-cluster-1 because it is being terminated",
            ),
        ]);
    }

    #[test]
    fn member_words() {
        let work = || "p-work".to_owned();
        assert_rows(&[
            (
                &Applied::InProgress,
                "Applied=False ApplyInProgress: Resources are being applied",
            ),
            (
                &Applied::Incomplete { work: work() },
                "Applied=False NotAllWorkHaveBeenApplied: Work object p-work has not yet completed the apply op",
            ),
            (
                &Applied::Failed { work: work() },
                "Applied=False NotAllWorkHaveBeenApplied: Work object p-work has failed to apply",
            ),
            (
                &Applied::AllApplied,
                "Applied=True AllWorkHaveBeenApplied: All corresponding work objects are applied",
            ),
            (
                &Available::Incomplete { work: work() },
                "Available=False NotAllWorkAreAvailable: \
                 Work object p-work has not yet completed availability check",
            ),
            (
                &Available::NotYet { work: work() },
                "Available=False NotAllWorkAreAvailable: Work object p-work is not yet available",
            ),
            (
                &Available::NotTrackable { work: work() },
                "Available=True NotAllWorkAreAvailabilityTrackable: \
                 The availability of work object p-work is not trackable",
            ),
            (
                &Available::AllAvailable,
                "Available=True AllWorkAreAvailable: All corresponding work objects are available",
            ),
            (
                &DiffReported::InProgress,
                "DiffReported=False DiffReportInProgress: Diff reporting on resources is in progress",
            ),
            (
                &DiffReported::Incomplete { work: work() },
                "DiffReported=False NotAllWorkHaveDiffReported: \
                 Work object p-work has not yet completed diff reporting",
            ),
            (
                &DiffReported::Failed { work: work() },
                "DiffReported=False NotAllWorkHaveDiffReported: Work object p-work has failed to report diff",
            ),
            (
                &DiffReported::AllReported,
                "DiffReported=True AllWorkHaveDiffReported: All corresponding work objects have reported diff",
            ),
        ]);
    }
}
