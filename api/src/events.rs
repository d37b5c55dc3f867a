//! Every Event's type, reason, message and component.
//!
//! An Event is declared together with its words, as conditions are. Upstream's come first in each table; those after
//! the line "Ours" upstream does not have, so their words are ours.

#[macro_use]
mod table;

use std::fmt::Display;

use crate::conditions::placement::Step;
use crate::names::Scope;

/// The longest message that the API server takes.
pub const MESSAGE_MAX: usize = 1024;

/// Whether an Event is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something happened as it should.
    Normal,
    /// Somebody may have to act.
    Warning,
}

impl EventType {
    /// As it is written on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something to tell the user about an object.
pub trait Event {
    /// Every reason that there is.
    const REASONS: &'static [&'static str];

    /// Who says so, for an object of this scope; objects that come in one scope only have one component.
    fn component(scope: Scope) -> &'static str
    where
        Self: Sized;
    /// Good news or not.
    fn event_type(&self) -> EventType;
    /// The machine-readable reason.
    fn reason(&self) -> &'static str;
    /// The sentence for people, cut to what the API server takes.
    fn message(&self) -> String;
}

events! {
    /// On MemberClusters.
    pub enum MemberClusterEvent from "mcv1beta1" {
        NamespaceCreated => Normal "NamespaceCreated" "Namespace was created";
        NamespacePatched => Normal "NamespacePatched" "Namespace was patched";
        RoleCreated => Normal "RoleCreated" "role was created";
        RoleUpdated => Normal "RoleUpdated" "role was updated";
        RoleBindingCreated => Normal "RoleBindingCreated" "role binding was created";
        RoleBindingUpdated => Normal "RoleBindingUpdated" "role binding was updated";
        InternalMemberClusterCreated => Normal "InternalMemberClusterCreated" "Internal member cluster was created";
        InternalMemberClusterUpdated => Normal "InternalMemberClusterSpecUpdated"
            "internal member cluster spec updated";
        ReadyToJoin => Normal "MemberClusterReadyToJoin" "member cluster ready to join";
        Joined => Normal "MemberClusterJoined" "member cluster joined";
        /// Upstream's reason is `MemberClusterJoined`, by mistake.
        Left => Normal "MemberClusterLeft" "member cluster left";
        JoinStateUnknown => Warning "MemberClusterJoinStateUnknown" "member cluster join state unknown";
        // Ours.
        NotReadyToJoin { error: String } => Warning "MemberClusterNotReadyToJoin"
            "member cluster not ready to join: {error}";
        HeartbeatLost => Warning "MemberClusterHeartbeatLost" "member cluster has stopped sending heartbeats";
        HeartbeatRestored => Normal "MemberClusterHeartbeatRestored" "member cluster sends heartbeats again";
        /// Two clusters use one name.
        AlreadyConnected { connected: String, refused: String } => Warning "MemberClusterAlreadyConnected"
            "refused a connection from cluster {refused}: cluster {connected} is connected under this name; give each \
             cluster a MemberCluster of its own";
        IdentityMismatch { user: String } => Warning "MemberClusterIdentityMismatch"
            "refused a connection from {user}: it is not the identity in spec.identity";
        /// Held back: written later, the newest word only. Told once for as long as it goes on.
        WorkHeldBack { cluster: String } => Warning "MemberClusterHeldBack"
            "reports of {cluster} are written down later: it keeps changing the status of one Work";
        StatusHeldBack { cluster: String } => Warning "MemberClusterHeldBack"
            "reports of {cluster} are written down later: it keeps changing what it says about itself";
        BytesHeldBack { cluster: String, mebibytes: u32 } => Warning "MemberClusterHeldBack"
            "reports of {cluster} are written down later: it stores more than {mebibytes} MiB a minute";
        SessionHeldBack { cluster: String, sessions: u32 } => Warning "MemberClusterHeldBack"
            "{cluster} is made to wait: it connects more than {sessions} times a minute";
        WindowUnreadable { why: String } => Warning "MemberClusterWindowUnreadable"
            "the annotation rollout.kubernetes-fleet.io/window cannot be read, so the member cluster counts as closed: \
             {why}";
        ForceDeleted => Warning "MemberClusterForceDeleted"
            "member cluster did not leave in time; its placed resources stay on it";
        /// A hub that was restored from a backup.
        HubWentBack { why: String } => Warning "HubWentBackInTime"
            "the hub went back in time, as after a restore from a backup: {why}; nothing is applied to this member \
             cluster or removed from it until the annotation kubernetes-fleet.io/recovered-at of its \
             InternalMemberCluster has a newer time";
    }
}

