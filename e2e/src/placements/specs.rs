//! What scenarios place, and how they ask for it.

use anyhow::Result;
use fleet_api::placement::PlacementStatus;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::Crp;
use crate::harness::Ctx;

/// A ConfigMap with one key.
pub fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: kube::core::ObjectMeta {
            name: Some(name.to_owned()),
            ..kube::core::ObjectMeta::default()
        },
        data: Some([("key".to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

/// A selector of core objects.
pub fn core_selector(kind: &str, name: &str) -> Value {
    json!({ "group": "", "version": "v1", "kind": kind, "name": name })
}

/// A selector of a namespace with this scope.
pub fn namespace_selector(name: &str, scope: &str) -> Value {
    json!({ "group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope })
}

/// Selects a namespace and what is in it.
pub fn whole_namespace(name: &str) -> Value {
    json!([core_selector("Namespace", name)])
}

/// Selects something that does not exist.
pub fn nothing(ctx: &Ctx) -> Value {
    whole_namespace(&ctx.name("missing"))
}

/// The policy that picks no cluster.
pub fn nowhere() -> Value {
    json!({ "placementType": "PickN", "numberOfClusters": 0 })
}

/// A rolling update; what cannot be tracked counts as available at once.
pub fn rolling(max_unavailable: &Value, max_surge: &Value) -> Value {
    json!({
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxUnavailable": max_unavailable, "maxSurge": max_surge, "unavailablePeriodSeconds": 0,
        },
    })
}

/// A placement of these selectors by this policy that does not wait between clusters.
pub fn spec(selectors: &Value, policy: &Value) -> Value {
    json!({
        "resourceSelectors": selectors, "policy": policy, "strategy": rolling(&json!("100%"), &json!("25%")),
    })
}

/// Waits until the hub agent knows as many objects as these selectors pick: a placement of them that is made next has all
/// of them in its first snapshot. Its watches of different kinds do not keep step.
pub async fn seen(ctx: &Ctx, selectors: &Value, count: usize) -> Result<()> {
    let marker = Crp::create(ctx, &format!("seen-{count}"), &spec(selectors, &nowhere())).await?;
    let found = |status: &PlacementStatus| status.selected_resources.len() == count;
    marker
        .until(&format!("{count} objects are known"), |crp| {
            crp.status.as_ref().is_some_and(found)
        })
        .await?;
    marker.remove().await
}

/// The scenario's namespace on the hub with a ConfigMap `settings`, both known to the hub agent; gives its name.
pub async fn furnished(ctx: &Ctx) -> Result<String> {
    let namespace = ctx.namespace("hub").await?;
    ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
    seen(ctx, &whole_namespace(&namespace), 2).await?;
    Ok(namespace)
}

/// That namespace, placed by this policy and strategy.
pub async fn place(ctx: &Ctx, policy: Value, strategy: Value) -> Result<Crp> {
    let selectors = whole_namespace(&furnished(ctx).await?);
    let spec = json!({ "resourceSelectors": selectors, "policy": policy, "strategy": strategy });
    Crp::create(ctx, "crp", &spec).await
}

/// Gives the ConfigMap of [`furnished`] another value.
pub async fn change(ctx: &Ctx, value: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, ctx.prefix());
    let patch = Patch::Merge(json!({ "data": { "key": value } }));
    maps.patch("settings", &PatchParams::default(), &patch).await?;
    Ok(())
}
