//! JSON patch (RFC 6902) as overrides use it: add, remove and replace, with the error texts that users know.
//!
//! Beyond the RFC, negative array indices count from the end.

use fleet_api::placement::JsonPatchOp;
use serde_json::Value;

use crate::text::quote;

/// One entry of a patch, its value ready.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation<'a> {
    /// What to do.
    pub op: JsonPatchOp,
    /// Where, as a JSON pointer.
    pub path: &'a str,
    /// With what.
    pub value: Value,
}

/// Applies one entry. On error `document` is as before.
pub fn apply(document: &mut Value, operation: Operation<'_>) -> Result<(), String> {
    let Operation { op, path, value } = operation;
    if path.is_empty() && op != JsonPatchOp::Remove {
        *document = value;
        return Ok(());
    }
    let found = parent(document, path);
    let path = quote(path);
    match (op, found) {
        (JsonPatchOp::Add, None) => Err(format!(
            "add operation does not apply: doc is missing path: \"{path}\": missing value"
        )),
        (JsonPatchOp::Replace, None) => Err(format!(
            "replace operation does not apply: doc is missing path: {path}: missing value"
        )),
        (JsonPatchOp::Remove, None) => Err(format!(
            "remove operation does not apply: doc is missing path: \"{path}\": missing value"
        )),
        (JsonPatchOp::Add, Some((parent, key))) => {
            add(parent, key, value).map_err(|error| format!("error in add for path: '{path}': {error}"))
        }
        (JsonPatchOp::Replace, Some((parent, key))) => match child(parent, &key) {
            Ok(child) => {
                *child = value;
                Ok(())
            }
            Err(_) => Err(format!(
                "replace operation does not apply: doc is missing key: {path}: missing value"
            )),
        },
        (JsonPatchOp::Remove, Some((parent, key))) => {
            remove(parent, &key).map_err(|error| format!("error in remove for path: '{path}': {error}"))
        }
    }
}

/// The object or list that holds what `path` points to, and its key there.
fn parent<'a>(document: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    // What is before the first slash is skipped: admission has made sure that it is empty.
    let (parents, key) = path.split_once('/')?.1.rsplit_once('/').map_or_else(
        || (None, path.split_once('/').map_or("", |(_, key)| key)),
        |(parents, key)| (Some(parents), key),
    );
    let mut at = document;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        at = child(at, &unescape(part)).ok()?;
    }
    (at.is_object() || at.is_array()).then(|| (at, unescape(key)))
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

fn child<'a>(parent: &'a mut Value, key: &str) -> Result<&'a mut Value, String> {
    match parent {
        Value::Object(map) => map
            .get_mut(key)
            .ok_or_else(|| format!("unable to get nonexistent key: {}: missing value", quote(key))),
        Value::Array(list) => {
            let index = index(key, list.len(), list.len())?;
            Ok(&mut list[index])
        }
        _ => Err("not a container".into()),
    }
}

fn add(parent: &mut Value, key: String, value: Value) -> Result<(), String> {
    match parent {
        Value::Object(map) => _ = map.insert(key, value),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) => list.insert(index(&key, list.len() + 1, list.len() + 1)?, value),
        _ => return Err("not a container".into()),
    }
    Ok(())
}

fn remove(parent: &mut Value, key: &str) -> Result<(), String> {
    match parent {
        Value::Object(map) => match map.remove(key) {
            Some(_) => Ok(()),
            None => Err(format!(
                "unable to remove nonexistent key: {}: missing value",
                quote(key)
            )),
        },
        Value::Array(list) => {
            let index = index(key, list.len(), list.len())?;
            list.remove(index);
            Ok(())
        }
        _ => Err("not a container".into()),
    }
}

