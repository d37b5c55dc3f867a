//! Approval requests: a run asks somebody to let it go on.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Column, Crd, kind};
use crate::lenient;
use crate::schema::{self, rule};

const COLUMNS: &[Column] = &[
    Column::string("Update-Run", ".spec.parentStageRollout"),
    Column::string("Stage", ".spec.targetStage"),
    Column::string("Approved", r#".status.conditions[?(@.type=="Approved")].status"#),
    Column::AGE,
];

kind! {
    /// Asks for approval of a stage of a ClusterStagedUpdateRun. Approve by setting the condition Approved to True with the
    /// request's generation.
    ClusterApprovalRequest in super::GROUP, Cluster { spec: ApprovalRequestSpec, status: ApprovalRequestStatus }
    Crd::new("clusterapprovalrequests").short_names(&["careq"]).columns(COLUMNS).with_v1();
}

kind! {
    /// Asks for approval of a stage of a StagedUpdateRun. Approve by setting the condition Approved to True with the
    /// request's generation.
    ApprovalRequest in super::GROUP, Namespaced { spec: ApprovalRequestSpec, status: ApprovalRequestStatus }
    Crd::new("approvalrequests").short_names(&["areq"]).columns(COLUMNS).with_v1();
}

/// What is to be approved. Cannot be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule("self == oldSelf", "The spec field is immutable")]))]
pub struct ApprovalRequestSpec {
    /// The update run that asks.
    pub parent_stage_rollout: String,
    /// The stage that it asks for.
    pub target_stage: String,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequestStatus {
    /// Approved is the answer, ApprovalAccepted what the run made of it.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
}
