//! What an update run adds to upstream's: the settings that were read from annotations, and what clusters had before.
//!
//! All of it is optional and in the status, so that clients built from upstream's types may write whole objects back.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::NamespacedName;
use super::strategy::ApplyStrategy;
use crate::lenient;

/// The settings of a run, as its annotations and those of its strategy said when it was initialized. They are kept in the
/// words in which they were given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateRunOptions {
    /// What becomes of clusters that are in no stage.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub unassigned_clusters: String,
    /// The clusters that are in no stage of the strategy, all of them.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub unassigned: Vec<String>,
    /// What becomes of clusters that are not healthy at their turn.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub unhealthy_clusters: String,
    /// How many clusters may fail, as a number or a percentage of the plan's.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub max_failures: String,
    /// How long a cluster may take to become available before it has failed.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub cluster_deadline: String,
    /// How long a cluster must have been available before it has succeeded.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub min_success_time: String,
    /// What is done when more clusters have failed than may: Halt or Rollback.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub on_failure: String,
    /// When clusters may be started.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub window: String,
    /// The instant before which no cluster is started.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub not_before: String,
    /// Whether windows do not count for this run.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub ignore_windows: bool,
    /// What stages wait for besides their tasks.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub gates: Vec<Gate>,
    /// How long a cluster may take before the run says that it is stuck.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub stuck_threshold: String,
    /// The run whose clusters that did not succeed are tried again.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub retry_of: String,
    /// The hash of the plan that was approved.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub plan: String,
    /// How long after its end the run is deleted.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub ttl: String,
}

/// A condition of an object on the hub that a stage waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    /// The stage.
    pub stage: String,
    /// Before or after the stage's clusters.
    pub when: String,
    /// The object's API version, such as `batch/v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its namespace; empty for a cluster-scoped one.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// The condition that must be True.
    pub condition: String,
    /// The condition that stops the run when it is True.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub fail_on: String,
    /// When the run saw that the condition was True. From then on the object is not looked at again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed: Option<Time>,
}

/// What a cluster's binding named before a run started the cluster. Empty if it had nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviousContent {
    /// The master resource snapshot.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub resource_snapshot_name: String,
    /// The ResourceOverrides that applied, as snapshots.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_override_snapshots: Vec<NamespacedName>,
    /// The ClusterResourceOverrides that applied, as snapshots.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub cluster_resource_override_snapshots: Vec<String>,
    /// How objects were applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}
