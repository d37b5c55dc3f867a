//! What the member's API server refuses, and what becomes of it afterwards.

use anyhow::{Context as _, Result, ensure};
use fleet_api::labels;
use fleet_e2e::wait;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ResourceQuota};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::site::{config, is, messages, on_site, work};

#[test]
fn a_change_of_an_immutable_field_is_refused_and_nothing_is_made_again() {
    on_site("immutable", |site| async move {
        let web = site.deployment("web", "nginx");
        site.apply(&json!({}), std::slice::from_ref(&web)).await?;
        site.available().await?;
        let before = site.all::<Deployment>().get("web").await?.uid();
        let mut changed = web.clone();
        changed["spec"]["selector"]["matchLabels"]["app"] = json!("other");
        changed["spec"]["template"]["metadata"]["labels"]["app"] = json!("other");
        site.edit(&[changed]).await?;
        let refused = site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        let text = &messages(&refused, "Applied")[0];
        ensure!(text.contains("field is immutable"), "{text}");
        site.edit(&[web]).await?;
        site.available().await?;
        ensure!(site.all::<Deployment>().get("web").await?.uid() == before);
        site.remove().await
    });
}

/// Also of a hub that did not look, or has written the Work before it did.
#[test]
fn a_work_that_came_out_of_a_namespace_brings_nothing_elsewhere() {
    on_site("bounds", |site| async move {
        let other = site.ctx.another_namespace(site.cluster, "other").await?;
        let role = |name: &str, namespace: Option<&str>| {
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": site.ctx.name(name), "namespace": namespace}, "rules": [],
            })
        };
        let mut nowhere = site.config("nowhere", &json!({}));
        nowhere["metadata"] = json!({"name": "nowhere"});
        let manifests = [
            site.config("inside", &json!({})),
            config(&other, "outside", &json!({})),
            role("wide", None),
            role("hidden", Some(&site.namespace)),
            nowhere,
            site.config("x?dryRun=All", &json!({})),
        ];
        let limits = [
            json!({labels::PARENT_PLACEMENT_NAMESPACE: site.namespace}),
            json!({labels::ENVELOPE_TYPE: "ResourceEnvelope", labels::ENVELOPE_NAMESPACE: site.namespace}),
        ];
        let leaves = format!(
            "the object is not of namespace {:?}, which a ResourcePlacement or ResourceEnvelope of that namespace cannot leave",
            site.namespace
        );
        let hidden = format!(
            "ClusterRole is cluster-scoped in the member cluster, but the manifest is of namespace {:?}",
            site.namespace
        );
        for limit in limits {
            let mut work = work(&site.name, &json!({}), &manifests)?;
            work.metadata.labels = serde_json::from_value(limit)?;
            site.ctx.create_in("hub", &site.hub_namespace, work).await?;
            let erred = "DecodingErred";
            let found = site
                .until_reasons("Applied", &["Applied", erred, erred, erred, erred, erred])
                .await?;
            let said = messages(&found, "Applied");
            let expected = [
                &*leaves,
                &leaves,
                &hidden,
                "ConfigMap is namespaced in the member cluster, but the manifest has no namespace",
                "no object can have the name \"x?dryRun=All\"",
            ];
            for (said, text) in said[1..].iter().zip(expected) {
                let whole = format!("Failed to apply the manifest (error: failed to decode manifest: {text})");
                ensure!(*said == whole, "{said}");
            }
            let outside: Api<ConfigMap> = Api::namespaced(site.client.clone(), &other);
            ensure!(outside.get_opt("outside").await?.is_none());
            let roles: Api<ClusterRole> = Api::all(site.client.clone());
            for name in ["wide", "hidden"] {
                ensure!(roles.get_opt(&site.ctx.name(name)).await?.is_none(), "{name}");
            }
            site.configs().get("inside").await?;
            site.remove().await?;
        }
        // The same kinds of a Work that came out of no namespace, but for what is wrong in itself.
        site.apply(&json!({}), &manifests).await?;
        let applied = [
            "Applied",
            "Applied",
            "Applied",
            "DecodingErred",
            "DecodingErred",
            "DecodingErred",
        ];
        site.until_reasons("Applied", &applied).await?;
        site.remove().await
    });
}

