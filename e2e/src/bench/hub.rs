//! The hub agent under measurement, and what it says about itself.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::audit::{Log, Mark, Request};
use crate::agents::{self, HUB_AGENT, NAMESPACE};
use crate::binaries;
use crate::cluster::ports;
use crate::fleet::Fleet;

/// How long a cluster of a run may take before the run says that it is stuck.
pub(super) const STUCK: Duration = Duration::from_secs(10);

/// A fleet whose hub agent runs.
pub struct Hub {
    /// The fleet.
    pub fleet: Fleet,
    /// A client with all rights on the hub.
    pub client: kube::Client,
    /// The hub's audit log.
    pub log: Log,
    /// For charts.
    pub helm: PathBuf,
    metrics: u16,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("fleet", &self.fleet)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// Starts the hub agent.
    pub async fn start(fleet: &Fleet) -> Result<Self> {
        let (helm, metrics) = (binaries::find_or_build_helm().await?, ports::free_port()?);
        let args = [
            format!("--metrics-bind-address=127.0.0.1:{metrics}"),
            // As installed, not in the haste of tests.
            "--cluster-unhealthy-threshold=3m".to_owned(),
            format!("--update-run-stuck-threshold={}s", STUCK.as_secs()),
        ];
        agents::start_hub_agent(fleet, &helm, HUB_AGENT, &args).await?;
        super::progress("hub-agent runs");
        Ok(Self {
            client: fleet.client("hub").await?,
            log: Log::of_hub(fleet)?,
            fleet: fleet.clone(),
            helm,
            metrics,
        })
    }

    /// What the hub agent has asked its API server for since then.
    pub fn requests(&self, since: Mark) -> Result<Vec<Request>> {
        let user = format!("system:serviceaccount:{NAMESPACE}:{}-sa", "hub-agent");
        self.log.since(since, &user)
    }

    /// Messages from members by type, as the hub agent has counted them.
    pub async fn messages(&self) -> Result<Messages> {
        let page = timeout(Duration::from_secs(10), self.page()).await??;
        Ok(Messages::parse(&page))
    }

    async fn page(&self) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.metrics)).await?;
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).await?;
        let mut text = String::new();
        stream
            .read_to_string(&mut text)
            .await
            .context("the hub agent's metrics")?;
        Ok(text)
    }
}

/// Messages by type.
#[derive(Debug, Clone, Default)]
pub struct Messages(BTreeMap<String, usize>);

impl Messages {
    fn parse(page: &str) -> Self {
        let parse = |line: &str| {
            let (kind, value) = line
                .strip_prefix("fleet_channel_messages_total{type=\"")?
                .split_once("\"} ")?;
            Some((kind.to_owned(), value.trim().parse().ok()?))
        };
        Self(page.lines().filter_map(parse).collect())
    }

    /// Messages of a type since an earlier look.
    pub fn since(&self, before: &Self, kind: &str) -> usize {
        let of = |messages: &Self| messages.0.get(kind).copied().unwrap_or_default();
        of(self).saturating_sub(of(before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_the_metrics() {
        let page =
            "# TYPE x counter\nfleet_channel_messages_total{type=\"heartbeat\"} 7\nfleet_channel_messages_created 1\n";
        let messages = Messages::parse(page);
        assert_eq!(messages.since(&Messages::default(), "heartbeat"), 7);
        assert_eq!(messages.since(&messages, "heartbeat"), 0);
    }
}
