//! The state file of a fleet, by which other processes find it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::cluster::Role;
use crate::cluster::certs::write_private;

/// The name of the file in the fleet directory.
const FILE: &str = "state.json";
/// Raised when the meaning of a field changes; an older file then means "start anew".
const VERSION: u32 = 1;

/// What a fleet consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The version of this format.
    pub version: u32,
    /// How the clusters came to be.
    pub kind: Kind,
    /// The kubeconfig with the contexts; the user's own if `None`.
    pub kubeconfig: Option<PathBuf>,
    /// A kubectl that is not older than the servers.
    pub kubectl: PathBuf,
    /// The clusters, the hub first.
    pub clusters: Vec<ClusterState>,
}

/// Who runs the clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Kind {
    /// A supervisor of ours.
    #[serde(rename_all = "camelCase")]
    Local {
        /// The id of the run.
        run_id: String,
        /// The supervisor.
        pid: i32,
        /// Its control socket.
        control: PathBuf,
        /// etcd's data.
        data: PathBuf,
    },
    /// Somebody else: clusters named by kubeconfig contexts.
    #[serde(rename_all = "camelCase")]
    External {
        /// The CRDs that we created, by context; those that were there before are not listed.
        created_crds: BTreeMap<String, Vec<String>>,
    },
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterState {
    /// Its name in the fleet.
    pub name: String,
    /// Hub or member.
    pub role: Role,
    /// Its context in the kubeconfig.
    pub context: String,
    /// Its audit log, if it writes one.
    #[serde(default)]
    pub audit_log: Option<PathBuf>,
}

impl State {
    /// A state of the current version.
    pub fn new(kind: Kind, kubeconfig: Option<PathBuf>, kubectl: PathBuf, clusters: Vec<ClusterState>) -> Self {
        Self {
            version: VERSION,
            kind,
            kubeconfig,
            kubectl,
            clusters,
        }
    }

    /// Reads the state of the fleet in `dir`; `None` if there is none.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let state: Self = serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        ensure!(
            state.version == VERSION,
            "{} was written by another version of the launcher",
            path.display()
        );
        Ok(Some(state))
    }

    /// Writes it, in one step: a reader sees the old one or the new one.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let (path, new) = (dir.join(FILE), dir.join("state.new"));
        write_private(&new, &serde_json::to_string_pretty(self)?)?;
        std::fs::rename(&new, &path).map_err(|e| crate::disk::explain(e, &path))
    }

    /// Forgets the fleet in `dir`.
    pub fn remove(dir: &Path) {
        let _ = std::fs::remove_file(dir.join(FILE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let kind = Kind::Local {
            run_id: "x".into(),
            pid: 7,
            control: "/s/c".into(),
            data: "/s".into(),
        };
        let hub = ClusterState {
            name: "hub".into(),
            role: Role::Hub,
            context: "hub".into(),
            audit_log: None,
        };
        State::new(kind, Some("/k".into()), "/b/kubectl".into(), vec![hub])
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(State::read(dir.path()).unwrap(), None);
        state().write(dir.path()).unwrap();
        assert_eq!(State::read(dir.path()).unwrap(), Some(state()));
        State::remove(dir.path());
        assert_eq!(State::read(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_damaged_or_foreign_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(State::read(dir.path()).unwrap_err().to_string().contains("is damaged"));
        State { version: 0, ..state() }.write(dir.path()).unwrap();
        assert!(
            State::read(dir.path())
                .unwrap_err()
                .to_string()
                .contains("another version")
        );
    }
}
