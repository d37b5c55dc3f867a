//! Who changed a field on a member: what the object's managed fields say.

use fleet_api::placement::{PatchDetail, ResourceIdentifier};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::fleet::Fleet;
use crate::apply::diff::{REDACTED, WHOLE_OBJECT};
use crate::apply::prepare::FIELD_MANAGER;

/// The drifts of an object in words: field, both values, and who did it if the live object is known.
pub(super) fn words(fleet: &Fleet<'_>, cluster: &str, id: &ResourceIdentifier, drifts: &[PatchDetail]) -> String {
    let Some(first) = drifts.first() else {
        return String::new();
    };
    let live = fleet.live.iter().find(|live| {
        live.cluster == cluster
            && live.kind == id.kind
            && live.meta.name.as_deref() == Some(&id.name)
            && live.meta.namespace.as_deref().unwrap_or_default() == id.namespace
    });
    let who = live.and_then(|live| manager(live.meta, &first.path));
    let who = who.map(|who| format!(", by {who}")).unwrap_or_default();
    let more = match drifts.len() {
        1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    format!(
        "{} is {} on the member and {} on the hub{who}{more}",
        first.path,
        shown(id, first, &first.value_in_member),
        shown(id, first, &first.value_in_hub),
    )
}

/// What is secret is hidden already where it was compared; agents of others may not have.
fn shown<'a>(id: &ResourceIdentifier, field: &PatchDetail, value: &'a str) -> &'a str {
    let secret = id.group.is_empty() && id.kind == "Secret";
    let holds = ["/data", "/stringData"].iter().any(|at| field.path.starts_with(at));
    match value {
        "" => "absent",
        WHOLE_OBJECT => value,
        _ if secret && (holds || field.path.len() <= 1) => REDACTED,
        value => value,
    }
}

/// The field manager, other than the member agent, that last wrote the field at a JSON pointer.
pub fn manager<'a>(meta: &'a ObjectMeta, path: &str) -> Option<&'a str> {
    let segments: Vec<String> = path
        .split('/')
        .skip(1)
        .map(|segment| segment.replace("~1", "/").replace("~0", "~"))
        .collect();
    let entries = meta.managed_fields.iter().flatten();
    let owners = entries.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        entry.manager.as_deref() != Some(FIELD_MANAGER)
            // `kubectl scale` and autoscalers write through `scale`; what is written to the status is no drift.
            && entry.subresource.as_deref() != Some("status")
            && fields.is_some_and(|fields| owns(&fields.0, &segments))
    });
    let last = owners.max_by_key(|entry| entry.time.as_ref().map(|time| time.0))?;
    last.manager.as_deref()
}

/// Whether a set of fields has the field. Items of lists are named by their keys there and by their place in a path, so
/// any item counts.
fn owns(fields: &Value, path: &[String]) -> bool {
    let (Some(fields), [segment, rest @ ..]) = (fields.as_object(), path) else {
        return path.is_empty();
    };
    if fields.keys().all(|key| key == ".") {
        return true; // Owned as a whole.
    }
    if let Some(child) = fields.get(&format!("f:{segment}")) {
        return owns(child, rest);
    }
    let is_item = segment.bytes().all(|byte| byte.is_ascii_digit());
    let item = |key: &&String| key.starts_with("k:") || key.starts_with("v:") || key.starts_with("i:");
    is_item && fields.iter().any(|(key, child)| item(&key) && owns(child, rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta() -> ObjectMeta {
        let entry = |manager: &str, minute: u32, fields: Value| {
            json!({
                "manager": manager, "operation": "Update", "time": format!("2026-01-01T00:{minute:02}:00Z"),
                "fieldsType": "FieldsV1", "fieldsV1": fields,
            })
        };
        let through = |subresource: &str, mut entry: Value| {
            entry["subresource"] = json!(subresource);
            entry
        };
        serde_json::from_value(json!({"managedFields": [
            entry("work-api-agent", 30, json!({"f:spec": {"f:replicas": {}}})),
            entry("kubectl-edit", 10, json!({"f:spec": {"f:replicas": {}}})),
            through("scale", entry("kubectl", 20, json!({"f:spec": {"f:replicas": {}}}))),
            through("status", entry("controller", 25, json!({"f:spec": {"f:replicas": {}}}))),
            entry("sidecar", 5, json!({"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}}})),
            entry("labeller", 5, json!({"f:metadata": {"f:labels": {".": {}, "f:example.com/team": {}}}})),
        ]}))
        .unwrap()
    }

    #[test]
    fn the_last_manager_of_a_field_that_is_not_the_fleet_did_it() {
        let meta = meta();
        for (path, who) in [
            ("/spec/replicas", Some("kubectl")),
            ("/spec/containers/0/image", Some("sidecar")),
            ("/spec/containers/0/command", None),
            ("/metadata/labels/example.com~1team", Some("labeller")),
            ("/spec/paused", None),
        ] {
            assert_eq!(manager(&meta, path), who, "{path}");
        }
        assert_eq!(manager(&ObjectMeta::default(), "/spec/replicas"), None);
    }

    #[test]
    fn what_secrets_hold_is_in_no_words() {
        let fleet = Fleet::new("", jiff::Timestamp::UNIX_EPOCH);
        let id = |kind: &str| ResourceIdentifier {
            kind: kind.into(),
            ..ResourceIdentifier::default()
        };
        let drift = |path: &str| {
            [PatchDetail {
                path: path.into(),
                value_in_hub: "aHVudGVyMg==".into(),
                value_in_member: String::new(),
            }]
        };
        for (kind, path, hidden) in [
            ("Secret", "/data/password", true),
            ("Secret", "/stringData/a", true),
            ("Secret", "/", true),
            ("Secret", "/metadata/labels/a", false),
            ("ConfigMap", "/data/a", false),
        ] {
            let text = words(&fleet, "east", &id(kind), &drift(path));
            assert_eq!(!text.contains("aHVudGVyMg"), hidden, "{text}");
            assert!(text.contains("absent on the member"), "{text}");
        }
    }
}
