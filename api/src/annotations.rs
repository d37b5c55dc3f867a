//! Annotation keys.

/// On policy snapshots: the placement generation last seen, for both scopes. Written by the placement controller; it
/// is what makes the scheduler report again.
pub const PLACEMENT_GENERATION: &str = "kubernetes-fleet.io/CRP-generation";
/// On policy snapshots of PickN: how many clusters are wanted. Written by the placement controller; it outranks
/// `spec.policy.numberOfClusters`, which may be stale.
pub const NUMBER_OF_CLUSTERS: &str = "kubernetes-fleet.io/number-of-clusters";

/// On master resource snapshots only, and what identifies one: lower-case hex SHA-256 of the group's content. Written
/// with the snapshot.
pub const RESOURCE_HASH: &str = "kubernetes-fleet.io/resource-hash";
/// On master resource snapshots: how many objects the group has, at least 1. Written with the snapshot.
pub const NUMBER_OF_RESOURCE_SNAPSHOTS: &str = "kubernetes-fleet.io/number-of-resource-snapshots";
/// On master resource snapshots: how many envelope objects were selected. Written with the snapshot.
pub const NUMBER_OF_ENVELOPES: &str = "kubernetes-fleet.io/number-of-enveloped-object";
/// On all other resource snapshots of a group: their position, decimal; 0 is the second chunk. Written with the
/// snapshot.
pub const SUBINDEX_OF_RESOURCE_SNAPSHOT: &str = "kubernetes-fleet.io/subindex-of-resource-snapshot";
/// On the latest master resource snapshot while a change is held back: when it was first seen, RFC 3339 in seconds.
/// Written by the placement controller.
pub const NEXT_RESOURCE_SNAPSHOT_DETECTED: &str = "kubernetes-fleet.io/next-resource-snapshot-candidate-detection-time";

/// On bindings while they are `Unscheduled`: the state before, `Scheduled` or `Bound`. Written by the scheduler.
pub const PREVIOUS_BINDING_STATE: &str = "kubernetes-fleet.io/previous-binding-state";
/// On bindings: the update run that started the cluster last, `<name>/<UID>`. Written by the run together with what it
/// starts. The scheduler empties it when it picks an `Unscheduled` binding again: nothing may reach such a cluster until a
/// run includes it.
pub const UPDATE_RUN: &str = "kubernetes-fleet.io/update-run";

/// On evictions: how long to wait for the budget before the eviction is blocked, such as `10m`. Written by people.
pub const EVICTION_WAIT: &str = "rollout.kubernetes-fleet.io/wait";
/// On evictions: how long after their end they are deleted, such as `1h`; `0s` for never. Written by people; without it the
/// hub agent's `--eviction-ttl` counts.
pub const EVICTION_TTL: &str = "rollout.kubernetes-fleet.io/ttl";

/// How the keys of a run's settings begin: on update runs and update strategies. Written by people, read once, when the run is
/// initialized.
pub const ROLLOUT: &str = "rollout.kubernetes-fleet.io/";
/// On update runs: `Requested` takes back what an unfinished run did. Written by people, read at any time.
pub const ROLLBACK: &str = "rollout.kubernetes-fleet.io/rollback";
/// Value of [`ROLLBACK`].
pub const REQUESTED: &str = "Requested";
/// On update runs: the run whose clusters that did not succeed are tried again. Written by people.
pub const RETRY_OF: &str = "rollout.kubernetes-fleet.io/retry-of";
/// On a run: the hash of the plan that was approved.
pub const PLAN: &str = "rollout.kubernetes-fleet.io/plan";
/// On MemberClusters: when placements may be changed there, such as `Mon-Fri 22:00-04:00 Europe/Zurich`; several are
/// separated by `;`. Written by people, read at any time.
pub const WINDOW: &str = "rollout.kubernetes-fleet.io/window";
/// On master resource snapshots: the update run that has taken back this version. Written by the update run controller.
pub const FAILED_IN: &str = "rollout.kubernetes-fleet.io/failed-in";
/// On placed objects: when they are available, as a CEL expression over the live object. Written by people.
pub const AVAILABLE_WHEN: &str = "rollout.kubernetes-fleet.io/available-when";

