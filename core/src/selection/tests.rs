//! Selectors against a small hub.

use fleet_api::names::{PlacementKey, Scope};
use fleet_api::placement::ResourceSelector;
use serde_json::{Value, json};

use super::apis::Apis;
use super::*;

#[derive(Default)]
struct ToyHub {
    objects: Vec<Object>,
    unsynced: Option<&'static str>,
    unknown: Option<&'static str>,
}

impl Hub for ToyHub {
    fn kind(&self, group: &str, _version: &str, kind: &str) -> Option<KindInfo> {
        let cluster_scoped = matches!(kind, "Namespace" | "ClusterRole");
        let known = cluster_scoped || self.namespaced_kinds().iter().any(|(g, _, k)| g == group && k == kind);
        let plural = format!("{}s", kind.to_lowercase());
        (known && self.unknown != Some(kind)).then(|| KindInfo {
            plural,
            cluster_scoped,
            synced: self.unsynced != Some(kind),
        })
    }

    fn objects(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Vec<&Object> {
        let of_kind = |o: &&Object| o.id.group == group && o.id.version == version && o.id.kind == kind;
        let objects = self.objects.iter().filter(of_kind);
        objects
            .filter(|o| namespace.is_none_or(|namespace| o.id.namespace == namespace))
            .collect()
    }

    fn namespaced_kinds(&self) -> Vec<(String, String, String)> {
        [
            ("", "v1", "ConfigMap"),
            ("", "v1", "Secret"),
            ("", "v1", "Service"),
            ("", "v1", "ServiceAccount"),
            ("", "v1", "Endpoints"),
            ("", "v1", "Pod"),
            ("", "v1", "PersistentVolumeClaim"),
            ("apps", "v1", "Deployment"),
            ("apps", "v1", "ReplicaSet"),
            ("discovery.k8s.io", "v1", "EndpointSlice"),
            ("example.com", "v1", "Widget"),
        ]
        .map(|(group, version, kind)| (group.to_owned(), version.to_owned(), kind.to_owned()))
        .into()
    }
}

fn object(path: &str) -> Object {
    let parts: Vec<_> = path.split('/').collect();
    let [group, kind, namespace, name] = parts[..] else {
        panic!("group/Kind/namespace/name")
    };
    let id = ObjectId {
        group: group.into(),
        version: "v1".into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    Object {
        id,
        ..Object::default()
    }
}

fn hub(paths: &[&str]) -> ToyHub {
    ToyHub {
        objects: paths.iter().map(|path| object(path)).collect(),
        unsynced: None,
        unknown: None,
    }
}

fn selectors(json: &Value) -> Vec<ResourceSelector> {
    serde_json::from_value(json.clone()).unwrap()
}

fn namespace(name: &str, scope: &str) -> Value {
    json!({ "group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope })
}

fn selected_by(placement: &PlacementKey, rules: &Rules, list: &Value, hub: &ToyHub) -> Result<Vec<String>, String> {
    let objects = select(placement, &selectors(list), rules, hub).map_err(|error| error.to_string())?;
    Ok(objects
        .into_iter()
        .map(|o| format!("{}/{}/{}", o.kind, o.namespace, o.name))
        .collect())
}

fn selected(list: &Value, hub: &ToyHub) -> Result<Vec<String>, String> {
    selected_by(&PlacementKey::new(None, "crp").unwrap(), &Rules::default(), list, hub)
}

#[test]
fn a_namespace_comes_with_its_contents_in_order_and_without_what_clusters_make_themselves() {
    let mut hub = hub(&[
        "apps/Deployment/app/web",
        "/Namespace//app",
        "example.com/Widget/app/w",
        "/ConfigMap/app/b",
        "/ConfigMap/app/a",
        "/ConfigMap/app/kube-root-ca.crt",
        "/ServiceAccount/app/default",
        "/ServiceAccount/app/own",
        "/Secret/app/token",
        "/Service/app/web",
        "/Endpoints/app/web",
        "/Endpoints/app/alone",
        "apps/ReplicaSet/app/owned",
        "apps/ReplicaSet/app/standalone",
        "discovery.k8s.io/EndpointSlice/app/managed",
        "/Pod/app/p",
        "/ConfigMap/app/dying",
        "/ConfigMap/other/elsewhere",
        "/PersistentVolumeClaim/app/claim",
    ]);
    for object in &mut hub.objects {
        match object.id.name.as_str() {
            "token" => object.secret_type = "kubernetes.io/service-account-token".into(),
            "owned" => object.owned = true,
            "managed" => {
                object
                    .labels
                    .insert("endpointslice.kubernetes.io/managed-by".into(), "x".into());
            }
            "dying" => object.deleting = true,
            _ => {}
        }
    }
    let list = json!([namespace("app", "NamespaceWithResources")]);
    let expected = [
        "Namespace//app",
        "ServiceAccount/app/own",
        "ConfigMap/app/a",
        "ConfigMap/app/b",
        "PersistentVolumeClaim/app/claim",
        "Service/app/web",
        "ReplicaSet/app/standalone",
        "Deployment/app/web",
        "Endpoints/app/alone",
        "Widget/app/w",
    ];
    assert_eq!(selected(&list, &hub).unwrap(), expected);
    let crp = PlacementKey::new(None, "crp").unwrap();
    let rules = Rules {
        workload_enabled: true,
        ..Rules::default()
    };
    assert!(
        !selected_by(&crp, &rules, &list, &hub)
            .unwrap()
            .contains(&"PersistentVolumeClaim/app/claim".to_owned())
    );
    // Only the object itself.
    assert_eq!(
        selected(&json!([namespace("app", "NamespaceOnly")]), &hub).unwrap(),
        ["Namespace//app"]
    );
}

#[test]
fn selectors_pick_by_name_by_label_or_all() {
    let mut hub = hub(&["rbac/ClusterRole//a", "rbac/ClusterRole//b", "rbac/ClusterRole//c"]);
    hub.objects[1].labels.insert("team".into(), "red".into());
    let role = |more: Value| {
        let mut selector = json!({ "group": "rbac", "version": "v1", "kind": "ClusterRole" });
        selector
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([selector])
    };
    for (selector, count) in [
        (role(json!({ "name": "a" })), 1),
        (role(json!({ "name": "missing" })), 0),
        (
            role(json!({ "labelSelector": { "matchLabels": { "team": "red" } } })),
            1,
        ),
        (role(json!({})), 3),
    ] {
        assert_eq!(selected(&selector, &hub).unwrap().len(), count, "{selector}");
    }
}

#[test]
fn a_namespace_with_selectors_takes_only_what_they_name() {
    let hub = hub(&[
        "/Namespace//prod",
        "apps/Deployment/prod/web",
        "/ConfigMap/prod/x",
        "apps/Deployment/other/web",
    ]);
    let deployments = json!({ "group": "apps", "version": "v1", "kind": "Deployment" });
    let inside = namespace("prod", "NamespaceWithResourceSelectors");
    let expected = ["Namespace//prod", "Deployment/prod/web"];
    assert_eq!(selected(&json!([deployments, inside]), &hub).unwrap(), expected);
    assert_eq!(selected(&json!([inside, deployments]), &hub).unwrap(), expected);
    assert_eq!(selected(&json!([inside]), &hub).unwrap(), ["Namespace//prod"]);
}

#[test]
fn bad_selectors_are_refused_with_the_known_words() {
    let mut hub = hub(&[
        "/Namespace//app",
        "/Namespace//kube-x",
        "/Namespace//ending",
        "/ConfigMap/app/a",
    ]);
    hub.objects[2].deleting = true;
    let none = "invalid clusterResourcePlacement crp: NamespaceWithResourceSelectors mode requires exactly one \
                namespace, but no namespaces were selected";
    let mut twice = namespace("app", "NamespaceOnly");
    twice["labelSelector"] = json!({});
    twice["name"] = json!("");
    for (list, error) in [
        (
            json!([{ "group": "g", "version": "v2", "kind": "Foo" }]),
            "invalid placement /crp, failed to get GVR of the selector: no matches for kind \"Foo\" in version \"g/v2\"",
        ),
        (
            json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "a" }]),
            "invalid placement /crp: cannot select namespace-scoped resource /v1, Resource=configmaps in a \
             clusterResourcePlacement",
        ),
        (
            json!([namespace("kube-x", "NamespaceWithResources")]),
            "invalid clusterRresourcePlacement crp: namespace kube-x is not allowed to propagate",
        ),
        (
            json!([namespace("", "NamespaceWithResources")]),
            "invalid clusterRresourcePlacement crp: namespace kube-x is not allowed to propagate",
        ),
        (
            json!([namespace("kube-x", "NamespaceOnly")]),
            "invalid clusterRresourcePlacement crp: namespace kube-x is not allowed to propagate",
        ),
        (json!([namespace("missing", "NamespaceWithResourceSelectors")]), none),
        (json!([namespace("ending", "NamespaceWithResourceSelectors")]), none),
        (json!([namespace("kube-x", "NamespaceWithResourceSelectors")]), none),
        (
            json!([namespace("app", "NamespaceOnly"), twice]),
            "found duplicate resource {Group: Version:v1 Kind:Namespace Name:app Namespace: Envelope:<nil>}",
        ),
    ] {
        assert_eq!(selected(&list, &hub).unwrap_err(), error, "{list}");
    }
    // All namespaces but the system's own.
    assert_eq!(
        selected(&json!([namespace("", "NamespaceOnly")]), &hub).unwrap(),
        ["Namespace//app"]
    );
    // Not there, or ending: nothing, and no error.
    assert!(
        selected(&json!([namespace("missing", "NamespaceWithResources")]), &hub)
            .unwrap()
            .is_empty()
    );
    assert!(
        selected(&json!([namespace("ending", "NamespaceWithResources")]), &hub)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_namespaced_placement_stays_in_its_namespace() {
    let rp = PlacementKey::new(Some("app"), "rp").unwrap();
    let hub = hub(&["/ConfigMap/app/a", "/ConfigMap/other/b", "rbac/ClusterRole//r"]);
    let by = |list: &Value| selected_by(&rp, &Rules::default(), list, &hub);
    assert_eq!(
        by(&json!([{ "group": "", "version": "v1", "kind": "ConfigMap" }])).unwrap(),
        ["ConfigMap/app/a"]
    );
    assert_eq!(
        by(&json!([{ "group": "rbac", "version": "v1", "kind": "ClusterRole" }])).unwrap_err(),
        "invalid placement app/rp: cannot select cluster-scoped resource rbac/v1, Resource=clusterroles in a \
         resourcePlacement"
    );
    assert_eq!(
        by(&json!([namespace("app", "NamespaceOnly")])).unwrap_err(),
        "invalid placement app/rp: cannot select cluster-scoped resource Namespace in a resourcePlacement"
    );
}

#[test]
fn kinds_that_cannot_be_placed_and_kinds_not_yet_known() {
    let mut hub = hub(&["/Namespace//app", "/Pod/app/p", "/ConfigMap/app/a"]);
    assert!(
        selected(&json!([{ "group": "", "version": "v1", "kind": "Pod" }]), &hub)
            .unwrap()
            .is_empty()
    );
    let crp = PlacementKey::new(None, "crp").unwrap();
    let rules = Rules {
        apis: Apis::new("", "v1/ConfigMap").unwrap(),
        ..Rules::default()
    };
    let list = json!([namespace("app", "NamespaceWithResources")]);
    assert!(selected_by(&crp, &rules, &list, &hub).unwrap().is_empty());
    hub.unsynced = Some("Secret");
    assert_eq!(
        selected(&list, &hub).unwrap_err(),
        "informer cache for /v1, Resource=secrets is not synced yet"
    );
}

#[test]
fn namespaces_that_are_not_listed_yet_are_not_taken_for_gone() {
    let mut hub = hub(&["/ConfigMap/app/a"]);
    hub.unsynced = Some("Namespace");
    let inside = json!({ "group": "", "version": "v1", "kind": "ConfigMap" });
    for list in [
        json!([namespace("app", "NamespaceWithResources")]),
        json!([namespace("app", "NamespaceOnly")]),
        json!([{ "group": "", "version": "v1", "kind": "Namespace", "labelSelector": {} }]),
        json!([namespace("app", "NamespaceWithResourceSelectors"), inside]),
    ] {
        assert_eq!(
            selected(&list, &hub).unwrap_err(),
            "informer cache for /v1, Resource=namespaces is not synced yet",
            "{list}"
        );
    }
}

#[test]
fn a_kind_that_nothing_is_known_of_is_not_left_out_of_a_namespace() {
    let mut hub = hub(&["/Namespace//app"]);
    hub.unknown = Some("Widget");
    assert_eq!(
        selected(&json!([namespace("app", "NamespaceWithResources")]), &hub).unwrap_err(),
        "informer cache for example.com/v1, Resource=widgets is not synced yet"
    );
}

#[test]
fn endpoints_wait_for_the_services_that_may_take_them() {
    let mut hub = hub(&["/Namespace//app", "/Endpoints/app/web"]);
    hub.unsynced = Some("Service");
    let list = json!([
        namespace("app", "NamespaceWithResourceSelectors"),
        { "group": "", "version": "v1", "kind": "Endpoints" },
    ]);
    assert_eq!(
        selected(&list, &hub).unwrap_err(),
        "informer cache for /v1, Resource=services is not synced yet"
    );
}

#[test]
fn a_changed_object_finds_its_placements() {
    let mut app = object("/Namespace//app");
    app.labels.insert("team".into(), "red".into());
    let inner = object("/ConfigMap/app/a");
    let by_label = selectors(&json!([
        { "group": "", "version": "v1", "kind": "Namespace", "labelSelector": { "matchLabels": { "team": "red" } } },
    ]));
    let only = selectors(&json!([namespace("app", "NamespaceOnly")]));
    // Another version of the kind than the watch speaks.
    let maps = selectors(&json!([{ "group": "", "version": "v2", "kind": "ConfigMap" }]));
    // A Service takes the Endpoints of its name, whatever its labels.
    let (endpoints, taking, other) = (
        selectors(&json!([{
            "group": "", "version": "v1", "kind": "Endpoints", "name": "web",
        }])),
        object("/Service/app/web"),
        object("/Service/app/other"),
    );
    for (scope, list, object, parent, expected) in [
        (Scope::Namespaced, &endpoints, &taking, Some(&app), true),
        (Scope::Namespaced, &endpoints, &other, Some(&app), false),
        (Scope::Cluster, &by_label, &app, None, true),
        (Scope::Cluster, &by_label, &inner, Some(&app), true),
        (Scope::Cluster, &by_label, &inner, None, false),
        (Scope::Cluster, &only, &inner, Some(&app), false),
        (Scope::Cluster, &only, &app, None, true),
        (Scope::Namespaced, &maps, &inner, Some(&app), true),
        (Scope::Namespaced, &only, &inner, Some(&app), false),
    ] {
        assert_eq!(touches(scope, list, object, parent), expected);
    }
}

#[test]
fn objects_are_stored_without_what_belongs_to_this_cluster() {
    let text = |value: Value| stored(value).as_str().to_owned();
    let object = json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {
            "name": "web", "namespace": "app", "uid": "1", "resourceVersion": "2", "generation": 3, "selfLink": "x",
            "creationTimestamp": "x", "deletionTimestamp": "y", "managedFields": [], "ownerReferences": [],
            "finalizers": ["keep"], "labels": { "a": "<b>" },
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "deployment.kubernetes.io/revision": "1",
            },
        },
        "spec": { "replicas": 1 }, "status": { "x": 1 },
    });
    assert_eq!(
        text(object),
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"finalizers":["keep"],"labels":{"a":"\u003cb\u003e"},"name":"web","namespace":"app"},"spec":{"replicas":1}}"#
    );
    let service = |ip: &str| {
        text(json!({ "apiVersion": "v1", "kind": "Service", "spec": {
            "clusterIP": ip, "clusterIPs": [ip], "healthCheckNodePort": 1, "ports": [{ "port": 80, "nodePort": 30000 }],
        } }))
    };
    assert_eq!(
        service("10.0.0.1"),
        r#"{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80}]}}"#
    );
    assert_eq!(
        service("None"),
        r#"{"apiVersion":"v1","kind":"Service","spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]}}"#
    );
    let job = |manual: bool| {
        text(json!({ "apiVersion": "batch/v1", "kind": "Job", "spec": {
            "manualSelector": manual,
            "selector": { "matchLabels": { "controller-uid": "1", "batch.kubernetes.io/controller-uid": "1", "a": "b" } },
            "template": { "metadata": { "creationTimestamp": null, "labels": { "controller-uid": "1", "a": "b" } } },
        } }))
    };
    assert_eq!(
        job(false),
        r#"{"apiVersion":"batch/v1","kind":"Job","spec":{"manualSelector":false,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}}}"#
    );
    assert!(job(true).contains("controller-uid"));
}

#[test]
fn known_kinds_come_first_and_versions_and_names_decide_the_rest() {
    let id = |group: &str, version: &str, kind: &str, namespace: &str, name: &str| ObjectId {
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    let sorted = [
        id("", "v1", "Namespace", "", "z"),
        id("", "v1", "Secret", "a", "b"),
        id("", "v1", "Secret", "a", "c"),
        id("", "v1", "Secret", "b", "a"),
        id("batch", "v1", "Job", "", "x"),
        id("batch", "v1beta1", "Job", "", "a"),
        id("", "v1", "Endpoints", "", "a"),
        id("a.example", "v1", "Widget", "", "a"),
        id("b.example", "v1", "Gadget", "", "a"),
    ];
    let mut shuffled = sorted.clone();
    shuffled.reverse();
    sort(&mut shuffled);
    assert_eq!(shuffled, sorted);
}
