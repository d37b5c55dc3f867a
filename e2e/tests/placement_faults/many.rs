//! More than anybody should place at once.

use anyhow::{Context as _, ensure};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, core_selector};
use fleet_e2e::targets::Targets;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::{config_map, is_whole, spec};

#[test]
fn five_thousand_objects_are_placed_by_one_placement() {
    scenario("many", |ctx| async move {
        const COUNT: usize = 5000;
        let namespace = ctx.namespace("hub").await?;
        let api: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let making = (0..COUNT).map(|n| {
            let api = api.clone();
            async move {
                api.create(&PostParams::default(), &config_map(&format!("map-{n:04}"), "1"))
                    .await
            }
        });
        let mut making = futures::stream::iter(making).buffer_unordered(32);
        while let Some(made) = making.next().await {
            made.context("cannot create a ConfigMap")?;
        }
        let targets = Targets::join(&ctx, 1).await?;
        let spec = spec(&json!([core_selector("Namespace", &namespace)]), &targets);
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        let status = crp.until_available("0").await?;
        ensure!(
            status.selected_resources.len() == COUNT + 1,
            "{}",
            status.selected_resources.len()
        );
        is_whole(&crp, 1).await?;
        let works = crp.until_works("Works", |works| !works.is_empty()).await?;
        let placed: usize = works.iter().map(|work| work.spec.workload.manifests.len()).sum();
        ensure!(placed == COUNT + 1, "{placed}");
        crp.delete().await?;
        crp.until_gone().await
    });
}
