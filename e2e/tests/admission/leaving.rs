//! What leaves a cluster, and the cluster itself, with the webhooks that a hub has by default.

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::agents::{with_webhooks, with_webhooks_and};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::{plugin, wait};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams};
use serde_json::json;

#[test]
fn a_cluster_is_drained_past_the_webhooks() {
    scenario("drained", |ctx| async move {
        with_webhooks(ctx.fleet(), async || {
            let cast = Cast::new(&ctx, &["one", "two"]).await?;
            let all = whole_namespace(&furnished(&ctx).await?);
            let (one, two) = (cast.name("one"), cast.name("two"));
            let web = Crp::create(&ctx, "web", &spec(&all, &cast.everywhere())).await?;
            let db = Crp::create(&ctx, "db", &spec(&all, &cast.some(2))).await?;
            db.limit(&ctx, &json!({"minAvailable": 2})).await?;
            let fixed = Crp::create(&ctx, "fixed", &spec(&all, &cast.only(&["one"]))).await?;
            for placement in [&web, &db, &fixed] {
                placement.until_available(0).await?;
            }
            // The webhook and the controller refuse it in their own words.
            let refused = fixed.evict_from(&ctx, "e", &one).await.err().context("it was let in")?;
            let says = "cluster resource placement policy type PickFixed is not supported";
            ensure!(format!("{refused:#}").contains(says), "{refused:#}");

            let args = ["drain", &one, "-o", "json", "--cleanup"];
            let said = plugin::fleet(&ctx, &args).await?;
            let report = said.ends_with(3)?.json()?;
            let outcome = |placement: &Crp| {
                let mut rows = report["placements"].as_array().into_iter().flatten();
                rows.find(|row| row["name"] == *placement.name)
                    .map(|row| row["outcome"].clone())
            };
            for (placement, wanted) in [(&web, "evicted"), (&db, "blocked"), (&fixed, "stays")] {
                ensure!(
                    outcome(placement) == Some(json!(wanted)),
                    "{}: {report}",
                    placement.name
                );
            }
            web.until_on(std::slice::from_ref(&two)).await?;
            Ok(())
        })
        .await
    });
}

/// As networking agents install it, without its schema.
fn exports() -> Result<CustomResourceDefinition> {
    let names = json!({"kind": "InternalServiceExport", "plural": "internalserviceexports"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "internalserviceexports.networking.fleet.azure.com"},
        "spec": {"group": "networking.fleet.azure.com", "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": schema}]},
    }))?)
}

#[test]
fn a_member_that_exports_services_does_not_leave() {
    scenario("exports", |ctx| async move {
        ctx.create("hub", exports()?).await?;
        let crds = Api::<CustomResourceDefinition>::all(ctx.hub().await?);
        let name = "internalserviceexports.networking.fleet.azure.com";
        wait::until_present(crds, name, "established", |crd| {
            let conditions = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions
                .into_iter()
                .any(|said| said.type_ == "Established" && said.status == "True")
        })
        .await?;
        with_webhooks_and(ctx.fleet(), &["--networking-agents-enabled=true"], async || {
            story(&ctx).await
        })
        .await
    });
}

async fn story(ctx: &Ctx) -> Result<()> {
    let client = ctx.hub().await?;
    let name = ctx.name("m");
    let identity = json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let member = json!({"metadata": {"name": name}, "spec": {"identity": identity}});
    ctx.create::<MemberCluster>("hub", serde_json::from_value(member)?)
        .await?;
    let namespace = format!("fleet-member-{name}");
    wait::until_present(Api::<Namespace>::all(client.clone()), &namespace, "there", |_| true).await?;
    let kind = ApiResource {
        group: "networking.fleet.azure.com".into(),
        version: "v1alpha1".into(),
        api_version: "networking.fleet.azure.com/v1alpha1".into(),
        kind: "InternalServiceExport".into(),
        plural: "internalserviceexports".into(),
    };
    let exports = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &kind);
    let export = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "app-web"},
        "spec": {"serviceReference": {"namespacedName": "app/web"}}});
    exports
        .create(&PostParams::default(), &serde_json::from_value(export)?)
        .await?;

    let members = Api::<MemberCluster>::all(client);
    let dry = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    let refused = members.delete(&name, &dry).await.err().context("it was let go")?;
    let says = "admission webhook \"fleet.membercluster.validating\" denied the request: Please delete serviceExport app/web in \
                the member cluster before leaving, request is denied";
    ensure!(refused.to_string().contains(says), "{refused}");
    exports.delete("app-web", &DeleteParams::default()).await?;
    members
        .delete(&name, &dry)
        .await
        .context("nothing is exported any more")?;
    Ok(())
}
