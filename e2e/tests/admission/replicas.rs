//! Two replicas of the hub agent: one that does not lead answers too, and both serve with the same certificate.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ClusterResourcePlacement;
use fleet_e2e::agents::{self, NAMESPACE, with_webhooks_and};
use fleet_e2e::cluster::ports;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::{binaries, wait};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::life::{SECRET, crp, field};

fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

/// What is said of a placement that is wrong.
async fn refusal(ctx: &Ctx) -> Result<String> {
    let mut wrong = crp(&ctx.name("wrong"))?;
    "Nothing".clone_into(&mut wrong.spec.resource_selectors[0].kind);
    let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
    match crps.create(&dry(), &wrong).await {
        Err(kube::Error::Api(status)) => Ok(status.message),
        other => anyhow::bail!("not refused: {other:?}"),
    }
}

#[test]
fn a_replica_that_does_not_lead_answers_while_certificates_are_renewed() {
    scenario("followers", |ctx| async move {
        let (fleet, port) = (ctx.fleet(), ports::free_port()?);
        // The API server is told where the other one listens, and nothing else: all that is answered, it answers.
        let address = format!("127.0.0.1:{port}");
        let advertised = format!("--webhook-advertise-address={address}");
        with_webhooks_and(fleet, std::slice::from_ref(&advertised), async || {
            let second = format!("hub/{}", ctx.name("replica"));
            let further = [
                "--pod-name=replica".to_owned(),
                format!("--webhook-bind-address={address}"),
                advertised.clone(),
            ];
            let (helm, values) = (binaries::find_or_build_helm().await?, json!({"enableWebhook": true}));
            agents::start_hub_agent_with(fleet, &helm, &second, &values, &further).await?;
            let outcome = story(&ctx, &address).await;
            fleet.stop_process(&second).await?;
            outcome
        })
        .await
    });
}

async fn story(ctx: &Ctx, second: &str) -> Result<()> {
    let said = refusal(ctx).await?;
    ensure!(said.contains("no matches for kind \"Nothing\""), "{said}");

    let (done, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let load = async {
        let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
        while !done.load(Ordering::Relaxed) {
            crps.create(&dry(), &crp(&ctx.name("load"))?)
                .await
                .context("a right placement was refused")?;
            sent.fetch_add(1, Ordering::Relaxed);
        }
        anyhow::Ok(())
    };
    let renewal = async {
        let outcome = renew(ctx, second).await;
        done.store(true, Ordering::Relaxed);
        outcome
    };
    let (loaded, renewed) = tokio::join!(load, renewal);
    loaded?;
    renewed?;
    ensure!(sent.load(Ordering::Relaxed) > 0, "nothing was sent meanwhile");
    let said = refusal(ctx).await?;
    ensure!(said.contains("no matches for kind \"Nothing\""), "{said}");
    Ok(())
}

/// The Secret that both share is damaged, then deleted: both, the other one at this address, serve what the leader makes.
async fn renew(ctx: &Ctx, second: &str) -> Result<()> {
    let secrets = Api::<Secret>::namespaced(ctx.hub().await?, NAMESPACE);
    let first = secrets.get(SECRET).await?;
    let damaged = Patch::Merge(json!({"stringData": {"tls.crt": "garbage"}}));
    secrets.patch(SECRET, &PatchParams::default(), &damaged).await?;
    let another = |secret: &Secret, name: &str| {
        let now = field(secret, name);
        !now.is_empty() && now != b"garbage" && now != field(&first, name)
    };
    wait::until_present(secrets.clone(), SECRET, "renewed", |secret| another(secret, "tls.crt")).await?;
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    let last = wait::until_present(secrets, SECRET, "made anew", |secret| another(secret, "ca.crt")).await?;
    for address in [&*agents::webhook_address(ctx.fleet())?, second] {
        agents::until_served_under(address, &field(&last, "ca.crt")).await?;
    }
    Ok(())
}
