//! The part of the cluster inventory API (multicluster.x-k8s.io/v1alpha1) that the export writes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// `spec` of a ClusterProfile.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[kube(
    group = "multicluster.x-k8s.io",
    version = "v1alpha1",
    kind = "ClusterProfile",
    namespaced,
    status = "ClusterProfileStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterProfileSpec {
    /// For people.
    #[serde(default)]
    pub(crate) display_name: String,
    /// Who manages the cluster; cannot be changed.
    #[serde(default)]
    pub(crate) cluster_manager: ClusterManager,
}

/// A cluster manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterManager {
    /// Its name.
    pub(crate) name: String,
}

/// `status` of a ClusterProfile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterProfileStatus {
    /// Its conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<Version>,
    /// What the cluster says about itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) properties: Vec<Property>,
    /// How to reach it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) access_providers: Vec<AccessProvider>,
}

/// Versions of a cluster's parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Version {
    /// Of Kubernetes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kubernetes: Option<String>,
}

/// A property of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Property {
    /// Its name.
    pub(crate) name: String,
    /// Its value.
    pub(crate) value: String,
}

/// A way to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AccessProvider {
    /// Its name.
    pub(crate) name: String,
    /// Where the cluster is.
    #[serde(default)]
    pub(crate) cluster: Endpoint,
}

/// A cluster's API server, as kubeconfig files describe it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Endpoint {
    /// Its URL; required, also when it is not known.
    #[serde(default)]
    pub(crate) server: String,
    /// Its CA, base64 of PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate_authority_data: Option<String>,
}