events! {
    /// On InternalMemberClusters; recorded by the hub on the member's behalf.
    pub enum InternalMemberClusterEvent from "v1beta1InternalMemberClusterController" {
        Healthy => Normal "InternalMemberClusterHealthy" "internal member cluster healthy";
        Unhealthy => Warning "InternalMemberClusterUnhealthy" "internal member cluster unhealthy";
        Joined => Normal "InternalMemberClusterJoined" "internal member cluster joined";
        FailedToJoin => Normal "InternalMemberClusterFailedToJoin" "internal member cluster failed to join";
        Left => Normal "InternalMemberClusterLeft" "internal member cluster left";
        FailedToLeave => Normal "InternalMemberClusterFailedToLeave" "internal member cluster failed to leave";
        ProviderStarted => Normal "Started" "The property provider has started successfully";
        ProviderFailedToStart { error: String } => Warning "FailedToStart"
            "Failed to start the property provider: {error}";
        ProviderStartTimedOut => Warning "TimedOut" "The property provider does not start up in time";
        ProviderTimedOut => Warning "TimedOut" "The property provider does not respond in time";
        // Ours.
        HubTokenNotRenewed { cluster: String, ends: String, error: String } => Warning "HubTokenNotRenewed"
            "the member's token for the hub ends at {ends} and could not be renewed: {error}; unless this passes, run \
             `kubectl fleet join {cluster}` again, which makes a new one";
        HubTokenRenewed { ends: String } => Normal "HubTokenRenewed"
            "the member's token for the hub was renewed; the new one ends at {ends}";
        HubWentBack { why: String } => Warning "HubWentBackInTime"
            "the hub went back in time, as after a restore from a backup: {why}; nothing is applied or removed until \
             the annotation kubernetes-fleet.io/recovered-at has a newer time";
        HubRecovered => Normal "HubRecovered" "the hub has recovered: Works are applied again";
    }
}

events! {
    /// On placements.
    pub enum PlacementEvent from "placement-controller" {
        RolloutStarted => Normal "PlacementRolloutStarted" "Started rolling out the latest resources";
        Overridden => Normal "PlacementOverriddenSucceeded" "Placement has been successfully overridden";
        WorkSynchronized => Normal "PlacementWorkSynchronized"
            "Work(s) have been created or updated successfully for the selected cluster(s)";
        Applied => Normal "PlacementApplied" "Resources have been applied to the selected cluster(s)";
        Available => Normal "PlacementAvailable" "Resources are available on the selected cluster(s)";
        DiffReported => Normal "PlacementDiffReported"
            "Configuration differences have been reported on the selected cluster(s)";
        Completed => Normal "PlacementRolloutCompleted"
            "Placement has finished the rollout process and reached the desired status";
        CleanedUp => Normal "PlacementCleanupFinalizerRemoved"
            "Deleted the snapshots and removed the placement cleanup finalizer";
        // Ours. The message of a failed step is that of its condition.
        ScheduleFailed { message: String } => Warning "PlacementScheduleFailed" "{message}";
        RolloutBlocked { message: String } => Warning "PlacementRolloutBlocked" "{message}";
        OverrideFailed { message: String } => Warning "PlacementOverriddenFailed" "{message}";
        WorkSynchronizeFailed { message: String } => Warning "PlacementWorkSynchronizeFailed" "{message}";
        ApplyFailed { message: String } => Warning "PlacementApplyFailed" "{message}";
        NotAvailable { message: String } => Warning "PlacementNotAvailable" "{message}";
        DiffReportFailed { message: String } => Warning "PlacementDiffReportFailed" "{message}";
        /// Of a whole namespace; what is placed is never left out.
        KindsLeftOut { what: String } => Warning "PlacementKindsLeftOut" "Some kinds cannot be read: {what}";
        /// What the webhook would have said: it was away or switched off, or this is older than its rules.
        Invalid { why: String } => Warning "PlacementInvalid" "{why}";
        /// Something that no condition of the placement can say, such as a broken label on a snapshot.
        Held { error: String } => Warning "PlacementHeld" "Placement cannot be processed: {error}";
        /// Comparing changes nothing else, so nobody expects it.
        TakesOwnership { when: String } => Warning "PlacementTakesOwnership"
            "ReportDiff with whenToTakeOver {when} changes nothing on the clusters, but takes ownership of objects that \
             exist there: they are deleted with the placement; set whenToTakeOver to Never to leave them alone";
        /// `why` is a whole sentence: it speaks of the placement, or of one object and how many more there are.
        StatusNotReportedBack { why: String } => Warning "PlacementStatusNotReportedBack" "{why}";
        /// Each writes over the other, for as long as both go on.
        StatusContested { object: String, manager: String } => Warning "PlacementStatusContested"
            "{manager} also writes the status of {object} on the hub; let only one of the two do so";
    }
}

