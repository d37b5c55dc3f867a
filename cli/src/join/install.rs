//! After the identity: the agent itself, and the moment at which it has joined.

use std::{ops::ControlFlow, path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use fleet_api::{
    cluster::MemberCluster,
    conditions::{self, member_cluster::Joined},
    names::ClusterName,
};
use tokio::{io::AsyncWriteExt as _, process::Command};

use crate::{
    clusters::KnownCluster,
    hub::{Hub, News},
};

/// The release of the member agent.
pub(super) struct Release<'a> {
    /// The kubeconfig context of the member.
    pub(super) context: &'a str,
    pub(super) kubeconfig: Option<&'a Path>,
    pub(super) namespace: &'a str,
    pub(super) chart: &'a str,
}

impl Release<'_> {
    /// Installs the agent as people do. Who stops waiting stops helm.
    pub(super) async fn install(&self, values: &str) -> Result<()> {
        let spawned = self.command().spawn();
        let mut child = spawned.context("cannot run helm, which --install needs on the PATH")?;
        if let Some(mut stdin) = child.stdin.take() {
            let written = stdin.write_all(values.as_bytes()).await;
            written.context("helm takes no values")?;
        }
        let status = child.wait().await.context("helm has vanished")?;
        let chart = self.chart;
        ensure!(status.success(), "helm could not install {chart} ({status})");
        eprintln!("member: release {}/member-agent of {chart}", self.namespace);
        Ok(())
    }

    fn command(&self) -> Command {
        let mut command = Command::new("helm");
        command
            .args(["upgrade", "--install", "member-agent", self.chart])
            .args(["--kube-context", self.context])
            .args(["--namespace", self.namespace, "--create-namespace"])
            .args(["--values", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        if let Some(file) = self.kubeconfig {
            command.arg("--kubeconfig").arg(file);
        }
        command
    }
}

/// Waits until the hub says that the member has joined.
pub(super) async fn joined(hub: &KnownCluster, cluster: &ClusterName) -> Result<()> {
    let hub = Hub::of(hub);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_where_it_was_asked_for() {
        let release = Release {
            context: "east",
            kubeconfig: Some(Path::new("/k")),
            namespace: "fleet-agents",
            chart: "chart",
        };
        let command = release.command();
        let line: Vec<_> = command.as_std().get_args().filter_map(|it| it.to_str()).collect();
        assert_eq!(
            line.join(" "),
            "upgrade --install member-agent chart --kube-context east --namespace fleet-agents --create-namespace --values - \
             --kubeconfig /k"
        );
    }
}
