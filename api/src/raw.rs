//! JSON that we carry but do not look into.
//!
//! Manifests, snapshots of selected resources and the like stay the text that the API server sent: a parsed tree takes
//! ten times the memory and loses nothing but time. Such a field decodes only straight from JSON text or from a
//! `serde_json::Value`; decoders that buffer into another form (kube's `DeserializeGuard`, `#[serde(flatten)]`, YAML)
//! refuse it. Read YAML into a `Value` first, and use [`Guarded`](crate::guard::Guarded) for watches.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Any JSON value, kept as text. A clone shares the text: what a snapshot, a rendering and a request have of one object is
/// held once.
#[derive(Clone)]
pub struct RawJson(Arc<RawValue>);

impl RawJson {
    /// Takes text that must be JSON.
    pub fn from_text(text: String) -> serde_json::Result<Self> {
        RawValue::from_string(text).map(|text| Self(text.into()))
    }

    /// Writes `value` as JSON.
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(|text| Self(text.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Reads the value as a `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_str(self.as_str())
    }

    /// The value as a tree, for code that has to look into it.
    pub fn to_value(&self) -> Value {
        self.parse().expect("a RawJson holds only checked JSON")
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|text| Self(text.into()))
    }
}

impl From<&Value> for RawJson {
    fn from(value: &Value) -> Self {
        Self::from_serialize(value).expect("a Value is JSON")
    }
}

impl From<Value> for RawJson {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

/// By content: the API server returns our objects with other spacing and order of keys than we sent.
impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str() || self.to_value() == other.to_value()
    }
}

impl fmt::Debug for RawJson {
    /// Only the size: manifests may be Secrets, and `{:?}` ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.as_str().len())
    }
}

impl JsonSchema for RawJson {
    fn schema_name() -> Cow<'static, str> {
        "RawJson".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
    }
}

/// Decodes an optional value for which `null` is a value like any other.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_survives_as_it_is() {
        let text = r#"{"b": 1.0, "a":[null, 12345678901234567890]}"#;
        let raw: RawJson = serde_json::from_str(text).unwrap();
        assert_eq!(raw.as_str(), text);
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
    }

    #[test]
    fn a_value_decodes_too() {
        let value = json!({ "a": [1, null], "b": "x" });
        let raw: RawJson = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(raw.to_value(), value);
        assert_eq!(raw, RawJson::from(&value));
    }

    #[test]
    fn equality_is_by_content() {
        let one = RawJson::from_text(r#"{"a":1,"b":[2,3]}"#.into()).unwrap();
        let same = RawJson::from_text("{ \"b\": [2, 3],\n \"a\": 1 }".into()).unwrap();
        let other = RawJson::from_text(r#"{"a":1,"b":[3,2]}"#.into()).unwrap();
        assert_eq!(one, same);
        assert_ne!(one, other);
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
        assert!(RawJson::from_text("{".into()).is_err());
    }

    #[test]
    fn debug_shows_no_content() {
        let secret = RawJson::from(json!({ "data": { "password": "hunter2" } }));
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
