//! Which changes on the hub and on this cluster wake a Work, and how urgently.

use fleet_api::placement::AppliedWork;
use fleet_core::apply::requeue;
use fleet_runtime::cache::Change;
use kube::core::PartialObjectMeta;

use super::Admission;
use crate::applier::works::{self, HubWork};

impl Admission {
    pub(in crate::applier) fn work_changed(&self, change: &Change<HubWork>) {
        let name = change.key.name();
        if works::matters(change) {
            // Before anybody acts on it, or on another Work of the same hub.
            if change.new.as_ref().is_some_and(|work| self.records.is_older(work)) {
                self.judge();
            }
            self.queue.add_with_priority(name.to_owned(), self.priority(change));
            return;
        }
        if let Some(work) = &change.new
            && change.differs(|work| work.stored)
        {
            // Somebody else may have written the status.
            self.reporter.repair(work);
        }
    }

    /// The Work whose AppliedWork goes: what we create is known; that it goes is not.
    pub(in crate::applier) fn owner_changed(&self, change: &Change<PartialObjectMeta<AppliedWork>>) -> Option<String> {
        if change.new.is_none() {
            self.records.forget(change.key.name());
        }
        let going = change
            .new
            .as_ref()
            .is_none_or(|now| now.metadata.deletion_timestamp.is_some());
        going.then(|| change.key.name().to_owned())
    }

    /// How urgent a change of a Work is; the same for all unless that was asked for.
    pub(in crate::applier) fn priority(&self, change: &Change<HubWork>) -> i64 {
        let Some((a, b)) = self.by_age else { return 0 };
        match (&change.old, &change.new) {
            (None, Some(new)) => requeue::listed_priority(new.is_well),
            (Some(old), Some(new)) if old.is_well && !new.view().deleting => {
                let now = self.clock.now();
                requeue::update_priority(now.duration_since(new.created().unwrap_or(now)), a, b)
            }
            _ => requeue::URGENT,
        }
    }
}
