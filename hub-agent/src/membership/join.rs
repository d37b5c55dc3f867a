//! A living MemberCluster: its namespace, Role, RoleBinding and InternalMemberCluster are kept as they should be.

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    labels,
    names::ClusterName,
};
use fleet_core::membership::join::{Step, World, plan};
use fleet_runtime::{Key, logs, queue::Next};
use futures::future::join_all;
use k8s_openapi::api::{
    core::v1::Namespace,
    rbac::v1::{Role, RoleBinding},
};
use kube::Api;
use serde_json::{Value, json};

use super::{
    Context, Error, status, tell, works,
    write::{Created, Part},
};
use crate::cache::in_namespace;

pub(super) async fn pass(ctx: &Context, key: &Key, mc: &MemberCluster) -> Result<Next, Error> {
    let hub_objects = HubObjects::read(ctx, key);
    let outcome = carry_out(ctx, key, mc, &hub_objects, None).await;
    // Also when it failed: whoever waits for the cluster must see why it does not join.
    let not_ready = match &outcome {
        Ok(blocked) => blocked.clone(),
        Err(error) => Some(logs::chain(error).to_string()),
    };
    let look_again = status::write(ctx, key, hub_objects.imc.as_deref(), not_ready.as_deref()).await?;
    outcome?;
    Ok(ctx.next(look_again))
}

/// What the caches have for a member.
struct HubObjects {
    namespace: Option<std::sync::Arc<Namespace>>,
    role: Option<std::sync::Arc<Role>>,
    role_binding: Option<std::sync::Arc<RoleBinding>>,
    imc: Option<std::sync::Arc<InternalMemberCluster>>,
}

impl HubObjects {
    fn read(ctx: &Context, key: &Key) -> Self {
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
    ctx: &Context,
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
                works::release_cleanup(ctx, &cluster.namespace()).await?;
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
                tell(&ctx.events, mc, &event);
            }
        }
        let done = done.into_iter().collect::<Result<Vec<_>, _>>()?;
        // The label selector hides a namespace that is not ours, or lost its label: judge it as it is.
        if done.contains(&Done::NamespaceThere) && live_namespace.is_none() {
            let name = ClusterName::new(key.name()).map(|c| c.namespace()).unwrap_or_default();
            let namespaces = Api::<Namespace>::all(ctx.client.clone());
            let live = namespaces.get_opt(&name).await;
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

async fn take(ctx: &Context, key: &Key, mc: &MemberCluster, step: &Step) -> Result<Done, Error> {
    let caches = &ctx.caches;
    let client = || ctx.client.clone();
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
            ctx.patch(&Api::all(client()), &caches.members, key, Part::Object, patch)
                .await?;
        }
        Step::CreateNamespace(namespace) => {
            if ctx
                .create(&Api::all(client()), &caches.namespaces, namespace.as_ref())
                .await?
                == Created::Before
            {
                return Ok(Done::NamespaceThere);
            }
        }
        Step::LabelNamespace { name } => {
            let wanted = Namespace {
                metadata: kube::api::ObjectMeta {
                    name: Some(name.clone()),
                    labels: Some([(labels::IS_FLEET_RESOURCE.to_owned(), labels::TRUE.to_owned())].into()),
                    ..Default::default()
                },
                ..Namespace::default()
            };
            ctx.apply(&Api::all(client()), &caches.namespaces, &wanted).await?;
        }
        Step::CreateRole(role) | Step::UpdateRole(role) => {
            ctx.apply(&Api::namespaced(client(), &namespace), &caches.roles, role.as_ref())
                .await?;
        }
        Step::CreateRoleBinding(binding) | Step::UpdateRoleBinding(binding) => {
            ctx.apply(
                &Api::namespaced(client(), &namespace),
                &caches.role_bindings,
                binding.as_ref(),
            )
            .await?;
        }
        Step::ReplaceRoleBinding(binding) => {
            let api = Api::<RoleBinding>::namespaced(client(), &namespace);
            ctx.delete(&api, &Key::of(binding.as_ref()), None).await?;
            ctx.apply(&api, &caches.role_bindings, binding.as_ref()).await?;
        }
        Step::CreateInternal(imc) => {
            ctx.create(&Api::namespaced(client(), &namespace), &caches.internals, imc.as_ref())
                .await?;
        }
        Step::PatchInternal { spec, annotations } => {
            let api = Api::namespaced(client(), &namespace);
            let patch = |_: &InternalMemberCluster| Some(internal_patch(spec.as_ref(), annotations));
            ctx.patch(
                &api,
                &caches.internals,
                &in_namespace(&namespace, key.name()),
                Part::Object,
                patch,
            )
            .await?;
        }
    }
    Ok(Done::Yes)
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
