//! `up` and `down`: a fleet that stays when the command returns.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::supervise::{DETACH, Order, follow};
use crate::cluster::ClusterSpec;
use crate::fleet::state::{Kind, State};
use crate::fleet::{Fleet, crds};
use crate::lock::Lock;
use crate::process::tail;
use crate::{binaries, disk, supervisor};

/// How long an orderly stop may take before the supervisor is killed; its children end with it.
const DOWN_PATIENCE: Duration = Duration::from_secs(20);
/// How long somebody else's `up` may take.
const STARTING_PATIENCE: Duration = Duration::from_mins(3);

/// Makes sure that a healthy fleet with these clusters runs in `dir`. Uses one that runs already.
pub async fn up(dir: &Path, clusters: &[ClusterSpec]) -> Result<Fleet> {
    let dir = std::path::absolute(dir)?;
    if let Ok(Some(State {
        kind: Kind::External { .. },
        ..
    })) = State::read(&dir)
    {
        bail!(
            "{} points at existing clusters; run `fleet-local down` first",
            dir.display()
        );
    }
    if let Some(fleet) = running(&dir).await? {
        if fleet.is_healthy().await {
            return reuse(fleet, clusters).await;
        }
        eprintln!(
            "the fleet in {} is damaged ({}); starting anew",
            dir.display(),
            damage(&fleet).await
        );
        end(&dir).await?;
    }
    let begun = Instant::now();
    let binaries = binaries::find_or_build().await?;
    let names = clusters.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    eprintln!("starting {names} in {}", dir.display());
    start(&Order {
        dir: dir.clone(),
        binaries,
        clusters: clusters.to_vec(),
    })
    .await?;
    eprintln!("the fleet is ready after {:.1} s", begun.elapsed().as_secs_f32());
    Fleet::attach(&dir)
}

/// Stops the fleet in `dir` and removes what is left of it; says whether one was running.
pub async fn down(dir: &Path) -> Result<bool> {
    let dir = std::path::absolute(dir)?;
    let was_running = Lock::is_held(&dir.join("lock"));
    end(&dir).await?;
    Ok(was_running)
}

/// The fleet that runs in `dir`, if one does; waits for one that is just starting.
async fn running(dir: &Path) -> Result<Option<Fleet>> {
    let lock = dir.join("lock");
    let deadline = Instant::now() + STARTING_PATIENCE;
    let mut told = false;
    while Lock::is_held(&lock) {
        if let Ok(fleet) = Fleet::attach(dir) {
            return Ok(Some(fleet));
        }
        if Instant::now() > deadline {
            bail!(
                "another launcher holds {} for too long; stop it and try again",
                dir.display()
            );
        }
        if !told {
            eprintln!("another launcher is busy in {}; waiting for it", dir.display());
            told = true;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(None)
}

async fn reuse(mut fleet: Fleet, clusters: &[ClusterSpec]) -> Result<Fleet> {
    // The repository may have changed since the fleet was started.
    let all = crds::load(&crds::dir())?;
    for cluster in fleet.clusters() {
        crds::install(&fleet.client(&cluster.name).await?, &crds::for_role(&all, cluster.role)).await?;
    }
    for missing in clusters {
        if fleet.cluster(&missing.name).is_err() {
            eprintln!("adding {}", missing.name);
            fleet.add_member(missing.clone()).await?;
        }
    }
    eprintln!("using the fleet that runs in {}", fleet.dir().display());
    Ok(fleet)
}

async fn damage(fleet: &Fleet) -> String {
    match fleet.status().await {
        Err(error) => format!("{error:#}"),
        Ok(processes) => {
            let bad = processes
                .iter()
                .filter(|p| p.state.pid().is_none())
                .map(|p| p.name.as_str())
                .collect::<Vec<_>>();
            if bad.is_empty() {
                "an API server does not answer".into()
            } else {
                format!("{} not running", bad.join(", "))
            }
        }
    }
}

/// Ends whatever runs in `dir`, politely first, and removes what is left.
async fn end(dir: &Path) -> Result<()> {
    let lock = dir.join("lock");
    if Lock::is_held(&lock) {
        let state = State::read(dir).ok().flatten();
        let asked = match Fleet::attach(dir) {
            Ok(fleet) => fleet.ask_down().await,
            Err(error) => Err(error),
        };
        let patience = if asked.is_ok() {
            DOWN_PATIENCE
        } else {
            Duration::from_secs(1)
        };
        if !released(&lock, patience).await {
            let Some(State {
                kind: Kind::Local { pid, .. },
                ..
            }) = state
            else {
                bail!(
                    "a launcher is starting or stopping the fleet in {}; try again",
                    dir.display()
                );
            };
            // It holds the lock, so it lives and the id is its own.
            kill(Pid::from_raw(pid), Signal::SIGKILL).with_context(|| format!("cannot end the supervisor {pid}"))?;
            if !released(&lock, DOWN_PATIENCE).await {
                bail!("the supervisor {pid} of {} does not end", dir.display());
            }
        }
    }
    if !supervisor::remove_dead_fleet(dir)? {
        bail!("another launcher has started in {}", dir.display());
    }
    Ok(())
}

async fn released(lock: &Path, patience: Duration) -> bool {
    let wait = async {
        while Lock::is_held(lock) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(patience, wait).await.is_ok()
}

/// Starts a detached supervisor and follows it until the fleet is ready.
async fn start(order: &Order) -> Result<()> {
    std::fs::create_dir_all(&order.dir).map_err(|e| disk::explain(e, &order.dir))?;
    let log_path = order.dir.join("supervisor.log");
    let log = std::fs::File::create(&log_path).map_err(|e| disk::explain(e, &log_path))?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("supervise")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(log)
        .current_dir("/")
        .spawn()
        .context("cannot start the supervisor")?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let stdout = child.stdout.take().expect("stdout is piped");
    stdin
        .write_all(format!("{}\n", serde_json::to_string(order)?).as_bytes())
        .await?;

    if let Err(error) = follow(stdout, |line| eprintln!("  {line}")).await {
        let said = tail(&log_path, 5);
        // It removes everything before it ends.
        let _ = child.wait().await;
        bail!(if said.is_empty() {
            format!("{error:#}")
        } else {
            format!("{error:#}\n{said}")
        });
    }
    stdin.write_all(format!("{DETACH}\n").as_bytes()).await?;
    Ok(())
}
