//! One watch per kind for the whole process, kept in a store with the secondary indexes that the code asks for.
//!
//! ```text
//! API server ── list, watch ──► Stream ──► Table ──► indexes ──► subscribers
//!                                            ▲
//!             answers to our own writes ─────┘
//! ```
//!
//! [`Stream`] also serves who keeps no objects: the applier's watches.
//!
//! # Guarantees
//! - A reader sees the newer of what the watch showed and what an own write was answered ([`Store::wrote`]); it never
//!   sees an object go back to an older version.
//! - A list after an interruption reports exactly what was added, changed and deleted meanwhile, and wakes nobody for
//!   the rest. Deletions are reported only when the list is complete.
//! - Who is woken finds store and indexes up to date. The echo of an own write wakes nobody.
//! - An object that cannot be decoded stops nothing: its last readable state stays, and it is logged and listed
//!   ([`Store::odd`]).
//!
//! # Assumptions
//! Versions of one kind compare as integers, and a watch shows them in order (Kubernetes 1.35 guarantees it; so it was
//! on etcd before). A store is fed by one watch only. An API server whose etcd was restored from a backup counts again
//! from a lower version; that is noticed ([`Era`]), and everything is listed anew.
//!
//! kube's own `watcher` is not used because it does not tell the version of a list, without which an own write that is
//! not listed can be neither kept nor dropped safely, nor the progress that bookmarks bring.

mod changes;
mod era;
mod event;
mod index;
mod interruption;
mod pages;
mod show;
mod source;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    fmt,
    hash::Hash,
    sync::{Arc, Weak},
};

use kube::{Resource, ResourceExt};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch as channel;

use self::{
    changes::Pending,
    index::Maintain,
    table::{Diff, Table},
};
pub use self::{
    changes::{Change, Changes},
    era::{Era, is_before},
    event::{Event, Odd},
    index::Index,
    interruption::Interruption,
    source::{Events, Metadata, Source, plain},
    stream::{Selection, Shown, Sink, Start, Stream},
};
use crate::key::Key;

/// A kind's objects. Cheap to clone.
pub struct Store<K>(Arc<Inner<K>>);

struct Inner<K> {
    name: &'static str,
    table: RwLock<Table<K>>,
    indexes: Vec<Box<dyn Maintain<K>>>,
    subscribers: Mutex<Vec<Weak<Pending<K>>>>,
    prune: fn(&mut K),
    lingers: fn(&K) -> bool,
    synced: channel::Sender<bool>,
    progress: channel::Sender<u64>,
    state: channel::Sender<State>,
}

/// How a watch is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The first list is not complete.
    Starting,
    /// Events come in.
    Watching,
    /// It is interrupted and tries again; what the store has may be old.
    Failing {
        /// In one word.
        reason: Reason,
        /// In full.
        message: String,
    },
}

/// Why a watch is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// We lack the permission: RBAC, or we are no member yet.
    Forbidden,
    /// The server does not know the kind: its CRD is missing.
    NotFound,
    /// Our credential is not accepted.
    Unauthorized,
    /// Anything else, mostly the network.
    Unavailable,
}

/// Makes a [`Store`].
pub struct Builder<K> {
    name: &'static str,
    indexes: Vec<Box<dyn Maintain<K>>>,
    prune: fn(&mut K),
    lingers: fn(&K) -> bool,
}

impl<K: Resource + Send + Sync + 'static> Builder<K> {
    /// Adds an index. `of` gives the keys under which an object is to be found; it must depend on the object alone.
    pub fn index<I: Hash + Eq + Send + Sync + 'static>(&mut self, of: fn(&K) -> Vec<I>) -> Index<K, I> {
        let index = Index::new(of);
        self.indexes.push(Box::new(index.clone()));
        index
    }

    /// What to leave out of every object before it is kept, instead of [`prune`].
    pub fn prune(mut self, prune: fn(&mut K)) -> Self {
        self.prune = prune;
        self
    }

    /// Which objects stay for a while after they were deleted although they have no finalizers.
    pub fn lingers(mut self, lingers: fn(&K) -> bool) -> Self {
        self.lingers = lingers;
        self
    }

    /// The store, empty.
    pub fn build(self) -> Store<K> {
        let Self {
            name,
            indexes,
            prune,
            lingers,
        } = self;
        Store(Arc::new(Inner {
            name,
            table: RwLock::new(Table::new()),
            indexes,
            subscribers: Mutex::default(),
            prune,
            lingers,
            synced: channel::Sender::new(false),
            progress: channel::Sender::new(0),
            state: channel::Sender::new(State::Starting),
        }))
    }
}

