//! What `fleet-local` does: bring a fleet up and down, run a command in a throw-away one, use existing clusters.

pub mod external;
pub mod run;
pub mod supervise;
pub mod up;

use anyhow::Result;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask us to end.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Starts listening; from now on none of them ends the process by itself.
    pub fn listen() -> Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> nix::sys::signal::Signal {
        use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGTERM};
        tokio::select! {
            _ = self.interrupt.recv() => SIGINT,
            _ = self.terminate.recv() => SIGTERM,
            _ = self.hangup.recv() => SIGHUP,
        }
    }
}
