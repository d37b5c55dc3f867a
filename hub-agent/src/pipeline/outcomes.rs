//! What became of each binding's Works, as far as their status is made from it. A process that starts knows nothing: the
//! work generator looks at every binding first.

use std::{collections::HashMap, sync::Arc};

use fleet_core::work::{Batch, ContentClock, Plan, WorkFailure};
use fleet_runtime::Key;
use jiff::Timestamp;
use parking_lot::Mutex;

/// By binding.
#[derive(Default)]
pub(super) struct Outcomes(Mutex<HashMap<Key, WorksRecord>>);

#[derive(Default)]
struct WorksRecord {
    /// Since when the Works have the content that they have.
    clock: Option<ContentClock>,
    /// Which of them were written last.
    batch: Option<Arc<Batch>>,
    /// How the last pass ended, and for which generation; none while one writes.
    end: Option<(i64, Option<Arc<WorkFailure>>)>,
    /// A pass is under way, or the next step needs one that sees what the member says.
    open: bool,
    /// Works that go once others have been answered.
    leaving: bool,
}

/// What a binding's status has to know of the last pass over its Works.
#[derive(Debug, Clone)]
pub(crate) struct WorksOutcome {
    /// Why they are not what they should be.
    pub(crate) failure: Option<Arc<WorkFailure>>,
    /// Since when they have the content that they have.
    pub(crate) clock: ContentClock,
    /// Which of them were written last.
    pub(crate) batch: Option<Arc<Batch>>,
}

impl Outcomes {
    pub(super) fn begin(&self, binding: &Key) {
        let mut all = self.0.lock();
        let record = all.entry(binding.clone()).or_default();
        (record.open, record.leaving) = (true, false);
    }

    pub(super) fn plan(&self, binding: &Key, plan: &Plan, now: Timestamp) {
        let mut all = self.0.lock();
        let record = all.entry(binding.clone()).or_default();
        if plan.changes_content() {
            record.clock = Some(ContentClock::Since(now));
        }
        // What this process has not changed while it knew the binding is as it was.
        record.clock.get_or_insert(ContentClock::Unknown);
        let batch = Batch::of(plan);
        if !batch.is_empty() {
            record.batch = Some(Arc::new(batch));
        }
        record.leaving = !plan.deletes_later.is_empty();
        if !(plan.creates.is_empty() && plan.patches.is_empty() && plan.deletes.is_empty()) {
            record.end = None;
        }
    }

    pub(super) fn conclude(&self, binding: &Key, generation: i64, failure: Option<WorkFailure>) {
        let mut all = self.0.lock();
        let record = all.entry(binding.clone()).or_default();
        record.open = failure.is_some() || record.leaving;
        record.end = Some((generation, failure.map(Arc::new)));
    }

    /// Whether there was something to take back.
    pub(super) fn withdraw(&self, binding: &Key) -> bool {
        let mut all = self.0.lock();
        all.get_mut(binding).is_some_and(|record| record.end.take().is_some())
    }

    pub(super) fn forget(&self, binding: &Key) {
        self.0.lock().remove(binding);
    }

    pub(super) fn get(&self, binding: &Key, generation: i64) -> Option<WorksOutcome> {
        let all = self.0.lock();
        let record = all.get(binding)?;
        let (_, failure) = record.end.as_ref().filter(|(of, _)| *of == generation)?;
        Some(WorksOutcome {
            failure: failure.clone(),
            clock: record.clock.unwrap_or(ContentClock::Unknown),
            batch: record.batch.clone(),
        })
    }

    /// Whether the Works of a binding, of this generation if one is given, are as they should be, whatever members say.
    pub(super) fn is_closed(&self, binding: &Key, generation: Option<i64>) -> bool {
        let all = self.0.lock();
        let end = all.get(binding).filter(|record| !record.open);
        let end = end.and_then(|record| record.end.as_ref());
        end.is_some_and(|(of, _)| generation.is_none_or(|generation| *of == generation))
    }

    pub(super) fn settle(&self, binding: &Key) {
        if let Some(record) = self.0.lock().get_mut(binding)
            && record.clock == Some(ContentClock::Unknown)
        {
            record.clock = Some(ContentClock::Unchanged);
        }
    }
}
