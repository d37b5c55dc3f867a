//! The end of a placement.
//!
//! Bindings and snapshots go in one request each; once these are answered every binding is gone or going, and the
//! placement need not wait for members: each binding stays until its Works are cleaned up.

use fleet_api::{events::PlacementEvent, finalizers, labels, placement::Scope};
use fleet_runtime::{Key, queue::Next};
use kube::ResourceExt as _;

use crate::{
    binding,
    pipeline::{Error, Pipeline, key_of},
    writer::{Part, without_finalizers},
};

const OURS: [&str; 2] = [finalizers::PLACEMENT, finalizers::SCHEDULER];

/// Deletes what belongs to a placement that is being deleted, then lets go of it.
pub(super) async fn delete<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Result<Next, Error> {
    let ours = |held: &String| OURS.contains(&held.as_str());
    if !placement.finalizers().iter().any(ours) {
        return Ok(Next::Wait);
    }
    let (writer, namespace) = (&ctx.shared.writer, key.namespace());
    // A name that is too long for a label has nothing, and asking for it would be refused.
    if key_of(key).is_ok() {
        let selector = format!("{}={}", labels::PARENT_PLACEMENT, key.name());
        tokio::try_join!(
            binding::delete_all(ctx, key),
            writer.delete_all::<S::PolicySnapshot>(namespace, &selector, key),
            writer.delete_all::<S::ResourceSnapshot>(namespace, &selector, key),
        )?;
    }
    let patch = |placement: &S::Placement| without_finalizers(placement, &OURS);
    let placements = &ctx.family.placements;
    let written = writer.patch(placements, key, key, Part::Object, patch).await?;
    if written.is_some() {
        tracing::info!("Removed the placement's bindings and snapshots");
        ctx.record(placement, &PlacementEvent::CleanedUp);
    }
    Ok(Next::Wait)
}
