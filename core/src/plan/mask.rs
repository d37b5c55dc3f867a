//! What nobody is to read off a plan.

use serde_json::{Map, Value};

/// Stands for a value.
const MASK: &str = "***";
/// The fields of a Secret that hold values.
const FIELDS: [&str; 2] = ["data", "stringData"];

/// Hides what Secrets hold. Keys stay, and that a value differs can be seen, but not what it was or is.
pub(super) fn mask(before: Option<&mut Value>, after: Option<&mut Value>) {
    let secret = |object: &Option<&mut Value>| object.as_ref().is_some_and(|object| is_secret(object));
    if !secret(&before) && !secret(&after) {
        return;
    }
    match (before, after) {
        (Some(before), Some(after)) => {
            for field in FIELDS {
                both(before, after, field);
            }
        }
        (Some(only), None) | (None, Some(only)) => {
            for field in FIELDS {
                if let Some(values) = only.get_mut(field) {
                    hide(values, MASK);
                }
            }
        }
        (None, None) => {}
    }
}

fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

fn both(before: &mut Value, after: &mut Value, field: &str) {
    match (before.get_mut(field), after.get_mut(field)) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => pairs(before, after),
        (before, after) => {
            if let Some(values) = before {
                hide(values, "*** (before)");
            }
            if let Some(values) = after {
                hide(values, "*** (after)");
            }
        }
    }
}

fn pairs(before: &mut Map<String, Value>, after: &mut Map<String, Value>) {
    for (key, value) in before.iter_mut() {
        match after.get_mut(key) {
            Some(other) if *other != *value => {
                *value = "*** (before)".into();
                *other = "*** (after)".into();
            }
            Some(other) => {
                *value = MASK.into();
                *other = MASK.into();
            }
            None => *value = MASK.into(),
        }
    }
    for (_, value) in after.iter_mut().filter(|(key, _)| !before.contains_key(*key)) {
        *value = MASK.into();
    }
}

/// Whatever is there, in whatever form.
fn hide(values: &mut Value, mask: &str) {
    match values {
        Value::Object(values) => values.values_mut().for_each(|value| *value = mask.into()),
        Value::Null => {}
        other => *other = mask.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(fields: &Value) -> Value {
        let mut object = json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque" });
        object
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        object
    }

    #[test]
    fn that_a_value_differs_is_all_that_can_be_seen() {
        let mut before = secret(&json!({ "data": { "same": "cGFzcw==", "other": "b25l", "gone": "Z29uZQ==" } }));
        let mut after = secret(&json!({
            "data": { "same": "cGFzcw==", "other": "dHdv", "new": "bmV3" }, "stringData": { "plain": "text" },
        }));
        mask(Some(&mut before), Some(&mut after));
        assert_eq!(
            before,
            secret(&json!({ "data": { "same": "***", "other": "*** (before)", "gone": "***" } }))
        );
        assert_eq!(
            after,
            secret(&json!({
                "data": { "same": "***", "other": "*** (after)", "new": "***" }, "stringData": { "plain": "*** (after)" },
            }))
        );
    }

    #[test]
    fn one_side_alone_and_odd_forms_are_hidden_too() {
        let mut only = secret(&json!({ "data": { "a": "cGFzcw==" }, "stringData": ["pass"] }));
        mask(None, Some(&mut only));
        assert_eq!(only, secret(&json!({ "data": { "a": "***" }, "stringData": "***" })));
        let (mut before, mut after) = (
            secret(&json!({ "data": "pass" })),
            secret(&json!({ "data": { "a": "pass" } })),
        );
        mask(Some(&mut before), Some(&mut after));
        assert!(!format!("{before}{after}").contains("pass"));
    }

    #[test]
    fn other_kinds_stay_as_they_are() {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "b" } });
        let mut masked = map.clone();
        mask(Some(&mut masked), None);
        assert_eq!(masked, map);
    }
}
