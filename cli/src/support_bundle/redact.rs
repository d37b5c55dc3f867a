//! What nobody is to read who only helps.

use serde_json::{Map, Value, json};

const MASK: &str = "***";
/// Fields with whole manifests; only what they are is kept.
const MANIFESTS: [&str; 2] = ["selectedResources", "manifests"];
/// Fields with values of users' objects.
const VALUES: [&str; 4] = ["valueInHub", "valueInMember", "jsonPatchOverrides", "stringData"];
const LAST_APPLIED: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "kubernetes-fleet.io/last-applied-configuration",
];
/// Parts of names of environment variables whose values are nobody's business.
const TELLING: [&str; 4] = ["TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

/// Takes out what may be secret, whatever kind of object it is.
pub(super) fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(fields) => object(fields),
        _ => {}
    }
}

fn object(fields: &mut Map<String, Value>) {
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    // Envelopes carry whole manifests in `data`.
    if matches!(
        kind,
        "Secret" | "ConfigMap" | "ResourceEnvelope" | "ClusterResourceEnvelope"
    ) && let Some(data) = fields.get_mut("data")
    {
        hide(data);
    }
    let name = fields
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_uppercase();
    if TELLING.iter().any(|word| name.contains(word))
        && let Some(value) = fields.get_mut("value")
    {
        *value = MASK.into();
    }
    for key in LAST_APPLIED {
        fields.remove(key);
    }
    for (key, value) in fields.iter_mut() {
        if MANIFESTS.contains(&key.as_str()) {
            let items = value.as_array_mut().into_iter().flatten();
            items.for_each(|item| *item = identity(item));
        } else if VALUES.contains(&key.as_str()) {
            *value = MASK.into();
        } else {
            redact(value);
        }
    }
}

fn hide(data: &mut Value) {
    match data {
        Value::Object(data) => data.values_mut().for_each(|value| *value = MASK.into()),
        other => *other = MASK.into(),
    }
}

/// What a manifest is, without what it says.
fn identity(manifest: &Value) -> Value {
    json!({
        "apiVersion": manifest["apiVersion"], "kind": manifest["kind"],
        "metadata": { "name": manifest["metadata"]["name"], "namespace": manifest["metadata"]["namespace"] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_what_may_be_secret_is_left() {
        let mut work = json!({
            "kind": "Work",
            "metadata": { "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "hunter2" } },
            "spec": { "workload": { "manifests": [{ "kind": "Secret", "metadata": { "name": "s" }, "data": { "p": "hunter2" } }] } },
            "status": { "drifts": [{ "path": "/data/p", "valueInHub": "hunter2", "valueInMember": "hunter2" }] },
        });
        let mut envelope =
            json!({ "kind": "ResourceEnvelope", "data": { "s.yaml": { "stringData": { "p": "hunter2" } } } });
        let mut over = json!({ "spec": { "overrideRules": [{ "jsonPatchOverrides": [{ "value": "hunter2" }] }] } });
        let mut pod = json!({ "env": [{ "name": "HUB_TOKEN", "value": "hunter2" }, { "name": "HUB_URL", "value": "https://hub" }] });
        for value in [&mut work, &mut envelope, &mut over, &mut pod] {
            redact(value);
            assert!(!value.to_string().contains("hunter2"), "{value}");
        }
        assert_eq!(work["spec"]["workload"]["manifests"][0]["metadata"]["name"], "s");
        assert_eq!(pod["env"][1]["value"], "https://hub");
    }
}
