//! Overrides from rule to manifest.

use fleet_api::names::PlacementKey;
use serde_json::json;

use super::choose::{Candidates, Chosen, Lists, found_under};
use super::*;

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn cro(spec: Value) -> ClusterResourceOverrideSpec {
    serde_json::from_value(spec).unwrap()
}

fn ro(spec: Value) -> ResourceOverrideSpec {
    serde_json::from_value(spec).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "always called with a literal")]
fn everywhere(patches: Value) -> Value {
    json!({ "overrideRules": [{ "clusterSelector": { "clusterSelectorTerms": [] }, "jsonPatchOverrides": patches }] })
}

fn namespace_selector(name: &str) -> Value {
    json!([{ "group": "", "version": "v1", "kind": "Namespace", "name": name }])
}

fn web_selector() -> Value {
    json!([{ "group": "apps", "version": "v1", "kind": "Deployment", "name": "web" }])
}

fn web() -> RawJson {
    RawJson::from_text(
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"app"},"spec":{"replicas":1}}"#
            .into(),
    )
    .unwrap()
}

fn namespace() -> RawJson {
    RawJson::from(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "app" } }))
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of a lookup in discovery")]
fn is_cluster_scoped(object: &ObjectId) -> Option<bool> {
    Some(matches!(object.kind.as_str(), "Namespace" | "ClusterRole"))
}

fn rendered(overrides: &Overrides<'_>, manifest: &RawJson) -> Result<Rendered, String> {
    let object = ObjectId::of(manifest).unwrap();
    let cluster_scoped = is_cluster_scoped(&object) == Some(true);
    overrides
        .apply(&object, cluster_scoped, manifest)
        .map_err(|error| error.to_string())
}

#[test]
fn a_rule_without_selector_is_for_none_and_one_without_terms_for_all() {
    let labels = labels(&[("env", "prod")]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    for (selector, applies) in [
        (Value::Null, false),
        (json!({ "clusterSelectorTerms": [] }), true),
        (json!({ "clusterSelectorTerms": [{ "labelSelector": {} }] }), true),
        (json!({ "clusterSelectorTerms": [{}] }), false),
        (
            json!({ "clusterSelectorTerms": [{ "labelSelector": { "matchLabels": { "env": "test" } } }] }),
            false,
        ),
        (
            json!({ "clusterSelectorTerms": [
                { "labelSelector": { "matchLabels": { "env": "test" } } },
                { "labelSelector": { "matchLabels": { "env": "prod" } } },
            ] }),
            true,
        ),
    ] {
        let policy: OverridePolicy = serde_json::from_value(
            json!({ "overrideRules": [{ "clusterSelector": selector, "overrideType": "Delete" }] }),
        )
        .unwrap();
        assert_eq!(
            matching(&policy, &cluster).unwrap().len(),
            usize::from(applies),
            "{selector}"
        );
    }
}

#[test]
fn what_no_rule_is_about_stays_untouched() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let spec = cro(json!({ "clusterResourceSelectors": namespace_selector("other"), "policy": everywhere(json!([])) }));
    let overrides = Overrides::new(cluster, [("cro-0", &spec)], []).unwrap();
    assert_eq!(rendered(&overrides, &web()), Ok(Rendered::Untouched));
}

#[test]
fn an_override_of_a_namespace_is_one_of_everything_in_it() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let patch = json!([{ "op": "add", "path": "/metadata/labels", "value": { "on": "${MEMBER-CLUSTER-NAME}" } }]);
    let spec = cro(json!({ "clusterResourceSelectors": namespace_selector("app"), "policy": everywhere(patch) }));
    let overrides = Overrides::new(cluster, [("cro-0", &spec)], []).unwrap();
    for manifest in [namespace(), web()] {
        let Ok(Rendered::Patched(result)) = rendered(&overrides, &manifest) else {
            panic!("patched")
        };
        assert_eq!(result.to_value()["metadata"]["labels"]["on"], "c1");
    }
}

