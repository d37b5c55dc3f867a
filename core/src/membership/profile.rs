//! The export of a MemberCluster as a ClusterProfile of the cluster inventory API.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleet_api::cluster::{AgentType, MemberCluster};
use fleet_api::conditions::cluster_profile::ControlPlaneHealthy;
use fleet_api::conditions::{self, Status, find, member_agent, member_cluster, properties::CollectionSucceeded};
use fleet_api::finalizers;
use jiff::{SignedDuration, Timestamp};

use super::heartbeat::{Grace, just_after, period, silence_limit};
use super::properties::{CLUSTER_CA, CLUSTER_ENTRYPOINT, K8S_VERSION};

/// What to do about one MemberCluster's profile.
#[derive(Debug, Clone, PartialEq)]
pub enum Export {
    /// Leave a profile that may exist as it is.
    LeaveAlone(&'static str),
    /// Delete the profile; then, if set, take the finalizer off.
    Delete {
        /// The MemberCluster still has it.
        release: bool,
    },
    /// There must be a profile that says this.
    Ensure(Box<ProfileContent>),
}

/// What a profile should say.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileContent {
    /// The MemberCluster lacks the finalizer, which comes first.
    pub add_finalizer: bool,
    /// `spec.displayName`; manager and label are constants.
    pub display_name: String,
    /// Values for the status; none leaves the stored ones, since they are no longer sure.
    pub facts: Option<Facts>,
    /// `ControlPlaneHealthy`.
    pub health: ControlPlaneHealthy,
    /// When that changes by time alone.
    pub look_again: Option<Timestamp>,
}

/// What the member said about its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `version.kubernetes`.
    pub version: Option<String>,
    /// `accessProviders[0].cluster.server`; always written, also when empty.
    pub server: String,
    /// `accessProviders[0].cluster.certificate-authority-data`: base64 of the PEM text.
    pub certificate_authority_data: Option<String>,
    /// `properties`.
    pub properties: BTreeMap<String, String>,
}

/// Decides for a MemberCluster, or for one that is gone.
pub fn export(mc: Option<&MemberCluster>, threshold: SignedDuration, grace: &Grace, now: Timestamp) -> Export {
    let Some(mc) = mc else {
        return Export::Delete { release: false };
    };
    let held = mc
        .metadata
        .finalizers
        .iter()
        .flatten()
        .any(|f| f == finalizers::CLUSTER_PROFILE);
    if mc.metadata.deletion_timestamp.is_some() {
        // Whoever reads the inventory must not choose a cluster that is leaving.
        return Export::Delete { release: held };
    }
    let generation = mc.metadata.generation.unwrap_or_default();
    let none = fleet_api::cluster::MemberClusterStatus::default();
    let status = mc.status.as_ref().unwrap_or(&none);
    if !conditions::is_true(&status.conditions, member_cluster::Joined::TYPE, generation) {
        return Export::LeaveAlone("the cluster has not joined at the current generation");
    }
    let collected = conditions::is_true(&status.conditions, CollectionSucceeded::TYPE, generation);
    let value = |name: &str| {
        status
            .properties
            .get(name)
            .map(|p| p.value.clone())
            .filter(|v| !v.is_empty())
    };
    let facts = collected.then(|| Facts {
        version: value(K8S_VERSION),
        server: value(CLUSTER_ENTRYPOINT).unwrap_or_default(),
        certificate_authority_data: value(CLUSTER_CA).map(|pem| STANDARD.encode(pem)),
        properties: status
            .properties
            .iter()
            // A PEM bundle is no property that anybody selects by, and is in the access provider.
            .filter(|(name, _)| name.as_str() != CLUSTER_CA)
            .map(|(name, property)| (name.clone(), property.value.clone()))
            .collect(),
    });
    let (health, look_again) = health(mc, threshold, grace, now);
    Export::Ensure(Box::new(ProfileContent {
        add_finalizer: !held,
        display_name: mc.metadata.name.clone().unwrap_or_default(),
        facts,
        health,
        look_again,
    }))
}

