//! The condition of a ClusterProfile.

states! {
    /// Whether the member's API server is well as far as its agent says. Written by the inventory export.
    pub enum ControlPlaneHealthy = "ControlPlaneHealthy" {
        NoStatus => Unknown "MemberAgentReportedNoStatus" "The Fleet member agent has not reported its status yet";
        NoHealth => Unknown "MemberAgentReportedNoHealthInfo"
            "The Fleet member agent has reported its status, but the health condition is missing";
        HeartbeatLost => False "MemberAgentHeartbeatLost"
            "The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster";
        HealthUnknown => Unknown "MemberAgentReportedNoHealthInfo"
            "The Fleet member agent health check result is out of date or unknown";
        Unhealthy => False "MemberClusterAPIServerUnhealthy"
            "The Fleet member agent reports that the API server is unhealthy";
        Healthy => True "MemberClusterAPIServerHealthy"
            "The Fleet member agent reports that the API server is healthy";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::assert_rows;

    #[test]
    fn words() {
        assert_rows(&[
            (
                &ControlPlaneHealthy::NoStatus,
                "ControlPlaneHealthy=Unknown MemberAgentReportedNoStatus: \
                 The Fleet member agent has not reported its status yet",
            ),
            (
                &ControlPlaneHealthy::NoHealth,
                "ControlPlaneHealthy=Unknown MemberAgentReportedNoHealthInfo: \
                 The Fleet member agent has reported its status, but the health condition is missing",
            ),
            (
                &ControlPlaneHealthy::HeartbeatLost,
                "ControlPlaneHealthy=False MemberAgentHeartbeatLost: \
                 The Fleet member agent has lost its heartbeat connection to the Fleet hub cluster",
            ),
            (
                &ControlPlaneHealthy::HealthUnknown,
                "ControlPlaneHealthy=Unknown MemberAgentReportedNoHealthInfo: \
                 The Fleet member agent health check result is out of date or unknown",
            ),
            (
                &ControlPlaneHealthy::Unhealthy,
                "ControlPlaneHealthy=False MemberClusterAPIServerUnhealthy: \
                 The Fleet member agent reports that the API server is unhealthy",
            ),
            (
                &ControlPlaneHealthy::Healthy,
                "ControlPlaneHealthy=True MemberClusterAPIServerHealthy: \
                 The Fleet member agent reports that the API server is healthy",
            ),
        ]);
    }
}
