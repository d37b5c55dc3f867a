//! From snapshots to manifests: what clusters of one class get.
//!
//! A [`Rendering`] depends on the snapshot group and on what the overrides do, not on the cluster itself, so that one is
//! made for all clusters of the same [class](crate::overrides::Overrides::class). Everything is rendered and checked
//! before anything is written.

use std::sync::Arc;

use fleet_api::names::{self, PlacementKey};
use fleet_api::raw::RawJson;

use super::WorkFailure;
use super::bounds::Bounds;
use super::group::{Group, Snapshot};
use crate::apply::canonical::encode;
use crate::envelope::{self, EnvelopeKind};
use crate::overrides::{Overrides, Rbac, Rendered};
use crate::selection::{ClusterScoped, ObjectId};

/// The most that the manifests of a Work may have. etcd takes 1.5 MiB for the whole object, and metadata, managed fields
/// and status need their share of it.
pub const MANIFESTS_BYTES_MAX: usize = 1536 * 1024 - 128 * 1024;

/// The manifests of one Work.
#[derive(Debug, Clone)]
pub struct Piece {
    /// The Work's name, unless an older one already carries the envelope.
    pub name: String,
    /// The envelope that it was made from.
    pub envelope: Option<(EnvelopeKind, ObjectId)>,
    /// What the manifests are, in order.
    pub objects: Vec<ObjectId>,
    /// The manifests.
    pub manifests: Arc<[RawJson]>,
    /// Their [`content_hash`].
    pub hash: String,
}

/// Everything that a cluster of a class gets.
#[derive(Debug, Clone, Default)]
pub struct Rendering {
    /// One per snapshot, and one per envelope in it.
    pub pieces: Vec<Piece>,
    /// The bytes of manifests that an override has made; all others are shared with the snapshot.
    pub patched_bytes: usize,
}

/// Renders a group. The first failure in the order of the snapshots is the one reported.
pub fn render(
    placement: &PlacementKey,
    group: &Group<'_>,
    overrides: &Overrides<'_>,
    cluster_scoped: ClusterScoped<'_>,
    rbac: Rbac,
) -> Result<Rendering, WorkFailure> {
    let mut rendering = Rendering::default();
    for snapshot in &group.snapshots {
        render_snapshot(placement, snapshot, overrides, cluster_scoped, rbac, &mut rendering)?;
    }
    Ok(rendering)
}

fn render_snapshot(
    placement: &PlacementKey,
    snapshot: &Snapshot<'_>,
    overrides: &Overrides<'_>,
    cluster_scoped: ClusterScoped<'_>,
    rbac: Rbac,
    rendering: &mut Rendering,
) -> Result<(), WorkFailure> {
    let bounds = Bounds::new(placement, cluster_scoped, rbac);
    let name = names::work(placement, snapshot.subindex);
    let mut plain = Vec::new();
    let mut envelopes = Vec::new();
    for resource in snapshot.resources {
        let object = ObjectId::of(resource).map_err(WorkFailure::Undecodable)?;
        if let Some(kind) = EnvelopeKind::of(&object) {
            envelopes.push((kind, object, resource));
            continue;
        }
        let is_cluster_scoped = cluster_scoped(&object) == Some(true);
        match overrides.apply(&object, is_cluster_scoped, resource)? {
            Rendered::Untouched => plain.push((object, resource.clone())),
            Rendered::Patched(manifest) => {
                rendering.patched_bytes += manifest.as_str().len();
                plain.push((object, manifest));
            }
            Rendered::Deleted => {}
        }
    }
    // Also when it is empty: its status is where the cluster says that all is well.
    rendering
        .pieces
        .push(Piece::new(name.clone(), None, bounds.checked(plain)?)?);
    for (kind, object, raw) in envelopes {
        let reference = envelope::reference(&object);
        let mut inner = Vec::new();
        for (wrapped, manifest) in envelope::open(kind, &object, raw, cluster_scoped)? {
            let is_cluster_scoped = kind == EnvelopeKind::Cluster;
            let rendered = overrides
                .apply(&wrapped, is_cluster_scoped, &manifest)
                .map_err(|source| {
                    let (object, envelope) = (wrapped.to_string(), reference.clone());
                    WorkFailure::EnvelopeOverride {
                        object,
                        envelope,
                        source: Box::new(source),
                    }
                })?;
            match rendered {
                Rendered::Untouched => inner.push((wrapped, manifest)),
                Rendered::Patched(manifest) => {
                    rendering.patched_bytes += manifest.as_str().len();
                    inner.push((wrapped, manifest));
                }
                Rendered::Deleted => {}
            }
        }
        let envelope_type = kind.envelope_type();
        let name = names::envelope_work(&name, envelope_type.as_str(), &object.namespace, &object.name);
        let inner = bounds.of_envelope(kind, &object).checked(inner)?;
        rendering.pieces.push(Piece::new(name, Some((kind, object)), inner)?);
    }
    Ok(())
}

impl Piece {
    fn new(
        name: String,
        envelope: Option<(EnvelopeKind, ObjectId)>,
        manifests: Vec<(ObjectId, RawJson)>,
    ) -> Result<Self, WorkFailure> {
        let bytes = manifests.iter().map(|(_, manifest)| manifest.as_str().len()).sum();
        if bytes > MANIFESTS_BYTES_MAX {
            let largest = manifests.iter().max_by_key(|(_, manifest)| manifest.as_str().len());
            let largest = largest.map(|(object, _)| object.to_string()).unwrap_or_default();
            return Err(WorkFailure::Oversized {
                work: name,
                bytes,
                max: MANIFESTS_BYTES_MAX,
                largest,
            });
        }
        let (objects, manifests): (Vec<_>, Vec<_>) = manifests.into_iter().unzip();
        let hash = content_hash(&manifests);
        Ok(Self {
            name,
            envelope,
            objects,
            manifests: manifests.into(),
            hash,
        })
    }
}

/// A hash of manifests that does not depend on spacing, order of keys or escapes, all of which the API server changes.
///
/// Of a stored Work it can be taken once, when the Work is decoded, so that the manifests need not be kept.
pub fn content_hash(manifests: &[RawJson]) -> String {
    let values: Vec<String> = manifests.iter().map(|manifest| encode(&manifest.to_value())).collect();
    names::sha256_hex(values.join("\n"))
}
