//! A rolling update takes no more clusters at a time than it may.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::finalizers;
use fleet_api::placement::{BindingState, ClusterResourceBinding};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, bound, change, place, rolling};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::works::Held;
use kube::ResourceExt as _;
use serde_json::json;
use tokio::time::Instant;

const BLOCKED: &str = "The resources cannot be updated to the latest because of the rollout strategy";

/// Waits until exactly these clusters are held back, and why they say so.
async fn held(crp: &Crp, clusters: &[String]) -> Result<Vec<String>> {
    let says = |binding: &ClusterResourceBinding| {
        let started = bound(binding, "RolloutStarted").filter(|c| c.status == "False");
        started.map(|c| (c.reason.clone(), c.message.clone()))
    };
    let all = crp
        .until_bindings(&format!("{clusters:?} held back"), |all| {
            let mut found: Vec<_> = all.iter().filter(|b| says(b).is_some()).collect();
            found.sort_by_key(|b| b.spec.target_cluster.clone());
            found.iter().map(|b| &b.spec.target_cluster).eq(clusters)
        })
        .await?;
    let said: Vec<_> = all.iter().filter_map(says).collect();
    for (reason, message) in &said {
        ensure!(
            reason == "RolloutNotStartedYet" && message.starts_with(BLOCKED),
            "{reason}: {message}"
        );
    }
    Ok(said.into_iter().map(|(_, message)| message).collect())
}

#[test]
fn a_change_goes_from_cluster_to_cluster_and_broken_ones_do_not_wait() {
    scenario("roll-budget", |ctx| async move {
        let words = ["a", "b", "c", "d"];
        let cast = Cast::new(&ctx, &words).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;

        cast.act(&words, Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &cast.names(&["a"])).await?;
        let messages = held(&crp, &cast.names(&["b", "c", "d"])).await?;
        ensure!(messages.iter().all(|m| m.contains(&cast.name("a"))), "{messages:?}");
        cast.act(&["a"], Act::Available);
        crp.until_text_on("\"two\"", &cast.names(&["a", "b"])).await?;
        held(&crp, &cast.names(&["c", "d"])).await?;
        cast.act(&words, Act::Available);
        crp.until_available(1).await?;
        crp.until_text_on("\"two\"", &cast.names(&words)).await?;

        // What is broken gets the next change whatever the budget, and uses it up for the others.
        cast.act(&["c"], Act::Broken);
        crp.until_condition("Applied", "False").await?;
        cast.act(&words, Act::Silent);
        change(&ctx, "three").await?;
        crp.until_text_on("\"three\"", &cast.names(&["c"])).await?;
        let messages = held(&crp, &cast.names(&["a", "b", "d"])).await?;
        ensure!(messages.iter().all(|m| m.contains(&cast.name("c"))), "{messages:?}");
        cast.act(&words, Act::Available);
        crp.until_available(2).await?;
        Ok(())
    });
}

#[test]
fn what_is_waited_for_is_told_anew() {
    scenario("roll-told", |ctx| async move {
        let words = ["a", "b", "c", "d"];
        let cast = Cast::new(&ctx, &words).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&words, Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &cast.names(&["a"])).await?;
        let messages = held(&crp, &cast.names(&["b", "c", "d"])).await?;
        ensure!(messages.iter().all(|m| m.contains(&cast.name("a"))), "{messages:?}");
        cast.act(&["a"], Act::Available);
        let (a, b) = (cast.name("a"), cast.name("b"));
        let told = |binding: &ClusterResourceBinding| {
            let said = bound(binding, "RolloutStarted").filter(|c| c.status == "False");
            said.is_none_or(|c| c.message.contains(&b) && !c.message.contains(&a))
        };
        crp.until_bindings("waiting for b alone", |all| all.len() == 4 && all.iter().all(told))
            .await?;
        held(&crp, &cast.names(&["c", "d"])).await?;
        Ok(())
    });
}

