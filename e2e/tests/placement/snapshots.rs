//! Policies and selections, frozen: names, labels, hashes, pieces, history.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{
    ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ResourceSnapshot, SchedulingPolicySnapshot,
};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, Rp, config_map, core_selector, nothing, seen, selected, spec, whole_namespace};
use fleet_e2e::played::Cast;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

const LATEST: &str = "kubernetes-fleet.io/is-latest-snapshot";
const POLICY_INDEX: &str = "kubernetes-fleet.io/policy-index";
const GENERATION: &str = "kubernetes-fleet.io/CRP-generation";
const NUMBER: &str = "kubernetes-fleet.io/number-of-clusters";

/// Names of policy snapshots, the latest with a star.
fn policies(list: &[ClusterSchedulingPolicySnapshot]) -> Vec<String> {
    let mut names: Vec<_> = list
        .iter()
        .map(|s| (s.labels()[POLICY_INDEX].clone(), starred(s)))
        .collect();
    names.sort();
    names.into_iter().map(|(_, name)| name).collect()
}

fn starred(object: &impl kube::Resource) -> String {
    let latest = object.labels().get(LATEST).is_some_and(|value| value == "true");
    format!("{}{}", object.name_any(), if latest { "*" } else { "" })
}

async fn until_policies(crp: &Crp, expected: &[&str]) -> Result<Vec<ClusterSchedulingPolicySnapshot>> {
    let expected: Vec<_> = expected.iter().map(|suffix| format!("{}-{suffix}", crp.name)).collect();
    crp.until_made(
        &format!("{expected:?}"),
        |list: &[ClusterSchedulingPolicySnapshot]| policies(list) == expected,
    )
    .await
}

