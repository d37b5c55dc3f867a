//! What can keep a binding's Works from being written, in the words that users see.

use fleet_api::conditions::binding::{Overridden, WorkSynchronized};
use fleet_api::conditions::error_class::ErrorClass;
use fleet_api::events::WorkGeneratorEvent;

use crate::envelope::BadEnvelope;
use crate::overrides::{self, BadRule};
use crate::text::cut;

/// The longest text of a failure in a status. A placement has one for each of its clusters.
const SHOWN_MAX: usize = 1024;

/// Why the Works of a binding cannot be made or written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum WorkFailure {
    /// The snapshot that the binding names is gone, and the Works are not made from it yet.
    #[error("the master resource snapshot is not found")]
    MasterMissing,
    /// Some of the group are still to be created.
    #[error(
        "not all resource snapshot in the same index group are created: resource snapshots are still being created for \
         the masterResourceSnapshot {snapshot}, total snapshot in the index group = {total}, num Of existing snapshot in \
         the group= {existing}, placement = {placement}"
    )]
    GroupIncomplete {
        snapshot: String,
        total: usize,
        existing: usize,
        placement: String,
    },
    /// The master does not say how many there are.
    #[error(
        "master resource snapshot {snapshot} for placement {placement} has an invalid snapshot count {count} or err <nil>"
    )]
    BadCount {
        snapshot: String,
        placement: String,
        count: String,
    },
    /// A snapshot without index.
    #[error("resource snapshot {snapshot} has an invalid CRP tracking label")]
    BadTrackingLabel { snapshot: String },
    /// A snapshot whose place in the group is unknown.
    #[error("resource snapshot {snapshot} has an invalid sub-index annotation {subindex} or err <nil>")]
    BadSubindex { snapshot: String, subindex: String },
    /// A ClusterResourceOverride snapshot that the binding names is gone.
    #[error("clusterResourceOverrideSnapshot {0} is not found")]
    ClusterOverrideMissing(String),
    /// A ResourceOverride snapshot that the binding names is gone; `namespace/name`.
    #[error("resourceOverrideSnapshot {0} is not found")]
    OverrideMissing(String),
    /// A rule cannot be matched.
    #[error(transparent)]
    BadRule(#[from] BadRule),
    /// A rule does not fit a selected object.
    #[error(transparent)]
    Override(#[from] overrides::Error),
    /// A rule does not fit an object in an envelope.
    #[error("failed to apply overrides to {object} from envelope {envelope}: {source}")]
    EnvelopeOverride {
        object: String,
        envelope: String,
        source: Box<overrides::Error>,
    },
    /// A selected object cannot be read.
    #[error("{0}")]
    Undecodable(String),
    /// An envelope cannot be opened.
    #[error(transparent)]
    Envelope(#[from] BadEnvelope),
    /// A manifest of a namespaced source that would leave its namespace.
    #[error(
        "{object} is not an object of namespace \"{namespace}\", and nothing that is placed by {source_kind} leaves its \
         namespace"
    )]
    Outside {
        object: String,
        namespace: String,
        source_kind: &'static str,
    },
    /// Rights that nobody has checked, where the operator wants none.
    #[error(
        "{object} would grant rights on members, which this hub does not allow in what is placed by {source_kind}; have an \
         administrator place it by a ClusterResourcePlacement"
    )]
    Rbac { object: String, source_kind: &'static str },
    /// Several Works claim one envelope.
    #[error("{} work objects found for the same envelope {envelope}, only one expected", works.len())]
    DuplicateEnvelope { envelope: String, works: Vec<String> },
    /// The API server would refuse it, again and again.
    #[error(
        "the manifests for Work {work} have {bytes} bytes, but at most {max} fit into one object: make {largest} smaller, \
         or take it out of the selection"
    )]
    Oversized {
        work: String,
        bytes: usize,
        max: usize,
        largest: String,
    },
    /// The Work of that name is still being deleted.
    #[error("works.placement.kubernetes-fleet.io \"{work}\" already exists")]
    Terminating { work: String },
    /// The name is taken by another binding's Work.
    #[error("works.placement.kubernetes-fleet.io \"{work}\" already exists; it belongs to {owner}")]
    NameTaken { work: String, owner: String },
    /// The API server refused a write, in its words.
    #[error("{0}")]
    Write(String),
}

/// The condition that a failure shows in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// `Overridden` is False and nothing follows.
    Overridden(Overridden),
    /// `Overridden` is True, `WorkSynchronized` False.
    WorkSynchronized(WorkSynchronized),
}

/// What ends a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// An edit of what it is about, which is an event.
    Edit,
    /// Trying again, with back-off.
    Retry,
}

