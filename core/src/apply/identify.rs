//! Decoding manifests, naming their objects, finding duplicates.

use fleet_api::conditions::manifest::ApplyFailure;
use fleet_api::labels;
use fleet_api::placement::{EnvelopeType, WorkResourceIdentifier};
use fleet_api::raw::RawJson;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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

/// A kind as the member serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its plural.
    pub resource: String,
    /// Whether its objects have a namespace.
    pub namespaced: bool,
}

/// Decodes every manifest, in order. `served` finds (group, version, kind) in the member's discovery; `within` are the
/// namespaces that no manifest may leave ([`bounds`]).
pub fn decode(
    manifests: &[RawJson],
    within: &[&str],
    mut served: impl FnMut(&str, &str, &str) -> Result<Served, String>,
) -> Vec<Manifest> {
    let mut seen = BTreeSet::new();
    (0..)
        .zip(manifests)
        .map(|(ordinal, raw)| {
            let mut manifest = one(ordinal, raw, within, &mut served);
            let key = manifest.object.is_ok().then(|| ObjectKey::of(&manifest.id)).flatten();
            if key.is_some_and(|key| !seen.insert(key)) {
                manifest.object = Err(ApplyFailure::Duplicated);
            }
            manifest
        })
        .collect()
}

/// The namespaces that a Work's objects may not leave: a ResourcePlacement's, a ResourceEnvelope's. Only who may write
/// Works, which is the hub agent, could change these labels.
pub fn bounds(labels: &BTreeMap<String, String>) -> Vec<&str> {
    let label = |key| labels.get(key).map(String::as_str);
    let wrapped = label(labels::ENVELOPE_TYPE) == Some(EnvelopeType::ResourceEnvelope.as_str());
    let envelope = wrapped.then(|| label(labels::ENVELOPE_NAMESPACE).unwrap_or_default());
    label(labels::PARENT_PLACEMENT_NAMESPACE)
        .into_iter()
        .chain(envelope)
        .collect()
}

/// Why an object cannot be where its manifest says.
pub fn misplaced(id: &WorkResourceIdentifier, namespaced: bool, within: &[&str]) -> Option<ApplyFailure> {
    let kind = || id.kind.clone();
    // By discovery, never by the manifest: the API server takes a namespace off what has none, and makes it.
    match (namespaced, id.namespace.as_str()) {
        (true, "") => return Some(ApplyFailure::NamespaceMissing { kind: kind() }),
        (false, namespace) if !namespace.is_empty() => {
            let namespace = namespace.to_owned();
            return Some(ApplyFailure::NamespaceGiven {
                kind: kind(),
                namespace,
            });
        }
        _ => {}
    }
    let outside = within.iter().find(|namespace| **namespace != id.namespace);
    outside.map(|namespace| ApplyFailure::Outside {
        namespace: (*namespace).to_owned(),
    })
}

/// Whether a name or namespace is one part of a URL.
fn is_one_part(name: &str) -> bool {
    let odd = |c: char| matches!(c, '/' | '\\' | '%' | '?' | '#') || c.is_whitespace() || c.is_control();
    name != "." && name != ".." && !name.contains(odd)
}

fn one(
    ordinal: i64,
    raw: &RawJson,
    within: &[&str],
    served: &mut impl FnMut(&str, &str, &str) -> Result<Served, String>,
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
    let odd = [&id.name, &id.namespace].into_iter().find(|name| !is_one_part(name));
    if let Some(name) = odd.cloned() {
        return refused(id, ApplyFailure::BadName { name });
    }
    let kind = match served(group, version, kind) {
        Ok(kind) => kind,
        Err(error) => return refused(id, ApplyFailure::UnknownKind { error }),
    };
    id.resource = kind.resource;
    if let Some(failure) = misplaced(&id, kind.namespaced, within) {
        return refused(id, failure);
    }
    // Both present: the name counts. Neither: the API server says what it thinks of that.
    if id.name.is_empty() && !text(&object, &["metadata", "generateName"]).is_empty() {
        return refused(id, ApplyFailure::GenerateName);
    }
    Manifest { id, object: Ok(object) }
}

fn refused(id: WorkResourceIdentifier, failure: ApplyFailure) -> Manifest {
    Manifest {
        id,
        object: Err(failure),
    }
}

