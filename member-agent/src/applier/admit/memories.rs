//! What is remembered of Works while no round is under way.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::applier::memory::WorkMemory;

/// By Work.
#[derive(Default)]
pub(in crate::applier) struct Memories(Mutex<HashMap<String, WorkMemory>>);

impl Memories {
    /// Takes out what is remembered of a Work: who has it works on it.
    pub(super) fn take(&self, name: &str) -> Option<WorkMemory> {
        self.0.lock().remove(name)
    }

    pub(super) fn put(&self, name: &str, memory: WorkMemory) {
        self.0.lock().insert(name.to_owned(), memory);
    }

    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
