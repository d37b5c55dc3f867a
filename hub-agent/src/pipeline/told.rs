//! Complaints that are told once, although the pass that finds them is repeated.

use std::collections::HashMap;

use fleet_runtime::Key;
use parking_lot::Mutex;

/// The last complaint about each object.
pub(crate) struct Told<E>(Mutex<HashMap<Key, E>>);

impl<E> Default for Told<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E: PartialEq> Told<E> {
    /// Whether this complaint is another one than the last.
    pub(crate) fn is_news(&self, key: &Key, complaint: E) -> bool {
        let mut told = self.0.lock();
        if told.get(key) == Some(&complaint) {
            return false;
        }
        told.insert(key.clone(), complaint);
        true
    }

    /// There is nothing to complain about: the next complaint is news, whatever it is.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }

    #[cfg(test)]
    pub(crate) fn last(&self, key: &Key) -> Option<E>
    where
        E: Clone,
    {
        self.0.lock().get(key).cloned()
    }
}
