//! What the scheduler says on policy snapshots; bindings are [`crate::binding`]'s to write.

use fleet_api::{
    patch,
    placement::{PolicySnapshotStatus, Scope},
};
use fleet_runtime::Key;
use kube::core::object::HasStatus as _;
use serde_json::json;

use crate::{
    pipeline::{Error, Pipeline},
    writer::Part,
};

pub(super) async fn status<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    policy: &S::PolicySnapshot,
    status: &PolicySnapshotStatus,
) -> Result<(), Error> {
    let key = Key::of(policy);
    let body = |found: &S::PolicySnapshot| {
        // `observedCRPGeneration` is required, so the first status is sent whole.
        let patch = match found.status() {
            Some(before) => patch::between(before, status),
            None => serde_json::to_value(status).map(Some),
        };
        Ok(patch?.map(|status| json!({ "status": status })))
    };
    let policies = &ctx.family.policies;
    ctx.shared
        .writer
        .try_patch(policies, &key, placement, Part::Status, body)
        .await?;
    Ok(())
}
