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
        nested(before, after);
        return;
    }
    match (before, after) {
        (Some(before), Some(after)) => {
            for field in FIELDS {
                both(before, after, field);
            }
            // What is no Secret itself may have one in it.
            for side in [before, after] {
                if !is_secret(side) {
                    each(side);
                }
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

/// Envelopes have manifests in them.
fn nested(before: Option<&mut Value>, after: Option<&mut Value>) {
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            for (key, value) in before.iter_mut() {
                mask(Some(value), after.get_mut(key));
            }
            let new = after.iter_mut().filter(|(key, _)| !before.contains_key(*key));
            new.for_each(|(_, value)| mask(None, Some(value)));
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            let common = before.len().min(after.len());
            for (before, after) in before.iter_mut().zip(after.iter_mut()) {
                mask(Some(before), Some(after));
            }
            let rest = before.iter_mut().skip(common).chain(after.iter_mut().skip(common));
            rest.for_each(|value| mask(None, Some(value)));
        }
        (before, after) => before.into_iter().chain(after).for_each(each),
    }
}

/// What one side alone has.
fn each(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|value| mask(None, Some(value))),
        Value::Array(items) => items.iter_mut().for_each(|value| mask(None, Some(value))),
        _ => {}
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
    fn secrets_in_envelopes_are_hidden_too() {
        let envelope = |data: Value| json!({ "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope", "data": data });
        let own = |value: &str| secret(&json!({ "data": { "a": value } }));
        let mut before = envelope(json!({ "s": own("b25l"), "gone": own("Z29uZQ=="), "plain": { "a": "b" } }));
        let mut after = envelope(json!({ "s": own("dHdv"), "new": own("bmV3"), "plain": { "a": "c" } }));
        mask(Some(&mut before), Some(&mut after));
        assert_eq!(
            before,
            envelope(json!({ "s": own("*** (before)"), "gone": own("***"), "plain": { "a": "b" } }))
        );
        assert_eq!(
            after,
            envelope(json!({ "s": own("*** (after)"), "new": own("***"), "plain": { "a": "c" } }))
        );
        let mut new = envelope(json!({ "list": [own("bmV3")] }));
        mask(None, Some(&mut new));
        assert_eq!(new, envelope(json!({ "list": [own("***")] })));
        let (mut before, mut after) = (
            envelope(json!({ "a": [own("b25l")] })),
            envelope(json!({ "a": own("dHdv") })),
        );
        mask(Some(&mut before), Some(&mut after));
        assert!(!format!("{before}{after}").contains("b25l") && !format!("{after}").contains("dHdv"));
    }

    #[test]
    fn other_kinds_stay_as_they_are() {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "a": "b" } });
        let mut masked = map.clone();
        mask(Some(&mut masked), None);
        assert_eq!(masked, map);
    }
}
