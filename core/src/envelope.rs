//! Envelopes: objects that are placed without existing on the hub.

use std::collections::BTreeMap;

use fleet_api::placement::{EnvelopeType, GROUP};
use fleet_api::raw::RawJson;
use serde::Deserialize;

use crate::selection::{ClusterScoped, ObjectId};
use crate::text::quote;

/// The two kinds of envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EnvelopeKind {
    /// ClusterResourceEnvelope: cluster-scoped objects.
    Cluster,
    /// ResourceEnvelope: objects of its own namespace.
    Namespaced,
}

impl EnvelopeKind {
    /// The kind of envelope that `object` is, if it is one. Any version: what is stored was checked when it was created.
    pub fn of(object: &ObjectId) -> Option<Self> {
        match (object.group.as_str(), object.kind.as_str()) {
            (GROUP, "ClusterResourceEnvelope") => Some(Self::Cluster),
            (GROUP, "ResourceEnvelope") => Some(Self::Namespaced),
            _ => None,
        }
    }

    /// As labels and statuses name it.
    pub fn envelope_type(self) -> EnvelopeType {
        match self {
            Self::Cluster => EnvelopeType::ClusterResourceEnvelope,
            Self::Namespaced => EnvelopeType::ResourceEnvelope,
        }
    }
}

/// Why an envelope cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum BadEnvelope {
    /// Something inside is not an object.
    #[error(
        "failed to parse the wrapped manifest data to a Kubernetes runtime object (manifestKey={key},envelopeObjRef={envelope}): {cause}"
    )]
    NotAnObject {
        key: String,
        envelope: String,
        cause: String,
    },
    /// A namespaced object in a cluster-scoped envelope.
    #[error(
        "a namespaced object {key} ({namespace}/{name}) has been wrapped in a cluster resource envelope {envelope}"
    )]
    Namespaced {
        key: String,
        namespace: String,
        name: String,
        envelope: String,
    },
    /// A cluster-scoped object in a namespaced envelope.
    #[error("a cluster scope object {key} ({name}) has been wrapped in a resource envelope {envelope}")]
    ClusterScoped {
        key: String,
        name: String,
        envelope: String,
    },
    /// An object of another namespace. The stray "in" is upstream's.
    #[error(
        "a namespaced object {key} ({namespace}/{name}) in has been wrapped in a resource envelope from another namespace ({envelope})"
    )]
    OtherNamespace {
        key: String,
        namespace: String,
        name: String,
        envelope: String,
    },
}

impl BadEnvelope {
    /// Whether trying again could help without anybody's doing; upstream does so only for what it cannot parse.
    pub fn retry(&self) -> bool {
        matches!(self, Self::NotAnObject { .. })
    }
}

/// What is inside, by key, unchecked.
pub fn inner(envelope: &RawJson) -> Result<BTreeMap<String, RawJson>, String> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(default)]
        data: BTreeMap<String, RawJson>,
    }
    envelope
        .parse::<Envelope>()
        .map(|envelope| envelope.data)
        .map_err(|error| quote(&error.to_string()).into_owned())
}

/// `name` or `namespace/name` of an envelope, as messages name it.
pub fn reference(envelope: &ObjectId) -> String {
    if envelope.namespace.is_empty() {
        envelope.name.clone()
    } else {
        format!("{}/{}", envelope.namespace, envelope.name)
    }
}

/// The manifests inside, checked, in the order of their Work: descending by text, so that an unchanged set gives an
/// unchanged Work. The first violation in the order of keys is the one reported.
///
/// The scope of an object is what the hub's API says of its kind: a namespace can be written into anything. Of a kind that
/// the hub does not know it is what the namespace says, and the member has the last word.
pub fn open(
    kind: EnvelopeKind,
    envelope: &ObjectId,
    raw: &RawJson,
    cluster_scoped: ClusterScoped<'_>,
) -> Result<Vec<(ObjectId, RawJson)>, BadEnvelope> {
    let reference = reference(envelope);
    let broken = |key: &str, cause| BadEnvelope::NotAnObject {
        key: quote(key).into_owned(),
        envelope: reference.clone(),
        cause,
    };
    let mut manifests = Vec::new();
    for (key, manifest) in inner(raw).map_err(|cause| broken("", cause))? {
        let object = ObjectId::of(&manifest).map_err(|cause| broken(&key, cause))?;
        check(kind, envelope, &reference, &key, &object, cluster_scoped(&object))?;
        manifests.push((object, manifest));
    }
    manifests.sort_by(|(_, a), (_, b)| b.as_str().cmp(a.as_str()));
    Ok(manifests)
}