fn health(
    mc: &MemberCluster,
    threshold: SignedDuration,
    grace: &Grace,
    now: Timestamp,
) -> (ControlPlaneHealthy, Option<Timestamp>) {
    let Some(agent) = mc.status.as_ref().and_then(|s| s.agent(&AgentType::MemberAgent)) else {
        return (ControlPlaneHealthy::NoStatus, None);
    };
    let Some(healthy) = find(&agent.conditions, member_agent::Healthy::TYPE) else {
        return (ControlPlaneHealthy::NoHealth, None);
    };
    let period = period(mc.spec.heartbeat_period_seconds);
    let last = agent
        .last_received_heartbeat
        .as_ref()
        .map_or(Timestamp::UNIX_EPOCH, |t| t.0);
    let lost_after = grace.lost_after(last, silence_limit(threshold, period), period);
    if now > lost_after {
        return (ControlPlaneHealthy::HeartbeatLost, None);
    }
    let state = match Status::of(healthy) {
        Status::True => ControlPlaneHealthy::Healthy,
        Status::False => ControlPlaneHealthy::Unhealthy,
        Status::Unknown => ControlPlaneHealthy::HealthUnknown,
    };
    (state, Some(just_after(lost_after)))
}

#[cfg(test)]
mod tests {
    use fleet_api::cluster::PropertyValue;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::super::fixtures::{Fixture as _, agent, at, condition, member};
    use super::*;

    const THRESHOLD: SignedDuration = SignedDuration::from_secs(180);

    fn at_generation(condition: Condition, generation: i64) -> Condition {
        Condition {
            observed_generation: Some(generation),
            ..condition
        }
    }

    fn joined(healthy: Option<&str>) -> MemberCluster {
        let mut agent = agent(Some(100));
        agent.conditions.extend(healthy.map(|s| condition("Healthy", s, 0)));
        let mut mc = member("c1").reporting(agent);
        let status = mc.status.get_or_insert_default();
        status.conditions.push(at_generation(condition("Joined", "True", 0), 7));
        mc
    }

    fn wanted(mc: &MemberCluster, now: i64) -> ProfileContent {
        match export(Some(mc), THRESHOLD, &Grace::NONE, at(now)) {
            Export::Ensure(wanted) => *wanted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn profiles_exist_while_their_cluster_is_joined() {
        let judge = |mc: Option<&MemberCluster>| export(mc, THRESHOLD, &Grace::NONE, at(1));
        assert_eq!(judge(None), Export::Delete { release: false });
        assert_eq!(
            judge(Some(&joined(None).deleting(1))),
            Export::Delete { release: false }
        );
        let mut held = joined(None).deleting(1);
        held.metadata.finalizers = Some(vec![finalizers::CLUSTER_PROFILE.into()]);
        assert_eq!(judge(Some(&held)), Export::Delete { release: true });
        assert!(matches!(judge(Some(&member("c1"))), Export::LeaveAlone(_)));
        let mut stale = joined(None);
        stale.metadata.generation = Some(8);
        assert!(matches!(judge(Some(&stale)), Export::LeaveAlone(_)));
        assert!(wanted(&joined(None), 1).add_finalizer);
    }

    #[test]
    fn health_in_the_order_of_its_rows() {
        assert_eq!(wanted(&joined(None), 999).health, ControlPlaneHealthy::NoHealth);
        assert_eq!(wanted(&joined(Some("True")), 280).health, ControlPlaneHealthy::Healthy);
        assert_eq!(
            wanted(&joined(Some("True")), 281).health,
            ControlPlaneHealthy::HeartbeatLost
        );
        assert_eq!(
            wanted(&joined(Some("False")), 101).health,
            ControlPlaneHealthy::Unhealthy
        );
        assert_eq!(
            wanted(&joined(Some("Unknown")), 101).health,
            ControlPlaneHealthy::HealthUnknown
        );
        let mut silent = joined(None);
        silent.status.as_mut().expect("status").agent_status.clear();
        assert_eq!(wanted(&silent, 1).health, ControlPlaneHealthy::NoStatus);
        assert_eq!(
            wanted(&joined(Some("True")), 101).look_again,
            Some(at(280) + SignedDuration::from_millis(1)),
            "without anybody writing"
        );
    }

    #[test]
    fn facts_are_exported_only_while_they_are_sure() {
        let mut mc = joined(Some("True"));
        let status = mc.status.get_or_insert_default();
        let value = |v: &str| PropertyValue {
            value: v.into(),
            observation_time: Time(at(0)),
        };
        status.properties.insert(K8S_VERSION.into(), value("v1.33.2"));
        status.properties.insert(CLUSTER_CA.into(), value("PEM"));
        assert_eq!(wanted(&mc, 1).facts, None);
        mc.status
            .get_or_insert_default()
            .conditions
            .push(at_generation(condition(CollectionSucceeded::TYPE, "True", 0), 7));
        assert_eq!(
            wanted(&mc, 1).facts,
            Some(Facts {
                version: Some("v1.33.2".into()),
                server: String::new(),
                certificate_authority_data: Some("UEVN".into()),
                properties: [(K8S_VERSION.to_owned(), "v1.33.2".to_owned())].into(),
            })
        );
    }
}
