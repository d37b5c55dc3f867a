//! Events that members ask the hub to record on their behalf. Droppable, never answered.

use fleet_api::{
    events::{Event as _, InternalMemberClusterEvent, WorkEvent},
    names::Scope,
};
use fleet_core::session::bucket::Bucket;
use fleet_proto::{
    convert::{CleanupProgress, Event, EventObject, Severity as Said},
    limits,
};
use fleet_runtime::{Key, events::Severity};
use jiff::{SignedDuration, Timestamp};

use super::{
    registry::{Live, imc_key},
    server::Shared,
};

/// Reasons that members give. Others are dropped: a reason is API, and the number of different ones must have a bound.
const REASONS: [&str; 12] = [
    "InternalMemberClusterHealthy",
    "InternalMemberClusterUnhealthy",
    "InternalMemberClusterJoined",
    "InternalMemberClusterFailedToJoin",
    "InternalMemberClusterLeft",
    "InternalMemberClusterFailedToLeave",
    "Started",
    "FailedToStart",
    "TimedOut",
    "ManifestContested",
    "CleanupStuck",
    "LeftoverNotRemoved",
];

/// A clean-up that takes longer is worth telling people about.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Records for one session.
pub(super) struct Events {
    allowance: Bucket,
}

impl Events {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            allowance: Bucket::new(limits::EVENTS_PER_SECOND, limits::EVENTS_BURST, now),
        }
    }

    pub(super) fn record(&mut self, shared: &Shared, live: &Live, event: Event) {
        let Some(reason) = REASONS.into_iter().find(|reason| *reason == event.reason) else {
            return shared.measures.refused("event_unknown");
        };
        if !self.allowed(shared) {
            return;
        }
        let severity = match event.severity {
            Said::Normal => Severity::Normal,
            Said::Warning => Severity::Warning,
        };
        // About its own objects only, and only those that the hub knows.
        match event.object {
            EventObject::InternalMemberCluster => {
                let imc = shared.deps.internals.get(&imc_key(&live.cluster));
                if let Some(imc) = imc.filter(|imc| imc.metadata.uid.as_ref() == Some(&event.object_uid)) {
                    let component = InternalMemberClusterEvent::component(Scope::Namespaced);
                    shared
                        .deps
                        .events
                        .record(component, &*imc, severity, reason, event.message);
                }
            }
            EventObject::Work => {
                let key = Key::namespaced(live.cluster.namespace(), event.work_name.as_str());
                let work = shared.deps.works.get(&key);
                if let Some(work) = work.filter(|work| work.metadata.uid.as_ref() == Some(&event.object_uid)) {
                    let component = WorkEvent::component(Scope::Namespaced);
                    shared
                        .deps
                        .events
                        .record(component, &*work, severity, reason, event.message);
                }
            }
        }
    }

    /// A clean-up that takes long.
    pub(super) fn progress(&mut self, shared: &Shared, live: &Live, progress: &CleanupProgress) {
        let now = shared.deps.clock.now();
        let long = progress
            .since
            .is_some_and(|since| now.duration_since(since) >= STUCK_AFTER);
        if !long || !self.allowed(shared) {
            return;
        }
        let key = Key::namespaced(live.cluster.namespace(), progress.work.name.as_str());
        let work = shared.deps.works.get(&key);
        let Some(work) = work.filter(|work| work.metadata.uid.as_ref() == Some(&progress.work.uid)) else {
            return;
        };
        let first = progress.blockers.first().map_or_else(String::new, |blocker| {
            let id = &blocker.identifier;
            format!("{} {}/{}: {}", id.kind, id.namespace, id.name, blocker.reason)
        });
        let event = WorkEvent::CleanupStuck {
            remaining: progress.remaining as usize,
            first,
        };
        let component = WorkEvent::component(Scope::Namespaced);
        shared
            .deps
            .events
            .record(component, &*work, Severity::Warning, event.reason(), event.message());
    }

    fn allowed(&mut self, shared: &Shared) -> bool {
        let allowed = self.allowance.take(1, shared.deps.clock.now()).is_ok();
        if !allowed {
            shared.measures.refused("event_rate");
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_of_ours_has_its_reason_here() {
        let internal = [
            InternalMemberClusterEvent::Healthy,
            InternalMemberClusterEvent::Unhealthy,
            InternalMemberClusterEvent::Joined,
            InternalMemberClusterEvent::FailedToJoin,
            InternalMemberClusterEvent::Left,
            InternalMemberClusterEvent::FailedToLeave,
            InternalMemberClusterEvent::ProviderStarted,
            InternalMemberClusterEvent::ProviderFailedToStart { error: String::new() },
            InternalMemberClusterEvent::ProviderStartTimedOut,
            InternalMemberClusterEvent::ProviderTimedOut,
        ];
        let text = String::new;
        let work = [
            WorkEvent::Contested {
                object: text(),
                manager: text(),
            },
            WorkEvent::CleanupStuck {
                remaining: 0,
                first: text(),
            },
            WorkEvent::LeftoverNotRemoved {
                object: text(),
                error: text(),
            },
        ];
        let reasons = internal
            .iter()
            .map(fleet_api::events::Event::reason)
            .chain(work.iter().map(fleet_api::events::Event::reason));
        for reason in reasons {
            assert!(REASONS.contains(&reason), "{reason}");
        }
    }
}
