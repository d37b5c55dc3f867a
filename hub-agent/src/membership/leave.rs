//! A MemberCluster that is being deleted: the member is asked to leave, then everything of it on the hub goes.

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    finalizers,
    names::ClusterName,
};
use fleet_core::membership::leave::{Action, LEAVE_SINCE, World, plan};
use fleet_runtime::{Key, queue::Next};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::json;

use super::{Context, Error, join::internal_patch, status, tell, works, write::Part};
use crate::cache::in_namespace;

pub(super) async fn pass(ctx: &Context, key: &Key, mc: &MemberCluster) -> Result<Next, Error> {
    let Ok(cluster) = ClusterName::new(key.name()) else {
        // Such a name could never join, so there is nothing to undo.
        release(ctx, key).await?;
        return Ok(Next::Wait);
    };
    let name = cluster.namespace();
    let namespace = ctx.caches.namespaces.get(&Key::cluster(name.clone()));
    let imc = ctx.caches.internals.get(&in_namespace(&name, cluster.as_str()));
    let world = World {
        mc,
        namespace: namespace.as_deref(),
        imc: imc.as_deref(),
        networking: ctx.settings.networking,
        force_delete_wait: ctx.settings.force_delete_wait,
    };
    let plan = plan(&world, ctx.now());
    match plan.action {
        Action::Nothing => return Ok(Next::Wait),
        Action::RemoveFinalizer => {
            // Nothing is let go because a cache does not have it.
            let namespaces = Api::<Namespace>::all(ctx.client.clone());
            let live = namespaces.get_opt(&name).await;
            let live = live.map_err(|source| Error::Read {
                kind: "Namespace",
                name: name.clone(),
                source,
            })?;
            let ours = live.filter(|live| {
                live.metadata
                    .owner_references
                    .iter()
                    .flatten()
                    .any(|o| Some(&o.uid) == mc.metadata.uid.as_ref())
            });
            match ours {
                None => release(ctx, key).await?,
                Some(live) => clean_up(ctx, &name, live.metadata.uid.as_deref()).await?,
            }
        }
        Action::AwaitNamespace { strip_works, overdue } => {
            if strip_works {
                works::release_all(ctx, &name).await?;
            }
            if let Some(overdue) = overdue {
                status::write(ctx, key, imc.as_deref(), Some(&overdue)).await?;
                return Err(Error::Overdue(overdue));
            }
        }
        Action::CleanUp(reason) => {
            status::write(ctx, key, imc.as_deref(), None).await?;
            if let Some(event) = reason.event() {
                tell(&ctx.events, mc, &event);
            }
            tracing::info!(member = %key, reason = ?reason, "Cleaning up after a member");
            clean_up(ctx, &name, namespace.as_ref().and_then(|n| n.metadata.uid.as_deref())).await?;
        }
        Action::AskToLeave { spec, since } => {
            let api = Api::<InternalMemberCluster>::namespaced(ctx.client.clone(), &name);
            let annotations = [(LEAVE_SINCE.to_owned(), since.to_string())].into();
            let patch = |_: &InternalMemberCluster| Some(internal_patch(Some(&spec), &annotations));
            ctx.patch(
                &api,
                &ctx.caches.internals,
                &in_namespace(&name, cluster.as_str()),
                Part::Object,
                patch,
            )
            .await?;
            tracing::info!(member = %key, "Asked the member to leave");
            status::write(ctx, key, imc.as_deref(), None).await?;
        }
        Action::AwaitMember => {
            status::write(ctx, key, imc.as_deref(), None).await?;
        }
    }
    Ok(ctx.next(plan.look_again))
}

/// Takes the finalizers off all Works, then deletes the namespace with everything in it.
async fn clean_up(ctx: &Context, namespace: &str, uid: Option<&str>) -> Result<(), Error> {
    works::release_all(ctx, namespace).await?;
    let api = Api::<Namespace>::all(ctx.client.clone());
    ctx.delete(&api, &Key::cluster(namespace.to_owned()), uid).await
}

/// Takes our finalizer off the MemberCluster.
async fn release(ctx: &Context, key: &Key) -> Result<(), Error> {
    let api = Api::<MemberCluster>::all(ctx.client.clone());
    let patch = |mc: &MemberCluster| {
        let before = mc.metadata.finalizers.as_deref().unwrap_or_default();
        // The inventory's finalizer outlives a switched-off inventory, and nobody else would take it off.
        let ours = |f: &str| {
            f == finalizers::MEMBER_CLUSTER || (!ctx.settings.export_profiles && f == finalizers::CLUSTER_PROFILE)
        };
        let after: Vec<_> = before.iter().filter(|f| !ours(f)).collect();
        (after.len() < before.len()).then(|| json!({ "metadata": { "finalizers": after } }))
    };
    if ctx.patch(&api, &ctx.caches.members, key, Part::Object, patch).await? {
        tracing::info!(member = %key, "Let the member go");
    }
    Ok(())
}
