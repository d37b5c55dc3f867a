//! Reasons of applying: of placements and bindings from the Works on, of Works, and of single manifests.

use super::{Table, done, fails, waits};

const WHY: &str = "kubectl fleet why {placement}{n}";
const WHY_CLUSTER: &str = "kubectl fleet why {placement} {cluster}{n}";
const MEMBER: &str = "kubectl fleet why membercluster/{cluster}";
const DIFF: &str = "kubectl fleet diff {placement} {cluster}{n}";
const LOOK: &str = "kubectl --context {cluster} describe {object}";
const EDIT: &str = "kubectl edit {placement}{n}";
const RECOVER: &str = "kubectl annotate imc {cluster} -n fleet-member-{cluster} --overwrite \
                       kubernetes-fleet.io/recovered-at=$(date -u +%Y-%m-%dT%H:%M:%SZ)";

pub(super) const TABLE: Table = &[
    // Placements.
    ("ApplySucceeded", done("the resources are applied")),
    (
        "ApplyFailed",
        fails("the resources are not applied on all clusters", WHY),
    ),
    ("ApplyPending", waits("the members are applying the resources", MEMBER)),
    ("ResourceAvailable", done("the resources are available")),
    (
        "ResourceNotAvailableYet",
        waits("the resources are applied, but not available on all clusters", WHY),
    ),
    (
        "ResourceAvailableUnknown",
        waits("availability is not known yet", MEMBER),
    ),
    ("DiffReportingCompleted", done("differences are reported")),
    (
        "DiffReportingIncompleteOrFailed",
        waits("differences are not reported by all clusters", WHY),
    ),
    ("DiffReportingPending", waits("the members are comparing", MEMBER)),
    // Bindings.
    ("ApplyInProgress", waits("the member is applying the resources", MEMBER)),
    (
        "NotAllWorkHaveBeenApplied",
        fails("something is not applied: {message}", WHY_CLUSTER),
    ),
    ("AllWorkHaveBeenApplied", done("the member has applied everything")),
    (
        "NotAllWorkAreAvailable",
        waits("applied, but not available yet: {message}", WHY_CLUSTER),
    ),
    (
        "NotAllWorkAreAvailabilityTrackable",
        done("applied; nobody can tell whether it is available"),
    ),
    ("AllWorkAreAvailable", done("everything is available")),
    ("DiffReportInProgress", waits("the member is comparing", MEMBER)),
    (
        "NotAllWorkHaveDiffReported",
        waits("something is not compared: {message}", DIFF),
    ),
    ("AllWorkHaveDiffReported", done("all differences are reported")),
    // Works.
    ("AllManifestsApplied", done("all manifests are applied")),
    (
        "SomeManifestsAreNotApplied",
        fails("not all manifests are applied: {message}", WHY_CLUSTER),
    ),
    (
        "HubWentBackInTime",
        fails(
            "the hub went back in time, as after a restore from a backup: nothing is applied or removed until somebody \
             has looked",
            RECOVER,
        ),
    ),
    ("AllManifestsAvailable", done("all manifests are available")),
    (
        "WorkNotTrackable",
        done("applied; nobody can tell whether it is available"),
    ),
    (
        "SomeManifestsAreNotAvailable",
        waits("not all manifests are available: {message}", WHY_CLUSTER),
    ),
    ("AllManifestsDiffReported", done("all manifests are compared")),
    (
        "SomeManifestsHaveNotReportedDiff",
        waits("not all manifests are compared: {message}", DIFF),
    ),
    ("Oversized", done("details were left out, since they do not fit")),
    // Manifests.
    ("Applied", done("applied")),
    (
        "AppliedWithFailedDriftDetection",
        done("applied, but drifts could not be looked for"),
    ),
    ("PreparingToProcess", waits("the member is about to apply it", MEMBER)),
    ("DecodingErred", fails("the manifest cannot be used: {message}", LOOK)),
    (
        "FoundGenerateName",
        fails("the object has no name but a generateName: give it a name", EDIT),
    ),
    (
        "Duplicated",
        fails("an earlier manifest names the same object: select it once", EDIT),
    ),
    (
        "FailedToFindObjInMemberCluster",
        fails("the member's API server does not show the object: {message}", LOOK),
    ),
    (
        "FailedToTakeOver",
        fails("the object exists and is not taken over: {message}", DIFF),
    ),
    (
        "NotTakenOver",
        fails(
            "the object exists on the member, and whenToTakeOver is Never: it is left alone",
            EDIT,
        ),
    ),
    (
        "FailedToRunDriftDetection",
        fails("drifts could not be looked for: {message}", LOOK),
    ),
    (
        "FoundDrifts",
        fails(
            "somebody changed the object on the member, and whenToApply is IfNotDrifted",
            DIFF,
        ),
    ),
    (
        "FoundDriftsInDegradedMode",
        fails(
            "somebody changed the object on the member, and the member refuses the manifest as invalid",
            DIFF,
        ),
    ),
    (
        "ManifestApplyFailed",
        fails("the member refuses the object: {message}", LOOK),
    ),
    ("Available", done("available")),
    ("ManifestNotAvailableYet", waits("applied, but not available yet", LOOK)),
    ("NotTrackable", done("applied; nobody can tell whether it is available")),
    ("Failed", fails("availability cannot be told: {message}", LOOK)),
    ("NoDiffFound", done("no difference")),
    ("FoundDiff", done("differences are reported")),
    (
        "FoundDiffInDegradedMode",
        done("differences are reported, but the member refuses the manifest as invalid"),
    ),
    ("FailedToReportDiff", fails("it cannot be compared: {message}", DIFF)),
];
