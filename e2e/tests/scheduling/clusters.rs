//! Clusters that change, fall silent, leave and are evicted.

use anyhow::{Context as _, ensure};
use fleet_api::placement::BindingState;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, place, rolling, whole_namespace};
use fleet_e2e::played::{Cast, LABEL, affinity, report};
use jiff::SignedDuration;
use kube::ResourceExt as _;
use serde_json::{Value, json};

fn taints(key: &str) -> Value {
    json!({ "spec": { "taints": [{ "key": key, "value": "v", "effect": "NoSchedule" }] } })
}

/// Why a cluster was not picked.
async fn reason(crp: &Crp, cluster: &str) -> anyhow::Result<String> {
    let status = crp.policy().await?.status.unwrap_or_default();
    let decision = status.target_clusters.into_iter().find(|d| d.cluster_name == cluster);
    decision
        .map(|d| d.reason)
        .with_context(|| format!("{cluster} is not listed"))
}

#[test]
fn what_becomes_of_a_placed_cluster_moves_nothing_and_a_removed_taint_adds() {
    scenario("0-taint", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "tier": "one" })).await?;
        cast.join("b", json!({ "tier": "one" })).await?;
        let ours = affinity(&[(LABEL, ctx.prefix()), ("tier", "one")]);
        let policy = json!({ "placementType": "PickAll", "affinity": ours });
        let crp = place(&ctx, policy, rolling(&json!(1), &json!(1))).await?;
        let bound = |words: &[&str]| cast.in_state(words, &BindingState::Bound);
        let before = crp.until_states(&bound(&["a", "b"])).await?;
        cast.member("a").patch(&taints("k")).await?;
        cast.member("b")
            .patch(&json!({ "metadata": { "labels": { "tier": "none" } } }))
            .await?;
        // A third one, which nothing tolerates yet.
        let c = cast.name("c");
        let object = json!({ "tier": "none" });
        cast.join("c", object).await?;
        cast.member("c").patch(&taints("k")).await?;
        cast.member("c")
            .patch(&json!({ "metadata": { "labels": { "tier": "one" } } }))
            .await?;
        // Some trigger that is the placement's own, so that a decision is made about all of it.
        crp.edit(json!({ "revisionHistoryLimit": 5 })).await?;
        crp.until_condition("Scheduled", "True").await?;
        let why = reason(&crp, &c).await?;
        ensure!(
            why == "ClusterUnschedulable, taint &{Key:k Value:v Effect:NoSchedule} cannot be tolerated",
            "{why}"
        );
        let after = crp.until_states(&bound(&["a", "b"])).await?;
        let uids = |all: &[fleet_api::placement::ClusterResourceBinding]| -> Vec<_> {
            let mut uids: Vec<_> = all.iter().map(kube::ResourceExt::uid).collect();
            uids.sort();
            uids
        };
        ensure!(uids(&before) == uids(&after), "bindings were replaced");
        cast.member("c").patch(&json!({ "spec": { "taints": null } })).await?;
        crp.until_states(&bound(&["a", "b", "c"])).await?;
        Ok(())
    });
}

