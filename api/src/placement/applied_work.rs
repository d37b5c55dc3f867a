//! AppliedWork: on a member cluster, the owner of what a Work brought there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kind::{Crd, kind};
use crate::lenient;

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
    /// Everything that may exist because of the Work, written down before it is made. Only the member agent reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inventory: Option<AppliedWorkInventory>,
}

/// What may exist because of a Work, and the attempt that was last written down.
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
    /// The objects.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub entries: Vec<InventoryEntry>,
}

/// An object that may exist because of a Work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InventoryEntry {
    /// The object.
    #[serde(flatten)]
    pub resource: AppliedResource,
    /// `Intended`: it may exist. `Owned`: it was applied or taken over.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
}

/// An object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedResource {
    /// Its place in the Work's list of manifests, from 0.
    pub ordinal: i64,
    /// Its API group; empty for the core group.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub group: String,
    /// Its API version.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub version: String,
    /// Its kind.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub kind: String,
    /// The plural name of its kind.
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
    /// Its name.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub name: String,
    /// Its UID on the member, so that a later object of the same name is not mistaken for it.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub uid: String,
}
