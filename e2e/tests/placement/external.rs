//! Placements whose rollout update runs control.

use anyhow::{Result, ensure};
use fleet_api::placement::{ClusterResourceSnapshot, ResourceSnapshot, Scope};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, Placement, Rp, config_map, core_selector, lines};
use fleet_e2e::played::Cast;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

fn external(selector: &Value, policy: &Value) -> Value {
    json!({ "resourceSelectors": [selector], "policy": policy, "strategy": { "type": "External" } })
}

async fn waits_for_a_run<S: Scope>(placement: &Placement<S>) -> Result<()> {
    let line = "RolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an external \
                controller and no resource snapshot name is observed across clusters, probably rollout has not started yet";
    let status = placement.until_says(&[line]).await?;
    ensure!(status.conditions.len() == 2, "{:#?}", lines(&status.conditions));
    ensure!(status.observed_resource_index.is_empty(), "{status:?}");
    ensure!(status.selected_resources.is_empty(), "{status:?}");
    for entry in &status.placement_statuses {
        let started = lines(&entry.conditions)[1].clone();
        let expected = "RolloutStarted=Unknown RolloutStartedUnknown: In the process of deciding whether to roll out some \
                        version of the resources or not";
        ensure!(started == expected, "{started}");
    }
    Ok(())
}

#[test]
fn without_a_run_nothing_is_frozen_and_nothing_rolls_out() {
    scenario("external", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "1")).await?;
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = Crp::create(
            &ctx,
            "crp",
            &external(&core_selector("Namespace", &namespace), &cast.everywhere()),
        )
        .await?;
        let rp = Rp::create(
            &ctx,
            &namespace,
            "rp",
            &external(&core_selector("ConfigMap", "settings"), &cast.everywhere()),
        )
        .await?;
        waits_for_a_run(&crp).await?;
        waits_for_a_run(&rp).await?;
        let before = crp.get().await?;
        // Edits of what is selected change nothing until a run takes them.
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let edit = Patch::Merge(json!({ "data": { "key": "2" } }));
        maps.patch("settings", &PatchParams::default(), &edit).await?;
        let rolling = json!({
            "resourceSelectors": [core_selector("Namespace", &namespace)], "policy": cast.everywhere(),
        });
        Crp::create(&ctx, "marker", &rolling).await?.until_available(0).await?;
        ensure!(crp.get().await? == before, "written without a run");
        ensure!(
            crp.made::<ClusterResourceSnapshot>().await?.is_empty(),
            "frozen without a run"
        );
        ensure!(rp.made::<ResourceSnapshot>().await?.is_empty(), "frozen without a run");
        let mut news = crp.events().await?;
        news.retain(|event| event.type_.as_deref() == Some("Normal"));
        ensure!(news.is_empty(), "{news:?}");
        // Wrong selectors are told all the same.
        crp.patch(&json!({ "spec": { "resourceSelectors": [core_selector("Namespace", "kube-system")] } }))
            .await?;
        crp.until_step("Scheduled", "False").await?;
        Ok(())
    });
}
