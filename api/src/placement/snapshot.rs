//! Snapshots: what a placement selected, and the policy that it had, each frozen at one moment.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::binding::ClusterDecision;
use super::policy::PlacementPolicy;
use crate::kind::{Column, Crd, kind};
use crate::lenient;
use crate::raw::RawJson;
use crate::schema;

const COLUMNS: &[Column] = &[Column::GENERATION, Column::AGE];

kind! {
    /// What a ClusterResourcePlacement selected at one moment, or a part of it. Written by the fleet, not by users.
    ///
    /// A selection too large for one object is split over several with the same index.
    ClusterResourceSnapshot in super::GROUP, Cluster { spec: ResourceSnapshotSpec, status: ResourceSnapshotStatus }
    Crd::new("clusterresourcesnapshots").short_names(&["crs"]).columns(COLUMNS).with_v1();
}

kind! {
    /// What a ResourcePlacement selected at one moment, or a part of it. Written by the fleet, not by users.
    ///
    /// A selection too large for one object is split over several with the same index.
    ResourceSnapshot in super::GROUP, Namespaced { spec: ResourceSnapshotSpec, status: ResourceSnapshotStatus }
    Crd::new("resourcesnapshots").short_names(&["rs"]).columns(COLUMNS);
}

kind! {
    /// The policy that a ClusterResourcePlacement had at one moment, and which clusters it led to. Written by the fleet,
    /// not by users.
    ClusterSchedulingPolicySnapshot in super::GROUP, Cluster { spec: PolicySnapshotSpec, status: PolicySnapshotStatus }
    Crd::new("clusterschedulingpolicysnapshots").short_names(&["csps"]).columns(COLUMNS).with_v1();
}

kind! {
    /// The policy that a ResourcePlacement had at one moment, and which clusters it led to. Written by the fleet, not by
    /// users.
    SchedulingPolicySnapshot in super::GROUP, Namespaced { spec: PolicySnapshotSpec, status: PolicySnapshotStatus }
    Crd::new("schedulingpolicysnapshots").short_names(&["sps"]).columns(COLUMNS);
}

/// The selected objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshotSpec {
    /// The selected objects, without what only means something on the hub.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, with = "Vec<schema::EmbeddedResource>")]
    pub selected_resources: Vec<RawJson>,
}

/// The state of the snapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshotStatus {
    /// The state of the snapshot.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}

/// The policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshotSpec {
    /// The placement's policy. Absent if it had none. The number of clusters of PickN is an annotation instead, so that
    /// changing it alone makes no new snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PlacementPolicy>,
    /// The hash of the policy without the number of clusters.
    #[schemars(with = "schema::Bytes")]
    pub policy_hash: ByteString,
}

/// Which clusters the policy led to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySnapshotStatus {
    /// The generation of the placement that the scheduler has seen.
    #[serde(rename = "observedCRPGeneration")]
    pub observed_crp_generation: i64,
    /// The scheduler's decisions: the clusters that are picked, then some of those that are not.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 1000))]
    pub target_clusters: Vec<ClusterDecision>,
    /// The state of scheduling.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}
