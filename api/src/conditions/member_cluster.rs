//! Conditions of a MemberCluster.
//!
//! Those that members report about their properties are in [`super::properties`].

use jiff::Timestamp;

states! {
    /// Whether the hub has prepared everything for the member to join. Written by the membership controller.
    ///
    /// What stands in the way goes after the sentence: `NotReady.with_detail(error)`.
    pub enum ReadyToJoin = "ReadyToJoin" {
        Ready => True "MemberClusterReadyToJoin" "Member cluster is ready to join the fleet";
        NotReady => False "MemberClusterNotReadyToJoin" "Member cluster is not ready to join the fleet";
    }
}

states! {
    /// Whether all expected agents have joined. Written by the membership controller.
    pub enum Joined = "Joined" {
        Joined => True "MemberClusterJoined" "Member cluster has successfully joined the fleet";
        Left => False "MemberClusterLeft" "Member cluster has left the fleet";
        AgentsMissing { cluster: String, expected: usize, reported: usize } => Unknown "MemberClusterJoinStateUnknown"
            "Member cluster {cluster} has not reported all the expected agents, expected {expected}, got {reported}";
        JoinNotReported { cluster: String, agent: String } => Unknown "MemberClusterJoinStateUnknown"
            "Member cluster {cluster} has not reported the join condition for agent {agent}";
        Inconsistent => Unknown "MemberClusterJoinStateUnknown" "Member agents are not in a consistent state";
    }
}

// Upstream declares this type and never sets it, so all its reasons and messages are ours. They name the instant of
// the last heartbeat and not its age, which would change on every look.
states! {
    /// Whether the cluster is alive and well as far as the hub can tell. Written by the membership controller.
    pub enum Healthy = "Healthy" {
        Healthy => True "MemberClusterHealthy" "Member cluster is healthy";
        Unhealthy { error: String } => False "MemberClusterUnhealthy" "Member cluster is unhealthy: {error}";
        HeartbeatLost { last: Timestamp } => Unknown "MemberClusterHeartbeatLost" {
            format!("Member cluster has sent no heartbeat since {}", super::whole_seconds(*last).0)
        };
        NotReported => Unknown "MemberClusterHealthUnknown" "Member cluster has not reported its health yet";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::{Words, assert_rows};

    #[test]
    fn words() {
        let cluster = || "c1".to_owned();
        assert_rows(&[
            (
                &ReadyToJoin::Ready,
                "ReadyToJoin=True MemberClusterReadyToJoin: Member cluster is ready to join the fleet",
            ),
            (
                &ReadyToJoin::NotReady,
                "ReadyToJoin=False MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet",
            ),
            (
                &ReadyToJoin::NotReady.with_detail("roles is forbidden"),
                "ReadyToJoin=False MemberClusterNotReadyToJoin: \
                 Member cluster is not ready to join the fleet; roles is forbidden",
            ),
            (
                &Joined::Joined,
                "Joined=True MemberClusterJoined: Member cluster has successfully joined the fleet",
            ),
            (
                &Joined::Left,
                "Joined=False MemberClusterLeft: Member cluster has left the fleet",
            ),
            (
                &Joined::AgentsMissing {
                    cluster: cluster(),
                    expected: 1,
                    reported: 0,
                },
                "Joined=Unknown MemberClusterJoinStateUnknown: \
                 Member cluster c1 has not reported all the expected agents, expected 1, got 0",
            ),
            (
                &Joined::JoinNotReported {
                    cluster: cluster(),
                    agent: "MemberAgent".into(),
                },
                "Joined=Unknown MemberClusterJoinStateUnknown: \
                 Member cluster c1 has not reported the join condition for agent MemberAgent",
            ),
            (
                &Joined::Inconsistent,
                "Joined=Unknown MemberClusterJoinStateUnknown: Member agents are not in a consistent state",
            ),
            (
                &Healthy::Healthy,
                "Healthy=True MemberClusterHealthy: Member cluster is healthy",
            ),
            (
                &Healthy::Unhealthy {
                    error: "health probe failed with status code 500".into(),
                },
                "Healthy=False MemberClusterUnhealthy: \
                 Member cluster is unhealthy: health probe failed with status code 500",
            ),
            (
                &Healthy::HeartbeatLost {
                    last: "2026-01-08T00:19:58.7Z".parse().unwrap(),
                },
                "Healthy=Unknown MemberClusterHeartbeatLost: \
                 Member cluster has sent no heartbeat since 2026-01-08T00:19:58Z",
            ),
            (
                &Healthy::NotReported,
                "Healthy=Unknown MemberClusterHealthUnknown: Member cluster has not reported its health yet",
            ),
        ]);
    }
}
