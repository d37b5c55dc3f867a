//! A kind of a scenario's own on the member.

use anyhow::Result;
use fleet_e2e::wait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::site::Site;

/// The kind `Gadget`, in a group that no other scenario uses.
pub(crate) struct Gadgets {
    pub(crate) group: String,
}

impl Gadgets {
    /// Nothing is defined yet.
    pub(crate) fn new(site: &Site) -> Self {
        Self {
            group: format!("{}.example.com", site.ctx.prefix()),
        }
    }

    /// Its definition, as a manifest. The first version is stored.
    pub(crate) fn definition(&self, versions: &[(&str, bool)]) -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let version = |(name, served): &(&str, bool)| json!({"name": name, "served": served, "storage": *name == versions[0].0, "schema": schema});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("gadgets.{}", self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": versions.iter().map(version).collect::<Vec<_>>(),
            },
        })
    }

    /// Somebody defines it on the member; returns once it is served.
    pub(crate) async fn define(&self, site: &Site, versions: &[(&str, bool)]) -> Result<()> {
        let definition: CustomResourceDefinition = serde_json::from_value(self.definition(versions))?;
        let name = site.ctx.create(site.cluster, definition).await?.name_any();
        let definitions: Api<CustomResourceDefinition> = Api::all(site.client.clone());
        wait::until_present(definitions, &name, "established", |crd| {
            let conditions = crd.status.as_ref().and_then(|s| s.conditions.as_ref());
            conditions.is_some_and(|list| list.iter().any(|c| c.type_ == "Established" && c.status == "True"))
        })
        .await?;
        Ok(())
    }

    /// Somebody changes which versions are served.
    pub(crate) async fn serve(&self, site: &Site, versions: &[(&str, bool)]) -> Result<()> {
        let definitions: Api<CustomResourceDefinition> = Api::all(site.client.clone());
        let wanted = self.definition(versions);
        let change = json!({"spec": {"versions": wanted["spec"]["versions"]}});
        let name = format!("gadgets.{}", self.group);
        definitions
            .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await?;
        Ok(())
    }

    /// Those in the scenario's namespace, in a version.
    pub(crate) fn all(&self, site: &Site, version: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk(&self.group, version, "Gadget");
        let kind = ApiResource::from_gvk_with_plural(&gvk, "gadgets");
        Api::namespaced_with(site.client.clone(), &site.namespace, &kind)
    }

    /// The manifest of one.
    pub(crate) fn one(&self, site: &Site, version: &str, name: &str) -> Value {
        let api_version = format!("{}/{version}", self.group);
        json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": name, "namespace": site.namespace}, "spec": {"a": 1}})
    }
}
