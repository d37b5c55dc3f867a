//! The command lines and the output that scripts made for KubeFleet's plugin know.

use anyhow::ensure;
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::ClusterResourceBinding;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::operator::Operator;
use crate::whole::mixed;

#[test]
fn old_scripts_see_the_same_lines_and_a_blocked_drain_is_no_error() {
    scenario("drain-old", |ctx| async move {
        let (cast, web, _) = mixed(&ctx).await?;
        let (one, operator) = (cast.name("one"), Operator::new(&ctx).await?);
        let said = operator.fleet(&["draincluster", "--clusterName", &one]).await?;
        said.ends_with(0)?;
        ensure!(said.stdout.is_empty(), "{said:?}");
        let [web_name, db, fixed, rp] = ["a-web", "b-db", "c-fixed", "rp"].map(|word| ctx.name(word));
        let namespace = ctx.prefix();
        let to = |crp: &str| format!("for CRP {crp} targeting member cluster {one}");
        let eviction = |crp: &str| format!("eviction drain-eviction-{crp}-{one}-########");
        let cordoned = format!("Successfully cordoned member cluster {one} by adding cordon taint");
        let named = format!(
            "CRP {fixed} has the placement type PickFixed and cannot be evicted: remove member cluster {one} from its clusterNames"
        );
        let created = |crp: &str| format!("Created {} {}", eviction(crp), to(crp));
        let executed = format!("{} was executed successfully {}", eviction(&web_name), to(&web_name));
        let blocked = format!("{} was not executed successfully {}", eviction(&db), to(&db));
        let evicted = format!(
            "evicted resource ''/v1/Namespace/''/{namespace} propagated by CRP {web_name} targeting member cluster {one}"
        );
        let lines = said.lines()?;
        // Both are decided at once, and whichever ends first is told first.
        let mut first = lines[4..7].to_vec();
        first.sort();
        let mut wanted = vec![executed, evicted, blocked.clone()];
        wanted.sort();
        ensure!(lines[..2] == [cordoned.clone(), named.clone()], "{lines:#?}");
        ensure!(lines[2..4] == [created(&web_name), created(&db)], "{lines:#?}");
        ensure!(first == wanted, "{lines:#?}");
        let rest = [
            format!("drain was not successful for cluster {one}"),
            "retrying drain to ensure all resources propagated from hub cluster are evicted".to_owned(),
            cordoned,
            named,
            created(&db),
            blocked,
            format!("drain retry was not successful for cluster {one}"),
            format!(
                "ResourcePlacement {namespace}/{rp} keeps its resources on member cluster {one}: namespaced placements cannot be \
                 evicted"
            ),
            format!("reminder: uncordon the cluster {one} to remove cordon taint if needed"),
        ];
        ensure!(lines[7..] == rest, "{lines:#?}");
        web.until_on(&[cast.name("two")]).await?;
        ensure!(operator.evictions().await?.len() == 3, "the evictions did not stay");
        Ok(())
    });
}

#[test]
fn the_cordon_is_added_once_and_taken_off_among_other_taints() {
    scenario("drain-taints", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let (one, operator) = (cast.name("one"), Operator::new(&ctx).await?);
        let clusters = Api::<MemberCluster>::all(ctx.hub().await?);
        let taints = async || anyhow::Ok(serde_json::to_value(clusters.get(&one).await?.spec.taints)?);
        let other = json!({ "key": "gpu", "value": "only", "effect": "NoSchedule" });
        let own = json!({ "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule" });
        let patch = Patch::Merge(json!({ "spec": { "taints": [other] } }));
        clusters.patch(&one, &PatchParams::default(), &patch).await?;

        // Several files, of which one is not there.
        let uncordoned = [format!("uncordoned member cluster {one}")];
        let args = ["uncordoncluster", "--cluster-name", &one, "--timeout", "30s"];
        let said = operator.fleet_with("/absent/kubeconfig:{}", &args).await?;
        ensure!(
            said.ends_with(0)?.lines()? == uncordoned && said.stdout.is_empty(),
            "{said:?}"
        );
        ensure!(taints().await? == json!([other]));

        for _ in 0..2 {
            let said = operator.fleet(&["draincluster", "--cluster-name", &one]).await?;
            let nothing = format!(
                "There are currently no resources propagated to {one} from fleet using ClusterResourcePlacement resources"
            );
            ensure!(said.ends_with(0)?.lines()?[1] == nothing, "{said:?}");
            ensure!(taints().await? == json!([other, own]));
        }
        let said = operator.fleet(&["uncordoncluster", "--clusterName", &one]).await?;
        ensure!(said.ends_with(0)?.lines()? == uncordoned, "{said:?}");
        ensure!(taints().await? == json!([other]));
        Ok(())
    });
}

#[test]
fn a_binding_that_does_not_say_whose_it_is_is_an_error_for_scripts_and_a_row_for_people() {
    scenario("drain-orphan", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let (one, operator) = (cast.name("one"), Operator::new(&ctx).await?);
        let orphan: ClusterResourceBinding = serde_json::from_value(json!({
            "metadata": { "name": ctx.name("orphan") },
            "spec": {
                "state": "Scheduled", "targetCluster": one, "resourceSnapshotName": "", "schedulingPolicySnapshotName": "",
                "clusterDecision": { "clusterName": one, "selected": true, "reason": "by hand" },
            },
        }))?;
        ctx.create("hub", orphan).await?;
        let said = operator.fleet(&["draincluster", "--cluster-name", &one]).await?;
        let error = format!(
            "failed to drain member cluster {one}: failed to get CRP name from binding {}",
            ctx.name("orphan")
        );
        ensure!(
            said.ends_with(1)?.stderr.contains(&format!("Error: {error}\n")),
            "{said:?}"
        );
        let last = said.stderr.lines().last().unwrap_or_default();
        ensure!(
            last.ends_with(&format!(" Error executing command: {error}")),
            "{said:?}"
        );
        let said = operator.fleet(&["drain", &one]).await?;
        ensure!(
            said.ends_with(3)?.stdout.contains("does not say whose it is"),
            "{said:?}"
        );
        Ok(())
    });
}

#[test]
fn fifty_placements_go_together() {
    scenario("drain-many", |ctx| async move {
        const MANY: usize = 50;
        let cast = Cast::new(&ctx, &["one", "two"]).await?;
        let all = whole_namespace(&furnished(&ctx).await?);
        let mut placements = Vec::new();
        for number in 0..MANY {
            placements.push(Crp::create(&ctx, &format!("p{number:02}"), &spec(&all, &cast.everywhere())).await?);
        }
        for placement in &placements {
            placement.until_available(0).await?;
        }
        let (one, operator) = (cast.name("one"), Operator::new(&ctx).await?);
        let said = operator
            .fleet(&["drain", &one, "--wait", "--cleanup", "-o", "json"])
            .await?;
        let outcomes = said.ends_with(0)?.outcomes()?;
        ensure!(outcomes.len() == MANY, "{outcomes:?}");
        ensure!(outcomes.iter().all(|(_, outcome)| outcome == "removed"), "{outcomes:?}");
        ensure!(operator.evictions().await?.is_empty(), "evictions are left");
        Ok(())
    });
}
