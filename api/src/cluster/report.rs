//! What a member says about itself: the parts that InternalMemberCluster and MemberCluster statuses share.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient;
use crate::schema;
use crate::words::open_enum;

open_enum! { any
    /// An agent that runs on member clusters.
    AgentType {
        /// Applies what is placed on the cluster and reports on it.
        MemberAgent = "MemberAgent",
        /// Exports and imports services across clusters.
        ServiceExportImportAgent = "ServiceExportImportAgent",
        /// Routes traffic across clusters.
        MultiClusterServiceAgent = "MultiClusterServiceAgent",
    }
}

/// The state of one agent on the member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus {
    /// The agent that this entry is about.
    #[serde(rename = "type")]
    pub type_: AgentType,
    /// What the agent says about its own state.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
    /// When the hub last heard from the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_received_heartbeat: Option<Time>,
}

/// A property of a cluster, as last observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropertyValue {
    /// The value: a quantity for properties that placements compare or sort by, otherwise any text.
    pub value: String,
    /// When the value was observed.
    #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
    #[schemars(!default)]
    pub observation_time: Time,
}

/// How much of its resources a cluster has and has left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// What all nodes have together.
    #[serde(
        default,
        deserialize_with = "lenient::quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "schema::ResourceList")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What all nodes have for pods, after what the nodes themselves need.
    #[serde(
        default,
        deserialize_with = "lenient::quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "schema::ResourceList")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// What is left for further pods.
    #[serde(
        default,
        deserialize_with = "lenient::quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    #[schemars(with = "schema::ResourceList")]
    pub available: BTreeMap<String, Quantity>,
    /// When these amounts were observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observation_time: Option<Time>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_may_be_numbers() {
        let text = r#"{"capacity":{"cpu":4,"memory":"16Gi","x":0.5},"available":null}"#;
        let usage: ResourceUsage = serde_json::from_str(text).unwrap();
        let read: Vec<_> = usage
            .capacity
            .iter()
            .map(|(name, q)| (name.as_str(), q.0.as_str()))
            .collect();
        assert_eq!(read, [("cpu", "4"), ("memory", "16Gi"), ("x", "0.5")]);
        assert!(usage.available.is_empty());
    }
}
