//! The programs of a local control plane: found where the user says, on `PATH`, or built once into a cache.
//!
//! 1. `FLEET_KUBE_BIN_DIR` must hold all of them.
//! 2. `PATH` is used only when every server is there in the right minor version; half a set would mix versions.
//! 3. Otherwise they are built from the Go module proxy into a cache outside the repository (`build.rs`).

mod build;
pub mod versions;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use versions::{CONTROL_PLANE, HELM_PROGRAM, KUBERNETES_MINOR, Program};

/// The variable that names a directory with all binaries.
pub const BIN_DIR_ENV: &str = "FLEET_KUBE_BIN_DIR";
/// The variable that moves the cache.
pub const CACHE_DIR_ENV: &str = "FLEET_CACHE_DIR";

/// Where each program is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Binaries {
    /// etcd.
    pub etcd: PathBuf,
    /// kube-apiserver.
    pub kube_apiserver: PathBuf,
    /// kube-controller-manager.
    pub kube_controller_manager: PathBuf,
    /// kube-scheduler.
    pub kube_scheduler: PathBuf,
    /// kubectl, never older than the servers.
    pub kubectl: PathBuf,
    /// kwok.
    pub kwok: PathBuf,
}

impl Binaries {
    fn in_dir(dir: &Path) -> Self {
        Self {
            etcd: dir.join("etcd"),
            kube_apiserver: dir.join("kube-apiserver"),
            kube_controller_manager: dir.join("kube-controller-manager"),
            kube_scheduler: dir.join("kube-scheduler"),
            kubectl: dir.join("kubectl"),
            kwok: dir.join("kwok"),
        }
    }
}

/// Finds the binaries, and builds those that are nowhere. Says on stderr what it does when it takes long.
pub async fn find_or_build() -> Result<Binaries> {
    if let Some(dir) = std::env::var_os(BIN_DIR_ENV).filter(|d| !d.is_empty()) {
        return in_named_dir(Path::new(&dir));
    }
    if let Some(found) = on_path().await? {
        return Ok(found);
    }
    let dir = build::ensure(&cache_root()?, &CONTROL_PLANE).await?;
    Ok(Binaries::in_dir(&dir))
}

/// Finds helm beside the other binaries or on `PATH`, or builds it into the cache.
pub async fn find_or_build_helm() -> Result<PathBuf> {
    let named = std::env::var_os(BIN_DIR_ENV).map(|dir| Path::new(&dir).join(HELM_PROGRAM.name));
    if let Some(helm) = named.filter(|p| is_executable(p)).or_else(|| which(HELM_PROGRAM.name)) {
        return Ok(helm);
    }
    Ok(build::ensure(&cache_root()?, &[HELM_PROGRAM])
        .await?
        .join(HELM_PROGRAM.name))
}

fn in_named_dir(dir: &Path) -> Result<Binaries> {
    let dir = std::path::absolute(dir)?;
    let missing = missing_in(&dir, &CONTROL_PLANE);
    if !missing.is_empty() {
        bail!(
            "{BIN_DIR_ENV}={} lacks {}: put them there, or unset {BIN_DIR_ENV} to have them built",
            dir.display(),
            missing.join(", ")
        );
    }
    Ok(Binaries::in_dir(&dir))
}

fn missing_in(dir: &Path, programs: &[Program]) -> Vec<&'static str> {
    programs
        .iter()
        .map(|p| p.name)
        .filter(|name| !is_executable(&dir.join(name)))
        .collect()
}

/// The set on `PATH`, if it is complete and of the right version. Only kubectl may be replaced by a built one: an old one
/// is common, and an older client than the servers prints less than the documentation says.
async fn on_path() -> Result<Option<Binaries>> {
    let (Some(etcd), Some(kube_apiserver), Some(kube_controller_manager), Some(kube_scheduler), Some(kwok)) = (
        which("etcd"),
        which("kube-apiserver"),
        which("kube-controller-manager"),
        which("kube-scheduler"),
        which("kwok"),
    ) else {
        return Ok(None);
    };
    for server in [&kube_apiserver, &kube_controller_manager, &kube_scheduler] {
        let version = version_line(server, &["--version"]).await.unwrap_or_default();
        if minor_of(&version).as_deref() != Some(KUBERNETES_MINOR) {
            eprintln!(
                "{} is not Kubernetes {KUBERNETES_MINOR}; not using the binaries on PATH",
                server.display()
            );
            return Ok(None);
        }
    }
    let kubectl = match which("kubectl") {
        Some(found) if kubectl_is_current(&found).await => found,
        _ => {
            let programs = CONTROL_PLANE
                .iter()
                .copied()
                .filter(|p| p.name == "kubectl")
                .collect::<Vec<_>>();
            build::ensure(&cache_root()?, &programs).await?.join("kubectl")
        }
    };
    Ok(Some(Binaries {
        etcd,
        kube_apiserver,
        kube_controller_manager,
        kube_scheduler,
        kubectl,
        kwok,
    }))
}

async fn kubectl_is_current(kubectl: &Path) -> bool {
    let version = version_line(kubectl, &["version", "--client"])
        .await
        .unwrap_or_default();
    minor_of(&version).as_deref() == Some(KUBERNETES_MINOR)
}

async fn version_line(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .ok()?;
    String::from_utf8(output.stdout).ok()
}

/// `1.36` of a text such as `Kubernetes v1.36.3`.
fn minor_of(text: &str) -> Option<String> {
    let version = text.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    let mut parts = version.split('.');
    Some(format!("{}.{}", parts.next()?, parts.next()?))
}

/// `FLEET_CACHE_DIR`, else `flotilla` in the user's cache directory.
fn cache_root() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let root = set(CACHE_DIR_ENV)
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("flotilla")))
        .or_else(|| set("HOME").map(|d| d.join(".cache/flotilla")))
        .with_context(|| format!("no place for the control-plane binaries: set HOME or {CACHE_DIR_ENV}"))?;
    Ok(std::path::absolute(root)?)
}

/// The program of that name on `PATH`.
pub fn which(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|dir| dir.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_version_line_gives_its_minor() {
        assert_eq!(minor_of("Kubernetes v1.36.3\n").as_deref(), Some("1.36"));
        assert_eq!(
            minor_of("Client Version: v1.20.2\nKustomize Version: v5").as_deref(),
            Some("1.20")
        );
        assert_eq!(minor_of("etcd"), None);
    }

    #[test]
    fn a_named_directory_must_hold_everything_and_the_message_names_what_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver", "kube-scheduler", "kubectl"] {
            std::fs::write(dir.path().join(name), "").unwrap();
            std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::fs::write(dir.path().join("kwok"), "not executable").unwrap();
        let error = in_named_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("lacks kube-controller-manager, kwok:"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}
