//! Killed, restarted, cut off.

use std::time::Duration;

use anyhow::ensure;
use fleet_api::placement::{ClusterResourceBinding, ClusterResourceSnapshot, Work};
use fleet_e2e::agents::{API_SERVER, HUB_AGENT};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, config_map, furnished, seen, selected, spec, whole_namespace};
use fleet_e2e::played::Cast;
use fleet_e2e::refusal::{Rule, allow, refuse};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

const GROUP: &str = "placement.kubernetes-fleet.io";

/// Stops at one write after the other, is killed there, and goes on from what is stored.
#[test]
fn a_hub_agent_killed_between_two_writes_goes_on_where_it_was() {
    scenario("killed", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        // Three pieces, so that there is something between the first and the last.
        for name in ["a", "b", "c"] {
            ctx.create_in("hub", &namespace, config_map(name, &"x".repeat(600 * 1024)))
                .await?;
        }
        seen(&ctx, &whole_namespace(&namespace), 4).await?;
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        let parent = |word: &str| {
            let name = ctx.name(&format!("crp-{word}"));
            format!(
                "has(object.metadata.labels) && 'kubernetes-fleet.io/parent-CRP' in object.metadata.labels && \
                     object.metadata.labels['kubernetes-fleet.io/parent-CRP'] == '{name}'"
            )
        };
        let second_piece = format!("{} && object.metadata.name.endsWith('-0-1')", parent("piece"));
        let second_cluster = format!(
            "{} && object.spec.targetCluster == '{}'",
            parent("binding"),
            cast.name("b")
        );
        let own = |word: &str| format!("object.metadata.name == '{}'", ctx.name(&format!("crp-{word}")));
        let steps = [
            ("policy", "clusterschedulingpolicysnapshots", parent("policy")),
            ("piece", "clusterresourcesnapshots", second_piece),
            (
                "scheduled",
                "clusterschedulingpolicysnapshots/status",
                parent("scheduled"),
            ),
            ("binding", "clusterresourcebindings", second_cluster),
            ("work", "works", parent("work")),
            ("said", "clusterresourcebindings/status", parent("said")),
            ("status", "clusterresourceplacements/status", own("status")),
        ];
        let rules = steps.clone().map(|(word, resource, condition)| Rule {
            word,
            group: GROUP,
            resource,
            condition,
            reason: "Invalid",
        });
        refuse(&ctx, &rules).await?;
        let mut stopped = Vec::new();
        for (word, ..) in &steps {
            stopped.push((*word, Crp::create(&ctx, &format!("crp-{word}"), &spec).await?));
        }
        // As far as each can come.
        for (word, crp) in &stopped {
            match *word {
                "policy" => drop(
                    crp.until_made("resources", |l: &[ClusterResourceSnapshot]| l.len() == 3)
                        .await?,
                ),
                "piece" => drop(
                    crp.until_made("two of three", |l: &[ClusterResourceSnapshot]| l.len() == 2)
                        .await?,
                ),
                "scheduled" => drop(
                    crp.until_made("bound", |l: &[ClusterResourceBinding]| l.len() == 2)
                        .await?,
                ),
                "binding" => drop(
                    crp.until_made("one bound", |l: &[ClusterResourceBinding]| l.len() == 1)
                        .await?,
                ),
                "work" => drop(crp.until_step("WorkSynchronized", "False").await?),
                _ => drop(crp.until_works("Works", |l| l.len() == 6).await?),
            }
        }
        ctx.fleet().kill(HUB_AGENT).await?;
        for (word, ..) in &steps {
            allow(&ctx, word).await?;
        }
        ctx.fleet().start_again(HUB_AGENT).await?;
        for (_, crp) in &stopped {
            crp.until_available(0).await?;
            crp.is_whole(2).await?;
            crp.until_works("Works of both clusters", |works| works.len() == 6)
                .await?;
        }
        for (_, crp) in &stopped {
            crp.remove().await?;
        }
        Ok(())
    });
}

#[test]
fn a_hub_agent_killed_at_any_moment_loses_and_doubles_nothing() {
    scenario("any-moment", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        for round in 1..=5 {
            // Any moment of the work that the last edit has caused.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..400))).await;
            ctx.fleet().crash(HUB_AGENT).await?;
            let edit = Patch::Merge(json!({ "data": { "key": round.to_string() } }));
            maps.patch("settings", &PatchParams::default(), &edit).await?;
        }
        crp.until_works("the last edit everywhere", |works| {
            let has = |work: &&Work| {
                work.spec
                    .workload
                    .manifests
                    .iter()
                    .any(|m| m.as_str().contains("\"key\":\"5\""))
            };
            works.iter().filter(has).count() == 2
        })
        .await?;
        crp.until_step("Available", "True").await?;
        crp.is_whole(2).await?;
        // Deleting, with a kill in the middle.
        crp.delete().await?;
        ctx.fleet().crash(HUB_AGENT).await?;
        crp.until_gone().await
    });
}

#[test]
fn a_restart_with_nothing_to_do_writes_nothing() {
    scenario("restart", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        // By name: clusters that others leave behind are no reason to explain anything anew.
        let spec = spec(&whole_namespace(&namespace), &cast.only(&["a", "b"]));
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        crp.until_available(0).await?;
        crp.until_event("PlacementRolloutCompleted").await?;
        let before = (crp.versions().await?, crp.events().await?);
        ctx.fleet().crash(HUB_AGENT).await?;
        // One that is made now is through: everything that was there has been looked at before.
        Crp::create(&ctx, "marker", &spec).await?.until_available(0).await?;
        let after = (crp.versions().await?, crp.events().await?);
        ensure!(after == before, "written without need: {before:?}, {after:?}");
        Ok(())
    });
}

#[test]
fn what_happens_while_nobody_watches_is_noticed_afterwards() {
    scenario("unwatched", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let roles = ["goes", "stays", "changes"].map(|word| ctx.name(word));
        let labels = json!({ "story": ctx.prefix() });
        for name in &roles {
            let role: ClusterRole = serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } }))?;
            ctx.create("hub", role).await?;
        }
        let selector = json!({
            "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole",
            "labelSelector": { "matchLabels": labels },
        });
        let crp = Crp::create(&ctx, "crp", &spec(&json!([selector]), &cast.everywhere())).await?;
        crp.until_available(0).await?;
        let api: Api<ClusterRole> = Api::all(ctx.hub().await?);
        ctx.fleet().kill(HUB_AGENT).await?;
        api.delete(&roles[0], &DeleteParams::default()).await?;
        let unlabelled = Patch::Merge(json!({ "metadata": { "labels": { "story": null } } }));
        api.patch(&roles[2], &PatchParams::default(), &unlabelled).await?;
        ctx.fleet().start_again(HUB_AGENT).await?;
        let left = [format!("ClusterRole {}", roles[1])];
        crp.until("only one is left", |crp| {
            crp.status.as_ref().is_some_and(|s| selected(s) == left)
        })
        .await?;
        // The API server restarts with a deletion just before: the watch that begins again does not know of it.
        ctx.fleet().pause(HUB_AGENT).await?;
        api.delete(&roles[1], &DeleteParams::default()).await?;
        ctx.fleet().crash(API_SERVER).await?;
        ctx.fleet().resume(HUB_AGENT).await?;
        crp.until("nothing is left", |crp| {
            crp.status.as_ref().is_some_and(|s| s.selected_resources.is_empty())
        })
        .await?;
        Ok(())
    });
}
