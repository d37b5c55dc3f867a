//! A supervised process: control-plane components and agents alike.
//!
//! A process is described by plain data (`Spec`), so that a test in another process can ask the supervisor to start one.
//! It is tied to the supervisor by `setpriv --pdeathsig KILL`: when the supervisor dies, however it dies, the kernel ends
//! its children. That signal is sent when the *thread* that started the child ends, so every child is started from the
//! main thread (the launcher runs on a single-threaded runtime); `start` refuses anything else.

pub mod ready;
pub mod table;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpid, gettid};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::watch;

use crate::binaries::which;
pub use ready::Ready;

/// How many lines of a log a message about a dead process carries.
const TAIL_LINES: usize = 12;

/// Everything needed to start a process, again and again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// `<cluster>/<component>`, unique in the fleet.
    pub name: String,
    /// The program to run.
    pub program: PathBuf,
    /// Its arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Variables on top of the supervisor's.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where its output goes.
    pub log: PathBuf,
    /// How to see that it is ready.
    #[serde(default)]
    pub ready: Ready,
    /// How long it may take to become ready.
    #[serde(default = "default_ready_within")]
    pub ready_within: Duration,
}

const fn default_ready_within() -> Duration {
    // Generous: a busy machine with two cores starts twenty of these at once.
    Duration::from_mins(2)
}

/// What a process is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "state")]
pub enum State {
    /// It runs.
    Running {
        /// Its process id.
        pid: i32,
    },
    /// It was stopped with SIGSTOP.
    Paused {
        /// Its process id.
        pid: i32,
    },
    /// It ended because we asked for it.
    Stopped,
    /// It ended by itself.
    Died {
        /// How, in words.
        how: String,
    },
}

impl State {
    /// The process id while there is one.
    pub fn pid(&self) -> Option<i32> {
        match self {
            Self::Running { pid } | Self::Paused { pid } => Some(*pid),
            Self::Stopped | Self::Died { .. } => None,
        }
    }
}

/// A process that was started at least once.
#[derive(Debug)]
pub struct Process {
    spec: Spec,
    run_id: String,
    state: watch::Sender<State>,
    stopping: std::sync::atomic::AtomicBool,
}

impl Process {
    /// Starts it; does not wait until it is ready.
    pub fn start(spec: Spec, run_id: &str) -> Result<Arc<Self>> {
        let (state, _) = watch::channel(State::Stopped);
        let this = Arc::new(Self {
            spec,
            run_id: run_id.to_owned(),
            state,
            stopping: false.into(),
        });
        this.spawn()?;
        Ok(this)
    }

    /// What it was started from.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// What it is doing now.
    pub fn state(&self) -> State {
        self.state.borrow().clone()
    }

