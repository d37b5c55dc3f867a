//! The status of what was placed, on the objects that it was placed from.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::Scope;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Placement, Rp, core_selector, spec};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::wait;
use k8s_openapi::api::batch::v1::CronJob;
use k8s_openapi::api::core::v1::{Event, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

use crate::selection::object;

const NOT_REPORTED: &str = "PlacementStatusNotReportedBack";

fn reporting(selectors: &Value, policy: &Value, strategy: &Value) -> Value {
    let mut spec = spec(selectors, policy);
    spec["strategy"]["reportBackStrategy"] = strategy.clone();
    spec
}

fn to_original() -> Value {
    json!({ "type": "Mirror", "destination": "OriginalResource" })
}

fn ran_at(hour: u32) -> Value {
    json!({ "lastScheduleTime": format!("2026-01-01T{hour:02}:00:00Z") })
}

/// A CronJob that no controller runs: it is suspended, and the test says when it ran.
async fn suspended(ctx: &Ctx, namespace: &str) -> Result<()> {
    let pod = json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": "example.com/image:1" }] });
    let job = json!({ "metadata": { "name": "web" }, "spec": {
        "schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": { "spec": { "template": { "spec": pod } } },
    } });
    ctx.create_in("hub", namespace, object::<CronJob>(job)?).await?;
    Ok(())
}

async fn jobs(ctx: &Ctx, cluster: &str, namespace: &str) -> Result<Api<CronJob>> {
    Ok(Api::namespaced(ctx.client(cluster).await?, namespace))
}

async fn until_shown(ctx: &Ctx, namespace: &str, status: &Value) -> Result<()> {
    let what = format!("status {status}");
    wait::until_present(jobs(ctx, "hub", namespace).await?, "web", &what, |job| {
        serde_json::to_value(&job.status).is_ok_and(|shown| shown == *status)
    })
    .await?;
    Ok(())
}

fn said(events: &[Event], reason: &str) -> Vec<String> {
    let of = events.iter().filter(|event| event.reason.as_deref() == Some(reason));
    of.filter_map(|event| event.message.clone()).collect()
}

/// On a real member: what it says first, what it says next, and that nothing is written in between.
async fn follows<S: Scope>(ctx: &Ctx, namespace: &str, placement: &Placement<S>) -> Result<()> {
    placement.until_step("Applied", "True").await?;
    let there = jobs(ctx, "member-1", namespace).await?;
    for hour in [1, 2] {
        wait::until_present(there.clone(), "web", "placed", |_| true).await?;
        let given = json!({ "status": ran_at(hour) });
        there
            .patch_status("web", &PatchParams::default(), &Patch::Merge(given))
            .await?;
        until_shown(ctx, namespace, &ran_at(hour)).await?;
    }
    let events = placement.events().await?;
    ensure!(said(&events, NOT_REPORTED).is_empty(), "{events:?}");
    Ok(())
}

#[test]
fn an_original_shows_the_status_that_its_only_cluster_gives_it() {
    scenario("report", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        suspended(&ctx, &namespace).await?;
        let one = json!({ "placementType": "PickFixed", "clusterNames": ["member-1"] });
        let spec = reporting(&json!([core_selector("Namespace", &namespace)]), &one, &to_original());
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        follows(&ctx, &namespace, &crp).await
    });
}

#[test]
fn an_original_of_a_namespaced_placement_does_so_too() {
    scenario("report-inside", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.namespace("member-1").await?;
        suspended(&ctx, &namespace).await?;
        let one = json!({ "placementType": "PickFixed", "clusterNames": ["member-1"] });
        let spec = reporting(
            &json!([{ "group": "batch", "version": "v1", "kind": "CronJob", "name": "web" }]),
            &one,
            &to_original(),
        );
        let rp = Rp::create(&ctx, &namespace, "rp", &spec).await?;
        follows(&ctx, &namespace, &rp).await
    });
}

