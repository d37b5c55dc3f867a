//! What was let in a moment ago and no store shows yet. It counts too: without it, two overrides that come one right after
//! the other could both select the same object.

use std::time::Duration;

use fleet_core::admission::overrides::Selected;
use fleet_runtime::Key;
use tokio::time::Instant;

/// So long after it was let in an object is there and the watch has shown it, or it never came.
const LIFETIME: Duration = Duration::from_secs(3);

/// So long after it was let in an object is stored, if it is stored at all: something else may have refused it.
const STORED: Duration = Duration::from_millis(500);

/// One that selects the same, as far as was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rival {
    /// Which one.
    pub(super) key: Key,
    /// The version that it has if it was not stored.
    pub(super) before: Option<String>,
    at: Instant,
}

impl Rival {
    /// When it can be asked for.
    pub(super) fn is_settled_at(&self) -> Instant {
        self.at + STORED
    }
}

#[derive(Debug)]
struct Entry {
    key: Key,
    selected: Vec<Selected>,
    /// The version that was to be changed; none if there was none.
    before: Option<String>,
    at: Instant,
}

/// Overrides of one kind.
#[derive(Debug, Default)]
pub(super) struct Recent(Vec<Entry>);

impl Recent {
    /// Leaves out what is old, and what the store shows by now: it has another version than when it was let in.
    pub(super) fn sweep(&mut self, stored: impl Fn(&Key) -> Option<String>) {
        let now = Instant::now();
        self.0
            .retain(|entry| now.duration_since(entry.at) < LIFETIME && stored(&entry.key) == entry.before);
    }

    /// One more.
    pub(super) fn note(&mut self, key: Key, selected: Vec<Selected>, before: Option<String>) {
        self.0.retain(|entry| entry.key != key);
        let at = Instant::now();
        self.0.push(Entry {
            key,
            selected,
            before,
            at,
        });
    }

    /// Which one, other than `own`, selects this.
    pub(super) fn selecting(&self, selected: &Selected, own: &Key) -> Option<String> {
        let mut all = self.0.iter().filter(|entry| entry.key != *own);
        let found = all.find(|entry| entry.selected.contains(selected))?;
        Some(found.key.name().to_owned())
    }

    /// Those, other than `own`, that select something of this.
    pub(super) fn rivals(&self, selected: &[Selected], own: &Key) -> Vec<Rival> {
        let others = self.0.iter().filter(|entry| entry.key != *own);
        let rivals = others.filter(|entry| entry.selected.iter().any(|one| selected.contains(one)));
        rivals
            .map(|entry| Rival {
                key: entry.key.clone(),
                before: entry.before.clone(),
                at: entry.at,
            })
            .collect()
    }

    /// It was not stored.
    pub(super) fn forget(&mut self, rival: &Rival) {
        self.0.retain(|entry| entry.key != rival.key || entry.at != rival.at);
    }

    /// How many, other than `own`, are new in this namespace.
    pub(super) fn new_in(&self, namespace: Option<&str>, own: &Key) -> usize {
        let new = |entry: &&Entry| entry.before.is_none() && entry.key != *own && entry.key.namespace() == namespace;
        self.0.iter().filter(new).count()
    }
}
