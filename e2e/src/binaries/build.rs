//! Builds the binaries once into the cache.
//!
//! Each one appears under its name only when it is complete (temporary name, fsync, rename), so an interrupted build goes
//! on where it stopped. One run builds at a time; another waits for it. Everything temporary lives in one directory that
//! is removed at the end, also after a failure or Ctrl-C, and before the next build after a kill.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use super::versions::{self, Program, Source};
use super::{missing_in, which};
use crate::lock::Lock;

/// How often a long build says that it still runs.
const REMINDER: Duration = Duration::from_secs(30);

/// The directory in the cache that holds `programs`, building those that are not there yet.
pub(super) async fn ensure(cache_root: &Path, programs: &[Program]) -> Result<PathBuf> {
    let dir = cache_root.join("control-plane").join(versions::cache_key());
    if missing_in(&dir, programs).is_empty() {
        return Ok(dir);
    }
    let go = which("go").context(
        "go is missing: install Go 1.26 or later (https://go.dev/dl), or name a directory with the control-plane binaries \
         in FLEET_KUBE_BIN_DIR",
    )?;
    fs::create_dir_all(&dir).with_context(|| format!("cannot write to the cache {}", dir.display()))?;
    let _lock = lock(&dir.join("lock")).await?;

    // Again, now that nobody else builds: the one who held the lock may have done it all.
    let missing = missing_in(&dir, programs);
    if missing.is_empty() {
        return Ok(dir);
    }
    let todo = programs
        .iter()
        .copied()
        .filter(|p| missing.contains(&p.name))
        .collect::<Vec<_>>();
    let secs = todo.iter().map(|p| p.cold_secs).sum::<u64>();
    eprintln!(
        "building {} control-plane binaries into {}: once, up to about {} min on 2 cores ({} of {} are there)",
        todo.len(),
        dir.display(),
        secs.div_ceil(60),
        programs.len() - todo.len(),
        programs.len(),
    );
    let started = Instant::now();
    let work = WorkDir::create(&dir)?;
    for (i, program) in todo.iter().enumerate() {
        let begun = Instant::now();
        eprintln!("[{}/{}] {} …", i + 1, todo.len(), program.name);
        let built = build(&go, &work, program).await?;
        publish(&built, &dir.join(program.name))?;
        eprintln!(
            "[{}/{}] {} built in {} s",
            i + 1,
            todo.len(),
            program.name,
            begun.elapsed().as_secs()
        );
    }
    eprintln!("all binaries built in {} s", started.elapsed().as_secs());
    Ok(dir)
}

/// Waits for another run's build, and says so once.
async fn lock(path: &Path) -> Result<Lock> {
    if let Some(lock) = Lock::try_take(path)? {
        return Ok(lock);
    }
    eprintln!("another run is building the control-plane binaries; waiting for it");
    Lock::take(path).await
}

/// Sources and temporary files of one build; gone when dropped.
struct WorkDir(PathBuf);

impl WorkDir {
    fn create(dir: &Path) -> Result<Self> {
        let work = dir.join("work");
        // Left by a build that was killed: nobody else can be using it, since we hold the lock.
        if work.exists() {
            fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))?;
        }
        let this = Self(work);
        let write = |name: &str, text: &str| fs::write(this.0.join(name), text);
        fs::create_dir_all(this.0.join("tmp"))
            .and_then(|()| fs::create_dir_all(this.0.join("bin")))
            .and_then(|()| write("go.mod", versions::GO_MOD))
            .and_then(|()| write("go.sum", versions::GO_SUM))
            .and_then(|()| write("tools.go", versions::TOOLS_GO))
            .map_err(|e| crate::disk::explain(e, &this.0))?;
        Ok(this)
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        // Nothing to be done about a failure here; the next build removes it first.
        let _ = fs::remove_dir_all(&self.0);
    }
}

async fn build(go: &Path, work: &WorkDir, program: &Program) -> Result<PathBuf> {
    let out = work.0.join("bin").join(program.name);
    let flags = versions::ldflags(program.source);
    let mut command = Command::new(go);
    match program.source {
        Source::Pinned(package) => {
            command
                .args(["build", "-mod=readonly", "-trimpath", "-ldflags", &flags, "-o"])
                .arg(&out)
                .arg(package);
        }
        Source::Install(package, version) => {
            command
                .args(["install", "-trimpath", "-ldflags", &flags])
                .arg(format!("{package}@v{version}"));
        }
    }
    command
        .current_dir(&work.0)
        // Static binaries; no surprise from a go.work above or from a user's -mod flag; temporary files where we remove them.
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .env("GOFLAGS", "")
        .env("GOBIN", work.0.join("bin"))
        .env("GOTMPDIR", work.0.join("tmp"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {}", go.display()))?;
    let stderr = child.stderr.take().expect("stderr is piped");

    let (status, said) = tokio::join!(wait(&mut child, program.name), complaints(stderr));
    let status = status?;
    if !status.success() || !out.exists() {
        bail!("{}", explain(program.name, status, &said, &work.0));
    }
    Ok(out)
}

async fn wait(child: &mut tokio::process::Child, name: &str) -> Result<ExitStatus> {
    let begun = Instant::now();
    loop {
        match tokio::time::timeout(REMINDER, child.wait()).await {
            Ok(status) => return Ok(status?),
            Err(_) => eprintln!("      {name}: {} s so far", begun.elapsed().as_secs()),
        }
    }
}

/// What go said, without its download progress.
async fn complaints(stderr: tokio::process::ChildStderr) -> Vec<String> {
    let mut lines = BufReader::new(stderr).lines();
    let mut said = Vec::new();
    while let Ok(Some(line)) = lines.next_line().await {
        if !line.starts_with("go: downloading") && !line.trim().is_empty() {
            said.push(line);
        }
    }
    said
}

/// One line about a failed build.
fn explain(name: &str, status: ExitStatus, said: &[String], work: &Path) -> String {
    if said.iter().any(|line| line.contains("no space left on device")) {
        return format!(
            "disk full while building {name}: {} and the Go caches (`go env GOCACHE GOMODCACHE`) need about 6 GB; free some \
             and run again, finished binaries are kept",
            work.display()
        );
    }
    let last = said
        .iter()
        .rev()
        .take(3)
        .rev()
        .map(|l| l.trim())
        .collect::<Vec<_>>()
        .join(" | ");
    format!("building {name} failed ({status}): {last}")
}

/// Moves a finished binary to its place; a reader sees all of it or nothing.
fn publish(built: &Path, target: &Path) -> Result<()> {
    File::open(built)
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(built, target))
        .map_err(|e| crate::disk::explain(e, target))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_full_disk_is_one_line_that_says_so() {
        let said = [
            "# k8s.io/foo".to_owned(),
            "write $WORK/b001: no space left on device".to_owned(),
        ];
        let line = explain("kwok", ExitStatus::from_raw(256), &said, Path::new("/cache"));
        assert!(line.starts_with("disk full while building kwok"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn what_a_killed_build_left_is_removed_first_and_last() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("work/tmp/go-build123")).unwrap();
        let work = WorkDir::create(dir.path()).unwrap();
        assert!(!work.0.join("tmp/go-build123").exists());
        assert!(work.0.join("go.mod").exists());
        drop(work);
        assert!(!dir.path().join("work").exists());
    }

    #[test]
    fn a_binary_appears_complete_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let (built, target) = (dir.path().join("built"), dir.path().join("etcd"));
        assert!(publish(&built, &target).is_err());
        assert!(!target.exists());
        fs::write(&built, "x").unwrap();
        publish(&built, &target).unwrap();
        assert!(target.exists() && !built.exists());
    }
}
