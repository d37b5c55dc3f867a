//! Another policy, another number, another list.

use anyhow::{Context as _, Result, ensure};
use fleet_api::annotations;
use fleet_api::placement::{BindingState, ClusterResourceBinding};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{place, rolling};
use fleet_e2e::played::{Cast, LABEL, affinity};
use kube::ResourceExt as _;
use serde_json::json;

fn on<'a>(all: &'a [ClusterResourceBinding], cluster: &str) -> Result<&'a ClusterResourceBinding> {
    let found = all.iter().find(|b| b.spec.target_cluster == cluster);
    found.with_context(|| format!("no binding for {cluster}"))
}

fn previous(binding: &ClusterResourceBinding) -> Option<&str> {
    let value = binding.annotations().get(annotations::PREVIOUS_BINDING_STATE);
    value.map(String::as_str)
}

#[test]
fn growing_adds_and_shrinking_removes_the_surplus_only() {
    scenario("sched-scale", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b", "c"]).await?;
        // Not one available cluster less than wanted, at no time.
        let crp = place(&ctx, cast.some(1), rolling(&json!(0), &json!(1))).await?;
        let bound = |words: &[&str]| cast.in_state(words, &BindingState::Bound);
        let first = crp.until_states(&bound(&["c"])).await?;
        crp.until_available(0).await?;
        crp.edit(json!({ "policy": { "numberOfClusters": 3 } })).await?;
        crp.until_states(&bound(&["a", "b", "c"])).await?;
        crp.until_available(0).await?;
        crp.edit(json!({ "policy": { "numberOfClusters": 1 } })).await?;
        let last = crp.until_states(&bound(&["c"])).await?;
        ensure!(first[0].uid() == last[0].uid(), "c was never touched");
        crp.until_works("one", |works| works.len() == 1).await?;
        let status = crp.policy().await?.status.unwrap_or_default();
        let picked: Vec<_> = status
            .target_clusters
            .iter()
            .filter(|cluster| cluster.selected)
            .collect();
        ensure!(
            picked.len() == 1 && picked[0].cluster_name == cast.name("c"),
            "{:?}",
            status.target_clusters
        );
        crp.edit(json!({ "policy": { "numberOfClusters": 0 } })).await?;
        crp.until_bindings("none", <[_]>::is_empty).await?;
        crp.until_condition("Scheduled", "True").await?;
        Ok(())
    });
}

#[test]
fn another_affinity_keeps_releases_and_adds_and_a_binding_can_come_back() {
    scenario("sched-policy", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "tier": "one" })).await?;
        cast.join("b", json!({ "tier": "one", "also": "two" })).await?;
        cast.join("c", json!({ "also": "two" })).await?;
        let tier = |key: &str, value: &str| affinity(&[(LABEL, ctx.prefix()), (key, value)]);
        let policy = json!({ "placementType": "PickAll", "affinity": tier("tier", "one") });
        // Nothing is removed by itself, so that every state can be seen.
        let crp = place(&ctx, policy, json!({ "type": "External" })).await?;
        let (a, b, c) = (cast.name("a"), cast.name("b"), cast.name("c"));
        let scheduled = |name: &String| (name.clone(), BindingState::Scheduled);
        let first = crp.until_states(&[scheduled(&a), scheduled(&b)]).await?;
        // An annotation of somebody else survives what follows.
        let name = on(&first, &a)?.name_any();
        crp.patch_binding(
            &name,
            json!({ "metadata": { "annotations": { "example.com/note": "kept" } } }),
        )
        .await?;

        crp.edit(json!({ "policy": { "affinity": tier("also", "two") } }))
            .await?;
        let gone = (a.clone(), BindingState::Unscheduled);
        let second = crp.until_states(&[gone.clone(), scheduled(&b), scheduled(&c)]).await?;
        let (left, kept) = (on(&second, &a)?, on(&second, &b)?);
        ensure!(previous(left) == Some("Scheduled"), "{left:?}");
        ensure!(left.annotations()["example.com/note"] == "kept", "{left:?}");
        ensure!(left.spec.scheduling_policy_snapshot_name.ends_with("-0"), "{left:?}");
        ensure!(kept.uid() == on(&first, &b)?.uid(), "{kept:?}");
        ensure!(kept.spec.scheduling_policy_snapshot_name.ends_with("-1"), "{kept:?}");

        crp.edit(json!({ "policy": { "affinity": tier("tier", "one") } }))
            .await?;
        let released = (c.clone(), BindingState::Unscheduled);
        let third = crp.until_states(&[scheduled(&a), scheduled(&b), released]).await?;
        let back = on(&third, &a)?;
        ensure!(back.uid() == left.uid(), "the same object");
        ensure!(previous(back).is_none(), "{back:?}");
        ensure!(back.annotations()["example.com/note"] == "kept", "{back:?}");
        ensure!(back.spec.scheduling_policy_snapshot_name.ends_with("-2"), "{back:?}");
        Ok(())
    });
}