/// The position that `key` means in a list with `limit` positions, counted from `end` if it is negative.
fn index(key: &str, limit: usize, end: usize) -> Result<usize, String> {
    let number: i64 = key
        .parse()
        .map_err(|_| format!("value was not a proper array index: '{}'", quote(key)))?;
    let position = if number < 0 {
        usize::try_from(number.unsigned_abs())
            .ok()
            .and_then(|back| end.checked_sub(back))
    } else {
        usize::try_from(number).ok()
    };
    let invalid = || format!("Unable to access invalid index: {number}: invalid index referenced");
    position.filter(|position| *position < limit).ok_or_else(invalid)
}

#[cfg(test)]
mod tests {
    use JsonPatchOp::{Add, Remove, Replace};
    use serde_json::json;

    use super::*;

    fn patched(op: JsonPatchOp, path: &str, value: Value) -> Result<Value, String> {
        let mut document = json!({ "metadata": { "name": "x" }, "list": [1, 2], "a/b": { "~": 0 }, "none": null });
        let before = document.clone();
        let result = apply(&mut document, Operation { op, path, value });
        if result.is_err() {
            assert_eq!(document, before);
        }
        result.map(|()| document)
    }

    #[test]
    fn values_are_added_replaced_and_removed() {
        for (op, path, value, pointer, expected) in [
            (
                Add,
                "/metadata/labels",
                json!({ "a": "b" }),
                "/metadata/labels",
                Some(json!({ "a": "b" })),
            ),
            (Add, "/metadata/name", json!("y"), "/metadata/name", Some(json!("y"))),
            (Add, "/list/-", json!(3), "/list", Some(json!([1, 2, 3]))),
            (Add, "/list/0", json!(3), "/list", Some(json!([3, 1, 2]))),
            (Add, "/list/2", json!(3), "/list", Some(json!([1, 2, 3]))),
            (Add, "/list/-1", json!(3), "/list", Some(json!([1, 2, 3]))),
            (Replace, "/list/-1", json!(3), "/list", Some(json!([1, 3]))),
            (Replace, "/a~1b/~0", json!(1), "/a~1b/~0", Some(json!(1))),
            (
                Replace,
                "/metadata/name",
                Value::Null,
                "/metadata/name",
                Some(Value::Null),
            ),
            (Remove, "/list/0", Value::Null, "/list", Some(json!([2]))),
            (Remove, "/metadata/name", Value::Null, "/metadata/name", None),
        ] {
            let document = patched(op, path, value).unwrap();
            assert_eq!(document.pointer(pointer).cloned(), expected, "{op} {path}");
        }
    }

    #[test]
    fn failures_have_the_words_that_users_know() {
        for (op, path, error) in [
            (
                Add,
                "/metadata/labels/x",
                r#"add operation does not apply: doc is missing path: "/metadata/labels/x": missing value"#,
            ),
            (
                Add,
                "/none/x",
                r#"add operation does not apply: doc is missing path: "/none/x": missing value"#,
            ),
            (
                Add,
                "/metadata/name/x",
                r#"add operation does not apply: doc is missing path: "/metadata/name/x": missing value"#,
            ),
            (
                Replace,
                "/spec/x",
                "replace operation does not apply: doc is missing path: /spec/x: missing value",
            ),
            (
                Replace,
                "/metadata/x",
                "replace operation does not apply: doc is missing key: /metadata/x: missing value",
            ),
            (
                Remove,
                "/spec/x",
                r#"remove operation does not apply: doc is missing path: "/spec/x": missing value"#,
            ),
            (
                Remove,
                "/metadata/x",
                "error in remove for path: '/metadata/x': unable to remove nonexistent key: x: missing value",
            ),
            (
                Add,
                "/list/5",
                "error in add for path: '/list/5': Unable to access invalid index: 5: invalid index referenced",
            ),
            (
                Remove,
                "/list/-3",
                "error in remove for path: '/list/-3': Unable to access invalid index: -3: invalid index referenced",
            ),
        ] {
            assert_eq!(patched(op, path, json!(1)).unwrap_err(), error);
        }
    }
}
