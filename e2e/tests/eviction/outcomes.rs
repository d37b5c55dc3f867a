//! What becomes of an eviction, without budgets.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::agents::{self, HUB_AGENT};
use fleet_e2e::evictions::{Eviction, NO_BUDGET, VALID};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, furnished, place, rolling, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use fleet_e2e::works::{Held, cluster_of};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::json;

#[test]
fn an_eviction_of_nothing_is_invalid_for_ever() {
    scenario("evict-none", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let missing = ctx.name("crp");
        let early = Eviction::ask(&ctx, &ctx.name("early"), &missing, &cast.name("a"), json!({})).await?;
        let invalid = ["Valid=False: Failed to find ClusterResourcePlacement targeted by eviction"];
        ensure!(early.until_ended().await? == invalid, "{:?}", early.says().await?);
        early
            .events()
            .await?
            .until("EvictionInvalid", &["Failed to find"])
            .await?;

        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        ensure!(
            crp.name == missing,
            "{} is not the placement that was missing",
            crp.name
        );
        crp.until_available(0).await?;
        let elsewhere = crp.evict_from(&ctx, "elsewhere", "no-such-cluster").await?;
        let invalid_there =
            ["Valid=False: Failed to find scheduler decision for placement in cluster targeted by eviction"];
        ensure!(
            elsewhere.until_ended().await? == invalid_there,
            "{:?}",
            elsewhere.says().await?
        );
        // The one after it has ended: the early one has had its time.
        ensure!(early.says().await? == invalid, "{:?}", early.says().await?);
        crp.binding(&cast.name("a")).await?;
        Ok(())
    });
}

/// The eviction through another version of its kind.
async fn through(ctx: &Ctx, version: &str, name: &str) -> Result<DynamicObject> {
    let kind = GroupVersionKind::gvk(
        "placement.kubernetes-fleet.io",
        version,
        "ClusterResourcePlacementEviction",
    );
    let api = Api::<DynamicObject>::all_with(ctx.hub().await?, &ApiResource::from_gvk(&kind));
    Ok(api.get(name).await?)
}

#[test]
fn without_a_budget_the_binding_goes_and_another_comes() {
    scenario("evict-free", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let old = crp.binding(&cast.name("a")).await?;
        let eviction = crp.evict_from(&ctx, "e", &cast.name("a")).await?;
        ensure!(
            eviction.until_ended().await? == [VALID, NO_BUDGET],
            "{:?}",
            eviction.says().await?
        );
        eviction
            .events()
            .await?
            .until("EvictionExecuted", &["no ClusterResourcePlacementDisruptionBudget"])
            .await?;
        for version in ["v1", "v1beta1"] {
            let stored = through(&ctx, version, &eviction.name).await?;
            let target = &stored.data["status"]["target"];
            ensure!(target["uid"].as_str() == old.uid().as_deref(), "{version}: {target}");
        }
        // Nothing keeps it away, so it is picked again: a new binding, with all that belongs to it.
        crp.until_bindings("another for a", |all| {
            all.len() == 2 && all.iter().all(|b| b.uid() != old.uid())
        })
        .await?;
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn a_tainted_cluster_stays_without_it() {
    scenario("evict-taint", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let taint = json!({ "spec": { "taints": [{ "key": "drained", "effect": "NoSchedule" }] } });
        cast.member("a").patch(&taint).await?;
        let eviction = crp.evict_from(&ctx, "e", &cast.name("a")).await?;
        ensure!(
            eviction.until_ended().await? == [VALID, NO_BUDGET],
            "{:?}",
            eviction.says().await?
        );
        crp.until_on(&cast.names(&["b"])).await?;
        crp.until_works("none on a", |works| {
            works.iter().all(|w| cluster_of(w) == cast.name("b"))
        })
        .await?;
        Ok(())
    });
}

#[test]
fn what_is_going_anyway_is_not_deleted_again() {
    scenario("evict-going", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let taint = json!({ "spec": { "taints": [{ "key": "drained", "effect": "NoSchedule" }] } });
        cast.member("a").patch(&taint).await?;
        let work = crp.works().await?.into_iter().next().context("a Work")?;
        let held = Held::hold(&ctx, &work.namespace().unwrap_or_default(), &work.name_any()).await?;
        let binding = crp.binding(&cast.name("a")).await?;
        crp.limit(&ctx, &json!({})).await?;
        crp.evict(&binding.name_any()).await?;
        let eviction = crp.evict_from(&ctx, "e", &cast.name("a")).await?;
        let going = "Executed=True: Eviction is allowed, resources propagated by placement is currently being removed \
                     from cluster targeted by eviction";
        ensure!(
            eviction.until_ended().await? == [VALID, going],
            "{:?}",
            eviction.says().await?
        );
        ensure!(
            eviction.get().await?.data["status"]["target"].is_null(),
            "nothing was deleted for it"
        );
        held.release().await?;
        crp.until_bindings("none", <[_]>::is_empty).await?;
        Ok(())
    });
}

#[test]
fn what_is_not_placed_yet_is_blocked() {
    scenario("evict-early", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(&furnished(&ctx).await?), "policy": cast.everywhere(),
                           "strategy": { "type": "External" } });
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        let bindings = crp.until_on(&cast.names(&["a"])).await?;
        let eviction = crp.evict_from(&ctx, "e", &cast.name("a")).await?;
        let blocked =
            "Executed=False: Eviction is blocked, placement has not propagated resources to target cluster yet";
        ensure!(
            eviction.until_ended().await? == [VALID, blocked],
            "{:?}",
            eviction.says().await?
        );
        ensure!(
            crp.binding(&cast.name("a")).await?.uid() == bindings[0].uid(),
            "it is another one"
        );
        Ok(())
    });
}

/// Waits until these are the series about an eviction.
async fn until_series(ctx: &Ctx, eviction: &str, wanted: &[&str]) -> Result<()> {
    let named = format!("name=\"{eviction}\"");
    let found = async {
        loop {
            let text = agents::metrics(ctx.fleet(), HUB_AGENT).await?;
            let about = text.lines().filter(|line| line.contains(&named));
            let found: Vec<_> = about
                .filter(|line| line.starts_with("fleet_workload_eviction_complete{"))
                .collect();
            if found.len() == wanted.len() && found.iter().zip(wanted).all(|(line, labels)| line.contains(labels)) {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let outcome = tokio::time::timeout(wait::PATIENCE, found).await;
    outcome.with_context(|| format!("series of {eviction}: not {wanted:?}"))?
}

#[test]
fn an_eviction_has_one_series_that_goes_with_it() {
    scenario("evict-series", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let good = crp.evict_from(&ctx, "good", &cast.name("a")).await?;
        let bad = crp.evict_from(&ctx, "bad", "no-such-cluster").await?;
        good.until_ended().await?;
        bad.until_ended().await?;
        until_series(&ctx, &good.name, &[r#"isCompleted="true",isValid="true""#]).await?;
        until_series(&ctx, &bad.name, &[r#"isCompleted="true",isValid="false""#]).await?;
        good.delete().await?;
        until_series(&ctx, &good.name, &[]).await?;
        Ok(())
    });
}
