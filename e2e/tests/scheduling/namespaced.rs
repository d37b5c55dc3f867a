//! Placements inside a namespace.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ResourceBinding;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Rp, config_map, core_selector, whole_namespace};
use fleet_e2e::played::{Cast, report};
use jiff::SignedDuration;
use kube::ResourceExt as _;
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

/// A ConfigMap of this name, and a placement of it that is called the same.
async fn place(ctx: &Ctx, namespace: &str, name: &str, policy: &Value) -> Result<Rp> {
    ctx.create_in("hub", namespace, config_map(name, "one")).await?;
    let spec = json!({ "resourceSelectors": [core_selector("ConfigMap", name)], "policy": policy });
    Rp::create_called(ctx, namespace, name, &spec).await
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
        let rp = place(&ctx, &namespace, name, &cast.everywhere()).await?;
        let (unknown, with, without) = (cast.name("unknown"), cast.name("with"), cast.name("without"));
        let first = rp.until_on(&[unknown.clone(), with.clone()]).await?;
        rp.until_step("Scheduled", "True").await?;
        let decisions = rp.policy().await?.status.context("it has one")?.target_clusters;
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
        rp.until_on(&[unknown.clone(), with.clone(), without.clone()]).await?;
        let gone = json!({ namespace.as_str(): null, "other": "" });
        cast.say("with", &namespaces(&gone)).await?;
        cast.member("with")
            .until("its namespaces", |mc| {
                let status = mc.status.as_ref();
                status.is_some_and(|s| !s.namespaces.contains_key(&namespace))
            })
            .await?;
        let last = rp.until_on(&[unknown, with.clone(), without]).await?;
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
        let crp = Crp::create_called(&ctx, &name, &spec).await?;
        let gone = place(&ctx, &first, &name, &cast.everywhere()).await?;
        let stays = place(&ctx, &second, &name, &cast.everywhere()).await?;
        crp.until_bindings("one", |all| all.len() == 1).await?;
        let a = [cast.name("a")];
        gone.until_on(&a).await?;
        let kept = stays.until_on(&a).await?;
        let works = [
            (
                crp.until_works("one", |works| works.len() == 1).await?,
                format!("{name}-work"),
            ),
            (
                gone.until_works("one", |works| works.len() == 1).await?,
                format!("{first}.{name}-work"),
            ),
            (
                stays.until_works("one", |works| works.len() == 1).await?,
                format!("{second}.{name}-work"),
            ),
        ];
        for (works, wanted) in works {
            ensure!(works[0].name_any() == wanted, "{works:?}");
        }

        gone.remove().await?;
        crp.remove().await?;
        stays.until_works("its own", |works| works.len() == 1).await?;
        let all = stays.until_on(&a).await?;
        ensure!(all[0].uid() == kept[0].uid(), "{all:?}");
        ensure!(all[0].metadata.deletion_timestamp.is_none(), "{all:?}");
        Ok(())
    });
}
