//! A kind of a scenario's own, whose objects hold whatever they are given.

use anyhow::Result;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

use crate::harness::{Ctx, Made};

/// The kind `Gizmo` in a group that no other scenario uses, so that nobody else sees it.
#[derive(Debug, Clone)]
pub struct Gizmos {
    ctx: Ctx,
    /// The API group.
    pub group: String,
}

impl Gizmos {
    /// Nothing is defined yet.
    pub fn new(ctx: &Ctx) -> Self {
        Self {
            ctx: ctx.clone(),
            group: format!("{}.example.com", ctx.prefix()),
        }
    }

    /// Defines it on the hub, `Cluster` or `Namespaced`, and waits until it is served. Stored is the first version.
    pub async fn define(&self, scope: &str, versions: &[&str]) -> Result<()> {
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let served = versions
            .iter()
            .map(|name| json!({ "name": name, "served": true, "storage": *name == versions[0], "schema": schema }));
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": { "name": self.definition() },
            "spec": {
                "group": self.group, "scope": scope, "versions": served.collect::<Vec<_>>(),
                "names": { "kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList" },
            },
        }))?;
        self.ctx.create("hub", definition).await?;
        let wait = ["wait", "--for=condition=Established", "crd", &self.definition()];
        self.ctx.kubectl("hub")?.ok(&wait).await?;
        Ok(())
    }

    /// The definition's name.
    pub fn definition(&self) -> String {
        format!("gizmos.{}", self.group)
    }

    /// The kind in a version.
    pub fn kind(&self, version: &str) -> ApiResource {
        let kind = GroupVersionKind::gvk(&self.group, version, "Gizmo");
        ApiResource::from_gvk_with_plural(&kind, "gizmos")
    }

    /// Selects all of them, in a version.
    pub fn selector(&self, version: &str) -> Value {
        json!({ "group": self.group, "version": version, "kind": "Gizmo" })
    }

    /// Makes one on the hub, in version `v1`.
    pub async fn create(&self, namespace: Option<&str>, name: &str, data: Value) -> Result<()> {
        let (hub, kind) = (self.ctx.hub().await?, self.kind("v1"));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(hub, namespace, &kind),
            None => Api::all_with(hub, &kind),
        };
        let object = DynamicObject::new(name, &kind).data(data);
        api.create(&PostParams::default(), &object).await?;
        self.ctx.made(Made {
            cluster: "hub".to_owned(),
            kind,
            namespace: namespace.map(ToOwned::to_owned),
            name: name.to_owned(),
        });
        Ok(())
    }
}
