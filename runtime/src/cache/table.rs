//! What the watch said, and over it what our own writes were answered. No locks, no tasks: events in, differences out.
//!
//! Everything rests on two facts. Versions of one kind compare as integers, and the events of one watch come in their
//! order: when the watch has shown version `p`, it has shown everything up to `p`. So the answer to an own write is worth
//! keeping exactly while its version is above `p`; before that it is news, afterwards the watch knows better (also that
//! the object was deleted again meanwhile, which a comparison with the stored object alone would miss).

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kube::Resource;

use super::event::{Event, Odd, version};
use crate::key::Key;

/// A difference that a reader can see.
#[derive(Debug)]
pub(super) struct Diff<K> {
    pub(super) key: Key,
    pub(super) old: Option<Arc<K>>,
    pub(super) new: Option<Arc<K>>,
    /// False for the echo of what readers have already: a different copy of the same version.
    pub(super) wakes: bool,
}

#[derive(Debug)]
pub(super) struct Table<K> {
    entries: HashMap<Key, Entry<K>>,
    /// Which own writes end at which version.
    own: BTreeSet<(u64, Key)>,
    /// The watch has shown everything up to here.
    progress: u64,
    /// Counts lists; an entry that does not carry the current number at the end of a list is gone.
    round: u32,
}

#[derive(Debug)]
struct Entry<K> {
    watched: Option<Arc<K>>,
    odd: Option<Box<Odd>>,
    own: Option<Own<K>>,
    round: u32,
}

#[derive(Debug)]
enum Own<K> {
    Written(Arc<K>),
    /// A tombstone: this incarnation is gone, whatever late events still say about it.
    Gone {
        uid: Option<String>,
        version: u64,
    },
}

impl<K: Resource> Own<K> {
    fn version(&self) -> u64 {
        match self {
            Self::Written(object) => version(object.meta()),
            Self::Gone { version, .. } => *version,
        }
    }

    fn uid(&self) -> Option<&String> {
        match self {
            Self::Written(object) => object.meta().uid.as_ref(),
            Self::Gone { uid, .. } => uid.as_ref(),
        }
    }
}

impl<K: Resource> Entry<K> {
    fn new(round: u32) -> Self {
        Self {
            watched: None,
            odd: None,
            own: None,
            round,
        }
    }

    /// What readers see.
    fn view(&self) -> Option<&Arc<K>> {
        match &self.own {
            Some(Own::Written(object)) => Some(object),
            Some(Own::Gone { uid, .. }) => self.watched.as_ref().filter(|object| object.meta().uid != *uid),
            None => self.watched.as_ref(),
        }
    }

    /// The watch shows this version of an object: forget an own write that is not newer. A tombstone of the same version
    /// stays, for the event may be the late echo of the very write that removed the last finalizer.
    fn settle(&mut self, shown: u64) {
        let over = match &self.own {
            Some(own @ Own::Written(_)) => own.version() <= shown,
            Some(own @ Own::Gone { .. }) => own.version() < shown,
            None => false,
        };
        if over {
            self.own = None;
        }
    }
}

