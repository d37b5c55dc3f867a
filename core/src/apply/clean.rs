//! What of an object takes part in a comparison, and the hash made from it.

use fleet_api::annotations;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{canonical, json as read};

/// Annotations and labels whose key contains one of these take no part in comparisons.
const RESERVED_DOMAINS: [&str; 3] = ["kubernetes.io/", "k8s.io/", "kubernetes-fleet.io/"];

/// Metadata that the API server writes, or that says where the object is.
const SERVER_METADATA: [&str; 10] = [
    "name",
    "namespace",
    "generateName",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "selfLink",
    "uid",
    "creationTimestamp",
];

/// Annotations that a manifest must not carry to a member: bookkeeping of whoever wrote it.
const FOREIGN_RECORDS: [&str; 4] = [
    annotations::SPEC_HASH,
    annotations::LAST_APPLIED_CONFIGURATION,
    annotations::KUBECTL_LAST_APPLIED_CONFIGURATION,
    annotations::DEPLOYMENT_REVISION,
];

/// Which label and annotation keys a comparison leaves out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ReservedKeys {
    /// Every key that contains a reserved domain, as upstream, `app.kubernetes.io/name` included.
    #[default]
    Hidden,
    /// Only our own bookkeeping, so that drift in a user's `app.kubernetes.io/*` labels is seen.
    Compared,
}

/// `object` reduced to what a comparison looks at. Five metadata keys are always present.
pub fn clean(object: &Value, reserved: ReservedKeys) -> Value {
    let mut object = object.clone();
    let fields = read::object_mut(&mut object, &[]);
    fields.remove("status");
    let metadata = read::object_mut(&mut object, &["metadata"]);
    for key in SERVER_METADATA {
        metadata.remove(key);
    }
    for key in ["finalizers", "managedFields", "ownerReferences"] {
        metadata.insert(key.into(), json!([]));
    }
    for key in ["annotations", "labels"] {
        let mut kept = match metadata.remove(key) {
            Some(Value::Object(map)) => map,
            _ => Map::new(),
        };
        kept.retain(|key, _| !is_reserved(key, reserved));
        metadata.insert(key.into(), Value::Object(kept));
    }
    for template in [
        ["spec", "template"].as_slice(),
        &["spec", "jobTemplate", "spec", "template"],
    ] {
        let path: Vec<&str> = template.iter().copied().chain(["metadata"]).collect();
        if let Some(metadata) = read::existing_object_mut(&mut object, &path) {
            metadata.remove("creationTimestamp");
        }
    }
    object
}

fn is_reserved(key: &str, reserved: ReservedKeys) -> bool {
    match reserved {
        ReservedKeys::Hidden => RESERVED_DOMAINS.iter().any(|domain| key.contains(domain)),
        ReservedKeys::Compared => key.contains("kubernetes-fleet.io/") || FOREIGN_RECORDS.contains(&key),
    }
}

/// The `spec-hash` of a manifest: equal to upstream's, or objects that it wrote would look changed.
pub fn spec_hash(manifest: &Value) -> String {
    let digest = Sha256::digest(canonical::encode(&clean(manifest, ReservedKeys::Hidden)));
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        use std::fmt::Write;
        write!(hex, "{byte:02x}").expect("writing to a string cannot fail");
        hex
    })
}

/// Takes finalizers off a manifest. Whoever acts on them is on the cluster where they were set; on another one nobody might
/// ever take them off, and the object could never be deleted. Who needs one there puts it on there. A Namespace keeps
/// Kubernetes' own.
pub fn strip_finalizers(manifest: &mut Value) {
    if let Some(metadata) = read::existing_object_mut(manifest, &["metadata"]) {
        metadata.remove("finalizers");
    }
    let namespace = read::text(manifest, &["apiVersion"]) == "v1" && read::text(manifest, &["kind"]) == "Namespace";
    if namespace
        && let Some(spec) = read::existing_object_mut(manifest, &["spec"])
        && let Some(Value::Array(list)) = spec.get_mut("finalizers")
    {
        list.retain(|finalizer| finalizer == "kubernetes");
    }
}

