//! Works in a member namespace that goes: their finalizers come off, because nobody is left to do what they wait for.
//!
//! One that appears later wakes the pass that calls this again.

use fleet_api::finalizers;
use fleet_runtime::Key;
use futures::{StreamExt, TryStreamExt, stream};
use kube::ResourceExt as _;
use serde_json::json;

use super::{Error, Membership};
use crate::{cache::works::HubWork, writer::Part};

/// The write queue bounds what is in flight; this bounds what waits for it.
const WAITING_MAX: usize = 64;

/// Takes every finalizer off every Work.
pub(super) async fn release_all(ctx: &Membership, member: &Key, namespace: &str) -> Result<(), Error> {
    release(ctx, member, namespace, |_| false).await
}

/// Takes the cleanup finalizer off every Work; those of others stay.
pub(super) async fn release_cleanup(ctx: &Membership, member: &Key, namespace: &str) -> Result<(), Error> {
    release(ctx, member, namespace, |finalizer| finalizer != finalizers::WORK).await
}

async fn release(ctx: &Membership, member: &Key, namespace: &str, keep: fn(&str) -> bool) -> Result<(), Error> {
    let held = ctx.works.by_namespace.get(&namespace.to_owned());
    let held = held
        .into_iter()
        .filter(|work| work.finalizers().iter().any(|f| !keep(f)));
    let released: Vec<bool> = stream::iter(held)
        .map(|work| release_one(ctx, member, Key::of(&*work), keep))
        .buffer_unordered(WAITING_MAX)
        .try_collect()
        .await?;
    let works = released.into_iter().filter(|done| *done).count();
    if works > 0 {
        tracing::info!(namespace, works, "Released Works");
    }
    Ok(())
}

async fn release_one(ctx: &Membership, member: &Key, work: Key, keep: fn(&str) -> bool) -> Result<bool, Error> {
    let patch = |found: &HubWork| {
        let before = found.finalizers();
        let after: Vec<_> = before.iter().filter(|f| keep(f)).collect();
        (after.len() < before.len()).then(|| json!({ "metadata": { "finalizers": after } }))
    };
    let store = &ctx.works.store;
    let released = ctx.writer.patch(store, &work, member, Part::Object, patch).await?;
    Ok(released.is_some())
}
