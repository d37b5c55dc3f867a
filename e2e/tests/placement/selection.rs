//! What placements select.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourcePlacement, ClusterResourceSnapshot, ResourceEnvelope};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{
    Crp, Rp, config_map, core_selector, namespace_selector, nothing, nowhere, seen, selected, spec, whole_namespace,
};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, PersistentVolumeClaim, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn object<K: DeserializeOwned>(value: Value) -> Result<K> {
    Ok(serde_json::from_value(value)?)
}

fn workload(name: &str) -> Value {
    let labels = json!({ "app": name });
    let pod = json!({ "containers": [{ "name": "c", "image": "example.com/image:1" }] });
    json!({
        "metadata": { "name": name, "labels": labels },
        "spec": {
            "replicas": 0, "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": pod },
        },
    })
}

/// Everything that a busy namespace has.
async fn furnish(ctx: &Ctx, namespace: &str) -> Result<()> {
    ctx.create_in("hub", namespace, config_map("b", "1")).await?;
    ctx.create_in("hub", namespace, config_map("a", "1")).await?;
    let account: ServiceAccount = object(json!({ "metadata": { "name": "own" } }))?;
    ctx.create_in("hub", namespace, account).await?;
    let secret: Secret = object(json!({ "metadata": { "name": "plain" }, "stringData": { "k": "v" } }))?;
    ctx.create_in("hub", namespace, secret).await?;
    let annotations = json!({ "kubernetes.io/service-account.name": "own" });
    let token: Secret = object(json!({
        "metadata": { "name": "token", "annotations": annotations },
        "type": "kubernetes.io/service-account-token",
    }))?;
    ctx.create_in("hub", namespace, token).await?;
    let ports = json!([{ "port": 80, "nodePort": 0 }]);
    let service: Service = object(json!({
        "metadata": { "name": "web" }, "spec": { "type": "NodePort", "ports": ports, "selector": { "app": "web" } },
    }))?;
    ctx.create_in("hub", namespace, service).await?;
    let headless: Service = object(json!({
        "metadata": { "name": "headless" }, "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] },
    }))?;
    ctx.create_in("hub", namespace, headless).await?;
    let alone: Endpoints = object(json!({ "metadata": { "name": "alone" } }))?;
    ctx.create_in("hub", namespace, alone).await?;
    ctx.create_in("hub", namespace, object::<Deployment>(workload("web"))?)
        .await?;
    ctx.create_in("hub", namespace, object::<ReplicaSet>(workload("single"))?)
        .await?;
    let revision: ControllerRevision = object(json!({ "metadata": { "name": "single" }, "revision": 1, "data": {} }))?;
    ctx.create_in("hub", namespace, revision).await?;
    let claim: PersistentVolumeClaim = object(json!({
        "metadata": { "name": "claim" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }))?;
    ctx.create_in("hub", namespace, claim).await?;
    let envelope: ResourceEnvelope = object(json!({ "metadata": { "name": "wrapped" }, "data": {
        "map": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "inside" } },
    } }))?;
    ctx.create_in("hub", namespace, envelope).await?;
    // What clusters make by themselves.
    let hub = ctx.hub().await?;
    let sets: Api<ReplicaSet> = Api::namespaced(hub.clone(), namespace);
    wait::until_list(sets, "the Deployment's ReplicaSet", |list: &[ReplicaSet]| {
        list.len() == 2
    })
    .await?;
    let slices: Api<EndpointSlice> = Api::namespaced(hub.clone(), namespace);
    wait::until_list(slices, "the Service's EndpointSlice", |list: &[EndpointSlice]| {
        !list.is_empty()
    })
    .await?;
    let endpoints: Api<Endpoints> = Api::namespaced(hub.clone(), namespace);
    wait::until_list(endpoints, "the Service's Endpoints", |list: &[Endpoints]| {
        list.len() == 2
    })
    .await?;
    let maps: Api<ConfigMap> = Api::namespaced(hub, namespace);
    wait::until_present(maps, "kube-root-ca.crt", "exists", |_| true).await?;
    Ok(())
}

