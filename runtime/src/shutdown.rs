//! How a process ends: on a signal, or because a task that it needs has ended.

use std::{fmt::Display, future::Future};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::{Id, JoinSet},
};
use tokio_util::sync::CancellationToken;

use crate::logs;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process at once: whoever repeats it does not
/// want to wait.
///
/// # Errors
/// If the process may not install signal handlers.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = stop.clone();
    tokio::spawn(async move {
        for attempt in 0.. {
            let name = tokio::select! {
                _ = term.recv() => "SIGTERM",
                _ = int.recv() => "SIGINT",
            };
            if attempt > 0 {
                tracing::warn!(signal = name, "Stopping at once");
                std::process::exit(1);
            }
            tracing::info!(signal = name, "Stopping");
            token.cancel();
        }
    });
    Ok(stop)
}

/// Tasks that the process cannot do without. When one of them ends before the process was told to stop, all are told to
/// stop, and [`Tasks::join`] says which one it was and why.
#[derive(Debug)]
pub struct Tasks {
    stop: CancellationToken,
    set: JoinSet<Result<(), String>>,
    names: std::collections::HashMap<Id, &'static str>,
}

/// Why the process ended although nobody asked it to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{task} ended: {reason}")]
pub struct Ended {
    /// The name that the task was given.
    pub task: &'static str,
    /// Its error, or that it ended or panicked without one.
    pub reason: String,
}

impl Tasks {
    /// Supervises tasks until `stop` is cancelled.
    pub fn new(stop: CancellationToken) -> Self {
        Self {
            stop,
            set: JoinSet::new(),
            names: std::collections::HashMap::new(),
        }
    }

    /// The token that tells every task to stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// Starts a task that may fail.
    pub fn spawn<E: std::error::Error + 'static>(
        &mut self,
        name: &'static str,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let task = async move { task.await.map_err(|error| logs::chain(&error).to_string()) };
        let handle = self.set.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Starts a task that ends only when told to stop.
    pub fn spawn_forever(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.spawn(name, async move {
            task.await;
            Ok::<(), std::convert::Infallible>(())
        });
    }

    /// Starts a task that would never end, such as a watch; it is dropped when told to stop.
    pub fn spawn_endless(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.spawn_forever(name, async move {
            stop.run_until_cancelled(task).await;
        });
    }

    /// Waits until every task has ended.
    ///
    /// # Errors
    /// The first task that ended although nobody had asked for it, or failed while stopping.
    pub async fn join(mut self) -> Result<(), Ended> {
        let mut first = None;
        while let Some(ended) = self.set.join_next_with_id().await {
            let (id, reason) = match ended {
                Ok((id, Ok(()))) if self.stop.is_cancelled() => (id, None),
                Ok((id, Ok(()))) => (id, Some("nobody had asked for it".to_owned())),
                Ok((id, Err(error))) => (id, Some(error)),
                Err(panic) => (panic.id(), Some(panic_text(panic))),
            };
            let task = self.names.remove(&id).unwrap_or("task");
            if let Some(reason) = reason {
                tracing::error!(task, reason, "A needed task ended");
                first.get_or_insert(Ended { task, reason });
                self.stop.cancel();
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// What a panic said, as far as it is text.
pub(crate) fn panic_text(error: tokio::task::JoinError) -> String {
    match error.try_into_panic() {
        Ok(payload) => {
            let text = payload.downcast_ref::<&str>().map(ToString::to_string);
            let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
            format!("panicked: {}", text.as_deref().unwrap_or("(no text)"))
        }
        Err(error) => error.to_string(),
    }
}

impl Ended {
    /// An ending with the given reason.
    pub fn new(task: &'static str, reason: impl Display) -> Self {
        Self {
            task,
            reason: reason.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_needed_task_takes_the_others_with_it() {
        let mut tasks = Tasks::new(CancellationToken::new());
        let stop = tasks.stop().clone();
        tasks.spawn_forever("watch", async move { stop.cancelled().await });
        tasks.spawn("lease", async { Err(std::io::Error::other("no such namespace")) });
        assert_eq!(tasks.join().await, Err(Ended::new("lease", "no such namespace")));
    }

    #[tokio::test]
    async fn a_panic_is_a_reason() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn_forever("work", async { panic!("index {} is out", 3) });
        assert_eq!(tasks.join().await, Err(Ended::new("work", "panicked: index 3 is out")));
    }

    #[tokio::test]
    async fn stopping_is_no_error() {
        let mut tasks = Tasks::new(CancellationToken::new());
        let stop = tasks.stop().clone();
        tasks.spawn_forever("watch", async move { stop.cancelled().await });
        tasks.stop().cancel();
        assert_eq!(tasks.join().await, Ok(()));
    }
}