#[test]
fn a_silent_cluster_is_picked_when_it_is_heard_again() {
    scenario("0-silent", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let old = report(SignedDuration::from_mins(6), true);
        cast.join_saying("b", json!({}), &old).await?;
        let crp = place(&ctx, cast.some(2), rolling(&json!(1), &json!(1))).await?;
        crp.until_states(&[(cast.name("a"), BindingState::Bound)]).await?;
        crp.until_condition("Scheduled", "False").await?;
        let why = reason(&crp, &cast.name("b")).await?;
        ensure!(
            why.starts_with(
                "ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 6."
            ),
            "{why}"
        );
        cast.say("b", &report(SignedDuration::ZERO, true)).await?;
        let both = [
            (cast.name("a"), BindingState::Bound),
            (cast.name("b"), BindingState::Bound),
        ];
        crp.until_states(&both).await?;
        crp.until_condition("Scheduled", "True").await?;
        // It falls silent again, and the hub has noticed: what is placed stays, also when all of it is decided anew.
        let uids = async || -> anyhow::Result<Vec<_>> {
            let mut uids: Vec<_> = crp.bindings().await?.iter().map(kube::ResourceExt::uid).collect();
            uids.sort();
            Ok(uids)
        };
        let before = uids().await?;
        cast.silence("b", SignedDuration::from_mins(6)).await?;
        cast.member("b").until_condition("Healthy", "Unknown").await?;
        crp.edit(json!({ "revisionHistoryLimit": 5 })).await?;
        crp.until_condition("Scheduled", "True").await?;
        crp.until_states(&both).await?;
        ensure!(uids().await? == before, "bindings were replaced");
        // Heard again, and sick for a moment: nothing happens.
        cast.say("b", &report(SignedDuration::ZERO, false)).await?;
        crp.until_available(0).await?;
        crp.until_states(&both).await?;
        Ok(())
    });
}

#[test]
fn a_cluster_that_leaves_is_replaced() {
    scenario("sched-leave", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.some(1), rolling(&json!(1), &json!(1))).await?;
        crp.until_states(&[(cast.name("b"), BindingState::Bound)]).await?;
        crp.until_available(0).await?;
        let member = cast.member("b");
        member.delete().await?;
        crp.until_states(&[(cast.name("a"), BindingState::Bound)]).await?;
        // Its agent says good-bye, unless the hub has given up on it already.
        let mut left = report(SignedDuration::ZERO, true);
        left["agentStatus"][0]["conditions"][0]["status"] = json!("False");
        let _ = cast.say("b", &left).await;
        member.until_gone().await?;
        crp.until_available(0).await?;
        crp.until_works("one", |works| works.len() == 1).await?;
        Ok(())
    });
}

#[test]
fn an_evicted_binding_is_replaced_by_another_that_can_be_elsewhere() {
    scenario("sched-evict", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.some(1), rolling(&json!(1), &json!(1))).await?;
        let first = crp.until_states(&[(cast.name("b"), BindingState::Bound)]).await?;
        crp.until_available(0).await?;
        // The best cluster is the same one again.
        crp.evict(&first[0].name_any()).await?;
        let uid = first[0].uid();
        let second = crp
            .until_bindings("another binding", |all| {
                all.len() == 1 && all[0].uid() != uid && all[0].spec.state == BindingState::Bound
            })
            .await?;
        ensure!(second[0].spec.target_cluster == cast.name("b"), "{second:?}");
        crp.until_available(0).await?;
        // Unless it no longer takes anything.
        cast.member("b").patch(&taints("k")).await?;
        crp.evict(&second[0].name_any()).await?;
        crp.until_states(&[(cast.name("a"), BindingState::Bound)]).await?;
        crp.until_works("one", |works| works.len() == 1).await?;
        Ok(())
    });
}

#[test]
fn a_satisfied_number_does_not_care_for_more_clusters() {
    scenario("sched-enough", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let enough = place(&ctx, cast.some(1), rolling(&json!(1), &json!(1))).await?;
        let wanting = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.some(2) });
        let wanting = Crp::create(&ctx, "wanting", &wanting).await?;
        let a = (cast.name("a"), BindingState::Bound);
        let before = enough.until_states(std::slice::from_ref(&a)).await?;
        wanting.until_states(std::slice::from_ref(&a)).await?;
        let policy = enough.policy().await?;
        cast.join("b", json!({})).await?;
        wanting
            .until_states(&[a.clone(), (cast.name("b"), BindingState::Bound)])
            .await?;
        let after = enough.until_states(&[a]).await?;
        ensure!(before[0].uid() == after[0].uid(), "{after:?}");
        let unchanged = enough.policy().await?.resource_version() == policy.resource_version();
        ensure!(unchanged, "nothing was decided anew");
        Ok(())
    });
}
