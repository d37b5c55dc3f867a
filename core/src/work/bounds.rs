//! What comes out of a namespace stays in it, whatever was selected, wrapped or overridden, and whoever wrote the snapshot:
//! the last look at manifests before they become a Work.

use fleet_api::names::PlacementKey;
use fleet_api::raw::RawJson;

use super::WorkFailure;
use crate::envelope::EnvelopeKind;
use crate::overrides::Rbac;
use crate::selection::{ClusterScoped, ObjectId};

/// The namespaces that a Work's manifests must be in: that of its ResourcePlacement, that of its ResourceEnvelope.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'a> {
    placement: Option<&'a str>,
    envelope: Option<&'a str>,
    cluster_scoped: ClusterScoped<'a>,
    rbac: Rbac,
}

impl<'a> Bounds<'a> {
    pub(super) fn new(placement: &'a PlacementKey, cluster_scoped: ClusterScoped<'a>, rbac: Rbac) -> Self {
        Self {
            placement: placement.namespace(),
            envelope: None,
            cluster_scoped,
            rbac,
        }
    }

    /// For what is in this envelope.
    pub(super) fn of_envelope(self, kind: EnvelopeKind, envelope: &'a ObjectId) -> Self {
        let envelope = (kind == EnvelopeKind::Namespaced).then_some(envelope.namespace.as_str());
        Self { envelope, ..self }
    }

    /// The manifests, if all of them are inside.
    ///
    /// # Errors
    /// The first that is not.
    pub(super) fn checked(&self, manifests: Vec<(ObjectId, RawJson)>) -> Result<Vec<(ObjectId, RawJson)>, WorkFailure> {
        let bounds = [
            ("a ResourcePlacement", self.placement),
            ("a ResourceEnvelope", self.envelope),
        ];
        for (source_kind, namespace) in bounds.into_iter().filter_map(|(kind, at)| Some((kind, at?))) {
            for (_, manifest) in &manifests {
                // As it is, not as it was selected.
                let object = ObjectId::of(manifest).map_err(WorkFailure::Undecodable)?;
                if object.namespace != namespace || (self.cluster_scoped)(&object) == Some(true) {
                    return Err(WorkFailure::Outside {
                        object: object.to_string(),
                        namespace: namespace.to_owned(),
                        source_kind,
                    });
                }
                if self.rbac.forbids(&object) {
                    return Err(WorkFailure::Rbac {
                        object: object.to_string(),
                        source_kind,
                    });
                }
            }
        }
        Ok(manifests)
    }
}
