//! Placements inside a namespace.

use anyhow::{Context as _, Result, ensure};
use fleet_api::labels;
use fleet_api::placement::{ResourceBinding, ResourcePlacement, SchedulingPolicySnapshot};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placing::{Placed, config_map, whole_namespace};
use fleet_e2e::played::{Cast, report};
use fleet_e2e::wait;
use jiff::SignedDuration;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

/// What a member says that collects its namespaces.
fn namespaces(list: &Value) -> Value {
    let mut status = report(SignedDuration::ZERO, true);
    let since = status["agentStatus"][0]["lastReceivedHeartbeat"].clone();
    status["namespaces"] = list.clone();
    status["conditions"] = json!([{
        "type": "NamespaceCollectionSucceeded", "status": "True", "reason": "Played", "message": "",
        "lastTransitionTime": since,
    }]);
    status
}

async fn place(ctx: &Ctx, namespace: &str, name: &str, policy: &Value) -> Result<()> {
    ctx.create_in("hub", namespace, config_map(name, "one")).await?;
    let rp: ResourcePlacement = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": {
            "resourceSelectors": [{ "group": "", "version": "v1", "kind": "ConfigMap", "name": name }],
            "policy": policy,
        },
    }))?;
    ctx.create_in("hub", namespace, rp).await?;
    Ok(())
}

async fn on(ctx: &Ctx, namespace: &str, placement: &str, clusters: &[String]) -> Result<Vec<ResourceBinding>> {
    let api: Api<ResourceBinding> = Api::namespaced(ctx.hub().await?, namespace);
    let selector = watcher::Config::default().labels(&format!("{}={placement}", labels::PARENT_PLACEMENT));
    let what = format!("bindings of {namespace}/{placement} for {clusters:?}");
    wait::until_list_where(api, selector, &what, |all| {
        let mut found: Vec<_> = all.iter().map(|b| b.spec.target_cluster.clone()).collect();
        found.sort();
        found == clusters
    })
    .await
}

#[test]
fn a_namespaced_placement_goes_where_its_namespace_is() {
    scenario("0-ns", |ctx| async move {
        let cast = Cast::new(&ctx, &["unknown"]).await?;
        let namespace = ctx.namespace("hub").await?;
        let owner = json!({ namespace.as_str(): "" });
        cast.join_saying("with", json!({}), &namespaces(&owner)).await?;
        cast.join_saying("without", json!({}), &namespaces(&json!({ "other": "" })))
            .await?;
        let name = "web";
        place(&ctx, &namespace, name, &cast.everywhere()).await?;
        let (unknown, with, without) = (cast.name("unknown"), cast.name("with"), cast.name("without"));
        let first = on(&ctx, &namespace, name, &[unknown.clone(), with.clone()]).await?;
        let policies: Api<SchedulingPolicySnapshot> = Api::namespaced(ctx.hub().await?, &namespace);
        let policy = wait::until_present(policies, &format!("{name}-0"), "a decision", |p| p.status.is_some()).await?;
        let decisions = policy.status.context("it has one")?.target_clusters;
        let left_out = decisions
            .iter()
            .find(|d| d.cluster_name == without)
            .context("it is listed")?;
        ensure!(
            left_out.reason == "ClusterUnschedulable, target namespace does not exist on cluster",
            "{}",
            left_out.reason
        );
        // It comes with the namespace and does not go with it.
        cast.say("without", &namespaces(&owner)).await?;
        on(
            &ctx,
            &namespace,
            name,
            &[unknown.clone(), with.clone(), without.clone()],
        )
        .await?;
        let gone = json!({ namespace.as_str(): null, "other": "" });
        cast.say("with", &namespaces(&gone)).await?;
        cast.member("with")
            .until("its namespaces", |mc| {
                let status = mc.status.as_ref();
                status.is_some_and(|s| !s.namespaces.contains_key(&namespace))
            })
            .await?;
        let last = on(&ctx, &namespace, name, &[unknown, with.clone(), without]).await?;
        let uid = |all: &[ResourceBinding]| {
            all.iter()
                .find(|b| b.spec.target_cluster == with)
                .and_then(kube::ResourceExt::uid)
        };
        ensure!(uid(&first) == uid(&last), "it was replaced");
        Ok(())
    });
}

#[test]
fn placements_of_one_name_do_not_see_each_other() {
    scenario("sched-scopes", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let first = ctx.namespace("hub").await?;
        let second = ctx.another_namespace("hub", "b").await?;
        let name = ctx.name("x");
        let spec = json!({ "resourceSelectors": whole_namespace(&first), "policy": cast.everywhere() });
        let crp = Placed::create(&ctx, &name, spec).await?;
        place(&ctx, &first, &name, &cast.everywhere()).await?;
        place(&ctx, &second, &name, &cast.everywhere()).await?;
        crp.until_bindings("one", |all| all.len() == 1).await?;
        let a = [cast.name("a")];
        on(&ctx, &first, &name, &a).await?;
        let kept = on(&ctx, &second, &name, &a).await?;
        let works = crp.until_works("three", |works| works.len() == 3).await?;
        let mut names: Vec<_> = works.iter().map(kube::ResourceExt::name_any).collect();
        names.sort();
        let mut wanted = vec![
            format!("{name}-work"),
            format!("{first}.{name}-work"),
            format!("{second}.{name}-work"),
        ];
        wanted.sort();
        ensure!(names == wanted, "{names:?}");

        let api: Api<ResourcePlacement> = Api::namespaced(ctx.hub().await?, &first);
        api.delete(&name, &DeleteParams::default()).await?;
        on(&ctx, &first, &name, &[]).await?;
        crp.api().await?.delete(&name, &DeleteParams::default()).await?;
        crp.until_bindings("none", <[_]>::is_empty).await?;
        let works = crp.until_works("one", |works| works.len() == 1).await?;
        ensure!(works[0].name_any() == format!("{second}.{name}-work"), "{works:?}");
        let api: Api<ResourceBinding> = Api::namespaced(ctx.hub().await?, &second);
        let all = api.list(&ListParams::default()).await?;
        ensure!(all.items.len() == 1 && all.items[0].uid() == kept[0].uid(), "{all:?}");
        ensure!(all.items[0].metadata.deletion_timestamp.is_none(), "{all:?}");
        Ok(())
    });
}
