//! Placements as users see them: what they select becomes Works for the picked clusters, and its status comes back.
//!
//! The member's part is played here: a Work's status is written by hand, so that these stories hold whatever applies the
//! manifests. They need a fleet with agents (`fleet-local agents`).

use anyhow::{Context as _, Result, ensure};
use fleet_api::conditions;
use fleet_api::placement::{
    ClusterResourceBinding, ClusterResourcePlacement, PlacementStatus, ResourcePlacement, Work,
};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

const PARENT: &str = "kubernetes-fleet.io/parent-CRP";

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": value } }))
        .expect("a valid ConfigMap")
}

/// A placement of a whole namespace.
fn placement(name: &str, namespace: &str, policy: &Value) -> ClusterResourcePlacement {
    serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "resourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": namespace }],
            "policy": policy,
            "strategy": { "type": "RollingUpdate", "rollingUpdate": { "unavailablePeriodSeconds": 0 } },
        },
    }))
    .expect("a valid placement")
}

fn says(status: Option<&PlacementStatus>, type_name: &str, value: &str, generation: i64) -> bool {
    let list = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    conditions::fresh(list, type_name, generation).is_some_and(|condition| condition.status == value)
}

async fn works(ctx: &Ctx, placement: &str, count: usize) -> Result<Vec<Work>> {
    let api: Api<Work> = Api::all(ctx.hub().await?);
    let ours = |works: &[Work]| -> Vec<Work> {
        let ours = works
            .iter()
            .filter(|work| work.labels().get(PARENT).is_some_and(|name| name == placement));
        ours.cloned().collect()
    };
    let all = wait::until_list(api, "a Work in each picked cluster's namespace", |all: &[Work]| {
        ours(all).len() == count
    })
    .await?;
    Ok(ours(&all))
}

/// Says for a member that it has applied a Work and that all of it is available.
async fn answer(ctx: &Ctx, work: &Work) -> Result<()> {
    let generation = work.metadata.generation;
    let condition = |type_name: &str, reason: &str| {
        json!({
            "type": type_name, "status": "True", "reason": reason, "message": "",
            "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({ "status": { "conditions": [
        condition("Applied", "WorkAppliedCompleted"),
        condition("Available", "WorkAvailable"),
    ] } });
    let namespace = work.namespace().context("Works have namespaces")?;
    let api: Api<Work> = Api::namespaced(ctx.hub().await?, &namespace);
    api.patch_status(&work.name_any(), &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

async fn available(ctx: &Ctx, name: &str) -> Result<ClusterResourcePlacement> {
    let api: Api<ClusterResourcePlacement> = Api::all(ctx.hub().await?);
    wait::until_present(api, name, "Available", |crp| {
        let generation = crp.metadata.generation.unwrap_or_default();
        says(
            crp.status.as_ref(),
            "ClusterResourcePlacementAvailable",
            "True",
            generation,
        )
    })
    .await
}

#[test]
fn a_namespace_is_placed_everywhere_updated_and_removed() {
    scenario("place-all", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
        let name = ctx.name("crp");
        ctx.create(
            "hub",
            placement(&name, &namespace, &json!({ "placementType": "PickAll" })),
        )
        .await?;
        let members = ctx.fleet().members().count();
        for work in works(&ctx, &name, members).await? {
            let text = serde_json::to_string(&work.spec)?;
            ensure!(
                text.contains("\"settings\"") && !text.contains("kube-root-ca.crt"),
                "{text}"
            );
            ensure!(
                !text.contains("resourceVersion"),
                "what belongs to the hub stays there: {text}"
            );
            answer(&ctx, &work).await?;
        }
        let crp = available(&ctx, &name).await?;
        let status = crp.status.context("it has a status")?;
        ensure!(
            status.observed_resource_index == "0",
            "{}",
            status.observed_resource_index
        );
        ensure!(status.selected_resources.len() == 2, "{:?}", status.selected_resources);
        ensure!(
            status.placement_statuses.len() == members,
            "{:?}",
            status.placement_statuses
        );

        // An edit of a selected object is a new snapshot, rolled out cluster by cluster.
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let edit = json!({ "data": { "key": "two" } });
        maps.patch("settings", &PatchParams::default(), &Patch::Merge(edit))
            .await?;
        let mut updated = std::collections::BTreeSet::new();
        while updated.len() < members {
            let api: Api<Work> = Api::all(ctx.hub().await?);
            let fresh = |work: &&Work| {
                let ours = work.labels().get(PARENT).is_some_and(|parent| *parent == name);
                let text = serde_json::to_string(&work.spec).unwrap_or_default();
                ours && text.contains("\"two\"") && !updated.contains(&work.namespace())
            };
            let all = wait::until_list(api, "a Work with the new content", |all: &[Work]| {
                all.iter().any(|work| fresh(&work))
            })
            .await?;
            let next: Vec<Work> = all.iter().filter(fresh).cloned().collect();
            for work in next {
                answer(&ctx, &work).await?;
                updated.insert(work.namespace());
            }
        }
        let api: Api<ClusterResourcePlacement> = Api::all(ctx.hub().await?);
        wait::until_present(api.clone(), &name, "Available with the new content", |crp| {
            let status = crp.status.as_ref();
            let current = status.is_some_and(|status| status.observed_resource_index == "1");
            let generation = crp.metadata.generation.unwrap_or_default();
            current && says(status, "ClusterResourcePlacementAvailable", "True", generation)
        })
        .await?;

        api.delete(&name, &DeleteParams::default()).await?;
        wait::until_gone(api, &name).await?;
        let bindings: Api<ClusterResourceBinding> = Api::all(ctx.hub().await?);
        wait::until_list(
            bindings,
            "no binding of the placement",
            |all: &[ClusterResourceBinding]| {
                !all.iter()
                    .any(|binding| binding.labels().get(PARENT).is_some_and(|parent| *parent == name))
            },
        )
        .await?;
        Ok(())
    });
}

