//! What the strategy says besides the budget reaches every cluster at once.

use anyhow::{Context as _, ensure};
use fleet_api::annotations;
use fleet_api::placement::{BindingState, ClusterResourceBinding, ClusterResourceSnapshot, Work};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{bound, change, place, rolling};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::wait;
use fleet_e2e::works::Held;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

fn apply(work: &Work) -> Value {
    serde_json::to_value(&work.spec.apply_strategy).unwrap_or_default()
}

#[test]
fn an_apply_strategy_reaches_all_clusters_beside_the_budget() {
    scenario("roll-apply", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b", "c"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(0), &json!(0))).await?;
        crp.until_available(0).await?;
        let defaults = json!({
            "type": "ClientSideApply", "comparisonOption": "PartialComparison", "whenToApply": "Always",
            "whenToTakeOver": "Always",
        });
        for binding in crp.bindings().await? {
            ensure!(
                serde_json::to_value(&binding.spec.apply_strategy)? == defaults,
                "{binding:?}"
            );
        }
        let works = crp.works().await?;
        ensure!(works.iter().all(|work| apply(work) == defaults), "{works:?}");
        let edit = json!({ "strategy": { "applyStrategy": { "type": "ServerSideApply" } } });
        crp.edit(edit).await?;
        let after = crp
            .until_works("all with the new strategy", |works| {
                works.len() == 3 && works.iter().all(|work| apply(work)["type"] == "ServerSideApply")
            })
            .await?;
        ensure!(
            after.iter().all(|w| apply(w)["serverSideApplyConfig"].is_object()),
            "{after:?}"
        );
        let bindings = crp
            .until_bindings("started again", |all| {
                all.iter()
                    .all(|b| bound(b, "RolloutStarted").is_some_and(|c| c.status == "True"))
            })
            .await?;
        ensure!(
            bindings
                .iter()
                .all(|b| b.spec.resource_snapshot_name == crp.snapshot(0)),
            "{bindings:?}"
        );
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn an_apply_strategy_reaches_clusters_that_wait_for_their_first_resources() {
    scenario("roll-apply-held", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let crp = place(&ctx, cast.only(&["a"]), rolling(&json!(0), &json!(0))).await?;
        crp.until_available(0).await?;
        // The new cluster has to wait for the old one to be left, which nothing allows.
        crp.edit(json!({ "policy": { "clusterNames": [b] } })).await?;
        crp.until_states(&[(a, BindingState::Unscheduled), (b, BindingState::Scheduled)])
            .await?;
        let edit = json!({ "strategy": { "applyStrategy": { "type": "ServerSideApply" } } });
        crp.edit(edit).await?;
        let has_it = |binding: &ClusterResourceBinding| {
            let strategy = serde_json::to_value(&binding.spec.apply_strategy).unwrap_or_default();
            strategy["type"] == "ServerSideApply"
        };
        let waits =
            |binding: &ClusterResourceBinding| bound(binding, "RolloutStarted").is_some_and(|c| c.status == "False");
        let told = |all: &[ClusterResourceBinding]| {
            let held = all.iter().filter(|b| b.spec.state == BindingState::Scheduled);
            all.len() == 2 && all.iter().all(has_it) && held.clone().count() == 1 && held.clone().all(waits)
        };
        crp.until_bindings("both with the new strategy", told).await?;
        Ok(())
    });
}

#[test]
fn reporting_differences_and_applying_never_show_together() {
    scenario("roll-diff", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        cast.act(&["a"], Act::Drifted);
        crp.until_available(0).await?;
        crp.until("drifts", |crp| {
            let entry = crp.status.as_ref().and_then(|s| s.placement_statuses.first());
            entry.is_some_and(|entry| entry.drifted_placements.len() == 2)
        })
        .await?;
        cast.act(&["a"], Act::Different);
        crp.edit(json!({ "strategy": { "applyStrategy": { "type": "ReportDiff" } } }))
            .await?;
        let types = |binding: &ClusterResourceBinding| -> Vec<String> {
            let list = binding.status.iter().flat_map(|status| &status.conditions);
            list.map(|condition| condition.type_.clone()).collect()
        };
        let mixed = |all: &[ClusterResourceBinding]| {
            all.iter().map(types).any(|types| {
                let has = |name: &str| types.iter().any(|type_| type_ == name);
                has("DiffReported") && (has("Applied") || has("Available"))
            })
        };
        let mut ever_mixed = false;
        let reported = crp
            .until_bindings("DiffReported", |all| {
                ever_mixed |= mixed(all);
                all.iter()
                    .all(|b| bound(b, "DiffReported").is_some_and(|c| c.status == "True"))
            })
            .await?;
        let status = reported[0].status.clone().unwrap_or_default();
        ensure!(
            status.diffed_placements.len() == 2 && status.drifted_placements.is_empty(),
            "{status:?}"
        );
        let placement = crp.until("DiffReported", |crp| {
            let list = crp.status.iter().flat_map(|status| &status.conditions);
            list.filter(|c| c.type_ == "ClusterResourcePlacementDiffReported")
                .any(|c| c.status == "True")
        });
        let conditions = placement.await?.status.context("it has a status")?.conditions;
        ensure!(
            conditions
                .iter()
                .all(|c| !c.type_.ends_with("Applied") && !c.type_.ends_with("Available")),
            "{conditions:?}"
        );
        cast.act(&["a"], Act::Available);
        crp.edit(json!({ "strategy": { "applyStrategy": { "type": "ClientSideApply" } } }))
            .await?;
        let applied = crp
            .until_bindings("Available", |all| {
                ever_mixed |= mixed(all);
                all.iter()
                    .all(|b| bound(b, "Available").is_some_and(|c| c.status == "True"))
            })
            .await?;
        let status = applied[0].status.clone().unwrap_or_default();
        ensure!(
            status.diffed_placements.is_empty() && status.drifted_placements.is_empty(),
            "{status:?}"
        );
        ensure!(!ever_mixed, "both kinds of conditions at once");
        Ok(())
    });
}

