//! The processes of a fleet, by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::join_all;

use crate::process::{Process, Spec};

/// How long a component may take to end when asked. Its data is thrown away, so nothing is lost when it takes longer.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// The order in which a cluster stops: whatever uses the API server, the API server, its storage.
const LAST: [&str; 2] = ["kube-apiserver", "etcd"];

/// All processes of the fleet.
#[derive(Debug)]
pub struct Table {
    run_id: String,
    processes: Mutex<BTreeMap<String, Arc<Process>>>,
}

impl Table {
    /// An empty table of a run.
    pub fn new(run_id: &str) -> Self {
        Self {
            run_id: run_id.to_owned(),
            processes: Mutex::default(),
        }
    }

    /// Starts a process under its name, which must not be running.
    pub fn start(&self, spec: Spec) -> Result<Arc<Process>> {
        let mut processes = self.lock();
        if processes.get(&spec.name).is_some_and(|p| p.state().pid().is_some()) {
            bail!("{} runs already", spec.name);
        }
        let process = Process::start(spec, &self.run_id)?;
        processes.insert(process.spec().name.clone(), Arc::clone(&process));
        Ok(process)
    }

    /// One process.
    pub fn get(&self, name: &str) -> Result<Arc<Process>> {
        let processes = self.lock();
        processes.get(name).cloned().with_context(|| {
            format!(
                "there is no process {name:?}; there are {}",
                processes.keys().cloned().collect::<Vec<_>>().join(", ")
            )
        })
    }

    /// All of them.
    pub fn all(&self) -> Vec<Arc<Process>> {
        self.lock().values().cloned().collect()
    }

    /// Those of a cluster.
    pub fn of_cluster(&self, cluster: &str) -> Vec<Arc<Process>> {
        self.all()
            .into_iter()
            .filter(|p| split(&p.spec().name).0 == cluster)
            .collect()
    }

    /// Stops a cluster in order and forgets its processes.
    pub async fn stop_cluster(&self, cluster: &str) {
        let processes = self.of_cluster(cluster);
        let rank = |p: &Process| {
            LAST.iter()
                .position(|last| split(&p.spec().name).1 == *last)
                .map_or(0, |i| i + 1)
        };
        for turn in 0..=LAST.len() {
            join_all(
                processes
                    .iter()
                    .filter(|p| rank(p) == turn)
                    .map(|p| p.stop(STOP_PATIENCE)),
            )
            .await;
        }
        self.lock().retain(|name, _| split(name).0 != cluster);
    }

    /// Stops one process and starts it again.
    pub async fn restart(&self, name: &str) -> Result<()> {
        let process = self.get(name)?;
        process.stop(STOP_PATIENCE).await;
        process.start_again().await
    }

    /// Stops one process; it can be started again.
    pub async fn stop(&self, name: &str) -> Result<()> {
        self.get(name)?.stop(STOP_PATIENCE).await;
        Ok(())
    }

    /// Stops everything.
    pub async fn stop_all(&self) {
        let clusters = self
            .lock()
            .keys()
            .map(|name| split(name).0.to_owned())
            .collect::<std::collections::BTreeSet<_>>();
        join_all(clusters.iter().map(|cluster| self.stop_cluster(cluster))).await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Process>>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Cluster and component of a process name.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or((name, ""))
}
