//! Reasons of members: membership, agents, health, properties, ClusterProfiles.

use super::{Table, done, fails, waits};

const WHY: &str = "kubectl fleet why membercluster/{cluster}";
const CHECK: &str = "kubectl fleet check --member-context {cluster}";
const DESCRIBE: &str = "kubectl describe membercluster {cluster}";
const READYZ: &str = "kubectl --context {cluster} get --raw '/readyz?verbose'";

pub(super) const TABLE: Table = &[
    ("MemberClusterReadyToJoin", done("the hub is ready for the member")),
    (
        "MemberClusterNotReadyToJoin",
        fails("the hub is not ready for the member: {message}", DESCRIBE),
    ),
    ("MemberClusterJoined", done("the member has joined")),
    ("MemberClusterLeft", done("the member has left the fleet")),
    (
        "MemberClusterJoinStateUnknown",
        waits("the member agent has not said that it has joined: {message}", CHECK),
    ),
    ("MemberClusterHealthy", done("the member is healthy")),
    (
        "MemberClusterUnhealthy",
        fails("the member is not well: {message}", READYZ),
    ),
    (
        "MemberClusterHeartbeatLost",
        fails("the member is silent: {message}", CHECK),
    ),
    (
        "MemberClusterHealthUnknown",
        waits("the member has not said how it is", CHECK),
    ),
    // Agents.
    ("InternalMemberClusterJoined", done("the agent works for this fleet")),
    ("InternalMemberClusterLeft", done("the agent has left")),
    (
        "InternalMemberClusterFailedToJoin",
        fails("the agent cannot join: {message}", CHECK),
    ),
    (
        "InternalMemberClusterFailedToLeave",
        fails("the agent cannot leave: {message}", CHECK),
    ),
    ("InternalMemberClusterHealthy", done("the member's API server is ready")),
    (
        "InternalMemberClusterUnhealthy",
        fails("the member's API server is not ready: {message}", READYZ),
    ),
    // Properties.
    ("Started", done("the property provider runs")),
    ("FailedToStart", fails("{message}", CHECK)),
    ("TimedOut", fails("{message}", CHECK)),
    ("PropertiesCollected", done("the properties are up to date")),
    ("TooManyCalls", waits("{message}", CHECK)),
    ("CostsCalculated", done("the costs are up to date")),
    (
        "CostsCalculationDegraded",
        done("the costs are up to date as far as they can be told"),
    ),
    ("CostsCalculationFailed", fails("{message}", CHECK)),
    ("Succeeded", done("all namespaces are reported")),
    (
        "Degraded",
        waits(
            "the member has more namespaces than it reports: placements into others are not made",
            DESCRIBE,
        ),
    ),
    // ClusterProfiles.
    (
        "MemberAgentReportedNoStatus",
        waits("the member agent has not reported yet", WHY),
    ),
    (
        "MemberAgentReportedNoHealthInfo",
        waits("the member agent has not said how the member is", WHY),
    ),
    ("MemberAgentHeartbeatLost", fails("the member is silent", WHY)),
    (
        "MemberClusterAPIServerUnhealthy",
        fails("the member's API server is not ready", READYZ),
    ),
    (
        "MemberClusterAPIServerHealthy",
        done("the member's API server is ready"),
    ),
];
