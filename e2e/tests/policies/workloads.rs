//! Pods, ReplicaSets and PodDisruptionBudgets of the hub.

use serde_json::{Value, json};

use super::asking::Row;
use super::people::{CONTROLLERS, DEV, MASTER};

fn pod() -> Value {
    json!({ "containers": [{ "name": "main", "image": "example.com/image:1" }] })
}

fn replicas(name: &str) -> Value {
    let labels = json!({ "app": "a" });
    let template = json!({ "metadata": { "labels": labels }, "spec": pod() });
    json!({ "metadata": { "name": name }, "spec": { "selector": { "matchLabels": labels }, "template": template } })
}

pub(crate) fn rows() -> Vec<Row> {
    let pods = |namespace: &str| format!("/api/v1/namespaces/{namespace}/pods");
    let sets = |namespace: &str| format!("/apis/apps/v1/namespaces/{namespace}/replicasets");
    let budgets = |namespace: &str| format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets");
    let single = json!({ "metadata": { "name": "p" }, "spec": pod() });
    let budget = json!({ "metadata": { "name": "b" }, "spec": {} });
    let mut rows = Vec::new();
    // For everybody, administrators and controllers included.
    for who in [DEV, MASTER, CONTROLLERS] {
        rows.extend([
            who.creates(&pods("default"), single.clone())
                .says("Pod default/p creation is disallowed in the fleet hub cluster"),
            who.creates(&sets("default"), replicas("r"))
                .says("ReplicaSet default/r creation is disallowed in the fleet hub cluster."),
            who.creates(&budgets("default"), budget.clone()).says(
                "PDBs default/b cannot be directly created in the hub cluster due to potential side effects; to place a PDB to \
                 member clusters, consider wrapping it in a resource envelope.",
            ),
            who.creates("/apis/apps/v1/namespaces/default/deployments", replicas("d")),
        ]);
    }
    for namespace in ["fleet-system", "kube-system", "tools", "ci-1"] {
        rows.extend([
            MASTER.creates(&pods(namespace), single.clone()),
            MASTER.creates(&sets(namespace), replicas("r")),
            MASTER.creates(&budgets(namespace), budget.clone()),
        ]);
    }
    rows
}
