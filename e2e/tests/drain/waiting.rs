//! Drains that wait, and drains that are interrupted.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ClusterResourcePlacementEviction;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use kube::Api;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::operator::Operator;

/// Two clusters that a budget keeps.
async fn kept(ctx: &Ctx) -> Result<(Cast, Crp)> {
    let cast = Cast::new(ctx, &["one", "two"]).await?;
    let all = whole_namespace(&furnished(ctx).await?);
    let web = Crp::create(ctx, "web", &spec(&all, &cast.some(2))).await?;
    web.limit(ctx, &json!({ "minAvailable": "100%" })).await?;
    web.until_available(0).await?;
    Ok((cast, web))
}

async fn until_it_waits(ctx: &Ctx, cluster: &str) -> Result<()> {
    let waits = |eviction: &ClusterResourcePlacementEviction| {
        let conditions = eviction.status.iter().flat_map(|status| &status.conditions);
        let types: Vec<_> = conditions.map(|it| it.type_.as_str()).collect();
        eviction.spec.cluster_name == cluster && types == ["Valid"]
    };
    let evictions = Api::<ClusterResourcePlacementEviction>::all(ctx.hub().await?);
    wait::until_list(evictions, "an eviction waits", |all| all.iter().any(waits)).await?;
    Ok(())
}

#[test]
fn a_drain_waits_for_its_budget_and_an_interrupted_one_is_taken_up_again() {
    scenario("drain-wait", |ctx| async move {
        let (cast, web) = kept(&ctx).await?;
        let (one, operator) = (cast.name("one"), Operator::new(&ctx).await?);
        let child = operator.start(&["drain", &one, "--wait"])?;
        until_it_waits(&ctx, &one).await?;
        let id = child.id().context("it has ended")?;
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGINT)?;
        let said = operator.end(child).await?;
        said.ends_with(3)?;
        let why = "waiting   budget minAvailable: 100%: needs 3 available, has 2";
        ensure!(said.stdout.contains(why), "{said:?}");
        ensure!(
            said.stderr.contains(&format!("interrupted before {one} was drained")),
            "{said:?}"
        );
        ensure!(said.stderr.contains("kubectl delete crpe drain-eviction-"), "{said:?}");

        // The second one finds the eviction of the first.
        let mut child = operator.start(&["drain", &one, "--wait", "--cleanup", "-o", "json"])?;
        let _listening = operator.until_it_says(&mut child, "waiting for its budget").await?;
        web.limit(&ctx, &json!({ "minAvailable": 1 })).await?;
        let said = operator.end(child).await?;
        ensure!(
            said.ends_with(0)?.outcomes()? == [(web.name.clone(), "removed".to_owned())],
            "{said:?}"
        );
        web.until_on(&[cast.name("two")]).await?;
        Ok(())
    });
}

#[test]
fn two_drains_at_once_and_one_whose_time_is_up() {
    scenario("drain-twice", |ctx| async move {
        let (cast, web) = kept(&ctx).await?;
        let (one, operator) = (cast.name("one"), Operator::new(&ctx).await?);
        let said = operator
            .fleet(&["drain", &one, "--wait", "--timeout", "2s", "--cleanup"])
            .await?;
        ensure!(said.ends_with(124)?.stderr.contains("the time is up"), "{said:?}");
        ensure!(operator.evictions().await?.is_empty(), "evictions are left");
        web.limit(&ctx, &json!({ "minAvailable": 1 })).await?;
        let args = ["drain", &one, "--wait", "-o", "json"];
        let (first, second) = tokio::try_join!(operator.fleet(&args), operator.fleet(&args))?;
        for said in [first, second] {
            said.ends_with(0)?;
            let outcomes = said.outcomes()?;
            let is_over = |outcome: &str| outcome == "removed" || outcome == "gone";
            ensure!(outcomes.iter().all(|(_, outcome)| is_over(outcome)), "{outcomes:?}");
        }
        web.until_on(&[cast.name("two")]).await?;
        Ok(())
    });
}
