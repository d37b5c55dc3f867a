//! A living MemberCluster: its namespace, Role, RoleBinding and InternalMemberCluster are kept as they should be.

use std::time::Duration;

use fleet_api::{
    annotations,
    cluster::{InternalMemberCluster, MemberCluster},
    labels,
    names::{ClusterName, Scope},
    raw::RawJson,
};
use fleet_core::membership::join::{Step, World, plan};
use fleet_runtime::{Key, client::answered, logs, queue::Next};
use futures::future::join_all;
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{Role, RoleBinding},
};
use kube::Api;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Error, Membership, status, works};
use crate::{
    cache::in_namespace,
    writer::{Part, record},
};

/// How soon a cluster that cannot join is looked at again although nothing was seen to change.
const BLOCKED_PAUSE: Duration = Duration::from_secs(30);

pub(super) async fn pass(ctx: &Membership, key: &Key, mc: &MemberCluster) -> Result<Next, Error> {
    let hub_objects = HubObjects::read(ctx, key);
    let outcome = carry_out(ctx, key, mc, &hub_objects, None).await;
    // Somebody else was faster: nothing is wrong, and it is decided anew at once.
    if let Err(Error::Write(error)) = &outcome
        && error.is_conflict()
    {
        return outcome.map(|_| Next::Wait);
    }
    // Also when it failed: whoever waits for the cluster must see why it does not join.
    let not_ready = match &outcome {
        Ok(blocked) => blocked.clone(),
        Err(error) => Some(logs::chain(error).to_string()),
    };
    let look_again = status::write(ctx, key, hub_objects.imc.as_deref(), not_ready.as_deref()).await?;
    let next = ctx.next(look_again);
    if outcome?.is_none() {
        return Ok(next);
    }
    // Whatever is in the way may go unseen: a namespace of somebody else is not watched.
    Ok(next.sooner(Next::At(Instant::now() + BLOCKED_PAUSE)))
}

/// What the caches have for a member.
struct HubObjects {
    namespace: Option<std::sync::Arc<Namespace>>,
    role: Option<std::sync::Arc<Role>>,
    role_binding: Option<std::sync::Arc<RoleBinding>>,
    imc: Option<std::sync::Arc<InternalMemberCluster>>,
}

impl HubObjects {
    fn read(ctx: &Membership, key: &Key) -> Self {
        let Ok(cluster) = ClusterName::new(key.name()) else {
            return Self {
                namespace: None,
                role: None,
                role_binding: None,
                imc: None,
            };
        };
        let namespace = cluster.namespace();
        Self {
            role: ctx.caches.roles.get(&in_namespace(&namespace, &cluster.role())),
            role_binding: ctx
                .caches
                .role_bindings
                .get(&in_namespace(&namespace, &cluster.role_binding())),
            imc: ctx.caches.internals.get(&in_namespace(&namespace, cluster.as_str())),
            namespace: ctx.caches.namespaces.get(&Key::cluster(namespace)),
        }
    }
}

/// Does what is missing. Gives what is in the way, if a user or time must remove it.
async fn carry_out(
    ctx: &Membership,
    key: &Key,
    mc: &MemberCluster,
    found: &HubObjects,
    live_namespace: Option<&Namespace>,
) -> Result<Option<String>, Error> {
    let world = World {
        mc,
        namespace: live_namespace.or(found.namespace.as_deref()),
        role: found.role.as_deref(),
        role_binding: found.role_binding.as_deref(),
        imc: found.imc.as_deref(),
    };
    let steps = match plan(&world, &ctx.settings.join()) {
        Ok(steps) => steps,
        Err(blocked) => {
            if blocked.strips_works()
                && let Ok(cluster) = ClusterName::new(key.name())
            {
                works::release_cleanup(ctx, key, &cluster.namespace()).await?;
            }
            return Ok(Some(blocked.to_string()));
        }
    };
    for stage in 1..=Step::LAST_STAGE {
        let stage: Vec<_> = steps.iter().filter(|step| step.stage() == stage).collect();
        // All of them, whatever becomes of the others: a write that was cut off may have happened or not.
        let done = join_all(stage.iter().map(|step| take(ctx, key, mc, step))).await;
        for (step, _) in stage
            .iter()
            .zip(&done)
            .filter(|(_, done)| matches!(done, Ok(Done::Yes)))
        {
            if let Some(event) = step.event() {
                tracing::info!(member = %key, event = ?event, "Kept the member's objects");
                record(&ctx.events, Scope::Cluster, mc, &event);
            }
        }
        let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
        // The label selector hides a namespace that is not ours, or lost its label: judge it as it is.
        if done.contains(&Done::NamespaceThere) && live_namespace.is_none() {
            let name = ClusterName::new(key.name()).map(|c| c.namespace()).unwrap_or_default();
            let namespaces = Api::<Namespace>::all(ctx.client.clone());
            let live = answered(namespaces.get_opt(&name)).await;
            let live = live.map_err(|source| Error::Read {
                kind: "Namespace",
                name,
                source,
            })?;
            return match live {
                Some(live) => Box::pin(carry_out(ctx, key, mc, found, Some(&live))).await,
                None => Ok(Some("the namespace vanished while it was looked at".to_owned())),
            };
        }
    }
    Ok(None)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    Yes,
    NamespaceThere,
}

