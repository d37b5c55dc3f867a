//! Conditions of one manifest in a Work's status. Reported by the member; they speak of the live object's generation.

mod failure;

pub use failure::{ApplyFailure, InvalidOwners};

states! {
    /// Whether the manifest is applied. Absent when only differences are reported.
    pub enum Applied = "Applied" {
        Applied => True "Applied" "Manifest has been applied successfully";
        /// The error is only logged; the message repeats the reason.
        AppliedWithFailedDriftDetection => True "AppliedWithFailedDriftDetection" "AppliedWithFailedDriftDetection";
        Failed { failure: ApplyFailure } => False { failure.reason() }
            "Failed to apply the manifest (error: {failure})";
        /// Written before the first change, so that a crash leaves a trace of what may exist.
        Preparing => False "PreparingToProcess" "The manifest is being prepared for processing.";
    }
}

states! {
    /// Whether what was applied is available. Absent when nothing was applied.
    pub enum Available = "Available" {
        Available => True "Available" "Manifest is available";
        NotYet => False "ManifestNotAvailableYet"
            "Manifest is not yet available; Fleet will check again later" published;
        NotTrackable => True "NotTrackable"
            "Manifest's availability is not trackable; Fleet assumes that the applied manifest is available";
        Failed { error: String } => False "Failed"
            "Failed to track the availability of the applied manifest (error = {error})";
    }
}

states! {
    /// Whether differences are reported. Only there when nothing but differences is asked for.
    pub enum DiffReported = "DiffReported" {
        NoDiff => True "NoDiffFound" "No diff has been found between the hub cluster and the member cluster";
        Diff => True "FoundDiff" "Diff has been found between the hub cluster and the member cluster";
        DegradedDiff => True "FoundDiffInDegradedMode"
            "Diff has been found in degraded mode: cannot perform partial comparison as the member cluster API \
             server rejected the manifest object (object is invalid)";
        Failed { error: String } => False "FailedToReportDiff"
            "Failed to report the diff between the hub cluster and the member cluster (error = failed to calculate \
             configuration diffs between the manifest object and the object from the member cluster: {error})";
        /// Something before the comparison failed.
        Blocked { failure: ApplyFailure } => False "FailedToReportDiff" {
            format!("An error blocks the diff reporting process ({}, error: {failure})", failure.reason())
        };
    }
}

/// Detail for a `DiffReported` whose object was taken over on the way. The words are ours: upstream says nothing, and
/// the object goes with the placement.
pub const TAKEN_OVER_WHILE_COMPARING: &str = "Fleet has taken over the object, so it will be deleted together with the \
                                              placement; set whenToTakeOver to Never to avoid that";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (
                &Applied::Applied,
                "Applied=True Applied: Manifest has been applied successfully",
            ),
            (
                &Applied::AppliedWithFailedDriftDetection,
                "Applied=True AppliedWithFailedDriftDetection: AppliedWithFailedDriftDetection",
            ),
            (
                &Applied::Failed {
                    failure: ApplyFailure::Duplicated,
                },
                "Applied=False Duplicated: \
                 Failed to apply the manifest (error: a duplicate manifest has been found)",
            ),
            (
                &Applied::Preparing,
                "Applied=False PreparingToProcess: The manifest is being prepared for processing.",
            ),
            (&Available::Available, "Available=True Available: Manifest is available"),
            (
                &Available::NotYet,
                "Available=False ManifestNotAvailableYet: \
                 Manifest is not yet available; Fleet will check again later",
            ),
            (
                &Available::NotTrackable,
                "Available=True NotTrackable: Manifest's availability is not trackable; Fleet assumes that the applied \
                 manifest is available",
            ),
            (
                &Available::Failed { error: "e".into() },
                "Available=False Failed: Failed to track the availability of the applied manifest (error = e)",
            ),
            (
                &DiffReported::NoDiff,
                "DiffReported=True NoDiffFound: \
                 No diff has been found between the hub cluster and the member cluster",
            ),
            (
                &DiffReported::Diff,
                "DiffReported=True FoundDiff: Diff has been found between the hub cluster and the member cluster",
            ),
            (
                &DiffReported::DegradedDiff,
                "DiffReported=True FoundDiffInDegradedMode: Diff has been found in degraded mode: cannot perform \
                 partial comparison as the member cluster API server rejected the manifest object (object is invalid)",
            ),
            (
                &DiffReported::Failed { error: "e".into() },
                "DiffReported=False FailedToReportDiff: Failed to report the diff between the hub cluster and the \
                 member cluster (error = failed to calculate configuration diffs between the manifest object and the \
                 object from the member cluster: e)",
            ),
            (
                &DiffReported::Blocked {
                    failure: ApplyFailure::GenerateName,
                },
                "DiffReported=False FailedToReportDiff: An error blocks the diff reporting process \
                 (FoundGenerateName, error: objects with only generate name are not supported)",
            ),
        ]);
    }
}
