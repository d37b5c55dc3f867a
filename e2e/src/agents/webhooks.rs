//! Hub agents that serve webhooks.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{stable_port, with_hub_values};
use crate::fleet::Fleet;
use crate::wait;

/// Where the first replica serves webhooks.
pub fn webhook_address(fleet: &Fleet) -> Result<String> {
    Ok(format!("127.0.0.1:{}", stable_port(fleet, "webhook")?))
}

/// Tells a story with a hub agent that serves webhooks, as it does by default elsewhere. Afterwards there are none.
pub async fn with_webhooks(fleet: &Fleet, story: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    with_webhooks_and(fleet, &[""; 0], story).await
}

/// The same with further flags.
pub async fn with_webhooks_and(
    fleet: &Fleet,
    flags: &[impl AsRef<str>],
    story: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let kubectl = fleet.kubectl("hub")?;
    // What the chart installs in their place, and installs again with the agent that comes after.
    let instead = [
        "delete",
        "validatingadmissionpolicybinding",
        "fleet-override",
        "--ignore-not-found",
    ];
    kubectl.ok(&instead).await?;
    let outcome = with_hub_values(fleet, &json!({"enableWebhook": true}), flags, story).await;
    let gone = [
        "wait",
        "--for=delete",
        "--timeout=60s",
        "validatingwebhookconfiguration/fleet-validating-webhook-configuration",
        "mutatingwebhookconfiguration/fleet-mutating-webhook-configuration",
    ];
    kubectl.ok(&gone).await?;
    outcome
}

/// Waits until whoever listens there serves under this CA, and no other.
pub async fn until_served_under(address: &str, ca: &[u8]) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca)?)?;
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let served = async {
        loop {
            let name = ServerName::try_from("127.0.0.1")?;
            let stream = TcpStream::connect(address).await?;
            if connector.connect(name, stream).await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let served = tokio::time::timeout(wait::PATIENCE, served).await;
    served.with_context(|| format!("{address} does not serve under the new CA"))?
}
