//! Why a placement's resource selectors are invalid.

use super::error_class::ErrorClass;

/// What is wrong with the selectors. A placement here is `namespace/name`, for a cluster-scoped one `/name`; a resource
/// is `<group>/<version>, Resource=<plural>`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are named in the messages")]
pub enum InvalidSelection {
    /// The hub does not know the kind.
    #[error(
        "invalid placement {placement}, failed to get GVR of the selector: no matches for kind \"{kind}\" in version \
         \"{version}\""
    )]
    UnknownKind {
        placement: String,
        kind: String,
        version: String,
    },
    /// A cluster-scoped placement selects a namespaced kind without naming its namespace.
    #[error(
        "invalid placement {placement}: cannot select namespace-scoped resource {resource} in a \
         clusterResourcePlacement"
    )]
    Namespaced { placement: String, resource: String },
    /// A namespaced placement selects a cluster-scoped kind.
    #[error("invalid placement {placement}: cannot select cluster-scoped resource {resource} in a resourcePlacement")]
    ClusterScoped { placement: String, resource: String },
    /// The namespace belongs to Kubernetes or to the fleet. Upstream's spelling; the name comes without a slash.
    #[error("invalid clusterRresourcePlacement {placement}: namespace {namespace} is not allowed to propagate")]
    ForbiddenNamespace { placement: String, namespace: String },
    /// The one namespace to select from is missing, terminating or forbidden. The name comes without a slash.
    #[error(
        "invalid clusterResourcePlacement {placement}: NamespaceWithResourceSelectors mode requires exactly one \
         namespace, but no namespaces were selected"
    )]
    NoNamespace { placement: String },
    /// A label selector that the schema lets through and that cannot be used.
    #[error("invalid placement {placement}: the label selector of kind {kind} is invalid: {error}")]
    LabelSelector {
        placement: String,
        kind: String,
        error: String,
    },
    /// Two selectors select the same object.
    #[error(
        "found duplicate resource {{Group:{group} Version:{version} Kind:{kind} Name:{name} Namespace:{namespace} \
         Envelope:<nil>}}"
    )]
    Duplicate {
        group: String,
        version: String,
        kind: String,
        name: String,
        namespace: String,
    },
}

impl InvalidSelection {
    /// The text with its class, as conditions show it.
    pub fn to_user_error(&self) -> String {
        ErrorClass::User.prefix(self)
    }
}

#[cfg(test)]
mod tests {
    use super::InvalidSelection as Invalid;

    #[test]
    fn words() {
        let placement = || "/my-crp".to_owned();
        let rows = [
            (
                Invalid::UnknownKind {
                    placement: placement(),
                    kind: "Foo".into(),
                    version: "g/v1".into(),
                },
                "invalid placement /my-crp, failed to get GVR of the selector: \
                 no matches for kind \"Foo\" in version \"g/v1\"",
            ),
            (
                Invalid::LabelSelector {
                    placement: placement(),
                    kind: "ConfigMap".into(),
                    error: "\"~\" is not a valid label key".into(),
                },
                "invalid placement /my-crp: the label selector of kind ConfigMap is invalid: \"~\" is not a valid label \
                 key",
            ),
            (
                Invalid::Namespaced {
                    placement: placement(),
                    resource: "/v1, Resource=configmaps".into(),
                },
                "invalid placement /my-crp: cannot select namespace-scoped resource /v1, Resource=configmaps in a \
                 clusterResourcePlacement",
            ),
            (
                Invalid::ClusterScoped {
                    placement: "app/rp".into(),
                    resource: "Namespace".into(),
                },
                "invalid placement app/rp: cannot select cluster-scoped resource Namespace in a resourcePlacement",
            ),
            (
                Invalid::ForbiddenNamespace {
                    placement: "my-crp".into(),
                    namespace: "kube-system".into(),
                },
                "invalid clusterRresourcePlacement my-crp: namespace kube-system is not allowed to propagate",
            ),
            (
                Invalid::NoNamespace {
                    placement: "my-crp".into(),
                },
                "invalid clusterResourcePlacement my-crp: NamespaceWithResourceSelectors mode requires exactly one \
                 namespace, but no namespaces were selected",
            ),
            (
                Invalid::Duplicate {
                    group: "apps".into(),
                    version: "v1".into(),
                    kind: "Deployment".into(),
                    name: "web".into(),
                    namespace: "app".into(),
                },
                "found duplicate resource \
                 {Group:apps Version:v1 Kind:Deployment Name:web Namespace:app Envelope:<nil>}",
            ),
        ];
        for (error, text) in rows {
            assert_eq!(error.to_string(), text);
        }
    }
}
