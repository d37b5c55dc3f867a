//! A time of leadership, and the work that is done in it.

use std::future::Future;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::shutdown::{Ended, panic_text};

/// Whether we lead.
#[derive(Clone, Debug)]
pub enum State {
    /// Somebody else leads, or nobody.
    Standby,
    /// We lead.
    Leading(Term),
}

/// A time of leadership.
#[derive(Clone, Debug)]
pub struct Term {
    pub(super) transitions: i32,
    pub(super) previous_renewed: Option<Timestamp>,
    pub(super) token: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Term {
    /// The number of this term.
    pub fn transitions(&self) -> i32 {
        self.transitions
    }

    /// When the leader before last renewed, by its own clock; none if there was no other.
    pub fn previous_renewed(&self) -> Option<Timestamp> {
        self.previous_renewed
    }

    /// Cancelled when the term is over.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs a task of the leader. It should end soon after the token is cancelled; until then the lease is kept.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.tasks.spawn(task)
    }
}

/// The state to watch, for agents that do not take part in elections: they always lead, in term 0, until told to stop.
pub fn always(stop: &CancellationToken) -> watch::Receiver<State> {
    let term = Term {
        transitions: 0,
        previous_renewed: None,
        token: stop.child_token(),
        tasks: TaskTracker::new(),
    };
    let (sender, receiver) = watch::channel(State::Leading(term));
    // An open channel that never changes, as others would see it.
    let stop = stop.clone();
    tokio::spawn(async move {
        stop.cancelled().await;
        drop(sender);
    });
    receiver
}

/// Runs the leader's work in every term until told to stop. The work ends when the term's token is cancelled.
///
/// # Errors
/// If the work ends by itself, or panics: the process would hold the lease and do nothing.
pub async fn lead<W>(
    mut state: watch::Receiver<State>,
    stop: CancellationToken,
    work: impl Fn(Term) -> W,
) -> Result<(), Ended>
where
    W: Future<Output = ()> + Send + 'static,
{
    const TASK: &str = "the leader's work";
    loop {
        let term = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            leading = state.wait_for(|state| matches!(state, State::Leading(term) if !term.token.is_cancelled())) => {
                match leading.as_deref() {
                    Ok(State::Leading(term)) => term.clone(),
                    // The elector has gone; whoever supervises it says why.
                    Ok(State::Standby) | Err(_) => return Ok(()),
                }
            }
        };
        let ended = term.spawn(work(term.clone())).await;
        match ended {
            Ok(()) if term.token.is_cancelled() => {}
            Ok(()) => return Err(Ended::new(TASK, "nobody had asked for it")),
            Err(error) => return Err(Ended::new(TASK, panic_text(error))),
        }
    }
}
