//! `kubectl fleet uncordoncluster`: flags, lines and exit status are those of KubeFleet's plugin, so that scripts go on
//! working. `kubectl fleet uncordon` says more.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::Instant;

use crate::{
    cordon,
    hub::Hub,
    old,
    terminal::{self, Say},
};

/// Take the cordon off with the lines of KubeFleet's plugin.
///
/// `kubectl fleet uncordon` says more. Exit status: 0 done, 1 anything else.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubectl fleet uncordoncluster --cluster-name east --hub-cluster-context hub")]
pub(crate) struct Args {
    #[command(flatten)]
    target: old::Target,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let old::Ready { hub, cluster, timeout } = args.target.ready().await?;
    uncordon(&hub, &cluster, timeout, &terminal::log).await
}

async fn uncordon(hub: &Hub, cluster: &str, timeout: Duration, say: Say<'_>) -> Result<()> {
    let removing = async { Ok(cordon::remove(hub, cluster).await?) };
    let removed = old::in_time(Instant::now() + timeout, removing).await;
    removed.with_context(|| format!("failed to uncordon cluster {cluster}"))?;
    say(&format!("uncordoned member cluster {cluster}"));
    Ok(())
}

#[cfg(test)]
mod tests;
