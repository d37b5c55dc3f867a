//! Whether anything may be touched, and what is being touched.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The join gate. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<Inner>);

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

/// A pass inside the gate.
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

impl Gate {
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

    /// Lets a pass in, if the gate is open.
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
        let gate = Gate::default();
        assert!(gate.enter().is_none());
        assert!(gate.open("u"));
        assert!(!gate.open("u"));
        let inside = gate.enter().unwrap();
        let closing = tokio::spawn({
            let gate = gate.clone();
            async move { gate.close().await }
        });
        tokio::task::yield_now().await;
        assert!(gate.enter().is_none() && !gate.is_open() && !closing.is_finished());
        drop(inside);
        closing.await.unwrap();
        assert!(gate.open("u"));
    }

    #[tokio::test]
    async fn a_hold_keeps_everybody_out_whatever_the_hub_asks() {
        let gate = Gate::default();
        assert!(gate.open("u") && gate.hold(true) && !gate.hold(true));
        assert!(gate.enter().is_none() && !gate.is_open() && gate.is_held());
        assert!(!gate.open("u"));
        assert!(gate.hold(false) && gate.is_open() && !gate.is_held());
        assert!(gate.enter().is_some());
    }
}
