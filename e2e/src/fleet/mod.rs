//! A fleet as seen by whoever uses it: the demo, a test, a benchmark. It attaches to a running one by its directory.

pub mod control;
pub mod crds;
pub mod state;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kube::Client;
use kube::config::Kubeconfig;

use crate::cluster::{ClusterSpec, Role, kubeconfig};
use crate::process;
use control::{ProcessStatus, Request};
use state::{ClusterState, Kind, State};

/// The variable that names the directory of the fleet to use.
pub const DIR_ENV: &str = "FLEET_DIR";

/// A running fleet.
#[derive(Debug, Clone)]
pub struct Fleet {
    dir: PathBuf,
    state: State,
}

impl Fleet {
    /// Attaches to the fleet in `dir`.
    pub fn attach(dir: &Path) -> Result<Self> {
        crate::install_crypto_provider();
        let dir = std::path::absolute(dir)?;
        let state = State::read(&dir)?.with_context(|| format!("no fleet runs in {}", dir.display()))?;
        Ok(Self { dir, state })
    }

    /// Attaches to the fleet that `FLEET_DIR` names.
    pub fn attach_from_env() -> Result<Self> {
        match std::env::var_os(DIR_ENV).filter(|dir| !dir.is_empty()) {
            Some(dir) => Self::attach(Path::new(&dir)),
            None => bail!(
                "{DIR_ENV} is not set: run `make e2e`, or `make demo` and then `FLEET_DIR=$PWD/.fleet cargo test`"
            ),
        }
    }

    /// The fleet directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What the state file says.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The clusters, the hub first.
    pub fn clusters(&self) -> &[ClusterState] {
        &self.state.clusters
    }

    /// The members.
    pub fn members(&self) -> impl Iterator<Item = &ClusterState> {
        self.state.clusters.iter().filter(|c| c.role == Role::Member)
    }

    /// One cluster.
    pub fn cluster(&self, name: &str) -> Result<&ClusterState> {
        self.state.clusters.iter().find(|c| c.name == name).with_context(|| {
            let names = self.state.clusters.iter().map(|c| c.name.as_str()).collect::<Vec<_>>();
            format!("the fleet has no cluster {name:?}, only {}", names.join(", "))
        })
    }

    /// A client with all rights on a cluster.
    pub async fn client(&self, cluster: &str) -> Result<Client> {
        let context = &self.cluster(cluster)?.context;
        kubeconfig::client(self.kubeconfig()?, context).await
    }

    /// The parsed kubeconfig.
    pub fn kubeconfig(&self) -> Result<Kubeconfig> {
        Ok(match &self.state.kubeconfig {
            Some(path) => Kubeconfig::read_from(path)?,
            None => Kubeconfig::read()?,
        })
    }

    /// The real kubectl, pointed at a cluster.
    pub fn kubectl(&self, cluster: &str) -> Result<crate::kubectl::Kubectl> {
        let context = &self.cluster(cluster)?.context;
        Ok(crate::kubectl::Kubectl::new(
            &self.state.kubectl,
            self.state.kubeconfig.as_deref(),
            context,
        ))
    }

    /// Starts one more member and waits until it is ready; this handle knows it then, others after attaching again.
    pub async fn add_member(&mut self, spec: ClusterSpec) -> Result<()> {
        spec.validate()?;
        self.ask::<()>(&Request::AddMember(spec)).await?;
        *self = Self::attach(&self.dir)?;
        Ok(())
    }

    /// Stops a member and removes everything of it.
    pub async fn remove_member(&mut self, name: &str) -> Result<()> {
        self.ask::<()>(&Request::RemoveMember(name.to_owned())).await?;
        *self = Self::attach(&self.dir)?;
        Ok(())
    }

    /// What every process is doing.
    pub async fn status(&self) -> Result<Vec<ProcessStatus>> {
        control::ask_within(Duration::from_secs(5), self.socket()?, &Request::Status).await
    }

    /// Starts a process (an agent, say) under the supervisor, and waits until it is ready.
    pub async fn start_process(&self, spec: process::Spec) -> Result<()> {
        self.ask(&Request::Start(spec)).await
    }

    /// Starts a process that was stopped, killed or died.
    pub async fn start_again(&self, process: &str) -> Result<()> {
        self.ask(&Request::StartAgain(process.to_owned())).await
    }

    /// Asks a process to end.
    pub async fn stop_process(&self, process: &str) -> Result<()> {
        self.ask(&Request::Stop(process.to_owned())).await
    }

    /// Stops a process, starts it again, and waits until it is ready.
    pub async fn restart(&self, process: &str) -> Result<()> {
        self.ask(&Request::Restart(process.to_owned())).await
    }

    /// Ends a process as a crash would.
    pub async fn kill(&self, process: &str) -> Result<()> {
        self.ask(&Request::Kill(process.to_owned())).await
    }

    /// Kills a process and starts it again, as whoever restarts what has crashed.
    pub async fn crash(&self, process: &str) -> Result<()> {
        self.kill(process).await?;
        self.start_again(process).await
    }

    /// Freezes a process: its connections stay open and nothing answers.
    pub async fn pause(&self, process: &str) -> Result<()> {
        self.ask(&Request::Pause(process.to_owned())).await
    }

    /// Lets a frozen process go on.
    pub async fn resume(&self, process: &str) -> Result<()> {
        self.ask(&Request::Resume(process.to_owned())).await
    }

    /// The log of a process, for agents started later.
    pub fn log_path(&self, process: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{process}.log"))
    }

    /// Whether every process runs and every API server says that it is ready.
    pub async fn is_healthy(&self) -> bool {
        let Ok(processes) = self.status().await else {
            return false;
        };
        if !processes
            .iter()
            .all(|p| matches!(p.state, process::State::Running { .. }))
        {
            return false;
        }
        futures::future::join_all(self.clusters().iter().map(|c| self.is_ready(&c.name)))
            .await
            .into_iter()
            .all(|ready| ready)
    }

    /// Whether a cluster's API server says that it is ready.
    pub async fn is_ready(&self, cluster: &str) -> bool {
        let probe = async {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            Ok::<_, anyhow::Error>(self.client(cluster).await?.request_text(request).await?)
        };
        matches!(tokio::time::timeout(Duration::from_secs(5), probe).await, Ok(Ok(_)))
    }

    /// Asks the supervisor to stop everything.
    pub async fn ask_down(&self) -> Result<()> {
        control::ask_within(Duration::from_secs(5), self.socket()?, &Request::Down).await
    }

    async fn ask<T: serde::de::DeserializeOwned>(&self, request: &Request) -> Result<T> {
        control::ask(self.socket()?, request).await
    }

    fn socket(&self) -> Result<&Path> {
        match &self.state.kind {
            Kind::Local { control, .. } => Ok(control),
            Kind::External { .. } => bail!("these clusters were not started by fleet-local; it cannot do that to them"),
        }
    }
}
