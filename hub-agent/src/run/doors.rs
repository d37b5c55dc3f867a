//! What the agent serves: health and metrics, and the members' channel with its certificate.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::{Context as _, bail};
use fleet_runtime::{
    admin::{Pages, Server},
    health::Health,
    metrics::Metrics,
    options::{AdminArgs, Bind, Hub},
    shutdown::Tasks,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::{
    certificates::{self, Source, Tls},
    options::ChannelArgs,
};

/// Health and metrics, each at its address; beside health what people may look at, if it was asked for.
pub(super) async fn serve_pages(
    admin: &AdminArgs<Hub>,
    health: &Health,
    metrics: &Metrics,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let pages = Pages {
        health: Some(health.clone()),
        dump: admin.enable_debug_dump.then(|| metrics.dump().clone()),
        ..Pages::default()
    };
    if let Some(server) = Server::bind(&admin.health_probe_bind_address, pages).await? {
        tasks.spawn_forever("health server", server.serve(stop.clone()));
    }
    let pages = Pages {
        metrics: Some(metrics.clone()),
        ..Pages::default()
    };
    if let Some(server) = Server::bind(&admin.metrics_bind_address, pages).await? {
        tasks.spawn_forever("metrics server", server.serve(stop.clone()));
    }
    Ok(())
}

/// Readiness says whether members can connect.
pub(super) fn serving_check(health: &Health, mut tls: watch::Receiver<Option<Tls>>, tasks: &mut Tasks) {
    let check = health.check("channel");
    check.not_ready("there is no serving certificate yet");
    tasks.spawn_endless("channel readiness", async move {
        if tls.wait_for(Option::is_some).await.is_ok() {
            check.ready();
        }
        std::future::pending::<()>().await;
    });
}

/// Where the channel's certificate comes from.
pub(super) fn certificate_source(channel: &ChannelArgs, namespace: &str) -> Source {
    let ChannelArgs {
        channel_cert_file,
        channel_key_file,
        channel_ca_file,
        channel_certificate_secret,
        channel_bind_address: _,
        channel_advertise_address,
        channel_host,
    } = channel;
    match (
        channel_cert_file,
        channel_key_file,
        channel_ca_file,
        channel_certificate_secret,
    ) {
        (Some(cert), Some(key), Some(ca), _) => Source::Files {
            cert: cert.clone(),
            key: key.clone(),
            ca: ca.clone(),
        },
        (.., Some(name)) => Source::Secret {
            namespace: namespace.to_owned(),
            name: name.clone(),
        },
        _ => Source::Own {
            namespace: namespace.to_owned(),
            hosts: certificates::hosts(channel_advertise_address, channel_host),
        },
    }
}

/// Opens the port that a flag asks for. Go's `:port` means every address of both families, or of IPv4 where there is no
/// IPv6.
pub(super) async fn listen(flag: &str, bind: &Bind) -> anyhow::Result<TcpListener> {
    let open = async |address: SocketAddr| {
        let listener = TcpListener::bind(address).await;
        listener.with_context(|| format!("cannot listen on {address}; choose another --{flag}"))
    };
    match bind {
        Bind::Off => bail!("--{flag}: an address is needed"),
        Bind::Port(port) => match open((Ipv6Addr::UNSPECIFIED, *port).into()).await {
            Ok(listener) => Ok(listener),
            Err(_) => open((Ipv4Addr::UNSPECIFIED, *port).into()).await,
        },
        Bind::Address(address) => {
            let mut found = tokio::net::lookup_host(address)
                .await
                .with_context(|| format!("--{flag}: cannot resolve {address}"))?;
            let address = found.next();
            open(address.with_context(|| format!("--{flag}: the host has no address"))?).await
        }
    }
}
