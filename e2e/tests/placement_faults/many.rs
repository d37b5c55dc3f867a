//! More than anybody should place at once.

use anyhow::{Context as _, ensure};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, config_map, spec, whole_namespace};
use fleet_e2e::played::Cast;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};

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
        let cast = Cast::new(&ctx, &["a"]).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        let status = crp.until_available(0).await?;
        ensure!(
            status.selected_resources.len() == COUNT + 1,
            "{}",
            status.selected_resources.len()
        );
        crp.is_whole(1).await?;
        let works = crp.until_works("Works", |works| !works.is_empty()).await?;
        let placed: usize = works.iter().map(|work| work.spec.workload.manifests.len()).sum();
        ensure!(placed == COUNT + 1, "{placed}");
        crp.remove().await
    });
}
