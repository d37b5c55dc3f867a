//! Advisory file locks. The kernel releases them when the owner ends, however it ends, so a lock that can be taken means
//! that the owner is gone: this is how a killed launcher is told from a running one.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: Flock<File>,
}

impl Lock {
    /// Takes the lock at `path`, which is created if need be; `None` if somebody else holds it.
    pub fn try_take(path: &Path) -> Result<Option<Self>> {
        loop {
            let file = OpenOptions::new()
                .create(true)
                .append(true)
                .open(path)
                .map_err(|e| crate::disk::explain(e, path))?;
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) if is_at(&file, path) => return Ok(Some(Self { _file: file })),
                // The last owner removed the file between our opening and locking it: that lock would exclude nobody.
                Ok(_) => {}
                Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
                Err((_, error)) => return Err(error).with_context(|| format!("cannot lock {}", path.display())),
            }
        }
    }

    /// Waits for the lock. Probes instead of blocking in flock(2), because a thread blocked there cannot be cancelled.
    pub async fn take(path: &Path) -> Result<Self> {
        loop {
            if let Some(lock) = Self::try_take(path)? {
                return Ok(lock);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Whether somebody holds the lock at `path`. A file that does not exist is not locked.
    pub fn is_held(path: &Path) -> bool {
        let Ok(file) = File::open(path) else { return false };
        matches!(
            Flock::lock(file, FlockArg::LockExclusiveNonblock),
            Err((_, Errno::EWOULDBLOCK))
        )
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    matches!((file.metadata(), path.metadata()), (Ok(a), Ok(b)) if a.ino() == b.ino() && a.dev() == b.dev())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_owner_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(!Lock::is_held(&path));
        let first = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::is_held(&path));
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(first);
        assert!(!Lock::is_held(&path));
        assert!(Lock::try_take(&path).unwrap().is_some());
    }
}
