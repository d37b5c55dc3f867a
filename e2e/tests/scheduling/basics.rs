//! What the scheduler writes.

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::{BindingState, ClusterResourceBinding, ClusterSchedulingPolicySnapshot};
use fleet_api::{conditions, finalizers, labels};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, change, config_map, furnished, place, rolling, whole_namespace};
use fleet_e2e::played::{Cast, report};
use fleet_e2e::wait;
use jiff::SignedDuration;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

fn message(policy: &ClusterSchedulingPolicySnapshot) -> String {
    let status = policy.status.as_ref();
    let list = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let condition = conditions::find(list, "Scheduled");
    condition.map_or_else(String::new, |c| format!("{} {}: {}", c.status, c.reason, c.message))
}

fn well_made(binding: &ClusterResourceBinding, placement: &str) -> Result<()> {
    let name = binding.name_any();
    let (cut, cluster) = (&placement[..placement.len().min(26)], &binding.spec.target_cluster);
    let rest = name.strip_prefix(&format!("{cut}-")).context(name.clone())?;
    let digits = rest
        .strip_prefix(&format!("{}-", &cluster[..cluster.len().min(27)]))
        .context(name.clone())?;
    ensure!(
        digits.len() == 8 && digits.chars().all(|c| c.is_ascii_hexdigit()),
        "{name}"
    );
    ensure!(binding.labels()[labels::PARENT_PLACEMENT] == placement, "{binding:?}");
    ensure!(
        binding.finalizers().iter().any(|f| f == finalizers::SCHEDULER_BINDING),
        "{binding:?}"
    );
    ensure!(binding.owner_references().is_empty(), "{binding:?}");
    Ok(())
}

#[test]
fn a_binding_says_for_whom_and_why() {
    scenario("sched-why", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b", "c"]).await?;
        // Nothing rolls out by itself, so what the scheduler wrote is what is seen.
        let crp = place(&ctx, cast.some(2), json!({ "type": "External" })).await?;
        let (b, c) = (cast.name("b"), cast.name("c"));
        let both = [
            (b.clone(), BindingState::Scheduled),
            (c.clone(), BindingState::Scheduled),
        ];
        for binding in crp.until_states(&both).await? {
            well_made(&binding, &crp.name)?;
            ensure!(binding.spec.resource_snapshot_name.is_empty(), "{binding:?}");
            let reason = format!(
                "Successfully scheduled resources for placement in {:?} (affinity score: 0, topology spread score: 0): \
                 picked by scheduling policy",
                binding.spec.target_cluster
            );
            ensure!(binding.spec.cluster_decision.reason == reason, "{binding:?}");
        }
        let placement = crp
            .until("scheduled", |crp| {
                crp.status.as_ref().is_some_and(|s| s.placement_statuses.len() == 2)
            })
            .await?;
        ensure!(
            placement.finalizers().iter().any(|f| f == finalizers::SCHEDULER),
            "{placement:?}"
        );
        let policy = crp.policy().await?;
        ensure!(
            message(&policy)
                == "True SchedulingPolicyFulfilled: found all cluster needed as specified by the scheduling policy, found 2 \
                    cluster(s)",
            "{}",
            message(&policy)
        );
        let status = policy.status.context("it has a status")?;
        ensure!(
            Some(status.observed_crp_generation) == placement.metadata.generation,
            "{status:?}"
        );
        let decisions: Vec<_> = status
            .target_clusters
            .iter()
            .map(|d| (d.cluster_name.clone(), d.selected))
            .collect();
        let a = cast.name("a");
        ensure!(
            decisions.starts_with(&[(c, true), (b, true), (a.clone(), false)]),
            "{decisions:?}"
        );
        ensure!(
            status.target_clusters[2].reason
                == format!("Cluster {a:?} does not score high enough (affinity score: 0, topology spread score: 0)"),
            "{status:?}"
        );
        Ok(())
    });
}

#[test]
fn nothing_is_scheduled_before_the_selectors_are_good() {
    scenario("sched-bad", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let namespace = ctx.namespace("hub").await?;
        let spec = json!({ "resourceSelectors": whole_namespace("kube-system"), "policy": cast.everywhere() });
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        crp.until_condition("Scheduled", "False").await?;
        let placement = crp.get().await?;
        ensure!(
            !placement.finalizers().iter().any(|f| f == finalizers::SCHEDULER),
            "{:?}",
            placement.finalizers()
        );
        crp.edit(json!({ "resourceSelectors": whole_namespace(&namespace) }))
            .await?;
        crp.until_bindings("one", |all| all.len() == 1).await?;
        // A binding never exists without it.
        let placement = crp.get().await?;
        ensure!(
            placement.finalizers().iter().any(|f| f == finalizers::SCHEDULER),
            "{:?}",
            placement.finalizers()
        );
        crp.until_condition("Scheduled", "True").await?;
        Ok(())
    });
}

