//! Secondary indexes: which objects belong to this placement, run on that cluster, …

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    sync::Arc,
};

use parking_lot::RwLock;

use super::table::Diff;
use crate::key::Key;

/// Objects by something that is in them. Made by [`Builder::index`](super::Builder::index); cheap to clone.
pub struct Index<K, I>(Arc<Inner<K, I>>);

struct Inner<K, I> {
    of: fn(&K) -> Vec<I>,
    /// Sorted inside a group, so that equal contents give equal answers.
    groups: RwLock<HashMap<I, BTreeMap<Key, Arc<K>>>>,
}

/// How the store keeps an index whose key type it does not know.
pub(super) trait Maintain<K>: Send + Sync {
    fn apply(&self, diff: &Diff<K>);
}

impl<K, I: Hash + Eq> Index<K, I> {
    pub(super) fn new(of: fn(&K) -> Vec<I>) -> Self {
        Self(Arc::new(Inner {
            of,
            groups: RwLock::default(),
        }))
    }

    /// The objects under this key, sorted by name.
    pub fn get(&self, key: &I) -> Vec<Arc<K>> {
        self.0
            .groups
            .read()
            .get(key)
            .map(|group| group.values().cloned().collect())
            .unwrap_or_default()
    }

    /// The names of the objects under this key, sorted.
    pub fn keys(&self, key: &I) -> Vec<Key> {
        self.0
            .groups
            .read()
            .get(key)
            .map(|group| group.keys().cloned().collect())
            .unwrap_or_default()
    }

    /// How many objects are under this key.
    pub fn count(&self, key: &I) -> usize {
        self.0.groups.read().get(key).map_or(0, BTreeMap::len)
    }
}

impl<K: Send + Sync, I: Hash + Eq + Send + Sync> Maintain<K> for Index<K, I> {
    fn apply(&self, diff: &Diff<K>) {
        let keys = |object: &Option<Arc<K>>| object.as_ref().map(|object| (self.0.of)(object)).unwrap_or_default();
        let (before, after) = (keys(&diff.old), keys(&diff.new));
        let mut groups = self.0.groups.write();
        for key in before {
            if after.contains(&key) {
                continue;
            }
            if let Some(group) = groups.get_mut(&key) {
                group.remove(&diff.key);
                if group.is_empty() {
                    groups.remove(&key);
                }
            }
        }
        if let Some(object) = &diff.new {
            for key in after {
                groups.entry(key).or_default().insert(diff.key.clone(), object.clone());
            }
        }
    }
}

impl<K, I> Clone for Index<K, I> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K, I> fmt::Debug for Index<K, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("groups", &self.0.groups.read().len())
            .finish_non_exhaustive()
    }
}
