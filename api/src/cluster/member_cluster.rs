//! MemberCluster: a cluster's membership in the fleet.

use std::collections::BTreeMap;

use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::{AgentStatus, AgentType, PropertyValue, ResourceUsage};
use crate::kind::{Column, Crd, kind};
use crate::lenient::{self, field_default};
use crate::schema::{self, rule};
use crate::words::{closed_enum, open_enum};

kind! {
    /// A cluster that belongs to the fleet. Create one to let a cluster join, delete it to let the cluster leave.
    #[schemars(extend("x-kubernetes-validations" = [
        rule("size(self.metadata.name) < 64", "metadata.name max length is 63"),
    ]))]
    MemberCluster in super::GROUP, Cluster { spec: MemberClusterSpec, status: MemberClusterStatus }
    Crd::new("memberclusters")
        .short_names(&["cluster"])
        .columns(&[
            Column::string("Joined", r#".status.conditions[?(@.type=="Joined")].status"#),
            Column::AGE,
            Column::date(
                "Member-Agent-Last-Seen",
                r#".status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat"#,
            ),
            Column::string("Node-Count", r".status.properties.kubernetes-fleet\.io/node-count.value"),
            Column::string("Available-CPU", ".status.resourceUsage.available.cpu"),
            Column::string("Available-Memory", ".status.resourceUsage.available.memory"),
            Column::string("Allocatable-CPU", ".status.resourceUsage.allocatable.cpu").wide(),
            Column::string("Allocatable-Memory", ".status.resourceUsage.allocatable.memory").wide(),
        ])
        .with_v1();
}

field_default! { heartbeat_period: i32 = 60 }

/// The membership that is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterSpec {
    /// Who the member's agents are on the hub. Only this identity may read what is placed on the cluster and report
    /// for it.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub identity: Subject,
    /// How often the member's agents say that they are alive, in seconds.
    #[serde(
        default = "heartbeat_period::value",
        deserialize_with = "heartbeat_period::deserialize"
    )]
    #[schemars(range(min = 1, max = 600))]
    pub heartbeat_period_seconds: i32,
    /// Keeps placements off the cluster unless they tolerate every taint. What is already placed stays.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub taints: Vec<Taint>,
    /// What happens when this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_options: Option<DeleteOptions>,
}

/// Keeps placements that do not tolerate it off a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The taint's key, in the form of a label key.
    pub key: String,
    /// The taint's value, in the form of a label value.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub value: String,
    /// What the taint does to placements that do not tolerate it.
    pub effect: TaintEffect,
}

impl Taint {
    /// The taint that `kubectl fleet drain` sets and `uncordon` takes off, as KubeFleet's plugin calls it.
    pub fn cordon() -> Self {
        Self {
            key: "cordon-key".to_owned(),
            value: "cordon-value".to_owned(),
            effect: TaintEffect::NoSchedule,
        }
    }

    /// Whether it is that one, and nothing more: another of the same key is somebody else's, and stays.
    pub fn is_cordon(&self) -> bool {
        *self == Self::cordon()
    }
}

open_enum! {
    /// What a taint does to placements that do not tolerate it.
    TaintEffect {
        /// They are not newly placed on the cluster; what is already there stays.
        NoSchedule = "NoSchedule",
    }
}

/// What happens when a member cluster is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Whether the deletion is refused while multi-cluster networking still uses the cluster.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub validation_mode: DeleteValidationMode,
}

closed_enum! {
    /// Whether a deletion is checked first.
    DeleteValidationMode or Strict {
        /// The deletion is never refused.
        Skip = "Skip",
        /// The deletion is refused while something still depends on the cluster.
        Strict = "Strict",
    }
}

/// What is known about the member cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberClusterStatus {
    /// The state of the membership.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
    /// What the cluster says about itself, by the property's name. Placements can select and prefer clusters by these.
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

impl MemberClusterStatus {
    /// The entry of one agent.
    pub fn agent(&self, type_: &AgentType) -> Option<&AgentStatus> {
        self.agent_status.iter().find(|agent| agent.type_ == *type_)
    }
}
