//! Overrides: what is different about a placed object on some clusters.

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::ClusterSelector;
use super::selector::ResourceSelector;
use crate::kind::{Crd, kind};
use crate::lenient;
use crate::raw::{self, RawJson};
use crate::schema::{self, rule};
use crate::words::closed_enum;

kind! {
    /// Changes cluster-scoped objects, or whole namespaces, on some of the clusters that they are placed on.
    #[schemars(extend("x-kubernetes-validations" = [rule(
        "!has(self.spec.placement) || self.spec.placement.scope != 'Namespaced'",
        "clusterResourceOverride placement reference cannot be Namespaced scope",
    )]))]
    ClusterResourceOverride in super::GROUP, Cluster { spec: ClusterResourceOverrideSpec }
    Crd::new("clusterresourceoverrides").with_v1();
}

kind! {
    /// Changes objects of its namespace on some of the clusters that they are placed on.
    ResourceOverride in super::GROUP, Namespaced { spec: ResourceOverrideSpec }
    Crd::new("resourceoverrides").with_v1();
}

kind! {
    /// A ClusterResourceOverride frozen at one moment, so that changes to it are rolled out like any other. Written by the
    /// fleet, not by users.
    ClusterResourceOverrideSnapshot in super::GROUP, Cluster { spec: ClusterResourceOverrideSnapshotSpec }
    Crd::new("clusterresourceoverridesnapshots").with_v1();
}

kind! {
    /// A ResourceOverride frozen at one moment, so that changes to it are rolled out like any other. Written by the fleet,
    /// not by users.
    ResourceOverrideSnapshot in super::GROUP, Namespaced { spec: ResourceOverrideSnapshotSpec }
    Crd::new("resourceoverridesnapshots").with_v1();
}

/// CEL: an override cannot move from one placement to another.
const PLACEMENT_IS_IMMUTABLE: (&str, &str) = (
    "(has(oldSelf.placement) && has(self.placement) && oldSelf.placement == self.placement) || \
     (!has(oldSelf.placement) && !has(self.placement))",
    "The placement field is immutable",
);

/// What is changed, for which placement, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(PLACEMENT_IS_IMMUTABLE.0, PLACEMENT_IS_IMMUTABLE.1)]))]
pub struct ClusterResourceOverrideSpec {
    /// The placement whose objects are changed. Absent for every placement. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The objects that are changed, each by its name. A namespace stands for all that is in it.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(min = 1, max = 20))]
    pub cluster_resource_selectors: Vec<ResourceSelector>,
    /// How they are changed, and on which clusters.
    pub policy: OverridePolicy,
}

/// What is changed, for which placement, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [rule(PLACEMENT_IS_IMMUTABLE.0, PLACEMENT_IS_IMMUTABLE.1)]))]
pub struct ResourceOverrideSpec {
    /// The placement whose objects are changed. Absent for every placement. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<PlacementRef>,
    /// The objects that are changed.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(min = 1, max = 20))]
    pub resource_selectors: Vec<ResourceOverrideSelector>,
    /// How they are changed, and on which clusters.
    pub policy: OverridePolicy,
}

/// Names an object in the override's namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOverrideSelector {
    /// The API group of the object; "" for the core group.
    pub group: String,
    /// The API version of the object.
    pub version: String,
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
}

/// Names a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementRef {
    /// The name of the placement.
    pub name: String,
    /// Which of the two kinds of placement it is.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub scope: PlacementScope,
}

closed_enum! {
    /// A kind of placement.
    PlacementScope {
        /// A ClusterResourcePlacement.
        Cluster = "Cluster",
        /// A ResourcePlacement in the same namespace.
        Namespaced = "Namespaced",
    }
}

/// How objects are changed, and on which clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverridePolicy {
    /// The changes. On each cluster, all rules that select it apply, in this order.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    #[schemars(!default, length(min = 1, max = 20))]
    pub override_rules: Vec<OverrideRule>,
}

/// A change on some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideRule {
    /// The clusters on which the change is made, by their labels. Absent for none; without terms, for every cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,
    /// What the change is.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub override_type: OverrideType,
    /// The changes to the object's JSON, in this order. Required with JSONPatch.
    #[serde(
        rename = "jsonPatchOverrides",
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(min = 1, max = 20))]
    pub json_patch_overrides: Vec<JsonPatchOverride>,
}

closed_enum! {
    /// What a change is.
    OverrideType {
        /// Fields of the object are changed by jsonPatchOverrides.
        JsonPatch = "JSONPatch",
        /// The object is not placed on these clusters.
        Delete = "Delete",
    }
}

/// One operation of a JSON patch (RFC 6902).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JsonPatchOverride {
    /// What is done at path.
    pub op: JsonPatchOp,
    /// The field, as a JSON pointer (RFC 6901). apiVersion, kind and status cannot be changed, nor metadata other than
    /// labels and annotations.
    pub path: String,
    /// The new value. Not with remove. In strings, ${MEMBER-CLUSTER-NAME} stands for the cluster's name, and
    /// ${MEMBER-CLUSTER-LABEL-KEY-x} for its label x.
    #[serde(default, deserialize_with = "raw::present", skip_serializing_if = "Option::is_none")]
    pub value: Option<RawJson>,
}

closed_enum! {
    /// What is done at a path.
    JsonPatchOp {
        /// The value is added, or replaced if there is one; in a list it is inserted.
        Add = "add",
        /// The value, which must be there, is removed.
        Remove = "remove",
        /// The value, which must be there, is replaced.
        Replace = "replace",
    }
}

/// A ClusterResourceOverride's spec and its hash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterResourceOverrideSnapshotSpec {
    /// The spec of the override.
    pub override_spec: ClusterResourceOverrideSpec,
    /// The hash of the spec.
    #[schemars(with = "schema::Bytes")]
    pub override_hash: ByteString,
}

/// A ResourceOverride's spec and its hash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceOverrideSnapshotSpec {
    /// The spec of the override.
    pub override_spec: ResourceOverrideSpec,
    /// The hash of the spec.
    #[schemars(with = "schema::Bytes")]
    pub override_hash: ByteString,
}
