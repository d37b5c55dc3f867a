//! Whether a cluster has joined, from what its agents say.

use fleet_api::cluster::{AgentStatus, AgentType};
use fleet_api::conditions::{Status, find, member_agent, member_cluster::Joined};

/// The agents whose word counts. All others may report and are ignored.
pub fn expected(networking: bool) -> Vec<AgentType> {
    let mut agents = vec![AgentType::MemberAgent];
    if networking {
        agents.extend(["MultiClusterServiceAgent", "ServiceExportImportAgent"].map(AgentType::from));
    }
    agents
}

/// The MemberCluster's `Joined`. Only the status of each agent's own `Joined` counts, not its generation.
pub fn joined(cluster: &str, agents: &[AgentStatus], networking: bool) -> Joined {
    let expected = expected(networking);
    let missing = |reported| Joined::AgentsMissing {
        cluster: cluster.into(),
        expected: expected.len(),
        reported,
    };
    if agents.len() < expected.len() {
        return missing(agents.len());
    }
    let mut said = Vec::with_capacity(expected.len());
    for agent in agents.iter().filter(|a| expected.contains(&a.type_)) {
        let Some(condition) = find(&agent.conditions, member_agent::Joined::TYPE) else {
            return Joined::JoinNotReported {
                cluster: cluster.into(),
                agent: agent.type_.as_str().into(),
            };
        };
        said.push(Status::of(condition));
    }
    if said.len() < expected.len() {
        return missing(said.len());
    }
    match said.first() {
        Some(Status::True) if said.iter().all(|s| *s == Status::True) => Joined::Joined,
        Some(Status::False) if said.iter().all(|s| *s == Status::False) => Joined::Left,
        _ => Joined::Inconsistent,
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::conditions::Words as _;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

    use super::*;

    fn agent(type_: &str, joined: Option<&str>) -> AgentStatus {
        let condition = |status: &str| Condition {
            type_: "Joined".into(),
            status: status.into(),
            reason: "R".into(),
            message: String::new(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        };
        AgentStatus {
            type_: type_.into(),
            conditions: joined.map(condition).into_iter().collect(),
            last_received_heartbeat: None,
        }
    }

    const MCS: &str = "MultiClusterServiceAgent";
    const SEI: &str = "ServiceExportImportAgent";

    #[test]
    fn one_agent() {
        let judge = |agents: &[AgentStatus]| joined("c1", agents, false);
        let missing = |reported| Joined::AgentsMissing {
            cluster: "c1".into(),
            expected: 1,
            reported,
        };
        assert_eq!(judge(&[]), missing(0));
        assert_eq!(judge(&[agent("MemberAgent", Some("True"))]), Joined::Joined);
        assert_eq!(judge(&[agent("MemberAgent", Some("False"))]), Joined::Left);
        assert_eq!(judge(&[agent("MemberAgent", Some("Unknown"))]), Joined::Inconsistent);
        assert_eq!(judge(&[agent("Other", Some("True"))]), missing(0));
        assert_eq!(
            judge(&[agent("MemberAgent", None)]),
            Joined::JoinNotReported {
                cluster: "c1".into(),
                agent: "MemberAgent".into()
            },
        );
        let with_stranger = [agent("MemberAgent", Some("True")), agent("Other", Some("False"))];
        assert_eq!(judge(&with_stranger), Joined::Joined, "strangers are ignored");
    }

    #[test]
    fn with_networking_all_three_must_agree() {
        let judge = |a: &str, b: &str, c: &str| {
            joined(
                "c1",
                &[agent("MemberAgent", Some(a)), agent(MCS, Some(b)), agent(SEI, Some(c))],
                true,
            )
        };
        assert_eq!(judge("True", "True", "True"), Joined::Joined);
        assert_eq!(judge("False", "False", "False"), Joined::Left);
        assert_eq!(judge("True", "True", "False"), Joined::Inconsistent);
        let one = joined("c1", &[agent("MemberAgent", Some("True"))], true);
        assert_eq!(
            one.message(),
            "Member cluster c1 has not reported all the expected agents, expected 3, got 1",
        );
        let strangers = [
            agent("MemberAgent", Some("True")),
            agent("x", Some("True")),
            agent("y", Some("True")),
        ];
        assert!(joined("c1", &strangers, true).message().ends_with("expected 3, got 1"));
    }
}
