//! What an eviction writes: the record, the deletion, the outcome; and its own end.

use std::sync::Arc;

use fleet_api::{
    patch,
    placement::{ClusterResourcePlacementEviction as Stored, EvictionStatus, EvictionTarget},
};
use fleet_core::eviction::{Budget, Decision, EvictionOutcome, executed};
use fleet_runtime::{Key, queue::Next};

use super::{Evictions, again, decide_by, is_held, view};
use crate::{binding, pipeline::Error, writer::Part};

/// The record, the deletion and the outcome, in this order: after a crash the record decides. While the record is written
/// much may change, so whether it may go is asked once more when the deletion is sent, with the budget that was just read.
pub(super) async fn evict(
    ctx: &Evictions,
    key: &Key,
    eviction: &Arc<Stored>,
    (decision, budget): (&Decision, Budget<'_>),
    target: &EvictionTarget,
) -> Result<Next, Error> {
    let is_recorded = view(eviction).status.target.as_ref() == Some(target);
    let recorded = if is_recorded {
        eviction.clone()
    } else {
        let status = decision.status(&view(eviction), ctx.pipeline.now());
        match write(ctx, key, eviction, status).await? {
            Some(recorded) => recorded,
            // It is gone, or another by now.
            None => return Ok(again()),
        }
    };
    let still = || {
        let is_same = ctx.stores.evictions.get(key).is_some_and(|now| {
            let (now, then) = (&now.metadata, &recorded.metadata);
            now.resource_version == then.resource_version && now.deletion_timestamp.is_none()
        });
        let decided = || decide_by(ctx, key, &recorded, budget).outcome;
        is_same
            && !ctx.stop.is_cancelled()
            && !is_held(ctx, &recorded)
            && decided() == EvictionOutcome::Evict(target.clone())
    };
    let placement = Key::cluster(recorded.spec.placement_name.as_str());
    if !binding::evict(&ctx.pipeline, &placement, target, &still).await? {
        // The next leader decides by the record, and so does the next pass: the binding is there, so it is decided anew.
        return Ok(if ctx.stop.is_cancelled() { Next::Wait } else { again() });
    }
    let status = executed(&view(&recorded), ctx.pipeline.now());
    conclude(ctx, key, &recorded, status, decision).await
}

/// An end without a deletion.
pub(super) async fn end(
    ctx: &Evictions,
    key: &Key,
    eviction: &Arc<Stored>,
    decision: &Decision,
) -> Result<Next, Error> {
    match decision.status(&view(eviction), ctx.pipeline.now()) {
        Some(status) => conclude(ctx, key, eviction, status, decision).await,
        None => Ok(Next::Wait),
    }
}

async fn conclude(
    ctx: &Evictions,
    key: &Key,
    eviction: &Arc<Stored>,
    status: EvictionStatus,
    decision: &Decision,
) -> Result<Next, Error> {
    let Some(ended) = write(ctx, key, eviction, Some(status)).await? else {
        return Ok(again());
    };
    let event = decision.event();
    if let Some(event) = &event {
        ctx.tell(&ended, event);
    }
    tracing::info!(
        placement = ended.spec.placement_name,
        member = ended.spec.cluster_name,
        message = decision.message(),
        detail = decision.detail(),
        "Decided the eviction"
    );
    Ok(ctx.pipeline.next(view(&ended).expires(ctx.ttl)))
}

/// `Valid=True` alone, once.
pub(super) async fn wait(ctx: &Evictions, key: &Key, eviction: &Arc<Stored>, decision: &Decision) -> Result<(), Error> {
    let status = decision.status(&view(eviction), ctx.pipeline.now());
    write(ctx, key, eviction, status).await?;
    if let Some(event) = decision.event() {
        ctx.tell_once(key, eviction, &event);
    }
    Ok(())
}

/// Writes the status that was decided about `eviction`; none if that is no longer what is stored, or nothing differs.
async fn write(
    ctx: &Evictions,
    key: &Key,
    eviction: &Arc<Stored>,
    status: Option<EvictionStatus>,
) -> Result<Option<Arc<Stored>>, Error> {
    let body = |found: &Stored| {
        let same = found.metadata.resource_version == eviction.metadata.resource_version;
        let status = status.as_ref().filter(|_| same);
        let before = found.status.clone().unwrap_or_default();
        status.map_or(Ok(None), |status| patch::between_statuses(&before, status))
    };
    let (writer, evictions) = (&ctx.pipeline.shared.writer, &ctx.stores.evictions);
    let group = Key::cluster(eviction.spec.placement_name.as_str());
    Ok(writer.try_patch(evictions, key, &group, Part::Status, body).await?)
}

/// Deletes an ended eviction once its time is over.
pub(super) async fn expire(ctx: &Evictions, key: &Key, eviction: &Arc<Stored>) -> Result<Next, Error> {
    let Some(at) = view(eviction).expires(ctx.ttl) else {
        return Ok(Next::Wait);
    };
    if ctx.pipeline.now() < at {
        return Ok(ctx.pipeline.next(Some(at)));
    }
    let (writer, evictions) = (&ctx.pipeline.shared.writer, &ctx.stores.evictions);
    let uid = eviction.metadata.uid.as_deref();
    if writer.delete(evictions, key, key, uid, None).await? {
        tracing::info!("Removed the eviction, whose time was over");
    }
    Ok(Next::Wait)
}