/// `manifest` without what belongs to another cluster or another writer. Finalizers, node ports, cluster IPs and job
/// selectors stay: the hub has cleaned what it selected, and enveloped objects are taken as written.
pub fn sanitise(manifest: &Value) -> Value {
    let mut manifest = manifest.clone();
    read::object_mut(&mut manifest, &[]).remove("status");
    let metadata = read::object_mut(&mut manifest, &["metadata"]);
    for key in ["ownerReferences", "managedFields"].iter().chain(
        SERVER_METADATA
            .iter()
            .filter(|key| !matches!(**key, "name" | "namespace" | "generateName")),
    ) {
        metadata.remove(*key);
    }
    if let Some(Value::Object(map)) = metadata.get_mut("annotations") {
        map.retain(|key, _| !FOREIGN_RECORDS.contains(&key.as_str()));
        if map.is_empty() {
            metadata.remove("annotations");
        }
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_object_still_has_the_five_metadata_keys() {
        let cleaned = clean(&json!({"apiVersion": "v1", "kind": "ConfigMap"}), ReservedKeys::Hidden);
        assert_eq!(
            canonical::encode(&cleaned),
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{},"finalizers":[],"labels":{},"managedFields":[],"ownerReferences":[]}}"#
        );
    }

    #[test]
    fn cleaning_drops_what_the_server_writes_and_reserved_keys() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "app", "generateName": "w", "deletionTimestamp": "x",
                "deletionGracePeriodSeconds": 1, "generation": 2, "resourceVersion": "3", "selfLink": "l", "uid": "u",
                "creationTimestamp": null, "finalizers": ["a"], "managedFields": [{}], "ownerReferences": [{}],
                "labels": {"app": "web", "app.kubernetes.io/name": "web"},
                "annotations": {"kubernetes-fleet.io/spec-hash": "h", "team": "t", "x.k8s.io/y": "z"},
            },
            "spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"app.kubernetes.io/name": "web"}}}},
            "status": {"replicas": 1},
        });
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "finalizers": [], "managedFields": [], "ownerReferences": [],
                "labels": {"app": "web"}, "annotations": {"team": "t"},
            },
            "spec": {"template": {"metadata": {"labels": {"app.kubernetes.io/name": "web"}}}},
        });
        assert_eq!(clean(&object, ReservedKeys::Hidden), expected);
        let open = clean(&object, ReservedKeys::Compared);
        assert_eq!(
            open["metadata"]["labels"],
            json!({"app": "web", "app.kubernetes.io/name": "web"})
        );
        assert_eq!(open["metadata"]["annotations"], json!({"team": "t", "x.k8s.io/y": "z"}));
    }

    #[test]
    fn the_hash_ignores_reserved_labels_and_finalizers_and_nothing_else() {
        let base = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "<&>"}});
        let mut same = base.clone();
        same["metadata"] = json!({"name": "b", "finalizers": ["x"], "labels": {"app.kubernetes.io/name": "a"},
            "creationTimestamp": null});
        assert_eq!(spec_hash(&base), spec_hash(&same));
        let mut other = base.clone();
        other["data"]["k"] = json!("v");
        assert_ne!(spec_hash(&base), spec_hash(&other));
        assert_eq!(spec_hash(&base).len(), 64);
        // The text that is hashed, so that the figure can be made with any other tool.
        assert_eq!(
            canonical::encode(&clean(&base, ReservedKeys::Hidden)),
            r#"{"apiVersion":"v1","data":{"k":"\u003c\u0026\u003e"},"kind":"ConfigMap","metadata":{"annotations":{},"finalizers":[],"labels":{},"managedFields":[],"ownerReferences":[]}}"#
        );
        assert_eq!(
            spec_hash(&base),
            "4446bb1218c940c37cc571cb1d7f39a8def0af941af489b89132bf6ee662c5f4"
        );
    }

    #[test]
    fn no_finalizer_reaches_a_member_but_kubernetes_own() {
        let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "n", "finalizers": ["a"]}, "spec": {"finalizers": ["kubernetes", "b"]}});
        strip_finalizers(&mut namespace);
        let expected = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"},
            "spec": {"finalizers": ["kubernetes"]}});
        assert_eq!(namespace, expected);
        // What a custom kind calls finalizers is its own matter.
        let mut custom = json!({"apiVersion": "example.com/v1", "kind": "Namespace",
            "metadata": {"finalizers": ["a"]}, "spec": {"finalizers": ["b"]}});
        strip_finalizers(&mut custom);
        assert_eq!(custom["metadata"], json!({}));
        assert_eq!(custom["spec"], json!({"finalizers": ["b"]}));
        strip_finalizers(&mut json!([1]));
    }

    #[test]
    fn sanitising_keeps_what_the_user_wrote() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "s", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 4, "selfLink": "l",
                "creationTimestamp": null, "deletionTimestamp": "t", "deletionGracePeriodSeconds": 1,
                "managedFields": [{}], "ownerReferences": [{}], "finalizers": ["keep"],
                "annotations": {
                    "kubernetes-fleet.io/spec-hash": "h", "kubernetes-fleet.io/last-applied-configuration": "l",
                    "kubectl.kubernetes.io/last-applied-configuration": "k", "deployment.kubernetes.io/revision": "3",
                },
            },
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1, "nodePort": 30000}]},
            "status": {},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "namespace": "n", "finalizers": ["keep"]},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 1, "nodePort": 30000}]},
        });
        assert_eq!(sanitise(&manifest), expected);
    }
}
