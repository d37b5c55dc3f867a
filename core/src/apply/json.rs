//! Reading untyped objects without tripping over their shape.
//!
//! Manifests and live objects are arbitrary JSON: every accessor here answers for a wrong shape as for an absent field.

use serde_json::{Map, Value};

/// The value at `path`, where every step is an object's key.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The text at `path`; empty if there is none.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at `path`. A float without a fraction is one too: another writer's encoder may not know the difference.
pub(crate) fn integer(value: &Value, path: &[&str]) -> Option<i64> {
    let value = at(value, path)?;
    value.as_i64().or_else(|| whole(value.as_f64()?))
}

/// The elements of the list at `path`; none if it is not a list.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The object at `path`, which is made, parents included, where something else or nothing stands.
pub(crate) fn object_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut here = as_object_mut(value);
    for key in path {
        here = as_object_mut(here.entry(*key).or_insert(Value::Null));
    }
    here
}

/// The existing object at `path`.
pub(crate) fn existing_object_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    path.iter()
        .try_fold(value, |value, key| value.get_mut(key))?
        .as_object_mut()
}

fn as_object_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made an object")
}

/// Whether two values are the same JSON, where `1` and `1.0` are the same number.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => {
            a == b || a.as_f64() == b.as_f64() && a.as_i64() == b.as_i64() || {
                // An integer on one side and a float on the other.
                let as_int = |v: &Value| v.as_i64().or_else(|| whole(v.as_f64()?));
                as_int(a).is_some() && as_int(a) == as_int(b)
            }
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Keys of both objects, each once, in bytewise order.
pub(crate) fn keys_of_both<'a>(a: &'a Map<String, Value>, b: &'a Map<String, Value>) -> Vec<&'a str> {
    let mut keys: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// An API's `metadata.generation`; 0 for kinds that have none.
pub(crate) fn generation(object: &Value) -> i64 {
    integer(object, &["metadata", "generation"]).unwrap_or_default()
}

/// The integer that `float` stands for, if it has no fraction and fits.
#[allow(clippy::cast_possible_truncation, reason = "the range is checked first")]
pub(crate) fn whole(float: f64) -> Option<i64> {
    /// The first float above all `i64`.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    (float.fract() == 0.0 && (-LIMIT..LIMIT).contains(&float)).then_some(float as i64)
}

/// Whether all of `part` is in `whole`.
pub(super) fn is_part(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Object(part), Value::Object(whole)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|other| is_part(value, other))),
        _ => part == whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn wrong_shapes_read_as_absent() {
        let odd = json!({"metadata": [1], "spec": {"replicas": "three", "n": 2.0}});
        assert_eq!(text(&odd, &["metadata", "name"]), "");
        assert_eq!(integer(&odd, &["spec", "replicas"]), None);
        assert_eq!(integer(&odd, &["spec", "n"]), Some(2));
        assert!(list(&odd, &["spec"]).is_empty());
        assert_eq!(generation(&Value::Null), 0);
    }

    #[test]
    fn numbers_are_the_same_by_value() {
        assert!(same(&json!(1), &json!(1.0)));
        assert!(same(&json!([{"a": 0}]), &json!([{"a": -0.0}])));
        assert!(!same(&json!(1), &json!(1.5)));
        assert!(!same(
            &json!(9_007_199_254_740_993_i64),
            &json!(9_007_199_254_740_992_i64)
        ));
        assert!(!same(&json!(1), &json!("1")));
        assert!(!same(&json!({"a": null}), &json!({})));
    }

    #[test]
    fn an_object_is_made_where_something_else_stands() {
        let mut value = json!({"metadata": 7});
        object_mut(&mut value, &["metadata", "labels"]).insert("a".into(), json!("b"));
        assert_eq!(value, json!({"metadata": {"labels": {"a": "b"}}}));
    }
}
