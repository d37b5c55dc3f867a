//! The detached supervisor behind `fleet-local up`.
//!
//! `up` sends the order as one line on stdin and keeps that pipe open until the fleet is ready; then it says `detach`. If
//! the pipe closes before, whoever called `up` is gone, and a half-started fleet is of no use to anybody. Progress goes
//! back on stdout, one JSON line each, until the fleet is ready or has failed.

use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::rc::Rc;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::pipe;

use super::Signals;
use crate::binaries::Binaries;
use crate::cluster::ClusterSpec;
use crate::supervisor::Supervisor;

/// What to supervise.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    /// The fleet directory.
    pub dir: PathBuf,
    /// The programs.
    pub binaries: Binaries,
    /// The clusters.
    pub clusters: Vec<ClusterSpec>,
}

/// What the supervisor says while it starts.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Report {
    /// Something went on.
    Progress(String),
    /// Everything is ready.
    Ready,
    /// It gave up.
    Failed(String),
}

/// The word with which `up` lets go.
pub const DETACH: &str = "detach";

/// Runs until it is told to stop. Called in the hidden command `supervise`.
pub async fn supervise() -> Result<()> {
    // Away from the terminal: Ctrl-C there is not for us.
    nix::unistd::setsid().context("the supervisor must be a process of its own")?;
    let mut signals = Signals::listen()?;
    let mut stdin = BufReader::new(stdin()?).lines();
    let order = stdin.next_line().await?.context("no order came")?;
    let Order {
        dir,
        binaries,
        clusters,
    } = serde_json::from_str(&order)?;

    let supervisor = match Supervisor::new(&dir, binaries, clusters.len()) {
        Ok(supervisor) => Rc::new(supervisor),
        Err(error) => {
            say(&Report::Failed(format!("{error:#}")));
            return Err(error);
        }
    };
    let end = tokio::select! {
        started = supervisor.start(&clusters, |line| say(&Report::Progress(line.to_owned()))) => started,
        _ = signals.next() => Err(anyhow::anyhow!("stopped while starting")),
        line = stdin.next_line() => Err(anyhow::anyhow!("whoever asked for the fleet is gone ({line:?})")),
    };
    // Open before anybody is told: `up` returns at that word, and the next command asks at once.
    let end = match end.and_then(|()| supervisor.listen()) {
        Ok(listener) => {
            say(&Report::Ready);
            match stdin.next_line().await {
                Ok(Some(line)) if line == DETACH => serve(&supervisor, listener, &mut signals).await,
                other => Err(anyhow::anyhow!("whoever asked for the fleet is gone ({other:?})")),
            }
        }
        Err(error) => Err(error),
    };
    supervisor.stop(false).await;
    if let Err(error) = &end {
        tracing::error!(%error, "The fleet was stopped");
        // After stopping, so that nothing is left behind when `up` returns.
        say(&Report::Failed(format!("{error:#}")));
    }
    end
}

/// Not tokio's stdin, whose reading thread would keep the process alive as long as `up` keeps the pipe open.
fn stdin() -> Result<pipe::Receiver> {
    let fd = std::io::stdin().as_fd().try_clone_to_owned()?;
    pipe::Receiver::from_owned_fd(fd).context("the supervisor is started by `fleet-local up`")
}

async fn serve(supervisor: &Rc<Supervisor>, listener: UnixListener, signals: &mut Signals) -> Result<()> {
    tracing::info!(dir = %supervisor.dir().display(), "The fleet is ready");
    tokio::select! {
        served = supervisor.serve(listener) => served,
        signal = signals.next() => {
            tracing::info!(%signal, "Asked to stop");
            Ok(())
        }
    }
}

/// Tells `up`, which may be gone.
fn say(report: &Report) {
    let line = serde_json::to_string(report).expect("a report is plain data");
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Reads what a supervisor says until it is ready.
pub async fn follow(stdout: tokio::process::ChildStdout, progress: impl Fn(&str)) -> Result<()> {
    let mut lines = BufReader::new(stdout).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Report::Progress(line) => progress(&line),
            Report::Ready => return Ok(()),
            Report::Failed(why) => bail!(why),
        }
    }
    bail!("the supervisor ended without a word")
}