#[test]
fn under_external_nothing_moves_and_what_was_started_stays_so() {
    scenario("roll-external", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.only(&["a"]), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        crp.edit(json!({ "strategy": { "type": "External", "rollingUpdate": null } }))
            .await?;
        change(&ctx, "two").await?;
        // The scheduler's own change: one more cluster, and another policy for the first.
        crp.edit(json!({ "policy": { "clusterNames": [cast.name("a"), cast.name("b")] } }))
            .await?;
        let all = crp
            .until_bindings("the rollout of a still said to be started", |all| {
                let a = all.iter().find(|b| b.spec.target_cluster == cast.name("a"));
                all.len() == 2
                    && a.is_some_and(|a| {
                        a.spec.scheduling_policy_snapshot_name.ends_with("-1")
                            && bound(a, "RolloutStarted").is_some_and(|c| c.status == "True")
                            && bound(a, "Available").is_some_and(|c| c.status == "True")
                    })
            })
            .await?;
        for binding in &all {
            let (cluster, spec) = (&binding.spec.target_cluster, &binding.spec);
            if *cluster == cast.name("a") {
                ensure!(spec.resource_snapshot_name == crp.snapshot(0), "{spec:?}");
            } else {
                ensure!(
                    spec.state == BindingState::Scheduled && spec.resource_snapshot_name.is_empty(),
                    "{spec:?}"
                );
            }
        }
        crp.until_text_on("\"two\"", &[]).await?;
        let snapshots: Api<ClusterResourceSnapshot> = Api::all(ctx.hub().await?);
        let next = snapshots.get_opt(&crp.snapshot(1)).await?;
        ensure!(next.is_none(), "only a run takes the next snapshot: {next:?}");
        let refused = crp.edit(json!({ "strategy": { "type": "RollingUpdate" } })).await;
        let text = refused.err().map(|error| format!("{error:#}")).unwrap_or_default();
        ensure!(
            text.contains("cannot change rollout strategy type from 'External' to other types"),
            "{text}"
        );
        crp.remove().await
    });
}

#[test]
fn a_status_that_was_lost_is_written_again() {
    scenario("roll-lost", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let binding = crp.binding(&cast.name("a")).await?;
        let lost = Patch::Merge(json!({ "status": { "conditions": [] } }));
        crp.api::<ClusterResourceBinding>()
            .await?
            .patch_status(&binding.name_any(), &PatchParams::default(), &lost)
            .await?;
        let back = crp
            .until_bindings("its conditions", |all| {
                all.iter().all(|b| {
                    let is_true = |type_| bound(b, type_).is_some_and(|c| c.status == "True");
                    is_true("RolloutStarted") && is_true("WorkSynchronized") && is_true("Available")
                })
            })
            .await?;
        ensure!(back[0].metadata.generation == binding.metadata.generation, "{back:?}");
        Ok(())
    });
}

#[test]
fn reporting_back_and_abandoning_reach_works_at_once() {
    scenario("roll-abandon", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(0), &json!(0))).await?;
        crp.until_available(0).await?;
        let before = crp.works().await?;
        crp.edit(json!({ "strategy": {
            "reportBackStrategy": { "type": "Mirror", "destination": "WorkAPI" },
            "deleteStrategy": { "propagationPolicy": "Abandon" },
        } }))
        .await?;
        let abandoned = |work: &Work| {
            let value = work.annotations().get(annotations::DELETE_PROPAGATION);
            value.map(String::as_str) == Some(annotations::ABANDON)
        };
        let works = crp
            .until_works("both on all Works", |works| {
                works
                    .iter()
                    .all(|w| abandoned(w) && w.spec.report_back_strategy.is_some())
            })
            .await?;
        ensure!(works.len() == before.len(), "{works:?}");
        crp.until_available(0).await?;

        // Abandoning concerns the end of the placement: a cluster that is left before is cleaned up.
        let name = format!("{}-work", crp.name);
        let hold = |word: &str| {
            let (ctx, namespace, name) = (ctx.clone(), cast.member(word).namespace(), name.clone());
            async move { Held::hold(&ctx, &namespace, &name).await }
        };
        let (on_a, on_b) = (hold("a").await?, hold("b").await?);
        let going = async |held: &Held| {
            wait::until_present(held.api.clone(), &name, "deleting", |w| {
                w.metadata.deletion_timestamp.is_some()
            })
            .await
        };
        let binding = crp.binding(&cast.name("a")).await?;
        crp.evict(&binding.name_any()).await?;
        let left = going(&on_a).await?;
        ensure!(!abandoned(&left), "{left:?}");
        on_a.release().await?;
        crp.until_available(0).await?;
        crp.delete().await?;
        let left = going(&on_b).await?;
        ensure!(abandoned(&left), "{left:?}");
        on_b.release().await?;
        crp.until_works("none", <[_]>::is_empty).await?;
        Ok(())
    });
}
