//! A tenant's objects are as large as the API allows, and many.

use anyhow::ensure;
use fleet_e2e::agents::{HUB_AGENT, with_hub_flags};
use fleet_e2e::bench::usage::Watched;
use fleet_e2e::fat;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, Rp, core_selector, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// Together more than the chart lets the hub agent have.
const COUNT: usize = 1000;
/// The chart's limit.
const MEMORY_MAX_KIB: u64 = 256 * 1024;

#[test]
fn a_tenants_fat_objects_cost_the_hub_agent_little() {
    scenario("fat", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        // ConfigMaps are watched because somebody else places some.
        let crp = Crp::create(&ctx, "crp", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        crp.until_available(0).await?;
        let tenants = ctx.another_namespace("hub", "tenant").await?;
        fat::config_maps(ctx.hub().await?, &tenants, COUNT).await?;

        // It lists them anew.
        let none: &[&str] = &[];
        with_hub_flags(ctx.fleet(), none, async || {
            let agent = Watched::begin(ctx.fleet(), HUB_AGENT).await?;
            let name = fat::name(7);
            let one = spec(&json!([core_selector("ConfigMap", &name)]), &cast.everywhere());
            let rp = Rp::create(&ctx, &tenants, "rp", &one).await?;
            rp.until_available(0).await?;
            // Of what is kept of an annotation, a change is seen.
            let api: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &tenants);
            let patch = json!({ "metadata": { "annotations": { "fat": "y".repeat(fat::ANNOTATION) } } });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
            rp.until_available(1).await?;
            let memory = agent.end()?.memory;
            println!("the hub agent had {} KiB", memory.peak);
            ensure!(memory.peak < MEMORY_MAX_KIB, "the hub agent had {} KiB", memory.peak);
            rp.remove().await
        })
        .await
    });
}
