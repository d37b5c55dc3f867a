//! How to see that a process is ready: a probe of what it serves. A starting process sends no event to wait for, so this
//! asks every few milliseconds; it is the one place in the launcher that does.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

/// Between two questions. Twenty starting processes times ten questions a second are not felt.
const PAUSE: Duration = Duration::from_millis(100);
/// A busy server that does not answer in this time is asked again.
const PATIENCE: Duration = Duration::from_secs(5);

/// The sign that a process is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ready {
    /// None: it is ready when it runs.
    #[default]
    Started,
    /// Something accepts connections at this address.
    Tcp(String),
    /// This address answers 2xx.
    Http {
        /// Scheme, host and port.
        server: String,
        /// What to ask for.
        path: String,
        /// The certificate authority of an https server.
        ca: Option<PathBuf>,
    },
    /// This text appears in its log.
    LogLine {
        /// The log.
        log: PathBuf,
        /// The text.
        text: String,
    },
}

impl Ready {
    /// Waits for the sign, for ever.
    pub async fn wait(&self) -> Result<()> {
        match self {
            Self::Started => Ok(()),
            Self::Tcp(address) => {
                while TcpStream::connect(address).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(())
            }
            Self::Http { server, path, ca } => {
                // Before the port is open a TLS client is not worth its while.
                let address = server.split("//").nth(1).unwrap_or(server);
                while TcpStream::connect(address).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
                let client = client(server, ca.as_deref())?;
                loop {
                    let request = http_get(path)?;
                    if let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, client.request_text(request)).await {
                        return Ok(());
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Self::LogLine { log, text } => {
                while !std::fs::read_to_string(log).unwrap_or_default().contains(text) {
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(())
            }
        }
    }
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

/// An anonymous client: health endpoints are open to everybody who can reach the port.
fn client(server: &str, ca: Option<&std::path::Path>) -> Result<kube::Client> {
    crate::install_crypto_provider();
    let mut config = kube::Config::new(server.parse().with_context(|| format!("{server} is no address"))?);
    if let Some(ca) = ca {
        config.root_cert_file = Some(ca.to_owned());
    }
    Ok(kube::Client::try_from(config)?)
}
