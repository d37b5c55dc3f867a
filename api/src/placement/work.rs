//! Work: the objects that one member cluster should have, and how it goes with them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::status::PatchDetail;
use super::strategy::{ApplyStrategy, ReportBackStrategy};
use crate::kind::{Crd, kind};
use crate::lenient;
use crate::raw::RawJson;
use crate::schema;

kind! {
    /// Objects that one member cluster should have, in the namespace that the hub keeps for that member. Written by the
    /// fleet, not by users.
    Work in super::GROUP, Namespaced { default spec: WorkSpec, status: WorkStatus }
    Crd::new("works").with_v1();
}

/// What the member should have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkSpec {
    /// The objects.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Workload::is_empty"
    )]
    pub workload: Workload,
    /// How they are applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apply_strategy: Option<ApplyStrategy>,
    /// Whether the status that the objects have on the member is reported back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_back_strategy: Option<ReportBackStrategy>,
}

/// A list of objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// The objects, in the order that manifestConditions counts them.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Vec<schema::EmbeddedResource>")]
    pub manifests: Vec<RawJson>,
}

impl Workload {
    fn is_empty(&self) -> bool {
        self.manifests.is_empty()
    }
}

/// What the member has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkStatus {
    /// The state of all objects together.
    #[serde(default, deserialize_with = "lenient::conditions")]
    #[schemars(!default, with = "schema::ConditionList")]
    pub conditions: Vec<Condition>,
    /// The state of each object.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub manifest_conditions: Vec<ManifestCondition>,
}

/// The state of one object on the member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManifestCondition {
    /// The object.
    pub identifier: WorkResourceIdentifier,
    /// Its state.
    #[serde(default, deserialize_with = "lenient::conditions")]
    #[schemars(!default, with = "schema::ConditionList")]
    pub conditions: Vec<Condition>,
    /// What somebody has changed about it on the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_details: Option<DriftDetails>,
    /// How it differs from an object that was already on the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff_details: Option<DiffDetails>,
    /// The status that it has on the member, if that is reported back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back_reported_status: Option<BackReportedStatus>,
}

/// Names an object of a Work.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkResourceIdentifier {
    /// Its place in the list of manifests, from 0.
    pub ordinal: i64,
    /// Its API group; empty for the core group, or if the manifest cannot be read.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub group: String,
    /// Its API version; empty if the manifest cannot be read.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub version: String,
    /// Its kind; empty if the manifest cannot be read.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
    /// The plural name of its kind; empty if the member does not know the kind.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub resource: String,
    /// Its namespace; empty for a cluster-scoped object.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// Its name; empty if the manifest cannot be read.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
}

/// What somebody has changed about an object on the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftDetails {
    /// When the object was last looked at.
    #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
    #[schemars(!default)]
    pub observation_time: Time,
    /// The generation of the object on the member that was looked at.
    pub observed_in_member_cluster_generation: i64,
    /// When the drift was first seen.
    #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
    #[schemars(!default)]
    pub first_drifted_observed_time: Time,
    /// What was changed. If there is too much, only a part.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub observed_drifts: Vec<PatchDetail>,
}

/// How an object differs between hub and member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffDetails {
    /// When the object was last looked at.
    #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
    #[schemars(!default)]
    pub observation_time: Time,
    /// The generation of the object on the member that was looked at. Absent if there is no such object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_in_member_cluster_generation: Option<i64>,
    /// When a difference was first seen.
    #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
    #[schemars(!default)]
    pub first_diffed_observed_time: Time,
    /// What differs. If there is too much, only a part.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub observed_diffs: Vec<PatchDetail>,
}

/// The status of an object on the member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackReportedStatus {
    /// The object's apiVersion, kind, name and status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<schema::EmbeddedResource>")]
    pub observed_status: Option<RawJson>,
    /// When the status was looked at.
    #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
    #[schemars(!default)]
    pub observation_time: Time,
}
