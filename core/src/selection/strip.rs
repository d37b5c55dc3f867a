//! What a snapshot holds of an object: all that users wrote, nothing that belongs to this cluster.

use fleet_api::annotations::{DEPLOYMENT_REVISION, KUBECTL_LAST_APPLIED_CONFIGURATION};
use fleet_api::raw::RawJson;
use serde_json::{Map, Value};

use crate::apply::canonical::encode;

const METADATA: [&str; 8] = [
    "resourceVersion",
    "generation",
    "uid",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "managedFields",
    "ownerReferences",
];
const JOB_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// The object as a snapshot holds it: stripped, compact, keys sorted.
pub fn stored(mut object: Value) -> RawJson {
    strip(&mut object);
    RawJson::from_text(encode(&object)).expect("an encoded value is JSON")
}

fn strip(object: &mut Value) {
    let kind = (text(object, "apiVersion"), text(object, "kind"));
    let Some(root) = object.as_object_mut() else { return };
    root.remove("status");
    if let Some(metadata) = map(root, "metadata") {
        for field in METADATA {
            metadata.remove(field);
        }
        if let Some(annotations) = map(metadata, "annotations") {
            annotations.remove(KUBECTL_LAST_APPLIED_CONFIGURATION);
            annotations.remove(DEPLOYMENT_REVISION);
        }
        if metadata
            .get("annotations")
            .is_some_and(|annotations| annotations.as_object().is_none_or(Map::is_empty))
        {
            metadata.remove("annotations");
        }
    }
    let Some(spec) = map(root, "spec") else { return };
    match (kind.0.as_str(), kind.1.as_str()) {
        ("v1", "Service") => strip_service(spec),
        ("batch/v1", "Job") => strip_job(spec),
        _ => {}
    }
}

/// Addresses and ports that this cluster has given out.
fn strip_service(spec: &mut Map<String, Value>) {
    // A headless Service says so in the field that otherwise holds an address.
    if spec.get("clusterIP").and_then(Value::as_str) != Some("None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        port.remove("nodePort");
    }
}

/// The selector that this cluster has made up, and its traces.
fn strip_job(spec: &mut Map<String, Value>) {
    if spec.get("manualSelector").and_then(Value::as_bool) == Some(true) {
        return;
    }
    if let Some(labels) = map(spec, "selector").and_then(|selector| map(selector, "matchLabels")) {
        labels.retain(|label, _| !JOB_LABELS.contains(&label.as_str()));
    }
    if let Some(metadata) = map(spec, "template").and_then(|template| map(template, "metadata")) {
        metadata.remove("creationTimestamp");
        if let Some(labels) = map(metadata, "labels") {
            labels.retain(|label, _| !JOB_LABELS.contains(&label.as_str()));
        }
    }
}

fn map<'a>(parent: &'a mut Map<String, Value>, key: &str) -> Option<&'a mut Map<String, Value>> {
    parent.get_mut(key).and_then(Value::as_object_mut)
}

fn text(object: &Value, key: &str) -> String {
    object.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}
