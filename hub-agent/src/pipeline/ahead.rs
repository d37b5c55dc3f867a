//! What is decided and on its way to the API server: the placement's status is made from it without waiting for the
//! answers. A process that ends in between leaves nothing behind: the next one decides the same.

use std::{collections::HashMap, sync::Arc};

use fleet_runtime::Key;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The statuses that objects are about to get.
pub(crate) struct Ahead<T>(Mutex<HashMap<Key, Entry<T>>>);

struct Entry<T> {
    generation: i64,
    status: Arc<T>,
    since: Instant,
}

/// What came of noting a status.
pub(crate) struct Noted {
    /// It is another one than before.
    pub(crate) news: bool,
    /// Since when the object of this generation has something coming.
    pub(crate) since: Instant,
}

impl<T: PartialEq> Ahead<T> {
    /// Notes what an object of this generation is about to get.
    pub(crate) fn set(&self, key: &Key, generation: i64, status: T) -> Noted {
        let mut all = self.0.lock();
        let known = all.get(key).filter(|entry| entry.generation == generation);
        let news = known.is_none_or(|entry| *entry.status != status);
        let since = known.map_or_else(Instant::now, |entry| entry.since);
        if news {
            let status = Arc::new(status);
            let entry = Entry {
                generation,
                status,
                since,
            };
            all.insert(key.clone(), entry);
        }
        Noted { news, since }
    }

    /// What an object of this generation is about to get.
    pub(crate) fn get(&self, key: &Key, generation: i64) -> Option<Arc<T>> {
        let all = self.0.lock();
        let entry = all.get(key).filter(|entry| entry.generation == generation);
        entry.map(|entry| entry.status.clone())
    }

    /// It has it, or will not get it. Whether it was about to.
    pub(crate) fn remove(&self, key: &Key) -> bool {
        self.0.lock().remove(key).is_some()
    }
}

impl<T> Default for Ahead<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
