//! Decoding manifests, naming their objects, finding duplicates.

use fleet_api::conditions::manifest::ApplyFailure;
use fleet_api::placement::WorkResourceIdentifier;
use fleet_api::raw::RawJson;
use serde_json::Value;
use std::collections::BTreeSet;

use super::json::{list, text};

/// One manifest of a Work, decoded as far as it goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// What is known of its identity. Without a failure it is complete.
    pub id: WorkResourceIdentifier,
    /// The object, or why it will not be looked at further.
    pub object: Result<Value, ApplyFailure>,
}

/// What makes two manifests the same object. The version is left out: an object has one identity in all versions of
/// its API, and a manifest that moves to a newer one must not look like a removal and an addition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// The key of the object that `id` names; none if it does not name one.
    pub fn of(id: &WorkResourceIdentifier) -> Option<Self> {
        let named = !id.kind.is_empty() && !id.name.is_empty();
        named.then(|| Self {
            group: id.group.clone(),
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        })
    }
}

/// The identity string under which hub and member match status entries.
pub fn identity(id: &WorkResourceIdentifier) -> Option<String> {
    let WorkResourceIdentifier {
        group,
        version,
        kind,
        namespace,
        name,
        ..
    } = id;
    let known = !group.is_empty() || !version.is_empty();
    known.then(|| format!("GV={group}/{version}, Kind={kind}, Namespace={namespace}, Name={name}"))
}

/// Decodes every manifest, in order. `resource_of` finds the plural of (group, version, kind) in the member's discovery.
pub fn decode(
    manifests: &[RawJson],
    mut resource_of: impl FnMut(&str, &str, &str) -> Result<String, String>,
) -> Vec<Manifest> {
    let mut seen = BTreeSet::new();
    (0..)
        .zip(manifests)
        .map(|(ordinal, raw)| {
            let mut manifest = one(ordinal, raw, &mut resource_of);
            let key = manifest.object.is_ok().then(|| ObjectKey::of(&manifest.id)).flatten();
            if key.is_some_and(|key| !seen.insert(key)) {
                manifest.object = Err(ApplyFailure::Duplicated);
            }
            manifest
        })
        .collect()
}

fn one(
    ordinal: i64,
    raw: &RawJson,
    resource_of: &mut impl FnMut(&str, &str, &str) -> Result<String, String>,
) -> Manifest {
    let nameless = WorkResourceIdentifier {
        ordinal,
        ..Default::default()
    };
    let object = match raw.parse::<Value>() {
        Ok(object @ Value::Object(_)) => object,
        Ok(_) => return undecodable(nameless, "the manifest is not an object"),
        Err(error) => return undecodable(nameless, &error.to_string()),
    };
    let (group, version) = group_version(text(&object, &["apiVersion"]));
    let kind = text(&object, &["kind"]);
    if kind.is_empty() {
        return undecodable(nameless, "Object 'Kind' is missing");
    }
    let mut id = WorkResourceIdentifier {
        ordinal,
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        resource: String::new(),
        namespace: text(&object, &["metadata", "namespace"]).to_owned(),
        name: text(&object, &["metadata", "name"]).to_owned(),
    };
    match resource_of(group, version, kind) {
        Ok(resource) => id.resource = resource,
        Err(error) => {
            return Manifest {
                id,
                object: Err(ApplyFailure::UnknownKind { error }),
            };
        }
    }
    // Both present: the name counts. Neither: the API server says what it thinks of that.
    if id.name.is_empty() && !text(&object, &["metadata", "generateName"]).is_empty() {
        return Manifest {
            id,
            object: Err(ApplyFailure::GenerateName),
        };
    }
    Manifest { id, object: Ok(object) }
}

fn undecodable(id: WorkResourceIdentifier, error: &str) -> Manifest {
    Manifest {
        id,
        object: Err(ApplyFailure::NotAnObject {
            error: error.to_owned(),
        }),
    }
}