#[test]
fn a_namespace_comes_with_what_users_put_into_it_and_nothing_else() {
    scenario("contents", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        furnish(&ctx, &namespace).await?;
        seen(&ctx, &whole_namespace(&namespace), 13).await?;
        let selectors = whole_namespace(&namespace);
        let crp = Crp::create(&ctx, "crp", &spec(&selectors, &nowhere())).await?;
        let status = crp.until_step("Scheduled", "True").await?;
        let inside = |kind: &str, name: &str| format!("{kind} {namespace}/{name}");
        let expected = [
            format!("Namespace {namespace}"),
            inside("ServiceAccount", "own"),
            inside("Secret", "plain"),
            inside("ConfigMap", "a"),
            inside("ConfigMap", "b"),
            inside("PersistentVolumeClaim", "claim"),
            inside("Service", "headless"),
            inside("Service", "web"),
            inside("ReplicaSet", "single"),
            inside("Deployment", "web"),
            inside("Endpoints", "alone"),
            inside("ControllerRevision", "single"),
            inside("ResourceEnvelope", "wrapped"),
        ];
        ensure!(selected(&status) == expected, "{:#?}", selected(&status));

        let snapshots = crp.made::<ClusterResourceSnapshot>().await?;
        let [snapshot] = snapshots.as_slice() else {
            anyhow::bail!("one snapshot: {snapshots:?}")
        };
        let envelopes = snapshot
            .annotations()
            .get("kubernetes-fleet.io/number-of-enveloped-object");
        ensure!(envelopes.is_some_and(|n| n == "1"), "{:?}", snapshot.annotations());
        for manifest in &snapshot.spec.selected_resources {
            let text = manifest.as_str();
            for hubs in [
                "resourceVersion",
                "\"uid\"",
                "managedFields",
                "creationTimestamp",
                "\"status\"",
                "nodePort",
            ] {
                ensure!(!text.contains(hubs), "{hubs} belongs to the hub: {text}");
            }
            let object: Value = serde_json::from_str(text)?;
            let ip = object.pointer("/spec/clusterIP").and_then(Value::as_str);
            match object.pointer("/metadata/name").and_then(Value::as_str) {
                Some("headless") => ensure!(ip == Some("None"), "{text}"),
                _ => ensure!(ip.is_none(), "{text}"),
            }
        }
        Ok(())
    });
}

/// A namespace that is held while it is being deleted.
pub(crate) async fn ending_namespace(ctx: &Ctx, word: &str, labels: &Value) -> Result<String> {
    let name = ctx.name(word);
    let namespace: Namespace = object(json!({
        "metadata": { "name": name, "labels": labels, "finalizers": ["example.com/hold"] },
    }))?;
    ctx.create("hub", namespace).await?;
    let api: Api<Namespace> = Api::all(ctx.hub().await?);
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(name)
}

pub(crate) async fn release_namespace(ctx: &Ctx, name: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(ctx.hub().await?);
    let release = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch(name, &PatchParams::default(), &release).await?;
    Ok(())
}

#[test]
fn namespaces_alone_are_picked_by_label_and_not_when_they_end() {
    scenario("only", |ctx| async move {
        let labels = json!({ "story": ctx.prefix() });
        for word in ["b", "a"] {
            let name = ctx.another_namespace("hub", word).await?;
            let api: Api<Namespace> = Api::all(ctx.hub().await?);
            let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
            api.patch(&name, &PatchParams::default(), &patch).await?;
            ctx.create_in("hub", &name, config_map("inside", "1")).await?;
        }
        let ending = ending_namespace(&ctx, "ending", &labels).await?;
        let selector = json!({
            "group": "", "version": "v1", "kind": "Namespace", "selectionScope": "NamespaceOnly",
            "labelSelector": { "matchLabels": labels },
        });
        let crp = Crp::create(&ctx, "crp", &spec(&json!([selector]), &nowhere())).await?;
        let status = crp.until_step("Scheduled", "True").await?;
        let expected = [
            format!("Namespace {}", ctx.name("a")),
            format!("Namespace {}", ctx.name("b")),
        ];
        ensure!(selected(&status) == expected, "{:?}", selected(&status));
        release_namespace(&ctx, &ending).await
    });
}

#[test]
fn selectors_inside_one_namespace_take_what_they_name() {
    scenario("inside", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        for name in ["web", "other"] {
            ctx.create_in("hub", &namespace, object::<Deployment>(workload(name))?)
                .await?;
        }
        ctx.create_in("hub", &namespace, config_map("settings", "1")).await?;
        let role = ctx.name("role");
        ctx.create("hub", object::<ClusterRole>(json!({ "metadata": { "name": role } }))?)
            .await?;
        let inside = namespace_selector(&namespace, "NamespaceWithResourceSelectors");
        let deployments = json!({
            "group": "apps", "version": "v1", "kind": "Deployment",
            "labelSelector": { "matchLabels": { "app": "web" } },
        });
        let roles = json!({
            "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": role,
        });
        let expected = [
            format!("Namespace {namespace}"),
            format!("ClusterRole {role}"),
            format!("Deployment {namespace}/web"),
        ];
        for (word, selectors) in [
            ("first", json!([inside, deployments, roles])),
            ("last", json!([roles, deployments, inside])),
        ] {
            let crp = Crp::create(&ctx, word, &spec(&selectors, &nowhere())).await?;
            let status = crp.until_step("Scheduled", "True").await?;
            ensure!(selected(&status) == expected, "{:?}", selected(&status));
        }
        let alone = Crp::create(&ctx, "alone", &spec(&json!([inside]), &nowhere())).await?;
        let status = alone.until_step("Scheduled", "True").await?;
        ensure!(selected(&status) == expected[..1], "{:?}", selected(&status));
        Ok(())
    });
}