fn undecodable(id: WorkResourceIdentifier, error: &str) -> Manifest {
    let error = error.to_owned();
    refused(id, ApplyFailure::NotAnObject { error })
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

    fn discovery(group: &str, _: &str, kind: &str) -> Result<Served, String> {
        match (group, kind) {
            ("example.com", _) => Err(format!("no matches for kind {kind:?}")),
            _ => Ok(Served {
                resource: format!("{}s", kind.to_lowercase()),
                namespaced: !matches!(kind, "CustomResourceDefinition" | "ClusterRoleBinding"),
            }),
        }
    }

    fn decode_in(within: &[&str], manifests: &[Value]) -> Vec<Manifest> {
        let raw: Vec<_> = manifests.iter().map(RawJson::from).collect();
        decode(&raw, within, discovery)
    }

    fn decode_all(manifests: &[Value]) -> Vec<Manifest> {
        decode_in(&[], manifests)
    }

    #[test]
    fn good_and_bad_manifests_side_by_side() {
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "n"}});
        let found = decode_all(&[
            config.clone(),
            json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}}),
            json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "j-", "namespace": "n"}}),
            config,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "n", "generateName": "b-"}}),
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
    fn an_object_is_where_its_kind_and_its_work_say() {
        let manifest = |kind: &str, name: &str, namespace: Option<&str>| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}});
        let binding = |namespace| manifest("ClusterRoleBinding", "b", namespace);
        let map = |namespace| manifest("ConfigMap", "m", namespace);
        let given = ApplyFailure::NamespaceGiven {
            kind: "ClusterRoleBinding".into(),
            namespace: "app".into(),
        };
        let missing = ApplyFailure::NamespaceMissing {
            kind: "ConfigMap".into(),
        };
        let outside = || ApplyFailure::Outside {
            namespace: "app".into(),
        };
        let bad = |name: &str| ApplyFailure::BadName { name: name.into() };
        for (within, manifest, failure) in [
            (&[][..], map(Some("app")), None),
            (&[], binding(None), None),
            (&["app"], map(Some("app")), None),
            (&["app", "app"], map(Some("app")), None),
            (&[], binding(Some("app")), Some(given.clone())),
            (&["app"], binding(Some("app")), Some(given)),
            (&[], map(None), Some(missing)),
            (&["app"], binding(None), Some(outside())),
            (&["app"], map(Some("other")), Some(outside())),
            (&["other", "app"], map(Some("other")), Some(outside())),
            (
                &["app"],
                manifest("ConfigMap", "../../secrets/x", Some("app")),
                Some(bad("../../secrets/x")),
            ),
            (
                &["app"],
                manifest("ConfigMap", "x?force=true", Some("app")),
                Some(bad("x?force=true")),
            ),
            (
                &[],
                manifest("ConfigMap", "x", Some("app/../other")),
                Some(bad("app/../other")),
            ),
            (&[], manifest("ConfigMap", "..", Some("app")), Some(bad(".."))),
        ] {
            let found = decode_in(within, std::slice::from_ref(&manifest)).remove(0);
            assert_eq!(found.object.err(), failure, "{manifest} within {within:?}");
        }
    }

    #[test]
    fn a_work_says_which_namespaces_it_may_not_leave() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(own).collect()
        };
        let wrapped = (labels::ENVELOPE_TYPE, "ResourceEnvelope");
        for (pairs, within) in [
            (&[][..], &[][..]),
            (&[(labels::PARENT_PLACEMENT_NAMESPACE, "app")], &["app"]),
            (&[wrapped, (labels::ENVELOPE_NAMESPACE, "app")], &["app"]),
            (&[wrapped], &[""]),
            (&[(labels::ENVELOPE_TYPE, "ClusterResourceEnvelope")], &[]),
            (
                &[
                    (labels::PARENT_PLACEMENT_NAMESPACE, "app"),
                    wrapped,
                    (labels::ENVELOPE_NAMESPACE, "app"),
                ],
                &["app", "app"],
            ),
        ] {
            assert_eq!(bounds(&of(pairs)), within, "{pairs:?}");
        }
    }

    #[test]
    fn one_object_in_two_versions_is_a_duplicate() {
        let budget = |version: &str| json!({"apiVersion": format!("policy/{version}"), "kind": "PodDisruptionBudget", "metadata": {"name": "p", "namespace": "n"}});
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