#[test]
fn policy_snapshots_follow_the_policy() {
    scenario("policies", |ctx| async move {
        let selectors = nothing(&ctx);
        // The scenario's own clusters, none of which exist: nobody else is bothered.
        let affinity = |value: &str| {
            let terms = json!([{ "labelSelector": { "matchLabels": { "scenario": value } } }]);
            json!({ "clusterAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "clusterSelectorTerms": terms } } })
        };
        let pick = |n: u32, value: &str| json!({ "placementType": "PickN", "numberOfClusters": n, "affinity": affinity(value) });
        let crp = Crp::create(
            &ctx,
            "crp",
            &json!({ "resourceSelectors": selectors, "policy": pick(3, "a") }),
        )
        .await?;
        let made = until_policies(&crp, &["0*"]).await?;
        ensure!(
            made[0].annotations()[NUMBER] == "3" && made[0].annotations()[GENERATION] == "1",
            "{made:?}"
        );
        let owners = made[0].owner_references();
        let owner = owners.first().context("it has an owner")?;
        ensure!(
            owner.name == crp.name && owner.controller == Some(true) && owner.block_owner_deletion == Some(true),
            "{owners:?}"
        );

        // Scaling is no new policy.
        crp.patch(&json!({ "spec": { "policy": { "numberOfClusters": 5 } } }))
            .await?;
        crp.until_made("scaled", |list: &[ClusterSchedulingPolicySnapshot]| {
            list.len() == 1 && list[0].annotations()[NUMBER] == "5" && list[0].annotations()[GENERATION] == "2"
        })
        .await?;
        // Neither is another selector, but the scheduler is to look again.
        let more = json!([selectors[0], core_selector("Namespace", &ctx.name("missing-too"))]);
        crp.patch(&json!({ "spec": { "resourceSelectors": more } })).await?;
        crp.until_made("seen", |list: &[ClusterSchedulingPolicySnapshot]| {
            list.len() == 1 && list[0].annotations()[GENERATION] == "3"
        })
        .await?;

        crp.patch(&json!({ "spec": { "policy": pick(5, "b") } })).await?;
        until_policies(&crp, &["0", "1*"]).await?;
        // Going back is going on.
        crp.patch(&json!({ "spec": { "policy": pick(5, "a") } })).await?;
        until_policies(&crp, &["0", "1", "2*"]).await?;
        crp.patch(&json!({ "spec": { "revisionHistoryLimit": 2 } })).await?;
        until_policies(&crp, &["1", "2*"]).await?;
        crp.patch(&json!({ "spec": { "policy": pick(5, "c"), "revisionHistoryLimit": 1 } }))
            .await?;
        until_policies(&crp, &["3*"]).await?;
        crp.patch(&json!({ "spec": { "policy": pick(5, "d") } })).await?;
        until_policies(&crp, &["4*"]).await?;
        Ok(())
    });
}

#[test]
fn without_a_policy_there_is_a_snapshot_of_none() {
    scenario("no-policy", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        // Without a policy all clusters are picked; in an external rollout nothing reaches them.
        let rest = json!({
            "resourceSelectors": [core_selector("ConfigMap", "missing")], "strategy": { "type": "External" },
        });
        let rp = Rp::create(&ctx, &namespace, "rp", &rest).await?;
        let made = rp
            .until_made("one snapshot", |list: &[SchedulingPolicySnapshot]| list.len() == 1)
            .await?;
        let snapshot = &made[0];
        ensure!(snapshot.name_any() == format!("{}-0", rp.name), "{snapshot:?}");
        let hash = String::from_utf8(snapshot.spec.policy_hash.0.clone())?;
        ensure!(
            hash == "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b",
            "{hash}"
        );
        ensure!(snapshot.spec.policy.is_none(), "{snapshot:?}");
        ensure!(
            !snapshot.annotations().contains_key(NUMBER),
            "{:?}",
            snapshot.annotations()
        );
        ensure!(
            snapshot.labels()["kubernetes-fleet.io/parent-CRP"] == rp.name,
            "{:?}",
            snapshot.labels()
        );
        Ok(())
    });
}

#[test]
fn snapshots_that_somebody_broke_are_repaired_and_others_go_on() {
    scenario("broken", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let spec = spec(&nothing(&ctx), &cast.everywhere());
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        crp.until_available(0).await?;
        let tolerant = json!({ "tolerations": [{ "key": "k", "operator": "Exists" }] });
        crp.patch(&json!({ "spec": { "policy": tolerant } })).await?;
        until_policies(&crp, &["0", "1*"]).await?;
        let policies = crp.api::<ClusterSchedulingPolicySnapshot>().await?;
        let patch = |labels: Value| Patch::Merge(json!({ "metadata": { "labels": labels } }));
        let params = PatchParams::default();
        let newest = format!("{}-1", crp.name);
        let oldest = format!("{}-0", crp.name);
        // Two that claim to be the latest, then none, then no annotation.
        policies
            .patch(&oldest, &params, &patch(json!({ LATEST: "true" })))
            .await?;
        crp.until_made("one latest", |list: &[ClusterSchedulingPolicySnapshot]| {
            let latest: Vec<_> = list
                .iter()
                .filter(|s| starred(*s).ends_with('*'))
                .map(ResourceExt::name_any)
                .collect();
            latest == [newest.clone()]
        })
        .await?;
        policies
            .patch(&newest, &params, &patch(json!({ LATEST: "false" })))
            .await?;
        crp.until_made("labelled again", |list: &[ClusterSchedulingPolicySnapshot]| {
            list.iter().any(|s| starred(s) == format!("{newest}*"))
        })
        .await?;
        let annotations = Patch::Merge(json!({ "metadata": { "annotations": { GENERATION: null } } }));
        policies.patch(&newest, &params, &annotations).await?;
        crp.until_made("annotated again", |list: &[ClusterSchedulingPolicySnapshot]| {
            list.iter()
                .any(|s| s.name_any() == newest && s.annotations().contains_key(GENERATION))
        })
        .await?;
        // A label that is no number is not the latest of anything.
        policies
            .patch(&oldest, &params, &patch(json!({ POLICY_INDEX: "first" })))
            .await?;
        let other = Crp::create(&ctx, "other", &spec).await?;
        other.until_available(0).await?;
        crp.until_step("Available", "True").await?;
        Ok(())
    });
}

/// A ConfigMap whose stored text has about so many KiB.
fn large(name: &str, kib: usize) -> ConfigMap {
    config_map(name, &"x".repeat(kib * 1024))
}

fn pieces(list: &[ClusterResourceSnapshot]) -> Vec<String> {
    let mut names: Vec<_> = list.iter().map(starred).collect();
    names.sort();
    names
}

async fn until_pieces(crp: &Crp, expected: &[&str]) -> Result<Vec<ClusterResourceSnapshot>> {
    let mut expected: Vec<_> = expected.iter().map(|suffix| format!("{}-{suffix}", crp.name)).collect();
    expected.sort();
    crp.until_made(&format!("{expected:?}"), |list: &[ClusterResourceSnapshot]| {
        pieces(list) == expected
    })
    .await
}

