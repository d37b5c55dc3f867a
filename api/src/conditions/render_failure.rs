//! Why a binding's Works could not be made: the errors in its `Overridden` and `WorkSynchronized`.
//!
//! An object that may have a namespace is printed as [`Target`]; an envelope as `name` or `namespace/name`.

use std::fmt;

use thiserror::Error;

use super::binding::{Overridden, WorkSynchronized};

/// An object that an override applies to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its kind; empty if the manifest has none.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, namespace } = self;
        let kind = if kind.is_empty() { "Unknown" } else { kind };
        write!(f, "{kind} \"{name}\"")?;
        if namespace.is_empty() {
            Ok(())
        } else {
            write!(f, " in namespace \"{namespace}\"")
        }
    }
}

/// What is shown in `Overridden`. Much of it has nothing to do with overrides; upstream reports it there.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum OverrideFailure {
    /// The API server refused to list the Works, or to change the apply strategy of one.
    #[error("{0}")]
    Api(String),
    #[error("the master resource snapshot is not found")]
    NoMasterSnapshot,
    #[error(
        "not all resource snapshot in the same index group are created: resource snapshots are still being created \
         for the masterResourceSnapshot {snapshot}, total snapshot in the index group = {total}, num Of existing \
         snapshot in the group= {existing}, placement = {placement}"
    )]
    SnapshotsIncomplete {
        snapshot: String,
        total: usize,
        existing: usize,
        placement: String,
    },
    #[error(
        "master resource snapshot {snapshot} for placement {placement} has an invalid snapshot count {count} or err \
         {error}"
    )]
    SnapshotCount {
        snapshot: String,
        placement: String,
        count: i64,
        error: String,
    },
    #[error("clusterResourceOverrideSnapshot {name} is not found")]
    ClusterOverrideNotFound { name: String },
    /// Upstream prints the Go struct `{name namespace}`.
    #[error("resourceOverrideSnapshot {namespace}/{name} is not found")]
    OverrideNotFound { namespace: String, name: String },
    #[error("resource snapshot {snapshot} has an invalid CRP tracking label")]
    SnapshotLabel { snapshot: String },
    #[error("resource snapshot {snapshot} has an invalid sub-index annotation {subindex} or err {error}")]
    SnapshotSubindex {
        snapshot: String,
        subindex: i64,
        error: String,
    },
    #[error("ClusterResourceOverrideSnapshot \"{snapshot}\" failed to apply on {target}: {cause}")]
    ClusterRule {
        snapshot: String,
        target: Target,
        cause: String,
    },
    #[error("ResourceOverrideSnapshot \"{snapshot}\" failed to apply on {target}: {cause}")]
    Rule {
        snapshot: String,
        target: Target,
        cause: String,
    },
    #[error("failed to apply overrides to {target} from envelope {envelope}: {inner}")]
    InEnvelope {
        target: Target,
        envelope: String,
        inner: Box<OverrideFailure>,
    },
}

impl OverrideFailure {
    /// The failure as the binding's condition.
    pub fn to_state(&self) -> Overridden {
        Overridden::Failed {
            error: self.to_string(),
        }
    }
}

/// What is shown in `WorkSynchronized`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum SyncFailure {
    /// The API server refused to write a Work, or a selected resource cannot be decoded.
    #[error("{0}")]
    Other(String),
    #[error(
        "failed to parse the wrapped manifest data to a Kubernetes runtime object \
         (manifestKey={key},envelopeObjRef={envelope}): {cause}"
    )]
    NotAnObject {
        key: String,
        envelope: String,
        cause: String,
    },
    /// An `object` is `namespace/name`.
    #[error("a namespaced object {key} ({object}) has been wrapped in a cluster resource envelope {envelope}")]
    Namespaced {
        key: String,
        object: String,
        envelope: String,
    },
    #[error("a cluster scope object {key} ({name}) has been wrapped in a resource envelope {envelope}")]
    ClusterScoped {
        key: String,
        name: String,
        envelope: String,
    },
    /// An `object` is `namespace/name`. The superfluous "in" is upstream's.
    #[error(
        "a namespaced object {key} ({object}) in has been wrapped in a resource envelope from another namespace \
         ({envelope})"
    )]
    OtherNamespace {
        key: String,
        object: String,
        envelope: String,
    },
    #[error("failed to list work objects when finding the work object for an envelope {envelope}: {error}")]
    EnvelopeWorks { envelope: String, error: String },
    #[error("{count} work objects found for the same envelope {envelope}, only one expected")]
    SeveralEnvelopeWorks { count: usize, envelope: String },
    /// A cluster-scoped `ns.name` and a namespaced `ns/name` want the same Work. The words are ours: upstream lets them
    /// overwrite each other.
    #[error("work object {work} belongs to another placement, {other}; rename one of the two placements")]
    NameTaken { work: String, other: String },
}

