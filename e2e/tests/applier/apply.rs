//! What becomes of a Work that nothing stands in the way of.

use anyhow::{Context as _, ensure};
use fleet_api::conditions;
use fleet_api::placement::AppliedWork;
use fleet_e2e::wait;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::ResourceExt as _;
use kube::api::Api;
use serde_json::{Value, json};

use crate::gadgets::Gadgets;
use crate::site::{entries, is, on_site, reasons};

#[test]
fn a_work_is_applied_becomes_available_and_goes() {
    on_site("apply", |site| async move {
        let other = site.ctx.name("other");
        let manifests = [
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other}}),
            site.config("settings", &json!({"a": "1"})),
            site.deployment("web", "nginx"),
        ];
        site.apply(&json!({}), &manifests).await?;
        let done = site.available().await?;
        ensure!(is(&done, "Applied", "True"));
        let finalizer = "kubernetes-fleet.io/work-cleanup";
        ensure!(
            done.finalizers().iter().any(|f| f == finalizer),
            "applied without the finalizer"
        );
        let of_namespace = conditions::find(&entries(&done)[0].conditions, "Applied").cloned();
        ensure!(
            of_namespace
                .context("a condition")?
                .observed_generation
                .unwrap_or_default()
                == 0
        );
        let settings = site.configs().get("settings").await?;
        let owner = &settings.owner_references()[0];
        ensure!(owner.kind == "AppliedWork" && owner.name == site.name && owner.block_owner_deletion == Some(true));
        for key in ["spec-hash", "last-applied-configuration"] {
            let key = format!("kubernetes-fleet.io/{key}");
            ensure!(settings.annotations().contains_key(&key), "no {key}");
        }
        let written = |object: &AppliedWork| {
            let status = object.status.clone().unwrap_or_default();
            let inventory = status.inventory.unwrap_or_default();
            status.applied_resources.len() == 3 && inventory.objects.is_empty() && inventory.generation == 1
        };
        wait::until_present(site.applied_works(), &site.name, "inventory", written).await?;
        site.remove().await?;
        ensure!(site.configs().get_opt("settings").await?.is_none());
        ensure!(site.all::<Deployment>().get_opt("web").await?.is_none());
        wait::until_gone(Api::<Namespace>::all(site.client.clone()), &other).await
    });
}

#[test]
fn a_work_without_manifests_is_applied_and_available() {
    on_site("empty", |site| async move {
        site.apply(&json!({}), &[]).await?;
        let done = site.available().await?;
        ensure!(is(&done, "Applied", "True") && entries(&done).is_empty());
        site.remove().await
    });
}

#[test]
fn changes_arrive_fields_go_and_what_is_dropped_is_removed() {
    on_site("change", |site| async move {
        let first = [
            site.config("one", &json!({"a": "1", "b": "2"})),
            site.config("two", &json!({})),
        ];
        site.apply(&json!({}), &first).await?;
        site.available().await?;
        site.tamper("one", &json!({"data": {"theirs": "x"}})).await?;
        site.edit(&[site.config("one", &json!({"a": "3"}))]).await?;
        site.available().await?;
        wait::until_gone(site.configs(), "two").await?;
        let shown = site.configs().get("one").await?.data.unwrap_or_default();
        let shown: Vec<_> = shown.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        ensure!(shown == [("a", "3"), ("theirs", "x")], "{shown:?}");
        // Without its record the object is still applied, and nothing is taken for ours that may not be.
        let record = json!({"metadata": {"annotations": {"kubernetes-fleet.io/last-applied-configuration": null}}});
        site.tamper("one", &record).await?;
        site.edit(&[site.config("one", &json!({"c": "4"}))]).await?;
        site.until_data("one", "c", "4").await?;
        site.available().await?;
        let kept = site.configs().get("one").await?.data.unwrap_or_default();
        ensure!(kept.contains_key("theirs"), "{kept:?}");
        site.remove().await
    });
}

#[test]
fn what_cannot_be_tracked_counts_as_available_and_its_time_stays() {
    on_site("untracked", |site| async move {
        let job = json!({
            "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": site.namespace},
            "spec": {"suspend": true, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}},
        });
        site.apply(&json!({}), &[job, site.config("c", &json!({"a": "1"}))])
            .await?;
        let done = site.available().await?;
        ensure!(reasons(&done, "Available") == ["NotTrackable", "Available"]);
        let time = |work: &fleet_api::placement::Work| {
            let status = work.status.clone().unwrap_or_default();
            conditions::find(&status.conditions, "Available")
                .map(|c| (c.reason.clone(), c.last_transition_time.clone()))
        };
        ensure!(time(&done).context("a condition")?.0 == "WorkNotTrackable");
        for round in ["2", "3"] {
            site.edit(&[
                serde_json::to_value(&done.spec.workload.manifests[0])?,
                site.config("c", &json!({"a": round})),
            ])
            .await?;
            ensure!(time(&site.available().await?) == time(&done), "another time");
        }
        site.remove().await
    });
}

