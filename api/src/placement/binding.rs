//! Bindings: a placement's claim on one cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::{DiffedPlacement, DriftedPlacement, FailedPlacement, NamespacedName};
use super::strategy::ApplyStrategy;
use crate::kind::{Column, Crd, kind};
use crate::lenient;
use crate::schema;
use crate::words::open_enum;

const COLUMNS: &[Column] = &[
    Column::string(
        "WorkSynchronized",
        r#".status.conditions[?(@.type=="WorkSynchronized")].status"#,
    ),
    Column::string("ResourcesApplied", r#".status.conditions[?(@.type=="Applied")].status"#),
    Column::string(
        "ResourceAvailable",
        r#".status.conditions[?(@.type=="Available")].status"#,
    )
    .wide(),
    Column::AGE,
];

kind! {
    /// Binds a ClusterResourcePlacement to one cluster. Written by the fleet, not by users.
    ClusterResourceBinding in super::GROUP, Cluster { spec: BindingSpec, status: BindingStatus }
    Crd::new("clusterresourcebindings").short_names(&["crb"]).columns(COLUMNS).with_v1();
}

kind! {
    /// Binds a ResourcePlacement to one cluster. Written by the fleet, not by users.
    ResourceBinding in super::GROUP, Namespaced { spec: BindingSpec, status: BindingStatus }
    Crd::new("resourcebindings").short_names(&["rb"]).columns(COLUMNS);
}

/// What the cluster should have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSpec {
    /// How far the binding has come.
    pub state: BindingState,
    /// The resource snapshot that the cluster should have. Empty until the rollout reaches the cluster.
    pub resource_snapshot_name: String,
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
    /// The policy snapshot by which the cluster was picked.
    pub scheduling_policy_snapshot_name: String,
    /// The cluster.
    pub target_cluster: String,
    /// Why the cluster was picked.
    pub cluster_decision: ClusterDecision,
    /// How objects are applied on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
}

open_enum! { any
    /// How far a binding has come.
    BindingState {
        /// The cluster is picked; nothing is placed on it yet.
        Scheduled = "Scheduled",
        /// The cluster gets the resource snapshot.
        Bound = "Bound",
        /// The cluster is no longer picked; what is placed on it will be removed.
        Unscheduled = "Unscheduled",
    }
}

/// Whether a cluster was picked, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// The cluster.
    pub cluster_name: String,
    /// Whether it was picked.
    pub selected: bool,
    /// How it scored against others, where scores matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_score: Option<ClusterScore>,
    /// Why, for people.
    pub reason: String,
}

/// How a cluster scored. Spread counts first, affinity decides between equals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterScore {
    /// The sum of the weights of the preferred terms that it matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_score: Option<i32>,
    /// How much it helps to spread the placement: its topology spread score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_score: Option<i32>,
}

/// What the cluster has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingStatus {
    /// Objects that could not be applied or are not available, at most 100.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub failed_placements: Vec<FailedPlacement>,
    /// Objects that somebody has changed on the cluster, at most 100.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub drifted_placements: Vec<DriftedPlacement>,
    /// Objects that differ between hub and cluster, and that the fleet does not manage on the cluster, at most 100.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub diffed_placements: Vec<DiffedPlacement>,
    /// The state of the binding.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}