#[test]
fn only_placements_on_one_cluster_report_to_the_original() {
    scenario("report-one", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        suspended(&ctx, &namespace).await?;
        let (both, cast) = (["a", "b"], Cast::new(&ctx, &["a", "b"]).await?);
        cast.show("CronJob", &ran_at(9));
        let selectors = json!([core_selector("Namespace", &namespace)]);
        let end = "cannot back-report status to original resources; use PickFixed with one cluster, PickN with \
                   numberOfClusters 1, or the destination WorkAPI";
        let table = [
            (
                "all",
                cast.everywhere(),
                "the scheduling policy in use is of the PickAll type; ",
            ),
            (
                "two",
                cast.some(2),
                "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1; ",
            ),
            (
                "names",
                cast.only(&both),
                "the scheduling policy in use is of the PickFixed type, but it has more than one target cluster (2 \
                 clusters); ",
            ),
        ];
        let mut refused = Vec::new();
        for (word, policy, begin) in table {
            let crp = Crp::create(&ctx, word, &reporting(&selectors, &policy, &to_original())).await?;
            let events = said(&crp.until_event(NOT_REPORTED).await?, NOT_REPORTED);
            ensure!(events == [format!("{begin}{end}")], "{word}: {events:?}");
            crp.until_step("Applied", "True").await?;
            refused.push(crp);
        }
        // Neither asked for nor complained about.
        let mut quiet = Vec::new();
        for (word, strategy) in [
            ("work", json!({ "type": "Mirror", "destination": "WorkAPI" })),
            ("off", json!({ "type": "Disabled" })),
        ] {
            let crp = Crp::create(&ctx, word, &reporting(&selectors, &cast.everywhere(), &strategy)).await?;
            crp.until_step("Applied", "True").await?;
            quiet.push(crp);
        }
        let untouched = jobs(&ctx, "hub", &namespace).await?.get("web").await?;
        let status = serde_json::to_value(&untouched.status)?;
        ensure!(status == json!({}), "{status}");
        for crp in quiet {
            let events = crp.events().await?;
            ensure!(said(&events, NOT_REPORTED).is_empty(), "{events:?}");
        }

        // With one cluster left it does, once that cluster has applied what it has.
        cast.hide();
        cast.act(&both, Act::Unavailable);
        refused[1]
            .patch(&json!({ "spec": { "policy": { "numberOfClusters": 1 } } }))
            .await?;
        refused[1].until_works("one Work", |works| works.len() == 1).await?;
        cast.act(&both, Act::Broken);
        cast.show("CronJob", &ran_at(10));
        refused[1].until_step("Applied", "False").await?;
        let status = jobs(&ctx, "hub", &namespace).await?.get("web").await?.status;
        ensure!(
            serde_json::to_value(&status)? != ran_at(10),
            "reported of what is not applied"
        );
        cast.act(&both, Act::Available);
        until_shown(&ctx, &namespace, &ran_at(10)).await
    });
}

#[test]
fn a_status_that_others_trust_is_never_written_and_that_is_said() {
    scenario("report-trust", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let service = json!({
            "metadata": { "name": "web" }, "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        });
        ctx.create_in("hub", &namespace, object::<Service>(service)?).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        cast.show(
            "Service",
            &json!({ "loadBalancer": { "ingress": [{ "ip": "192.0.2.1", "ipMode": "VIP" }] } }),
        );
        let selectors = json!([core_selector("Namespace", &namespace)]);
        let crp = Crp::create(&ctx, "crp", &reporting(&selectors, &cast.only(&["a"]), &to_original())).await?;
        let events = said(&crp.until_event(NOT_REPORTED).await?, NOT_REPORTED);
        let expected = format!(
            "Cannot report status back to Service \"web\" in namespace \"{namespace}\": others on the hub trust the status of \
             this kind, so it is never written; use the destination WorkAPI"
        );
        ensure!(events == [expected], "{events:?}");
        let services: Api<Service> = Api::namespaced(ctx.hub().await?, &namespace);
        let status = serde_json::to_value(&services.get("web").await?.status)?;
        ensure!(status == json!({ "loadBalancer": {} }), "{status}");
        Ok(())
    });
}

#[test]
fn a_kind_without_status_subresource_is_named_and_reported_once_it_has_one() {
    scenario("report-kind", |ctx| async move {
        // A group of its own, so that no other scenario sees the kind.
        let group = format!("{}.example.com", ctx.prefix());
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let version = |parts: Value| json!([{ "name": "v1", "served": true, "storage": true, "schema": schema, "subresources": parts }]);
        let crd = json!({ "metadata": { "name": format!("gizmos.{group}") }, "spec": {
            "group": group, "scope": "Cluster", "versions": version(json!({})),
            "names": { "kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList" },
        } });
        ctx.create("hub", object::<CustomResourceDefinition>(crd)?).await?;
        let crds: Api<CustomResourceDefinition> = Api::all(ctx.hub().await?);
        let name = format!("gizmos.{group}");
        wait::until_present(crds.clone(), &name, "established", |crd| {
            let list = crd.status.iter().flat_map(|status| status.conditions.iter().flatten());
            list.into_iter().any(|c| c.type_ == "Established" && c.status == "True")
        })
        .await?;
        let manifest = format!("apiVersion: {group}/v1\nkind: Gizmo\nmetadata:\n  name: first\n");
        ctx.kubectl("hub")?.apply(&manifest).await?;

        let cast = Cast::new(&ctx, &["a"]).await?;
        let status = json!({ "phase": "Turning" });
        cast.show("Gizmo", &status);
        let selectors = json!([{ "group": group, "version": "v1", "kind": "Gizmo", "name": "first" }]);
        let crp = Crp::create(&ctx, "crp", &reporting(&selectors, &cast.only(&["a"]), &to_original())).await?;
        let events = said(&crp.until_event(NOT_REPORTED).await?, NOT_REPORTED);
        let expected = "Cannot report status back to Gizmo \"first\": its kind has no status subresource on the hub; add \
                        one to its CustomResourceDefinition, or use the destination WorkAPI";
        ensure!(events == [expected], "{events:?}");

        let more = Patch::Merge(json!({ "spec": { "versions": version(json!({ "status": {} })) } }));
        crds.patch(&name, &PatchParams::default(), &more).await?;
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gizmo"), "gizmos");
        let gizmos: Api<DynamicObject> = Api::all_with(ctx.hub().await?, &kind);
        let what = "the status that was reported";
        let shown = wait::until_present(gizmos, "first", what, |gizmo| gizmo.data["status"] == status).await;
        shown.context("the kind has a status by now")?;
        Ok(())
    });
}
