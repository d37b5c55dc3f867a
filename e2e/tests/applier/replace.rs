//! What leaves a Work makes room for what comes.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::site::{Site, is, messages, on_site};

/// A Service with this port on every node; without one, the API server picks it.
fn service(site: &Site, name: &str, port: Option<i32>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": site.namespace},
        "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80, "nodePort": port}]},
    })
}

async fn node_port(site: &Site, name: &str) -> Result<i32> {
    let service = site.all::<Service>().get(name).await?;
    let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
    ports.first().and_then(|port| port.node_port).context("no port")
}

/// Applies a Service and returns the port that it got.
async fn placed(site: &Site) -> Result<i32> {
    site.apply(&json!({}), &[service(site, "old", None)]).await?;
    site.available().await?;
    node_port(site, "old").await
}

#[test]
fn a_renamed_service_keeps_its_node_port() {
    on_site("renamed", |site| async move {
        let port = placed(&site).await?;
        site.edit(&[service(&site, "new", Some(port))]).await?;
        // What is said first of it is good already.
        let told = |work: &_| is(work, "Applied", "True") || is(work, "Applied", "False");
        let told = site.until_work("told", told).await?;
        ensure!(is(&told, "Applied", "True"), "{:?}", messages(&told, "Applied"));
        ensure!(node_port(&site, "new").await? == port);
        ensure!(
            site.all::<Service>().get_opt("old").await?.is_none(),
            "the old one stays"
        );
        site.remove().await
    });
}

#[test]
fn what_a_leftover_stands_in_the_way_of_comes_as_soon_as_that_goes() {
    on_site("in-the-way", |site| async move {
        let port = placed(&site).await?;
        let hold = |list: Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
        let (services, params) = (site.all::<Service>(), PatchParams::default());
        services
            .patch("old", &params, &hold(json!(["example.com/hold"])))
            .await?;
        let other = site.config("other", &json!({"a": "1"}));
        site.edit(&[service(&site, "new", Some(port)), other]).await?;
        // Nothing else waits for it.
        site.until_data("other", "a", "1").await?;
        let failed = site.until("Applied", "False").await?;
        let said = &messages(&failed, "Applied")[0];
        ensure!(said.contains("already allocated"), "{said}");
        services.patch("old", &params, &hold(Value::Null)).await?;
        site.soon("available", |work| is(work, "Available", "True")).await?;
        ensure!(node_port(&site, "new").await? == port);
        site.remove().await
    });
}
