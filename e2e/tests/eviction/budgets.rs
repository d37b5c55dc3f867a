//! Budgets hold evictions back, and nothing else.

use anyhow::ensure;
use fleet_e2e::evictions::{VALID, by_budget};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{change, place, rolling};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::works::Held;
use kube::ResourceExt as _;
use serde_json::json;

#[test]
fn a_budget_blocks_and_says_what_is_missing() {
    scenario("budget-rows", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.some(2), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let rows = [
            (json!({ "maxUnavailable": 0 }), "maxUnavailable: 0 allows no eviction"),
            (json!({ "minAvailable": 2 }), "needs 3 available, has 2"),
            (json!({ "minAvailable": "100%" }), "needs 3 available, has 2"),
            (json!({}), "an empty budget allows no eviction"),
        ];
        for (n, (budget, missing)) in rows.iter().enumerate() {
            crp.limit(&ctx, budget).await?;
            let eviction = crp.evict_from(&ctx, &format!("e{n}"), &cast.name("a")).await?;
            let says = eviction.until_ended().await?;
            ensure!(says == [VALID.to_owned(), by_budget(false, 2, 2)], "{budget}: {says:?}");
            eviction.events().await?.until("EvictionBlocked", &[missing]).await?;
        }
        // What is blocked is blocked for good; the next one is another question.
        crp.limit(&ctx, &json!({ "minAvailable": 1 })).await?;
        let again = crp.evict_from(&ctx, "again", &cast.name("a")).await?;
        let says = again.until_ended().await?;
        ensure!(says == [VALID.to_owned(), by_budget(true, 2, 2)], "{says:?}");
        Ok(())
    });
}

#[test]
fn a_share_of_all_clusters_is_called_misconfigured() {
    scenario("budget-odd", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let rows = [
            json!({ "maxUnavailable": 1 }),
            json!({ "maxUnavailable": "50%" }),
            json!({ "minAvailable": "0%" }),
        ];
        for (n, budget) in rows.iter().enumerate() {
            crp.limit(&ctx, budget).await?;
            let eviction = crp.evict_from(&ctx, &format!("e{n}"), &cast.name("a")).await?;
            let says = eviction.until_ended().await?;
            ensure!(
                says[1].starts_with("Executed=False: Eviction is blocked by misconfigured"),
                "{budget}: {says:?}"
            );
        }
        Ok(())
    });
}

#[test]
fn what_has_failed_goes_and_what_is_on_its_way_does_not() {
    scenario("budget-failed", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.some(2), rolling(&json!(2), &json!(1))).await?;
        crp.until_available(0).await?;
        crp.limit(&ctx, &json!({ "maxUnavailable": 0 })).await?;
        // A rollout under way is no way around a budget.
        cast.act(&["a", "b"], Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &cast.names(&["a", "b"])).await?;
        let early = crp.evict_from(&ctx, "early", &cast.name("a")).await?;
        let says = early.until_ended().await?;
        ensure!(says[1].starts_with("Executed=False"), "{says:?}");

        cast.act(&["a"], Act::Broken);
        crp.until_condition("Applied", "False").await?;
        crp.until_bindings("a has failed", |all| {
            let failed = |b: &&fleet_api::placement::ClusterResourceBinding| {
                let list = b.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default();
                list.iter()
                    .any(|c| c.type_ == "Applied" && c.message.contains("has failed to apply"))
            };
            all.iter()
                .find(|b| b.spec.target_cluster == cast.name("a"))
                .as_ref()
                .is_some_and(failed)
        })
        .await?;
        let late = crp.evict_from(&ctx, "late", &cast.name("a")).await?;
        let says = late.until_ended().await?;
        ensure!(
            says[1] == "Executed=True: Eviction is allowed, placement has failed",
            "{says:?}"
        );
        Ok(())
    });
}

#[test]
fn two_at_once_leave_what_the_budget_wants() {
    scenario("budget-two", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.some(2), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        crp.limit(&ctx, &json!({ "maxUnavailable": 1 })).await?;
        // Their members take their time.
        let mut held = Vec::new();
        for work in crp.works().await? {
            held.push(Held::hold(&ctx, &work.namespace().unwrap_or_default(), &work.name_any()).await?);
        }
        let (a, b) = (cast.name("a"), cast.name("b"));
        let (first, second) = tokio::try_join!(crp.evict_from(&ctx, "ea", &a), crp.evict_from(&ctx, "eb", &b))?;
        let (one, two) = (first.until_ended().await?, second.until_ended().await?);
        let executed = [&one, &two]
            .iter()
            .filter(|says| says[1].starts_with("Executed=True"))
            .count();
        ensure!(executed == 1, "{one:?} {two:?}");
        for work in held {
            work.release().await?;
        }
        Ok(())
    });
}
