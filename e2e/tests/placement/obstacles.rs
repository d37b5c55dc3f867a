//! What stands in a placement's way through no fault of its selectors: names that are taken, sizes that nothing can hold.

use anyhow::ensure;
use fleet_api::placement::{ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, Work};
use fleet_e2e::gizmos::Gizmos;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::selection::object;

#[test]
fn a_name_that_is_taken_is_told_and_nothing_is_made_twice() {
    scenario("taken", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        // Somebody else's, under the names that three placements are going to give.
        let named = |word: &str, rest: &str| format!("{}{rest}", ctx.name(word));
        let (policy, resources, work) = (
            named("policy", "-0"),
            named("resources", "-0-snapshot"),
            named("work", "-work"),
        );
        let hash = json!({ "metadata": { "name": policy }, "spec": { "policyHash": "bm9uZQ==" } });
        ctx.create::<ClusterSchedulingPolicySnapshot>("hub", object(hash)?)
            .await?;
        let empty = json!({ "metadata": { "name": resources }, "spec": { "selectedResources": [] } });
        ctx.create::<ClusterResourceSnapshot>("hub", object(empty)?).await?;
        let bare = json!({ "metadata": { "name": work }, "spec": { "workload": { "manifests": [] } } });
        let home = cast.member("a").namespace();
        ctx.create_in::<Work>("hub", &home, object(bare)?).await?;

        let of_policy = Crp::create(&ctx, "policy", &spec).await?;
        let of_resources = Crp::create(&ctx, "resources", &spec).await?;
        let of_work = Crp::create(&ctx, "work", &spec).await?;
        of_policy
            .until_held(&["ClusterSchedulingPolicySnapshot", &policy])
            .await?;
        of_resources
            .until_held(&["ClusterResourceSnapshot", &resources])
            .await?;
        let status = of_work.until_step("WorkSynchronized", "False").await?;
        let said = json!(status.placement_statuses).to_string();
        ensure!(
            said.contains(&work) && said.contains("already exists; it belongs to no placement"),
            "{said}"
        );

        let (hub, delete) = (ctx.hub().await?, DeleteParams::default());
        Api::<ClusterSchedulingPolicySnapshot>::all(hub.clone())
            .delete(&policy, &delete)
            .await?;
        Api::<ClusterResourceSnapshot>::all(hub.clone())
            .delete(&resources, &delete)
            .await?;
        Api::<Work>::namespaced(hub, &home).delete(&work, &delete).await?;
        for crp in [&of_policy, &of_resources, &of_work] {
            crp.until_available(0).await?;
            let policies = crp.made::<ClusterSchedulingPolicySnapshot>().await?.len();
            let resources = crp.made::<ClusterResourceSnapshot>().await?.len();
            ensure!(
                (policies, resources) == (1, 1),
                "{}: {policies} and {resources}",
                crp.name
            );
        }
        Ok(())
    });
}

/// Selects a Gizmo together with its kind, which a member needs first.
fn with_its_kind(gizmos: &Gizmos, name: &str) -> Value {
    let mut one = gizmos.selector("v1");
    one["name"] = json!(name);
    let definition = json!({
        "group": "apiextensions.k8s.io", "version": "v1", "kind": "CustomResourceDefinition", "name": gizmos.definition(),
    });
    json!([definition, one])
}

/// What a Gizmo holds to be this large.
fn text(bytes: usize) -> Value {
    json!({ "text": "x".repeat(bytes) })
}

const KIB: usize = 1024;

#[test]
fn an_object_is_placed_as_long_as_a_snapshot_of_it_can_be_stored() {
    scenario("large", |ctx| async move {
        let gizmos = Gizmos::new(&ctx);
        gizmos.define("Cluster", &["v1"]).await?;
        // Larger than a ConfigMap can be, than a snapshot's usual share, and than kubectl's record of what it applied.
        gizmos.create(None, "large", text(1400 * KIB)).await?;
        let policy = json!({ "placementType": "PickFixed", "clusterNames": ["member-1"] });
        let large = Crp::create(&ctx, "large", &spec(&with_its_kind(&gizmos, "large"), &policy)).await?;
        large.until_available(0).await?;
        let on = |client: Client| -> Api<DynamicObject> { Api::all_with(client, &gizmos.kind("v1")) };
        let there = on(ctx.client("member-1").await?).get("large").await?;
        let size = there.data["text"].as_str().map(str::len);
        ensure!(size == Some(1400 * KIB), "{size:?}");

        // As large as the hub takes: then there is no room for what a snapshot has besides.
        let mut size = 1536 * KIB;
        while let Err(error) = gizmos.create(None, "largest", text(size)).await {
            size -= KIB / 4;
            ensure!(size > 1400 * KIB, "nothing is accepted: {error:#}");
        }
        let cast = Cast::new(&ctx, &["a"]).await?;
        let selectors = with_its_kind(&gizmos, "largest");
        let largest = Crp::create(&ctx, "largest", &spec(&selectors, &cast.everywhere())).await?;
        largest.until_held(&["ClusterResourceSnapshot", "too large"]).await?;
        // Others go on, and so does this one when there is less of it.
        let smaller = Patch::Merge(text(1));
        let api = on(ctx.hub().await?);
        api.patch("large", &PatchParams::default(), &smaller).await?;
        large.until_available(1).await?;
        api.patch("largest", &PatchParams::default(), &smaller).await?;
        let status = largest.until_step("Available", "True").await?;
        ensure!(status.selected_resources.len() == 2, "{status:?}");
        large.remove().await?;
        let definitions: Api<CustomResourceDefinition> = Api::all(ctx.client("member-1").await?);
        wait::until_gone(definitions, &gizmos.definition()).await
    });
}
