//! AppliedWork: on a member cluster, the owner of what a Work brought there.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Crd, kind};
use crate::lenient;
use crate::placement::WorkResourceIdentifier;

kind! {
    /// On a member cluster, stands for one Work of the hub and owns what it brought. Deleting it removes all of that.
    AppliedWork in super::GROUP, Cluster { spec: AppliedWorkSpec, status: AppliedWorkStatus }
    Crd::new("appliedworks").with_v1();
}

/// The Work that this stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkSpec {
    /// The name of the Work on the hub.
    pub work_name: String,
    /// The namespace of the Work on the hub.
    pub work_namespace: String,
}

/// What the Work brought.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkStatus {
    /// The objects that were applied.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub applied_resources: Vec<AppliedResource>,
    /// What else may exist because of the Work, written down before it is made. Only the member agent reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<AppliedWorkInventory>,
}

/// The attempt that was last written down, and what may exist besides `appliedResources`.
///
/// The garbage collector reads the whole AppliedWork once for each object that it owns, so this is kept small: objects
/// are named once, by kind and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedWorkInventory {
    /// UID of the Work that was last attempted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub work_uid: String,
    /// Its generation.
    #[serde(default)]
    #[schemars(!default)]
    pub generation: i64,
    /// Digest of its spec, since a hub restored from a backup counts its generations again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub spec_digest: String,
    /// When it was first attempted, or looked at after the hub had recovered: the hub's past is told by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Time>,
    /// Objects that may exist and are not in `appliedResources`.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default)]
    pub objects: Vec<InventoryObjects>,
}

/// Objects of one kind in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryObjects {
    /// Their API group; empty for the core group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Their API version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Their kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The plural name of their kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Their namespace; empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Their names.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default)]
    pub names: Vec<String>,
}

/// An object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedResource {
    /// Which.
    #[serde(flatten)]
    pub id: WorkResourceIdentifier,
    /// Its UID on the member, so that a later object of the same name is not mistaken for it.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub uid: String,
}
