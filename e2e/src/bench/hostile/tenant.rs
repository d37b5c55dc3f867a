//! A tenant whose objects are as large as the API allows.

use anyhow::Result;
use fleet_api::placement::ClusterResourcePlacement;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use tokio::time::sleep;

use super::super::figures::Row;
use super::super::hub::Hub;
use super::super::progress;
use super::super::simulated::Members;
use super::{Case, WINDOW};
use crate::fat;
use crate::placements::{core_selector, nowhere, spec};

/// Together as much as the chart gives the hub agent.
const COUNT: usize = 1000;
const NAME: &str = "bench-tenant";

/// So many fat ConfigMaps in a namespace, while somebody places other ConfigMaps: the hub agent lists them all when it begins.
pub(super) async fn fat_objects(hub: &Hub, members: &Members, quiet: f64) -> Result<Vec<Row>> {
    let client = hub.fleet.client("hub").await?;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({ "metadata": { "name": NAME } }))?;
    namespaces.create(&PostParams::default(), &namespace).await?;
    progress(&format!(
        "{COUNT} ConfigMaps with {} KiB of annotations",
        fat::ANNOTATION / 1024
    ));
    fat::config_maps(client.clone(), NAME, COUNT).await?;
    let placements: Api<ClusterResourcePlacement> = Api::all(client);
    let placement = serde_json::from_value(json!({
        "metadata": { "name": NAME },
        "spec": spec(&json!([core_selector("Namespace", "default")]), &nowhere()),
    }))?;
    placements.create(&PostParams::default(), &placement).await?;

    let case = Case::begin(hub, members).await?;
    sleep(WINDOW).await;
    let who = format!("a tenant with {COUNT} fat ConfigMaps");
    let (_, rows) = case.end(&who, Some(quiet))?;
    placements.delete(NAME, &DeleteParams::default()).await?;
    namespaces.delete(NAME, &DeleteParams::default()).await?;
    Ok(rows)
}
