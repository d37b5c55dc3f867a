//! What subscribers hear of a store.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::key::Key;

/// What became of one object since the subscriber last heard of it.
pub struct Change<K> {
    /// Which object.
    pub key: Key,
    /// What the subscriber knew; `None`: nothing.
    pub old: Option<Arc<K>>,
    /// What it is now; `None`: deleted. Another uid than the old one's: deleted and created again.
    pub new: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The newest state there is: the new one, or of a deleted object the last.
    pub fn object(&self) -> &Arc<K> {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .expect("a change has at least one side")
    }

    /// Whether what `field` picks is different now. True for objects that came or went.
    pub fn differs<'a, T: PartialEq>(&'a self, field: impl Fn(&'a K) -> T) -> bool {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => field(old) != field(new),
            _ => true,
        }
    }
}

/// Room for changes that is kept when there are none: after a burst, memory is given back.
const KEPT: usize = 256;

/// A subscription. Changes of one object that were not picked up yet become one, so a slow subscriber holds at most one
/// per object and never delays the watch.
pub struct Changes<K>(pub(super) Arc<Pending<K>>);

pub(super) struct Pending<K> {
    state: Mutex<State<K>>,
    more: Notify,
}

type Side<K> = Option<Arc<K>>;

struct State<K> {
    order: VecDeque<Key>,
    /// What was known, and what is now.
    changes: HashMap<Key, (Side<K>, Side<K>)>,
}

impl<K> State<K> {
    fn new() -> Self {
        Self {
            order: VecDeque::new(),
            changes: HashMap::new(),
        }
    }
}

impl<K> Pending<K> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State::new()),
            more: Notify::new(),
        }
    }

    pub(super) fn push(&self, key: &Key, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        let mut state = self.state.lock();
        if let Some((_, latest)) = state.changes.get_mut(key) {
            *latest = new.cloned();
            return;
        }
        state.changes.insert(key.clone(), (old.cloned(), new.cloned()));
        state.order.push_back(key.clone());
        drop(state);
        self.more.notify_one();
    }

    fn pop(&self) -> Option<Change<K>> {
        let mut state = self.state.lock();
        loop {
            let Some(key) = state.order.pop_front() else {
                if state.changes.capacity() > KEPT {
                    *state = State::new();
                }
                return None;
            };
            match state.changes.remove(&key).expect("every key in order has its change") {
                // Came and went unseen.
                (None, None) => {}
                (old, new) => return Some(Change { key, old, new }),
            }
        }
    }
}

impl<K> Changes<K> {
    /// The next change, in the order in which objects were first changed. Safe to cancel.
    pub async fn next(&mut self) -> Change<K> {
        loop {
            if let Some(change) = self.0.pop() {
                return change;
            }
            self.0.more.notified().await;
        }
    }

    /// The next change if there is one already.
    pub fn try_next(&mut self) -> Option<Change<K>> {
        self.0.pop()
    }
}

impl<K> fmt::Debug for Change<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match (&self.old, &self.new) {
            (None, _) => "added",
            (_, None) => "deleted",
            _ => "changed",
        };
        write!(f, "{} {word}", self.key)
    }
}

impl<K> fmt::Debug for Changes<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("pending", &self.0.state.lock().order.len())
            .finish_non_exhaustive()
    }
}