impl PlacementEvent {
    /// What to tell when the step's condition has become true; scheduling has no Event.
    pub const fn succeeded(step: Step) -> Option<Self> {
        match step {
            Step::Scheduled => None,
            Step::RolloutStarted => Some(Self::RolloutStarted),
            Step::Overridden => Some(Self::Overridden),
            Step::WorkSynchronized => Some(Self::WorkSynchronized),
            Step::Applied => Some(Self::Applied),
            Step::Available => Some(Self::Available),
            Step::DiffReported => Some(Self::DiffReported),
        }
    }

    /// What to tell when the step's condition has become false with this message.
    pub const fn failed(step: Step, message: String) -> Self {
        match step {
            Step::Scheduled => Self::ScheduleFailed { message },
            Step::RolloutStarted => Self::RolloutBlocked { message },
            Step::Overridden => Self::OverrideFailed { message },
            Step::WorkSynchronized => Self::WorkSynchronizeFailed { message },
            Step::Applied => Self::ApplyFailed { message },
            Step::Available => Self::NotAvailable { message },
            Step::DiffReported => Self::DiffReportFailed { message },
        }
    }
}

events! {
    /// On bindings, from the work generator.
    pub enum WorkGeneratorEvent from "cluster resource binding work generator" or "resource binding work generator" {
        DuplicateEnvelopeWorks { works: Vec<String>, envelope: String, namespace: String }
            => Warning "DuplicateEnvelopeWorks" {
                format!(
                    "Multiple Work objects ([{}]) found for envelope {envelope} in namespace {namespace}; delete all \
                     but the oldest to recover",
                    works.join(" "),
                )
            };
    }
}

