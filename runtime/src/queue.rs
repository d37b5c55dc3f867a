//! A work queue of keys for controllers.
//!
//! A key is waiting at most once and worked on at most once at a time; what is added while it is being worked on makes
//! it run once more afterwards. Delayed keys wait on one timer for the earliest of them: nothing polls. Every pass decides
//! anew when it wants to be woken, so a pass drops the timer that its key had. Keys of a higher priority go first; among
//! equals, and so in a queue where nobody asks for one, the first that came.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt::{self, Display},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};

use crate::{
    backoff::Backoff,
    dump::{self, Dump, Look, Section},
};

/// A queue. Cheap to clone.
pub struct Queue<Q>(Arc<Inner<Q>>);

struct Inner<Q> {
    state: Mutex<State<Q>>,
    more: Notify,
    backoff: Backoff,
}

/// The place among those that are ready: by priority, then in the order of adding.
type Rank = (Reverse<i64>, u64);

struct State<Q> {
    ready: BTreeMap<Rank, Q>,
    keys: HashMap<Q, Entry>,
    /// By time, then in the order of adding.
    timers: BTreeMap<(Instant, u64), Q>,
    sequence: u64,
    /// The priority of what a timer wakes, other than after a failure.
    of_timers: i64,
}

#[derive(Default)]
struct Entry {
    /// In `ready`, since when and where.
    ready: Option<(Instant, Rank)>,
    /// Of the last pass.
    priority: i64,
    /// In `timers`, where.
    timer: Option<(Instant, u64)>,
    in_flight: bool,
    /// Wanted again while in flight: at once with this priority, or at this time.
    again: Option<i64>,
    again_at: Option<Instant>,
    failures: u32,
}

/// What a pass asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes.
    Wait,
    /// Another pass at this time.
    At(Instant),
}

impl Next {
    /// The earlier of the two.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(one), Self::At(other)) => Self::At(one.min(other)),
            (Self::At(at), Self::Wait) | (Self::Wait, Self::At(at)) => Self::At(at),
            (Self::Wait, Self::Wait) => Self::Wait,
        }
    }
}

/// A key to work on.
#[derive(Debug)]
pub struct Taken<Q> {
    /// Which.
    pub key: Q,
    /// How long it waited since it was ready.
    pub waited: Duration,
}

impl<Q: Hash + Eq + Clone> Default for Queue<Q> {
    fn default() -> Self {
        // A conflict is over in a tenth of a second; what still fails after ten tries is not helped by more than one a minute.
        Self::new(Backoff {
            min: Duration::from_millis(100),
            max: Duration::from_mins(1),
        })
    }
}

impl<Q: Hash + Eq + Clone> Queue<Q> {
    /// A queue with these delays after failures.
    pub fn new(backoff: Backoff) -> Self {
        let state = State {
            ready: BTreeMap::new(),
            keys: HashMap::new(),
            timers: BTreeMap::new(),
            sequence: 0,
            of_timers: 0,
        };
        Self(Arc::new(Inner {
            state: Mutex::new(state),
            more: Notify::new(),
            backoff,
        }))
    }

    /// The priority of keys that a timer wakes. A repeated failure keeps the priority that it had.
    pub fn set_priority_of_timers(&self, priority: i64) {
        self.0.state.lock().of_timers = priority;
    }

    /// Wants the key worked on as soon as possible, also when it is waiting for a timer.
    pub fn add(&self, key: Q) {
        self.add_with_priority(key, 0);
    }

    /// The same with another priority than 0. A key that is ready already keeps the higher of the two.
    pub fn add_with_priority(&self, key: Q, priority: i64) {
        let mut state = self.0.state.lock();
        let entry = state.keys.entry(key.clone()).or_default();
        if entry.in_flight {
            entry.again = Some(entry.again.map_or(priority, |other| other.max(priority)));
            return;
        }
        let since = match entry.ready {
            Some((_, (Reverse(other), _))) if other >= priority => return,
            Some((since, rank)) => {
                state.ready.remove(&rank);
                since
            }
            None => Instant::now(),
        };
        state.make_ready(key, since, priority);
        drop(state);
        self.0.more.notify_one();
    }

    /// Wants the key worked on at this time, or earlier if it was wanted earlier.
    pub fn add_at(&self, key: Q, at: Instant) {
        if at <= Instant::now() {
            return self.add(key);
        }
        let mut state = self.0.state.lock();
        let entry = state.keys.entry(key.clone()).or_default();
        if entry.in_flight {
            entry.again_at = Some(entry.again_at.map_or(at, |other| other.min(at)));
        } else if entry.ready.is_none() {
            state.set_timer(key, at);
            drop(state);
            self.0.more.notify_one();
        }
    }

    /// Wants the key worked on after this time.
    pub fn add_after(&self, key: Q, delay: Duration) {
        self.add_at(key, Instant::now() + delay);
    }

    /// Whoever worked on keys is gone without a word: they are wanted again.
    pub fn take_back(&self) {
        let mut state = self.0.state.lock();
        let lost = state.keys.iter().filter(|(_, entry)| entry.in_flight);
        let lost: Vec<(Q, i64)> = lost.map(|(key, entry)| (key.clone(), entry.priority)).collect();
        for (key, priority) in lost {
            if let Some(entry) = state.keys.get_mut(&key) {
                entry.in_flight = false;
                (entry.again, entry.again_at) = (None, None);
            }
            state.make_ready(key, Instant::now(), priority);
        }
        drop(state);
        self.0.more.notify_one();
    }