    fn spawn(self: &Arc<Self>) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        if gettid() != getpid() {
            bail!(
                "{}: processes must be started from the main thread, or they die with another one",
                self.spec.name
            );
        }
        let setpriv = setpriv()?;
        let log = open_log(&self.spec.log)?;
        let mut child = Command::new(setpriv)
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.spec.program)
            .args(&self.spec.args)
            .envs(&self.spec.env)
            .env(crate::rundir::RUN_ID_ENV, &self.run_id)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Its own group: Ctrl-C in the terminal is for the launcher, which stops the parts in the right order.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {}", self.spec.name))?;
        let pid = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .context("a process without id")?;
        self.stopping.store(false, Relaxed);
        self.state.send_replace(State::Running { pid });

        let this = Arc::clone(self);
        tokio::spawn(async move {
            let status = child.wait().await;
            // No await between reaping and this line, so that nobody signals an id that was given to another process.
            let end = if this.stopping.load(Relaxed) {
                State::Stopped
            } else {
                State::Died { how: how(status) }
            };
            if let State::Died { how } = &end {
                tracing::error!(process = this.spec.name, %how, log = %this.log_tail(), "A process died");
            }
            this.state.send_replace(end);
        });
        Ok(())
    }

    /// Waits until it is ready; fails with the end of its log if it dies or takes too long.
    pub async fn ready(&self) -> Result<()> {
        let mut state = self.state.subscribe();
        let died = state.wait_for(|s| s.pid().is_none());
        tokio::select! {
            biased;
            _ = died => bail!("{} ended while starting: {}", self.spec.name, self.last_words()),
            ready = tokio::time::timeout(self.spec.ready_within, self.spec.ready.wait()) => match ready {
                Ok(result) => result.with_context(|| format!("{} did not become ready", self.spec.name)),
                Err(_) => bail!(
                    "{} is not ready after {} s: {}", self.spec.name, self.spec.ready_within.as_secs(), self.last_words()
                ),
            }
        }
    }

    /// Starts it again after it was stopped, killed or died, and waits until it is ready.
    pub async fn start_again(self: &Arc<Self>) -> Result<()> {
        if self.state().pid().is_some() {
            return Ok(());
        }
        self.spawn()?;
        self.ready().await
    }

    /// Asks it to end, and ends it after `patience`.
    pub async fn stop(&self, patience: Duration) {
        self.stopping.store(true, std::sync::atomic::Ordering::Relaxed);
        // A paused process does not see SIGTERM before it goes on.
        self.signal(Signal::SIGTERM);
        self.signal(Signal::SIGCONT);
        if tokio::time::timeout(patience, self.ended()).await.is_err() {
            self.signal(Signal::SIGKILL);
            self.ended().await;
        }
    }

    /// Ends it the hard way, as a crash would.
    pub async fn kill(&self) {
        self.stopping.store(true, std::sync::atomic::Ordering::Relaxed);
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }

    /// Freezes it: connections stay open and nothing answers.
    pub fn pause(&self) {
        self.signal(Signal::SIGSTOP);
        self.state.send_if_modified(|state| match *state {
            State::Running { pid } => {
                *state = State::Paused { pid };
                true
            }
            _ => false,
        });
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::SIGCONT);
        self.state.send_if_modified(|state| match *state {
            State::Paused { pid } => {
                *state = State::Running { pid };
                true
            }
            _ => false,
        });
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        // The sender lives in self, so this cannot fail.
        let _ = self.state.subscribe().wait_for(|s| s.pid().is_none()).await;
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.state.borrow().pid() {
            // ESRCH: it ended just now, which is what the next line of every caller finds out.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.spec.log, TAIL_LINES)
    }

    /// Whether it ended because another process has one of its ports.
    pub fn lost_its_port(&self) -> bool {
        matches!(self.state(), State::Died { .. }) && tail(&self.spec.log, 60).contains("address already in use")
    }

    /// The line that most likely says why; the whole tail goes to the supervisor's log.
    fn last_words(&self) -> String {
        let tail = tail(&self.spec.log, TAIL_LINES);
        let error = |line: &&str| line.starts_with('E') || line.starts_with('F') || line.contains("rror");
        tail.lines()
            .rev()
            .find(error)
            .or(tail.lines().last())
            .unwrap_or("it said nothing")
            .to_owned()
    }
}

fn how(status: std::io::Result<ExitStatus>) -> String {
    status.map_or_else(|e| e.to_string(), |s| s.to_string())
}

/// The program that ties a child to us.
pub fn setpriv() -> Result<PathBuf> {
    which("setpriv").context("setpriv is missing: install util-linux (Debian: apt-get install util-linux)")
}

fn open_log(path: &Path) -> Result<fs::File> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(|e| crate::disk::explain(e, dir))?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| crate::disk::explain(e, path))
}

/// The last `lines` lines of a file; only its last 64 kB are looked at.
pub fn tail(path: &Path, lines: usize) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut end = Vec::new();
    if let Ok(mut file) = fs::File::open(path) {
        let length = file.metadata().map_or(0, |m| m.len());
        let _ = file.seek(SeekFrom::Start(length.saturating_sub(64 << 10)));
        let _ = file.read_to_end(&mut end);
    }
    let text = String::from_utf8_lossy(&end);
    // What an error says comes before its backtrace, which is longer than what is shown.
    let all = text.lines().filter(|line| !is_frame(line)).collect::<Vec<_>>();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Whether a line is one of a backtrace.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    line.starts_with("at /")
        || line.starts_with("at ./")
        || line.split_once(": ").is_some_and(|(number, _)| is_number(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_end_of_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        fs::write(&log, "a\nb\nc\n").unwrap();
        assert_eq!(tail(&log, 2), "b\nc");
        assert_eq!(tail(&log, 9), "a\nb\nc");
        assert_eq!(tail(&dir.path().join("none"), 2), "");
    }

    #[test]
    fn a_backtrace_hides_no_error() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let text = "Error: no room\n\nStack backtrace:\n   0: main\n             at /src/main.rs:1:2\n  35: _start\n";
        fs::write(log.path(), text).unwrap();
        assert_eq!(tail(log.path(), 3), "Error: no room\n\nStack backtrace:");
    }

    #[test]
    fn a_spec_needs_only_what_has_no_default() {
        let spec: Spec =
            serde_json::from_str(r#"{"name":"hub/agent","program":"/bin/agent","log":"/tmp/agent.log"}"#).unwrap();
        assert_eq!(spec.ready, Ready::Started);
        assert_eq!(spec.ready_within, Duration::from_mins(2));
    }
}