impl<K: Resource> Table<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            own: BTreeSet::new(),
            progress: 0,
            round: 0,
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Arc<K>> {
        self.entries.get(key)?.view()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Arc<K>)> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| Some((key, entry.view()?)))
    }

    pub(super) fn odd(&self) -> impl Iterator<Item = &Odd> {
        self.entries.values().filter_map(|entry| entry.odd.as_deref())
    }

    pub(super) fn is_odd(&self, key: &Key) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.odd.is_some())
    }

    pub(super) fn progress(&self) -> u64 {
        self.progress
    }

    /// Takes an event of the watch.
    pub(super) fn feed(&mut self, event: Event<K>, out: &mut Vec<Diff<K>>) {
        match event {
            // Also after a list that broke off: its marks are of an older round then.
            Event::Restarted => self.round += 1,
            // A list is sorted by name, so its items say nothing about progress.
            Event::Listed(object) => {
                self.show(object, out);
            }
            Event::ListedOdd(odd) => {
                self.show_odd(odd, out);
            }
            Event::ListDone { version } => self.list_done(version, out),
            Event::Applied(object) => {
                let version = self.show(object, out);
                self.advance(version, out);
            }
            Event::AppliedOdd(odd) => {
                let version = self.show_odd(odd, out);
                self.advance(version, out);
            }
            Event::Deleted { key, uid, version } => {
                self.touch(&key, out, |entry| {
                    entry.watched = None;
                    entry.odd = None;
                    entry
                        .own
                        .take_if(|own| own.uid() == uid.as_ref() || own.version() <= version);
                });
                self.advance(version, out);
            }
            Event::Progress { version } => self.advance(version, out),
        }
    }

    fn show(&mut self, object: K, out: &mut Vec<Diff<K>>) -> u64 {
        let (key, version, round) = (Key::of(&object), version(object.meta()), self.round);
        self.touch(&key, out, |entry| {
            entry.watched = Some(Arc::new(object));
            entry.odd = None;
            entry.round = round;
            entry.settle(version);
        });
        version
    }

    /// An object that cannot be read: readers keep its last readable state, since it is not gone.
    fn show_odd(&mut self, odd: Odd, out: &mut Vec<Diff<K>>) -> u64 {
        let (key, version, round) = (odd.key.clone(), odd.version, self.round);
        self.touch(&key, out, |entry| {
            entry.watched.take_if(|object| object.meta().uid != odd.uid);
            entry.odd = Some(Box::new(odd));
            entry.round = round;
            // The last readable state may well be the answer to an own write.
            if let Some(Own::Written(object)) = entry.own.take_if(|own| own.version() <= version) {
                entry.watched = Some(object);
            }
        });
        version
    }

    fn list_done(&mut self, listed: u64, out: &mut Vec<Diff<K>>) {
        let round = self.round;
        let left: Vec<Key> = self
            .entries
            .iter()
            .filter(|(_, e)| e.round != round)
            .map(|(key, _)| key.clone())
            .collect();
        for key in left {
            self.touch(&key, out, |entry| {
                entry.watched = None;
                entry.odd = None;
                entry.own.take_if(|own| own.version() <= listed);
            });
        }
        // Set, not raised: after a restore from a backup versions start again at a lower number.
        self.progress = 0;
        self.advance(listed, out);
    }

    /// Versions start again at a lower number: what own writes were answered hides nothing any more.
    pub(super) fn forget(&mut self, out: &mut Vec<Diff<K>>) {
        for (_, key) in std::mem::take(&mut self.own) {
            self.touch(&key, out, |entry| entry.own = None);
        }
        self.progress = 0;
    }

    /// The watch has shown everything up to `shown`: own writes up to there have served their time.
    fn advance(&mut self, shown: u64, out: &mut Vec<Diff<K>>) {
        self.progress = self.progress.max(shown);
        while self.own.first().is_some_and(|(version, _)| *version <= shown) {
            let (_, key) = self.own.pop_first().expect("there is a first");
            self.touch(&key, out, |entry| {
                let keep = match &entry.own {
                    Some(Own::Gone { uid, .. }) => entry.watched.as_ref().is_some_and(|w| w.meta().uid == *uid),
                    Some(own @ Own::Written(_)) => own.version() > shown,
                    None => true,
                };
                if !keep {
                    entry.own = None;
                }
            });
        }
    }

    /// Takes the answer to an own write. Returns whether it was news. `lingers`: something that is no finalizer keeps it
    /// once it is deleted.
    pub(super) fn wrote(&mut self, object: Arc<K>, lingers: bool, out: &mut Vec<Diff<K>>) -> bool {
        let meta = object.meta();
        let (key, version) = (Key::of(&*object), version(meta));
        if meta.deletion_timestamp.is_some()
            && !lingers
            && meta.finalizers.as_ref().is_none_or(Vec::is_empty)
            && meta.deletion_grace_period_seconds.is_none_or(|secs| secs == 0)
        {
            // Nothing keeps it any longer: this was the write that removed the last finalizer.
            let uid = meta.uid.clone();
            return self.gone(&key, uid.as_deref(), version, out);
        }
        let entry = self.entries.get(&key);
        let stale = entry.and_then(|entry| entry.own.as_ref()).is_some_and(|own| {
            let same = own.uid() == meta.uid.as_ref();
            own.version() >= version || (same && matches!(own, Own::Gone { .. }))
        });
        // A list that is under way may have shown a newer one already.
        let passed = entry.and_then(|entry| entry.watched.as_ref()).is_some_and(|watched| {
            let shown = watched.meta();
            shown.uid == meta.uid && self::version(shown) >= version
        });
        if version <= self.progress || stale || passed {
            return false;
        }
        self.touch(&key, out, |entry| entry.own = Some(Own::Written(object)));
        self.own.insert((version, key));
        true
    }

    /// Takes the answer to an own deletion. Only what readers still see needs a tombstone.
    pub(super) fn gone(&mut self, key: &Key, uid: Option<&str>, at: u64, out: &mut Vec<Diff<K>>) -> bool {
        let Some(seen) = self.get(key).filter(|object| object.meta().uid.as_deref() == uid) else {
            return false;
        };
        let version = version(seen.meta()).max(at);
        let uid = uid.map(ToOwned::to_owned);
        self.touch(key, out, |entry| entry.own = Some(Own::Gone { uid, version }));
        self.own.insert((version, key.clone()));
        true
    }

    /// Changes one entry and notes what readers see of it.
    fn touch(&mut self, key: &Key, out: &mut Vec<Diff<K>>, change: impl FnOnce(&mut Entry<K>)) {
        // An own write of an object that the watch has not shown yet belongs to no list.
        let unlisted = self.round.wrapping_sub(1);
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(unlisted));
        let old = entry.view().cloned();
        change(entry);
        let new = entry.view().cloned();
        if entry.watched.is_none() && entry.own.is_none() && entry.odd.is_none() {
            self.entries.remove(key);
        }
        let same_copy = match (&old, &new) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same_copy {
            let id = |object: &Arc<K>| (object.meta().uid.clone(), object.meta().resource_version.clone());
            let wakes = old.as_ref().map(id) != new.as_ref().map(id);
            out.push(Diff {
                key: key.clone(),
                old,
                new,
                wakes,
            });
        }
    }
}