// Ours, all of them; the component is the name of upstream's controller, which emits none.
events! {
    /// On update runs and, where they are about one, on approval requests. Where a condition tells the same, reason and
    /// text are the condition's; a stage's text comes after its name.
    pub enum UpdateRunEvent from "clusterstagedupdaterun-controller" or "stagedupdaterun-controller" {
        Initialized => Normal "UpdateRunInitializedSuccessfully" "The UpdateRun initialized successfully";
        InitializationFailed { error: String } => Warning "UpdateRunInitializedFailed" "{error}";
        InitializationWaiting { bindings: Vec<String> } => Warning "UpdateRunInitializationWaiting" {
            format!("Waiting for the scheduler to look again at binding(s) of an older policy: {}", bindings.join(", "))
        };
        StageStarted { stage: String } => Normal "StageUpdatingStarted"
            "Stage {stage}: Clusters in the stage started updating";
        StageSucceeded { stage: String } => Normal "StageUpdatingSucceeded"
            "Stage {stage}: Stage update completed successfully";
        StageSkipped { stage: String } => Normal "StageUpdatingSkippedNoClusters"
            "Stage {stage}: Stage skipped because it has no clusters";
        ClusterSkipped { cluster: String, stage: String, why: String } => Normal "UpdateRunClusterSkipped"
            "Cluster {cluster} in stage {stage}: {why}";
        /// Clusters that the placement has picked since the plan was made.
        ClustersNotIncluded { clusters: Vec<String> } => Normal "UpdateRunClustersNotIncluded" {
            format!(
                "{} cluster(s) picked after the run was initialized are left to the next run: {}",
                clusters.len(),
                clusters.join(", "),
            )
        };
        /// Clusters that the plan leaves out, as its strategy says.
        ClustersUnassigned { clusters: Vec<String> } => Normal "UpdateRunClustersUnassigned" {
            format!("{} cluster(s) are in no stage of the strategy: {}", clusters.len(), clusters.join(", "))
        };
        /// Settings that need a failure budget, of a run that has none.
        NoFailureBudget { without_effect: String } => Warning "UpdateRunNoFailureBudget"
            "Without rollout.kubernetes-fleet.io/max-failures no cluster ever fails (0 is for none may), so {without_effect}";
        /// Somebody asks for a rollback, and there will be none.
        RollbackIgnored { why: String } => Warning "UpdateRunRollbackIgnored"
            "The annotation rollout.kubernetes-fleet.io/rollback is ignored: {why}";
        /// The condition's text.
        ClusterFailed { cluster: String, stage: String, why: String } => Warning "UpdateRunClusterFailed"
            "Cluster {cluster} in stage {stage}: {why}";
        /// What set it off.
        RollingBack { why: String } => Warning "UpdateRunRollingBack" "The update run is rolling back: {why}";
        /// `left` tells which clusters were left alone, and why.
        RolledBack { restored: usize, of: usize, left: String } => Warning "UpdateRunRolledBack" {
            let sentence = format!("Rolled back {restored} of {of} cluster(s)");
            if left.is_empty() { sentence } else { format!("{sentence}; left alone: {left}") }
        };
        /// A version that another run has taken back.
        SnapshotHasFailed { snapshot: String, run: String } => Warning "UpdateRunSnapshotHasFailed"
            "The resource snapshot {snapshot} was taken back by update run {run}";
        /// The condition's text.
        WindowClosed { message: String } => Normal "UpdateRunWindowClosed" "{message}";
        WindowUnreadable { cluster: String, why: String } => Warning "UpdateRunWindowUnreadable"
            "The annotation rollout.kubernetes-fleet.io/window of MemberCluster {cluster} cannot be read, so the cluster \
             counts as closed: {why}";
        GateWaiting { stage: String, gate: String, why: String } => Normal "UpdateRunGateWaiting"
            "Stage {stage} is waiting for the gate {gate}: {why}";
        GatePassed { stage: String, gate: String } => Normal "UpdateRunGatePassed"
            "The gate {gate} of stage {stage} has passed";
        ApprovalNeeded { request: String, stage: String } => Normal "UpdateRunApprovalNeeded"
            "Stage {stage} is waiting for {request} to be approved";
        ApprovalAccepted { request: String, stage: String } => Normal "UpdateRunApprovalAccepted"
            "The approval {request} for stage {stage} was accepted";
        /// An approval for another generation counts for nothing, and nothing else says so.
        ApprovalStale { request: String, observed: i64, generation: i64 } => Warning "UpdateRunApprovalStale"
            "The approval of {request} is ignored: its Approved condition has observedGeneration {observed}, want \
             {generation}";
        /// The condition's text, and for each cluster what is in the way.
        Stuck { message: String } => Warning "UpdateRunStuck" "{message}";
        /// The text of the condition is published and names no run.
        Preempted { cluster: String, stage: String, run: String, index: String } => Warning "UpdateRunPreempted"
            "Cluster {cluster} in stage {stage} was taken over by update run {run} (resourceSnapshotIndex {index})";
        /// The binding names no other run.
        Changed { cluster: String, stage: String, index: String } => Warning "UpdateRunPreempted"
            "Cluster {cluster} in stage {stage} was given other content (resourceSnapshotIndex {index}), not by an \
             update run";
        Stopped => Normal "UpdateRunStopped" "The update run has been stopped";
        Resumed => Normal "UpdateRunResumed" "The update run has been resumed";
        Failed { error: String } => Warning "UpdateRunFailed" "{error}";
        Succeeded => Normal "UpdateRunSucceeded" "All stages are completed successfully";
    }
}

