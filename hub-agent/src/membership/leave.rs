//! A MemberCluster that is being deleted: the member is asked to leave, then everything of it on the hub goes.

use fleet_api::{
    annotations::LEAVE_SINCE,
    cluster::{InternalMemberCluster, MemberCluster},
    finalizers,
    names::{ClusterName, Scope},
};
use fleet_core::{
    membership::leave::{Action, World, plan},
    session::recovery::Recovery,
};
use fleet_runtime::{Key, client::answered, queue::Next};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

use super::{
    Error, Membership,
    join::{internal_patch, label_namespace},
    status, works,
};
use crate::{
    cache::in_namespace,
    recovery,
    writer::{Part, record, without_finalizers},
};

/// Why a member that has left, or has had its time, is still there.
const HELD: &str = "that was after the deletion of this member cluster was asked for, so that it is not cleaned up";

pub(super) async fn pass(ctx: &Membership, key: &Key, mc: &MemberCluster) -> Result<Next, Error> {
    let Ok(cluster) = ClusterName::new(key.name()) else {
        // Such a name could never join, so there is nothing to undo.
        release(ctx, key).await?;
        return Ok(Next::Wait);
    };
    let name = cluster.namespace();
    let namespace = ctx.caches.namespaces.get(&Key::cluster(name.clone()));
    let imc = ctx.caches.internals.get(&in_namespace(&name, cluster.as_str()));
    let asked = mc.metadata.deletion_timestamp.as_ref();
    let put_forward = asked.map_or(SignedDuration::ZERO, |asked| ctx.clock.put_forward_since(asked.0));
    let world = World {
        mc,
        namespace: namespace.as_deref(),
        imc: imc.as_deref(),
        networking: ctx.settings.networking,
        force_delete_wait: ctx.settings.force_delete_wait.saturating_add(put_forward),
    };
    let plan = plan(&world, ctx.now());
    match plan.action {
        Action::Nothing => return Ok(Next::Wait),
        Action::RemoveFinalizer => {
            if is_gone(ctx, key, mc, &name).await? {
                release(ctx, key).await?;
            } else {
                // It has lost its label: with it the caches show it again, and it is cleaned up like any other.
                label_namespace(ctx, key, &name).await?;
            }
        }
        Action::AwaitNamespace { strip_works, overdue } => {
            ctx.remember(key, |seen| seen.namespace_going = true);
            if strip_works {
                works::release_all(ctx, key, &name).await?;
            }
            if let Some(overdue) = overdue {
                status::write(ctx, key, imc.as_deref(), Some(&overdue)).await?;
                return Err(Error::Overdue(overdue));
            }
        }
        // The change of the InternalMemberCluster brings the next look.
        Action::CleanUp(_) if holds_removal(imc.as_deref(), mc, ctx.now()) => {
            let told = ctx.seen.lock().get(key).is_some_and(|seen| seen.told_held);
            if !told {
                tracing::warn!(member = %key, "Not cleaned up: the hub went back in time, and nobody has said to go on");
                recovery::record_went_back(&ctx.events, mc, HELD);
                ctx.remember(key, |seen| seen.told_held = true);
            }
        }
        Action::CleanUp(reason) => {
            status::write(ctx, key, imc.as_deref(), None).await?;
            if let Some(event) = reason.event() {
                record(&ctx.events, Scope::Cluster, mc, &event);
            }
            tracing::info!(member = %key, reason = ?reason, "Cleaning up after a member");
            works::release_all(ctx, key, &name).await?;
            let (store, uid) = (&ctx.caches.namespaces, namespace.and_then(|n| n.metadata.uid.clone()));
            let namespace = Key::cluster(name);
            ctx.writer.delete(store, &namespace, key, uid.as_deref(), None).await?;
        }
        Action::AskToLeave { spec, since } => {
            let annotations = [(LEAVE_SINCE.to_owned(), since.to_string())].into();
            let patch = |_: &InternalMemberCluster| Some(internal_patch(Some(&spec), &annotations));
            let (store, internal) = (&ctx.caches.internals, in_namespace(&name, cluster.as_str()));
            ctx.writer.patch(store, &internal, key, Part::Object, patch).await?;
            tracing::info!(member = %key, "Asked the member to leave");
        }
        Action::AwaitMember { show } => {
            if show {
                status::write(ctx, key, imc.as_deref(), None).await?;
            }
        }
    }
    Ok(ctx.next(plan.look_again))
}

fn holds_removal(imc: Option<&InternalMemberCluster>, mc: &MemberCluster, now: Timestamp) -> bool {
    let recovery = imc.map(|imc| Recovery::of(imc.metadata.annotations.as_ref()));
    let asked = mc.metadata.deletion_timestamp.as_ref().map(|asked| asked.0);
    recovery.is_some_and(|recovery| recovery.holds_removal(asked, now))
}

/// Whether the namespace is gone. Nothing is let go because a cache does not have it, unless it was seen going.
async fn is_gone(ctx: &Membership, key: &Key, mc: &MemberCluster, name: &str) -> Result<bool, Error> {
    if ctx.seen.lock().get(key).is_some_and(|seen| seen.namespace_going) {
        return Ok(true);
    }
    let live = answered(Api::<Namespace>::all(ctx.client.clone()).get_opt(name)).await;
    let live = live.map_err(|source| Error::Read {
        kind: "Namespace",
        name: name.to_owned(),
        source,
    })?;
    let is_ours = |namespace: Namespace| {
        let mut owners = namespace.metadata.owner_references.into_iter().flatten();
        owners.any(|owner| Some(&owner.uid) == mc.metadata.uid.as_ref())
    };
    Ok(!live.is_some_and(is_ours))
}

/// Takes our finalizers off the MemberCluster: the inventory's in the same write, once its profile is gone or nobody
/// exports profiles any more.
async fn release(ctx: &Membership, key: &Key) -> Result<(), Error> {
    let patch = |mc: &MemberCluster| {
        let profiles = ctx.caches.profiles.as_ref().zip(ctx.settings.profiles_in.as_deref());
        let exported =
            profiles.is_some_and(|(store, namespace)| store.get(&in_namespace(namespace, key.name())).is_some());
        let ours = [finalizers::MEMBER_CLUSTER, finalizers::CLUSTER_PROFILE];
        without_finalizers(mc, if exported { &ours[..1] } else { &ours })
    };
    let released = ctx
        .writer
        .patch(&ctx.caches.members, key, key, Part::Object, patch)
        .await?;
    if released.is_some() {
        tracing::info!(member = %key, "Let the member go");
    }
    Ok(())
}
