//! Evictions: take a placement off one cluster, if the disruption budget allows it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, Crd, kind};
use crate::lenient;
use crate::schema::{self, rule};

kind! {
    /// Asks once to remove a placement from a cluster. The fleet may pick the cluster again: taint it first to keep the
    /// placement away.
    ClusterResourcePlacementEviction in super::GROUP, Cluster { spec: EvictionSpec, status: EvictionStatus }
    Crd::new("clusterresourceplacementevictions").short_names(&["crpe"]).columns(&[
        Column::string("Valid", r#".status.conditions[?(@.type=="Valid")].status"#),
        Column::string("Executed", r#".status.conditions[?(@.type=="Executed")].status"#),
    ]).with_v1();
}

/// What is removed from where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionSpec {
    /// The ClusterResourcePlacement to remove. Cannot be changed.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "The PlacementName field is immutable"),
    ]))]
    pub placement_name: String,
    /// The cluster to remove it from. Cannot be changed.
    #[schemars(length(max = 255), extend("x-kubernetes-validations" = [
        rule("self == oldSelf", "The ClusterName field is immutable"),
    ]))]
    pub cluster_name: String,
}

/// What became of the request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionStatus {
    /// Whether the request is Valid, and whether it was Executed.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionList")]
    pub conditions: Vec<Condition>,
    /// The binding that is deleted for this request, noted before it is: so the outcome is never lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<EvictionTarget>,
}

/// A binding that is deleted for an eviction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionTarget {
    /// The binding's name.
    pub name: String,
    /// Its UID: a binding made anew under the name is another one.
    pub uid: String,
    /// Why it may be deleted, in the words of the condition Executed.
    pub message: String,
}
