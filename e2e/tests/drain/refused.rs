//! Who may not, and what makes no sense.

use anyhow::{Context as _, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::{ClusterResourceBinding, ClusterResourcePlacement};
use fleet_e2e::harness::scenario;
use fleet_e2e::played::Cast;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

use crate::operator::Operator;

#[test]
fn a_missing_right_is_named_with_the_role_that_has_it() {
    scenario("drain-rights", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let one = cast.name("one");
        let nobody = Operator::without_role(&ctx, "nobody").await?;
        let missing = "The right that is missing: get memberclusters in cluster.kubernetes-fleet.io, which the hub chart's \
                       ClusterRole fleet-operator has";
        for (args, code) in [
            (vec!["drain", &one], 4),
            (vec!["drain", &one, "--dry-run"], 4),
            (vec!["uncordon", &one], 4),
            (vec!["draincluster", "--cluster-name", &one], 1),
            (vec!["uncordoncluster", "--cluster-name", &one], 1),
        ] {
            let said = nobody.fleet(&args).await?;
            ensure!(said.ends_with(code)?.stderr.contains(missing), "{said:?}");
            ensure!(said.stdout.is_empty(), "{said:?}");
        }
        Ok(())
    });
}

#[test]
fn who_has_the_operators_role_may_do_nothing_else() {
    scenario("drain-bounds", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let (one, client) = (cast.name("one"), Operator::new(&ctx).await?.client().await?);
        let clusters = Api::<MemberCluster>::all(client.clone());
        let (delete, params) = (DeleteParams::default(), PatchParams::default());
        let note = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/note": "mine" } } }));
        let refused = [
            clusters.delete(&one, &delete).await.err(),
            clusters.patch(&one, &params, &note).await.err(),
            clusters.patch_status(&one, &params, &note).await.err(),
            Api::<ClusterResourceBinding>::all(client.clone())
                .delete("any", &delete)
                .await
                .err(),
            Api::<ClusterResourcePlacement>::all(client.clone())
                .patch("any", &params, &note)
                .await
                .err(),
            Api::<k8s_openapi::api::core::v1::Secret>::all(client)
                .list(&ListParams::default())
                .await
                .err(),
        ];
        for (at, error) in refused.into_iter().enumerate() {
            let words = error.map(|error| error.to_string()).unwrap_or_default();
            ensure!(words.contains("forbidden"), "{at}: {words}");
        }
        Ok(())
    });
}

#[test]
fn what_makes_no_sense_is_said_in_words() {
    scenario("drain-errors", |ctx| async move {
        let operator = Operator::new(&ctx).await?;
        let said = operator.fleet(&["drain", "nowhere"]).await?;
        ensure!(
            said.ends_with(1)?
                .stderr
                .contains("there is no MemberCluster \"nowhere\""),
            "{said:?}"
        );
        let said = operator.fleet(&["draincluster", "--cluster-name", "nowhere"]).await?;
        let words = "Error: failed to drain member cluster nowhere: failed to cordon member cluster nowhere: \
                     memberclusters.cluster.kubernetes-fleet.io \"nowhere\" not found\n";
        ensure!(said.ends_with(1)?.stderr.starts_with(words), "{said:?}");
        let said = operator.fleet(&["draincluster"]).await?;
        ensure!(
            said.ends_with(1)?
                .stderr
                .starts_with("Error: required flag(s) \"cluster-name\" not set\n"),
            "{said:?}"
        );
        let said = operator.fleet(&["drain"]).await?;
        ensure!(said.ends_with(2)?.stdout.is_empty(), "{said:?}");
        let said = operator
            .fleet(&["drain", "nowhere", "--hub-cluster-context", "none"])
            .await?;
        ensure!(
            said.ends_with(1)?.stderr.contains("cannot use context \"none\""),
            "{said:?}"
        );
        let said = operator.fleet(&["version"]).await?;
        let version = format!("kubectl-fleet {} (unknown)\n", env!("CARGO_PKG_VERSION"));
        ensure!(said.ends_with(0)?.stdout == version, "{said:?}");

        // A member is not the hub.
        let member = ctx.fleet().members().next().context("the fleet has no member")?;
        let astray = Operator::astray(&ctx, &member.name).await?;
        let said = astray.fleet(&["drain", "nowhere"]).await?;
        let words = "does not serve memberclusters.cluster.kubernetes-fleet.io: are the CRDs installed, and is this the context";
        ensure!(said.ends_with(1)?.stderr.contains(words), "{said:?}");
        Ok(())
    });
}
