//! After the identity: the agent itself, and the moment at which it has joined.

use std::{ops::ControlFlow, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use fleet_api::{
    cluster::MemberCluster,
    conditions::{self, member_cluster::Joined},
    names::{ClusterName, FLEET_SYSTEM_NAMESPACE},
};
use kube::Client;
use tokio::io::AsyncWriteExt as _;

use crate::hub::{Hub, News};

/// Installs the agent as people do.
pub(super) async fn helm(context: &str, chart: &str, values: &str) -> Result<()> {
    let mut child = tokio::process::Command::new("helm")
        .args(["upgrade", "--install", "member-agent", chart, "--kube-context", context])
        .args([
            "--namespace",
            FLEET_SYSTEM_NAMESPACE,
            "--create-namespace",
            "--values",
            "-",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .context("cannot run helm, which --install needs on the PATH")?;
    if let Some(mut stdin) = child.stdin.take() {
        let written = stdin.write_all(values.as_bytes()).await;
        written.context("helm takes no values")?;
    }
    let status = child.wait().await.context("helm has vanished")?;
    ensure!(status.success(), "helm could not install {chart} ({status})");
    eprintln!("member: release {FLEET_SYSTEM_NAMESPACE}/member-agent of {chart}");
    Ok(())
}

/// Waits until the hub says that the member has joined.
pub(super) async fn joined(hub: &Client, cluster: &ClusterName) -> Result<()> {
    let hub = Hub::new(hub.clone());
    let own = |member: &MemberCluster| member.metadata.name.as_deref() == Some(cluster.as_str());
    let mut version = hub.version::<MemberCluster>().await?;
    let now = hub.find::<MemberCluster>(cluster.as_str()).await?;
    if now.is_some_and(|member| has_joined(&member)) {
        return Ok(());
    }
    let mut gone = false;
    hub.follow(&mut version, own, |news| match news {
        News::Is(member) if has_joined(&member) => ControlFlow::Break(()),
        News::All(all) if all.iter().any(has_joined) => ControlFlow::Break(()),
        News::Gone(_) => {
            gone = true;
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    })
    .await?;
    ensure!(!gone, "MemberCluster {cluster} has been deleted meanwhile");
    Ok(())
}

fn has_joined(member: &MemberCluster) -> bool {
    let list = member.status.as_ref().map(|status| status.conditions.as_slice());
    let generation = member.metadata.generation.unwrap_or_default();
    conditions::is_true(list.unwrap_or_default(), Joined::TYPE, generation)
}
