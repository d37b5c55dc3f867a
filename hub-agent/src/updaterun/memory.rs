//! What is remembered of each run: between passes, and of what was written.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use fleet_api::placement::UpdateRunStatus;
use fleet_core::updaterun::{Memory, Run};
use fleet_runtime::Key;
use parking_lot::Mutex;

use super::{Measures, gates::GateWatches};

/// What is remembered of each run.
pub(crate) struct RunMemory {
    /// With the UID of the run: one of the same name that comes later is another one.
    runs: Mutex<HashMap<Key, (String, Memory)>>,
    /// A hash of the status that was written last, noted before it is sent: whose write a change shows is told by that.
    written: Mutex<HashMap<Key, u64>>,
    /// What stages wait for besides their tasks.
    pub(super) gates: GateWatches,
    pub(super) measures: Measures,
}

impl RunMemory {
    pub(crate) fn new(measures: Measures) -> Self {
        Self {
            runs: Mutex::default(),
            written: Mutex::default(),
            gates: GateWatches::default(),
            measures,
        }
    }

    pub(super) fn of(&self, key: &Key, run: &Run<'_>) -> Memory {
        let runs = self.runs.lock();
        let known = runs.get(key).filter(|(uid, _)| uid == run.uid);
        known.map(|(_, memory)| memory.clone()).unwrap_or_default()
    }

    pub(super) fn keep(&self, key: &Key, run: &Run<'_>, memory: Memory) {
        self.runs.lock().insert(key.clone(), (run.uid.to_owned(), memory));
    }

    /// Nothing is to be done about the run until its user changes it.
    pub(super) fn rest(&self, key: &Key) {
        self.gates.forget(key);
        if let Some((_, memory)) = self.runs.lock().get_mut(key) {
            memory.rest();
        }
    }

    /// The run has ended.
    pub(super) fn forget(&self, key: &Key) {
        self.gates.forget(key);
        self.runs.lock().remove(key);
    }

    /// The run is gone.
    pub(super) fn gone(&self, key: &Key) {
        self.forget(key);
        self.written.lock().remove(key);
        self.measures.forget(key);
    }

    /// This status is about to be written.
    pub(super) fn writes(&self, key: &Key, status: &UpdateRunStatus) {
        self.written.lock().insert(key.clone(), hash(status));
    }

    /// Whether a status is the one that was written last.
    pub(super) fn wrote(&self, key: &Key, status: Option<&UpdateRunStatus>) -> bool {
        let written = self.written.lock().get(key).copied();
        written.is_some_and(|written| status.map(hash) == Some(written))
    }
}

fn hash(status: &UpdateRunStatus) -> u64 {
    let mut hasher = DefaultHasher::new();
    // What cannot be serialized is not written either.
    serde_json::to_vec(status).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}