/// Leaves out what nobody reads and is often larger than the rest: managed fields, and what `kubectl apply` notes for
/// itself.
pub fn prune<K: Resource>(object: &mut K) {
    object.meta_mut().managed_fields = None;
    object
        .annotations_mut()
        .remove("kubectl.kubernetes.io/last-applied-configuration");
    if object.annotations().is_empty() {
        object.meta_mut().annotations = None;
    }
}

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// Begins a store. The name (plural, as `kubectl` has it) appears in logs.
    pub fn builder(name: &'static str) -> Builder<K> {
        Builder {
            name,
            indexes: Vec::new(),
            prune: prune::<K>,
            lingers: |_| false,
        }
    }

    /// A store without indexes.
    pub fn new(name: &'static str) -> Self {
        Self::builder(name).build()
    }

    /// The name that the store was given.
    pub fn name(&self) -> &'static str {
        self.0.name
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        self.0.table.read().get(key).cloned()
    }

    /// Every object, in no order. For start-up, small kinds and dumps; a reconcile asks an index.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.0.table.read().iter().map(|(_, object)| object.clone()).collect()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.table.read().iter().count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.table.read().iter().next().is_none()
    }

    /// The objects that exist but cannot be decoded. `get` gives their last readable state, if they ever had one.
    pub fn odd(&self) -> Vec<Odd> {
        self.0.table.read().odd().cloned().collect()
    }

    /// Whether such an object exists that cannot be decoded.
    pub fn is_odd(&self, key: &Key) -> bool {
        self.0.table.read().is_odd(key)
    }

    /// Hears of every object there is now as added, and of every change from then on.
    pub fn subscribe(&self) -> Changes<K> {
        let pending = Arc::new(Pending::new());
        // Under the lock, so that no change falls between the two.
        let table = self.0.table.read();
        for (key, object) in table.iter() {
            pending.push(key, None, Some(object));
        }
        self.0.subscribers.lock().push(Arc::downgrade(&pending));
        drop(table);
        Changes(pending)
    }

    /// Takes an event of the watch.
    pub fn feed(&self, mut event: Event<K>) {
        if let Event::Listed(object) | Event::Applied(object) = &mut event {
            (self.0.prune)(object);
        }
        if let Event::ListedOdd(odd) | Event::AppliedOdd(odd) = &event {
            tracing::warn!(kind = self.0.name, object = %odd.key, error = odd.error, "Object cannot be decoded");
        }
        let done = matches!(event, Event::ListDone { .. });
        self.update(|table, diffs| table.feed(event, diffs));
        if done {
            self.0.synced.send_replace(true);
        }
    }

    /// Takes the answer to an own write, so that readers need not wait for the watch. Wakes subscribers, as other parts
    /// of the process act upon it; returns the object for further use.
    ///
    /// Only for answers. Where a request timed out nobody knows what happened, and the watch will tell.
    pub fn wrote(&self, mut answer: K) -> Arc<K> {
        (self.0.prune)(&mut answer);
        let (lingers, answer) = ((self.0.lingers)(&answer), Arc::new(answer));
        self.update(|table, diffs| table.wrote(answer.clone(), lingers, diffs));
        answer
    }

    /// Takes the answer to an own deletion of an object that nothing keeps: no finalizers, or the last was removed.
    /// (An answer that still carries the object, with its deletion time, goes to [`Store::wrote`].)
    pub fn deleted(&self, key: &Key, uid: Option<&str>) {
        self.update(|table, diffs| table.gone(key, uid, 0, diffs));
    }

    /// It was not watched for a while: what it has may be old, and counts only when the next list is complete.
    pub fn rest(&self) {
        self.0.synced.send_replace(false);
        self.set_state(State::Starting);
    }

    /// The API server has gone back in time: own writes may never have happened, and versions mean nothing any more. What
    /// the watch has shown stays until the next list is complete, so that readers see a difference and not an end.
    fn forget(&self) {
        self.rest();
        self.update(Table::forget);
    }

    /// Resolves when the first list is complete. Nothing may be deleted or judged before.
    pub async fn synced(&self) {
        // The sender lives as long as the store.
        let _ = self.0.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Resolves when the first list is complete, or it is known why it is not.
    pub async fn settled(&self) {
        let mut state = self.state();
        let fails = state.wait_for(|state| matches!(state, State::Failing { .. }));
        tokio::select! {
            () = self.synced() => {}
            _ = fails => {}
        }
    }

    /// Whether the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.0.synced.borrow()
    }

    /// Resolves when the watch has shown everything up to this version. After a conflict: wait until the version that
    /// the write was based on has passed, then compute it anew; sending it again would only conflict again. Also when the
    /// API server has gone back in time, and will not show that version again.
    pub async fn reached(&self, version: u64) {
        let mut progress = self.0.progress.subscribe();
        let begun = *progress.borrow();
        let _ = progress.wait_for(|now| *now >= version || *now < begun).await;
    }

    /// How far the watch has come; 0 if it has not begun.
    pub fn progress(&self) -> u64 {
        *self.0.progress.borrow()
    }

    /// How the watch is doing, to be watched for readiness.
    pub fn state(&self) -> channel::Receiver<State> {
        self.0.state.subscribe()
    }

    fn set_state(&self, state: State) {
        self.0.state.send_if_modified(|current| {
            let changed = *current != state;
            *current = state;
            changed
        });
    }

    fn update<T>(&self, change: impl FnOnce(&mut Table<K>, &mut Vec<Diff<K>>) -> T) -> T {
        let mut diffs = Vec::new();
        let mut table = self.0.table.write();
        let result = change(&mut table, &mut diffs);
        if !diffs.is_empty() {
            let mut subscribers = self.0.subscribers.lock();
            let mut dead = false;
            for diff in &diffs {
                for index in &self.0.indexes {
                    index.apply(diff);
                }
                for subscriber in subscribers.iter().filter(|_| diff.wakes) {
                    match subscriber.upgrade() {
                        Some(pending) => pending.push(&diff.key, diff.old.as_ref(), diff.new.as_ref()),
                        None => dead = true,
                    }
                }
            }
            if dead {
                subscribers.retain(|subscriber| subscriber.strong_count() > 0);
            }
        }
        let progress = table.progress();
        // Under the lock, so that of two updates the later one is told last.
        self.0
            .progress
            .send_if_modified(|current| std::mem::replace(current, progress) != progress);
        drop(table);
        // Old objects are freed here, outside the lock.
        drop(diffs);
        result
    }
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.0.name).finish()
    }
}

impl<K> fmt::Debug for Builder<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Builder").field(&self.name).finish()
    }
}
