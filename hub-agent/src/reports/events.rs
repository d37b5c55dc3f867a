//! Events that members ask the hub to record on their behalf. Droppable, never answered.

use fleet_api::{
    events::{Event as _, EventType, InternalMemberClusterEvent, WorkEvent},
    names::Scope,
};
use fleet_proto::convert::{CleanupProgress, Event, EventObject};
use fleet_runtime::{Key, events::Severity};
use jiff::SignedDuration;

use crate::channel::{Live, Shared, imc_key};

/// The reason that a member gives, if it is one of those that members have. Others are dropped: a reason is API, and the
/// number of different ones must have a bound.
fn known(reason: &str) -> Option<&'static str> {
    let mut all = InternalMemberClusterEvent::REASONS.iter().chain(WorkEvent::REASONS);
    all.find(|known| **known == reason).copied()
}

/// A clean-up that takes longer is worth telling people about.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// Records what a member asks for.
pub(super) fn record(shared: &Shared, live: &Live, event: Event) {
    let Some(reason) = known(&event.reason) else {
        return shared.measures.refused("event_unknown");
    };
    if !allowed(shared, live) {
        return;
    }
    let severity = match event.type_ {
        EventType::Normal => Severity::Normal,
        EventType::Warning => Severity::Warning,
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
pub(super) fn progress(shared: &Shared, live: &Live, progress: &CleanupProgress) {
    let now = shared.deps.clock.now();
    let long = progress
        .since
        .is_some_and(|since| now.duration_since(since) >= STUCK_AFTER);
    if !long || !allowed(shared, live) {
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

fn allowed(shared: &Shared, live: &Live) -> bool {
    let allowed = live
        .allowance
        .budget()
        .events
        .take(1, shared.deps.clock.steady())
        .is_ok();
    if !allowed {
        shared.measures.refused("event_rate");
    }
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_members_are_known_and_no_others() {
        for reason in ["Started", "LeftoverKept", "HubWentBackInTime", "HubRecovered"] {
            assert_eq!(known(reason), Some(reason));
        }
        assert_eq!(known("MemberClusterJoined"), None, "the hub's own");
    }
}
