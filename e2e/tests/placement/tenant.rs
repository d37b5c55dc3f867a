//! Whoever may write in one namespace of the hub reaches nothing outside that namespace on any member.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{
    ResourceBinding, ResourceEnvelope, ResourceOverride, ResourceOverrideSnapshot, ResourcePlacement, Scope,
};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Placement, Rp, bound, config_map, core_selector, rolling};
use fleet_e2e::tenant::Tenant;
use fleet_e2e::wait;
use fleet_e2e::works::manifests;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

const MEMBER: &str = "member-1";

fn at_once() -> Value {
    rolling(&json!("100%"), &json!("100%"))
}

/// An override of the ConfigMap `settings` by these patches.
fn overriding(patches: &Value) -> Value {
    json!({
        "resourceSelectors": [core_selector("ConfigMap", "settings")],
        "policy": { "overrideRules": [{
            "clusterSelector": { "clusterSelectorTerms": [] }, "jsonPatchOverrides": patches,
        }] },
    })
}

fn envelope(data: &Value) -> Value {
    json!({ "data": data })
}

fn envelope_selector(name: &str) -> Value {
    json!([{ "group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ResourceEnvelope", "name": name }])
}

/// Waits until the only binding says this under a condition that is False.
async fn refused<S: Scope>(placement: &Placement<S>, condition: &str, text: &str) -> Result<()> {
    let what = format!("{condition} False: {text}");
    let said = |binding: &S::Binding| {
        bound(binding, condition).is_some_and(|c| c.status == "False" && c.message.contains(text))
    };
    placement
        .until_bindings(&what, |all| all.iter().any(said))
        .await
        .map(drop)
}

/// What the tenant's namespace on the member has under this name.
async fn on_member(tenant: &Tenant, client: kube::Client, name: &str) -> Result<Option<ConfigMap>> {
    let maps: Api<ConfigMap> = Api::namespaced(client, &tenant.namespace);
    Ok(maps.get_opt(name).await?)
}

#[test]
fn an_override_that_makes_another_object_is_refused_at_the_door() {
    scenario("tenant-door", |ctx| async move {
        let tenant = Tenant::new(&ctx).await?;
        let create = async |name: &str, patch: Value| {
            let body = json!({ "spec": overriding(&json!([patch])) });
            tenant.create::<ResourceOverride>(name, body).await
        };
        let (types, meta) = (
            "cannot override typeMeta fields",
            "cannot override metadata fields except annotations and labels",
        );
        for (op, path, value, reason) in [
            ("replace", "", tenant.cluster_admin(None), "path cannot be empty"),
            ("replace", "kind", json!("ClusterRoleBinding"), "path must start with /"),
            ("replace", "/kind", json!("ClusterRoleBinding"), types),
            ("replace", "/apiVersion", json!("rbac.authorization.k8s.io/v1"), types),
            (
                "replace",
                "/metadata",
                json!({ "name": "x" }),
                "cannot override field metadata",
            ),
            ("replace", "/metadata/name", json!("x"), meta),
            ("replace", "/metadata/namespace", json!("kube-system"), meta),
            ("add", "/metadata/ownerReferences", json!([]), meta),
            ("add", "/metadata/finalizers", json!(["example.com/hold"]), meta),
            ("add", "/metadata/labels~1x", json!("y"), meta),
            ("add", "/status", json!({}), "cannot override status fields"),
            ("add", "/data//x", json!("y"), "path cannot contain empty string"),
        ] {
            let answer = create("bad", json!({ "op": op, "path": path, "value": value })).await;
            let refusal = answer.err().with_context(|| format!("{op} {path:?} was accepted"))?;
            let text = format!("denied request: invalid JSONPatchOverride {{{op} {path}}}: {reason}");
            ensure!(refusal.to_string().contains(&text), "{op} {path:?}: {refusal}");
        }
        for path in [
            "/data/key",
            "/metadata/labels/x",
            "/metadata/annotations",
            "/spec/status",
            "/status-x",
        ] {
            let name = path.replace('/', "-").trim_matches('-').to_owned();
            create(&name, json!({ "op": "add", "path": path, "value": "x" })).await?;
        }
        let delete = json!({ "spec": {
            "resourceSelectors": [core_selector("ConfigMap", "settings")],
            "policy": { "overrideRules": [
                { "clusterSelector": { "clusterSelectorTerms": [] }, "overrideType": "Delete" },
            ] },
        } });
        tenant.create::<ResourceOverride>("delete", delete).await?;
        let overrides = tenant.api::<ResourceOverride>();
        let params = PatchParams::default();
        // An edit is looked at too, every patch of every rule.
        let rules = json!([
            { "clusterSelector": { "clusterSelectorTerms": [] }, "overrideType": "Delete" },
            { "clusterSelector": { "clusterSelectorTerms": [] }, "jsonPatchOverrides": [
                { "op": "add", "path": "/data/a", "value": "b" },
                { "op": "remove", "path": "/metadata/namespace" },
            ] },
        ]);
        let edit = Patch::Merge(json!({ "spec": { "policy": { "overrideRules": rules } } }));
        let refusal = overrides
            .patch("delete", &params, &edit)
            .await
            .err()
            .context("accepted")?;
        let text = format!("invalid JSONPatchOverride {{remove /metadata/namespace}}: {meta}");
        ensure!(refusal.to_string().contains(&text), "{refusal}");
        let label = Patch::Merge(json!({ "metadata": { "labels": { "a": "b" } } }));
        overrides.patch("delete", &params, &label).await?;
        Ok(())
    });
}