/// Their conditions are of an older generation then, and the budget counts only what is known of the present one.
#[test]
fn clusters_that_wait_go_on_although_the_scheduler_has_written_to_them() {
    scenario("roll-touched", |ctx| async move {
        let words = ["a", "b", "c", "d"];
        let cast = Cast::new(&ctx, &words).await?;
        let crp = place(&ctx, cast.some(4), rolling(&json!("25%"), &json!(0))).await?;
        crp.until_available(0).await?;
        cast.act(&["a"], Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &cast.names(&["a"])).await?;
        held(&crp, &cast.names(&["b", "c", "d"])).await?;
        let toleration = json!({ "key": "nothing", "operator": "Exists" });
        crp.edit(json!({ "policy": { "tolerations": [toleration] } })).await?;
        let policy = crp.until_bindings("of the new policy", |all| {
            all.iter()
                .all(|b| b.spec.scheduling_policy_snapshot_name.ends_with("-1"))
        });
        policy.await?;
        cast.act(&["a"], Act::Available);
        crp.until_available(1).await?;
        crp.until_text_on("\"two\"", &cast.names(&words)).await?;
        Ok(())
    });
}

#[test]
fn a_budget_of_zero_holds_everything_until_it_is_raised() {
    scenario("roll-zero", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(0), &json!(1))).await?;
        crp.until_available(0).await?;
        change(&ctx, "two").await?;
        let messages = held(&crp, &[cast.name("a"), cast.name("b")]).await?;
        ensure!(
            messages
                .iter()
                .all(|m| m.contains("maxUnavailable is 0, so no available cluster may be updated or left")),
            "{messages:?}"
        );
        crp.until_text_on("\"two\"", &[]).await?;
        let status = crp.until_condition("RolloutStarted", "False").await?;
        ensure!(status.reason == "RolloutNotStartedYet", "{status:?}");
        crp.edit(json!({ "strategy": { "rollingUpdate": { "maxUnavailable": "50%" } } }))
            .await?;
        crp.until_available(1).await?;
        Ok(())
    });
}

#[test]
fn what_cannot_be_tracked_counts_as_available_after_its_period() {
    scenario("roll-period", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let strategy = json!({
            "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 1, "unavailablePeriodSeconds": 3 },
        });
        let crp = place(&ctx, cast.everywhere(), strategy).await?;
        crp.until_available(0).await?;
        cast.act(&["a", "b"], Act::Silent);
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &[cast.name("a")]).await?;
        cast.act(&["a"], Act::Untrackable);
        crp.until_bindings("a that nobody can tell about", |all| {
            let reason = "NotAllWorkAreAvailabilityTrackable";
            all.iter()
                .any(|b| bound(b, "Available").is_some_and(|c| c.reason == reason))
        })
        .await?;
        let since = Instant::now();
        held(&crp, &[cast.name("b")]).await?;
        crp.until_text_on("\"two\"", &[cast.name("a"), cast.name("b")]).await?;
        let waited = since.elapsed();
        // Conditions have whole seconds.
        ensure!(waited >= Duration::from_secs(2), "the second came after {waited:?}");
        cast.act(&["a", "b"], Act::Available);
        crp.until_available(1).await?;
        Ok(())
    });
}

/// What nobody can tell about may be serving all the same: a second change waits for the period, then goes on one by one.
#[test]
fn a_change_within_the_period_costs_budget() {
    scenario("roll-settling", |ctx| async move {
        let words = ["a", "b", "c"];
        let period = Duration::from_secs(6);
        let cast = Cast::new(&ctx, &words).await?;
        cast.act(&words, Act::Untrackable);
        let strategy = json!({
            "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 1, "unavailablePeriodSeconds": period.as_secs() },
        });
        let crp = place(&ctx, cast.everywhere(), strategy).await?;
        let told = |all: &[ClusterResourceBinding]| {
            let reason = "NotAllWorkAreAvailabilityTrackable";
            all.len() == words.len()
                && all
                    .iter()
                    .all(|b| bound(b, "Available").is_some_and(|c| c.reason == reason))
        };
        crp.until_bindings("nobody can tell about", told).await?;
        let mut since = Instant::now();
        change(&ctx, "two").await?;
        held(&crp, &cast.names(&words)).await?;
        for done in 1..=words.len() {
            crp.until_text_on("\"two\"", &cast.names(&words[..done])).await?;
            let waited = since.elapsed();
            // Conditions have whole seconds, and we see them a moment after they were written.
            ensure!(
                waited + Duration::from_secs(2) >= period,
                "{done} of them came after {waited:?}"
            );
            since = Instant::now();
        }
        Ok(())
    });
}