    /// How many keys are ready.
    pub fn len(&self) -> usize {
        self.0.state.lock().ready.len()
    }

    /// Whether no key is ready.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next key, as soon as there is one. Whoever takes it calls [`Queue::done`] or [`Queue::failed`] afterwards.
    /// Safe to cancel. For one taker; a controller is one.
    pub async fn take(&self) -> Taken<Q> {
        loop {
            let next = {
                let mut state = self.0.state.lock();
                state.fire(Instant::now());
                if let Some(((Reverse(priority), _), key)) = state.ready.pop_first() {
                    let entry = state.keys.get_mut(&key).expect("a ready key has an entry");
                    entry.in_flight = true;
                    entry.priority = priority;
                    let (since, _) = entry.ready.take().expect("a ready key knows since when");
                    let timer = entry.timer.take();
                    if let Some(timer) = timer {
                        state.timers.remove(&timer);
                    }
                    return Taken {
                        key,
                        waited: since.elapsed(),
                    };
                }
                state.timers.first_key_value().map(|((at, _), _)| *at)
            };
            match next {
                Some(at) => tokio::select! {
                    () = tokio::time::sleep_until(at) => {}
                    () = self.0.more.notified() => {}
                },
                None => self.0.more.notified().await,
            }
        }
    }

    /// The pass succeeded.
    pub fn done(&self, key: &Q, next: Next) {
        let at = match next {
            Next::Wait => None,
            Next::At(at) => Some(at),
        };
        self.finish(key, at, |entry| entry.failures = 0);
    }

    /// The pass failed; it is repeated with a growing delay, or at once if the key was added meanwhile. Returns the
    /// number of failures in a row.
    pub fn failed(&self, key: &Q) -> u32 {
        let failures = self.0.state.lock().keys.get(key).map_or(1, |entry| entry.failures + 1);
        let at = Instant::now() + self.0.backoff.delay(failures);
        self.finish(key, Some(at), |entry| entry.failures = failures);
        failures
    }

    fn finish(&self, key: &Q, at: Option<Instant>, count: impl FnOnce(&mut Entry)) {
        let mut state = self.0.state.lock();
        let Some(entry) = state.keys.get_mut(key) else { return };
        entry.in_flight = false;
        count(entry);
        let again = std::mem::take(&mut entry.again);
        let at = [at, entry.again_at.take()].into_iter().flatten().min();
        if let Some(priority) = again {
            state.make_ready(key.clone(), Instant::now(), priority);
        } else if let Some(at) = at {
            state.set_timer(key.clone(), at);
        } else if entry.failures == 0 {
            state.keys.remove(key);
        }
        drop(state);
        self.0.more.notify_one();
    }
}

impl<Q: Hash + Eq + Clone + Display + Send + 'static> Queue<Q> {
    /// Lets people who debug see the keys, and what each waits for.
    pub fn show_in(&self, dump: &Dump, name: &str) {
        dump.add(Section::Queues, name, &self.0, |queue, look| {
            queue.state.lock().show(look)
        });
    }
}

impl<Q: Hash + Eq + Clone + Display> State<Q> {
    fn show(&self, look: &mut Look) -> Value {
        let now = Instant::now();
        let keys = look.list(&self.keys, |entry| {
            let (waits, seconds) = match (entry.in_flight, entry.ready, entry.timer) {
                (true, ..) => ("its pass is under way", None),
                (_, Some((since, _)), _) => ("for its turn", Some(now.saturating_duration_since(since))),
                (.., Some((at, _))) => ("for a time to come", Some(at.saturating_duration_since(now))),
                _ => ("for nothing", None),
            };
            dump::fields(json!({
                "waits": waits,
                "seconds": seconds.map(dump::seconds),
                "failures": entry.failures,
                "wantedAgain": entry.again.is_some() || entry.again_at.is_some(),
            }))
        });
        json!({ "ready": self.ready.len(), "timers": self.timers.len(), "keys": keys })
    }
}

impl<Q: Hash + Eq + Clone> State<Q> {
    fn make_ready(&mut self, key: Q, since: Instant, priority: i64) {
        self.sequence += 1;
        let rank = (Reverse(priority), self.sequence);
        self.keys.entry(key.clone()).or_default().ready = Some((since, rank));
        self.ready.insert(rank, key);
    }

    /// The earlier of the time that the key has and this one.
    fn set_timer(&mut self, key: Q, at: Instant) {
        let entry = self.keys.entry(key.clone()).or_default();
        if let Some(current) = entry.timer {
            if current.0 <= at {
                return;
            }
            self.timers.remove(&current);
        }
        self.sequence += 1;
        entry.timer = Some((at, self.sequence));
        self.timers.insert((at, self.sequence), key);
    }

    /// Makes ready what is due.
    fn fire(&mut self, now: Instant) {
        while let Some(timer) = self.timers.first_entry().filter(|timer| timer.key().0 <= now) {
            let ((at, _), key) = timer.remove_entry();
            let entry = self.keys.get_mut(&key).expect("a timed key has an entry");
            entry.timer = None;
            if entry.ready.is_none() {
                let priority = if entry.failures > 0 {
                    entry.priority
                } else {
                    self.of_timers
                };
                self.make_ready(key, at, priority);
            }
        }
    }
}

impl<Q> Clone for Queue<Q> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<Q> fmt::Debug for Queue<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("Queue")
            .field("ready", &state.ready.len())
            .field("timers", &state.timers.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