fn check(
    kind: EnvelopeKind,
    envelope: &ObjectId,
    reference: &str,
    key: &str,
    object: &ObjectId,
    cluster_scoped: Option<bool>,
) -> Result<(), BadEnvelope> {
    let short = |text: &str| quote(text).into_owned();
    let (key, namespace, name) = (short(key), short(&object.namespace), short(&object.name));
    let reference = reference.to_owned();
    match kind {
        EnvelopeKind::Cluster if !namespace.is_empty() || cluster_scoped == Some(false) => {
            Err(BadEnvelope::Namespaced {
                key,
                namespace,
                name,
                envelope: reference,
            })
        }
        EnvelopeKind::Namespaced if namespace.is_empty() || cluster_scoped == Some(true) => {
            Err(BadEnvelope::ClusterScoped {
                key,
                name,
                envelope: reference,
            })
        }
        EnvelopeKind::Namespaced if object.namespace != envelope.namespace => Err(BadEnvelope::OtherNamespace {
            key,
            namespace,
            name,
            envelope: reference,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of_kind(kind: &str, namespace: Option<&str>, name: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": namespace } })
    }

    /// Of a kind that the hub does not know.
    fn manifest(namespace: Option<&str>, name: &str) -> Value {
        of_kind("Thing", namespace, name)
    }

    fn cluster_scoped(object: &ObjectId) -> Option<bool> {
        match object.kind.as_str() {
            "ClusterRoleBinding" => Some(true),
            "ConfigMap" => Some(false),
            _ => None,
        }
    }

    fn opened(kind: &str, data: &Value) -> Result<Vec<String>, String> {
        let namespace = (kind == "ResourceEnvelope").then_some("app");
        let raw = RawJson::from(json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": kind,
            "metadata": { "name": "env", "namespace": namespace },
            "data": data,
        }));
        let object = ObjectId::of(&raw).unwrap();
        let kind = EnvelopeKind::of(&object).unwrap();
        let manifests = open(kind, &object, &raw, &cluster_scoped).map_err(|error| error.to_string())?;
        Ok(manifests.into_iter().map(|(object, _)| object.name).collect())
    }

    #[test]
    fn manifests_come_in_descending_order_of_their_text() {
        let data = json!({ "1": manifest(None, "a"), "2": manifest(None, "c"), "3": manifest(None, "b") });
        assert_eq!(opened("ClusterResourceEnvelope", &data).unwrap(), ["c", "b", "a"]);
    }

    #[test]
    fn misuse_is_refused_with_the_known_words() {
        for (kind, data, error) in [
            (
                "ClusterResourceEnvelope",
                json!({ "cm.yaml": manifest(Some("app"), "a") }),
                "a namespaced object cm.yaml (app/a) has been wrapped in a cluster resource envelope env",
            ),
            (
                "ResourceEnvelope",
                json!({ "cm.yaml": manifest(None, "a") }),
                "a cluster scope object cm.yaml (a) has been wrapped in a resource envelope app/env",
            ),
            // What is written into an object makes it neither namespaced nor cluster-scoped.
            (
                "ResourceEnvelope",
                json!({ "crb.yaml": of_kind("ClusterRoleBinding", Some("app"), "a") }),
                "a cluster scope object crb.yaml (a) has been wrapped in a resource envelope app/env",
            ),
            (
                "ResourceEnvelope",
                json!({ "crb.yaml": of_kind("ClusterRoleBinding", None, "a") }),
                "a cluster scope object crb.yaml (a) has been wrapped in a resource envelope app/env",
            ),
            (
                "ClusterResourceEnvelope",
                json!({ "cm.yaml": of_kind("ConfigMap", None, "a") }),
                "a namespaced object cm.yaml (/a) has been wrapped in a cluster resource envelope env",
            ),
            (
                "ResourceEnvelope",
                json!({ "cm.yaml": manifest(Some("other"), "a") }),
                "a namespaced object cm.yaml (other/a) in has been wrapped in a resource envelope from another \
                 namespace (app/env)",
            ),
            (
                "ResourceEnvelope",
                json!({ "b": manifest(None, "b"), "a": { "no": "kind" } }),
                "failed to parse the wrapped manifest data to a Kubernetes runtime object \
                 (manifestKey=a,envelopeObjRef=app/env): Object 'Kind' is missing in '{\"no\":\"kind\"}'",
            ),
        ] {
            assert_eq!(opened(kind, &data).unwrap_err(), error);
        }
    }
}
