//! Where every placement stands on every member: what the matrix shows, and what comes first in it.
//!
//! A thousand members with a hundred placements are a hundred thousand bindings. Only the column of a placement that has
//! changed is made anew, when somebody looks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use fleet_api::{kind::Resource as _, placement::Scope};
use parking_lot::Mutex;

use super::{
    Family, Hub,
    cell::{Cell, Mark},
    family_key,
};
use crate::view::Name;

/// One placement on all members.
#[derive(Debug, Clone, Default)]
pub(crate) struct Column {
    pub(crate) cells: HashMap<Arc<str>, Arc<Cell>>,
    /// How many cells have each mark, in the order of [`Mark::ALL`].
    pub(crate) counts: [usize; 4],
}

impl Column {
    /// How many are as bad as this or worse.
    pub(crate) fn at_least(&self, mark: Mark) -> usize {
        let counts = Mark::ALL.into_iter().zip(self.counts);
        counts.filter(|(own, _)| *own >= mark).map(|(_, count)| count).sum()
    }

    pub(crate) fn count(&self, mark: Mark) -> usize {
        self.counts[mark as usize]
    }
}

/// Columns that have been made.
#[derive(Default)]
pub(crate) struct Grid {
    columns: Mutex<HashMap<Name, Arc<Column>>>,
    dirty: Mutex<HashSet<Name>>,
}

impl Grid {
    /// A binding of this placement has changed.
    pub(crate) fn changed(&self, placement: &Name) {
        self.dirty.lock().insert(placement.clone());
    }

    /// The column of a placement.
    pub(crate) fn column(&self, hub: &Hub, placement: &Name) -> Arc<Column> {
        let is_dirty = self.dirty.lock().remove(placement);
        let known = self.columns.lock().get(placement).cloned();
        if let Some(column) = known.filter(|_| !is_dirty) {
            return column;
        }
        let column = Arc::new(if placement.namespace.is_empty() {
            made(&hub.cluster, placement)
        } else {
            made(&hub.namespaced, placement)
        });
        self.columns.lock().insert(placement.clone(), column.clone());
        column
    }

    /// Forgets the columns of placements that there are no more.
    pub(crate) fn keep(&self, placements: &[Name]) {
        let mut columns = self.columns.lock();
        if columns.len() > placements.len() {
            let names: HashSet<&Name> = placements.iter().collect();
            columns.retain(|name, _| names.contains(name));
            self.dirty.lock().retain(|name| names.contains(name));
        }
    }
}

fn made<S: Scope>(family: &Family<S>, placement: &Name) -> Column {
    let mut column = Column::default();
    for binding in family.bindings_of.get(&family_key(placement)) {
        // The one that leaves does not count if there is another.
        let leaves = binding.meta().deletion_timestamp.is_some();
        if leaves && column.cells.contains_key(binding.cluster()) {
            continue;
        }
        column.cells.insert(binding.cluster().clone(), binding.cell().clone());
    }
    for cell in column.cells.values() {
        column.counts[cell.mark as usize] += 1;
    }
    column
}