#[test]
fn bad_manifests_do_not_hold_up_good_ones() {
    on_site("bad", |site| async move {
        let mut generated = site.config("x", &json!({}));
        generated["metadata"] = json!({"generateName": "x-", "namespace": site.namespace});
        let manifests = [
            site.config("good", &json!({})),
            json!({"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "n", "namespace": site.namespace}}),
            generated,
            site.config("good", &json!({"again": "yes"})),
            crate::site::config("no-such-namespace", "lost", &json!({})),
        ];
        site.apply(&json!({}), &manifests).await?;
        let done = site.until("Applied", "False").await?;
        let expected = [
            "Applied",
            "DecodingErred",
            "FoundGenerateName",
            "Duplicated",
            "ManifestApplyFailed",
        ];
        ensure!(reasons(&done, "Applied") == expected, "{:?}", reasons(&done, "Applied"));
        ensure!(crate::site::message(&done, "Applied").contains("(1 of 5 manifests are applied)"));
        ensure!(entries(&done)[1].identifier.resource.is_empty());
        ensure!(!crate::site::has(&done, "Available"));
        site.remove().await
    });
}

#[test]
fn what_waits_for_a_namespace_is_applied_when_it_comes() {
    on_site("late-ns", |site| async move {
        let other = site.ctx.name("other");
        let manifests = [crate::site::config(&other, "c", &json!({"a": "1"}))];
        site.apply(&json!({}), &manifests).await?;
        site.until_reasons("Applied", &["ManifestApplyFailed"]).await?;
        let generation = site.get().await?.metadata.generation;
        site.ctx.another_namespace(site.cluster, "other").await?;
        let done = site.soon("available", |work| is(work, "Available", "True")).await?;
        ensure!(done.metadata.generation == generation);
        site.remove().await
    });
}

#[test]
fn an_object_moves_to_another_version_of_its_api_without_being_made_again() {
    on_site("version", |site| async move {
        let scaler = |version: &str, spec: Value| {
            let mut object = json!({
                "apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler",
                "metadata": {"name": "web", "namespace": site.namespace},
                "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            });
            for (key, value) in spec.as_object().into_iter().flatten() {
                object["spec"][key] = value.clone();
            }
            object
        };
        site.apply(
            &json!({}),
            &[scaler("v1", json!({"targetCPUUtilizationPercentage": 50}))],
        )
        .await?;
        site.available().await?;
        let scalers = site.all::<HorizontalPodAutoscaler>();
        let before = scalers.get("web").await?.uid();
        let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}}}]);
        site.edit(&[scaler("v2", json!({"metrics": metrics}))]).await?;
        site.available().await?;
        let after = scalers.get("web").await?;
        ensure!(after.uid() == before, "it was made again");
        site.remove().await
    });
}

#[test]
fn a_definition_and_its_object_go_in_one_round() {
    on_site("crd", |site| async move {
        let gadgets = Gadgets::new(&site);
        let definition = gadgets.definition(&[("v1", true)]);
        site.apply(&json!({}), &[gadgets.one(&site, "v1", "g"), definition])
            .await?;
        let done = site.available().await?;
        ensure!(reasons(&done, "Available") == ["NotTrackable", "Available"]);
        gadgets.all(&site, "v1").get("g").await?;
        site.remove().await
    });
}

#[test]
fn a_kind_that_comes_later_is_applied_when_it_does() {
    on_site("late-crd", |site| async move {
        let gadgets = Gadgets::new(&site);
        site.apply(&json!({}), &[gadgets.one(&site, "v1", "g")]).await?;
        site.until_reasons("Applied", &["DecodingErred"]).await?;
        gadgets.define(&site, &[("v1", true)]).await?;
        site.soon("available", |work| is(work, "Available", "True")).await?;
        site.remove().await
    });
}

#[test]
fn what_is_removed_is_removed_only_as_far_as_it_is_ours() {
    on_site("leftovers", |site| async move {
        let names = ["goes", "shared", "remade", "stays"];
        let all: Vec<Value> = names.iter().map(|name| site.config(name, &json!({}))).collect();
        site.apply(&json!({"allowCoOwnership": true}), &all).await?;
        site.available().await?;
        let stays = site.configs().get("stays").await?.uid();
        // Another owner beside us.
        let service: Service = site
            .theirs(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "owner"}, "spec": {"ports": [{"port": 80}]}}))
            .await?;
        let mut owners = site.configs().get("shared").await?.owner_references().to_vec();
        owners.push(serde_json::from_value(
            json!({"apiVersion": "v1", "kind": "Service", "name": "owner", "uid": service.uid()}),
        )?);
        site.tamper("shared", &json!({"metadata": {"ownerReferences": owners}}))
            .await?;
        // Somebody takes it from us, and it is theirs from then on.
        site.edit(&[all[3].clone(), all[1].clone(), all[0].clone()]).await?;
        wait::until_gone(site.configs(), "remade").await?;
        let theirs = site.config("remade", &json!({"a": "theirs"}));
        site.theirs::<k8s_openapi::api::core::v1::ConfigMap>(&theirs).await?;
        site.edit(&[all[3].clone(), site.config("Upper", &json!({}))]).await?;
        site.until_reasons("Applied", &["Applied", "ManifestApplyFailed"])
            .await?;
        wait::until_gone(site.configs(), "goes").await?;
        let freed = |config: &k8s_openapi::api::core::v1::ConfigMap| crate::site::owners(config) == ["Service"];
        wait::until_present(site.configs(), "shared", "is only theirs", freed).await?;
        ensure!(site.configs().get_opt("remade").await?.is_some());
        ensure!(
            site.configs().get("stays").await?.uid() == stays,
            "a new place is no removal"
        );
        site.remove().await
    });
}

/// Nothing is written while nothing happens: neither here nor there.
#[test]
fn a_quiet_work_stays_as_it_is() {
    on_site("quiet", |site| async move {
        site.settle().await?;
        let before = site.versions().await?;
        // Silence is what is tested: longer than the first timer.
        tokio::time::sleep(std::time::Duration::from_secs(8)).await;
        ensure!(site.versions().await? == before, "something was written");
        site.remove().await
    });
}