#[test]
fn an_override_that_got_past_the_door_makes_no_other_object() {
    scenario("tenant-over", |ctx| async move {
        let tenant = Tenant::new(&ctx).await?;
        let settings = tenant.config(&tenant.namespace, "settings");
        for (word, patch, reason) in [
            (
                "whole",
                json!({ "op": "replace", "path": "", "value": tenant.cluster_admin(None) }),
                "cannot override typeMeta fields",
            ),
            (
                "elsewhere",
                json!({ "op": "replace", "path": "/metadata/namespace", "value": "kube-system" }),
                "cannot override metadata fields except annotations and labels",
            ),
        ] {
            let name = ctx.name(word);
            let body = json!({ "spec": { "overrideSpec": overriding(&json!([patch])), "overrideHash": "MA==" } });
            let snapshot = format!("{name}-0");
            tenant.create::<ResourceOverrideSnapshot>(&snapshot, body).await?;
            let rp = tenant
                .forge(&name, std::slice::from_ref(&settings), MEMBER, &[&snapshot])
                .await?;
            let text = format!(
                "Failed to apply the override rules on the resources: ResourceOverrideSnapshot \"{snapshot}\" failed to \
                 apply on ConfigMap \"settings\" in namespace \"{}\": {reason}",
                tenant.namespace
            );
            refused(&rp, "Overridden", &text).await?;
            ensure!(rp.works().await?.is_empty());
        }
        tenant.is_powerless().await
    });
}

#[test]
fn an_envelope_brings_no_cluster_scoped_object_out_of_a_namespace() {
    scenario("tenant-env", |ctx| async move {
        let tenant = Tenant::new(&ctx).await?;
        let namespace = tenant.namespace.clone();
        for (word, grab) in [
            ("given", tenant.cluster_admin(Some(&namespace))),
            ("none", tenant.cluster_admin(None)),
        ] {
            tenant
                .create::<ResourceEnvelope>(word, envelope(&json!({ "grab": grab })))
                .await?;
            let rp = tenant
                .place(&ctx.name(word), &envelope_selector(word), MEMBER, &at_once())
                .await?;
            let text = format!(
                "a cluster scope object grab ({}) has been wrapped in a resource envelope {namespace}/{word}",
                tenant.name
            );
            refused(&rp, "WorkSynchronized", &text).await?;
            ensure!(rp.works().await?.is_empty());
        }

        // Of a kind that only the member knows: the hub cannot tell, the member does.
        let group = format!("{}.example.com", ctx.prefix());
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let definition: CustomResourceDefinition = serde_json::from_value(json!({
            "metadata": { "name": format!("gizmos.{group}") },
            "spec": {
                "group": group, "scope": "Cluster",
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
                "names": { "kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList" },
            },
        }))?;
        ctx.create(MEMBER, definition).await?;
        let wait = ["wait", "--for=condition=Established", "crd", &format!("gizmos.{group}")];
        ctx.kubectl(MEMBER)?.ok(&wait).await?;
        let gizmo = json!({
            "apiVersion": format!("{group}/v1"), "kind": "Gizmo", "metadata": { "name": "g", "namespace": namespace },
        });
        let data = json!({ "gizmo": gizmo, "plain": tenant.config(&namespace, "plain") });
        tenant.create::<ResourceEnvelope>("unknown", envelope(&data)).await?;
        let rp = tenant
            .place(&ctx.name("unknown"), &envelope_selector("unknown"), MEMBER, &at_once())
            .await?;
        let all = rp
            .until_bindings("a failed placement", |all| {
                let status = all.first().and_then(|b: &ResourceBinding| b.status.as_ref());
                status.is_some_and(|status| !status.failed_placements.is_empty())
            })
            .await?;
        let failed = all[0].status.clone().unwrap_or_default().failed_placements;
        let said: Vec<_> = failed.iter().map(|f| f.condition.message.clone()).collect();
        let text =
            format!("Gizmo is cluster-scoped in the member cluster, but the manifest is of namespace {namespace:?}");
        ensure!(said.len() == 1 && said[0].contains(&text), "{said:?}");
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gizmo"), "gizmos");
        let gizmos: Api<DynamicObject> = Api::all_with(ctx.client(MEMBER).await?, &kind);
        ensure!(gizmos.list(&ListParams::default()).await?.items.is_empty());
        ensure!(on_member(&tenant, ctx.client(MEMBER).await?, "plain").await?.is_some());
        tenant.is_powerless().await
    });
}

