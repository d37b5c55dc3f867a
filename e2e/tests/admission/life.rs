//! The webhooks' own life: their certificate is renewed, and they are away.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourcePlacement, ClusterResourcePlacementEviction};
use fleet_e2e::agents::{self, HUB_AGENT, NAMESPACE, with_webhooks};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::wait;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::watch;

pub(crate) const SECRET: &str = "fleet-webhook-tls";

pub(crate) fn crp(name: &str) -> Result<ClusterResourcePlacement> {
    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "r"});
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"resourceSelectors": [role]}}),
    )?)
}

#[test]
fn while_nobody_answers_the_hub_recovers_and_says_what_is_refused() {
    scenario("away", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        with_webhooks(ctx.fleet(), async || {
            ctx.create("hub", crp(&ctx.name("there"))?).await?;
            ctx.fleet().stop_process(HUB_AGENT).await?;
            let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
            // What needs the webhooks is refused, and it is said why.
            let refused = crps.create(&PostParams::default(), &crp(&ctx.name("new"))?).await;
            let said = refused.err().context("nobody judged it")?.to_string();
            let webhook = "failed calling webhook \"fleet.clusterresourceplacementv1beta1.validating\"";
            ensure!(said.contains(webhook), "{said}");
            // What a controller judges again is not.
            let eviction =
                json!({"metadata": {"name": ctx.name("e")}, "spec": {"placementName": "p", "clusterName": "c"}});
            ctx.create::<ClusterResourcePlacementEviction>("hub", serde_json::from_value(eviction)?)
                .await?;
            // What leaves the spec alone, and all that a hub needs to recover, does not meet them.
            let meta = json!({"metadata": {"labels": {"a": "b"}, "finalizers": null}});
            crps.patch(&ctx.name("there"), &PatchParams::default(), &Patch::Merge(meta))
                .await?;
            crps.delete(&ctx.name("there"), &DeleteParams::default()).await?;
            let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "m"}}))?;
            ctx.create_in("hub", &namespace, map).await?;
            let lease: Lease = serde_json::from_value(json!({"metadata": {"name": "l"}}))?;
            ctx.create_in("hub", NAMESPACE, lease).await?;
            ctx.another_namespace("hub", "more").await?;
            Ok(())
        })
        .await
    });
}

#[test]
fn certificates_are_renewed_under_load_without_one_refusal() {
    scenario("renewal", |ctx| async move {
        with_webhooks(ctx.fleet(), async || {
            let (done, sent) = (AtomicBool::new(false), watch::Sender::new(0_usize));
            let load = async {
                let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
                let dry = PostParams {
                    dry_run: true,
                    ..PostParams::default()
                };
                while !done.load(Ordering::Relaxed) {
                    crps.create(&dry, &crp(&ctx.name("load"))?)
                        .await
                        .context("a right placement was refused")?;
                    sent.send_modify(|count| *count += 1);
                }
                anyhow::Ok(())
            };
            let renewals = async {
                let outcome = renew(&ctx, &sent).await;
                done.store(true, Ordering::Relaxed);
                outcome
            };
            let (loaded, renewed) = tokio::join!(load, renewals);
            loaded?;
            renewed
        })
        .await
    });
}

/// What a Secret has under this name.
pub(crate) fn field(secret: &Secret, name: &str) -> Vec<u8> {
    let found = secret.data.as_ref().and_then(|data| data.get(name));
    found.map(|value| value.0.clone()).unwrap_or_default()
}

/// A new leaf, then a new CA too.
async fn renew(ctx: &Ctx, sent: &watch::Sender<usize>) -> Result<()> {
    let secrets = Api::<Secret>::namespaced(ctx.hub().await?, NAMESPACE);
    let first = secrets.get(SECRET).await?;
    let damaged = json!({"stringData": {"tls.crt": "garbage"}});
    secrets
        .patch(SECRET, &PatchParams::default(), &Patch::Merge(damaged))
        .await?;
    let second = wait::until_present(secrets.clone(), SECRET, "renewed", |secret| {
        let leaf = field(secret, "tls.crt");
        leaf != b"garbage" && leaf != field(&first, "tls.crt")
    })
    .await?;
    ensure!(
        field(&second, "ca.crt") == field(&first, "ca.crt"),
        "the CA outlives the leaf"
    );
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    let third = wait::until_present(secrets, SECRET, "made anew", |secret| {
        let ca = field(secret, "ca.crt");
        !ca.is_empty() && ca != field(&first, "ca.crt")
    })
    .await?;
    // Both are trusted while replicas change over.
    let configurations =
        Api::<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration>::all(ctx.hub().await?);
    let trusts = |bundle: &[u8], ca: &[u8]| bundle.windows(ca.len()).any(|part| part == ca);
    wait::until_present(
        configurations,
        "fleet-validating-webhook-configuration",
        "trusts both",
        |found| {
            let hook = found.webhooks.iter().flatten().next();
            let bundle = hook
                .and_then(|hook| hook.client_config.ca_bundle.clone())
                .map(|b| b.0)
                .unwrap_or_default();
            trusts(&bundle, field(&third, "ca.crt").trim_ascii())
                && trusts(&bundle, field(&first, "ca.crt").trim_ascii())
        },
    )
    .await?;
    agents::until_served_under(&agents::webhook_address(ctx.fleet())?, &field(&third, "ca.crt")).await?;
    // Under the new one, too.
    let before = *sent.borrow();
    let mut counted = sent.subscribe();
    let more = counted.wait_for(|count| *count >= before + 50);
    tokio::time::timeout(wait::PATIENCE, more)
        .await
        .context("the load stopped")??;
    Ok(())
}
