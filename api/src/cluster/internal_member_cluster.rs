//! InternalMemberCluster: the hub's and the member's private conversation about one membership.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::member_cluster::heartbeat_period;
use super::report::{AgentStatus, AgentType, PropertyValue, ResourceUsage};
use crate::kind::{Column, Crd, kind};
use crate::lenient;
use crate::schema;
use crate::words::open_enum;

kind! {
    /// One membership as the member's agents see it, in the namespace that the hub keeps for that member.
    ///
    /// The hub writes the spec from the MemberCluster of the same name; what the member reports is kept in the status.
    InternalMemberCluster in super::GROUP, Namespaced { spec: InternalMemberClusterSpec, status: InternalMemberClusterStatus }
    Crd::new("internalmemberclusters").short_names(&["imc"]).columns(&[Column::AGE]).with_v1();
}

open_enum! { any
    /// What the hub asks of a member cluster's agents.
    ClusterState {
        /// Belong to the fleet.
        Join = "Join",
        /// Leave the fleet.
        Leave = "Leave",
    }
}

/// What the hub asks of the member's agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalMemberClusterSpec {
    /// Whether the cluster should belong to the fleet.
    pub state: ClusterState,
    /// How often the member's agents say that they are alive, in seconds.
    #[serde(
        default = "heartbeat_period::value",
        deserialize_with = "heartbeat_period::deserialize"
    )]
    #[schemars(range(min = 1, max = 600))]
    pub heartbeat_period_seconds: i32,
}

impl Default for InternalMemberClusterSpec {
    fn default() -> Self {
        Self {
            state: ClusterState::default(),
            heartbeat_period_seconds: heartbeat_period::value(),
        }
    }
}

/// What the member's agents last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InternalMemberClusterStatus {
    /// The state of the cluster as a whole.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionList")]
    pub conditions: Vec<Condition>,
    /// What the cluster says about itself, by the property's name.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub properties: BTreeMap<String, PropertyValue>,
    /// The cluster's resources, as last observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_usage: Option<ResourceUsage>,
    /// The state of each agent on the member cluster.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub agent_status: Vec<AgentStatus>,
    /// The namespaces on the member cluster, each with the AppliedWork that owns it, or "" if none does.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub namespaces: BTreeMap<String, String>,
}

impl InternalMemberClusterStatus {
    /// The entry of one agent.
    pub fn agent(&self, type_: &AgentType) -> Option<&AgentStatus> {
        self.agent_status.iter().find(|agent| agent.type_ == *type_)
    }
}