#[test]
fn the_namespaced_override_and_the_later_rule_win() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let replicas = |n| json!([{ "op": "replace", "path": "/spec/replicas", "value": n }]);
    let wide = cro(json!({ "clusterResourceSelectors": namespace_selector("app"), "policy": everywhere(replicas(5)) }));
    let narrow = ro(
        json!({ "resourceSelectors": web_selector(), "policy": { "overrideRules": [
        { "clusterSelector": { "clusterSelectorTerms": [] }, "jsonPatchOverrides": replicas(6) },
        { "clusterSelector": { "clusterSelectorTerms": [] }, "jsonPatchOverrides": replicas(7) },
    ] } }),
    );
    let overrides = Overrides::new(cluster, [("cro-0", &wide)], [("app", "ro-0", &narrow)]).unwrap();
    let Ok(Rendered::Patched(result)) = rendered(&overrides, &web()) else {
        panic!("patched")
    };
    assert_eq!(result.to_value()["spec"]["replicas"], 7);
    // In another namespace it is another object.
    let elsewhere = Overrides::new(cluster, [], [("other", "ro-0", &narrow)]).unwrap();
    assert_eq!(rendered(&elsewhere, &web()), Ok(Rendered::Untouched));
}

#[test]
fn what_is_deleted_is_not_patched_any_more() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let delete =
        json!({ "overrideRules": [{ "clusterSelector": { "clusterSelectorTerms": [] }, "overrideType": "Delete" }] });
    let wide = cro(json!({ "clusterResourceSelectors": namespace_selector("app"), "policy": delete }));
    let bad = json!([{ "op": "remove", "path": "/no/such/path" }]);
    let narrow = ro(json!({ "resourceSelectors": web_selector(), "policy": everywhere(bad) }));
    let overrides = Overrides::new(cluster, [("cro-0", &wide)], [("app", "ro-0", &narrow)]).unwrap();
    assert_eq!(rendered(&overrides, &web()), Ok(Rendered::Deleted));
}

#[test]
fn an_error_names_snapshot_and_object() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let patch = json!([{ "op": "add", "path": "/metadata/labels/x", "value": "y" }]);
    let wide =
        cro(json!({ "clusterResourceSelectors": namespace_selector("app"), "policy": everywhere(patch.clone()) }));
    let overrides = Overrides::new(cluster, [("cro-0", &wide)], []).unwrap();
    assert_eq!(
        rendered(&overrides, &namespace()).unwrap_err(),
        "ClusterResourceOverrideSnapshot \"cro-0\" failed to apply on Namespace \"app\": add operation does not apply: \
         doc is missing path: \"/metadata/labels/x\": missing value"
    );
    let narrow = ro(json!({ "resourceSelectors": web_selector(), "policy": everywhere(patch) }));
    let overrides = Overrides::new(cluster, [], [("app", "ro-0", &narrow)]).unwrap();
    assert_eq!(
        rendered(&overrides, &web()).unwrap_err(),
        "ResourceOverrideSnapshot \"ro-0\" failed to apply on Deployment \"web\" in namespace \"app\": add operation \
         does not apply: doc is missing path: \"/metadata/labels/x\": missing value"
    );
}

#[test]
fn an_absent_value_is_null() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let patch = json!([{ "op": "replace", "path": "/spec/replicas" }]);
    let narrow = ro(json!({ "resourceSelectors": web_selector(), "policy": everywhere(patch) }));
    let overrides = Overrides::new(cluster, [], [("app", "ro-0", &narrow)]).unwrap();
    let Ok(Rendered::Patched(result)) = rendered(&overrides, &web()) else {
        panic!("patched")
    };
    assert_eq!(result.to_value()["spec"]["replicas"], Value::Null);
}

#[test]
fn equal_clusters_are_one_class() {
    let (eu, us) = (labels(&[("region", "eu")]), labels(&[("region", "us")]));
    let patch = |value: &str| json!([{ "op": "add", "path": "/spec/paused", "value": value }]);
    let class = |spec: &ResourceOverrideSpec, name: &str, labels: &BTreeMap<String, String>| {
        Overrides::new(LabelledCluster { name, labels }, [], [("app", "ro-0", spec)])
            .unwrap()
            .class()
    };
    let plain = ro(json!({ "resourceSelectors": web_selector(), "policy": everywhere(patch("x")) }));
    assert_eq!(class(&plain, "a", &eu), class(&plain, "b", &us));
    let by_region = patch("${MEMBER-CLUSTER-LABEL-KEY-region}");
    let regional = ro(json!({ "resourceSelectors": web_selector(), "policy": everywhere(by_region) }));
    assert_eq!(class(&regional, "a", &eu), class(&regional, "b", &eu));
    assert_ne!(class(&regional, "a", &eu), class(&regional, "b", &us));
}