/// A policy that refuses ConfigMaps with `data.forbidden` in one namespace.
async fn forbid(site: &crate::site::Site) -> Result<()> {
    let name = site.ctx.name("policy");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}]},
            "validations": [{"expression": "!has(object.data) || !('forbidden' in object.data)", "message": "not in this house"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": {"matchLabels": {
            "kubernetes.io/metadata.name": site.namespace}}}},
    });
    for (kind, plural, object) in [
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", policy),
        (
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            binding,
        ),
    ] {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let kind = ApiResource::from_gvk_with_plural(&gvk, plural);
        let api: Api<DynamicObject> = Api::all_with(site.client.clone(), &kind);
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        site.ctx.made(fleet_e2e::harness::Made {
            cluster: site.cluster.to_owned(),
            kind,
            namespace: None,
            name: name.clone(),
        });
    }
    // A policy takes effect in its own time: ask until it does.
    let probe: k8s_openapi::api::core::v1::ConfigMap =
        serde_json::from_value(site.config("probe", &json!({"forbidden": ""})))?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let refused = async {
        while site.configs().create(&dry, &probe).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(wait::PATIENCE, refused)
        .await
        .context("the policy has no effect")
}

#[test]
fn what_admission_refuses_is_said_and_applied_once_it_is_allowed() {
    on_site("admission", |site| async move {
        forbid(&site).await?;
        let bad = site.config("bad", &json!({"forbidden": "1"}));
        site.apply(&json!({}), &[bad, site.config("good", &json!({}))]).await?;
        let refused = site
            .until_reasons("Applied", &["ManifestApplyFailed", "Applied"])
            .await?;
        let text = &messages(&refused, "Applied")[0];
        ensure!(text.contains("not in this house"), "{text}");
        site.edit(&[site.config("bad", &json!({})), site.config("good", &json!({}))])
            .await?;
        site.available().await?;
        site.remove().await
    });
}

#[test]
fn what_a_quota_refuses_is_applied_once_there_is_room() {
    on_site("quota", |site| async move {
        let quota = |most: &str| json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": most}}});
        site.theirs::<ResourceQuota>(&quota("1")).await?;
        let counted = |quota: &ResourceQuota| {
            let used = quota.status.as_ref().and_then(|s| s.used.as_ref());
            used.is_some_and(|used| used.contains_key("count/configmaps"))
        };
        let quotas = site.all::<ResourceQuota>();
        wait::until_present(quotas.clone(), "q", "counted", counted).await?;
        site.apply(&json!({}), &[site.config("c", &json!({}))]).await?;
        let refused = site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        ensure!(messages(&refused, "Applied")[0].contains("exceeded quota"));
        quotas
            .patch("q", &PatchParams::default(), &Patch::Merge(&quota("9")))
            .await?;
        site.available().await?;
        site.remove().await
    });
}

#[test]
fn what_belongs_into_a_namespace_that_goes_is_applied_once_it_is_back() {
    on_site("terminating", |site| async move {
        let other = site.ctx.another_namespace(site.cluster, "other").await?;
        let namespaces: Api<Namespace> = Api::all(site.client.clone());
        // Something that keeps it from going.
        let keep = |list: Value| json!({"metadata": {"name": "keep", "namespace": other, "finalizers": list}});
        let configs: Api<k8s_openapi::api::core::v1::ConfigMap> = Api::namespaced(site.client.clone(), &other);
        let anchor = serde_json::from_value(keep(json!(["example.com/keep"])))?;
        configs.create(&PostParams::default(), &anchor).await?;
        namespaces.delete(&other, &DeleteParams::default()).await?;
        let going = |namespace: &Namespace| namespace.metadata.deletion_timestamp.is_some();
        wait::until_present(namespaces.clone(), &other, "going", going).await?;
        let manifests = [crate::site::config(&other, "c", &json!({"a": "1"}))];
        site.apply(&json!({}), &manifests).await?;
        let refused = site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        let text = &messages(&refused, "Applied")[0];
        ensure!(text.contains("being terminated"), "{text}");
        let free = json!({"metadata": {"finalizers": null}});
        configs
            .patch("keep", &PatchParams::default(), &Patch::Merge(&free))
            .await?;
        wait::until_gone(namespaces, &other).await?;
        site.ctx.another_namespace(site.cluster, "other").await?;
        site.soon("available", |work| is(work, "Available", "True")).await?;
        site.remove().await
    });
}

#[test]
fn an_object_too_large_for_its_record_is_merged_by_the_server() {
    on_site("large", |site| async move {
        let big = "x".repeat(600_000);
        site.apply(&json!({}), &[site.config("c", &json!({"big": big, "a": "1"}))])
            .await?;
        site.available().await?;
        let config = site.configs().get("c").await?;
        let record = config
            .annotations()
            .get("kubernetes-fleet.io/last-applied-configuration");
        ensure!(record.is_some_and(String::is_empty), "the record should be empty");
        site.tamper("c", &json!({"data": {"theirs": "x"}})).await?;
        site.edit(&[site.config("c", &json!({"big": big, "b": "2"}))]).await?;
        site.until_data("c", "b", "2").await?;
        site.available().await?;
        let after = site.configs().get("c").await?;
        ensure!(after.data.unwrap_or_default().contains_key("theirs"));
        site.remove().await
    });
}
