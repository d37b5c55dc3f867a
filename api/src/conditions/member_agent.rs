//! Conditions of a `MemberAgent` entry in `agentStatus`, on an InternalMemberCluster and its copy on the MemberCluster.
//! There are exactly these two.

states! {
    /// Whether the agent works for this fleet. Reported by the member.
    pub enum Joined = "Joined" {
        Joined => True "InternalMemberClusterJoined" "";
        Left => False "InternalMemberClusterLeft" "";
        FailedToJoin { error: String } => Unknown "InternalMemberClusterFailedToJoin" "{error}";
        FailedToLeave { error: String } => Unknown "InternalMemberClusterFailedToLeave" "{error}";
    }
}

states! {
    /// Whether the member's API server answers `/readyz`. Reported by the member; code 0 means no connection.
    pub enum Healthy = "Healthy" {
        Healthy => True "InternalMemberClusterHealthy" "";
        Unhealthy { code: u16 } => False "InternalMemberClusterUnhealthy"
            "health probe failed with status code {code}";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (&Joined::Joined, "Joined=True InternalMemberClusterJoined: "),
            (&Joined::Left, "Joined=False InternalMemberClusterLeft: "),
            (
                &Joined::FailedToJoin { error: "e".into() },
                "Joined=Unknown InternalMemberClusterFailedToJoin: e",
            ),
            (
                &Joined::FailedToLeave { error: "e".into() },
                "Joined=Unknown InternalMemberClusterFailedToLeave: e",
            ),
            (&Healthy::Healthy, "Healthy=True InternalMemberClusterHealthy: "),
            (
                &Healthy::Unhealthy { code: 0 },
                "Healthy=False InternalMemberClusterUnhealthy: health probe failed with status code 0",
            ),
        ]);
    }
}
