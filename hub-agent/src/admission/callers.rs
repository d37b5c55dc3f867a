//! Who is connected, and who goes when there are too many.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
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
    all: Arc<All>,
}

#[derive(Default)]
struct All {
    open: Mutex<Open>,
    /// One more is silent.
    silenced: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_id: BTreeMap<u64, Connection>,
}

struct Connection {
    source: Source,
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
    pub(super) async fn place(&self) -> Place {
        let permit = loop {
            if let Ok(permit) = self.free.clone().try_acquire_owned() {
                break permit;
            }
            let freed = self.free.clone().acquire_owned();
            if self.end_silent() {
                break freed.await.expect("the semaphore is never closed");
            }
            // Whoever is the first to be silent again makes room, if nobody goes by itself.
            tokio::select! {
                freed = freed => break freed.expect("the semaphore is never closed"),
                () = self.all.silenced.notified() => {}
            }
        };
        Place {
            all: self.all.clone(),
            permit,
        }
    }

    /// Ends a connection that is silent, if there is one: of the source that has most of them the one that has been so
    /// longest.
    fn end_silent(&self) -> bool {
        let open = self.all.open.lock();
        let silent = || {
            let staying = open.by_id.values().filter(|one| !one.ended.is_cancelled());
            staying.filter_map(|one| Some((one.silent_since?, one)))
        };
        let mut of_source = HashMap::<Source, usize>::new();
        for (_, one) in silent() {
            *of_source.entry(one.source).or_default() += 1;
        }
        let most = of_source.values().max();
        let of_those = silent().filter(|(_, one)| of_source.get(&one.source) == most);
        let longest = of_those.min_by_key(|(since, _)| *since);
        if let Some((_, one)) = longest {
            one.ended.cancel();
        }
        longest.is_some()
    }
}

/// A place for a connection that is still to come.
pub(super) struct Place {
    all: Arc<All>,
    permit: OwnedSemaphorePermit,
}

impl Place {
    /// The connection has come.
    pub(super) fn taken_from(self, address: IpAddr) -> Caller {
        let Self { all, permit } = self;
        let (source, ended) = (Source::from(address), CancellationToken::new());
        let mut open = all.open.lock();
        let id = open.next;
        open.next += 1;
        let connection = Connection {
            source,
            ended: ended.clone(),
            silent_since: Some(Instant::now()),
        };
        open.by_id.insert(id, connection);
        drop(open);
        Caller {
            id,
            source,
            ended,
            all,
            _permit: permit,
        }
    }
}

/// One connection, until it is dropped.
pub(super) struct Caller {
    id: u64,
    source: Source,
    ended: CancellationToken,
    all: Arc<All>,
    _permit: OwnedSemaphorePermit,
}

impl Caller {
    /// Cancelled when it has to make room.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Where it comes from.
    pub(super) fn source(&self) -> Source {
        self.source
    }

    /// A request is being answered for as long as this is held. To be taken when all of the request is there: whoever
    /// sends none is silent.
    pub(super) fn busy(&self) -> Busy<'_> {
        self.set(None);
        Busy(self)
    }

    fn set(&self, silent_since: Option<Instant>) {
        if let Some(open) = self.all.open.lock().by_id.get_mut(&self.id) {
            open.silent_since = silent_since;
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.all.open.lock().by_id.remove(&self.id);
    }
}

/// See [`Caller::busy`].
pub(super) struct Busy<'a>(&'a Caller);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.set(Some(Instant::now()));
        self.0.all.silenced.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn enter(callers: &Callers, from: &str) -> Caller {
        let caller = callers.place().await.taken_from(from.parse().unwrap());
        tokio::time::advance(Duration::from_secs(1)).await;
        caller
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_silent_makes_room_and_nobody_who_is_being_answered() {
        let callers = Callers::with(3);
        let busy = enter(&callers, "10.0.0.1").await;
        let answering = busy.busy();
        let silent = enter(&callers, "10.0.0.1").await;
        let newer = enter(&callers, "10.0.0.1").await;
        let one_more = callers.place();
        tokio::pin!(one_more);
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        assert!(silent.ended().is_cancelled());
        assert!(!busy.ended().is_cancelled() && !newer.ended().is_cancelled());
        drop(silent);
        let one_more = one_more.await.taken_from("10.0.0.1".parse().unwrap());
        assert!(!one_more.ended().is_cancelled());
        drop(answering);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_holds_most_places_makes_room() {
        let callers = Callers::with(4);
        let first = enter(&callers, "10.0.0.1").await;
        let mut many = Vec::new();
        for _ in 0..3 {
            many.push(enter(&callers, "10.0.0.2").await);
        }
        let one_more = callers.place();
        tokio::pin!(one_more);
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        assert!(many[0].ended().is_cancelled() && !first.ended().is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_to_be_silent_again_makes_room() {
        let callers = Callers::with(2);
        let both = [enter(&callers, "10.0.0.1").await, enter(&callers, "10.0.0.1").await];
        let (one, other) = (both[0].busy(), both[1].busy());
        let one_more = callers.place();
        tokio::pin!(one_more);
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        drop(other);
        assert!(futures::poll!(one_more.as_mut()).is_pending());
        assert!(both[1].ended().is_cancelled() && !both[0].ended().is_cancelled());
        drop(one);
    }
}
