//! Works in a member namespace that goes: their finalizers come off, because nobody is left to do what they wait for.
//!
//! The Works are listed live, not from a cache: this happens once in the life of a member, and a Work that a cache had
//! not seen yet would hold the namespace for ever.

use fleet_api::{finalizers, placement::Work};
use fleet_runtime::{
    Key,
    writes::{Lane, Target},
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{ListParams, PartialObjectMeta, Patch, PatchParams},
};
use serde_json::json;

use super::{Context, Error, write::is_not_found};

const PAGE: u32 = 500;
/// The write queue bounds what is in flight; this bounds what waits for it.
const WAITING_MAX: usize = 64;

/// Takes every finalizer off every Work.
pub(super) async fn release_all(ctx: &Context, namespace: &str) -> Result<(), Error> {
    release(ctx, namespace, |_| Vec::new()).await
}

/// Takes the cleanup finalizer off every Work; those of others stay.
pub(super) async fn release_cleanup(ctx: &Context, namespace: &str) -> Result<(), Error> {
    release(ctx, namespace, |before| {
        before.iter().filter(|f| *f != finalizers::WORK).cloned().collect()
    })
    .await
}

async fn release(ctx: &Context, namespace: &str, keep: impl Fn(&[String]) -> Vec<String>) -> Result<(), Error> {
    let api = Api::<Work>::namespaced(ctx.client.clone(), namespace);
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let list = api.list_metadata(&page).await;
        let list = list.map_err(|source| Error::Read {
            kind: "Works in",
            name: namespace.to_owned(),
            source,
        })?;
        let mut held = Vec::new();
        for work in list.items {
            let after = keep(work.finalizers());
            if after.len() < work.finalizers().len() {
                held.push((work, after));
            }
        }
        let count = held.len();
        stream::iter(held)
            .map(|(work, after)| patch(ctx, &api, work, after))
            .buffer_unordered(WAITING_MAX)
            .try_collect::<Vec<()>>()
            .await?;
        if count > 0 {
            tracing::info!(namespace, works = count, "Released Works");
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page.continue_token = Some(token),
            None => return Ok(()),
        }
    }
}

async fn patch(ctx: &Context, api: &Api<Work>, work: PartialObjectMeta<Work>, after: Vec<String>) -> Result<(), Error> {
    let key = Key::of(&work);
    let patch = fleet_api::patch::pinned(json!({ "metadata": { "finalizers": after } }), &work);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let answer = ctx
        .writes
        .write(Lane::Objects, Target::new("Work", key.clone()), &key, || {
            Some(api.patch_metadata(key.name(), &params, &patch))
        })
        .await;
    match answer {
        Some(Err(source)) if !is_not_found(&source) => Err(Error::Write {
            verb: "release",
            kind: "Work",
            name: key.to_string(),
            source,
        }),
        _ => Ok(()),
    }
}
