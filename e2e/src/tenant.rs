//! Somebody who may write in one namespace of the hub, and nowhere else.

use anyhow::{Context as _, Result, ensure};
use fleet_api::kind::Kind;
use fleet_api::placement::{ResourceBinding, ResourcePlacement, ResourceSnapshot};
use fleet_api::{annotations, labels};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};

use crate::harness::{Ctx, Made};
use crate::placements::Rp;
use crate::{now, wait};

/// A user of one namespace.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a client has none")]
pub struct Tenant {
    ctx: Ctx,
    /// Who the API servers think it is.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The hub, as the tenant sees it.
    pub hub: Client,
}

impl Tenant {
    /// A user who may do everything with fleet's kinds and ConfigMaps in the scenario's namespace. The members have a
    /// namespace of that name.
    pub async fn new(ctx: &Ctx) -> Result<Self> {
        let (name, namespace) = (ctx.name("tenant"), ctx.namespace("hub").await?);
        for member in ctx.fleet().members() {
            ctx.namespace(&member.name).await?;
        }
        let role: Role = serde_json::from_value(json!({ "metadata": { "name": "tenant" }, "rules": [
            { "apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["*"] },
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] },
        ] }))?;
        ctx.create_in("hub", &namespace, role).await?;
        let group = "rbac.authorization.k8s.io";
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": { "name": "tenant" },
            "roleRef": { "apiGroup": group, "kind": "Role", "name": "tenant" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": name }],
        }))?;
        ctx.create_in("hub", &namespace, binding).await?;

        let options = KubeConfigOptions {
            context: Some(ctx.fleet().cluster("hub")?.context.clone()),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(ctx.fleet().kubeconfig()?, &options).await?;
        config.auth_info.impersonate = Some(name.clone());
        let hub = Client::try_from(config)?;
        let tenant = Self {
            ctx: ctx.clone(),
            name,
            namespace,
            hub,
        };
        // The API server takes new rights up a moment later.
        let own = Api::<ConfigMap>::namespaced(tenant.hub.clone(), &tenant.namespace);
        wait::until_list(own, "the tenant may read its namespace", |_| true).await?;
        let grab: ClusterRoleBinding = serde_json::from_value(tenant.cluster_admin(None))?;
        let bindings = Api::<ClusterRoleBinding>::all(tenant.hub.clone());
        let refused = bindings.create(&PostParams::default(), &grab).await.err();
        let refused = refused.context("the tenant may do everything on the hub")?;
        ensure!(refused.to_string().contains("forbidden"), "{refused}");
        Ok(tenant)
    }

    /// What would make the tenant an administrator of whatever cluster it comes to.
    pub fn cluster_admin(&self, namespace: Option<&str>) -> Value {
        let group = "rbac.authorization.k8s.io";
        let mut object = json!({
            "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding", "metadata": { "name": self.name },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": self.name }],
        });
        if let Some(namespace) = namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        object
    }

    /// A ConfigMap.
    pub fn config(&self, namespace: &str, name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace } })
    }

    /// Objects of a fleet kind in the namespace, as the tenant sees them.
    pub fn api<K: Kind>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.hub.clone(), &self.namespace, &ApiResource::erase::<K>(&()))
    }

    /// The tenant makes an object of a fleet kind, with this body.
    pub async fn create<K: Kind>(&self, name: &str, mut body: Value) -> Result<DynamicObject> {
        let kind = ApiResource::erase::<K>(&());
        (body["apiVersion"], body["kind"]) = (json!(kind.api_version), json!(kind.kind));
        body["metadata"]["name"] = json!(name);
        let object: DynamicObject = serde_json::from_value(body)?;
        let created = self.api::<K>().create(&PostParams::default(), &object).await?;
        self.ctx.made(Made {
            cluster: "hub".to_owned(),
            kind,
            namespace: Some(self.namespace.clone()),
            name: name.to_owned(),
        });
        Ok(created)
    }

    /// The tenant places what these selectors select onto a member.
    pub async fn place(&self, name: &str, selectors: &Value, member: &str, strategy: &Value) -> Result<Rp> {
        let policy = json!({ "placementType": "PickFixed", "clusterNames": [member] });
        let spec = json!({ "resourceSelectors": selectors, "policy": policy, "strategy": strategy });
        self.create::<ResourcePlacement>(name, json!({ "spec": spec })).await?;
        Ok(Rp::named(&self.ctx, &self.namespace, name))
    }

    /// The tenant does itself what the hub's controllers do: writes a snapshot of these resources, binds a member to it,
    /// and says that the rollout has begun. `overrides` are override snapshots that the binding names.
    pub async fn forge(&self, name: &str, resources: &[Value], member: &str, overrides: &[&str]) -> Result<Rp> {
        let nothing = json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "none" }]);
        let rp = self
            .place(name, &nothing, member, &json!({ "type": "External" }))
            .await?;
        let mut bindings = rp.until_bindings("one", |all| all.len() == 1).await?;
        let binding = bindings.remove(0).name_any();
        let snapshot = format!("{name}-0-snapshot");
        let metadata = json!({
            "labels": { labels::PARENT_PLACEMENT: name, labels::RESOURCE_INDEX: "0", labels::IS_LATEST_SNAPSHOT: "true" },
            "annotations": { annotations::NUMBER_OF_RESOURCE_SNAPSHOTS: "1", annotations::RESOURCE_HASH: "0" },
        });
        let body = json!({ "metadata": metadata, "spec": { "selectedResources": resources } });
        self.create::<ResourceSnapshot>(&snapshot, body).await?;
        let params = PatchParams::default();
        let named = overrides
            .iter()
            .map(|name| json!({ "name": name, "namespace": self.namespace }));
        let bind = json!({ "spec": {
            "state": "Bound", "resourceSnapshotName": snapshot, "resourceOverrideSnapshots": named.collect::<Vec<_>>(),
        } });
        let api = self.api::<ResourceBinding>();
        let bound = api.patch(&binding, &params, &Patch::Merge(bind)).await?;
        let started = json!({ "status": { "conditions": [{
            "type": "RolloutStarted", "status": "True", "reason": "RolloutStarted", "message": "",
            "observedGeneration": bound.metadata.generation, "lastTransitionTime": now(),
        }] } });
        api.patch_status(&binding, &params, &Patch::Merge(started)).await?;
        Ok(rp)
    }

    /// Makes sure that the tenant has gained nothing on any member.
    pub async fn is_powerless(&self) -> Result<()> {
        for member in self.ctx.fleet().members() {
            let client = self.ctx.client(&member.name).await?;
            let asked: SubjectAccessReview = serde_json::from_value(json!({ "spec": {
                "user": self.name, "resourceAttributes": { "verb": "*", "group": "*", "resource": "*" },
            } }))?;
            let reviews = Api::<SubjectAccessReview>::all(client.clone());
            let answer = reviews.create(&PostParams::default(), &asked).await?;
            let allowed = answer.status.is_some_and(|status| status.allowed);
            ensure!(!allowed, "{} is an administrator of {}", self.name, member.name);
            let all = Api::<ClusterRoleBinding>::all(client)
                .list(&ListParams::default())
                .await?;
            ensure!(
                all.iter().all(|binding| binding.name_any() != self.name),
                "{}",
                member.name
            );
        }
        Ok(())
    }
}
