//! Finalizers of the hub's objects on members.

use anyhow::{Result, ensure};
use fleet_e2e::wait;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::gadgets::Gadgets;
use crate::site::{Site, on_own_site, on_site};

const RECORD: &str = "kubernetes-fleet.io/last-applied-configuration";
/// Nobody on the member acts on it.
const NEVER: &str = "example.com/never";
/// Somebody on the member does on this one.
const THEIRS: &str = "example.com/theirs";

fn finalized(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!([NEVER]);
    object
}

fn configs(site: &Site) -> Api<DynamicObject> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    Api::namespaced_with(site.client.clone(), &site.namespace, &kind)
}

/// Gives the object free, and waits until nothing is left of the Work.
async fn removed(site: &Site, objects: &[(&Api<DynamicObject>, &str)]) -> Result<()> {
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for (api, name) in objects {
        api.patch(name, &PatchParams::default(), &free).await?;
    }
    site.remove().await
}

#[test]
fn finalizers_of_the_hub_do_not_keep_objects_on_members() {
    on_site("finalizers", |site| async move {
        let gadgets = Gadgets::new(&site);
        gadgets.define(&site, &[("v1", true)]).await?;
        let manifests = [
            finalized(site.config("c", &json!({"a": "1"}))),
            finalized(gadgets.one(&site, "v1", "g")),
        ];
        site.apply(&json!({}), &manifests).await?;
        site.available().await?;
        for (api, name) in [(configs(&site), "c"), (gadgets.all(&site, "v1"), "g")] {
            let live = api.get(name).await?;
            ensure!(live.finalizers().is_empty(), "{name}: {:?}", live.finalizers());
        }
        // Nothing has to be given free.
        site.remove().await?;
        wait::until_gone(site.configs(), "c").await
    });
}

/// What an agent has made that copied finalizers, and somebody on the member has put one of its own on.
fn as_before(manifest: &Value) -> Result<DynamicObject> {
    let mut live = manifest.clone();
    live["metadata"]["annotations"][RECORD] = json!(manifest.to_string());
    let copied = manifest["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    live["metadata"]["finalizers"] = copied.into_iter().chain([json!(THEIRS)]).collect();
    Ok(serde_json::from_value(live)?)
}

#[test]
fn finalizers_that_were_copied_before_go_and_those_of_the_member_stay() {
    on_site("copied", |site| async move {
        let gadgets = Gadgets::new(&site);
        gadgets.define(&site, &[("v1", true)]).await?;
        let (configs, gadgets_api) = (configs(&site), gadgets.all(&site, "v1"));
        let manifests = [
            finalized(site.config("c", &json!({"a": "1"}))),
            finalized(gadgets.one(&site, "v1", "g")),
        ];
        let objects = [(&configs, "c"), (&gadgets_api, "g")];
        for ((api, _), manifest) in objects.iter().zip(&manifests) {
            api.create(&PostParams::default(), &as_before(manifest)?).await?;
        }
        site.apply(&json!({}), &manifests).await?;
        site.available().await?;
        for (api, name) in objects {
            let live = api.get(name).await?;
            ensure!(live.finalizers() == [THEIRS], "{name}: {:?}", live.finalizers());
        }
        removed(&site, &objects).await
    });
}

#[test]
fn finalizers_that_were_applied_by_the_server_go_too() {
    on_site("ssa-finalizers", |site| async move {
        let configs = configs(&site);
        let manifest = finalized(site.config("c", &json!({"a": "1"})));
        let ours = PatchParams::apply("work-api-agent");
        configs.patch("c", &ours, &Patch::Apply(&manifest)).await?;
        let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"finalizers": [THEIRS]}});
        let somebody = PatchParams::apply("somebody");
        configs.patch("c", &somebody, &Patch::Apply(&theirs)).await?;
        site.apply(&json!({"type": "ServerSideApply"}), &[manifest]).await?;
        site.available().await?;
        let live = configs.get("c").await?;
        ensure!(live.finalizers() == [THEIRS], "{:?}", live.finalizers());
        removed(&site, &[(&configs, "c")]).await
    });
}

/// The hub's claim has Kubernetes' own finalizer, which means the hub's volume. The member's is the member's to give.
#[test]
fn a_claim_has_the_protection_that_the_member_gives_it() {
    on_site("claim", |site| async move {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "PersistentVolumeClaim"));
        let claims: Api<DynamicObject> = Api::namespaced_with(site.client.clone(), &site.namespace, &kind);
        let manifest = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "p", "namespace": site.namespace, "finalizers": ["kubernetes.io/pvc-protection"]},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        // Copied before: taken off, and given again at once.
        claims.create(&PostParams::default(), &as_before(&manifest)?).await?;
        site.apply(&json!({}), &[manifest]).await?;
        site.available().await?;
        let has = |claim: &DynamicObject, name: &str| claim.finalizers().iter().any(|f| f == name);
        let protected = |claim: &DynamicObject| has(claim, "kubernetes.io/pvc-protection") && has(claim, THEIRS);
        wait::until_present(claims.clone(), "p", "protected", protected).await?;
        removed(&site, &[(&claims, "p")]).await
    });
}

#[test]
fn a_setting_keeps_finalizers() {
    on_own_site(
        "kept",
        |spec| spec.args.push("--work-applier-keep-finalizers=true".into()),
        |site| async move {
            let manifest = finalized(site.config("c", &json!({"a": "1"})));
            site.apply(&json!({}), &[manifest]).await?;
            site.available().await?;
            let configs = configs(&site);
            ensure!(configs.get("c").await?.finalizers() == [NEVER]);
            // While there is the Work, the agent would put it back.
            site.works()
                .delete(&site.name, &kube::api::DeleteParams::default())
                .await?;
            let going = |live: &DynamicObject| live.metadata.deletion_timestamp.is_some();
            wait::until_present(configs.clone(), "c", "deleting", going).await?;
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            configs.patch("c", &PatchParams::default(), &free).await?;
            wait::until_gone(site.works(), &site.name).await
        },
    );
}
