//! What became of a placement, on the whole and on each cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::lenient;
use crate::schema;
use crate::words::open_enum;

/// What became of the placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementStatus {
    /// The objects that are selected at observedResourceIndex.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub selected_resources: Vec<ResourceIdentifier>,
    /// The index of the resource snapshot that this status speaks of.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub observed_resource_index: String,
    /// What became of the placement on each cluster that is picked, and why others are not picked.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub placement_statuses: Vec<PerClusterPlacementStatus>,
    /// The state of the placement as a whole.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionMap")]
    pub conditions: Vec<Condition>,
    /// What another version has put there. The status is replaced as a whole, so this is carried along.
    #[serde(flatten)]
    #[schemars(skip)]
    pub other: BTreeMap<String, Value>,
}

/// What became of the placement on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PerClusterPlacementStatus {
    /// The cluster. Empty when this entry stands for a cluster that could not be found.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub cluster_name: String,
    /// The index of the resource snapshot that the cluster has or is getting.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub observed_resource_index: String,
    /// The ResourceOverrides that apply on the cluster.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub applicable_resource_overrides: Vec<NamespacedName>,
    /// The ClusterResourceOverrides that apply on the cluster.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub applicable_cluster_resource_overrides: Vec<String>,
    /// Objects that could not be applied or are not available, at most 100.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub failed_placements: Vec<FailedPlacement>,
    /// Objects that somebody has changed on the cluster, at most 100.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub drifted_placements: Vec<DriftedPlacement>,
    /// Objects that differ between hub and cluster, and that the fleet does not manage on the cluster, at most 100.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(max = 100))]
    pub diffed_placements: Vec<DiffedPlacement>,
    /// The state of the placement on this cluster.
    #[serde(
        default,
        deserialize_with = "lenient::conditions",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "schema::ConditionList")]
    pub conditions: Vec<Condition>,
}

/// Names one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceIdentifier {
    /// The API group; empty for the core group.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; empty for a cluster-scoped object.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// The envelope that the object was wrapped in on the hub, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<EnvelopeIdentifier>,
}

/// Names an envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvelopeIdentifier {
    /// The name of the envelope.
    pub name: String,
    /// The namespace of the envelope; empty for a cluster-scoped one.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub namespace: String,
    /// The kind of the envelope.
    #[serde(rename = "type", default, deserialize_with = "lenient::null_as_default")]
    pub type_: EnvelopeType,
}

open_enum! {
    /// The kind of an envelope.
    EnvelopeType {
        /// A ConfigMap, as in older versions.
        ConfigMap = "ConfigMap",
        /// A ClusterResourceEnvelope, for cluster-scoped objects.
        ClusterResourceEnvelope = "ClusterResourceEnvelope",
        /// A ResourceEnvelope, for objects of its namespace.
        ResourceEnvelope = "ResourceEnvelope",
    }
}

/// Names a namespaced object of a known kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacedName {
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
}

/// A placed object, with something to say about it: the three kinds of trouble name their object in the same way, but
/// not with `#[serde(flatten)]`, which is slow and would hide the fields from the schema's order.
macro_rules! about_resource {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// The API group of the object; empty for the core group.
            #[serde(default, deserialize_with = "lenient::null_as_default", skip_serializing_if = "String::is_empty")]
            pub group: String,
            /// The API version of the object.
            pub version: String,
            /// The kind of the object.
            pub kind: String,
            /// The name of the object.
            pub name: String,
            /// The namespace of the object; empty for a cluster-scoped one.
            #[serde(default, deserialize_with = "lenient::null_as_default", skip_serializing_if = "String::is_empty")]
            pub namespace: String,
            /// The envelope that the object was wrapped in on the hub, if it was.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub envelope: Option<EnvelopeIdentifier>,
            $($(#[$field_meta])* pub $field: $type,)+
        }

        impl $name {
            /// The object that this is about.
            pub fn resource(&self) -> ResourceIdentifier {
                ResourceIdentifier {
                    group: self.group.clone(),
                    version: self.version.clone(),
                    kind: self.kind.clone(),
                    name: self.name.clone(),
                    namespace: self.namespace.clone(),
                    envelope: self.envelope.clone(),
                }
            }

            /// An entry about `resource`.
            pub fn new(resource: ResourceIdentifier, $($field: $type),+) -> Self {
                let ResourceIdentifier { group, version, kind, name, namespace, envelope } = resource;
                Self { group, version, kind, name, namespace, envelope, $($field),+ }
            }
        }
    };
}

about_resource! {
    /// An object that could not be applied or is not available.
    FailedPlacement {
        /// What is wrong: the condition of the object that is not True.
        #[serde(deserialize_with = "lenient::condition")]
        #[schemars(with = "schema::Condition")]
        pub condition: Condition,
    }
}

about_resource! {
    /// An object that somebody has changed on the cluster.
    DriftedPlacement {
        /// When the object was last looked at.
        #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
        #[schemars(!default)]
        pub observation_time: Time,
        /// The generation of the object on the cluster that was looked at.
        pub target_cluster_observed_generation: i64,
        /// When the drift was first seen.
        #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
        #[schemars(!default)]
        pub first_drifted_observed_time: Time,
        /// What was changed. If there is too much, only a part.
        #[serde(default, deserialize_with = "lenient::null_as_default", skip_serializing_if = "Vec::is_empty")]
        pub observed_drifts: Vec<PatchDetail>,
    }
}

about_resource! {
    /// An object that differs between hub and cluster.
    DiffedPlacement {
        /// When the object was last looked at.
        #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
        #[schemars(!default)]
        pub observation_time: Time,
        /// The generation of the object on the cluster that was looked at. Absent if there is no such object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub target_cluster_observed_generation: Option<i64>,
        /// When a difference was first seen.
        #[serde(default = "lenient::epoch", deserialize_with = "lenient::time")]
        #[schemars(!default)]
        pub first_diffed_observed_time: Time,
        /// What differs. If there is too much, only a part.
        #[serde(default, deserialize_with = "lenient::null_as_default", skip_serializing_if = "Vec::is_empty")]
        pub observed_diffs: Vec<PatchDetail>,
    }
}

/// A field that differs between hub and cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDetail {
    /// The field, as a JSON pointer.
    pub path: String,
    /// Its value on the cluster. Absent if it has none.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub value_in_member: String,
    /// Its value on the hub. Absent if it has none.
    #[serde(
        default,
        deserialize_with = "lenient::null_as_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub value_in_hub: String,
}
