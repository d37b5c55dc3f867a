//! Flags of the hub agent that concern placements.

use anyhow::{Context as _, ensure};
use fleet_api::placement::{ClusterResourceSnapshot, ResourceBinding, ResourceSnapshot, SchedulingPolicySnapshot};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, Rp, core_selector, selected};
use fleet_e2e::targets::Targets;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use crate::{config_map, spec, with_agent};

#[test]
fn flags_decide_what_can_be_placed() {
    scenario("flags", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let skipped = ctx.another_namespace("hub", "skipped").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        let secret: Secret = serde_json::from_value(json!({ "metadata": { "name": "hidden" } }))?;
        ctx.create_in("hub", &namespace, secret).await?;
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": { "name": "claim" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }))?;
        ctx.create_in("hub", &namespace, claim).await?;
        let nowhere = json!({ "placementType": "PickN", "numberOfClusters": 0 });
        let whole = |name: &str| json!({ "resourceSelectors": [core_selector("Namespace", name)], "policy": nowhere });

        let flags = [
            "--enable-workload=true".to_owned(),
            format!("--skipped-propagating-namespaces=other, {skipped}"),
            "--skipped-propagating-apis=v1/Secret".to_owned(),
        ];
        with_agent(&ctx, "skipping", &json!({}), &flags, async || {
            let crp = Crp::create(&ctx, "whole", &whole(&namespace)).await?;
            let status = crp.until_step("Scheduled", "True").await?;
            let expected = [
                format!("Namespace {namespace}"),
                format!("ConfigMap {namespace}/settings"),
            ];
            ensure!(selected(&status) == expected, "{:?}", selected(&status));
            let crp = Crp::create(&ctx, "skipped", &whole(&skipped)).await?;
            let status = crp.until_step("Scheduled", "False").await?;
            let said = format!("namespace {skipped} is not allowed to propagate");
            ensure!(status.conditions[0].message.ends_with(&said), "{:?}", status.conditions);
            Ok(())
        })
        .await?;

        with_agent(
            &ctx,
            "allowing",
            &json!({}),
            &["--allowed-propagating-apis=v1/ConfigMap".to_owned()],
            async || {
                let crp = Crp::create(&ctx, "nothing", &whole(&namespace)).await?;
                let status = crp.until_step("Scheduled", "True").await?;
                ensure!(status.selected_resources.is_empty(), "{:?}", selected(&status));
                Ok(())
            },
        )
        .await
    });
}

#[test]
fn namespaced_placements_can_be_switched_off() {
    scenario("cluster-only", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        let targets = Targets::join(&ctx, 1).await?;
        let inside = spec(&json!([core_selector("ConfigMap", "settings")]), &targets);
        let off = json!({ "enableResourcePlacement": false });
        let mut ignored = None;
        with_agent(&ctx, "off", &off, &[], async || {
            let rp = Rp::create(&ctx, &namespace, "rp", &inside).await?;
            // What is asked for later, and is not switched off, is there.
            let crp = Crp::create(
                &ctx,
                "crp",
                &spec(&json!([core_selector("Namespace", &namespace)]), &targets),
            )
            .await?;
            crp.until_available("0").await?;
            let found = rp.get().await?;
            ensure!(found.status.is_none() && found.finalizers().is_empty(), "{found:?}");
            ensure!(rp.made::<ResourceSnapshot>().await?.is_empty(), "a resource snapshot");
            ensure!(
                rp.made::<SchedulingPolicySnapshot>().await?.is_empty(),
                "a policy snapshot"
            );
            ensure!(rp.made::<ResourceBinding>().await?.is_empty(), "a binding");
            rp.until_works("no Work", <[_]>::is_empty).await?;
            let events = rp.events().await?;
            ensure!(events.is_empty(), "{events:?}");
            ignored = Some(rp);
            Ok(())
        })
        .await?;
        // Switched on again it is taken up.
        let status = ignored.context("it was made")?.until_step("Scheduled", "True").await?;
        ensure!(
            selected(&status) == [format!("ConfigMap {namespace}/settings")],
            "{status:?}"
        );
        Ok(())
    });
}

#[test]
fn the_flags_of_the_snapshot_delay_are_obeyed() {
    const DETECTED: &str = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time";
    scenario("delay", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        let targets = Targets::join(&ctx, 1).await?;
        let spec = spec(&json!([core_selector("Namespace", &namespace)]), &targets);
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let edit = async |value: &str| {
            let edit = Patch::Merge(json!({ "data": { "key": value } }));
            maps.patch("settings", &PatchParams::default(), &edit).await
        };
        let flags = |interval: &str, collection: &str| {
            [
                format!("--resource-snapshot-creation-minimum-interval={interval}"),
                format!("--resource-changes-collection-duration={collection}"),
            ]
        };
        with_agent(&ctx, "waiting", &json!({}), &flags("8s", "3s"), async || {
            let crp = Crp::create(&ctx, "waits", &spec).await?;
            let before = crp.until_available("0").await?;
            edit("1").await?;
            let noted = crp
                .until_made("noted", |list: &[ClusterResourceSnapshot]| {
                    list.len() == 1 && list[0].annotations().contains_key(DETECTED)
                })
                .await?;
            edit("2").await?;
            let waiting = crp.status().await?;
            ensure!(waiting.observed_resource_index == "0", "{waiting:?}");
            ensure!(waiting.selected_resources == before.selected_resources, "{waiting:?}");
            let made = crp
                .until_made("made", |list: &[ClusterResourceSnapshot]| list.len() == 2)
                .await?;
            let times: Vec<_> = made
                .iter()
                .filter_map(ResourceExt::creation_timestamp)
                .map(|time| time.0)
                .collect();
            let gap = times[1].duration_since(times[0]).abs();
            ensure!((7..=11).contains(&gap.as_secs()), "made after {gap:?}");
            let newest = made
                .iter()
                .find(|s| s.name_any().ends_with("-1-snapshot"))
                .context("the next index")?;
            let text = newest
                .spec
                .selected_resources
                .iter()
                .find(|text| text.as_str().contains("settings"));
            ensure!(
                text.is_some_and(|text| text.as_str().contains("\"key\":\"2\"")),
                "both edits in one: {text:?}"
            );
            ensure!(noted[0].name_any().ends_with("-0-snapshot"), "{noted:?}");
            Ok(())
        })
        .await?;

        with_agent(&ctx, "hasty", &json!({}), &flags("0s", "0s"), async || {
            let crp = Crp::create(&ctx, "hastes", &spec).await?;
            crp.until_available("0").await?;
            for (value, index) in [("3", "1"), ("4", "2"), ("5", "3")] {
                edit(value).await?;
                crp.until_available(index).await?;
            }
            let made = crp.made::<ClusterResourceSnapshot>().await?;
            ensure!(
                made.len() == 4 && made.iter().all(|s| !s.annotations().contains_key(DETECTED)),
                "{made:?}"
            );
            Ok(())
        })
        .await
    });
}
