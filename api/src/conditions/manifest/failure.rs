//! Why a manifest could not be applied or compared.

use thiserror::Error;

/// Why a manifest could not be applied. An `api` or `error` is what the API server said.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum ApplyFailure {
    /// The manifest is not an object.
    #[error("failed to decode manifest: failed to unmarshal JSON: {error}")]
    NotAnObject { error: String },
    /// The member does not know the kind.
    #[error("failed to decode manifest: failed to find GVR from member cluster client REST mapping: {error}")]
    UnknownKind { error: String },
    /// A namespace on what has none there.
    #[error(
        "failed to decode manifest: {kind} is cluster-scoped in the member cluster, but the manifest is of namespace \
         {namespace:?}"
    )]
    NamespaceGiven { kind: String, namespace: String },
    /// No namespace on what has one there.
    #[error("failed to decode manifest: {kind} is namespaced in the member cluster, but the manifest has no namespace")]
    NamespaceMissing { kind: String },
    /// The manifest came out of a namespace and would leave it.
    #[error(
        "failed to decode manifest: the object is not of namespace {namespace:?}, which a ResourcePlacement or \
         ResourceEnvelope of that namespace cannot leave"
    )]
    Outside { namespace: String },
    /// A name that no object can have: it would become more than one part of a URL.
    #[error("failed to decode manifest: no object can have the name {name:?}")]
    BadName { name: String },
    /// The object has no name of its own.
    #[error("objects with only generate name are not supported")]
    GenerateName,
    /// An earlier manifest of the Work names the same object.
    #[error("a duplicate manifest has been found")]
    Duplicated,
    /// The live object could not be read.
    #[error(
        "failed to find the corresponding object for the manifest object in the member cluster: error returned by \
         the API server: {api}"
    )]
    Lookup { api: String },

    /// Whether an owner's Work still exists could not be found out.
    #[error(
        "failed to take over a pre-existing object: failed to remove left-behind AppliedWork owner references: \
         failed to get the Work object: {error}"
    )]
    OwnersUnknown { error: String },
    /// Somebody else owns the object. The owners must print the same in every round.
    #[error(
        "failed to take over a pre-existing object: the object is already owned by some other sources(s) and \
         co-ownership is disallowed (existingOwnerRefs: {owners})"
    )]
    OwnedByOthers { owners: String },
    /// Another Work owns the object.
    #[error(
        "failed to take over a pre-existing object: the object is already owned by another Fleet AppliedWork object"
    )]
    OwnedByAnotherWork,
    /// The live object could not be compared before taking it over.
    #[error(
        "failed to take over a pre-existing object: failed to calculate configuration diffs between the manifest \
         object and the object from the member cluster: {error}"
    )]
    TakeOverComparison { error: String },
    /// The API server refused the take-over.
    #[error(
        "failed to take over a pre-existing object: failed to take over the object: error returned by the API \
         server: {api}"
    )]
    TakeOver { api: String },
    /// The live object differs, so it is not taken over.
    #[error(
        "cannot take over object: configuration differences are found between the manifest object and the \
         corresponding object in the member cluster"
    )]
    TakeOverDiffs,
    /// The same, found by full comparison because the API server considers the manifest invalid.
    #[error(
        "cannot take over object: configuration differences are found between the manifest object and the \
         corresponding object in the member cluster in degraded mode (full comparison is performed instead of \
         partial comparison, as the manifest object is considered to be invalid by the member cluster API server)"
    )]
    TakeOverDiffsDegraded,
    /// The object is not ours and shall not become so.
    #[error("no ownership of the object in the member cluster; takeover is needed")]
    NotTakenOver,

    /// The live object could not be compared before applying.
    #[error(
        "failed to calculate pre-apply drifts between the manifest and the object from the member cluster: {error}"
    )]
    DriftDetection { error: String },
    /// The live object has drifted, so it is left alone.
    #[error("cannot apply manifest: drifts are found between the manifest and the object from the member cluster")]
    Drifts,
    /// The same, found by full comparison because the API server considers the manifest invalid.
    #[error(
        "cannot apply manifest: drifts are found between the manifest and the object from the member cluster in \
         degraded mode (full comparison is performed instead of partial comparison, as the manifest object is \
         considered to be invalid by the member cluster API server)"
    )]
    DriftsDegraded,

    /// The owners do not allow it.
    #[error("failed to apply the manifest: failed to validate owner references: {0}")]
    Owners(InvalidOwners),
    /// The API server refused the creation.
    #[error("failed to apply the manifest: failed to create manifest object: error returned by the API server: {api}")]
    Create { api: String },
    /// The API server refused the patch.
    #[error(
        "failed to apply the manifest: failed to patch the manifest object: error returned by the API server: {api}"
    )]
    Patch { api: String },
    /// The API server refused the server-side apply.
    #[error(
        "failed to apply the manifest: failed to apply the manifest object: an error is returned by the API server: \
         {api}"
    )]
    ServerSideApply { api: String },
    /// No patch could be computed.
    #[error("failed to apply the manifest: failed to create three-way merge patch: {error}")]
    MergePatch { error: String },
    /// The live object carries no version to lock on.
    #[error(
        "failed to apply the manifest: failed to enable optimistic lock: resource version is empty on the object \
         {object}"
    )]
    NoResourceVersion { object: String },
    /// A newer hub sent a strategy that this agent does not know.
    #[error("failed to apply the manifest: unexpected apply strategy {strategy} is found")]
    UnknownStrategy { strategy: String },
    /// Somebody else keeps changing or deleting the object. The words are ours, the Event's: upstream would go on for ever.
    #[error(
        "failed to apply the manifest: {manager} keeps changing the object back on the member cluster; let only one of \
         the two manage it"
    )]
    Contested { manager: String },
}

