//! Directories that belong to one run of a fleet, and the removal of those whose owner is gone.
//!
//! A run directory is called `flotilla-<id>` and holds a file `lock` that its owner keeps locked. Whoever can take that
//! lock knows that the owner died, and may end what it left running and remove the directory. The directory is locked
//! before it gets its name, so that there is no moment in which a new one looks abandoned.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

use crate::lock::Lock;

const PREFIX: &str = "flotilla-";
/// Every process of a fleet carries this variable with the id of the run, so that leftovers can be told from others'.
pub const RUN_ID_ENV: &str = "FLOTILLA_RUN_ID";

/// A directory of our own; removed when dropped.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    keep: bool,
    _lock: Lock,
}

impl RunDir {
    /// Makes `<root>/flotilla-<id>`, readable by this user only.
    pub fn create(root: &Path, id: &str) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let path = root.join(format!("{PREFIX}{id}"));
        let unnamed = root.join(format!(".{PREFIX}{id}"));
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&unnamed)
            .map_err(|e| crate::disk::explain(e, &unnamed))?;
        let lock = Lock::try_take(&unnamed.join("lock"))?
            .ok_or_else(|| anyhow::anyhow!("{} is locked by somebody else", unnamed.display()))?;
        fs::rename(&unnamed, &path).map_err(|e| crate::disk::explain(e, &path))?;
        Ok(Self {
            path,
            keep: false,
            _lock: lock,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the directory behind for somebody to look at.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // What stays here is removed by the next run, which finds it unlocked.
        if self.keep {
            let _ = fs::remove_file(self.path.join("lock"));
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A short random name, unique enough for one machine.
pub fn random_id() -> String {
    std::iter::repeat_with(fastrand::alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .take(8)
        .collect()
}

/// Removes what runs that were killed left in `roots`; returns what it removed.
pub fn sweep(roots: &[PathBuf]) -> Vec<PathBuf> {
    let mut removed = Vec::new();
    for entry in roots
        .iter()
        .filter_map(|root| fs::read_dir(root).ok())
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else {
            continue;
        };
        let path = entry.path();
        let ours = entry
            .metadata()
            .is_ok_and(|m| m.is_dir() && m.uid() == geteuid().as_raw());
        let lock = path.join("lock");
        if !ours || !lock.exists() {
            continue;
        }
        let Ok(Some(_lock)) = Lock::try_take(&lock) else {
            continue;
        };
        kill_leftovers(id);
        if fs::remove_dir_all(&path).is_ok() {
            removed.push(path);
        }
    }
    removed
}

/// Ends the processes of run `id`. Children die with their supervisor already; this is for one that was killed in the
/// instant between starting a child and tying it to itself.
pub fn kill_leftovers(id: &str) {
    for pid in processes_of(id) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// The processes that carry the id of a run, without this one.
pub fn processes_of(id: &str) -> Vec<i32> {
    let marker = format!("{RUN_ID_ENV}={id}");
    let this = std::process::id().cast_signed();
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != this)
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == marker.as_bytes())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_directories_are_swept() {
        let root = tempfile::tempdir().unwrap();
        let live = RunDir::create(root.path(), "live").unwrap();
        let dead = root.path().join("flotilla-dead");
        fs::create_dir_all(dead.join("hub/etcd")).unwrap();
        fs::write(dead.join("lock"), "").unwrap();
        fs::create_dir(root.path().join("flotilla-without-lock")).unwrap();
        fs::create_dir(root.path().join("somebody-elses")).unwrap();

        assert_eq!(sweep(&[root.path().to_owned()]), std::slice::from_ref(&dead));
        assert!(live.path().exists() && !dead.exists());
        assert!(root.path().join("flotilla-without-lock").exists());
        assert!(root.path().join("somebody-elses").exists());

        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }

    #[test]
    fn ids_are_short_and_differ() {
        let (a, b) = (random_id(), random_id());
        assert_eq!(a.len(), 8);
        assert_ne!(a, b);
    }
}
