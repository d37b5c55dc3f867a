//! Heartbeats: of every member one a minute, or more. They change nothing that a page has to show at once.

use fleet_api::cluster::MemberCluster;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A member without the times at which it was heard of and looked at. Who compares two of them sees what has happened.
pub(super) fn without(member: &MemberCluster) -> MemberCluster {
    let mut member = member.clone();
    member.metadata = names(&member.metadata);
    if let Some(status) = &mut member.status {
        for agent in &mut status.agent_status {
            agent.last_received_heartbeat = None;
        }
        for property in status.properties.values_mut() {
            property.observation_time.0 = Timestamp::UNIX_EPOCH;
        }
        if let Some(usage) = &mut status.resource_usage {
            usage.observation_time = None;
        }
    }
    member
}

/// Metadata without what every write changes.
pub(super) fn names(meta: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        resource_version: None,
        managed_fields: None,
        ..meta.clone()
    }
}