fn chosen(
    placement: &PlacementKey,
    cros: &[(&str, Value)],
    ros: &[(&str, &str, Value)],
    cluster: &LabelledCluster<'_>,
) -> Lists {
    let envelope = RawJson::from(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": { "name": "env", "namespace": "app" },
        "data": {
            "in": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "inner", "namespace": "app" } },
            "bad": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "stray", "namespace": "x" } },
            "broken": 1,
        },
    }));
    let candidates = Candidates::new([&namespace(), &web(), &envelope], &is_cluster_scoped);
    let cros: Vec<_> = cros.iter().map(|(name, spec)| (*name, cro(spec.clone()))).collect();
    let ros: Vec<_> = ros
        .iter()
        .map(|(ns, name, spec)| (*ns, *name, ro(spec.clone())))
        .collect();
    let chosen = Chosen::new(
        placement,
        &candidates,
        cros.iter().map(|(name, spec)| (*name, spec)),
        ros.iter().map(|(namespace, name, spec)| (*namespace, *name, spec)),
    );
    chosen.on(cluster).unwrap()
}

#[test]
fn whatever_overrides_can_be_about_is_found_under_something() {
    let envelope = |kind: &str, metadata: Value| {
        let inner = json!({
            "a": { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "inner", "namespace": "app" } },
            "b": { "apiVersion": "rbac/v1", "kind": "ClusterRole", "metadata": { "name": "inner" } },
        });
        let version = "placement.kubernetes-fleet.io/v1beta1";
        RawJson::from(json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "data": inner }))
    };
    let inside = envelope("ResourceEnvelope", json!({ "name": "env", "namespace": "app" }));
    let wide = envelope("ClusterResourceEnvelope", json!({ "name": "env" }));
    for resources in [vec![&namespace()], vec![&web()], vec![&inside], vec![&wide]] {
        let found = found_under(resources.clone());
        for known in [true, false] {
            let scoped = |object: &ObjectId| is_cluster_scoped(object).filter(|_| known);
            let candidates = Candidates::new(resources.clone(), &scoped);
            // An object without namespace of a kind that nobody knows is in none that an override could be about.
            let mut wide = candidates.cluster_wide().filter(|object| !object.name.is_empty());
            assert!(wide.all(|object| found.contains(object)), "{candidates:?} {found:?}");
            let mut narrow = candidates.namespaced().filter(|object| !object.namespace.is_empty());
            let under = |object: &ObjectId| found.contains(&ObjectId::of_namespace(&object.namespace));
            assert!(narrow.all(under), "{candidates:?} {found:?}");
        }
    }
    assert_eq!(found_under([&wide]).len(), 1, "only what belongs into it");
}

