//! Paths of overrides, where no webhook judges them.

use serde_json::{Value, json};

use super::asking::Row;
use super::people::DEV;

const ALL: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/tools/resourceoverrides";
const TYPES: &str = "cannot override typeMeta fields";

/// An override by these patches, `op path`.
pub(crate) fn by(patches: &[&str]) -> Value {
    let patch = |text: &&str| {
        let (op, path) = text.split_once(' ').unwrap_or_default();
        json!({ "op": op, "path": path, "value": if op == "remove" { json!(null) } else { json!("x") } })
    };
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceOverride", "metadata": { "name": "new" },
        "spec": {
            "resourceSelectors": [{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "settings" }],
            "policy": { "overrideRules": [{
                "clusterSelector": { "clusterSelectorTerms": [] },
                "jsonPatchOverrides": patches.iter().map(patch).collect::<Vec<_>>(),
            }] },
        },
    })
}

pub(crate) fn rows() -> Vec<Row> {
    let edit = |patches: &[&str]| {
        let spec = by(patches)["spec"].take();
        DEV.merges(&format!("{ALL}/old"), json!({ "spec": spec }))
    };
    let wrong = |patch: &str, why: &str| format!("invalid JSONPatchOverride {{{patch}}}: {why}");
    vec![
        DEV.creates(ALL, by(&["add /data/a"])),
        DEV.creates(ALL, by(&["add /data/a", "add /kind"]))
            .says(&wrong("add /kind", TYPES)),
        // The stored one has two that are wrong, from before there was such a policy: each may stay, and go alone.
        edit(&["add /kind", "add /metadata/name", "add /data/a"]),
        edit(&["add /data/a", "add /metadata/name"]),
        edit(&["add /kind"]),
        edit(&["add /data/a"]),
        edit(&["add /kind", "add /metadata/name", "add /status"])
            .says(&wrong("add /status", "cannot override status fields")),
        edit(&["remove /kind", "add /metadata/name"]).says(&wrong("remove /kind", TYPES)),
    ]
}
