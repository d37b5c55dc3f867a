//! The status of a binding: each of its conditions is written here and nowhere else.

use fleet_api::{
    conditions, patch,
    placement::{BindingStatus, Scope},
};
use fleet_core::rollout::Blocked;
use fleet_runtime::Key;
use kube::{Resource as _, core::object::HasStatus as _};

use crate::{
    pipeline::{Error, Pipeline},
    writer::Part,
};

/// Writes the status that `make` gives for the binding as it is when its turn has come, if it differs.
pub(crate) async fn say<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    make: impl FnOnce(&S::Binding) -> Option<BindingStatus> + Send,
) -> Result<(), Error> {
    let body = |found: &S::Binding| match make(found) {
        Some(after) => patch::between_statuses(&found.status().cloned().unwrap_or_default(), &after),
        None => Ok(None),
    };
    let bindings = &ctx.family.bindings;
    ctx.shared
        .writer
        .try_patch(bindings, key, placement, Part::Status, body)
        .await?;
    Ok(())
}

/// Says that a cluster has to wait, and why.
pub(crate) async fn say_held<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    key: &Key,
    why: &Blocked,
) -> Result<(), Error> {
    let now = ctx.now();
    let make = |found: &S::Binding| {
        let generation = found.meta().generation.unwrap_or_default();
        let mut status = found.status().cloned().unwrap_or_default();
        conditions::set(&mut status.conditions, &why.state(), generation, now);
        Some(status)
    };
    say(ctx, placement, key, make).await
}
