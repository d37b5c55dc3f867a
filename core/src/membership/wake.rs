//! Which changes of a MemberCluster can change a scheduling decision.

use fleet_api::cluster::{MemberCluster, MemberClusterStatus};
use jiff::Timestamp;

use super::eligibility::is_eligible;

/// Why the scheduler looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Labels differ.
    Labels,
    /// A taint changed or disappeared. A new one only keeps placements away, and nothing is evicted.
    Taints,
    /// A property came, went or has another value; observation times do not matter.
    Properties,
    /// Namespaces differ.
    Namespaces,
    /// Capacity or allocatable resources differ.
    Capacity,
    /// Only what is left of them differs: of interest only to placements that ask for it.
    Available,
    /// It was not eligible before and is now.
    Eligible,
    /// It is gone: all placements.
    Gone,
}

/// What happened between two states of one MemberCluster, each judged at its time. Creation wakes nobody: a cluster
/// that has not reported cannot be chosen.
pub fn causes(before: Option<(&MemberCluster, Timestamp)>, after: Option<(&MemberCluster, Timestamp)>) -> Vec<Cause> {
    let (old, then, new, now) = match (before, after) {
        (Some(_), None) => return vec![Cause::Gone],
        (Some((old, then)), Some((new, now))) => (old, then, new, now),
        (None, _) => return vec![],
    };
    if new.metadata.deletion_timestamp.is_some() {
        return vec![];
    }
    let none = MemberClusterStatus::default();
    let (a, b) = (
        old.status.as_ref().unwrap_or(&none),
        new.status.as_ref().unwrap_or(&none),
    );
    let mut causes = vec![];
    let mut push = |differs: bool, cause| {
        if differs {
            causes.push(cause);
        }
    };
    let labels = |mc: &MemberCluster| mc.metadata.labels.clone().unwrap_or_default();
    push(labels(old) != labels(new), Cause::Labels);
    push(
        old.spec.taints.iter().any(|taint| !new.spec.taints.contains(taint)),
        Cause::Taints,
    );
    let same_values = a.properties.len() == b.properties.len()
        && a.properties
            .iter()
            .zip(&b.properties)
            .all(|((ka, va), (kb, vb))| ka == kb && va.value == vb.value);
    push(!same_values, Cause::Properties);
    push(a.namespaces != b.namespaces, Cause::Namespaces);
    let usage = |s: &MemberClusterStatus| s.resource_usage.clone().unwrap_or_default();
    let (ua, ub) = (usage(a), usage(b));
    push(
        ua.capacity != ub.capacity || ua.allocatable != ub.allocatable,
        Cause::Capacity,
    );
    push(ua.available != ub.available, Cause::Available);
    push(!is_eligible(old, then) && is_eligible(new, now), Cause::Eligible);
    causes
}

#[cfg(test)]
mod tests {
    use fleet_api::cluster::{PropertyValue, ResourceUsage, Taint};
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::super::fixtures::{Fixture as _, agent, at, condition, member};
    use super::*;

    fn diff(change: impl Fn(&mut MemberCluster)) -> Vec<Cause> {
        let mut taint = Taint {
            key: "a".into(),
            ..Taint::default()
        };
        let mut old = member("c1").reporting(agent(Some(0)));
        old.spec.taints.push(taint.clone());
        taint.value = "v".into();
        let mut new = old.clone();
        change(&mut new);
        causes(Some((&old, at(1))), Some((&new, at(2))))
    }

    fn status(mc: &mut MemberCluster) -> &mut MemberClusterStatus {
        mc.status.get_or_insert_default()
    }

    #[test]
    fn each_change_has_its_cause() {
        let value = |v: &str, t| PropertyValue {
            value: v.into(),
            observation_time: Time(at(t)),
        };
        assert_eq!(diff(|_| {}), []);
        assert_eq!(
            diff(|mc| mc.metadata.labels = Some([("a".into(), "b".into())].into())),
            [Cause::Labels]
        );
        assert_eq!(diff(|mc| mc.spec.taints.clear()), [Cause::Taints]);
        assert_eq!(diff(|mc| mc.spec.taints[0].value = "v".into()), [Cause::Taints]);
        assert_eq!(
            diff(|mc| mc.spec.taints.push(Taint {
                key: "new".into(),
                ..Taint::default()
            })),
            []
        );
        assert_eq!(
            diff(|mc| _ = status(mc).properties.insert("p".into(), value("1", 0))),
            [Cause::Properties]
        );
        assert_eq!(
            diff(|mc| _ = status(mc).namespaces.insert("n".into(), String::new())),
            [Cause::Namespaces]
        );
        let usage = |capacity: &str, available: &str| ResourceUsage {
            capacity: [("cpu".into(), Quantity(capacity.into()))].into(),
            available: [("cpu".into(), Quantity(available.into()))].into(),
            ..ResourceUsage::default()
        };
        assert_eq!(
            diff(|mc| status(mc).resource_usage = Some(usage("1", "1"))),
            [Cause::Capacity, Cause::Available]
        );
        assert_eq!(
            diff(|mc| {
                let conditions = &mut status(mc).agent_status[0].conditions;
                conditions.push(condition("Joined", "True", 0));
                conditions.push(condition("Healthy", "True", 0));
            }),
            [Cause::Eligible]
        );
    }

    #[test]
    fn observation_times_and_heartbeats_wake_nobody() {
        let value = |t| PropertyValue {
            value: "1".into(),
            observation_time: Time(at(t)),
        };
        let mut old = member("c1").reporting(agent(Some(0)));
        status(&mut old).properties.insert("p".into(), value(1));
        let mut new = old.clone();
        status(&mut new).properties.insert("p".into(), value(2));
        status(&mut new).agent_status[0].last_received_heartbeat = Some(Time(at(9)));
        assert_eq!(causes(Some((&old, at(1))), Some((&new, at(9)))), []);
    }

    #[test]
    fn creation_wakes_nobody_and_disappearance_everybody() {
        let mc = member("c1");
        assert_eq!(causes(None, Some((&mc, at(0)))), []);
        assert_eq!(causes(Some((&mc, at(0))), None), [Cause::Gone]);
        let mut leaving = mc.clone().deleting(1);
        leaving.metadata.labels = Some([("a".into(), "b".into())].into());
        assert_eq!(causes(Some((&mc, at(0))), Some((&leaving, at(1)))), []);
    }
}