#[test]
fn a_name_with_dots_is_no_obstacle() {
    scenario("sched-dots", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let namespace = furnished(&ctx).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(&namespace), "policy": cast.everywhere() });
        let name = format!("{}.my.app", ctx.prefix());
        let crp = Crp::create_called(&ctx, &name, &spec).await?;
        let bindings = crp.until_bindings("one", |all| all.len() == 1).await?;
        ensure!(!bindings[0].name_any().contains('.'), "{}", bindings[0].name_any());
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn a_broken_label_of_a_policy_snapshot_is_repaired_and_moves_nothing() {
    scenario("sched-label", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.some(1), json!({ "type": "External" })).await?;
        let before = crp.until_bindings("one", |all| all.len() == 1).await?;
        crp.until_condition("Scheduled", "True").await?;
        let policy = crp.policy().await?;
        let api: Api<ClusterSchedulingPolicySnapshot> = Api::all(ctx.hub().await?);
        let broken = Patch::Merge(json!({ "metadata": { "labels": { labels::IS_LATEST_SNAPSHOT: "maybe" } } }));
        api.patch(&policy.name_any(), &PatchParams::default(), &broken).await?;
        fleet_e2e::wait::until_present(api, &policy.name_any(), "its label back", |found| {
            found.labels()[labels::IS_LATEST_SNAPSHOT] == "true"
        })
        .await?;
        // It still decides.
        crp.edit(json!({ "policy": { "numberOfClusters": 2 } })).await?;
        let after = crp.until_bindings("two", |all| all.len() == 2).await?;
        let kept = after.iter().find(|b| b.uid() == before[0].uid()).context("it stays")?;
        ensure!(kept.metadata.generation == before[0].metadata.generation, "{kept:?}");
        Ok(())
    });
}

#[test]
fn a_decision_that_stays_the_same_is_not_written_again() {
    scenario("0-same", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        // Clusters of the scenario before that go would change what is said of clusters.
        let clusters = Api::<MemberCluster>::all(ctx.hub().await?);
        let stays = |cluster: &MemberCluster| cluster.metadata.deletion_timestamp.is_none();
        wait::until_list(clusters, "none that is leaving", |list| list.iter().all(stays)).await?;
        // It stays in the list of those that were not picked, with the age of its heartbeat.
        let old = report(SignedDuration::from_mins(7), true);
        cast.join_saying("z", json!({}), &old).await?;
        let crp = place(&ctx, cast.some(3), rolling(&json!(1), &json!(1))).await?;
        let scheduled = crp.until_condition("Scheduled", "False").await?;
        ensure!(
            scheduled.message == "could not find all the clusters needed as specified by the scheduling policy"
                || scheduled.message
                    == "could not find all clusters needed as specified by the scheduling policy, found 2 cluster(s) instead",
            "{}",
            scheduled.message
        );
        let before = crp.policy().await?;
        let decisions = before.status.clone().unwrap_or_default().target_clusters;
        let z = decisions
            .iter()
            .find(|d| d.cluster_name == cast.name("z"))
            .context("z is listed")?;
        ensure!(
            z.reason.starts_with(
                "ClusterUnschedulable, cluster is not connected to the fleet: no recent heartbeat signals (last received 7."
            ),
            "{}",
            z.reason
        );
        // What matters to nobody: heartbeats, and resources that change.
        for word in ["a", "b"] {
            cast.say(word, &report(SignedDuration::ZERO, true)).await?;
        }
        change(&ctx, "two").await?;
        crp.until("the new content", |crp| {
            crp.status.as_ref().is_some_and(|s| s.observed_resource_index == "1")
        })
        .await?;
        crp.until_text_on("\"two\"", &[cast.name("a"), cast.name("b")]).await?;
        let after = crp.policy().await?;
        ensure!(after.resource_version() == before.resource_version(), "{after:?}");
        // A change of the placement that is none of the scheduler's advances the generation that it has seen, no more.
        let bindings = crp.bindings().await?;
        ctx.create_in("hub", ctx.prefix(), config_map("other", "x")).await?;
        let edited = crp.edit(json!({ "revisionHistoryLimit": 5 })).await?;
        let api: Api<ClusterSchedulingPolicySnapshot> = Api::all(ctx.hub().await?);
        fleet_e2e::wait::until_present(api, &after.name_any(), "the new generation", |policy| {
            let observed = policy.status.as_ref().map(|status| status.observed_crp_generation);
            observed == edited.metadata.generation
        })
        .await?;
        let policies = |all: &[ClusterResourceBinding]| -> Vec<_> {
            all.iter()
                .map(|b| (b.uid(), b.spec.scheduling_policy_snapshot_name.clone()))
                .collect()
        };
        ensure!(policies(&bindings) == policies(&crp.bindings().await?));
        Ok(())
    });
}