#[test]
fn nothing_to_select_is_an_empty_snapshot_and_no_error() {
    scenario("empty", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let node = core_selector("Node", "any");
        for (word, selectors) in [("missing", nothing(&ctx)), ("never-placed", json!([node]))] {
            let crp = Crp::create(&ctx, word, &spec(&selectors, &cast.everywhere())).await?;
            let status = crp.until_available(0).await?;
            ensure!(status.selected_resources.is_empty(), "{status:?}");
            let snapshots = crp.made::<ClusterResourceSnapshot>().await?;
            let [snapshot] = snapshots.as_slice() else {
                anyhow::bail!("one snapshot: {snapshots:?}")
            };
            ensure!(snapshot.spec.selected_resources.is_empty(), "{snapshot:?}");
            let hash = snapshot.annotations().get("kubernetes-fleet.io/resource-hash");
            let empty = "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1";
            ensure!(hash.is_some_and(|hash| hash == empty), "{hash:?}");
        }
        Ok(())
    });
}

#[test]
fn a_namespace_that_ends_leaves_the_clusters() {
    scenario("ends", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let name = ctx.name("going");
        let namespace: Namespace = object(json!({
            "metadata": { "name": name, "finalizers": ["example.com/hold"] },
        }))?;
        ctx.create("hub", namespace).await?;
        ctx.create_in("hub", &name, config_map("settings", "1")).await?;
        seen(&ctx, &whole_namespace(&name), 2).await?;
        let whole = Crp::create(&ctx, "whole", &spec(&whole_namespace(&name), &cast.everywhere())).await?;
        let chosen = json!([
            namespace_selector(&name, "NamespaceWithResourceSelectors"),
            core_selector("ConfigMap", "settings"),
        ]);
        let chosen = Crp::create(&ctx, "chosen", &spec(&chosen, &cast.everywhere())).await?;
        whole.until_available(0).await?;
        let before = chosen.until_available(0).await?;
        let api: Api<Namespace> = Api::all(ctx.hub().await?);
        api.delete(&name, &DeleteParams::default()).await?;
        // With its contents it is just no longer there; where it was named, that is a mistake, and clusters keep it.
        let left = whole
            .until("nothing selected", |crp: &ClusterResourcePlacement| {
                crp.status
                    .as_ref()
                    .is_some_and(|status| status.selected_resources.is_empty())
            })
            .await?;
        let status = left.status.context("it has a status")?;
        ensure!(status.observed_resource_index != "0", "{status:?}");
        let kept = chosen.until_step("Scheduled", "False").await?;
        ensure!(kept.selected_resources == before.selected_resources, "{kept:?}");
        ensure!(kept.observed_resource_index == "0", "{kept:?}");
        release_namespace(&ctx, &name).await
    });
}

#[test]
fn a_namespaced_placement_takes_services_and_endpoints_that_no_service_makes() {
    scenario("endpoints", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        furnish(&ctx, &namespace).await?;
        let own: EndpointSlice = object(json!({
            "metadata": { "name": "own" }, "addressType": "IPv4", "endpoints": [], "ports": [],
        }))?;
        ctx.create_in("hub", &namespace, own).await?;
        let selectors = json!([
            core_selector("Service", "web"),
            { "group": "", "version": "v1", "kind": "Endpoints" },
            { "group": "discovery.k8s.io", "version": "v1", "kind": "EndpointSlice" },
        ]);
        let rp = Rp::create(&ctx, &namespace, "rp", &spec(&selectors, &nowhere())).await?;
        let inside = |kind: &str, name: &str| format!("{kind} {namespace}/{name}");
        let is = async |what: &str, expected: &[String]| {
            rp.until(what, |rp| rp.status.as_ref().is_some_and(|s| selected(s) == expected))
                .await
        };
        let (web, alone, own) = (
            inside("Service", "web"),
            inside("Endpoints", "alone"),
            inside("EndpointSlice", "own"),
        );
        is("what users made", &[web.clone(), alone.clone(), own.clone()]).await?;
        // A Service that takes the Endpoints of its name over, and gives them back.
        let taking: Service =
            object(json!({ "metadata": { "name": "alone" }, "spec": { "ports": [{ "port": 80 }] } }))?;
        ctx.create_in("hub", &namespace, taking).await?;
        is("without those of the new Service", &[web.clone(), own.clone()]).await?;
        let services: Api<Service> = Api::namespaced(ctx.hub().await?, &namespace);
        services.delete("web", &DeleteParams::default()).await?;
        is("without the Service that is gone", &[own]).await?;
        Ok(())
    });
}
