//! Evictions whose hub agent dies or is replaced: each is carried out once, and its outcome is never lost. These kill what
//! all scenarios share, so they run one after the other on a fleet of their own.

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::agents::{self, HUB_AGENT, with_hub_flags};
use fleet_e2e::binaries;
use fleet_e2e::evictions::{Eviction, VALID, by_budget};
use fleet_e2e::gate::Gate;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, rolling, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use kube::ResourceExt as _;
use serde_json::json;

#[test]
fn a_hub_agent_killed_after_any_write_of_an_eviction_carries_it_out_once() {
    scenario("crash-evict", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let spec = json!({
            "resourceSelectors": whole_namespace(&furnished(&ctx).await?), "policy": cast.everywhere(),
            "strategy": rolling(&json!(1), &json!(1)),
        });
        let mut writes = 0;
        // One that is killed leads again as soon as it is back.
        with_hub_flags(ctx.fleet(), &["--leader-elect=false"], async || {
            for count in 0.. {
                let crp = Crp::create_called(&ctx, &ctx.name(&format!("crp-{count}")), &spec).await?;
                crp.until_available(0).await?;
                crp.limit(&ctx, &json!({ "minAvailable": 1 })).await?;
                let old = crp.binding(&cast.name("a")).await?;
                let gate = Gate::new(&ctx, &crp.name, count).await?;
                // Of the placement's name: the gate sees what is written to it.
                let eviction = Eviction::ask(&ctx, &crp.name, &crp.name, &cast.name("a"), json!({})).await?;
                let done = async || -> Result<()> {
                    let says = eviction.until_ended().await?;
                    ensure!(says == [VALID.to_owned(), by_budget(true, 2, 2)], "{says:?}");
                    crp.until_bindings("another for a", |all| {
                        all.len() == 2 && all.iter().all(|b| b.uid() != old.uid())
                    })
                    .await?;
                    crp.until_available(0).await.map(drop)
                };
                let at = || format!("killed after write {count}");
                let killed = tokio::select! {
                    biased;
                    () = gate.held() => true,
                    outcome = done() => outcome.with_context(at).map(|()| false)?,
                };
                if killed {
                    ctx.fleet().kill(HUB_AGENT).await?;
                }
                gate.open().await?;
                if killed {
                    ctx.fleet().start_again(HUB_AGENT).await?;
                }
                done().await.with_context(at)?;
                eviction.delete().await?;
                crp.remove().await?;
                if !killed {
                    writes = count;
                    break;
                }
            }
            Ok(())
        })
        .await?;
        // The record, the deletion, the outcome; the rest is the end of a binding and the beginning of another.
        println!("killed after each of {writes} writes");
        ensure!(writes >= 6, "the agent was killed after {writes} writes only");
        Ok(())
    });
}

#[test]
fn evictions_are_left_alone_where_they_are_switched_off() {
    scenario("evict-off", |ctx| async move {
        let off = ctx.name("off");
        with_hub_flags(ctx.fleet(), &["--enable-eviction-apis=false"], async || {
            let eviction = Eviction::ask(&ctx, &off, &ctx.name("none"), "none", json!({})).await?;
            let cast = Cast::new(&ctx, &["a"]).await?;
            // What comes after it has come: the agent works, and has looked.
            let crp = fleet_e2e::placements::place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
            crp.until_available(0).await?;
            ensure!(eviction.says().await?.is_empty(), "{:?}", eviction.says().await?);
            Ok(())
        })
        .await
    });
}

#[test]
fn of_two_evictions_at_once_one_goes_though_the_leader_dies() {
    scenario("evict-leader", |ctx| async move {
        let fleet = ctx.fleet();
        let helm = binaries::find_or_build_helm().await?;
        let second = format!("hub/{}", ctx.name("replica"));
        let first = agents::until_leader(fleet, "").await?;
        agents::start_hub_agent(fleet, &helm, &second, &["--pod-name=replica".to_owned()]).await?;
        let cast = Cast::new(&ctx, &["a", "b", "c"]).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let rolling = rolling(&json!(1), &json!(1));
        let crp = fleet_e2e::placements::place(&ctx, cast.everywhere(), rolling).await?;
        crp.until_available(0).await?;
        crp.limit(&ctx, &json!({ "minAvailable": 2 })).await?;
        // Of what is taken off nothing is available again: the budget stays used.
        cast.act(&["a", "b"], Act::Silent);
        // The leader dies after the first write: what it has decided stands.
        let gated = ctx.name("ea");
        let gate = Gate::new(&ctx, &gated, 1).await?;
        let (one, two) = (crp.evict_from(&ctx, "ea", &a), crp.evict_from(&ctx, "eb", &b));
        let (one, two) = tokio::try_join!(one, two)?;
        tokio::select! {
            biased;
            () = gate.held() => {}
            outcome = async { tokio::try_join!(one.until_ended(), two.until_ended()) } => drop(outcome?),
        }
        fleet.kill(HUB_AGENT).await?;
        gate.open().await?;
        let leader = agents::until_leader(fleet, &first).await?;
        let (one, two) = tokio::try_join!(one.until_ended(), two.until_ended())?;
        let executed = [&one, &two]
            .iter()
            .filter(|says| says.iter().any(|line| line.starts_with("Executed=True")))
            .count();
        ensure!(executed == 1, "{one:?} {two:?}");
        fleet.start_again(HUB_AGENT).await?;
        fleet.stop_process(&second).await?;
        agents::until_leader(fleet, &leader).await?;
        Ok(())
    });
}
