//! Conditions of a Work, in the order in which they are listed. Reported by the member, `StatusTrimmed` set by the hub.

states! {
    /// Whether all manifests are applied. Absent when only differences are reported.
    pub enum Applied = "Applied" {
        AllApplied => True "AllManifestsApplied" "All the specified manifests have been applied";
        SomeNotApplied { applied: usize, total: usize } => False "SomeManifestsAreNotApplied"
            "Failed to apply all manifests ({applied} of {total} manifests are applied)";
        // Ours.
        HubWentBack => False "HubWentBackInTime"
            "The hub went back in time, as after a restore from a backup: nothing is applied or removed until the \
             annotation kubernetes-fleet.io/recovered-at of the InternalMemberCluster has a newer time";
    }
}

states! {
    /// Whether what was applied is available. Only there when everything is applied.
    pub enum Available = "Available" {
        AllAvailable => True "AllManifestsAvailable" "All of the applied manifests are available";
        NotTrackable => True "WorkNotTrackable" "Some of the applied manifests cannot be tracked for availability";
        SomeNotAvailable { available: usize, total: usize } => False "SomeManifestsAreNotAvailable"
            "Some manifests are not available ({available} of {total} manifests are available)";
    }
}

states! {
    /// Whether differences are reported. Only there when nothing but differences is asked for.
    pub enum DiffReported = "DiffReported" {
        AllReported => True "AllManifestsDiffReported" "All the specified manifests have reported diff";
        SomeNotReported { reported: usize, total: usize } => False "SomeManifestsHaveNotReportedDiff"
            "Failed to report diff on all manifests ({reported} of {total} manifests have reported diff)";
    }
}

states! {
    /// Whether details had to be left out. Absent when they fit.
    pub enum StatusTrimmed = "StatusTrimmed" {
        Oversized { over: usize, limit: usize } => True "Oversized"
            "The status data (drift/diff details and back-reported status) has been trimmed due to size constraints \
             ({over} bytes over limit {limit})";
    }
}

/// All types, in the order in which they are listed.
pub const TYPES: [&str; 4] = [Applied::TYPE, Available::TYPE, DiffReported::TYPE, StatusTrimmed::TYPE];

/// Detail for `SomeNotReported` when manifests say that they have reported. The words are ours.
pub const DEGRADED_COUNTS_AS_NOT_REPORTED: &str =
    "a diff found in degraded mode does not count as reported, since the member cluster rejects the manifest";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (
                &Applied::AllApplied,
                "Applied=True AllManifestsApplied: All the specified manifests have been applied",
            ),
            (
                &Applied::SomeNotApplied { applied: 1, total: 2 },
                "Applied=False SomeManifestsAreNotApplied: \
                 Failed to apply all manifests (1 of 2 manifests are applied)",
            ),
            (
                &Applied::HubWentBack,
                "Applied=False HubWentBackInTime: The hub went back in time, as after a restore from a backup: nothing is \
                 applied or removed until the annotation kubernetes-fleet.io/recovered-at of the InternalMemberCluster \
                 has a newer time",
            ),
            (
                &Available::AllAvailable,
                "Available=True AllManifestsAvailable: All of the applied manifests are available",
            ),
            (
                &Available::NotTrackable,
                "Available=True WorkNotTrackable: Some of the applied manifests cannot be tracked for availability",
            ),
            (
                &Available::SomeNotAvailable { available: 0, total: 3 },
                "Available=False SomeManifestsAreNotAvailable: \
                 Some manifests are not available (0 of 3 manifests are available)",
            ),
            (
                &DiffReported::AllReported,
                "DiffReported=True AllManifestsDiffReported: All the specified manifests have reported diff",
            ),
            (
                &DiffReported::SomeNotReported { reported: 1, total: 2 },
                "DiffReported=False SomeManifestsHaveNotReportedDiff: \
                 Failed to report diff on all manifests (1 of 2 manifests have reported diff)",
            ),
            (
                &StatusTrimmed::Oversized {
                    over: 5,
                    limit: 1_415_578,
                },
                "StatusTrimmed=True Oversized: The status data (drift/diff details and back-reported status) has been \
                 trimmed due to size constraints (5 bytes over limit 1415578)",
            ),
        ]);
    }
}
