//! Where data goes, whether there is room, and what to say when there is none.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// Memory-backed storage; etcd there costs no disk writes.
const SHARED_MEMORY: &str = "/dev/shm";

/// An I/O error as one line that says what to do.
pub fn explain(error: io::Error, path: &Path) -> anyhow::Error {
    let path = path.display();
    match error.kind() {
        ErrorKind::StorageFull => anyhow::anyhow!("disk full: cannot write {path}; free some space and run again"),
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            anyhow::anyhow!("cannot write {path}: {error}; choose another directory")
        }
        _ => anyhow::Error::new(error).context(format!("cannot write {path}")),
    }
}

/// Free bytes on the file system of `path`.
pub fn free_bytes(path: &Path) -> Option<u64> {
    let stat = statvfs(path).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}

/// The directories that may hold data of fleets.
pub fn data_roots() -> Vec<PathBuf> {
    let mut roots = vec![PathBuf::from(SHARED_MEMORY), std::env::temp_dir()];
    roots.retain(|root| root.is_dir());
    roots
}

/// The first data root with room for `bytes`.
pub fn data_root_with_room(bytes: u64) -> anyhow::Result<PathBuf> {
    data_roots()
        .into_iter()
        .find(|root| is_writable(root) && free_bytes(root).is_some_and(|free| free >= bytes))
        .ok_or_else(|| {
            anyhow::anyhow!(
                "disk full: the clusters need {} MB in {SHARED_MEMORY} or {}",
                bytes >> 20,
                std::env::temp_dir().display()
            )
        })
}

fn is_writable(dir: &Path) -> bool {
    nix::unistd::access(dir, nix::unistd::AccessFlags::W_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_read_only_place_have_their_own_lines() {
        let full = explain(ErrorKind::StorageFull.into(), Path::new("/x")).to_string();
        assert!(full.starts_with("disk full"), "{full}");
        let denied = explain(ErrorKind::PermissionDenied.into(), Path::new("/x")).to_string();
        assert!(denied.contains("choose another directory"), "{denied}");
    }

    #[test]
    fn nothing_has_room_for_everything() {
        assert!(data_root_with_room(u64::MAX).is_err());
        assert!(data_root_with_room(1).is_ok());
    }
}
