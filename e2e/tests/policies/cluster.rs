//! Namespaces and CustomResourceDefinitions.

use serde_json::{Value, json};

use super::asking::Row;
use super::people::{ACCOUNT, ADMINS, DEV, JOINER, NODE, OPERATORS};

const NAMESPACES: &str = "/api/v1/namespaces";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

fn label() -> Value {
    json!({ "metadata": { "labels": { "a": "b" } } })
}

fn crd(group: &str) -> Value {
    let version =
        json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } } });
    let names = json!({ "kind": "Thing", "plural": "things" });
    json!({
        "metadata": { "name": format!("things.{group}"), "annotations": { "api-approved.kubernetes.io": "unapproved" } },
        "spec": { "group": group, "scope": "Cluster", "names": names, "versions": [version] },
    })
}

pub(crate) fn rows() -> Vec<Row> {
    let (namespace, definition) = (
        "/v1, Kind=Namespace/",
        "apiextensions.k8s.io/v1, Kind=CustomResourceDefinition/",
    );
    let at = |name: &str| format!("{NAMESPACES}/{name}");
    let works = "works.placement.kubernetes-fleet.io";
    let mut rows = vec![
        DEV.creates(NAMESPACES, named("fleet-x")).refused(namespace, "/fleet-x"),
        DEV.creates(NAMESPACES, named("kube-x")).refused(namespace, "/kube-x"),
        DEV.creates(NAMESPACES, named("x")),
        DEV.creates(NAMESPACES, named("my-fleet-x")),
        DEV.creates(NAMESPACES, json!({ "metadata": { "generateName": "x-" } })),
        DEV.merges(&at("kube-public"), label())
            .refused(namespace, "/kube-public"),
        DEV.merges(&at("team"), label()),
        DEV.deletes(&at("fleet-member-east"))
            .refused(namespace, "/fleet-member-east"),
        DEV.deletes(&at("team")),
        // The list of groups is cut when it is long.
        JOINER
            .creates(NAMESPACES, named("fleet-x"))
            .refused(namespace, "/fleet-x"),
        DEV.creates(CRDS, crd("example.com")),
        // The group is what follows the first dot.
        DEV.creates(CRDS, crd("more.placement.kubernetes-fleet.io")),
    ];
    for group in [
        "cluster.kubernetes-fleet.io",
        "placement.kubernetes-fleet.io",
        "networking.fleet.azure.com",
        "multicluster.x-k8s.io",
    ] {
        let name = format!("/things.{group}");
        rows.push(DEV.creates(CRDS, crd(group)).refused(definition, &name));
        rows.push(ACCOUNT.creates(CRDS, crd(group)).refused(definition, &name));
    }
    let subject = format!("/{works}");
    let path = format!("{CRDS}/{works}");
    rows.extend([
        DEV.merges(&path, label()).refused(definition, &subject),
        DEV.deletes(&path).refused(definition, &subject),
        NODE.merges(&path, label()).refused(definition, &subject),
    ]);
    rows.extend(ADMINS.map(|admin| admin.merges(&path, label())));
    rows.extend(OPERATORS.map(|operator| operator.creates(NAMESPACES, named("fleet-x"))));
    rows
}
