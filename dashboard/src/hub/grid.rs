//! Where every placement stands on every member: what the matrix shows, and what comes first in it.
//!
//! A thousand members with a hundred placements are a hundred thousand bindings. Only the column of a placement that has
//! changed is made anew, when somebody looks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use fleet_api::{
    conditions::{self, Status, placement::Step},
    kind::{HasSpec as _, HasStatus as _, Resource as _},
    placement::{ApplyStrategyType, BindingState, Scope},
};
use fleet_core::explain::{self, Verdict};
use parking_lot::Mutex;

use super::{Family, Hub, family_key};
use crate::view::Name;

/// How a placement stands on a member, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mark {
    /// It is there and available.
    Done,
    /// It is on its way, or waits.
    Waiting,
    /// It is there, and somebody has changed it, or it differs.
    Drifted,
    /// Somebody has to repair something.
    Failed,
}

impl Mark {
    pub(crate) const ALL: [Self; 4] = [Self::Done, Self::Waiting, Self::Drifted, Self::Failed];
}

/// One placement on one member.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cell {
    pub(crate) mark: Mark,
    /// The step that is not done, with the reason of its condition.
    pub(crate) says: String,
}

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

/// How a binding stands: the first step that is not done, and whether anything differs.
pub(super) fn cell<S: Scope>(binding: &S::Binding) -> Cell {
    let (meta, spec) = (binding.meta(), binding.spec());
    let cell = |mark, says: &str| Cell {
        mark,
        says: says.to_owned(),
    };
    if meta.deletion_timestamp.is_some() || spec.state == BindingState::Unscheduled {
        return cell(Mark::Waiting, "leaves");
    }
    let Some(status) = binding.status() else {
        return cell(Mark::Waiting, "the rollout has not begun");
    };
    let compares = spec
        .apply_strategy
        .as_ref()
        .is_some_and(|strategy| strategy.type_ == ApplyStrategyType::ReportDiff);
    let generation = meta.generation.unwrap_or_default();
    for step in Step::expected(compares) {
        let name = step.on_cluster();
        let Some(condition) = conditions::fresh(&status.conditions, name, generation) else {
            return cell(Mark::Waiting, &format!("{name}: not yet"));
        };
        let mark = match (Status::of(condition), step) {
            (Status::True, _) => continue,
            (Status::False, Step::Applied) if !status.drifted_placements.is_empty() => Mark::Drifted,
            // As explanations judge the reason, so that a red cell leads to a red step.
            _ if explain::meaning(&condition.reason).is_some_and(|it| it.verdict == Verdict::Failed) => Mark::Failed,
            _ => Mark::Waiting,
        };
        return cell(mark, &format!("{name}: {}", condition.reason));
    }
    match (status.drifted_placements.len(), status.diffed_placements.len()) {
        (0, 0) => cell(Mark::Done, "available"),
        (0, differ) => cell(Mark::Drifted, &format!("{differ} objects differ")),
        (drifted, _) => cell(Mark::Drifted, &format!("{drifted} objects were changed on the member")),
    }
}
