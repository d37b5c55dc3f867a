//! Windows of clusters in rolling updates.

use anyhow::{Result, ensure};
use fleet_api::annotations;
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::ClusterResourceBinding;
use fleet_e2e::events::Events;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{bound, change, place, rolling};
use fleet_e2e::played::Cast;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// Says when a cluster may be changed.
async fn set(ctx: &Ctx, cluster: &str, window: Value) -> Result<()> {
    let patch = json!({ "metadata": { "annotations": { annotations::WINDOW: window } } });
    let members: Api<MemberCluster> = Api::all(ctx.hub().await?);
    members
        .patch(cluster, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Whether a cluster is held back, with these words.
fn is_held(binding: &ClusterResourceBinding, cluster: &str, words: &str) -> bool {
    let started = bound(binding, "RolloutStarted").filter(|c| c.status == "False");
    binding.spec.target_cluster == cluster && started.is_some_and(|c| c.message.contains(words))
}

#[test]
fn a_closed_cluster_is_held_back_until_its_window_is_edited() {
    scenario("roll-window", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let crp = place(&ctx, cast.everywhere(), rolling(&json!("100%"), &json!(0))).await?;
        crp.until_available(0).await?;
        // One day of the week, which is neither today nor about to be.
        let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        let today = fleet_e2e::now().as_second() / 86400 + 3;
        let other = days[usize::try_from((today + 3) % 7)?];
        set(&ctx, &b, json!(format!("{other} 00:00-24:00 UTC"))).await?;
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", std::slice::from_ref(&a)).await?;
        let until = format!("waiting for the window of cluster {b}, next at ");
        crp.until_bindings("b held back until its window opens", |all| {
            all.iter().any(|binding| is_held(binding, &b, &until))
        })
        .await?;

        // An edit of the apply strategy waits as well.
        crp.edit(json!({ "strategy": { "applyStrategy": { "type": "ServerSideApply" } } }))
            .await?;
        let strategy = |binding: &ClusterResourceBinding| {
            let strategy = serde_json::to_value(&binding.spec.apply_strategy).unwrap_or_default();
            strategy["type"].as_str().unwrap_or_default().to_owned()
        };
        let all = crp
            .until_bindings("a with the new apply strategy", |all| {
                all.iter()
                    .any(|binding| binding.spec.target_cluster == a && strategy(binding) == "ServerSideApply")
            })
            .await?;
        let of_b = all.iter().find(|binding| binding.spec.target_cluster == b);
        ensure!(of_b.is_some_and(|of_b| strategy(of_b) == "ClientSideApply"), "{of_b:?}");
        ensure!(of_b.is_some_and(|of_b| of_b.spec.resource_snapshot_name == crp.snapshot(0)));

        // One that cannot be read is closed, and says so where it was written.
        set(&ctx, &b, json!("at night")).await?;
        let words = "of MemberCluster {b} cannot be read: \"at night\" has not three parts".replace("{b}", &b);
        crp.until_bindings("b held back for a window that cannot be read", |all| {
            all.iter().any(|binding| is_held(binding, &b, &words))
        })
        .await?;
        let events = Events::about(&ctx, None, "MemberCluster", &b).await?;
        events
            .until("MemberClusterWindowUnreadable", &["has not three parts"])
            .await?;

        set(&ctx, &b, json!("Mon-Sun 00:00-24:00 UTC")).await?;
        crp.until_text_on("\"two\"", &[a, b]).await?;
        crp.until_bindings("with the new apply strategy", |all| {
            all.iter().all(|binding| strategy(binding) == "ServerSideApply")
        })
        .await?;
        crp.until_available(1).await?;
        Ok(())
    });
}