// Ours, all of them; the component is the name of upstream's controller, which emits none.
events! {
    /// On evictions. Conditions have upstream's texts, which clients compare whole; what is missing is told here.
    pub enum EvictionEvent from "clusterresourceplacementeviction-controller" {
        /// The condition's text.
        Executed { message: String } => Normal "EvictionExecuted" "{message}";
        /// What the budget needs, and which clusters are in the way.
        Blocked { why: String } => Warning "EvictionBlocked" "{why}";
        /// The condition's text.
        Invalid { message: String } => Warning "EvictionInvalid" "{message}";
        Waiting { until: String, why: String } => Normal "EvictionWaiting" "waits for the budget until {until}: {why}";
        /// The hub was restored from a backup.
        Held { cluster: String } => Warning "EvictionHeld"
            "waits: the hub went back in time, and nothing is removed from {cluster} until the annotation \
             kubernetes-fleet.io/recovered-at of its InternalMemberCluster has a newer time";
        BadAnnotation { annotation: String, value: String } => Warning "EvictionAnnotationIgnored"
            "the annotation {annotation} is ignored: {value:?} is no duration such as 30s, 10m or 1h30m";
    }
}

// Ours: upstream's controllers of overrides emit none.
events! {
    /// On overrides, which have no conditions.
    pub enum OverrideEvent from "clusterresourceoverride-controller" or "resourceoverride-controller" {
        /// What the webhook would have said: it was away, switched off, or asked twice at one moment.
        Invalid { why: String } => Warning "OverrideInvalid" "{why}";
    }
}

// Ours, all of them: upstream's applier emits none.
events! {
    /// On Works; recorded by the hub on the member's behalf.
    pub enum WorkEvent from "work-applier" {
        /// Overwritten with a growing delay, since two writers would go on for ever.
        Contested { object: String, manager: String } => Warning "ManifestContested"
            "{manager} keeps changing {object} back on the member cluster; let only one of the two manage it";
        CleanupStuck { remaining: usize, first: String } => Warning "CleanupStuck"
            "{remaining} object(s) on the member cluster are still being deleted, first {first}";
        LeftoverNotRemoved { object: String, error: String } => Warning "LeftoverNotRemoved"
            "{object} is no longer placed but could not be removed from the member cluster: {error}";
        LeftoverKept { object: String } => Warning "LeftoverKept"
            "{object} is not in the Work and stays on the member cluster: the hub may have forgotten it";
    }
}

// Ours.
events! {
    /// On webhook configurations and admission policies that KubeFleet has left.
    pub enum WebhookConfigurationEvent from "hub-agent" {
        LeftByKubeFleet { effect: String, command: String } => Warning "LeftByKubeFleet"
            "left by KubeFleet's hub agent: {effect}; to remove it, run {command}, or start the hub agent with \
             --remove-kubefleet-webhooks (chart: removeKubeFleetWebhooks)";
        PolicyLeftByKubeFleet { command: String } => Warning "LeftByKubeFleet"
            "left by KubeFleet's hub agent, and still in force: the policies of this release do what it does; to remove it, \
             run {command}";
        Removed => Normal "RemovedAfterKubeFleet" "left by KubeFleet's hub agent; removed as the hub agent was told";
    }
}

/// One over-long message would make the API server refuse the Event.
fn cut(message: impl Display) -> String {
    let mut message = message.to_string();
    message.truncate(message.floor_char_boundary(MESSAGE_MAX));
    message
}

#[cfg(test)]
mod tests;
