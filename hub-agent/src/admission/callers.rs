//! Who is connected, and who goes when there are too many.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::channel::Source;

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
    source: Source,
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
    pub(super) async fn enter(&self, source: Source) -> Caller {
        let permit = if let Ok(permit) = self.free.clone().try_acquire_owned() {
            permit
        } else {
            self.make_room(source);
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
            source,
        };
        all.open.insert(id, open);
        Caller {
            id,
            source,
            ended,
            all: self.all.clone(),
            _permit: permit,
        }
    }

    /// Ends the connection that has been silent longest; where all are busy, the oldest of another source that has most
    /// of the places.
    fn make_room(&self, newcomer: Source) {
        let all = self.all.lock();
        let open = || all.open.values().filter(|open| !open.ended.is_cancelled());
        let silent = open().filter_map(|open| Some((open.silent_since?, &open.ended)));
        if let Some((_, ended)) = silent.min_by_key(|(since, _)| *since) {
            ended.cancel();
            return;
        }
        let mut counts = HashMap::<Source, usize>::new();
        for open in open() {
            *counts.entry(open.source).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        let greedy = most.filter(|(source, count)| *source != newcomer && 2 * count > all.open.len());
        if let Some((greedy, _)) = greedy
            && let Some(oldest) = open().find(|open| open.source == greedy)
        {
            oldest.ended.cancel();
        }
    }
}

/// One connection, until it is dropped.
pub(super) struct Caller {
    id: u64,
    source: Source,
    ended: CancellationToken,
    all: Arc<Mutex<All>>,
    _permit: OwnedSemaphorePermit,
}

impl Caller {
    /// Where it comes from.
    pub(super) fn source(&self) -> Source {
        self.source
    }

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
    use std::net::Ipv4Addr;

    use super::*;

    fn source(last: u8) -> Source {
        Source::from(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 0, last)))
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_silent_makes_room_and_nobody_who_is_being_answered() {
        let callers = Callers::with(3);
        let busy = callers.enter(source(1)).await;
        let answering = busy.busy();
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let silent = callers.enter(source(1)).await;
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let newer = callers.enter(source(1)).await;
        let one_more = callers.enter(source(1));
        tokio::pin!(one_more);
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        assert!(silent.ended().is_cancelled());
        assert!(!busy.ended().is_cancelled() && !newer.ended().is_cancelled());
        drop(silent);
        let one_more = one_more.await;
        assert!(!one_more.ended().is_cancelled());
        drop(answering);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_keeps_most_places_busy_makes_room_for_another() {
        let callers = Callers::with(3);
        let (first, second) = (callers.enter(source(1)).await, callers.enter(source(1)).await);
        let other = callers.enter(source(2)).await;
        let _busy = [first.busy(), second.busy(), other.busy()];
        let again = callers.enter(source(1));
        tokio::pin!(again);
        assert!(futures::poll!(again.as_mut()).is_pending());
        assert!(!first.ended().is_cancelled(), "it waits for its own");
        let new = callers.enter(source(3));
        tokio::pin!(new);
        assert!(futures::poll!(new.as_mut()).is_pending());
        assert!(first.ended().is_cancelled() && !second.ended().is_cancelled() && !other.ended().is_cancelled());
    }
}