#[test]
fn a_forged_snapshot_brings_nothing_out_of_a_namespace() {
    scenario("tenant-forge", |ctx| async move {
        let tenant = Tenant::new(&ctx).await?;
        let inside = tenant.config(&tenant.namespace, "inside");
        let wide = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceEnvelope",
            "metadata": { "name": "wide" }, "data": { "grab": tenant.cluster_admin(None) },
        });
        let grab = format!("ClusterRoleBinding \"{}\"", tenant.name);
        let wrapped = format!("{grab} in namespace \"{}\"", tenant.namespace);
        for (word, object, named) in [
            ("scope", tenant.cluster_admin(None), grab.clone()),
            ("given", tenant.cluster_admin(Some(&tenant.namespace)), wrapped),
            (
                "system",
                tenant.config("kube-system", "x"),
                "ConfigMap \"x\" in namespace \"kube-system\"".to_owned(),
            ),
            ("wide", wide, grab),
        ] {
            let rp = tenant
                .forge(&ctx.name(word), &[inside.clone(), object], MEMBER, &[])
                .await?;
            let text = format!(
                "Failed to synchronize the work to the latest: {named} is not an object of namespace \"{}\", and nothing \
                 that is placed by a ResourcePlacement leaves its namespace",
                tenant.namespace
            );
            refused(&rp, "WorkSynchronized", &text).await?;
            ensure!(rp.works().await?.is_empty());
        }
        tenant.is_powerless().await
    });
}

#[test]
fn inside_its_namespace_a_tenant_places_what_it_likes() {
    scenario("tenant-own", |ctx| async move {
        let tenant = Tenant::new(&ctx).await?;
        let maps: Api<ConfigMap> = Api::namespaced(tenant.hub.clone(), &tenant.namespace);
        maps.create(&kube::api::PostParams::default(), &config_map("settings", "1"))
            .await?;
        let data = json!({ "wrapped": tenant.config(&tenant.namespace, "wrapped") });
        tenant.create::<ResourceEnvelope>("env", envelope(&data)).await?;
        let patch = json!([{ "op": "replace", "path": "/data/key", "value": "2" }]);
        let mut spec = overriding(&patch);
        spec["placement"] = json!({ "name": ctx.name("rp"), "scope": "Namespaced" });
        tenant
            .create::<ResourceOverride>("over", json!({ "spec": spec }))
            .await?;
        let mut selectors = envelope_selector("env");
        let list = selectors.as_array_mut().context("a list")?;
        list.push(core_selector("ConfigMap", "settings"));
        let rp: Rp = tenant.place(&ctx.name("rp"), &selectors, MEMBER, &at_once()).await?;
        let member = ctx.client(MEMBER).await?;
        let there: Api<ConfigMap> = Api::namespaced(member.clone(), &tenant.namespace);
        wait::until_present(there, "settings", "overridden", |settings| {
            settings.data.as_ref().is_some_and(|data| data["key"] == "2")
        })
        .await?;
        rp.until_step("Available", "True").await?;
        ensure!(on_member(&tenant, member, "wrapped").await?.is_some());
        let works = rp.works().await?;
        ensure!(
            works.iter().map(|work| manifests(work).len()).sum::<usize>() == 2,
            "{works:?}"
        );
        let placements = tenant.api::<ResourcePlacement>();
        placements.delete(&rp.name, &kube::api::DeleteParams::default()).await?;
        rp.until_gone().await
    });
}
