//! Why a member that was deleted is still there.

use fleet_api::cluster::MemberCluster;
use fleet_api::conditions::{Status, member_agent};

use super::super::chain::{Cause, Step};
use super::super::fleet::Fleet;
use super::super::names::Names;
use super::{agent_condition, connection};

pub(super) fn step(fleet: &Fleet<'_>, member: &MemberCluster, names: &Names<'_>) -> Step {
    let since = member.metadata.deletion_timestamp.as_ref();
    let namespace = format!("fleet-member-{}", names.cluster);
    let works = fleet.works.iter();
    let left = works
        .filter(|work| work.metadata.namespace.as_deref() == Some(&namespace))
        .count();
    let silent = connection::step(fleet, member, names).cause;
    let cannot = agent_condition(member, member_agent::Joined::TYPE)
        .filter(|condition| condition.reason == "InternalMemberClusterFailedToLeave")
        .filter(|condition| Status::of(condition) == Status::Unknown);
    let cause = match (silent, cannot, left) {
        (Some(silent), _, _) => Cause::new(
            format!(
                "the member is leaving, and its agent has to clean up first, but: {}",
                silent.text
            ),
            silent.next,
        ),
        (None, Some(cannot), _) => Cause::new(
            format!("the member is leaving, but its agent cannot: {}", cannot.message),
            names.fill("kubectl fleet check --member-context {cluster}"),
        ),
        (None, None, 0) => Cause::new(
            "the member is leaving: the hub removes its namespace",
            format!("kubectl get namespace {namespace} -o yaml"),
        ),
        (None, None, left) => Cause::new(
            format!("the member is leaving, and has to clean up first: Works left: {left}"),
            format!("kubectl get works -n {namespace}"),
        ),
    };
    Step::waiting("Left", cause).since(since)
}
