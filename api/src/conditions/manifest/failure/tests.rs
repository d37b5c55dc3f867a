use super::*;

const DEGRADED: &str = " in degraded mode (full comparison is performed instead of partial comparison, as the manifest \
                        object is considered to be invalid by the member cluster API server)";

#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn words() {
    let e = || "e".to_owned();
    let rows = [
        (
            ApplyFailure::NotAnObject { error: e() },
            "DecodingErred: failed to decode manifest: failed to unmarshal JSON: e",
        ),
        (
            ApplyFailure::UnknownKind { error: e() },
            "DecodingErred: failed to decode manifest: failed to find GVR from member cluster client REST mapping: e",
        ),
        (
            ApplyFailure::NamespaceGiven {
                kind: "Node".into(),
                namespace: "app".into(),
            },
            "DecodingErred: failed to decode manifest: Node is cluster-scoped in the member cluster, but the manifest is of \
             namespace \"app\"",
        ),
        (
            ApplyFailure::NamespaceMissing { kind: "Pod".into() },
            "DecodingErred: failed to decode manifest: Pod is namespaced in the member cluster, but the manifest has no \
             namespace",
        ),
        (
            ApplyFailure::Outside {
                namespace: "app".into(),
            },
            "DecodingErred: failed to decode manifest: the object is not of namespace \"app\", which a ResourcePlacement or \
             ResourceEnvelope of that namespace cannot leave",
        ),
        (
            ApplyFailure::BadName { name: "a/b".into() },
            "DecodingErred: failed to decode manifest: no object can have the name \"a/b\"",
        ),
        (
            ApplyFailure::GenerateName,
            "FoundGenerateName: objects with only generate name are not supported",
        ),
        (
            ApplyFailure::Duplicated,
            "Duplicated: a duplicate manifest has been found",
        ),
        (
            ApplyFailure::Lookup { api: e() },
            "FailedToFindObjInMemberCluster: failed to find the corresponding object for the manifest object in the \
             member cluster: error returned by the API server: e",
        ),
        (
            ApplyFailure::OwnersUnknown { error: e() },
            "FailedToTakeOver: failed to take over a pre-existing object: failed to remove left-behind AppliedWork \
             owner references: failed to get the Work object: e",
        ),
        (
            ApplyFailure::OwnedByOthers {
                owners: "[v1 ConfigMap x]".into(),
            },
            "FailedToTakeOver: failed to take over a pre-existing object: the object is already owned by some other \
             sources(s) and co-ownership is disallowed (existingOwnerRefs: [v1 ConfigMap x])",
        ),
        (
            ApplyFailure::OwnedByAnotherWork,
            "FailedToTakeOver: failed to take over a pre-existing object: the object is already owned by another Fleet \
             AppliedWork object",
        ),
        (
            ApplyFailure::TakeOverComparison { error: e() },
            "FailedToTakeOver: failed to take over a pre-existing object: failed to calculate configuration diffs \
             between the manifest object and the object from the member cluster: e",
        ),
        (
            ApplyFailure::TakeOver { api: e() },
            "FailedToTakeOver: failed to take over a pre-existing object: failed to take over the object: error \
             returned by the API server: e",
        ),
        (
            ApplyFailure::TakeOverDiffs,
            "FailedToTakeOver: cannot take over object: configuration differences are found between the manifest \
             object and the corresponding object in the member cluster",
        ),
        (
            ApplyFailure::NotTakenOver,
            "NotTakenOver: no ownership of the object in the member cluster; takeover is needed",
        ),
        (
            ApplyFailure::DriftDetection { error: e() },
            "FailedToRunDriftDetection: failed to calculate pre-apply drifts between the manifest and the object from \
             the member cluster: e",
        ),
        (
            ApplyFailure::Drifts,
            "FoundDrifts: cannot apply manifest: drifts are found between the manifest and the object from the member \
             cluster",
        ),
        (
            ApplyFailure::Owners(InvalidOwners::CoOwned),
            "ManifestApplyFailed: failed to apply the manifest: failed to validate owner references: object is \
             co-owned by multiple objects but co-ownership has been disallowed",
        ),
        (
            ApplyFailure::Create { api: e() },
            "ManifestApplyFailed: failed to apply the manifest: failed to create manifest object: error returned by \
             the API server: e",
        ),
        (
            ApplyFailure::Patch { api: e() },
            "ManifestApplyFailed: failed to apply the manifest: failed to patch the manifest object: error returned by \
             the API server: e",
        ),
        (
            ApplyFailure::ServerSideApply { api: e() },
            "ManifestApplyFailed: failed to apply the manifest: failed to apply the manifest object: an error is \
             returned by the API server: e",
        ),
        (
            ApplyFailure::MergePatch { error: e() },
            "ManifestApplyFailed: failed to apply the manifest: failed to create three-way merge patch: e",
        ),
        (
            ApplyFailure::NoResourceVersion {
                object: "app/web".into(),
            },
            "ManifestApplyFailed: failed to apply the manifest: failed to enable optimistic lock: resource version is \
             empty on the object app/web",
        ),
        (
            ApplyFailure::UnknownStrategy { strategy: "X".into() },
            "ManifestApplyFailed: failed to apply the manifest: unexpected apply strategy X is found",
        ),
        (
            ApplyFailure::Contested { manager: e() },
            "ManifestApplyFailed: failed to apply the manifest: e keeps changing the object back on the member cluster; \
             let only one of the two manage it",
        ),
    ];
    for (failure, line) in rows {
        assert_eq!(format!("{}: {failure}", failure.reason()), line);
    }
}

#[test]
fn degraded_modes_say_so_after_the_usual_sentence() {
    for (usual, degraded, reason) in [
        (
            ApplyFailure::TakeOverDiffs,
            ApplyFailure::TakeOverDiffsDegraded,
            "FailedToTakeOver",
        ),
        (
            ApplyFailure::Drifts,
            ApplyFailure::DriftsDegraded,
            "FoundDriftsInDegradedMode",
        ),
    ] {
        assert_eq!(degraded.to_string(), format!("{usual}{DEGRADED}"));
        assert_eq!(degraded.reason(), reason);
    }
}

#[test]
fn owner_words() {
    let rows = [
        (
            InvalidOwners::InManifest,
            "manifest is set to have owner references but co-ownership is disallowed",
        ),
        (
            InvalidOwners::AppliedWorkInManifest,
            "an AppliedWork object is unexpectedly added as an owner in the manifest object",
        ),
        (
            InvalidOwners::NotOwned,
            "object is not owned by the expected AppliedWork object",
        ),
        (
            InvalidOwners::OwnedByAnotherWork,
            "object is already owned by another AppliedWork object",
        ),
    ];
    for (error, text) in rows {
        assert_eq!(error.to_string(), text);
    }
}