/// On Works: the master resource snapshot they were made from. Written by the work generator.
pub const PARENT_RESOURCE_SNAPSHOT_NAME: &str = "kubernetes-fleet.io/parent-resource-snapshot-name";
/// On Works: hash of the list of ResourceOverride snapshots applied. Written by the work generator.
pub const PARENT_RESOURCE_OVERRIDE_HASH: &str = "kubernetes-fleet.io/parent-resource-override-snapshot-hash";
/// On Works: hash of the list of ClusterResourceOverride snapshots applied. Written by the work generator.
pub const PARENT_CLUSTER_RESOURCE_OVERRIDE_HASH: &str =
    "kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash";
/// On Works: `ABANDON` when their objects shall stay on the member after the Work is deleted. Written by the work
/// generator; it must be there before the deletion, since a message could be lost.
pub const DELETE_PROPAGATION: &str = "kubernetes-fleet.io/delete-propagation";
/// Value of `DELETE_PROPAGATION`, as in `strategy.deleteStrategy.propagationPolicy`.
pub const ABANDON: &str = "Abandon";
/// On ConfigMaps that older releases took for envelopes. Nobody acts on it any more.
pub const ENVELOPE_CONFIG_MAP: &str = "kubernetes-fleet.io/envelope-configmap";

/// On objects applied to a member: hash of the manifest they came from. Written by the work applier.
pub const SPEC_HASH: &str = "kubernetes-fleet.io/spec-hash";
/// On objects applied to a member: the manifest of the last client-side apply. Written by the work applier.
pub const LAST_APPLIED_CONFIGURATION: &str = "kubernetes-fleet.io/last-applied-configuration";
/// On objects that kubectl applied; never placed. Written by kubectl.
pub const KUBECTL_LAST_APPLIED_CONFIGURATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// On Deployments; never placed. Written by the Deployment controller.
pub const DEPLOYMENT_REVISION: &str = "deployment.kubernetes.io/revision";

/// On the member's Secret with the hub token: `true` if the member agent shall renew it. Written by `kubectl fleet join`; a
/// Secret without it is somebody else's to keep fresh.
pub const RENEW_TOKEN: &str = "kubernetes-fleet.io/renew-token";

/// On member namespaces: who the member is to the hub's API server, a user's or group's name, or
/// `system:serviceaccount:<namespace>:<name>`. Written by the hub agent, read by the chart's guard rails.
pub const MEMBER_IDENTITY: &str = "kubernetes-fleet.io/member-identity";
/// On InternalMemberClusters: the address of the hub's channel. Written by the hub agent, read by the member.
pub const CHANNEL_ENDPOINT: &str = "kubernetes-fleet.io/channel-endpoint";
/// On InternalMemberClusters: the CA of the hub's channel, base64 of PEM. Written by the hub agent, read by the member.
pub const CHANNEL_CA: &str = "kubernetes-fleet.io/channel-ca";
/// On InternalMemberClusters: the live session, `<cluster UID>/<lease transitions>/<session>`. Written by the replica
/// that accepted the session; a session that it no longer names is closed.
pub const MEMBER_SESSION: &str = "kubernetes-fleet.io/member-session";
/// On InternalMemberClusters: the version of the member agent that opened the session. Written with it.
pub const MEMBER_AGENT_VERSION: &str = "kubernetes-fleet.io/member-agent-version";
/// On InternalMemberClusters: the version of the hub agent that accepted the session. Written with it.
pub const HUB_AGENT_VERSION: &str = "kubernetes-fleet.io/hub-agent-version";
/// On InternalMemberClusters: when the member was asked to leave, RFC 3339. Written by the hub agent together with the
/// state, so that the member's time to answer starts when it could first see the question, also after the hub was down.
pub const LEAVE_SINCE: &str = "kubernetes-fleet.io/leave-since";

/// On InternalMemberClusters: when the hub agent noticed that the hub went back in time, RFC 3339. Written by the hub
/// agent. Until [`RECOVERED_AT`] is newer, nothing is applied to or removed from the member, nor its Works deleted.
pub const WENT_BACK_AT: &str = "kubernetes-fleet.io/went-back-at";
/// On InternalMemberClusters: when somebody has looked at a hub that went back in time and said to go on, RFC 3339.
/// Written by people.
pub const RECOVERED_AT: &str = "kubernetes-fleet.io/recovered-at";
