//! Update strategies: in which stages a staged update goes through the clusters.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Crd, kind};
use crate::lenient::{self, field_default};
use crate::schema::{self, rule};
use crate::words::open_enum;

kind! {
    /// A reusable plan for staged updates of ClusterResourcePlacements.
    ClusterStagedUpdateStrategy in super::GROUP, Cluster { spec: UpdateStrategySpec }
    // It has no status, but the API has always had the subresource.
    Crd::new("clusterstagedupdatestrategies").short_names(&["csus"]).with_status().with_v1();
}

kind! {
    /// A reusable plan for staged updates of ResourcePlacements in its namespace.
    StagedUpdateStrategy in super::GROUP, Namespaced { spec: UpdateStrategySpec }
    Crd::new("stagedupdatestrategies").short_names(&["sus"]).with_v1();
}

/// The plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategySpec {
    /// The stages, one after the other. Every cluster of the placement must be in exactly one.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(max = 31))]
    pub stages: Vec<Stage>,
}

field_default! { max_concurrency: IntOrString = IntOrString::Int(1) }

/// CEL: an approval has no time to wait.
const APPROVAL_HAS_NO_WAIT: (&str, &str) = (
    "!self.exists(e, e.type == 'Approval' && has(e.waitTime))",
    "AfterStageTaskType is Approval, waitTime is not allowed",
);

/// Clusters that are updated together, and what must happen before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Stage {
    /// The name of the stage, in lower-case letters and digits.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]+$"))]
    pub name: String,
    /// The clusters of the stage. Absent for none, empty for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::LabelSelector>")]
    pub label_selector: Option<LabelSelector>,
    /// The label by whose value, a number, the clusters of the stage are updated, smallest first. Absent to go by their
    /// names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sorting_label_key: Option<String>,
    /// How many clusters of the stage are updated at once: a number, or a percentage of the stage's clusters (rounded down,
    /// at least 1).
    #[serde(
        default = "max_concurrency::value",
        deserialize_with = "max_concurrency::deserialize"
    )]
    #[schemars(extend(
        "pattern" = "^(100|[1-9][0-9]?)%$",
        "x-kubernetes-validations" = [rule(
            "self == null || type(self) != int || self >= 1",
            "maxConcurrency must be at least 1",
        )],
    ))]
    pub max_concurrency: IntOrString,
    /// What must happen before the stage starts.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 1), extend("x-kubernetes-validations" = [
        rule(APPROVAL_HAS_NO_WAIT.0, APPROVAL_HAS_NO_WAIT.1),
        rule("!self.exists(e, e.type == 'TimedWait')", "BeforeStageTaskType cannot be TimedWait"),
    ]))]
    pub before_stage_tasks: Vec<StageTask>,
    /// What must happen after the stage's clusters are updated, before the next stage starts.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 2), extend("x-kubernetes-validations" = [
        rule(APPROVAL_HAS_NO_WAIT.0, APPROVAL_HAS_NO_WAIT.1),
        rule(
            "!self.exists(e, e.type == 'TimedWait' && !has(e.waitTime))",
            "AfterStageTaskType is TimedWait, waitTime is required",
        ),
    ]))]
    pub after_stage_tasks: Vec<StageTask>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            name: String::new(),
            label_selector: None,
            sorting_label_key: None,
            max_concurrency: max_concurrency::value(),
            before_stage_tasks: Vec::new(),
            after_stage_tasks: Vec::new(),
        }
    }
}

/// Something that must happen between stages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTask {
    /// What must happen.
    #[serde(rename = "type")]
    pub type_: StageTaskType,
    /// How long to wait, such as 30m or 1h30m. Only with TimedWait, and required there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^(?:(?:0|[1-9][0-9]*)(\\.[0-9]+)?(?:s|m|h))+$"))]
    pub wait_time: Option<String>,
}

open_enum! {
    /// What must happen between stages.
    StageTaskType {
        /// Time passes.
        TimedWait = "TimedWait",
        /// Somebody approves, by the Approved condition of an approval request.
        Approval = "Approval",
    }
}
