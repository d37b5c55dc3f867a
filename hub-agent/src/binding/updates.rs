//! What update runs give bindings.

use fleet_api::{
    annotations, conditions,
    names::ClusterName,
    placement::{BindingState, Scope},
};
use fleet_core::updaterun::{BindingAction, BindingWrite, Given, Put};
use fleet_runtime::Key;
use kube::{
    Resource as _, ResourceExt as _,
    core::object::{HasSpec as _, HasStatus as _},
};
use serde_json::json;

use super::{
    content::{difference, unless_empty},
    status::say,
};
use crate::{
    cache::family::beside,
    pipeline::{Error, Pipeline},
    recovery,
    writer::Part,
};

/// Why a binding was not written.
pub(crate) enum Unwritten {
    /// It is another one by now: decide anew, at once.
    Overtaken,
    /// The hub went back in time: nothing of this cluster is deleted until somebody has said to go on.
    Held,
    /// The API server refused.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Unwritten {
    fn from(error: E) -> Self {
        let error = error.into();
        if error.is_conflict() {
            Self::Overtaken
        } else {
            Self::Failed(error)
        }
    }
}

/// Carries out what a run decided about one binding.
pub(crate) async fn update<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    change: &BindingWrite,
) -> Result<(), Unwritten> {
    let key = beside(placement, &change.binding);
    match &change.action {
        BindingAction::Delete => remove(ctx, placement, &key, change).await,
        BindingAction::Put(put) => start(ctx, placement, &key, change, put).await,
    }
}

async fn start<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    change: &BindingWrite,
    put: &Put,
) -> Result<(), Unwritten> {
    fill(ctx, placement, key, change, put).await?;
    stamp(ctx, placement, key, change, put).await?;
    tracing::info!(
        member = change.cluster,
        snapshot = put.content.snapshot,
        "Started updating the cluster"
    );
    Ok(())
}

/// Whether this is still the binding that was decided about.
fn is_same<S: Scope>(found: &S::Binding, change: &BindingWrite) -> bool {
    found.meta().uid.as_deref() == Some(change.uid.as_str()) && found.meta().deletion_timestamp.is_none()
}

/// Spec and annotation in one write, with the work generator's finalizer.
async fn fill<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    change: &BindingWrite,
    put: &Put,
) -> Result<(), Unwritten> {
    let mut valid = false;
    let body = |found: &S::Binding| {
        let mut spec = found.spec().clone();
        let signed = found.annotations().get(annotations::UPDATE_RUN).map(String::as_str);
        let decided_about = is_same::<S>(found, change) && Given::by(signed, &spec) == change.was;
        valid = decided_about && put.write_to(&mut spec);
        if !valid {
            return Ok(None);
        }
        let mut body = difference::<S>(found, &spec, true)?;
        if let Some(annotation) = &put.annotation
            && found.annotations().get(annotations::UPDATE_RUN) != Some(annotation)
        {
            body["metadata"]["annotations"][annotations::UPDATE_RUN] = json!(annotation);
        }
        Ok(unless_empty(body))
    };
    let bindings = &ctx.family.bindings;
    ctx.shared
        .writer
        .try_patch(bindings, key, placement, Part::Object, body)
        .await?;
    still(valid)
}

/// `RolloutStarted` of the run, in the place of the one that is there.
async fn stamp<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    change: &BindingWrite,
    put: &Put,
) -> Result<(), Unwritten> {
    let mut valid = false;
    let make = |found: &S::Binding| {
        let spec = found.spec();
        valid = is_same::<S>(found, change) && spec.state == BindingState::Bound && put.content.is_in(spec);
        if !valid {
            return None;
        }
        let mut status = found.status().cloned().unwrap_or_default();
        let said = put.stamp.condition(found.meta().generation.unwrap_or_default());
        conditions::replace(&mut status.conditions, said);
        Some(status)
    };
    say(ctx, placement, key, make).await?;
    still(valid)
}

fn still(valid: bool) -> Result<(), Unwritten> {
    if valid { Ok(()) } else { Err(Unwritten::Overtaken) }
}

/// Deletes the binding of a cluster that is left.
async fn remove<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    change: &BindingWrite,
) -> Result<(), Unwritten> {
    let cluster = ClusterName::new(change.cluster.clone()).ok();
    if cluster.is_some_and(|cluster| recovery::is_held(&ctx.shared.internals, &cluster, ctx.now())) {
        return Err(Unwritten::Held);
    }
    // Picked again meanwhile, it stays.
    let unscheduled = |found: &S::Binding| found.spec().state == BindingState::Unscheduled;
    let bindings = &ctx.family.bindings;
    let sent = ctx
        .shared
        .writer
        .delete(bindings, key, placement, Some(&change.uid), Some(&unscheduled))
        .await?;
    if sent {
        // Where it was gone already, the watch has yet to show it.
        if bindings.get(key).is_some_and(|found| is_same::<S>(&found, change)) {
            bindings.deleted(key, Some(&change.uid));
        }
        tracing::info!(binding = %key, "Started removing resources");
    }
    Ok(())
}
