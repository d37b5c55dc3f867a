//! Approval requests: asked for, and noted as accepted.

use fleet_api::{
    conditions::{
        self,
        approval_request::{ApprovalAccepted, Approved},
    },
    kind::SpecKind as _,
    patch,
    placement::Scope,
    raw::RawJson,
};
use fleet_core::updaterun::{ApprovalWrite, NewApproval};
use fleet_runtime::Key;
use jiff::Timestamp;
use kube::{
    Resource as _,
    core::{ObjectMeta, object::HasStatus as _},
};

use crate::{
    binding::Unwritten,
    cache::family::beside,
    pipeline::{Error, Pipeline},
    writer::Part,
};

pub(super) async fn write<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    change: &ApprovalWrite,
    now: Timestamp,
) -> Result<(), Unwritten> {
    let key = beside(placement, change.name());
    match change {
        ApprovalWrite::Create(new) => create(ctx, placement, &key, new).await,
        ApprovalWrite::Accept { .. } => accept(ctx, placement, &key, now).await,
    }
}

async fn create<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key, new: &NewApproval) -> Result<(), Unwritten> {
    let make = || {
        let meta = ObjectMeta {
            name: Some(new.name.clone()),
            namespace: key.namespace().map(ToOwned::to_owned),
            labels: Some(new.labels.clone()),
            ..ObjectMeta::default()
        };
        Some(RawJson::from_serialize(&S::ApprovalRequest::from_spec(
            meta,
            new.spec.clone(),
        )))
    };
    let approvals = &ctx.family.updates.approvals;
    let created = ctx.shared.writer.create(approvals, key, placement, make).await?;
    if created.is_some() {
        tracing::info!(request = new.name, "Asked for an approval");
        return Ok(());
    }
    // A lost answer, or somebody else's: what is there decides.
    if approvals.get(key).is_some() {
        return Err(Unwritten::Overtaken);
    }
    Err(Unwritten::Failed(Error::NotYet(format!("{key} exists already"))))
}

async fn accept<S: Scope>(ctx: &Pipeline<S>, placement: &Key, key: &Key, now: Timestamp) -> Result<(), Unwritten> {
    let (mut approved, mut accepted, mut uid) = (false, false, None);
    let body = |found: &S::ApprovalRequest| {
        let before = found.status().cloned().unwrap_or_default();
        let generation = found.meta().generation.unwrap_or_default();
        approved = conditions::is_true(&before.conditions, Approved::TYPE, generation);
        if !approved {
            return Ok(None);
        }
        let mut after = before.clone();
        conditions::set(&mut after.conditions, &ApprovalAccepted::Accepted, generation, now);
        uid.clone_from(&found.meta().uid);
        let patch = patch::between_statuses(&before, &after)?;
        accepted = patch.is_none();
        Ok(patch)
    };
    let approvals = &ctx.family.updates.approvals;
    let written = ctx
        .shared
        .writer
        .try_patch(approvals, key, placement, Part::Status, body)
        .await?;
    if accepted || written.is_some() {
        return Ok(());
    }
    if approved {
        // It was deleted before it was accepted, which the watch has yet to show: it is asked for anew.
        approvals.deleted(key, uid.as_deref());
    }
    Err(Unwritten::Overtaken)
}
