//! What users choose by annotations.

use anyhow::ensure;
use fleet_e2e::evictions::{Eviction, VALID, by_budget};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{place, rolling};
use fleet_e2e::played::Cast;
use serde_json::json;

const WAIT: &str = "rollout.kubernetes-fleet.io/wait";
const TTL: &str = "rollout.kubernetes-fleet.io/ttl";

#[test]
fn who_chooses_to_wait_goes_when_the_budget_allows_it_or_ends_blocked() {
    scenario("evict-wait", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        crp.limit(&ctx, &json!({ "minAvailable": 2 })).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let patient = Eviction::ask(&ctx, &ctx.name("patient"), &crp.name, &a, json!({ WAIT: "10m" })).await?;
        ensure!(
            patient.until("Valid=True").await? == [VALID],
            "{:?}",
            patient.says().await?
        );
        let waiting = ["waits for the budget until", "needs 3 available, has 2"];
        patient.events().await?.until("EvictionWaiting", &waiting).await?;
        let brief = Eviction::ask(&ctx, &ctx.name("brief"), &crp.name, &b, json!({ WAIT: "2s" })).await?;
        let says = brief.until_ended().await?;
        ensure!(says == [VALID.to_owned(), by_budget(false, 2, 2)], "{says:?}");
        ensure!(patient.says().await? == [VALID], "{:?}", patient.says().await?);

        crp.limit(&ctx, &json!({ "minAvailable": 1 })).await?;
        let says = patient.until_ended().await?;
        ensure!(says == [VALID.to_owned(), by_budget(true, 2, 2)], "{says:?}");
        Ok(())
    });
}

#[test]
fn the_ended_go_after_the_time_that_was_chosen() {
    scenario("evict-ttl", |ctx| async move {
        let name = |word: &str| ctx.name(word);
        let brief = Eviction::ask(&ctx, &name("brief"), &name("none"), "none", json!({ TTL: "1s" })).await?;
        let kept = Eviction::ask(&ctx, &name("kept"), &name("none"), "none", json!({ TTL: "0s" })).await?;
        kept.until_ended().await?;
        brief.until_gone().await?;
        ensure!(kept.says().await?.len() == 1, "it is kept");
        Ok(())
    });
}
