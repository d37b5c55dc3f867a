//! `run`: a command in a fleet of its own, which is gone when the command ends, however it ends.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use super::Signals;
use crate::cluster::ClusterSpec;
use crate::fleet::DIR_ENV;
use crate::rundir::{self, RunDir, random_id};
use crate::supervisor::Supervisor;
use crate::{binaries, disk, harness};

/// How long the command may take to end after Ctrl-C.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(10);

/// Starts a fleet in a temporary directory, runs the command, stops the fleet; returns the exit code of the command.
pub async fn run(clusters: &[ClusterSpec], command: &[String]) -> Result<u8> {
    let begun = Instant::now();
    let mut signals = Signals::listen()?;
    let binaries = tokio::select! {
        found = binaries::find_or_build() => found?,
        signal = signals.next() => anyhow::bail!("{signal} while looking for the binaries"),
    };
    rundir::sweep(&disk::data_roots());
    let mut home = RunDir::create(&std::env::temp_dir(), &random_id())?;
    let supervisor = Rc::new(Supervisor::new(&home.path().join("fleet"), binaries, clusters.len())?);

    let started = tokio::select! {
        started = supervisor.start(clusters, |line| eprintln!("  {line}")) => started,
        signal = signals.next() => Err(anyhow::anyhow!("{signal} while starting the fleet")),
    };
    let end = match started {
        Ok(()) => {
            eprintln!("the fleet is ready after {:.1} s", begun.elapsed().as_secs_f32());
            in_fleet(&supervisor, &mut signals, command).await
        }
        Err(error) => Err(error),
    };

    let keep = harness::keep_wrecks() && !matches!(end, Ok(0));
    supervisor.stop(keep).await;
    if keep {
        home.keep();
        eprintln!("logs are kept in {}", supervisor.dir().display());
    }
    end
}

async fn in_fleet(supervisor: &Rc<Supervisor>, signals: &mut Signals, command: &[String]) -> Result<u8> {
    let listener = supervisor.listen()?;
    let mut child = spawn(supervisor, command)?;
    let status = tokio::select! {
        status = child.wait() => status?,
        served = supervisor.serve(listener) => {
            served?;
            anyhow::bail!("the fleet was stopped by somebody else");
        }
        signal = signals.next() => interrupted(&mut child, signals, signal).await?,
    };
    Ok(exit_code(status))
}

fn spawn(supervisor: &Supervisor, command: &[String]) -> Result<Child> {
    let (program, args) = command.split_first().context("no command")?;
    let dir: &Path = supervisor.dir();
    Command::new(crate::process::setpriv()?)
        .args(["--pdeathsig", "KILL", "--", program])
        .args(args)
        .env(DIR_ENV, dir)
        .env("KUBECONFIG", dir.join("kubeconfig"))
        .env("FLEET_KUBECTL", &supervisor.binaries().kubectl)
        .stdin(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run {program}"))
}

/// Passes the signal on and waits a while. Ctrl-C reached the command already, since it is in our group.
async fn interrupted(child: &mut Child, signals: &mut Signals, signal: Signal) -> Result<ExitStatus> {
    if let (Some(pid), true) = (
        child.id().and_then(|id| i32::try_from(id).ok()),
        signal != Signal::SIGINT,
    ) {
        let _ = kill(Pid::from_raw(pid), signal);
    }
    tokio::select! {
        status = child.wait() => return Ok(status?),
        _ = signals.next() => {}
        () = tokio::time::sleep(INTERRUPT_PATIENCE) => {}
    }
    child.kill().await?;
    Ok(child.wait().await?)
}

/// As a shell reports it.
fn exit_code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn the_exit_code_is_the_commands() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
