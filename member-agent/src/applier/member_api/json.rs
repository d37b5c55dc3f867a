//! Reading fields of objects of any kind.

use serde_json::Value;

/// The text at a path below an object; empty if there is none.
pub(in crate::applier) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The object's uid.
pub(in crate::applier) fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// The object's resourceVersion as a number, by which newer and older are told apart; 0 if it is none.
pub(in crate::applier) fn version(object: &Value) -> u64 {
    number(text(object, &["metadata", "resourceVersion"]))
}

/// A resourceVersion as a number.
pub(in crate::applier) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}