#[test]
fn overrides_are_chosen_by_reference_selector_and_cluster() {
    let labels = labels(&[("env", "prod")]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let crp = PlacementKey::new(None, "crp").unwrap();
    let rp = PlacementKey::new(Some("app"), "crp").unwrap();
    let patches = || everywhere(json!([{ "op": "remove", "path": "/x" }]));
    let wide = |reference: Value| json!({ "placement": reference, "clusterResourceSelectors": namespace_selector("app"), "policy": patches() });
    let narrow = |reference: Value, kind: &str, name: &str| {
        let group = if kind == "Deployment" { "apps" } else { "" };
        json!({
            "placement": reference,
            "resourceSelectors": [{ "group": group, "version": "v1", "kind": kind, "name": name }],
            "policy": patches(),
        })
    };
    let cros = [
        ("z-0", wide(Value::Null)),
        ("a-1", wide(json!({ "name": "crp" }))),
        ("m-0", wide(json!({ "name": "other" }))),
        (
            "n-0",
            json!({ "clusterResourceSelectors": namespace_selector("elsewhere"), "policy": patches() }),
        ),
    ];
    let ros = [
        (
            "app",
            "b-0",
            narrow(json!({ "name": "crp", "scope": "Namespaced" }), "Deployment", "web"),
        ),
        (
            "app",
            "a-0",
            narrow(json!({ "name": "crp", "scope": "Cluster" }), "ConfigMap", "inner"),
        ),
        ("x", "a-0", narrow(Value::Null, "ConfigMap", "stray")),
        ("app", "c-0", narrow(Value::Null, "Deployment", "web")),
    ];
    let names = |lists: &Lists| -> Vec<String> {
        let narrow = lists.namespaced.iter().map(|n| format!("{}/{}", n.namespace, n.name));
        lists.cluster_wide.iter().cloned().chain(narrow).collect()
    };
    assert_eq!(
        names(&chosen(&crp, &cros, &ros, &cluster)),
        ["a-1", "z-0", "app/a-0", "app/c-0"]
    );
    assert_eq!(
        names(&chosen(&rp, &cros, &ros, &cluster)),
        ["z-0", "app/b-0", "app/c-0"]
    );
}

#[test]
fn a_bad_rule_is_named() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let spec = cro(
        json!({ "clusterResourceSelectors": namespace_selector("app"), "policy": { "overrideRules": [{
        "clusterSelector": { "clusterSelectorTerms": [
            { "labelSelector": { "matchExpressions": [{ "key": "a", "operator": "Like" }] } },
        ] },
        "overrideType": "Delete",
    }] } }),
    );
    let error = Overrides::new(cluster, [("cro-0", &spec)], []).unwrap_err();
    assert_eq!(
        error.to_string(),
        "override snapshot cro-0: overrideRules[0] has an invalid label selector: \"Like\" is not a valid label \
         selector operator"
    );
}

#[test]
fn a_patch_makes_no_other_object() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let bind = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "me" },
    });
    for (patches, cause) in [
        (
            json!([{ "op": "replace", "path": "", "value": bind }]),
            "cannot override typeMeta fields",
        ),
        (
            json!([
                { "op": "replace", "path": "/kind", "value": "DaemonSet" },
                { "op": "replace", "path": "/spec/replicas", "value": 2 },
            ]),
            "cannot override typeMeta fields",
        ),
        (
            json!([{ "op": "replace", "path": "/metadata/namespace", "value": "kube-system" }]),
            "cannot override metadata fields except annotations and labels",
        ),
    ] {
        let narrow = ro(json!({ "resourceSelectors": web_selector(), "policy": everywhere(patches) }));
        let overrides = Overrides::new(cluster, [], [("app", "ro-0", &narrow)]).unwrap();
        let error = rendered(&overrides, &web()).unwrap_err();
        let begin = "ResourceOverrideSnapshot \"ro-0\" failed to apply on Deployment \"web\" in namespace \"app\": ";
        assert!(error.starts_with(&format!("{begin}{cause}")), "{error}");
    }
}

#[test]
fn where_rights_are_not_a_tenants_matter_no_tenant_patches_them() {
    let labels = labels(&[]);
    let cluster = LabelledCluster {
        name: "c1",
        labels: &labels,
    };
    let role = RawJson::from(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": { "name": "r", "namespace": "app" },
    }));
    let patch = || everywhere(json!([{ "op": "add", "path": "/rules", "value": [] }]));
    let selector = json!([{ "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "Role", "name": "r" }]);
    let wide = cro(json!({ "clusterResourceSelectors": namespace_selector("app"), "policy": patch() }));
    let narrow = ro(json!({ "resourceSelectors": selector, "policy": patch() }));
    for (overrides, rbac, applies) in [
        (
            Overrides::new(cluster, [], [("app", "ro-0", &narrow)]),
            Rbac::Allowed,
            true,
        ),
        (
            Overrides::new(cluster, [], [("app", "ro-0", &narrow)]),
            Rbac::Forbidden,
            false,
        ),
        (Overrides::new(cluster, [("cro-0", &wide)], []), Rbac::Forbidden, true),
    ] {
        let result = rendered(&overrides.unwrap().with(rbac), &role);
        assert_eq!(result.is_ok(), applies, "{result:?}");
    }
}
