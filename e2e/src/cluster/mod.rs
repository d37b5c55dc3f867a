//! One local cluster: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on loopback.
//!
//! `start` is called by the supervisor, which owns the processes. Everything about a cluster lives below the fleet
//! directory (`pki/`, `conf/`, `logs/`), except for etcd's data, which is in memory-backed storage if there is any.

pub mod certs;
pub mod components;
pub mod kubeconfig;
pub mod objects;
pub mod ports;
pub mod spec;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};

use crate::binaries::Binaries;
use crate::process::Process;
use crate::process::table::Table;
use certs::Pki;
use components::{Layout, https};
use kubeconfig::Entry;
use ports::Ports;
pub use spec::{ClusterSpec, NodeSpec, Role};

/// Addresses of Services; no traffic ever goes there.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The Service address of the API server itself.
pub const API_IP: &str = "10.96.0.1";

/// A port can be lost between finding and using it; five unlucky draws in a row mean that something else is wrong.
const PORT_ATTEMPTS: u32 = 5;

/// Where clusters are put and what they are made from.
#[derive(Debug)]
pub struct Site<'a> {
    /// The programs.
    pub binaries: &'a Binaries,
    /// The processes of the fleet.
    pub table: &'a Table,
    /// The fleet directory.
    pub dir: &'a Path,
    /// The directory for etcd data.
    pub data: &'a Path,
}

/// A cluster that runs.
#[derive(Debug, Clone)]
pub struct Started {
    /// What it was started from.
    pub spec: ClusterSpec,
    /// The address of its API server.
    pub server: String,
    /// Its certificates.
    pub pki: Pki,
    /// A client with all rights.
    pub client: AdminClient,
}

/// `kube::Client` has no `Debug`.
#[derive(Clone)]
pub struct AdminClient(pub kube::Client);

impl std::fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminClient")
    }
}

impl Site<'_> {
    /// The logs of a cluster.
    pub fn logs(&self, cluster: &str) -> PathBuf {
        self.dir.join("logs").join(cluster)
    }

    /// Starts a cluster and waits until its nodes are Ready.
    pub async fn start(&self, spec: &ClusterSpec) -> Result<Started> {
        for attempt in 1.. {
            let error = match self.try_start(spec).await {
                Ok(started) => return Ok(started),
                Err(error) => error,
            };
            let processes = self.table.of_cluster(&spec.name);
            let unlucky = processes
                .iter()
                .find(|p| p.lost_its_port())
                .map(|p| p.spec().name.clone());
            self.table.stop_cluster(&spec.name).await;
            match unlucky {
                Some(name) if attempt < PORT_ATTEMPTS => {
                    tracing::warn!(process = name, attempt, "A port was taken meanwhile; trying others");
                    let _ = fs::remove_dir_all(self.data.join(&spec.name));
                    // The old log would be read as this attempt's.
                    let _ = fs::remove_dir_all(self.logs(&spec.name));
                }
                Some(name) => bail!("{name}: its port is in use by another process, also with other ports"),
                None => return Err(error),
            }
        }
        unreachable!("the loop ends by returning")
    }

    async fn try_start(&self, spec: &ClusterSpec) -> Result<Started> {
        let ports = Ports::free()?;
        let pki = Pki::create(&self.dir.join("pki").join(&spec.name), &spec.name)?;
        let conf = self.dir.join("conf").join(&spec.name);
        let (logs, data) = (self.logs(&spec.name), self.data.join(&spec.name));
        for dir in [&conf, &logs, &data] {
            fs::create_dir_all(dir).map_err(|e| crate::disk::explain(e, dir))?;
        }
        let layout = Layout {
            binaries: self.binaries,
            spec,
            ports,
            pki: &pki,
            conf: &conf,
            data: &data,
            logs: &logs,
        };
        let server = https(ports.apiserver);
        let client = write_conf(&layout, &server).await?;

        self.table.start(layout.etcd())?.ready().await?;
        self.table.start(layout.apiserver())?.ready().await?;
        let rest = [layout.controller_manager(), layout.scheduler(), layout.kwok()]
            .map(|process| self.table.start(process))
            .into_iter()
            .collect::<Result<Vec<Arc<Process>>>>()?;
        objects::create(&client, spec).await?;
        futures::future::try_join_all(rest.iter().map(|process| process.ready())).await?;
        objects::ready(&client, spec).await?;
        Ok(Started {
            spec: spec.clone(),
            server,
            pki,
            client: AdminClient(client),
        })
    }
}

/// Writes the configuration files of the components; returns a client with all rights.
async fn write_conf(layout: &Layout<'_>, server: &str) -> Result<kube::Client> {
    let write = |name: &str, text: &str| {
        let path = layout.conf.join(name);
        fs::write(&path, text).map_err(|e| crate::disk::explain(e, &path))
    };
    write("kwok.yaml", include_str!("kwok.yaml"))?;
    write("audit-policy.yaml", include_str!("audit-policy.yaml"))?;
    let context = layout.spec.name.as_str();
    for identity in [certs::CONTROLLER_MANAGER, certs::SCHEDULER, certs::KWOK] {
        let file = kubeconfig::build(&[Entry {
            context,
            server,
            pki: layout.pki,
            identity,
        }])?;
        kubeconfig::write(&layout.kubeconfig(identity.file), &file)?;
    }
    let admin = kubeconfig::build(&[Entry {
        context,
        server,
        pki: layout.pki,
        identity: certs::ADMIN,
    }])?;
    kubeconfig::client(serde_json::from_value(admin)?, context).await
}
