//! Update runs: one staged update of one placement.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::run_options::{PreviousContent, UpdateRunOptions};
use super::status::NamespacedName;
use super::strategy::ApplyStrategy;
use super::update_strategy::{StageTaskType, UpdateStrategySpec};
use crate::kind::{Column, Crd, kind};
use crate::lenient;
use crate::schema::{self, rule};
use crate::words::closed_enum;

const COLUMNS: &[Column] = &[
    Column::string("Placement", ".spec.placementName"),
    Column::string("Resource-Snapshot-Index", ".spec.resourceSnapshotIndex"),
    Column::string("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed"),
    Column::string("Initialized", r#".status.conditions[?(@.type=="Initialized")].status"#),
    Column::string("Progressing", r#".status.conditions[?(@.type=="Progressing")].status"#),
    Column::string("Succeeded", r#".status.conditions[?(@.type=="Succeeded")].status"#),
    Column::AGE,
    Column::string("Strategy", ".spec.stagedRolloutStrategyName").wide(),
];

/// CEL: approval requests are named after their run, and their names are label values.
const NAME_FITS_A_LABEL: (&str, &str) = ("size(self.metadata.name) < 64", "metadata.name max length is 63");

kind! {
    /// Updates the clusters of a ClusterResourcePlacement stage by stage. The placement's strategy must be External.
    #[schemars(extend("x-kubernetes-validations" = [rule(NAME_FITS_A_LABEL.0, NAME_FITS_A_LABEL.1)]))]
    ClusterStagedUpdateRun in super::GROUP, Cluster { spec: UpdateRunSpec, status: UpdateRunStatus }
    Crd::new("clusterstagedupdateruns").short_names(&["csur"]).columns(COLUMNS).with_v1();
}

kind! {
    /// Updates the clusters of a ResourcePlacement in its namespace stage by stage. The placement's strategy must be
    /// External.
    #[schemars(extend("x-kubernetes-validations" = [rule(NAME_FITS_A_LABEL.0, NAME_FITS_A_LABEL.1)]))]
    StagedUpdateRun in super::GROUP, Namespaced { spec: UpdateRunSpec, status: UpdateRunStatus }
    Crd::new("stagedupdateruns").short_names(&["sur"]).columns(COLUMNS).with_v1();
}

/// What is rolled out, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    rule(
        "!(has(oldSelf.state) && oldSelf.state == 'Initialize' && self.state == 'Stop')",
        "invalid state transition: cannot transition from Initialize to Stop",
    ),
    rule(
        "!(has(oldSelf.state) && oldSelf.state == 'Run' && self.state == 'Initialize')",
        "invalid state transition: cannot transition from Run to Initialize",
    ),
    rule(
        "!(has(oldSelf.state) && oldSelf.state == 'Stop' && self.state == 'Initialize')",
        "invalid state transition: cannot transition from Stop to Initialize",
    ),
]))]
pub struct UpdateRunSpec {
    /// The placement to update. Cannot be changed.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "placementName is immutable"),
    ]))]
    pub placement_name: String,
    /// The index of the resource snapshot to roll out. Absent for the latest when the run is initialized. Cannot be changed.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "resourceSnapshotIndex is immutable"),
    ]))]
    pub resource_snapshot_index: String,
    /// The update strategy to follow. Cannot be changed.
    #[schemars(extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "stagedRolloutStrategyName is immutable"),
    ]))]
    pub staged_rollout_strategy_name: String,
    /// What the run should be doing.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub state: UpdateRunState,
}

closed_enum! {
    /// What a run should be doing.
    UpdateRunState {
        /// Work out the stages and wait, so that they can be looked at.
        Initialize = "Initialize",
        /// Update the clusters.
        Run = "Run",
        /// Finish the clusters that are being updated, and start no more.
        Stop = "Stop",
    }
}

/// How far the run has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateRunStatus {
    /// The index of the policy snapshot by which the clusters were picked.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub policy_snapshot_index_used: String,
    /// How many clusters the policy had when the run was initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_observed_cluster_count: Option<i64>,
    /// The index of the resource snapshot that is rolled out.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub resource_snapshot_index_used: String,
    /// How objects are applied: the placement's apply strategy when the run was initialized.
    #[serde(rename = "appliedStrategy", default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// The update strategy as it was when the run was initialized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged_update_strategy_snapshot: Option<UpdateStrategySpec>,
    /// How far each stage has come.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub stages_status: Vec<StageStatus>,
    /// The last stage, which removes the placement from clusters that are no longer picked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_stage_status: Option<StageStatus>,
    /// The settings of the run that its annotations and those of its strategy made; absent without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<UpdateRunOptions>,
    /// The state of the run.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}

/// How far a stage has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageStatus {
    /// The name of the stage.
    pub stage_name: String,
    /// The clusters of the stage, in the order in which they are updated.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default)]
    pub clusters: Vec<ClusterUpdatingStatus>,
    /// The tasks before the stage.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 1))]
    pub before_stage_task_status: Vec<StageTaskStatus>,
    /// The tasks after the stage.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 2))]
    pub after_stage_task_status: Vec<StageTaskStatus>,
    /// When the stage started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the stage ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// The state of the stage.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}

/// How far the update of a cluster has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpdatingStatus {
    /// The cluster.
    pub cluster_name: String,
    /// The ResourceOverrides that apply on the cluster, as snapshots.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// The ClusterResourceOverrides that apply on the cluster, as snapshots.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// What the cluster had before, for runs that take back what they did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<PreviousContent>,
    /// The state of the update.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}

/// How far a task has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTaskStatus {
    /// What must happen.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// The approval request that asks for it.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub approval_request_name: String,
    /// The state of the task.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}
