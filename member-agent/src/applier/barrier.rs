//! Whether anything may be touched, and what is being touched.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Closed until this cluster has joined, and while it is held. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Barrier(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    idle: Notify,
}

#[derive(Default)]
struct State {
    /// The InternalMemberCluster under which it is open.
    open: Option<String>,
    /// The hub went back in time: nobody enters, whatever the hub asks.
    held: bool,
    inside: usize,
}

/// A pass inside the barrier.
pub(super) struct Inside(Arc<Inner>);

impl Drop for Inside {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside -= 1;
        if state.inside == 0 {
            self.0.idle.notify_waiters();
        }
    }
}

impl Barrier {
    /// Opens it; whether it was closed, or open for another membership.
    pub(super) fn open(&self, imc_uid: &str) -> bool {
        let mut state = self.0.state.lock();
        let news = state.open.as_deref() != Some(imc_uid);
        state.open = Some(imc_uid.to_owned());
        news
    }

    /// Lets nobody in any more, and waits until everybody is out.
    pub(super) async fn close(&self) {
        loop {
            let idle = self.0.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            {
                let mut state = self.0.state.lock();
                state.open = None;
                if state.inside == 0 {
                    return;
                }
            }
            idle.await;
        }
    }

    /// Holds it shut, or not any more; whether that is news. Who is inside notices at its next step.
    pub(super) fn hold(&self, held: bool) -> bool {
        std::mem::replace(&mut self.0.state.lock().held, held) != held
    }

    /// Whether it would be open but for the hold.
    pub(super) fn is_held(&self) -> bool {
        let state = self.0.state.lock();
        state.held && state.open.is_some()
    }

    /// Lets a pass in, if the barrier is open.
    pub(super) fn enter(&self) -> Option<Inside> {
        let mut state = self.0.state.lock();
        if state.held {
            return None;
        }
        state.open.as_ref()?;
        state.inside += 1;
        Some(Inside(self.0.clone()))
    }

    /// Whether it is open still: a long round asks before each object.
    pub(super) fn is_open(&self) -> bool {
        let state = self.0.state.lock();
        state.open.is_some() && !state.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closing_waits_for_those_inside_and_lets_nobody_in() {
        let barrier = Barrier::default();
        assert!(barrier.enter().is_none());
        assert!(barrier.open("u"));
        assert!(!barrier.open("u"));
        let inside = barrier.enter().unwrap();
        let closing = tokio::spawn({
            let barrier = barrier.clone();
            async move { barrier.close().await }
        });
        tokio::task::yield_now().await;
        assert!(barrier.enter().is_none() && !barrier.is_open() && !closing.is_finished());
        drop(inside);
        closing.await.unwrap();
        assert!(barrier.open("u"));
    }

    #[tokio::test]
    async fn a_hold_keeps_everybody_out_whatever_the_hub_asks() {
        let barrier = Barrier::default();
        assert!(barrier.open("u") && barrier.hold(true) && !barrier.hold(true));
        assert!(barrier.enter().is_none() && !barrier.is_open() && barrier.is_held());
        assert!(!barrier.open("u"));
        assert!(barrier.hold(false) && barrier.is_open() && !barrier.is_held());
        assert!(barrier.enter().is_some());
    }
}
