//! What CustomResourceDefinitions and APIServices say about the kinds that the hub should serve.

use fleet_api::part_of;
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    kube_aggregator::pkg::apis::apiregistration::v1::APIService,
};
use kube::core::ObjectMeta;
use serde::{Deserialize, de::IgnoredAny};

use super::kinds::Gvk;

/// A CustomResourceDefinition, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Definition {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: DefinitionSpec,
    #[serde(default)]
    status: DefinitionStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct DefinitionSpec {
    group: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Clone, Debug, Deserialize)]
struct Names {
    kind: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Version {
    name: String,
    served: bool,
    #[serde(default)]
    subresources: Option<Subresources>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Subresources {
    #[serde(default)]
    status: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct DefinitionStatus {
    /// `null` at first.
    conditions: Option<Vec<DefinitionCondition>>,
}

/// A condition; a definition's may lack what others have.
#[derive(Clone, Debug, Deserialize)]
struct DefinitionCondition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl Definition {
    /// What the hub serves because of it, and whether with a status of its own.
    pub(super) fn kinds(&self) -> Vec<(Gvk, bool)> {
        let established =
            |condition: &DefinitionCondition| condition.type_ == "Established" && condition.status == "True";
        if self.metadata.deletion_timestamp.is_some() || !self.status.conditions.iter().flatten().any(established) {
            return Vec::new();
        }
        let DefinitionSpec { group, names, versions } = &self.spec;
        let served = versions.iter().filter(|version| version.served);
        served
            .map(|version| {
                let has_status = version
                    .subresources
                    .as_ref()
                    .is_some_and(|parts| parts.status.is_some());
                (Gvk::new(group, &version.name, &names.kind), has_status)
            })
            .collect()
    }
}

/// An APIService: whenever one changes, the hub may serve other kinds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Service {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    pub(super) spec: ServiceSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ServiceSpec {
    #[serde(default)]
    pub(super) group: String,
    /// Who serves it; nobody for what the API server serves itself.
    #[serde(default)]
    pub(super) service: Option<IgnoredAny>,
}

part_of!(Definition, CustomResourceDefinition, metadata);
part_of!(Service, APIService, metadata);
