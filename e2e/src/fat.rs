//! Objects as large as the API allows.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

/// All that may be written to the annotations of one object, nearly.
pub const ANNOTATION: usize = 255 * 1024;

/// The name of one of them.
pub fn name(number: usize) -> String {
    format!("fat-{number:04}")
}

/// Makes so many ConfigMaps whose annotations are full.
pub async fn config_maps(client: Client, namespace: &str, count: usize) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let making = futures::stream::iter(0..count).map(|number| {
        let api = api.clone();
        async move {
            let fat = json!({ "metadata": { "name": name(number), "annotations": { "fat": "x".repeat(ANNOTATION) } } });
            let made = api.create(&PostParams::default(), &serde_json::from_value(fat)?).await;
            made.context("cannot create a ConfigMap")?;
            Ok(())
        }
    });
    making.buffer_unordered(8).try_collect().await
}
