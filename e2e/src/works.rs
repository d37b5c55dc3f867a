//! Works as the hub writes them.

use anyhow::Result;
use fleet_api::names;
use fleet_api::placement::Work;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::harness::Ctx;

/// The manifests.
pub fn manifests(work: &Work) -> Vec<Value> {
    let manifests = work.spec.workload.manifests.iter();
    manifests.map(|m| serde_json::to_value(m).unwrap_or_default()).collect()
}

/// A manifest by kind and name.
pub fn manifest(work: &Work, kind: &str, name: &str) -> Option<Value> {
    let is = |object: &Value| object["kind"] == kind && object["metadata"]["name"] == name;
    manifests(work).into_iter().find(is)
}

/// Whether the manifests have a text in them.
pub fn contains(work: &Work, text: &str) -> bool {
    let mut manifests = work.spec.workload.manifests.iter();
    manifests.any(|manifest| manifest.as_str().contains(text))
}

/// The cluster that a Work is for.
pub fn cluster_of(work: &Work) -> String {
    let namespace = work.namespace().unwrap_or_default();
    let name = namespace.strip_prefix(names::MEMBER_NAMESPACE_PREFIX);
    name.unwrap_or_default().to_owned()
}

/// A Work that does not go before it is released, as one whose member is slow to clean up.
#[derive(Debug, Clone)]
pub struct Held {
    /// The Works of its member.
    pub api: Api<Work>,
    /// Its name.
    pub name: String,
}

impl Held {
    /// Holds a Work in a member's namespace.
    pub async fn hold(ctx: &Ctx, namespace: &str, name: &str) -> Result<Self> {
        let api = Api::namespaced(ctx.hub().await?, namespace);
        let held = Self {
            api,
            name: name.to_owned(),
        };
        held.finalizers(json!(["example.com/hold"])).await?;
        Ok(held)
    }

    /// Lets it go.
    pub async fn release(&self) -> Result<()> {
        self.finalizers(json!([])).await
    }

    async fn finalizers(&self, list: Value) -> Result<()> {
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": list } }));
        self.api.patch(&self.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}