#[test]
fn wrong_selectors_are_explained() {
    scenario("place-wrong", |ctx| async move {
        let name = ctx.name("crp");
        ctx.create(
            "hub",
            placement(&name, "kube-system", &json!({ "placementType": "PickAll" })),
        )
        .await?;
        let api: Api<ClusterResourcePlacement> = Api::all(ctx.hub().await?);
        let crp = wait::until_present(api, &name, "Scheduled False", |crp| {
            let generation = crp.metadata.generation.unwrap_or_default();
            says(
                crp.status.as_ref(),
                "ClusterResourcePlacementScheduled",
                "False",
                generation,
            )
        })
        .await?;
        let status = crp.status.context("it has a status")?;
        let scheduled = conditions::find(&status.conditions, "ClusterResourcePlacementScheduled");
        let message = scheduled.map(|condition| condition.message.clone()).unwrap_or_default();
        ensure!(
            message.contains("namespace kube-system is not allowed to propagate"),
            "{message}"
        );
        Ok(())
    });
}

#[test]
fn one_cluster_is_picked_by_number_and_another_by_name() {
    scenario("place-some", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "one")).await?;
        let (by_number, by_name) = (ctx.name("pick-n"), ctx.name("pick-fixed"));
        let policy = json!({ "placementType": "PickN", "numberOfClusters": 1 });
        ctx.create("hub", placement(&by_number, &namespace, &policy)).await?;
        works(&ctx, &by_number, 1).await?;
        let policy = json!({ "placementType": "PickFixed", "clusterNames": ["member-1"] });
        ctx.create("hub", placement(&by_name, &namespace, &policy)).await?;
        let found = works(&ctx, &by_name, 1).await?;
        ensure!(
            found[0].namespace().as_deref() == Some("fleet-member-member-1"),
            "{:?}",
            found[0].namespace()
        );
        Ok(())
    });
}

#[test]
fn a_namespaced_placement_takes_what_its_namespace_has() {
    scenario("place-inside", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("chosen", "one")).await?;
        ctx.create_in("hub", &namespace, config_map("other", "one")).await?;
        let name = ctx.name("rp");
        let rp: ResourcePlacement = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "resourceSelectors": [{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "chosen" }],
                "policy": { "placementType": "PickFixed", "clusterNames": ["member-1"] },
            },
        }))?;
        ctx.create_in("hub", &namespace, rp).await?;
        let works: Api<Work> = Api::namespaced(ctx.hub().await?, "fleet-member-member-1");
        let work = format!("{namespace}.{name}-work");
        wait::until_present(works.clone(), &work, "the chosen ConfigMap", |work| {
            let text = serde_json::to_string(&work.spec).unwrap_or_default();
            text.contains("\"chosen\"") && !text.contains("\"other\"")
        })
        .await?;
        let all = works.list(&ListParams::default()).await?;
        ensure!(all.iter().any(|found| found.name_any() == work), "{work} is listed");
        Ok(())
    });
}
