//! What a patch may not touch, however it got there: which object it is, all of its metadata but labels and annotations,
//! and its status.
//!
//! Judged by the result, not by paths: a path can be spelt in many ways, and admission may not have seen the override. The
//! words are admission's.

use serde_json::{Map, Value};

use crate::admission::paths;

/// Whether `after` still is the object that `before` was.
///
/// # Errors
/// What was touched.
pub(super) fn check(before: &Value, after: &Value) -> Result<(), &'static str> {
    let differs = |key: &str| before.get(key) != after.get(key);
    if !after.is_object() || differs("apiVersion") || differs("kind") {
        return Err(paths::TYPE_META);
    }
    let Some(metadata) = after.get("metadata").and_then(Value::as_object) else {
        return Err(paths::METADATA);
    };
    let none = Map::new();
    let known = before.get("metadata").and_then(Value::as_object).unwrap_or(&none);
    let mut keys = known.keys().chain(metadata.keys());
    if keys.any(|key| !paths::is_free(key) && known.get(key) != metadata.get(key)) {
        return Err(paths::OTHER_METADATA);
    }
    if differs("status") {
        return Err(paths::STATUS);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::JsonPatchOp::{self, Add, Remove, Replace};
    use serde_json::json;

    use super::super::patch::{Operation, apply};
    use super::*;

    const TYPE: &str = "cannot override typeMeta fields";
    const WHOLE: &str = "cannot override field metadata";
    const META: &str = "cannot override metadata fields except annotations and labels";

    fn role_binding() -> Value {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": { "name": "a", "namespace": "app", "labels": { "x": "y" } },
            "subjects": [{ "kind": "User", "name": "me" }],
        })
    }

    fn judged(patches: &[(JsonPatchOp, &str, Value)]) -> Result<(), &'static str> {
        let before = role_binding();
        let mut after = before.clone();
        for (op, path, value) in patches {
            let (op, value) = (*op, value.clone());
            apply(&mut after, Operation { op, path, value }).unwrap();
        }
        check(&before, &after)
    }

    #[test]
    fn an_object_stays_the_object_that_it_is() {
        let other = |change: &dyn Fn(&mut Value)| {
            let mut value = role_binding();
            change(&mut value);
            value
        };
        for (op, path, value, refused) in [
            (Replace, "", other(&|v| v["kind"] = json!("ClusterRoleBinding")), TYPE),
            (
                Add,
                "",
                other(&|v| v["metadata"]["namespace"] = json!("kube-system")),
                META,
            ),
            (Replace, "", json!("nothing"), TYPE),
            (Replace, "", json!([role_binding()]), TYPE),
            (Replace, "/kind", json!("ClusterRoleBinding"), TYPE),
            (Add, "/kind", json!("ClusterRoleBinding"), TYPE),
            (Remove, "/kind", json!(null), TYPE),
            (Replace, "/apiVersion", json!("v1"), TYPE),
            (Remove, "/metadata", json!(null), WHOLE),
            (Replace, "/metadata", json!([]), WHOLE),
            (Replace, "/metadata", json!({ "name": "b", "namespace": "app" }), META),
            (Replace, "/metadata", json!({ "name": "a" }), META),
            (Replace, "/metadata/name", json!("b"), META),
            (Add, "/metadata/name", json!("b"), META),
            (Replace, "/metadata/namespace", json!("kube-system"), META),
            (Remove, "/metadata/namespace", json!(null), META),
            (Add, "/metadata/generateName", json!("b-"), META),
            (Add, "/metadata/ownerReferences", json!([]), META),
            (Add, "/metadata/finalizers", json!(["a/b"]), META),
            (Add, "/metadata/deletionTimestamp", json!("2020-01-01T00:00:00Z"), META),
            (Add, "/metadata/labels~1x", json!("y"), META),
            (Add, "/status", json!({}), "cannot override status fields"),
        ] {
            assert_eq!(judged(&[(op, path, value)]), Err(refused), "{op} {path}");
        }
    }

    #[test]
    fn what_is_not_about_identity_is_free() {
        for (op, path, value) in [
            (Replace, "", role_binding()),
            (Add, "/metadata/annotations", json!({ "a": "b" })),
            (Add, "/metadata/labels/a", json!("b")),
            (Remove, "/metadata/labels", json!(null)),
            (Replace, "/metadata", json!({ "name": "a", "namespace": "app" })),
            (Replace, "/subjects/0/kind", json!("Group")),
            (Add, "/metadata~1name", json!("b")),
            (Add, "/status-x", json!(1)),
        ] {
            assert_eq!(judged(&[(op, path, value)]), Ok(()), "{op} {path}");
        }
        // There and back is where it was.
        let and_back = [
            (Replace, "/metadata/name", json!("b")),
            (Replace, "/metadata/name", json!("a")),
        ];
        assert_eq!(judged(&and_back), Ok(()));
    }
}
