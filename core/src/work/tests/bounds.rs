//! What may come out of a namespace.

use super::*;

#[test]
fn nothing_of_a_namespaced_placement_leaves_its_namespace() {
    let object = |kind: &str, name: &str, namespace: Option<&str>| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": namespace } });
    let wrapped = |kind: &str, namespace: Option<&str>, inner: Value| {
        json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind,
            "metadata": { "name": "env", "namespace": namespace }, "data": { "x": inner },
        })
    };
    let rendered = |placement: Option<&str>, resource: &Value, rbac: Rbac| {
        let placement = PlacementKey::new(placement, "p").unwrap();
        let snapshot = snapshot("p-0-snapshot", "0", None, 1, std::slice::from_ref(resource));
        rendering_with(&placement, &[snapshot], rbac).map(drop)
    };
    let inside = config_map("a");
    for (placement, resource) in [
        (Some("app"), inside.clone()),
        (Some("app"), object("Thing", "a", Some("app"))),
        (Some("app"), envelope("env", &json!({ "x": inside.clone() }))),
        (None, object("ConfigMap", "a", Some("other"))),
        (None, object("ClusterRoleBinding", "a", None)),
        (
            None,
            wrapped("ClusterResourceEnvelope", None, object("Thing", "a", None)),
        ),
    ] {
        assert_eq!(rendered(placement, &resource, Rbac::Forbidden), Ok(()), "{resource}");
    }
    for resource in [
        object("ConfigMap", "a", Some("other")),
        object("ConfigMap", "a", None),
        object("Thing", "a", None),
        object("Namespace", "app", None),
        object("ClusterRoleBinding", "a", None),
        object("ClusterRoleBinding", "a", Some("app")),
        wrapped("ClusterResourceEnvelope", None, object("ClusterRoleBinding", "a", None)),
        // Of another namespace, in which it would be right.
        wrapped(
            "ResourceEnvelope",
            Some("other"),
            object("ConfigMap", "a", Some("other")),
        ),
    ] {
        let failure = rendered(Some("app"), &resource, Rbac::Allowed).unwrap_err();
        assert!(matches!(failure, WorkFailure::Outside { .. }), "{resource}: {failure}");
        assert_eq!(failure.recovery(), Recovery::Edit);
    }
    let failure = rendered(Some("app"), &object("ConfigMap", "a", Some("other")), Rbac::Allowed).unwrap_err();
    assert_eq!(
        failure.to_string(),
        "ConfigMap \"a\" in namespace \"other\" is not an object of namespace \"app\", and nothing that is placed by a \
         ResourcePlacement leaves its namespace"
    );
}

#[test]
fn rights_come_out_of_a_namespace_only_where_the_operator_allows_it() {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "a", "namespace": "app" },
    });
    let wrapped = envelope("env", &json!({ "x": role }));
    for (placement, resource, allowed) in [
        (Some("app"), &role, false),
        (Some("app"), &wrapped, false),
        (None, &wrapped, false),
        // An object of the hub: its API server has checked whoever wrote it.
        (None, &role, true),
    ] {
        let placement = PlacementKey::new(placement, "p").unwrap();
        let snapshot = || [snapshot("p-0-snapshot", "0", None, 1, std::slice::from_ref(resource))];
        assert!(rendering_with(&placement, &snapshot(), Rbac::Allowed).is_ok());
        let result = rendering_with(&placement, &snapshot(), Rbac::Forbidden);
        assert_eq!(result.is_ok(), allowed, "{result:?}");
    }
}
