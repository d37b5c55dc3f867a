//! The copy of a cluster-scoped placement's status in the namespace that it places, for people who may read only that.
//!
//! The copy is written first and the word on it (`StatusSynced`) goes with the placement's own status, so that the two
//! cost one write each. Its owner reference removes it with the placement.

use fleet_api::{
    conditions::{
        self,
        placement::{Scheduled, StatusSynced},
    },
    names::Scope as ScopeName,
    patch,
    placement::{ClusterResourcePlacementStatus, PlacementStatus, Scope, StatusReportingScope},
    raw::RawJson,
};
use fleet_core::rollup::{mirrored, recorded_namespace, target_namespace};
use fleet_runtime::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{
    ResourceExt as _,
    core::{
        ObjectMeta,
        object::{HasSpec as _, HasStatus as _},
    },
};
use serde_json::json;

use crate::{
    cache::family::owned_by,
    pipeline::{Error, Pipeline},
    writer::Part,
};

/// Whether the namespace may be shown what becomes of the placement. It is named once and for all.
pub(crate) fn check<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Result<(), Scheduled> {
    if is_wanted::<S>(placement) {
        target(ctx, key, placement)?;
    }
    Ok(())
}

/// Whether the placement asks for a copy.
pub(super) fn is_wanted<S: Scope>(placement: &S::Placement) -> bool {
    Pipeline::<S>::scope() == ScopeName::Cluster
        && placement.spec().status_reporting_scope == StatusReportingScope::NamespaceAccessible
}

/// The key of the copy, or why there can be none.
fn target<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Result<Key, Scheduled> {
    let copies = owned(ctx, key, placement);
    let wanted = target_namespace(placement.spec(), None)?;
    let selected = placement.status().map(|status| status.selected_resources.as_slice());
    let original = match copies.first() {
        Some(_) if copies.iter().any(|copy| copy.namespace() == Some(wanted)) => None,
        Some(copy) => copy.namespace(),
        None => recorded_namespace(selected.unwrap_or_default()),
    };
    let namespace = target_namespace(placement.spec(), original)?;
    Ok(Key::namespaced(namespace, key.name()))
}

/// The copies that belong to this placement, wherever they are.
fn owned<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Vec<Key> {
    let uid = placement.uid().unwrap_or_default();
    let copies = ctx.shared.mirrors.of.get(&key.name().to_owned());
    let ours = copies
        .iter()
        .filter(|copy| copy.owner_references().iter().any(|owner| owner.uid == uid));
    ours.map(|copy| Key::of(&**copy)).collect()
}

/// Puts the word on the copy back where a roll-up has left it out, so that its time stays.
pub(super) fn carry<S: Scope>(placement: &S::Placement, status: &mut PlacementStatus) {
    let known = conditions::find(&status.conditions, StatusSynced::TYPE).is_some();
    if known || !is_wanted::<S>(placement) {
        return;
    }
    let before = placement.status().map(|before| before.conditions.as_slice());
    status
        .conditions
        .extend(conditions::find(before.unwrap_or_default(), StatusSynced::TYPE).cloned());
}

/// Whether the copy does not show this status.
pub(super) fn is_stale<S: Scope>(
    ctx: &Pipeline<S>,
    key: &Key,
    placement: &S::Placement,
    status: &PlacementStatus,
) -> bool {
    let Some(copy) = is_wanted::<S>(placement)
        .then(|| target(ctx, key, placement).ok())
        .flatten()
    else {
        return false;
    };
    let found = ctx.shared.mirrors.store.get(&copy);
    found.is_none_or(|found| found.source_status != mirrored(status))
}

/// What became of the copy.
pub(super) enum Copied {
    /// None is asked for, or none can be.
    None,
    Written(StatusSynced),
    Failed(StatusSynced, Error),
}

impl Copied {
    /// Says so in the placement's status.
    pub(super) fn tell(&self, status: &mut PlacementStatus, generation: i64, now: jiff::Timestamp) {
        if let Self::Written(state) | Self::Failed(state, _) = self {
            conditions::set(&mut status.conditions, state, generation, now);
        }
    }
}

/// Makes the copy show this status, where one is wanted.
pub(super) async fn write<S: Scope>(
    ctx: &Pipeline<S>,
    key: &Key,
    placement: &S::Placement,
    status: Option<&PlacementStatus>,
) -> Copied {
    let Some(status) = status else {
        return Copied::None;
    };
    let Ok(copy) = target(ctx, key, placement) else {
        return Copied::None;
    };
    let namespace = copy.namespace().unwrap_or_default().to_owned();
    match put(ctx, key, &copy, placement, status).await {
        Ok(()) => Copied::Written(StatusSynced::Succeeded { namespace }),
        Err(error) => {
            let said = match &error {
                Error::Write(error) => error.said(),
                other => other.to_string(),
            };
            Copied::Failed(StatusSynced::Failed { error: said }, error)
        }
    }
}

async fn put<S: Scope>(
    ctx: &Pipeline<S>,
    key: &Key,
    copy: &Key,
    placement: &S::Placement,
    status: &PlacementStatus,
) -> Result<(), Error> {
    let (writer, store) = (&ctx.shared.writer, &ctx.shared.mirrors.store);
    // Left behind by somebody who moved or copied it: nobody keeps it true.
    for stray in owned(ctx, key, placement).iter().filter(|stray| *stray != copy) {
        let uid = store.get(stray).and_then(|found| found.uid());
        writer.delete(store, stray, key, uid.as_deref(), None).await?;
    }
    let wanted = ClusterResourcePlacementStatus {
        metadata: ObjectMeta {
            name: Some(copy.name().to_owned()),
            namespace: copy.namespace().map(ToOwned::to_owned),
            owner_references: owned_by(placement),
            ..ObjectMeta::default()
        },
        source_status: mirrored(status),
        last_updated_time: Time(ctx.now()),
    };
    if store.get(copy).is_none() {
        // One that exists already will be seen in a moment, and is then compared.
        let make = || Some(RawJson::from_serialize(&wanted));
        writer.create(store, copy, key, make).await?;
        return Ok(());
    }
    let body = |found: &ClusterResourcePlacementStatus| {
        let Some(difference) = patch::between(&found.source_status, &wanted.source_status)? else {
            return Ok(None);
        };
        let mut patch = json!({ "sourceStatus": difference, "lastUpdatedTime": wanted.last_updated_time });
        if found.owner_references().is_empty() {
            patch["metadata"]["ownerReferences"] = json!(wanted.metadata.owner_references);
        }
        Ok(Some(patch))
    };
    writer.try_patch(store, copy, key, Part::Object, body).await?;
    Ok(())
}
