//! Flags of the hub agent that concern placements.

use anyhow::{Context as _, ensure};
use fleet_api::placement::{ClusterResourceSnapshot, ResourceEnvelope, ResourceSnapshot, SchedulingPolicySnapshot};
use fleet_e2e::agents::{with_hub_flags, with_hub_values};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{
    Crp, Rp, bound, config_map, core_selector, furnished, nowhere, rolling, selected, spec, whole_namespace,
};
use fleet_e2e::played::Cast;
use fleet_e2e::tenant::Tenant;
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Secret};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

#[test]
fn flags_decide_what_can_be_placed() {
    scenario("flags", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let skipped = ctx.another_namespace("hub", "skipped").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        let secret: Secret = serde_json::from_value(json!({ "metadata": { "name": "hidden" } }))?;
        ctx.create_in("hub", &namespace, secret).await?;
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": { "name": "claim" },
            "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
        }))?;
        ctx.create_in("hub", &namespace, claim).await?;
        let whole =
            |name: &str| json!({ "resourceSelectors": [core_selector("Namespace", name)], "policy": nowhere() });

        let skip = format!("--skipped-propagating-namespaces=other, {skipped}");
        let flags = ["--enable-workload=true", &skip, "--skipped-propagating-apis=v1/Secret"];
        with_hub_flags(ctx.fleet(), &flags, async || {
            let crp = Crp::create(&ctx, "whole", &whole(&namespace)).await?;
            let status = crp.until_step("Scheduled", "True").await?;
            let expected = [
                format!("Namespace {namespace}"),
                format!("ConfigMap {namespace}/settings"),
            ];
            ensure!(selected(&status) == expected, "{:?}", selected(&status));
            let crp = Crp::create(&ctx, "skipped", &whole(&skipped)).await?;
            let status = crp.until_step("Scheduled", "False").await?;
            let said = format!("namespace {skipped} is not allowed to propagate");
            ensure!(status.conditions[0].message.ends_with(&said), "{:?}", status.conditions);
            Ok(())
        })
        .await?;

        with_hub_flags(ctx.fleet(), &["--allowed-propagating-apis=v1/ConfigMap"], async || {
            let crp = Crp::create(&ctx, "nothing", &whole(&namespace)).await?;
            let status = crp.until_step("Scheduled", "True").await?;
            ensure!(status.selected_resources.is_empty(), "{:?}", selected(&status));
            Ok(())
        })
        .await
    });
}

#[test]
fn the_flags_of_the_snapshot_delay_are_obeyed() {
    const DETECTED: &str = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time";
    scenario("delay", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "0")).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let edit = async |value: &str| {
            let edit = Patch::Merge(json!({ "data": { "key": value } }));
            maps.patch("settings", &PatchParams::default(), &edit).await
        };
        let flags = |interval: &str, collection: &str| {
            [
                format!("--resource-snapshot-creation-minimum-interval={interval}"),
                format!("--resource-changes-collection-duration={collection}"),
            ]
        };
        with_hub_flags(ctx.fleet(), &flags("8s", "3s"), async || {
            let crp = Crp::create(&ctx, "waits", &spec).await?;
            let before = crp.until_available(0).await?;
            edit("1").await?;
            let noted = crp
                .until_made("noted", |list: &[ClusterResourceSnapshot]| {
                    list.len() == 1 && list[0].annotations().contains_key(DETECTED)
                })
                .await?;
            edit("2").await?;
            let waiting = crp.status().await?;
            ensure!(waiting.observed_resource_index == "0", "{waiting:?}");
            ensure!(waiting.selected_resources == before.selected_resources, "{waiting:?}");
            let made = crp
                .until_made("made", |list: &[ClusterResourceSnapshot]| list.len() == 2)
                .await?;
            let times: Vec<_> = made
                .iter()
                .filter_map(ResourceExt::creation_timestamp)
                .map(|time| time.0)
                .collect();
            let gap = times[1].duration_since(times[0]).abs();
            ensure!((7..=11).contains(&gap.as_secs()), "made after {gap:?}");
            let newest = made
                .iter()
                .find(|s| s.name_any().ends_with("-1-snapshot"))
                .context("the next index")?;
            let text = newest
                .spec
                .selected_resources
                .iter()
                .find(|text| text.as_str().contains("settings"));
            ensure!(
                text.is_some_and(|text| text.as_str().contains("\"key\":\"2\"")),
                "both edits in one: {text:?}"
            );
            ensure!(noted[0].name_any().ends_with("-0-snapshot"), "{noted:?}");
            Ok(())
        })
        .await?;

        with_hub_flags(ctx.fleet(), &flags("0s", "0s"), async || {
            let crp = Crp::create(&ctx, "hastes", &spec).await?;
            crp.until_available(0).await?;
            for (value, index) in [("3", 1), ("4", 2), ("5", 3)] {
                edit(value).await?;
                crp.until_available(index).await?;
            }
            let made = crp.made::<ClusterResourceSnapshot>().await?;
            ensure!(
                made.len() == 4 && made.iter().all(|s| !s.annotations().contains_key(DETECTED)),
                "{made:?}"
            );
            Ok(())
        })
        .await
    });
}

