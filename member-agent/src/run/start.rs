//! What has to be there before anything runs.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use fleet_api::placement::AppliedWork;
use fleet_runtime::{
    admin::{Pages, Server},
    health::Health,
    metrics::Metrics,
    options::Bind,
    shutdown::Tasks,
};
use kube::{Api, Client, api::ListParams};
use tokio::time::{sleep, timeout};

use super::until;
use crate::{
    hub_access::credential::{Credential, TokenSource},
    options::Options,
};

/// A token file is there at start, or nothing will ever write it.
pub(super) async fn token_file(path: &std::path::Path) -> anyhow::Result<()> {
    for _ in 0..5 {
        if path.exists() {
            return Ok(());
        }
        sleep(Duration::from_millis(10)).await;
    }
    bail!("cannot find the hub token file {}: check CONFIG_PATH", path.display())
}

/// Without the kind AppliedWork nothing can be applied. An API server that does not answer is another matter: it is
/// reported as unhealthy.
pub(super) async fn applied_works(client: &Client) -> anyhow::Result<()> {
    let api: Api<kube::core::PartialObjectMeta<AppliedWork>> = Api::all(client.clone());
    let one = ListParams::default().limit(1);
    for wait in [10, 50, 250] {
        match timeout(Duration::from_secs(5), api.list(&one)).await {
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => sleep(Duration::from_millis(wait)).await,
            _ => return Ok(()),
        }
    }
    match api.list(&one).await {
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "this cluster does not serve AppliedWork (placement.kubernetes-fleet.io/v1beta1): install its CRD, which the \
             chart member-agent brings"
        ),
        _ => Ok(()),
    }
}

/// Waits a moment for a token that is on its way, so that the first request does not fail for want of it.
pub(super) async fn first_token(credential: &Credential) {
    if let Credential::Token(source) = credential {
        for _ in 0..100 {
            if source.current().is_ok() {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(super) fn follow_secret(source: &Arc<TokenSource>, client: &Client, tasks: &mut Tasks) {
    let (source, client, stop) = (source.clone(), client.clone(), tasks.stop().clone());
    tasks.spawn_forever("credential", async move { until(&stop, source.follow(client)).await });
}

/// Opens every port that a flag names. Two flags may name one port, which then has the pages of both.
pub(super) async fn serve(
    options: &Options,
    metrics: &Metrics,
    health: &Health,
    tasks: &mut Tasks,
) -> anyhow::Result<()> {
    let (probes, scrapes) = (
        [
            &options.hub.hub_health_probe_bind_address,
            &options.admin.health_probe_bind_address,
        ],
        [
            &options.hub.hub_metrics_bind_address,
            &options.admin.metrics_bind_address,
        ],
    );
    let mut open: Vec<&Bind> = Vec::new();
    for address in probes.into_iter().chain(scrapes) {
        if open.contains(&address) {
            continue;
        }
        open.push(address);
        let pages = Pages {
            health: probes.contains(&address).then(|| health.clone()),
            metrics: scrapes.contains(&address).then(|| metrics.clone()),
            dump: (options.admin.enable_debug_dump && probes.contains(&address)).then(|| metrics.dump().clone()),
        };
        if let Some(server) = Server::bind(address, pages).await? {
            tasks.spawn_forever("health and metrics", server.serve(tasks.stop().clone()));
        }
    }
    Ok(())
}