/// Splits `apiVersion`.
pub(crate) fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Which manifests of an unknown kind are worth decoding again once the CRDs of this very Work are established, instead
/// of failing them for a round.
pub fn waiting_for_own_crds(manifests: &[Manifest]) -> Vec<usize> {
    let crds: Vec<&Value> = manifests
        .iter()
        .filter(|manifest| manifest.id.kind == "CustomResourceDefinition")
        .filter_map(|manifest| manifest.object.as_ref().ok())
        .collect();
    let defined = |id: &WorkResourceIdentifier| {
        crds.iter().any(|crd| {
            text(crd, &["spec", "group"]) == id.group
                && text(crd, &["spec", "names", "kind"]) == id.kind
                && list(crd, &["spec", "versions"])
                    .iter()
                    .any(|version| text(version, &["name"]) == id.version)
        })
    };
    let unknown = |manifest: &Manifest| matches!(manifest.object, Err(ApplyFailure::UnknownKind { .. }));
    (0..manifests.len())
        .filter(|i| unknown(&manifests[*i]) && defined(&manifests[*i].id))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn discovery(group: &str, _: &str, kind: &str) -> Result<String, String> {
        match (group, kind) {
            ("example.com", _) => Err(format!("no matches for kind {kind:?}")),
            _ => Ok(format!("{}s", kind.to_lowercase())),
        }
    }

    fn decode_all(manifests: &[Value]) -> Vec<Manifest> {
        decode(&manifests.iter().map(RawJson::from).collect::<Vec<_>>(), discovery)
    }

    #[test]
    fn good_and_bad_manifests_side_by_side() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
        let found = decode_all(&[
            config.clone(),
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "j-", "namespace": "n"}}),
            config,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "generateName": "b-"}}),
            json!([1]),
            json!({"apiVersion": "v1"}),
        ]);
        let failures: Vec<_> = found
            .iter()
            .map(|m| m.object.as_ref().err().map(ApplyFailure::reason))
            .collect();
        let expected = [
            None,
            Some("DecodingErred"),
            Some("FoundGenerateName"),
            Some("Duplicated"),
            None,
            Some("DecodingErred"),
            Some("DecodingErred"),
        ];
        assert_eq!(failures, expected);
        assert_eq!(
            found[1].object.as_ref().unwrap_err().to_string(),
            "failed to decode manifest: failed to find GVR from member cluster client REST mapping: \
             no matches for kind \"Gadget\""
        );
        assert_eq!(found[1].id.resource, "");
        assert_eq!(found[1].id.name, "g");
        assert_eq!(found[2].id.resource, "jobs");
        assert_eq!(
            found[5].id,
            WorkResourceIdentifier {
                ordinal: 5,
                ..Default::default()
            }
        );
        assert_eq!(
            identity(&found[0].id).unwrap(),
            "GV=/v1, Kind=ConfigMap, Namespace=n, Name=a"
        );
        assert_eq!(identity(&found[5].id), None);
    }

    #[test]
    fn one_object_in_two_versions_is_a_duplicate() {
        let budget = |version: &str| json!({"apiVersion": format!("policy/{version}"), "kind": "PodDisruptionBudget", "metadata": {"name": "p"}});
        let found = decode_all(&[budget("v1beta1"), budget("v1")]);
        assert_eq!(found[1].object, Err(ApplyFailure::Duplicated));
    }

    #[test]
    fn a_resource_waits_for_the_crd_beside_it() {
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "g"},
            "spec": {"group": "example.com", "names": {"kind": "Gadget"}, "versions": [{"name": "v1"}]},
        });
        let cr = |version: &str| json!({"apiVersion": format!("example.com/{version}"), "kind": "Gadget", "metadata": {"name": version}});
        assert_eq!(waiting_for_own_crds(&decode_all(&[crd, cr("v1"), cr("v2")])), [1]);
        assert!(waiting_for_own_crds(&decode_all(&[cr("v1")])).is_empty());
    }
}
