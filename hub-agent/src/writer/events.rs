//! Events: what people are told beside conditions.

use fleet_api::{
    events::{Event, EventType},
    names::Scope,
};
use fleet_runtime::events::{Recorder, Severity};
use kube::Resource;

/// Records an Event about an object.
pub(crate) fn record<K: Resource<DynamicType = ()>, E: Event>(events: &Recorder, scope: Scope, object: &K, event: &E) {
    let severity = match event.event_type() {
        EventType::Normal => Severity::Normal,
        EventType::Warning => Severity::Warning,
    };
    events.record(E::component(scope), object, severity, event.reason(), event.message());
}