#[test]
fn without_their_flag_namespaced_placements_cause_nothing() {
    scenario("flag-off", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let inside = spec(&json!([core_selector("ConfigMap", "settings")]), &cast.everywhere());
        let mut made = None;
        with_hub_flags(ctx.fleet(), &["--enable-resource-placement=false"], async || {
            let rp = Rp::create(&ctx, &namespace, "rp", &inside).await?;
            // One of the other kind that is made later is through.
            let marker = spec(&whole_namespace(&namespace), &cast.everywhere());
            Crp::create(&ctx, "marker", &marker).await?.until_available(0).await?;
            let untouched = rp.get().await?;
            ensure!(
                untouched.finalizers().is_empty() && untouched.status.is_none(),
                "{untouched:?}"
            );
            ensure!(
                rp.made::<SchedulingPolicySnapshot>().await?.is_empty(),
                "a policy snapshot"
            );
            ensure!(rp.made::<ResourceSnapshot>().await?.is_empty(), "a resource snapshot");
            made = Some(rp);
            Ok(())
        })
        .await?;
        made.context("it was made")?.until_available(0).await?;
        Ok(())
    });
}

/// Nobody checks that whoever wraps a RoleBinding or patches one has the rights that it grants.
#[test]
fn rights_come_out_of_a_namespace_only_if_the_operator_allows_it() {
    scenario("flag-rbac", |ctx| async move {
        let tenant = Tenant::new(&ctx).await?;
        let namespace = tenant.namespace.clone();
        let group = "rbac.authorization.k8s.io";
        let grant = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding",
            "metadata": { "name": "grant", "namespace": namespace },
            "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": "edit" },
            "subjects": [{ "apiGroup": group, "kind": "User", "name": tenant.name }],
        });
        let body = json!({ "data": { "grant": grant } });
        tenant.create::<ResourceEnvelope>("env", body).await?;
        let selector = json!([{
            "group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ResourceEnvelope", "name": "env",
        }]);
        let at_once = rolling(&json!("100%"), &json!("100%"));
        let there: Api<RoleBinding> = Api::namespaced(ctx.client("member-1").await?, &namespace);
        let forbidding = json!({ "forbidRBACInNamespacedPlacements": true });
        with_hub_values(ctx.fleet(), &forbidding, &[] as &[&str], async || {
            let rp = tenant.place(&ctx.name("rp"), &selector, "member-1", &at_once).await?;
            let text = format!(
                "Failed to synchronize the work to the latest: RoleBinding \"grant\" in namespace \"{namespace}\" would grant \
                 rights on members, which this hub does not allow in what is placed by a ResourcePlacement; have an \
                 administrator place it by a ClusterResourcePlacement"
            );
            rp.until_bindings("refused", |all| {
                let said = all.first().and_then(|binding| bound(binding, "WorkSynchronized"));
                said.is_some_and(|c| c.status == "False" && c.message == text)
            })
            .await?;
            ensure!(rp.works().await?.is_empty() && there.get_opt("grant").await?.is_none());
            Ok(())
        })
        .await?;
        // By design, unless the operator says otherwise.
        wait::until_present(there, "grant", "placed", |_| true).await?;
        tenant.is_powerless().await
    });
}

#[test]
fn without_their_flag_namespaced_placements_can_still_be_deleted() {
    scenario("flag-end", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let inside = spec(&json!([core_selector("ConfigMap", "settings")]), &cast.everywhere());
        let (gone, kept) = (
            Rp::create(&ctx, &namespace, "gone", &inside).await?,
            Rp::create(&ctx, &namespace, "kept", &inside).await?,
        );
        gone.until_available(0).await?;
        kept.until_available(0).await?;
        with_hub_flags(ctx.fleet(), &["--enable-resource-placement=false"], async || {
            gone.delete().await?;
            gone.until_gone().await?;
            gone.until_works("none", <[_]>::is_empty).await?;
            gone.until_bindings("none", <[_]>::is_empty).await?;
            ensure!(gone.made::<ResourceSnapshot>().await?.is_empty(), "a snapshot");
            ensure!(kept.bindings().await?.len() == 1, "the other's binding went too");
            ensure!(kept.works().await?.len() == 1, "the other's Work went too");
            Ok(())
        })
        .await
    });
}