impl SyncFailure {
    /// The failure as the binding's condition.
    pub fn to_state(&self) -> WorkSynchronized {
        WorkSynchronized::Failed {
            error: self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    fn s(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn override_words() {
        let target = || Target {
            kind: s("Deployment"),
            name: s("web"),
            namespace: s("app"),
        };
        let rule = || OverrideFailure::Rule {
            snapshot: s("ro-0"),
            target: target(),
            cause: s("doc is missing path"),
        };
        let rows = [
            (
                OverrideFailure::NoMasterSnapshot,
                "the master resource snapshot is not found",
            ),
            (
                OverrideFailure::SnapshotsIncomplete {
                    snapshot: s("p-0-snapshot"),
                    total: 3,
                    existing: 2,
                    placement: s("p"),
                },
                "not all resource snapshot in the same index group are created: resource snapshots are still being \
                 created for the masterResourceSnapshot p-0-snapshot, total snapshot in the index group = 3, num Of \
                 existing snapshot in the group= 2, placement = p",
            ),
            (
                OverrideFailure::SnapshotCount {
                    snapshot: s("p-0-snapshot"),
                    placement: s("p"),
                    count: 0,
                    error: s("e"),
                },
                "master resource snapshot p-0-snapshot for placement p has an invalid snapshot count 0 or err e",
            ),
            (
                OverrideFailure::ClusterOverrideNotFound { name: s("cro-0") },
                "clusterResourceOverrideSnapshot cro-0 is not found",
            ),
            (
                OverrideFailure::OverrideNotFound {
                    namespace: s("app"),
                    name: s("ro-0"),
                },
                "resourceOverrideSnapshot app/ro-0 is not found",
            ),
            (
                OverrideFailure::SnapshotLabel { snapshot: s("p-0-1") },
                "resource snapshot p-0-1 has an invalid CRP tracking label",
            ),
            (
                OverrideFailure::SnapshotSubindex {
                    snapshot: s("p-0-1"),
                    subindex: -1,
                    error: s("e"),
                },
                "resource snapshot p-0-1 has an invalid sub-index annotation -1 or err e",
            ),
            (
                OverrideFailure::ClusterRule {
                    snapshot: s("cro-0"),
                    target: Target {
                        kind: s(""),
                        name: s("x"),
                        namespace: s(""),
                    },
                    cause: s("c"),
                },
                "ClusterResourceOverrideSnapshot \"cro-0\" failed to apply on Unknown \"x\": c",
            ),
            (
                rule(),
                "ResourceOverrideSnapshot \"ro-0\" failed to apply on Deployment \"web\" in namespace \"app\": doc is \
                 missing path",
            ),
            (
                OverrideFailure::InEnvelope {
                    target: target(),
                    envelope: s("app/env"),
                    inner: Box::new(rule()),
                },
                "failed to apply overrides to Deployment \"web\" in namespace \"app\" from envelope app/env: \
                 ResourceOverrideSnapshot \"ro-0\" failed to apply on Deployment \"web\" in namespace \"app\": doc is \
                 missing path",
            ),
        ];
        for (failure, text) in rows {
            assert_eq!(failure.to_string(), text);
        }
        assert_rows(&[(
            &OverrideFailure::NoMasterSnapshot.to_state(),
            "Overridden=False OverriddenFailed: Failed to apply the override rules on the resources: the master \
             resource snapshot is not found",
        )]);
    }

    #[test]
    fn sync_words() {
        let rows = [
            (SyncFailure::Other(s("e")), "e"),
            (
                SyncFailure::NotAnObject {
                    key: s("k"),
                    envelope: s("app/env"),
                    cause: s("c"),
                },
                "failed to parse the wrapped manifest data to a Kubernetes runtime object \
                 (manifestKey=k,envelopeObjRef=app/env): c",
            ),
            (
                SyncFailure::Namespaced {
                    key: s("k"),
                    object: s("app/web"),
                    envelope: s("env"),
                },
                "a namespaced object k (app/web) has been wrapped in a cluster resource envelope env",
            ),
            (
                SyncFailure::ClusterScoped {
                    key: s("k"),
                    name: s("web"),
                    envelope: s("app/env"),
                },
                "a cluster scope object k (web) has been wrapped in a resource envelope app/env",
            ),
            (
                SyncFailure::OtherNamespace {
                    key: s("k"),
                    object: s("b/web"),
                    envelope: s("app/env"),
                },
                "a namespaced object k (b/web) in has been wrapped in a resource envelope from another namespace \
                 (app/env)",
            ),
            (
                SyncFailure::EnvelopeWorks {
                    envelope: s("app/env"),
                    error: s("e"),
                },
                "failed to list work objects when finding the work object for an envelope app/env: e",
            ),
            (
                SyncFailure::SeveralEnvelopeWorks {
                    count: 2,
                    envelope: s("app/env"),
                },
                "2 work objects found for the same envelope app/env, only one expected",
            ),
            (
                SyncFailure::NameTaken {
                    work: s("a.b-work"),
                    other: s("a/b"),
                },
                "work object a.b-work belongs to another placement, a/b; rename one of the two placements",
            ),
        ];
        for (failure, text) in rows {
            assert_eq!(failure.to_string(), text);
        }
        assert_rows(&[(
            &SyncFailure::Other(s("e")).to_state(),
            "WorkSynchronized=False SyncWorkFailed: Failed to synchronize the work to the latest: e",
        )]);
    }
}