impl ApplyFailure {
    /// Whether kind and manifest do not agree about the scope, which a new definition of the kind would end.
    pub const fn is_about_scope(&self) -> bool {
        matches!(self, Self::NamespaceGiven { .. } | Self::NamespaceMissing { .. })
    }

    /// Whether the manifest was refused before anything was looked at.
    pub const fn is_about_identity(&self) -> bool {
        matches!(
            self,
            Self::NotAnObject { .. }
                | Self::UnknownKind { .. }
                | Self::NamespaceGiven { .. }
                | Self::NamespaceMissing { .. }
                | Self::Outside { .. }
                | Self::BadName { .. }
                | Self::GenerateName
                | Self::Duplicated
        )
    }

    /// The result's name, which is the condition's reason.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::NotAnObject { .. }
            | Self::UnknownKind { .. }
            | Self::NamespaceGiven { .. }
            | Self::NamespaceMissing { .. }
            | Self::Outside { .. }
            | Self::BadName { .. } => "DecodingErred",
            Self::GenerateName => "FoundGenerateName",
            Self::Duplicated => "Duplicated",
            Self::Lookup { .. } => "FailedToFindObjInMemberCluster",
            Self::OwnersUnknown { .. }
            | Self::OwnedByOthers { .. }
            | Self::OwnedByAnotherWork
            | Self::TakeOverComparison { .. }
            | Self::TakeOver { .. }
            | Self::TakeOverDiffs
            | Self::TakeOverDiffsDegraded => "FailedToTakeOver",
            Self::NotTakenOver => "NotTakenOver",
            Self::DriftDetection { .. } => "FailedToRunDriftDetection",
            Self::Drifts => "FoundDrifts",
            Self::DriftsDegraded => "FoundDriftsInDegradedMode",
            Self::Owners(_)
            | Self::Create { .. }
            | Self::Patch { .. }
            | Self::ServerSideApply { .. }
            | Self::MergePatch { .. }
            | Self::NoResourceVersion { .. }
            | Self::UnknownStrategy { .. }
            | Self::Contested { .. } => "ManifestApplyFailed",
        }
    }
}

/// Why the owners of a manifest or of its live object do not allow applying it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidOwners {
    /// The manifest names owners.
    #[error("manifest is set to have owner references but co-ownership is disallowed")]
    InManifest,
    /// The manifest names an AppliedWork as owner.
    #[error("an AppliedWork object is unexpectedly added as an owner in the manifest object")]
    AppliedWorkInManifest,
    /// The live object has several owners.
    #[error("object is co-owned by multiple objects but co-ownership has been disallowed")]
    CoOwned,
    /// The live object is not ours.
    #[error("object is not owned by the expected AppliedWork object")]
    NotOwned,
    /// The live object is another Work's.
    #[error("object is already owned by another AppliedWork object")]
    OwnedByAnotherWork,
}

#[cfg(test)]
mod tests;