#[test]
fn a_binding_that_does_not_say_what_it_was_is_explained() {
    scenario("sched-lost", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.only(&["a"]), json!({ "type": "External" })).await?;
        let a = cast.name("a");
        let first = crp.until_states(&[(a.clone(), BindingState::Scheduled)]).await?;
        crp.edit(json!({ "policy": { "clusterNames": [cast.name("b")] } }))
            .await?;
        let gone = (a.clone(), BindingState::Unscheduled);
        crp.until_states(&[gone, (cast.name("b"), BindingState::Scheduled)])
            .await?;
        let forget = json!({ "metadata": { "annotations": { annotations::PREVIOUS_BINDING_STATE: null } } });
        crp.patch_binding(&first[0].name_any(), forget).await?;
        crp.edit(json!({ "policy": { "clusterNames": [a] } })).await?;
        let scheduled = crp.until_condition("Scheduled", "False").await?;
        let cause = "does not say which state it had";
        ensure!(scheduled.message.contains(cause), "{}", scheduled.message);
        crp.until_held(&[cause]).await?;
        Ok(())
    });
}

#[test]
fn a_list_of_names_is_placed_as_far_as_it_can_be() {
    scenario("sched-names", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let taint = json!([{ "key": "k", "value": "v", "effect": "NoSchedule" }]);
        cast.member("a").patch(&json!({ "spec": { "taints": taint } })).await?;
        let crp = place(&ctx, cast.only(&["a", "later"]), rolling(&json!(1), &json!(1))).await?;
        // A taint does not matter to somebody who is called by name.
        crp.until_states(&[(cast.name("a"), BindingState::Bound)]).await?;
        let scheduled = crp.until_condition("Scheduled", "False").await?;
        ensure!(
            scheduled.message
                == "could not find all clusters needed as specified by the scheduling policy, found 1 cluster(s) instead",
            "{}",
            scheduled.message
        );
        let status = crp.policy().await?.status.unwrap_or_default();
        let missing = status
            .target_clusters
            .iter()
            .find(|d| !d.selected)
            .context("later is listed")?;
        ensure!(
            missing.reason == format!("Specified cluster {:?} is not found", cast.name("later")),
            "{}",
            missing.reason
        );
        cast.join("later", json!({})).await?;
        let both = [
            (cast.name("a"), BindingState::Bound),
            (cast.name("later"), BindingState::Bound),
        ];
        crp.until_states(&both).await?;
        crp.until_condition("Scheduled", "True").await?;
        crp.until_available(0).await?;
        crp.edit(json!({ "policy": { "clusterNames": [cast.name("later")] } }))
            .await?;
        crp.until_states(&[(cast.name("later"), BindingState::Bound)]).await?;
        crp.until_works("one", |works| works.len() == 1).await?;
        Ok(())
    });
}
