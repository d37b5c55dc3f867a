//! The manifest as it is sent, and what field managers say about who sent what before.

use fleet_api::annotations;
use fleet_api::placement::ApplyStrategyType;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::canonical;
use super::clean::{sanitise, spec_hash};
use super::json::{list, object_mut, text};
use super::owners::Owner;

/// Our field manager, for creations, patches and server-side apply.
pub const FIELD_MANAGER: &str = "work-api-agent";
/// The manager that the API server makes up for fields from before managed fields.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The API server's limit for all annotations of an object.
const ANNOTATIONS_MAX_BYTES: usize = 256 * 1024;

/// A manifest ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The object with hash, owner and (client-side) last-applied record.
    pub object: Value,
    /// Whether it has to go by server-side apply: it is asked for, or the last-applied record does not fit.
    pub server_side: bool,
    /// Digest of the whole object. Unlike the hash it also moves with finalizers and reserved labels.
    pub digest: String,
}

/// Makes ready to send. Owners were validated before: those in the manifest are dropped either way.
pub fn prepare(manifest: &Value, owner: &Owner, strategy: &ApplyStrategyType) -> Prepared {
    let mut object = sanitise(manifest);
    let hash = spec_hash(manifest);
    object_mut(&mut object, &["metadata", "annotations"]).insert(annotations::SPEC_HASH.into(), json!(hash));
    object_mut(&mut object, &["metadata"]).insert("ownerReferences".into(), json!([owner.reference()]));
    let record = canonical::encode(&object);
    let digest = digest(&record);
    if *strategy == ApplyStrategyType::ServerSideApply {
        return Prepared {
            object,
            server_side: true,
            digest,
        };
    }
    let annotations = object_mut(&mut object, &["metadata", "annotations"]);
    annotations.insert(annotations::LAST_APPLIED_CONFIGURATION.into(), json!(record));
    let fits = size(annotations) <= ANNOTATIONS_MAX_BYTES;
    if !fits {
        // Empty, not absent: an old record must not stay behind as the base of a later merge.
        annotations.insert(annotations::LAST_APPLIED_CONFIGURATION.into(), json!(""));
    }
    Prepared {
        object,
        server_side: !fits,
        digest,
    }
}

/// [`Prepared::digest`] of the object that this is the last-applied record of.
pub(super) fn digest(record: &str) -> String {
    let hash = Sha256::digest(record);
    hash.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

fn size(annotations: &Map<String, Value>) -> usize {
    annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum()
}

/// Whether only we have set fields of `live`, so that a conflict could only be with an earlier self. Managers of the
/// status subresource do not count: they never conflict with a manifest.
pub fn only_ours(live: &Value) -> bool {
    list(live, &["metadata", "managedFields"])
        .iter()
        .filter(|entry| text(entry, &["subresource"]).is_empty())
        .all(|entry| matches!(text(entry, &["manager"]), FIELD_MANAGER | BEFORE_FIRST_APPLY))
}

/// The managed fields of `live` with what we once created or patched counted as applied by us; nothing if they are so
/// already. Otherwise a field that leaves the manifest would stay for ever, owned by our older self.
pub fn migrated_managers(live: &Value) -> Option<Vec<Value>> {
    let entries = list(live, &["metadata", "managedFields"]);
    let ours = |entry: &Value, operation: &str| {
        text(entry, &["manager"]) == FIELD_MANAGER
            && text(entry, &["operation"]) == operation
            && text(entry, &["subresource"]).is_empty()
    };
    let mut updates = entries.iter().filter(|entry| ours(entry, "Update")).peekable();
    updates.peek()?;
    let mut applied = entries
        .iter()
        .find(|entry| ours(entry, "Apply"))
        .or_else(|| entries.iter().find(|entry| ours(entry, "Update")))?
        .clone();
    applied["operation"] = json!("Apply");
    for update in updates {
        // Sets of fields under different API versions cannot be joined; the newer apply will claim its own.
        if update["apiVersion"] == applied["apiVersion"] {
            union(&mut applied["fieldsV1"], &update["fieldsV1"]);
        }
    }
    let others = entries
        .iter()
        .filter(|entry| !ours(entry, "Update") && !ours(entry, "Apply"))
        .cloned();
    Some(std::iter::once(applied).chain(others).collect())
}

fn union(into: &mut Value, from: &Value) {
    match (into.as_object_mut(), from.as_object()) {
        (Some(into), Some(from)) => {
            for (key, value) in from {
                union(into.entry(key.as_str()).or_insert_with(|| json!({})), value);
            }
        }
        _ => {
            if into.is_null() {
                *into = from.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us() -> Owner {
        Owner {
            name: "work".into(),
            uid: "u1".into(),
        }
    }

    fn config(data: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": data}})
    }

    #[test]
    fn a_client_side_manifest_carries_its_own_record() {
        let prepared = prepare(&config("v"), &us(), &ApplyStrategyType::ClientSideApply);
        assert!(!prepared.server_side);
        let annotations = prepared.object["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations[annotations::SPEC_HASH], json!(spec_hash(&config("v"))));
        let record: Value =
            serde_json::from_str(annotations[annotations::LAST_APPLIED_CONFIGURATION].as_str().unwrap()).unwrap();
        assert_eq!(record["metadata"]["ownerReferences"], json!([us().reference()]));
        assert_eq!(
            record["metadata"]["annotations"].as_object().unwrap().len(),
            1,
            "without itself"
        );
    }

    #[test]
    fn a_record_that_does_not_fit_is_left_empty_and_the_server_merges() {
        let prepared = prepare(
            &config(&"x".repeat(600_000)),
            &us(),
            &ApplyStrategyType::ClientSideApply,
        );
        assert!(prepared.server_side);
        assert_eq!(
            prepared.object["metadata"]["annotations"][annotations::LAST_APPLIED_CONFIGURATION],
            ""
        );
        let plain = prepare(&config("v"), &us(), &ApplyStrategyType::ServerSideApply);
        assert!(plain.server_side);
        assert_eq!(plain.object["metadata"]["annotations"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn status_writers_do_not_make_the_object_shared() {
        let entry = |manager: &str, subresource: &str| json!({"manager": manager, "subresource": subresource});
        let live = |entries: Vec<Value>| json!({"metadata": {"managedFields": entries}});
        assert!(only_ours(&live(vec![])));
        assert!(only_ours(&live(vec![
            entry(FIELD_MANAGER, ""),
            entry("before-first-apply", "")
        ])));
        assert!(only_ours(&live(vec![
            entry(FIELD_MANAGER, ""),
            entry("kube-controller-manager", "status")
        ])));
        assert!(!only_ours(&live(vec![
            entry(FIELD_MANAGER, ""),
            entry("kubectl-edit", "")
        ])));
    }

    #[test]
    fn earlier_patches_become_applies() {
        let entry = |operation: &str, fields: Value| json!({"manager": FIELD_MANAGER, "operation": operation, "apiVersion": "v1", "fieldsV1": fields});
        let other = json!({"manager": "kubectl", "operation": "Update"});
        let live = json!({"metadata": {"managedFields": [
            other, entry("Update", json!({"f:data": {"f:a": {}}})), entry("Apply", json!({"f:data": {"f:b": {}}})),
        ]}});
        let migrated = migrated_managers(&live).unwrap();
        assert_eq!(
            migrated,
            [entry("Apply", json!({"f:data": {"f:a": {}, "f:b": {}}})), other]
        );
        assert_eq!(
            migrated_managers(&json!({"metadata": {"managedFields": migrated}})),
            None
        );
        assert_eq!(migrated_managers(&json!({})), None);
    }
}
