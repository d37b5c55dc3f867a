//! Apply strategies.

use anyhow::{Context as _, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::site::{data, messages, on_site, reasons};

#[test]
fn server_side_apply_takes_nothing_by_stealth() {
    on_site("ssa", |site| async move {
        let manifests = [site.config("c", &json!({"a": "1"})), site.deployment("web", "nginx")];
        site.apply(&json!({"type": "ServerSideApply"}), &manifests).await?;
        site.available().await?;
        // Controllers write the Deployment's status: that is no conflict.
        let next = [site.config("c", &json!({"a": "2"})), site.deployment("web", "nginx:2")];
        site.edit(&next).await?;
        site.available().await?;
        let theirs = PatchParams::apply("somebody").force();
        let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "9"}});
        site.configs().patch("c", &theirs, &Patch::Apply(&apply)).await?;
        let refused = site.until("Applied", "False").await?;
        ensure!(reasons(&refused, "Applied")[0] == "ManifestApplyFailed");
        let force = json!({"spec": {"applyStrategy": {"serverSideApplyConfig": {"force": true}}}});
        site.patch(&force).await?;
        site.available().await?;
        site.remove().await
    });
}

#[test]
fn an_object_goes_over_from_client_side_to_server_side_apply_with_all_its_fields() {
    on_site("migrate", |site| async move {
        site.apply(
            &json!({}),
            &[
                site.config("c", &json!({"a": "1", "b": "2"})),
                site.deployment("web", "nginx"),
            ],
        )
        .await?;
        site.available().await?;
        site.patch(&json!({"spec": {"applyStrategy": {"type": "ServerSideApply"}}}))
            .await?;
        site.available().await?;
        // What leaves the manifest leaves the object: it is ours under the new manager too.
        site.edit(&[site.config("c", &json!({"a": "1"})), site.deployment("web", "nginx:2")])
            .await?;
        site.available().await?;
        let config = site.configs().get("c").await?;
        ensure!(data(&config, "b").is_none(), "{:?}", config.data);
        let managers: Vec<_> = config
            .managed_fields()
            .iter()
            .map(|m| (m.manager.clone(), m.operation.clone()))
            .collect();
        ensure!(
            managers.len() == 1 && managers[0].1.as_deref() == Some("Apply"),
            "{managers:?}"
        );
        let web = site.all::<Deployment>().get("web").await?;
        let image = web.spec.context("a spec")?.template.spec.context("a spec")?.containers[0]
            .image
            .clone();
        ensure!(image.as_deref() == Some("nginx:2"));
        site.remove().await
    });
}

#[test]
fn owners_in_a_manifest_need_co_ownership_and_are_not_sent() {
    on_site("owners", |site| async move {
        let mut owned = site.config("c", &json!({}));
        owned["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Service", "name": "s", "uid": "d7ce3bd2-0c9c-4e9d-9b6c-0a1f4a3f7f00"}]);
        site.apply(&json!({}), &[owned]).await?;
        let refused = site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        let text = &messages(&refused, "Applied")[0];
        ensure!(
            text.contains("manifest is set to have owner references but co-ownership is disallowed"),
            "{text}"
        );
        site.patch(&json!({"spec": {"applyStrategy": {"allowCoOwnership": true}}}))
            .await?;
        site.available().await?;
        let owners = crate::site::owners(&site.configs().get("c").await?);
        ensure!(owners == ["AppliedWork"], "{owners:?}");
        site.remove().await
    });
}

#[test]
fn what_others_own_too_keeps_its_other_owners() {
    on_site("co-owned", |site| async move {
        site.apply(
            &json!({"allowCoOwnership": true}),
            &[site.config("c", &json!({"a": "1"}))],
        )
        .await?;
        site.available().await?;
        let service: k8s_openapi::api::core::v1::Service = site
            .theirs(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "owner"}, "spec": {"ports": [{"port": 80}]}}))
            .await?;
        let mut owners: Vec<Value> = Vec::new();
        for owner in site.configs().get("c").await?.owner_references() {
            owners.push(serde_json::to_value(owner)?);
        }
        owners.push(json!({"apiVersion": "v1", "kind": "Service", "name": "owner", "uid": service.uid()}));
        site.tamper("c", &json!({"metadata": {"ownerReferences": owners}}))
            .await?;
        site.edit(&[site.config("c", &json!({"a": "2"}))]).await?;
        site.until_data("c", "a", "2").await?;
        site.available().await?;
        let owners = crate::site::owners(&site.configs().get("c").await?);
        ensure!(owners == ["AppliedWork", "Service"], "{owners:?}");
        // Without co-ownership the same object is an error.
        site.patch(&json!({"spec": {"applyStrategy": {"allowCoOwnership": false}}}))
            .await?;
        let refused = site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        ensure!(messages(&refused, "Applied")[0].contains("object is co-owned by multiple objects"));
        // The end of the Work leaves what others own.
        site.remove().await?;
        let owners = crate::site::owners(&site.configs().get("c").await?);
        ensure!(owners == ["Service"], "{owners:?}");
        Ok(())
    });
}