async fn take(ctx: &Membership, key: &Key, mc: &MemberCluster, step: &Step) -> Result<Done, Error> {
    let (caches, writer) = (&ctx.caches, &ctx.writer);
    let namespace = ClusterName::new(key.name()).map(|c| c.namespace()).unwrap_or_default();
    match step {
        Step::PatchMember {
            finalizers,
            member_name_label,
        } => {
            let mut metadata = json!({});
            if let Some(finalizers) = finalizers {
                metadata["finalizers"] = json!(finalizers);
            }
            if let Some(label) = member_name_label {
                metadata["labels"] = json!({ labels::MEMBER_NAME: label });
            }
            let patch = |found: &MemberCluster| {
                // The plan was made for this one; a conflict makes a new plan.
                (found.metadata.uid == mc.metadata.uid).then(|| json!({ "metadata": metadata }))
            };
            writer.patch(&caches.members, key, key, Part::Object, patch).await?;
        }
        Step::CreateNamespace(namespace) => {
            let (object, make) = (Key::of(namespace.as_ref()), || Some(raw(namespace.as_ref())));
            let created = writer.create(&caches.namespaces, &object, key, make).await?;
            if created.is_none() {
                return Ok(Done::NamespaceThere);
            }
        }
        Step::LabelNamespace { name } => label_namespace(ctx, key, name).await?,
        Step::IdentifyNamespace { name, identity } => {
            let patch = json!({ "metadata": { "annotations": { annotations::MEMBER_IDENTITY: identity } } });
            let (store, object) = (&caches.namespaces, Key::cluster(name.clone()));
            writer.patch(store, &object, key, Part::Object, |_| Some(patch)).await?;
        }
        Step::CreateRole(role) | Step::UpdateRole(role) => {
            let (object, make) = (Key::of(role.as_ref()), || Some(raw(role.as_ref())));
            writer.apply(&caches.roles, &object, key, make).await?;
        }
        Step::CreateRoleBinding(binding) | Step::UpdateRoleBinding(binding) => {
            let (object, make) = (Key::of(binding.as_ref()), || Some(raw(binding.as_ref())));
            writer.apply(&caches.role_bindings, &object, key, make).await?;
        }
        Step::ReplaceRoleBinding(binding) => {
            let (object, make) = (Key::of(binding.as_ref()), || Some(raw(binding.as_ref())));
            writer.delete(&caches.role_bindings, &object, key, None, None).await?;
            writer.apply(&caches.role_bindings, &object, key, make).await?;
        }
        Step::CreateInternal(imc) => {
            let (object, make) = (Key::of(imc.as_ref()), || Some(raw(imc.as_ref())));
            writer.create(&caches.internals, &object, key, make).await?;
        }
        Step::PatchInternal { spec, annotations } => {
            let object = in_namespace(&namespace, key.name());
            let patch = |_: &InternalMemberCluster| Some(internal_patch(spec.as_ref(), annotations));
            writer
                .patch(&caches.internals, &object, key, Part::Object, patch)
                .await?;
        }
    }
    Ok(Done::Yes)
}

/// Puts the fleet's label on a member namespace, whatever else it carries.
pub(super) async fn label_namespace(ctx: &Membership, key: &Key, name: &str) -> Result<(), Error> {
    let labelled = json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": { "name": name, "labels": { labels::IS_FLEET_RESOURCE: labels::TRUE } },
    });
    let (object, make) = (Key::cluster(name), || Some(Ok(RawJson::from(labelled))));
    ctx.writer.apply(&ctx.caches.namespaces, &object, key, make).await?;
    Ok(())
}

fn raw<K: Serialize>(object: &K) -> serde_json::Result<RawJson> {
    RawJson::from_serialize(object)
}

/// A merge patch of an InternalMemberCluster.
pub(super) fn internal_patch(
    spec: Option<&fleet_api::cluster::InternalMemberClusterSpec>,
    annotations: &std::collections::BTreeMap<String, String>,
) -> Value {
    let mut patch = json!({});
    if let Some(spec) = spec {
        patch["spec"] = json!(spec);
    }
    if !annotations.is_empty() {
        patch["metadata"] = json!({ "annotations": annotations });
    }
    patch
}