impl WorkFailure {
    /// The condition that says it. Types and reasons are upstream's, also where `Overridden` is a strange place.
    pub fn shown(&self) -> Shown {
        // Whatever class an API error came with is not for bindings.
        let error = cut(ErrorClass::strip(&self.to_string()), SHOWN_MAX).into_owned();
        match self {
            Self::Undecodable(_)
            | Self::Envelope(_)
            | Self::Outside { .. }
            | Self::Rbac { .. }
            | Self::DuplicateEnvelope { .. }
            | Self::Oversized { .. }
            | Self::Terminating { .. }
            | Self::NameTaken { .. }
            | Self::Write(_) => Shown::WorkSynchronized(WorkSynchronized::Failed { error }),
            _ => Shown::Overridden(Overridden::Failed { error }),
        }
    }

    /// What could end it.
    pub fn recovery(&self) -> Recovery {
        match self {
            Self::MasterMissing
            | Self::ClusterOverrideMissing(_)
            | Self::OverrideMissing(_)
            | Self::BadRule(_)
            | Self::Override(_)
            | Self::EnvelopeOverride { .. }
            | Self::Outside { .. }
            | Self::Rbac { .. }
            | Self::Oversized { .. } => Recovery::Edit,
            Self::Envelope(bad) if !bad.retry() => Recovery::Edit,
            // Also where a name is taken: the end of somebody else's Work is no event of this binding's.
            _ => Recovery::Retry,
        }
    }

    /// The Event on the binding, for the failure that has one.
    pub fn event(&self, namespace: &str) -> Option<WorkGeneratorEvent> {
        let Self::DuplicateEnvelope { envelope, works } = self else {
            return None;
        };
        Some(WorkGeneratorEvent::DuplicateEnvelopeWorks {
            works: works.clone(),
            envelope: envelope.clone(),
            namespace: namespace.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::Words as _;
    use fleet_api::events::Event as _;

    use super::*;

    fn line(failure: &WorkFailure) -> (String, bool) {
        let message = match failure.shown() {
            Shown::Overridden(state) => format!("Overridden {}", state.message()),
            Shown::WorkSynchronized(state) => format!("WorkSynchronized {}", state.message()),
        };
        (message, failure.recovery() == Recovery::Retry)
    }

    #[test]
    fn every_failure_shows_in_its_condition_with_its_words() {
        let forbidden = "works.placement.kubernetes-fleet.io \"crp1-work\" is forbidden: unable to create new content in \
                         namespace fleet-member-kind-cluster-1 because it is being terminated";
        for (failure, message, retry) in [
            (
                WorkFailure::MasterMissing,
                "Overridden Failed to apply the override rules on the resources: the master resource snapshot is not found",
                false,
            ),
            (
                WorkFailure::GroupIncomplete {
                    snapshot: "crp-0-snapshot".into(),
                    total: 3,
                    existing: 2,
                    placement: "crp".into(),
                },
                "Overridden Failed to apply the override rules on the resources: not all resource snapshot in the same \
                 index group are created: resource snapshots are still being created for the masterResourceSnapshot \
                 crp-0-snapshot, total snapshot in the index group = 3, num Of existing snapshot in the group= 2, \
                 placement = crp",
                true,
            ),
            (
                WorkFailure::ClusterOverrideMissing("cro-0".into()),
                "Overridden Failed to apply the override rules on the resources: clusterResourceOverrideSnapshot cro-0 is \
                 not found",
                false,
            ),
            (
                WorkFailure::OverrideMissing("app/ro-0".into()),
                "Overridden Failed to apply the override rules on the resources: resourceOverrideSnapshot app/ro-0 is not \
                 found",
                false,
            ),
            (
                WorkFailure::Write(ErrorClass::ApiServer.prefix(forbidden)),
                "WorkSynchronized Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io \
                 \"crp1-work\" is forbidden: unable to create new content in namespace fleet-member-kind-cluster-1 because \
                 it is being terminated",
                true,
            ),
            (
                WorkFailure::Terminating {
                    work: "crp-work".into(),
                },
                "WorkSynchronized Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io \
                 \"crp-work\" already exists",
                true,
            ),
            (
                WorkFailure::DuplicateEnvelope {
                    envelope: "app/env".into(),
                    works: vec!["a".into(), "b".into()],
                },
                "WorkSynchronized Failed to synchronize the work to the latest: 2 work objects found for the same envelope \
                 app/env, only one expected",
                true,
            ),
        ] {
            assert_eq!(line(&failure), (message.to_owned(), retry));
        }
    }

    #[test]
    fn a_status_has_little_of_a_long_text() {
        let (message, _) = line(&WorkFailure::Undecodable("x".repeat(1_300_000)));
        assert!(message.len() < SHOWN_MAX + 256, "{} bytes", message.len());
    }

    #[test]
    fn duplicate_envelope_works_make_an_event() {
        let failure = WorkFailure::DuplicateEnvelope {
            envelope: "app/env".into(),
            works: vec!["a".into(), "b".into()],
        };
        let event = failure.event("fleet-member-c1").unwrap();
        assert_eq!(event.reason(), "DuplicateEnvelopeWorks");
        assert_eq!(
            event.message(),
            "Multiple Work objects ([a b]) found for envelope app/env in namespace fleet-member-c1; delete all but the \
             oldest to recover"
        );
        assert_eq!(WorkFailure::MasterMissing.event("x"), None);
    }
}
