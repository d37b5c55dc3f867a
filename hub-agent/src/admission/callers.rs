//! Who is connected, and who goes when there are too many.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// The API server opens a connection for each request that it has at one time.
const CONNECTIONS_MAX: usize = 1024;

/// All connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Callers {
    free: Arc<Semaphore>,
    all: Arc<Mutex<All>>,
}

#[derive(Default)]
struct All {
    next: u64,
    open: BTreeMap<u64, Open>,
}

struct Open {
    ended: CancellationToken,
    /// Since when nothing was asked; none while something is being answered.
    silent_since: Option<Instant>,
}

impl Default for Callers {
    fn default() -> Self {
        Self::with(CONNECTIONS_MAX)
    }
}

impl Callers {
    fn with(max: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(max)),
            all: Arc::default(),
        }
    }

    /// A place for one more, as soon as there is one.
    pub(super) async fn enter(&self) -> Caller {
        let permit = if let Ok(permit) = self.free.clone().try_acquire_owned() {
            permit
        } else {
            self.end_silent();
            let freed = self.free.clone().acquire_owned().await;
            freed.expect("the semaphore is never closed")
        };
        let ended = CancellationToken::new();
        let mut all = self.all.lock();
        let id = all.next;
        all.next += 1;
        let open = Open {
            ended: ended.clone(),
            silent_since: Some(Instant::now()),
        };
        all.open.insert(id, open);
        Caller {
            id,
            ended,
            all: self.all.clone(),
            _permit: permit,
        }
    }

    /// Ends the connection that has been silent longest.
    fn end_silent(&self) {
        let all = self.all.lock();
        let silent = all.open.values().filter(|open| !open.ended.is_cancelled());
        let silent = silent.filter_map(|open| Some((open.silent_since?, &open.ended)));
        if let Some((_, ended)) = silent.min_by_key(|(since, _)| *since) {
            ended.cancel();
        }
    }
}

/// One connection, until it is dropped.
pub(super) struct Caller {
    id: u64,
    ended: CancellationToken,
    all: Arc<Mutex<All>>,
    _permit: OwnedSemaphorePermit,
}

impl Caller {
    /// Cancelled when it has to make room.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// A request is being answered for as long as this is held.
    pub(super) fn busy(&self) -> Busy<'_> {
        self.set(None);
        Busy(self)
    }

    fn set(&self, silent_since: Option<Instant>) {
        if let Some(open) = self.all.lock().open.get_mut(&self.id) {
            open.silent_since = silent_since;
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.all.lock().open.remove(&self.id);
    }
}

/// See [`Caller::busy`].
pub(super) struct Busy<'a>(&'a Caller);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_silent_makes_room_and_nobody_who_is_being_answered() {
        let callers = Callers::with(3);
        let busy = callers.enter().await;
        let answering = busy.busy();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let silent = callers.enter().await;
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let newer = callers.enter().await;
        let one_more = callers.enter();
        tokio::pin!(one_more);
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        assert!(silent.ended().is_cancelled());
        assert!(!busy.ended().is_cancelled() && !newer.ended().is_cancelled());
        drop(silent);
        let one_more = one_more.await;
        assert!(!one_more.ended().is_cancelled());
        drop(answering);
    }
}