#[test]
fn the_new_cluster_comes_before_the_old_one_goes() {
    scenario("roll-surge", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let crp = place(&ctx, cast.only(&["a"]), rolling(&json!(0), &json!(1))).await?;
        crp.until_available(0).await?;
        cast.act(&["b"], Act::Silent);
        crp.edit(json!({ "policy": { "clusterNames": [b] } })).await?;
        crp.until_works("one on b", |works| works.len() == 2).await?;
        crp.until_states(&[(a, BindingState::Unscheduled), (b.clone(), BindingState::Bound)])
            .await?;
        cast.act(&["b"], Act::Available);
        crp.until_states(&[(b, BindingState::Bound)]).await?;
        crp.until_works("none on a", |works| works.len() == 1).await?;
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn a_cluster_that_waits_for_room_gets_that_of_an_evicted_one() {
    scenario("roll-evict", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let crp = place(&ctx, cast.only(&["a"]), rolling(&json!(0), &json!(0))).await?;
        crp.until_available(0).await?;
        crp.edit(json!({ "policy": { "clusterNames": [b] } })).await?;
        crp.until_states(&[
            (a.clone(), BindingState::Unscheduled),
            (b.clone(), BindingState::Scheduled),
        ])
        .await?;
        held(&crp, std::slice::from_ref(&b)).await?;
        let old = crp.binding(&a).await?;
        crp.evict(&old.name_any()).await?;
        crp.until_states(&[(b, BindingState::Bound)]).await?;
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn only_the_cluster_with_a_predecessor_waits() {
    scenario("roll-before", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(2), &json!(2))).await?;
        crp.until_available(0).await?;
        // The member on a is slow to clean up after an eviction.
        let (a, b) = (cast.name("a"), cast.name("b"));
        let slow = Held::hold(&ctx, &cast.member("a").namespace(), &format!("{}-work", crp.name)).await?;
        let old = crp.binding(&a).await?;
        crp.evict(&old.name_any()).await?;
        let evicted = Instant::now();
        let waits = crp
            .until_bindings("its successor", |all| {
                all.len() == 3
                    && all
                        .iter()
                        .any(|b| bound(b, "RolloutStarted").is_some_and(|c| c.status == "False"))
            })
            .await?;
        let next = waits
            .iter()
            .find(|b| b.spec.state == BindingState::Scheduled)
            .context("it is Scheduled")?;
        let message = bound(next, "RolloutStarted")
            .map(|c| c.message.clone())
            .unwrap_or_default();
        ensure!(
            message.contains(&format!("/{}", old.name_any())) && message.contains(&a),
            "{message}"
        );
        // The scheduler is done with the old one long before its member is.
        crp.until_bindings("without the scheduler's finalizer", |all| {
            let old = all.iter().find(|b| b.uid() == old.uid());
            old.is_some_and(|old| old.finalizers() == [finalizers::WORK])
        })
        .await?;
        let took = evicted.elapsed();
        ensure!(took < Duration::from_secs(15), "it had the finalizer for {took:?}");
        // The other cluster does not care.
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &[b]).await?;
        slow.release().await?;
        crp.until_available(1).await?;
        let all = crp.until_bindings("two", |all| all.len() == 2).await?;
        ensure!(all.iter().all(|b| b.uid() != old.uid()), "{all:?}");
        Ok(())
    });
}
