//! A cluster that holds something of every kind, and one that can be emptied.

use anyhow::{Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Rp, core_selector, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;
use kube::Api;
use serde_json::{Value, json};

use crate::operator::{Operator, without_tokens};

/// Two clusters. `a-web` may go, `b-db` is kept by its budget, `c-fixed` names the clusters, `rp` is of a namespace.
pub(crate) async fn mixed(ctx: &Ctx) -> Result<(Cast, Crp, Crp)> {
    let cast = Cast::new(ctx, &["one", "two"]).await?;
    let namespace = furnished(ctx).await?;
    let all = whole_namespace(&namespace);
    let web = Crp::create(ctx, "a-web", &spec(&all, &cast.everywhere())).await?;
    let db = Crp::create(ctx, "b-db", &spec(&all, &cast.some(2))).await?;
    db.limit(ctx, &json!({ "minAvailable": 2 })).await?;
    let fixed = Crp::create(ctx, "c-fixed", &spec(&all, &cast.only(&["one"]))).await?;
    let own = json!([core_selector("ConfigMap", "settings")]);
    let rp = Rp::create(ctx, &namespace, "rp", &spec(&own, &cast.only(&["one"]))).await?;
    for placement in [&web, &db, &fixed] {
        placement.until_available(0).await?;
    }
    rp.until_available(0).await?;
    Ok((cast, web, db))
}

async fn taints(ctx: &Ctx, cluster: &str) -> Result<Value> {
    let member = Api::<MemberCluster>::all(ctx.hub().await?).get(cluster).await?;
    Ok(serde_json::to_value(member.spec.taints)?)
}

#[test]
fn who_may_only_operate_drains_a_cluster_and_sees_what_holds_it_up() {
    scenario("drain-mixed", |ctx| async move {
        let (cast, web, db) = mixed(&ctx).await?;
        let (one, two) = (cast.name("one"), cast.name("two"));
        let operator = Operator::new(&ctx).await?;
        let words = ["a-web", "b-db", "c-fixed", "rp"].map(|word| ctx.name(word));
        let rows = |outcomes: [&str; 4]| -> Vec<_> { words.iter().cloned().zip(outcomes.map(str::to_owned)).collect() };

        let said = operator.fleet(&["drain", &one, "--dry-run", "-o", "json"]).await?;
        let would = rows(["wouldBeEvicted", "wouldBeBlocked", "stays", "stays"]);
        ensure!(said.ends_with(3)?.outcomes()? == would, "{said:?}");
        ensure!(operator.evictions().await?.is_empty(), "a dry run has made evictions");
        ensure!(taints(&ctx, &one).await? == json!([]), "a dry run has cordoned it");

        let said = operator.fleet(&["drain", &one]).await?;
        let row = |name: &str, outcome: &str, why: &str| {
            let width = words
                .iter()
                .map(String::len)
                .max()
                .unwrap_or(0)
                .max(ctx.prefix().len() * 2 + 4);
            let line = format!("{name:width$}   {one}   {outcome:7}   {why}");
            line.trim_end().to_owned()
        };
        let table = [
            row("PLACEMENT", "OUTCOME", "HELD UP BY").replace(&one, &format!("{:1$}", "CLUSTER", one.len())),
            row(&words[0], "evicted", ""),
            row(&words[1], "blocked", "budget minAvailable: 2: needs 3 available, has 2"),
            row(
                &words[2],
                "stays",
                "PickFixed: take the cluster out of its clusterNames",
            ),
            row(
                &format!("{}/{}", ctx.prefix(), words[3]),
                "stays",
                "a ResourcePlacement cannot be evicted: change or delete it",
            ),
        ];
        let printed: Vec<_> = said.ends_with(3)?.stdout.lines().collect();
        ensure!(printed == table, "{}\ninstead of\n{}", said.stdout, table.join("\n"));
        ensure!(
            said.stderr.ends_with(&format!("{one} is not drained: left 3\n")),
            "{said:?}"
        );
        web.until_on(std::slice::from_ref(&two)).await?;
        let left: Vec<_> = operator
            .evictions()
            .await?
            .into_iter()
            .filter_map(|it| it.metadata.name)
            .collect();
        let names: Vec<_> = left.iter().map(|name| without_tokens(name)).collect();
        let name = |word: &str| format!("drain-eviction-{word}-{one}-########");
        ensure!(names == [name(&words[0]), name(&words[1])], "{names:?}");

        // Again, with the budget out of the way: harmless, and nothing of it stays.
        db.limit(&ctx, &json!({ "minAvailable": 1 })).await?;
        let said = operator
            .fleet(&["drain", &one, "--wait", "--cleanup", "-o", "json"])
            .await?;
        let now: Vec<_> = rows(["", "removed", "stays", "stays"]).split_off(1);
        ensure!(said.ends_with(3)?.outcomes()? == now, "{said:?}");
        ensure!(operator.evictions().await?.is_empty(), "evictions are left");
        let cordon = json!([{ "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule" }]);
        ensure!(taints(&ctx, &one).await? == cordon, "it is not cordoned");

        // And back.
        let said = operator.fleet(&["uncordon", &one]).await?;
        ensure!(said.ends_with(0)?.stdout.contains("uncordoned"), "{said:?}");
        web.until_on(&cast.names(&["one", "two"])).await?;
        db.until_on(&cast.names(&["one", "two"])).await?;
        Ok(())
    });
}
