//! Backups of a cluster's etcd: its data directory, copied while nothing runs that could write to it.
//!
//! Restoring one comes to what operators do with `etcdutl snapshot restore`, which is not built here: the whole control plane
//! is stopped, etcd gets the old data, and its revisions start again at a lower number. Nothing else is restarted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::fleet::Fleet;
use crate::fleet::state::Kind;

/// In the order in which they start; they stop in the other.
const CONTROL_PLANE: [&str; 5] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
];

/// A backup; gone when dropped.
#[derive(Debug)]
pub struct Backup {
    cluster: String,
    data: tempfile::TempDir,
}

impl Backup {
    /// Takes a backup of a cluster's etcd.
    pub async fn take(fleet: &Fleet, cluster: &str) -> Result<Self> {
        let backup = Self {
            cluster: cluster.to_owned(),
            data: tempfile::tempdir()?,
        };
        backup.stop(fleet).await?;
        copy(&backup.live(fleet)?, backup.data.path())?;
        backup.start(fleet).await?;
        Ok(backup)
    }

    /// Puts it back.
    pub async fn restore(&self, fleet: &Fleet) -> Result<()> {
        self.stop(fleet).await?;
        let live = self.live(fleet)?;
        fs::remove_dir_all(&live)?;
        copy(self.data.path(), &live)?;
        self.start(fleet).await
    }

    fn live(&self, fleet: &Fleet) -> Result<PathBuf> {
        match &fleet.state().kind {
            Kind::Local { data, .. } => Ok(data.join(&self.cluster).join("etcd")),
            Kind::External { .. } => bail!("only local clusters have an etcd that can be restored"),
        }
    }

    async fn stop(&self, fleet: &Fleet) -> Result<()> {
        for component in CONTROL_PLANE.iter().rev() {
            fleet.stop_process(&format!("{}/{component}", self.cluster)).await?;
        }
        Ok(())
    }

    async fn start(&self, fleet: &Fleet) -> Result<()> {
        for component in CONTROL_PLANE {
            fleet.start_again(&format!("{}/{component}", self.cluster)).await?;
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    let permissions = fs::metadata(from)?.permissions();
    fs::set_permissions(to, permissions)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).map_err(|e| crate::disk::explain(e, &target))?;
        }
    }
    Ok(())
}
