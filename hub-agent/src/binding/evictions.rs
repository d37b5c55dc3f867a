//! What evictions do to bindings.

use fleet_api::placement::{EvictionTarget, Scope};
use fleet_runtime::Key;
use kube::Resource as _;

use crate::{
    cache::family::beside,
    pipeline::{Error, Pipeline},
};

/// Deletes the binding that an eviction has recorded, if it is still that one, and `still` holds when its turn has come: what
/// is asked then is what is deleted. One that is going or gone counts as deleted. False if it stays.
pub(crate) async fn evict<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    target: &EvictionTarget,
    still: &(dyn Fn() -> bool + Sync),
) -> Result<bool, Error> {
    let (key, bindings) = (beside(placement, &target.name), &ctx.family.bindings);
    let stays = || {
        let found = bindings.get(&key);
        found.is_some_and(|found| {
            let meta = found.meta();
            meta.uid.as_deref() == Some(target.uid.as_str()) && meta.deletion_timestamp.is_none()
        })
    };
    if !stays() {
        return Ok(true);
    }
    let seen = |_: &S::Binding| still();
    let sent = ctx
        .shared
        .writer
        .delete(bindings, &key, placement, Some(&target.uid), Some(&seen))
        .await?;
    if !sent {
        return Ok(!stays());
    }
    // Where it was gone already, the watch has yet to show it.
    if stays() {
        bindings.deleted(&key, Some(&target.uid));
    }
    tracing::info!(binding = %key, "Evicted");
    Ok(true)
}
