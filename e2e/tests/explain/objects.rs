//! A placement that is well, and one that somebody interferes with on the member.

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, change, furnished, whole_namespace};
use fleet_e2e::plugin;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

const MEMBER: &str = "member-1";

/// On a real member, which leaves alone what somebody else has changed.
async fn careful(ctx: &Ctx) -> Result<Crp> {
    let namespace = furnished(ctx).await?;
    let spec = json!({
        "resourceSelectors": whole_namespace(&namespace),
        "policy": { "placementType": "PickFixed", "clusterNames": [MEMBER] },
        "strategy": { "applyStrategy": { "whenToApply": "IfNotDrifted" } },
    });
    Crp::create(ctx, "crp", &spec).await
}

#[test]
fn what_is_well_is_shown_with_everything_that_belongs_to_it() {
    scenario("explain-well", |ctx| async move {
        let crp = careful(&ctx).await?;
        crp.until_available(0).await?;
        change(&ctx, "two").await?;
        crp.until_available(1).await?;
        let crp = format!("crp/{}", crp.name);
        plugin::fleet(&ctx, &["why", &crp])
            .await?
            .ends_with(0)?
            .shows(&[&crp, "ok     Available"])?;
        plugin::fleet(&ctx, &["why", &crp, MEMBER]).await?.ends_with(0)?;
        plugin::fleet(&ctx, &["status", &crp])
            .await?
            .ends_with(0)?
            .shows(&["1 of 1 clusters ready", "member-1"])?;
        plugin::fleet(&ctx, &["rollout", "watch", &crp])
            .await?
            .ends_with(0)?
            .shows(&["1 of 1 clusters ready"])?;
        plugin::fleet(&ctx, &["diff", &crp]).await?.ends_with(0)?;
        let tree = plugin::fleet(&ctx, &["tree", &crp]).await?;
        tree.ends_with(0)?.shows(&[
            "-0-snapshot",
            "-1-snapshot",
            "the latest",
            "-work -n fleet-member-member-1",
        ])?;
        plugin::fleet(&ctx, &["events", &crp])
            .await?
            .ends_with(0)?
            .shows(&["LAST SEEN", &crp.replace("crp/", "")])?;
        let json = plugin::fleet(&ctx, &["status", "-o", "json"]).await?.json()?;
        let rows = json["placements"].as_array().context("there are placements")?;
        let own = rows
            .iter()
            .find(|row| row["name"] == crp.as_str())
            .context("it is among them")?;
        ensure!(own["verdict"] == "done" && own["snapshot"] == "1", "{own}");
        ensure!(json["hubAgent"]["verdict"] == "done", "{}", json["hubAgent"]);

        // What put the object there, and what it was before.
        let member = ctx.fleet().cluster(MEMBER)?.context.clone();
        let args = [
            "why",
            "configmap/settings",
            MEMBER,
            "-n",
            ctx.prefix(),
            "--member-context",
            &member,
            "-o",
            "json",
        ];
        let json = plugin::fleet(&ctx, &args).await?.ends_with(0)?.json()?;
        let origin = &json["origins"][0];
        ensure!(
            origin["placement"] == crp.as_str() && origin["cluster"] == MEMBER,
            "{json}"
        );
        let change = json!([{ "path": "/data/key", "before": "one", "now": "two" }]);
        ensure!(origin["before"]["changes"] == change, "{origin}");
        ensure!(
            origin["live"]["exists"] == true && origin["live"]["owners"][0].is_string(),
            "{origin}"
        );
        Ok(())
    });
}

#[test]
fn a_drift_is_named_with_the_field_and_who_did_it() {
    scenario("explain-drift", |ctx| async move {
        let crp = careful(&ctx).await?;
        crp.until_available(0).await?;
        let maps: Api<ConfigMap> = Api::namespaced(ctx.client(MEMBER).await?, ctx.prefix());
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "data": { "key": "three" } }));
        maps.patch("settings", &params, &patch).await?;
        crp.until_step("Applied", "False").await?;
        let crp = format!("crp/{}", crp.name);
        let member = ctx.fleet().cluster(MEMBER)?.context.clone();
        let said = plugin::fleet(&ctx, &["why", &crp, MEMBER, "--member-context", &member]).await?;
        let words = "/data/key is three on the member and one on the hub, by somebody";
        said.ends_with(3)?.shows(&["FAILED Applied", words])?;
        // The command that it names works as it is printed.
        let next = said.next().context("no command follows")?;
        let next: Vec<_> = next.iter().map(String::as_str).collect();
        ensure!(next == ["diff", &crp, MEMBER], "{next:?}");
        let diff = plugin::fleet(&ctx, &next).await?;
        diff.ends_with(3)?
            .shows(&["/data/key", "hub     one", "member  three"])?;
        plugin::fleet(&ctx, &["status", &crp])
            .await?
            .ends_with(3)?
            .shows(&["ConfigMap", "FAILED"])?;
        Ok(())
    });
}
