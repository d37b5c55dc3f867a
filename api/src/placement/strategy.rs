//! How what is placed gets to the clusters, and how it leaves them.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::{self, field_default};
use crate::schema::rule;
use crate::words::{closed_enum, open_enum};

/// How changes are rolled out to the picked clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStrategy {
    /// Who rolls changes out. External cannot be changed back.
    #[serde(rename = "type", default, deserialize_with = "lenient::null_as_default")]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "!(self != 'External' && oldSelf == 'External')",
        "cannot change rollout strategy type from 'External' to other types",
    )]))]
    pub type_: RolloutStrategyType,
    /// Limits of a rolling update.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// How objects are applied on the clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// What happens on the clusters when the placement is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_strategy: Option<DeleteStrategy>,
    /// Whether the status that placed objects have on the clusters is reported back to the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "(self == null) || (self.type == 'Mirror' ? size(self.destination) != 0 : true)",
        "when reportBackStrategy.type is 'Mirror', a destination must be specified",
    )]))]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

impl RolloutStrategy {
    /// Whether what was placed stays on the clusters when the placement is deleted.
    pub fn abandons(&self) -> bool {
        let delete = self.delete_strategy.as_ref();
        delete.is_some_and(|delete| delete.propagation_policy == DeletePropagationPolicy::Abandon)
    }
}

closed_enum! {
    /// Who rolls changes out.
    RolloutStrategyType {
        /// The fleet, cluster by cluster within the limits of rollingUpdate.
        RollingUpdate = "RollingUpdate",
        /// Somebody else, for example by staged update runs.
        External = "External",
    }
}

field_default! { quarter: IntOrString = IntOrString::String("25%".into()) }
field_default! { unavailable_period: i64 = 60 }

/// Limits of a rolling update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many clusters, as a number or as a percentage of the picked ones (rounded up), may be unavailable at once
    /// because of the update.
    #[serde(default = "quarter::value", deserialize_with = "quarter::deserialize")]
    #[schemars(extend("pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub max_unavailable: IntOrString,
    /// How many clusters, as a number or as a percentage of the picked ones (rounded up), may have the resources beyond
    /// those that are picked. Only matters while clusters are exchanged with PickN.
    #[serde(default = "quarter::value", deserialize_with = "quarter::deserialize")]
    #[schemars(extend("pattern" = "^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub max_surge: IntOrString,
    /// How many seconds after it was applied an object counts as available if it is of a kind for which availability
    /// cannot be determined.
    #[serde(
        default = "unavailable_period::value",
        deserialize_with = "unavailable_period::deserialize"
    )]
    #[schemars(range(min = 0))]
    pub unavailable_period_seconds: i64,
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self {
            max_unavailable: quarter::value(),
            max_surge: quarter::value(),
            unavailable_period_seconds: unavailable_period::value(),
        }
    }
}

/// How objects are applied on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplyStrategy {
    /// By which mechanism objects are applied.
    #[serde(rename = "type", default, deserialize_with = "lenient::null_as_default")]
    pub type_: ApplyStrategyType,
    /// Which differences between hub and cluster count when they are compared.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub comparison_option: ComparisonOption,
    /// Whether an object is applied although somebody has changed it on the cluster.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub when_to_apply: WhenToApply,
    /// Whether an object that already exists on the cluster, and that the fleet did not create, is taken over.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub when_to_take_over: WhenToTakeOver,
    /// Details of server-side apply. Only with type ServerSideApply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply_config: Option<ServerSideApplyConfig>,
    /// Whether the fleet may own an object together with owners that others have set on the cluster.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub allow_co_ownership: bool,
}

open_enum! {
    /// By which mechanism objects are applied.
    ApplyStrategyType {
        /// A three-way merge with what was applied before.
        ClientSideApply = "ClientSideApply",
        /// Kubernetes' server-side apply.
        ServerSideApply = "ServerSideApply",
        /// None: nothing is applied, and only the differences are reported.
        ReportDiff = "ReportDiff",
    }
}

open_enum! {
    /// Which differences between hub and cluster count.
    ComparisonOption {
        /// Those in fields that the hub's object has.
        PartialComparison = "PartialComparison",
        /// All, also in fields that only the cluster's object has.
        FullComparison = "FullComparison",
    }
}

open_enum! {
    /// Whether an object is applied although somebody has changed it on the cluster.
    WhenToApply {
        /// Always; the change is overwritten.
        Always = "Always",
        /// Only while nobody has; otherwise the change is reported as drift.
        IfNotDrifted = "IfNotDrifted",
    }
}

open_enum! {
    /// Whether an existing object is taken over.
    WhenToTakeOver {
        /// Always.
        Always = "Always",
        /// Only if it is the same as on the hub; otherwise the differences are reported.
        IfNoDiff = "IfNoDiff",
        /// Never.
        Never = "Never",
    }
}

/// Details of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerSideApplyConfig {
    /// Whether to take fields from other field managers on conflict.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub force: bool,
}

/// What happens on the clusters when a placement is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteStrategy {
    /// What happens to the placed objects.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub propagation_policy: DeletePropagationPolicy,
}

closed_enum! {
    /// What happens to placed objects when their placement is deleted.
    DeletePropagationPolicy or Delete {
        /// They stay, and no longer belong to the fleet.
        Abandon = "Abandon",
        /// They are deleted too.
        Delete = "Delete",
    }
}

/// Whether the status that placed objects have on a cluster is reported back to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportBackStrategy {
    /// Whether status is reported back.
    #[serde(rename = "type", default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, extend("default" = ReportBackStrategyType::default().as_str()))]
    pub type_: ReportBackStrategyType,
    /// Where the status is written. Required with Mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<ReportBackDestination>,
}

open_enum! {
    /// Whether status is reported back.
    ReportBackStrategyType {
        /// It is not.
        Disabled = "Disabled",
        /// It is, as it is on the cluster.
        Mirror = "Mirror",
    }
}

open_enum! {
    /// Where a status that is reported back is written.
    ReportBackDestination {
        /// To the object on the hub. Only for placements on one cluster.
        OriginalResource = "OriginalResource",
        /// To the status of the Work object of the cluster.
        WorkAPI = "WorkAPI",
    }
}
