//! The client CA of the hub changes: whom it no longer trusts it no longer serves.

use anyhow::{Context as _, Result};
use fleet_e2e::cluster::certs::Pki;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::Member;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::{fleet_members, undisturbed};

/// Where the hub's API server tells whom it trusts. It keeps the object itself, so what a test writes there does not stay.
const NAME: &str = "extension-apiserver-authentication";

async fn trust(ctx: &Ctx, ca: &str) -> Result<()> {
    let maps = Api::<ConfigMap>::namespaced(ctx.hub().await?, "kube-system");
    let patch = Patch::Merge(json!({"data": {"client-ca-file": ca}}));
    maps.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[test]
fn a_session_by_certificate_ends_when_its_ca_is_no_longer_trusted() {
    scenario("ca-gone", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let member = Member::create_user(&ctx, "m").await?;
        member.ready().await?;
        ctx.start_process(member.agent_with_certificate("member-1").await?)
            .await?;
        member.joined().await?;
        let maps = Api::<ConfigMap>::namespaced(ctx.hub().await?, "kube-system");
        let trusted = maps.get(NAME).await?.data.unwrap_or_default();
        let trusted = trusted
            .get("client-ca-file")
            .cloned()
            .context("the hub trusts nobody")?;
        let authorities = tempfile::tempdir()?;
        let other = Pki::create(&authorities.path().join("other"), "other")?.read("ca.crt")?;
        trust(&ctx, &other).await?;
        // At once, and not at the next look at the credential.
        let told = member.until_log("member-1", "the client certificate is not accepted");
        tokio::time::timeout(std::time::Duration::from_secs(15), told)
            .await
            .context("the session goes on")??;
        trust(&ctx, &trusted).await?;
        member.next_beat().await?;
        // Sessions by token never noticed.
        undisturbed(&ctx, &before).await
    });
}
