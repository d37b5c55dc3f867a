//! The finalizers of a binding, and the end of a placement's bindings.

use fleet_api::{finalizers, labels, placement::Scope};
use fleet_runtime::Key;
use futures::future::try_join_all;

use crate::{
    pipeline::{Error, Pipeline},
    writer::{Part, WriteError, with_finalizers, without_finalizers},
};

/// The work generator's finalizer, where the rollout has not put it: on bindings of update runs, or of other versions.
pub(crate) async fn hold<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key) -> Result<(), Error> {
    let body = |found: &S::Binding| with_finalizers(found, &[finalizers::WORK]);
    let bindings = &ctx.family.bindings;
    ctx.shared
        .writer
        .patch(bindings, key, placement, Part::Object, body)
        .await?;
    Ok(())
}

/// Takes the scheduler's finalizer off.
pub(crate) async fn release_picks<S: Scope>(ctx: &Pipeline<S>, placement: &Key, list: &[Key]) -> Result<(), Error> {
    let each = list.iter().map(|key| {
        let body = |found: &S::Binding| without_finalizers(found, &[finalizers::SCHEDULER_BINDING]);
        ctx.shared
            .writer
            .patch(&ctx.family.bindings, key, placement, Part::Object, body)
    });
    try_join_all(each).await?;
    Ok(())
}

/// Both finalizers in one write: the scheduler has been woken by the deletion, and needs the binding no longer.
pub(crate) async fn release_all<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key) -> Result<(), Error> {
    let body = |found: &S::Binding| without_finalizers(found, &[finalizers::WORK, finalizers::SCHEDULER_BINDING]);
    let bindings = &ctx.family.bindings;
    let written = ctx
        .shared
        .writer
        .patch(bindings, key, placement, Part::Object, body)
        .await?;
    if written.is_some() {
        tracing::info!("Removed the binding");
    }
    Ok(())
}

/// Deletes all bindings of a placement, in one request.
pub(crate) async fn delete_all<S: Scope>(ctx: &Pipeline<S>, placement: &Key) -> Result<(), WriteError> {
    let selector = format!("{}={}", labels::PARENT_PLACEMENT, placement.name());
    let writer = &ctx.shared.writer;
    writer
        .delete_all::<S::Binding>(placement.namespace(), &selector, placement)
        .await
}
