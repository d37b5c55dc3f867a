//! The ClusterProfile of a member.

use anyhow::{Result, ensure};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::Member;
use fleet_e2e::wait;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::json;

/// ClusterProfiles in the hub agent's namespace.
pub(crate) async fn profiles(ctx: &Ctx) -> Result<Api<DynamicObject>> {
    let gvk = GroupVersionKind::gvk("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile");
    let kind = ApiResource::from_gvk(&gvk);
    Ok(Api::namespaced_with(ctx.hub().await?, "fleet-system", &kind))
}

#[test]
fn a_profile_comes_with_joining_is_kept_and_goes_with_the_member_cluster() {
    scenario("profile", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.until_condition("Joined", "Unknown").await?;
        let api = profiles(&ctx).await?;
        ensure!(api.get_opt(&member.name).await?.is_none(), "a profile before it joined");

        let _scripted = member.join_scripted().await?;
        let made = wait::until_present(api.clone(), &member.name, "exists", |_| true).await?;
        ensure!(
            made.labels()
                .get("x-k8s.io/cluster-manager")
                .is_some_and(|v| v == "KubeFleet"),
            "{made:?}"
        );
        ensure!(made.data["spec"]["clusterManager"]["name"] == "KubeFleet", "{made:?}");
        ensure!(made.data["spec"]["displayName"] == member.name.as_str(), "{made:?}");

        let edit = json!({"spec": {"displayName": "mine"}});
        api.patch(&member.name, &PatchParams::default(), &Patch::Merge(edit))
            .await?;
        wait::until_present(api.clone(), &member.name, "its name back", |p| {
            p.data["spec"]["displayName"] == member.name.as_str()
        })
        .await?;
        api.delete(&member.name, &DeleteParams::default()).await?;
        wait::until_present(api.clone(), &member.name, "made again", |p| p.uid() != made.uid()).await?;

        // At once, before the member has left.
        member.delete().await?;
        wait::until_gone(api, &member.name).await?;
        ensure!(member.get().await.is_ok(), "the member has not left yet");
        // Both finalizers come off in the end.
        member.until_gone().await?;
        Ok(())
    });
}

#[test]
fn a_profile_says_what_is_known_of_a_real_cluster() {
    scenario("profile-real", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-1").await?;
        let profile = wait::until_present(profiles(&ctx).await?, &member.name, "facts", |p| {
            p.data["status"]["version"]["kubernetes"].is_string()
        })
        .await?;
        let version = ctx.client("member-1").await?.apiserver_version().await?.git_version;
        ensure!(
            profile.data["status"]["version"]["kubernetes"] == version.as_str(),
            "{profile:?}"
        );
        let access = &profile.data["status"]["accessProviders"][0];
        ensure!(access["name"] == "KubeFleet", "{profile:?}");
        ensure!(
            access["cluster"]["server"]
                .as_str()
                .is_some_and(|s| s.starts_with("https://")),
            "{profile:?}"
        );
        ensure!(
            access["cluster"]["certificate-authority-data"].is_string(),
            "{profile:?}"
        );
        let conditions = profile.data["status"]["conditions"].to_string();
        ensure!(conditions.contains("MemberClusterAPIServerHealthy"), "{conditions}");
        Ok(())
    });
}
