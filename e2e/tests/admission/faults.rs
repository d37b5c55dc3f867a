//! Something is wrong with whoever answers for the webhooks: what is refused says so, everything else goes on, and the
//! agent comes back by itself.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::ClusterResourcePlacement;
use fleet_e2e::agents::chart::Chart;
use fleet_e2e::agents::{self, HUB_AGENT, NAMESPACE, with_webhooks};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::{binaries, wait};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod, Secret};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::life::crp;

const VALIDATING: &str = "fleet-validating-webhook-configuration";

/// Who is there in the agent's place.
#[derive(Debug, Clone, Copy)]
enum InItsPlace {
    Nobody,
    /// Somebody with a certificate that is not trusted.
    Stranger,
    /// Somebody with one that was.
    Expired,
    /// Somebody who takes connections and says nothing.
    Silence,
}

impl InItsPlace {
    /// Serves until it is ended; whoever is trusted is registered as such.
    async fn begin(self, ctx: &Ctx) -> Result<Option<JoinHandle<()>>> {
        if matches!(self, Self::Nobody) {
            return Ok(None);
        }
        let listener = TcpListener::bind(agents::webhook_address(ctx.fleet())?).await?;
        if matches!(self, Self::Silence) {
            return Ok(Some(tokio::spawn(async move {
                let mut held = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    held.push(stream);
                }
            })));
        }
        let mut params = rcgen::CertificateParams::new(["127.0.0.1".to_owned()])?;
        if matches!(self, Self::Expired) {
            params.not_before = rcgen::date_time_ymd(2020, 1, 1);
            params.not_after = rcgen::date_time_ymd(2021, 1, 1);
        }
        let key = rcgen::KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        if matches!(self, Self::Expired) {
            trust_only(ctx, &certificate.pem()).await?;
        }
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Some(tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _refused = acceptor.accept(stream).await;
            }
        })))
    }
}

/// Writes another CA into the registration, as whoever breaks it would.
async fn trust_only(ctx: &Ctx, pem: &str) -> Result<()> {
    let api = Api::<ValidatingWebhookConfiguration>::all(ctx.hub().await?);
    let mut found = api.get(VALIDATING).await?;
    for hook in found.webhooks.iter_mut().flatten() {
        hook.client_config.ca_bundle = Some(ByteString(pem.as_bytes().to_vec()));
    }
    api.replace(VALIDATING, &PostParams::default(), &found).await?;
    Ok(())
}

fn dry() -> PostParams {
    PostParams {
        dry_run: true,
        ..PostParams::default()
    }
}

#[test]
fn whatever_is_wrong_with_the_webhooks_the_hub_goes_on_and_the_agent_comes_back() {
    scenario("faults", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        with_webhooks(ctx.fleet(), async || {
            ctx.create("hub", crp(&ctx.name("there"))?).await?;
            ctx.fleet().stop_process(HUB_AGENT).await?;
            for (fault, says) in [
                (InItsPlace::Nobody, "connection refused"),
                (InItsPlace::Stranger, "x509: certificate signed by unknown authority"),
                (InItsPlace::Expired, "x509: certificate has expired or is not yet valid"),
                (InItsPlace::Silence, "context deadline exceeded"),
            ] {
                let serving = fault.begin(&ctx).await?;
                let outcome = meanwhile(&ctx, &namespace, says).await;
                if let Some(serving) = serving {
                    serving.abort();
                    let _ = serving.await;
                }
                outcome.with_context(|| format!("{fault:?}"))?;
            }
            let (helm, values) = (binaries::find_or_build_helm().await?, json!({"enableWebhook": true}));
            agents::start_hub_agent_with(ctx.fleet(), &helm, HUB_AGENT, &values, &[]).await?;
            let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
            crps.create(&dry(), &crp(&ctx.name("new"))?)
                .await
                .context("it is ready")?;
            // Also where somebody breaks the registration while it runs.
            let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
            trust_only(&ctx, &other.cert.pem()).await?;
            accepted_again(&ctx).await
        })
        .await
    });
}

/// What needs the webhooks is refused with the reason; nothing else is.
async fn meanwhile(ctx: &Ctx, namespace: &str, says: &str) -> Result<()> {
    let client = ctx.hub().await?;
    let crps = Api::<ClusterResourcePlacement>::all(client.clone());
    let new = crp(&ctx.name("new"))?;
    // The API server hears of another registration a moment later.
    let refused = async {
        loop {
            let said = crps
                .create(&dry(), &new)
                .await
                .err()
                .context("nobody judged it")?
                .to_string();
            let webhook = "failed calling webhook \"fleet.clusterresourceplacementv1beta1.validating\"";
            ensure!(said.contains(webhook), "{said}");
            if said.contains(says) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let refused = tokio::time::timeout(wait::PATIENCE, refused).await;
    refused.with_context(|| format!("{says:?} is never said"))??;

    let there = ctx.name("there");
    let meta = json!({"metadata": {"labels": {"a": "b"}, "finalizers": null}});
    let patch = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    crps.patch(&there, &patch, &Patch::Merge(meta))
        .await
        .context("finalizers")?;
    let delete = DeleteParams {
        dry_run: true,
        ..DeleteParams::default()
    };
    crps.delete(&there, &delete).await.context("a deletion")?;
    let container = json!({"name": "c", "image": "example.com/none"});
    let inside = |namespace: &str| Api::namespaced(client.clone(), namespace);
    created::<Pod>(&inside(NAMESPACE), json!({"spec": {"containers": [container]}})).await?;
    created::<Lease>(&Api::namespaced(client.clone(), NAMESPACE), json!({})).await?;
    created::<Secret>(&Api::namespaced(client.clone(), namespace), json!({})).await?;
    let about = json!({"involvedObject": {"kind": "Secret", "namespace": namespace, "name": "s"}});
    created::<Event>(&Api::namespaced(client.clone(), namespace), about).await?;
    created::<Node>(&Api::all(client.clone()), json!({})).await?;
    created::<Namespace>(&Api::all(client), json!({})).await?;
    // All that an upgrade of the chart writes.
    let helm = binaries::find_or_build_helm().await?;
    let values = agents::hub_values(ctx.fleet(), &json!({"enableWebhook": true}))?;
    let upgraded = Chart::new(&helm, "hub-agent")
        .install(ctx.fleet(), "hub", &values)
        .await;
    upgraded.map(drop).context("an upgrade of the chart")
}

/// Makes one, as a dry run.
async fn created<K>(api: &Api<K>, mut object: Value) -> Result<()>
where
    K: Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    object["metadata"]["name"] = json!("while-nobody-answers");
    let made = api.create(&dry(), &serde_json::from_value(object)?).await;
    made.map(drop).with_context(|| std::any::type_name::<K>())
}

async fn accepted_again(ctx: &Ctx) -> Result<()> {
    let crps = Api::<ClusterResourcePlacement>::all(ctx.hub().await?);
    let new = crp(&ctx.name("new"))?;
    let accepted = async {
        while let Err(error) = crps.create(&dry(), &new).await {
            ensure!(error.to_string().contains("failed calling webhook"), "{error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    };
    tokio::time::timeout(wait::PATIENCE, accepted)
        .await
        .context("the registration stays broken")?
}
