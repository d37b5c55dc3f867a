//! MemberClusters.

use serde_json::{Value, json};

use super::asking::{Row, Who};
use super::people::{ACCOUNT, AGENT, BOSS, DEV, MASTER, OPERATORS};

const ALL: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const LABELS: &str = "users are not allowed to modify labels through hub cluster directly";
const ADDED: &str = "no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster";
const REMOVED: &str = "no user is allowed to remove all fleet pre-fixed annotations from a fleet member cluster";

fn member(name: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "identity": { "kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io" } },
    })
}

fn annotated(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

fn labelled(labels: &Value) -> Value {
    json!({ "metadata": { "labels": labels } })
}

pub(crate) fn rows() -> Vec<Row> {
    let kind = "cluster.kubernetes-fleet.io/v1beta1, Kind=MemberCluster/";
    let (plain, managed) = (format!("{ALL}/plain"), format!("{ALL}/managed"));
    let v1 = managed.replace("v1beta1", "v1");
    let mark = json!({ "fleet.azure.com/x": "y" });
    let condition = json!({
        "type": "Joined", "status": "True", "reason": "Joined", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({ "status": { "conditions": [condition] } });
    let spec = |spec: Value| json!({ "spec": spec });
    let taints = json!([{ "key": "k", "value": "v", "effect": "NoSchedule" }]);
    let mut rows = vec![
        DEV.creates(ALL, member("a", &mark)).refused(kind, "/a"),
        ACCOUNT.creates(ALL, member("a", &mark)),
        DEV.creates(ALL, member("a", &json!(null))),
        DEV.deletes(&managed).refused(kind, "/managed"),
        ACCOUNT.deletes(&managed),
        DEV.deletes(&plain),
        // Nobody's to do, whoever it is.
        MASTER.merges(&plain, annotated(&mark)).says(ADDED),
        MASTER
            .merges(
                &managed,
                annotated(&json!({ "fleet.azure.com/cluster": null, "fleet.azure.com/region": null })),
            )
            .says(REMOVED),
        // Everybody's to do.
        DEV.merges(&managed, spec(json!({ "taints": taints }))),
        DEV.merges(&managed, annotated(&json!({ "note": "x" }))),
        DEV.merges(&managed, annotated(&mark)),
        DEV.merges(&managed, labelled(&json!({ "kubernetes-fleet.io/x": "y" }))),
        DEV.merges(&plain, spec(json!({ "heartbeatPeriodSeconds": 15, "taints": taints }))),
        DEV.merges(&plain, labelled(&json!({ "env": "x" }))),
        // As asked for, whatever is stored.
        DEV.merges(&v1, spec(json!({ "heartbeatPeriodSeconds": 15 })))
            .refused("cluster.kubernetes-fleet.io/v1, Kind=MemberCluster/", "/managed"),
        // Labels of managed members.
        DEV.merges(&managed, labelled(&json!({ "env": "x" }))).says(LABELS),
        DEV.merges(&managed, labelled(&json!({ "env": null }))).says(LABELS),
        DEV.merges(&managed, labelled(&json!({ "new": "x" }))).says(LABELS),
        BOSS.merges(&managed, labelled(&json!({ "env": "x" }))).says(LABELS),
        ACCOUNT.merges(&managed, labelled(&json!({ "env": "x" }))).says(LABELS),
        MASTER.merges(&managed, labelled(&json!({ "env": "x" }))),
        AGENT.merges(&managed, labelled(&json!({ "new": "x" }))),
    ];
    let operators = |path: &str, shown: &str, body: &Value| {
        let refused = DEV.merges(path, body.clone());
        let (subresource, name) = shown.split_once(' ').unwrap_or(("", shown));
        let mut rows = vec![refused.refused(&format!("{kind}{subresource}"), &format!("/{name}"))];
        rows.extend(OPERATORS.map(|who: Who| who.merges(path, body.clone())));
        rows
    };
    for body in [
        spec(json!({ "identity": { "name": "other" } })),
        spec(json!({ "heartbeatPeriodSeconds": 15 })),
        spec(json!({ "deleteOptions": { "validationMode": "Skip" } })),
        json!({ "metadata": { "finalizers": ["example.com/x"] } }),
        annotated(&json!({ "fleet.azure.com/cluster": "changed" })),
        annotated(&json!({ "fleet.azure.com/cluster": null })),
    ] {
        rows.extend(operators(&managed, "managed", &body));
    }
    rows.extend(operators(&format!("{managed}/status"), "status managed", &status));
    rows.extend(operators(&format!("{plain}/status"), "status plain", &status));
    rows
}
