//! The control socket of a supervisor: one JSON line in, one JSON line out, one connection per request.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use crate::cluster::ClusterSpec;
use crate::process;

/// Longer than anything the supervisor does; it has its own bounds. This one is for a supervisor that is paused or stuck.
const PATIENCE: Duration = Duration::from_mins(5);

/// What one can ask of a supervisor. Processes are named `<cluster>/<component>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Request {
    /// What every process is doing: `Vec<ProcessStatus>`.
    Status,
    /// Start one more cluster, and wait until it is ready.
    AddMember(ClusterSpec),
    /// Stop a member and remove everything of it.
    RemoveMember(String),
    /// Start a process of any kind, and wait until it is ready.
    Start(process::Spec),
    /// Start a process that was stopped, killed or died.
    StartAgain(String),
    /// Ask a process to end.
    Stop(String),
    /// Stop and start a process.
    Restart(String),
    /// SIGKILL.
    Kill(String),
    /// SIGSTOP.
    Pause(String),
    /// SIGCONT.
    Resume(String),
    /// Stop everything and end.
    Down,
}

/// A process and what it is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStatus {
    /// `<cluster>/<component>`.
    pub name: String,
    /// What it is doing.
    pub state: process::State,
    /// Its log.
    pub log: std::path::PathBuf,
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Reply {
    /// It was done.
    Done(serde_json::Value),
    /// It was not, and why.
    Failed(String),
}

/// Asks the supervisor that listens at `socket`.
pub async fn ask<T: DeserializeOwned>(socket: &Path, request: &Request) -> Result<T> {
    ask_within(PATIENCE, socket, request).await
}

/// The same with another bound.
pub async fn ask_within<T: DeserializeOwned>(patience: Duration, socket: &Path, request: &Request) -> Result<T> {
    let reply = tokio::time::timeout(patience, exchange(socket, request))
        .await
        .with_context(|| format!("the supervisor did not answer within {} s", patience.as_secs()))??;
    match reply {
        Reply::Done(value) => Ok(serde_json::from_value(value)?),
        Reply::Failed(why) => bail!(why),
    }
}

async fn exchange(socket: &Path, request: &Request) -> Result<Reply> {
    let stream = UnixStream::connect(socket)
        .await
        .with_context(|| format!("no supervisor listens at {}", socket.display()))?;
    let (read, mut write) = stream.into_split();
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    write.write_all(&line).await?;
    let line = BufReader::new(read)
        .lines()
        .next_line()
        .await?
        .context("the supervisor ended meanwhile")?;
    Ok(serde_json::from_str(&line)?)
}
