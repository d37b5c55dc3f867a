//! Free ports on loopback.
//!
//! They are taken from below the range the kernel hands out to outgoing connections: a port from that range can be gone
//! when a component is restarted, because some client got it as its source port meanwhile. Nothing is reserved between
//! the look and the start of the component; whoever starts a cluster tries again with new ports when one was lost.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// The ports of one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ports {
    /// etcd, for clients.
    pub etcd: u16,
    /// etcd, for peers; there are none, but it insists on listening.
    pub etcd_peer: u16,
    /// kube-apiserver.
    pub apiserver: u16,
    /// kube-controller-manager, health and metrics.
    pub controller_manager: u16,
    /// kube-scheduler, health and metrics.
    pub scheduler: u16,
    /// kwok, health.
    pub kwok: u16,
}

impl Ports {
    /// Six ports that are free now.
    pub fn free() -> Result<Self> {
        // All six stay bound until the last one is found, so that they differ.
        let mut held = Vec::new();
        let mut next = || -> Result<u16> {
            let listener = bind()?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            Ok(port)
        };
        Ok(Self {
            etcd: next()?,
            etcd_peer: next()?,
            apiserver: next()?,
            controller_manager: next()?,
            scheduler: next()?,
            kwok: next()?,
        })
    }
}

/// One port that is free now, for an agent or a test server.
pub fn free_port() -> Result<u16> {
    Ok(bind()?.local_addr()?.port())
}

fn bind() -> Result<TcpListener> {
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok();
    let range = range(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default());
    (0..100)
        .find_map(|_| bind(fastrand::u16(range.clone())))
        .or_else(|| bind(0))
        .context("no free port on 127.0.0.1")
}

/// From 10000, above the well-known services, to the first port of outgoing connections.
fn range(local_port_range: &str) -> RangeInclusive<u16> {
    const LOWEST: u16 = 10_000;
    match local_port_range
        .split_whitespace()
        .next()
        .and_then(|low| low.parse::<u16>().ok())
    {
        Some(low) if low > LOWEST + 1000 => LOWEST..=low - 1,
        // Outgoing connections use nearly everything; then no choice is better than another.
        _ => LOWEST..=60_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_differ() {
        let p = Ports::free().unwrap();
        let all = std::collections::BTreeSet::from([
            p.etcd,
            p.etcd_peer,
            p.apiserver,
            p.controller_manager,
            p.scheduler,
            p.kwok,
        ]);
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn the_range_stays_below_outgoing_connections() {
        assert_eq!(range("32768\t60999\n"), 10_000..=32_767);
        assert_eq!(range("1024 65000"), 10_000..=60_000);
        assert_eq!(range(""), 10_000..=60_000);
    }
}
