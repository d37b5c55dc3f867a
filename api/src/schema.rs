//! From schemars' JSON Schema to the structural schema that Kubernetes accepts, and the pieces that the kinds' schemas
//! share.
//!
//! The types below have no values. Fields name them in `#[schemars(with = "…")]` where the Rust type's own schema is too
//! loose: k8s-openapi's `Condition` and `LabelSelector` know none of the limits that Kubernetes puts on them.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// Where a word enum keeps the meaning of its words until [`structural`] writes them into the description.
const WORDS: &str = "x-words";

/// The structural schema of `T`: everything inlined, no `nullable`, one `type` each.
///
/// A Rust `Option` says "may be absent", and so do we; we never publish `nullable`, so that an explicit `null` is
/// dropped by the API server as it is for every built-in kind.
pub(crate) fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

fn simplify(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    unwrap_option(schema);
    schema.remove("title");
    // Only scalars have defaults in this API; an empty list or object is how Rust says "absent".
    if schema
        .get("default")
        .is_some_and(|default| default.is_object() || default.is_array() || default.is_null())
    {
        schema.remove("default");
    }
    describe(schema);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(simplify);
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(inner) {
            simplify(inner);
        }
    }
}

/// Removes every way in which schemars says "or null".
fn unwrap_option(schema: &mut Map<String, Value>) {
    let null = json!({"type": "null"});
    if let Some(Value::Array(mut any_of)) = schema.remove("anyOf") {
        any_of.retain(|inner| *inner != null);
        assert_eq!(any_of.len(), 1, "only Option makes an anyOf here, not {any_of:?}");
        // What the field says wins over what its type says.
        if let Some(Value::Object(inner)) = any_of.pop() {
            for (key, value) in inner {
                schema.entry(key).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        assert_eq!(types.len(), 1, "a structural schema has one type, not {types:?}");
        let only = types.remove(0);
        schema.insert("type".into(), only);
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
}

/// Joins the lines of each paragraph, as `kubectl explain` breaks them itself, and lists what each word means.
fn describe(schema: &mut Map<String, Value>) {
    let words = schema.remove(WORDS);
    let Some(text) = schema.get("description").and_then(Value::as_str) else {
        return;
    };
    let mut paragraphs: Vec<String> = text
        .split("\n\n")
        .map(|paragraph| {
            paragraph
                .lines()
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
                .trim()
                .to_owned()
        })
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    if let Some(Value::Array(words)) = words {
        let lines: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        paragraphs.push(lines.join("\n"));
    }
    schema.insert("description".into(), paragraphs.join("\n\n").into());
}

/// The schema of a word enum. `listed` is false where the API leaves the field a free string.
pub(crate) fn words(description: &str, words: &[(&str, &str)], listed: bool) -> Schema {
    let meanings: Vec<_> = words
        .iter()
        .map(|(word, meaning)| format!("- {word}: {}", meaning.trim()))
        .collect();
    let mut schema = json_schema!({ "description": description.trim(), "type": "string", (WORDS): meanings });
    if listed {
        schema.insert("enum".into(), words.iter().map(|(word, _)| *word).collect());
    }
    schema
}

/// A CEL rule and what the user is told when it does not hold, as an element of `x-kubernetes-validations`.
pub(crate) fn rule(rule: &str, message: &str) -> Value {
    json!({ "rule": rule, "message": message })
}

macro_rules! schema_type {
    ($(#[doc = $doc:literal])* $name:ident, $generator:ident => $schema:expr) => {
        $(#[doc = $doc])*
        pub(crate) enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

schema_type! {
    /// One condition, with Kubernetes' own limits.
    Condition, _generator => json_schema!({
        "description": "One aspect of the object's current state.",
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "description": "When status last changed from one value to another.",
                "type": "string",
                "format": "date-time",
            },
            "message": {
                "description": "What happened, for people. May be empty.",
                "type": "string",
                "maxLength": 32768,
            },
            "observedGeneration": {
                "description": "The metadata.generation that this condition speaks of. If it is smaller than the object's \
                    current one, the condition is out of date.",
                "type": "integer",
                "format": "int64",
                "minimum": 0,
            },
            "reason": {
                "description": "Why status has its value, as one CamelCase word for programs.",
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "status": {
                "description": "Whether the aspect holds: True, False or Unknown.",
                "type": "string",
                "enum": ["True", "False", "Unknown"],
            },
            "type": {
                "description": "Which aspect this is, in CamelCase or in foo.example.com/CamelCase.",
                "type": "string",
                "maxLength": 316,
                "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?\
                    (([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
            },
        },
    })
}

schema_type! {
    /// Conditions that server-side apply replaces as a whole.
    ConditionList, generator => json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Condition>(),
    })
}

schema_type! {
    /// Conditions that server-side apply merges by type, so that writers do not fight.
    ConditionMap, generator => json_schema!({
        "type": "array",
        "items": generator.subschema_for::<Condition>(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    })
}

schema_type! {
    /// A label selector.
    LabelSelector, _generator => json_schema!({
        "description": "Selects objects by their labels. An empty selector selects everything.",
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements on labels, all of which must hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "description": "A requirement on the values of one label.",
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label's key.", "type": "string" },
                        "operator": {
                            "description": "How the label relates to values: In, NotIn, Exists or DoesNotExist.",
                            "type": "string",
                        },
                        "values": {
                            "description": "The values to compare with: at least one for In and NotIn, none for Exists and \
                                DoesNotExist.",
                            "type": "array",
                            "items": { "type": "string" },
                            "x-kubernetes-list-type": "atomic",
                        },
                    },
                },
            },
            "matchLabels": {
                "description": "Labels that must be there with exactly these values, in addition to matchExpressions.",
                "type": "object",
                "additionalProperties": { "type": "string" },
            },
        },
    })
}

schema_type! {
    /// A complete Kubernetes object of any kind.
    EmbeddedResource, _generator => json_schema!({
        "description": "A Kubernetes object of any kind, with apiVersion, kind and metadata.",
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

schema_type! {
    /// An object with any content.
    AnyObject, _generator => json_schema!({
        "description": "A Kubernetes object of any kind.",
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

schema_type! {
    /// Amounts by resource name.
    ResourceList, _generator => json_schema!({
        "type": "object",
        "additionalProperties": {
            "x-kubernetes-int-or-string": true,
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|\
                ([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        },
    })
}

schema_type! {
    /// Bytes, as base64.
    Bytes, _generator => json_schema!({ "type": "string", "format": "byte" })
}
