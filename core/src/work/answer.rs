//! Whether a member has had its say on what was written last.

use std::collections::BTreeSet;

use super::{Existing, Plan};

/// The Works that were written together last, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch(BTreeSet<String>);

impl Batch {
    /// What a plan gives the member to do.
    pub fn of(plan: &Plan) -> Self {
        let changes = plan.patches.iter().filter(|patch| patch.manifests || patch.strategy);
        let changes = changes.map(|patch| patch.wanted.name.clone());
        Self(plan.creates.iter().map(|new| new.name.clone()).chain(changes).collect())
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Whether the member has answered to any Work of the last batch: before, all that can be said of all Works is that they
/// are being applied, whatever was said of the others.
///
/// After a restart nobody knows the last batch; what was `in_progress` stays so until all have been answered.
pub fn is_answered(works: &[Existing], last: Option<&Batch>, in_progress: bool) -> bool {
    if last.is_none() && in_progress {
        return !works.is_empty() && works.iter().all(|work| work.answered);
    }
    let of_batch = |work: &&Existing| last.is_some_and(|last| last.0.contains(&work.name));
    let mut batch = works.iter().filter(of_batch).peekable();
    if batch.peek().is_some() {
        batch.any(|work| work.answered)
    } else {
        works.iter().any(|work| work.answered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn works(answered: &[(&str, bool)]) -> Vec<Existing> {
        let work = |(name, answered): &(&str, bool)| Existing {
            name: (*name).to_owned(),
            answered: *answered,
            ..Existing::default()
        };
        answered.iter().map(work).collect()
    }

    #[test]
    fn a_new_work_beside_answered_ones_is_being_applied() {
        let batch = |names: &[&str]| Batch(names.iter().map(|name| (*name).to_owned()).collect());
        let (both, second) = (batch(&["a", "b"]), batch(&["b"]));
        for (answers, last, in_progress, answered) in [
            // Both written together: the first answer counts.
            ([("a", false), ("b", false)], Some(&both), false, false),
            ([("a", true), ("b", false)], Some(&both), false, true),
            // One added later: what was said of the other is old.
            ([("a", true), ("b", false)], Some(&second), false, false),
            ([("a", true), ("b", true)], Some(&second), false, true),
            // After a restart.
            ([("a", true), ("b", false)], None, false, true),
            ([("a", true), ("b", false)], None, true, false),
            ([("a", true), ("b", true)], None, true, true),
            // The last batch is gone again.
            ([("a", true), ("c", false)], Some(&second), false, true),
        ] {
            let works = works(&answers);
            assert_eq!(
                is_answered(&works, last, in_progress),
                answered,
                "{answers:?} {last:?} {in_progress}"
            );
        }
        assert!(!is_answered(&[], Some(&both), false) && !is_answered(&[], None, true));
    }
}
