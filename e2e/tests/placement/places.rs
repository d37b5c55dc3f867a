//! Onto real members and off again.

use anyhow::{Result, ensure};
use fleet_api::placement::ResourceSnapshot;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Rp, config_map, core_selector, furnished, seen, selected, spec, whole_namespace};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

/// Waits for a value of a ConfigMap on a member; none for a ConfigMap that is to be gone.
async fn until_value(ctx: &Ctx, member: &str, namespace: &str, name: &str, value: Option<&str>) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(ctx.client(member).await?, namespace);
    let what = format!("{value:?} on {member}");
    wait::until(api, name, &what, |map| {
        let found = map.and_then(|map| map.data.as_ref()?.get("key").map(String::as_str));
        found == value
    })
    .await?;
    Ok(())
}

#[test]
fn a_namespace_is_placed_updated_and_removed() {
    scenario("place", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let members: Vec<_> = ctx.fleet().members().map(|m| m.name.clone()).take(2).collect();
        let policy = json!({ "placementType": "PickFixed", "clusterNames": members });
        let selectors = whole_namespace(&namespace);
        let crp = Crp::create(&ctx, "crp", &spec(&selectors, &policy)).await?;
        let status = crp.until_available(0).await?;
        ensure!(
            selected(&status)
                == [
                    format!("Namespace {namespace}"),
                    format!("ConfigMap {namespace}/settings")
                ],
            "{:?}",
            status.selected_resources
        );
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let edit = json!({ "data": { "key": "two" } });
        for member in &members {
            until_value(&ctx, member, &namespace, "settings", Some("one")).await?;
        }
        maps.patch("settings", &PatchParams::default(), &Patch::Merge(edit))
            .await?;
        for member in &members {
            until_value(&ctx, member, &namespace, "settings", Some("two")).await?;
        }
        crp.until_available(1).await?;
        crp.remove().await?;
        for member in &members {
            wait::until_gone(Api::<Namespace>::all(ctx.client(member).await?), &namespace).await?;
        }
        Ok(())
    });
}

#[test]
fn a_namespaced_placement_takes_what_its_namespace_has() {
    scenario("place-inside", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        // A namespaced placement brings no namespace: whoever uses it has made it there.
        ctx.namespace("member-1").await?;
        ctx.create_in("hub", &namespace, config_map("chosen", "one")).await?;
        ctx.create_in("hub", &namespace, config_map("other", "one")).await?;
        seen(&ctx, &whole_namespace(&namespace), 3).await?;
        let policy = json!({ "placementType": "PickFixed", "clusterNames": ["member-1"] });
        let selectors = json!([core_selector("ConfigMap", "chosen")]);
        let rp = Rp::create(&ctx, &namespace, "rp", &spec(&selectors, &policy)).await?;
        let status = rp.until_available(0).await?;
        ensure!(
            selected(&status) == [format!("ConfigMap {namespace}/chosen")],
            "{status:?}"
        );
        let works = rp.until_works("one Work", |works| works.len() == 1).await?;
        let name = works[0].metadata.name.clone().unwrap_or_default();
        ensure!(name == format!("{namespace}.{}-work", rp.name), "{name}");
        let snapshots = rp.made::<ResourceSnapshot>().await?;
        ensure!(snapshots.len() == 1, "{snapshots:?}");
        until_value(&ctx, "member-1", &namespace, "chosen", Some("one")).await?;
        let maps: Api<ConfigMap> = Api::namespaced(ctx.client("member-1").await?, &namespace);
        ensure!(maps.get_opt("other").await?.is_none(), "nobody selected it");
        rp.remove().await?;
        until_value(&ctx, "member-1", &namespace, "chosen", None).await
    });
}
