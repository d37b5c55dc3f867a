//! A kind whose objects the API server cannot list: its conversion is broken. Every placement of a whole namespace meets it.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourcePlacement, ClusterResourceSnapshot, ResourceSnapshot};
use fleet_e2e::agents::HUB_AGENT;
use fleet_e2e::gizmos::Gizmos;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Rp, config_map, selected, spec, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// What converts the objects of a kind, from the next list on.
async fn convert(ctx: &Ctx, gizmos: &Gizmos, conversion: Value) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(ctx.hub().await?);
    let patch = Patch::Merge(json!({ "spec": { "conversion": conversion } }));
    api.patch(&gizmos.definition(), &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until the kind can be listed in the version that the hub agent reads, or cannot.
async fn until_listed(ctx: &Ctx, gizmos: &Gizmos, listed: bool) -> Result<()> {
    let (kubectl, kind) = (ctx.kubectl("hub")?, format!("gizmos.v2.{}", gizmos.group));
    let changed = async { while kubectl.ok(&["get", &kind, "-A"]).await.is_ok() != listed {} };
    let waited = tokio::time::timeout(wait::PATIENCE, changed).await;
    waited.with_context(|| format!("listed: still not {listed}"))
}

/// A conversion that nobody does.
fn by_nobody() -> Value {
    let nobody = json!({ "url": "https://127.0.0.1:1/convert" });
    json!({ "strategy": "Webhook", "webhook": { "clientConfig": nobody, "conversionReviewVersions": ["v1"] } })
}

/// Waits until a placement has selected these.
async fn until_selected(placement: &Crp, what: &str, wanted: &[&String]) -> Result<()> {
    let selects = |crp: &ClusterResourcePlacement| {
        let selected = crp.status.as_ref().map(selected).unwrap_or_default();
        wanted.iter().all(|object| selected.contains(object))
    };
    placement.until(what, selects).await?;
    Ok(())
}

/// The gizmo of the first snapshot is there still, and no other snapshot was made.
async fn still_placed(placement: &Crp) -> Result<()> {
    ensure!(
        placement.made::<ClusterResourceSnapshot>().await?.len() == 1,
        "frozen without looking"
    );
    let works = placement.until_works("its Work", |works| works.len() == 1).await?;
    let manifests = &works[0].spec.workload.manifests;
    ensure!(
        manifests.iter().any(|m| m.as_str().contains("Gizmo")),
        "taken away: {works:?}"
    );
    Ok(())
}

#[test]
fn a_kind_that_cannot_be_listed_holds_only_those_that_need_it() {
    scenario("unlisted", |ctx| async move {
        let (with, without) = (
            ctx.namespace("hub").await?,
            ctx.another_namespace("hub", "without").await?,
        );
        let gizmos = Gizmos::new(&ctx);
        gizmos.define("Namespaced", &["v1", "v2"]).await?;
        gizmos.create(Some(&with), "one", json!({})).await?;
        ctx.create_in("hub", &without, config_map("settings", "0")).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let whole = |name: &str| spec(&whole_namespace(name), &cast.everywhere());
        let placed = Crp::create(&ctx, "placed", &whole(&with)).await?;
        let gizmo = format!("Gizmo {with}/one");
        until_selected(&placed, "with the gizmo", &[&gizmo]).await?;
        placed.until_step("Available", "True").await?;

        convert(&ctx, &gizmos, by_nobody()).await?;
        until_listed(&ctx, &gizmos, false).await?;
        // One that has to list it anew.
        ctx.fleet().crash(HUB_AGENT).await?;

        // Whoever never had one goes on without, and says so.
        let free = Crp::create(&ctx, "free", &whole(&without)).await?;
        free.until_available(0).await?;
        let told = free.until_event("PlacementKindsLeftOut").await?;
        ensure!(
            told.iter()
                .any(|e| e.message.as_deref().is_some_and(|m| m.contains("gizmos"))),
            "{told:?}"
        );
        // Whoever asks for it waits, without a word about what it cannot know.
        let selectors = json!([gizmos.selector("v2")]);
        let asking = Rp::create(&ctx, &with, "asking", &spec(&selectors, &cast.everywhere())).await?;
        asking.until_held(&["gizmos"]).await?;
        ensure!(
            asking.status().await?.conditions.is_empty(),
            "{:?}",
            asking.status().await?
        );
        ensure!(
            asking.made::<ResourceSnapshot>().await?.is_empty(),
            "frozen without looking"
        );
        // Whoever has one keeps it, also when something else changes.
        placed.until_held(&["gizmos"]).await?;
        ctx.create_in("hub", &with, config_map("settings", "0")).await?;
        Crp::create(&ctx, "marker", &whole(&without))
            .await?
            .until_available(0)
            .await?;
        still_placed(&placed).await?;

        convert(&ctx, &gizmos, json!({ "strategy": "None", "webhook": null })).await?;
        until_listed(&ctx, &gizmos, true).await?;
        let status = asking.until_available(0).await?;
        ensure!(selected(&status) == [gizmo.clone()], "{status:?}");
        let settings = format!("ConfigMap {with}/settings");
        until_selected(&placed, "what came meanwhile", &[&gizmo, &settings]).await
    });
}

/// A new version becomes the preferred one, and whatever converts to it is not there yet.
#[test]
fn a_kind_whose_new_version_cannot_be_listed_stays_placed() {
    scenario("upgraded", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let gizmos = Gizmos::new(&ctx);
        gizmos.define("Namespaced", &["v1"]).await?;
        gizmos.create(Some(&namespace), "one", json!({})).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let placed = Crp::create(&ctx, "placed", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        let gizmo = format!("Gizmo {namespace}/one");
        until_selected(&placed, "with the gizmo", &[&gizmo]).await?;
        placed.until_step("Available", "True").await?;

        let api: Api<CustomResourceDefinition> = Api::all(ctx.hub().await?);
        let mut definition = serde_json::to_value(api.get(&gizmos.definition()).await?)?;
        let mut newer = definition["spec"]["versions"][0].clone();
        (newer["name"], newer["storage"]) = (json!("v2"), json!(false));
        let versions = definition["spec"]["versions"].as_array_mut().context("versions")?;
        versions.push(newer);
        let change = json!({ "spec": {
            "versions": definition["spec"]["versions"],
            "conversion": by_nobody(),
        } });
        api.patch(&gizmos.definition(), &PatchParams::default(), &Patch::Merge(change))
            .await?;
        until_listed(&ctx, &gizmos, false).await?;
        // It is noticed, and whatever else is in the namespace does not take it away.
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        placed.until_held(&["gizmos"]).await?;
        still_placed(&placed).await?;

        convert(&ctx, &gizmos, json!({ "strategy": "None", "webhook": null })).await?;
        until_listed(&ctx, &gizmos, true).await?;
        let settings = format!("ConfigMap {namespace}/settings");
        until_selected(&placed, "what came meanwhile", &[&gizmo, &settings]).await
    });
}
