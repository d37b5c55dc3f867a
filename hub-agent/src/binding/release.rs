//! The finalizers of a binding, and the end of a placement's bindings.

use fleet_api::{finalizers, labels, placement::Scope};
use fleet_runtime::Key;
use futures::future::try_join_all;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use crate::{
    pipeline::{Error, Pipeline},
    writer::{Part, WriteError},
};

/// The work generator's finalizer, where the rollout has not put it: on bindings of update runs, or of other versions.
pub(crate) async fn hold<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key) -> Result<(), Error> {
    let body = |found: &S::Binding| {
        if found.meta().deletion_timestamp.is_some() || found.finalizers().iter().any(|f| f == finalizers::WORK) {
            return None;
        }
        let mut list = found.finalizers().to_vec();
        list.push(finalizers::WORK.to_owned());
        Some(json!({ "metadata": { "finalizers": list } }))
    };
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
        let body = |found: &S::Binding| without::<S>(found, &[finalizers::SCHEDULER_BINDING]);
        ctx.shared
            .writer
            .patch(&ctx.family.bindings, key, placement, Part::Object, body)
    });
    try_join_all(each).await?;
    Ok(())
}

/// Both finalizers in one write: the scheduler has been woken by the deletion, and needs the binding no longer.
pub(crate) async fn release_all<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key) -> Result<(), Error> {
    let body = |found: &S::Binding| without::<S>(found, &[finalizers::WORK, finalizers::SCHEDULER_BINDING]);
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

fn without<S: Scope>(found: &S::Binding, ours: &[&str]) -> Option<Value> {
    let rest = found.finalizers().iter().filter(|held| !ours.contains(&held.as_str()));
    let rest: Vec<_> = rest.collect();
    (rest.len() < found.finalizers().len()).then(|| json!({ "metadata": { "finalizers": rest } }))
}

/// Deletes all bindings of a placement, in one request.
pub(crate) async fn delete_all<S: Scope>(ctx: &Pipeline<S>, placement: &Key) -> Result<(), WriteError> {
    let selector = format!("{}={}", labels::PARENT_PLACEMENT, placement.name());
    let writer = &ctx.shared.writer;
    writer
        .delete_all::<S::Binding>(placement.namespace(), &selector, placement)
        .await
}