#[test]
fn large_selections_are_kept_in_pieces_that_come_and_go_together() {
    scenario("pieces", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        for (name, kib) in [("a", 300), ("b", 400), ("c", 900), ("d", 100)] {
            ctx.create_in("hub", &namespace, large(name, kib)).await?;
        }
        seen(&ctx, &whole_namespace(&namespace), 5).await?;
        let mut spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        spec["revisionHistoryLimit"] = json!(2);
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        // Namespace, a and b; the one that is too large for any piece, alone; the rest.
        let made = until_pieces(&crp, &["0-0", "0-1", "0-snapshot*"]).await?;
        let of = |name: &str| {
            made.iter()
                .find(|s| s.name_any().ends_with(name))
                .context("it is there")
        };
        let (master, first, second) = (of("-snapshot")?, of("-0-0")?, of("-0-1")?);
        ensure!(
            [master, first, second].map(|s| s.spec.selected_resources.len()) == [3, 1, 1],
            "{:?}",
            pieces(&made)
        );
        ensure!(
            master.annotations()["kubernetes-fleet.io/number-of-resource-snapshots"] == "3",
            "{master:?}"
        );
        for piece in [first, second] {
            ensure!(!piece.labels().contains_key(LATEST), "{:?}", piece.labels());
            ensure!(
                !piece.annotations().contains_key("kubernetes-fleet.io/resource-hash"),
                "{:?}",
                piece.annotations()
            );
        }
        let status = crp.until_available(0).await?;
        let inside = |name: &str| format!("ConfigMap {namespace}/{name}");
        ensure!(
            selected(&status)[1..] == ["a", "b", "c", "d"].map(inside),
            "{:?}",
            selected(&status)
        );
        let works = crp
            .until_works("a Work for each piece", |works| works.len() == 3)
            .await?;
        ensure!(works.len() == 3, "{works:?}");

        // Pieces that are missing are made again under the same index, and the master stays as it was.
        let api = crp.api::<ClusterResourceSnapshot>().await?;
        let (before, lost) = (master.resource_version(), first.uid());
        api.delete(&first.name_any(), &DeleteParams::default()).await?;
        let again = crp
            .until_made("made again", |list: &[ClusterResourceSnapshot]| {
                list.len() == 3 && list.iter().any(|s| s.name_any() == first.name_any() && s.uid() != lost)
            })
            .await?;
        let master = again.iter().find(|s| s.name_any() == master.name_any());
        ensure!(
            master.context("the master")?.resource_version() == before,
            "the master was written"
        );

        // Whole groups go.
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        maps.delete("d", &DeleteParams::default()).await?;
        until_pieces(&crp, &["0-0", "0-1", "0-snapshot", "1-0", "1-snapshot*"]).await?;
        crp.until_available(1).await?;
        maps.delete("c", &DeleteParams::default()).await?;
        until_pieces(&crp, &["1-0", "1-snapshot", "2-snapshot*"]).await?;
        crp.until_available(2).await?;
        crp.until_works("one Work is enough", |works| works.len() == 1).await?;
        Ok(())
    });
}

#[test]
fn a_change_after_a_quiet_time_is_frozen_at_once_and_a_burst_together() {
    scenario("burst", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        seen(&ctx, &whole_namespace(&namespace), 2).await?;
        let spec = spec(&json!([core_selector("ConfigMap", "settings")]), &cast.everywhere());
        let rp = Rp::create(&ctx, &namespace, "rp", &spec).await?;
        rp.until_available(0).await?;
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        for value in 1..=9 {
            let edit = Patch::Merge(json!({ "data": { "key": value.to_string() } }));
            maps.patch("settings", &PatchParams::default(), &edit).await?;
        }
        let has = |list: &[ResourceSnapshot], value: &str| {
            let wanted = format!("\"key\":\"{value}\"");
            list.iter().any(|s| {
                let texts = &s.spec.selected_resources;
                starred(s).ends_with('*') && texts.iter().any(|text| text.as_str().contains(&wanted))
            })
        };
        let made = rp
            .until_made("the last value", |list: &[ResourceSnapshot]| has(list, "9"))
            .await?;
        ensure!(made.len() <= 3, "nine edits made {} snapshots", made.len());
        let index = u64::try_from(made.len())? - 1;
        rp.until_available(index).await?;
        // Taken back before it was frozen: as if it had not been.
        for value in ["10", "9"] {
            let edit = Patch::Merge(json!({ "data": { "key": value } }));
            maps.patch("settings", &PatchParams::default(), &edit).await?;
        }
        let marker = Rp::create(&ctx, &namespace, "marker", &spec).await?;
        marker.until_available(0).await?;
        ensure!(
            rp.status().await?.observed_resource_index == index.to_string(),
            "a snapshot of nothing new"
        );
        Ok(())
    });
}
