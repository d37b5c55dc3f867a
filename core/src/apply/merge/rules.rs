//! How the fields of a kind merge, taken from the API server's own OpenAPI v3 document.

use serde_json::Value;
use std::collections::BTreeMap;

use crate::apply::json::list;

/// How often a schema may contain itself (as JSON schema in CRDs does) before it is taken as plain.
const RECURSION_MAX: usize = 2;
/// Fields read of one kind, far more than any has: a hostile document must not take the agent's memory.
const FIELDS_MAX: usize = 100_000;
/// References followed from one field.
const PARTS_MAX: usize = 16;

/// How one field, and what is below it, merges. Only what differs from the default is kept, so the rules of a kind are
/// a small fraction of its schema.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// Rules of the named fields.
    fields: BTreeMap<String, Rules>,
    /// Rules of every other field of a map.
    values: Option<Box<Rules>>,
    /// Rules of a list's elements.
    items: Option<Box<Rules>>,
    /// How a list merges; lists without a strategy are replaced.
    pub(super) list: ListRule,
    /// A map in which keys that the manifest does not have are dropped (a union such as a Deployment's strategy).
    pub(super) retain_keys: bool,
    /// A map that is replaced as a whole.
    pub(super) replace: bool,
}

/// How a list merges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum ListRule {
    /// It is one value.
    #[default]
    Replace,
    /// It is a set of scalars.
    Set,
    /// Its elements are objects, told apart by this key.
    Keyed {
        /// The patch merge key.
        key: String,
        /// The full identity with defaults, for lists in which the merge key alone is not unique (`port` + `protocol`).
        identity: Vec<(String, Value)>,
    },
}

impl Rules {
    /// The rules of a kind, or none if it has none beyond its metadata, so that it merges as plain JSON: a custom
    /// resource, or a built-in kind where that makes no difference.
    ///
    /// `CustomResourceDefinition` and `APIService` never have any, as in upstream's client.
    pub fn from_openapi(document: &Value, group: &str, version: &str, kind: &str) -> Option<Self> {
        if matches!(
            (group, kind),
            ("apiextensions.k8s.io", "CustomResourceDefinition") | ("apiregistration.k8s.io", "APIService")
        ) {
            return None;
        }
        let schemas = document.get("components")?.get("schemas")?.as_object()?;
        let schema = schemas.values().find(|schema| {
            list(schema, &["x-kubernetes-group-version-kind"])
                .iter()
                .any(|gvk| gvk["group"] == group && gvk["version"] == version && gvk["kind"] == kind)
        })?;
        let mut rules = Reader::new(document).read(schema);
        rules.fields.remove("metadata");
        if rules.is_plain() {
            return None;
        }
        rules.fields.extend(Self::metadata().fields);
        Some(rules)
    }

    /// The rules that hold for the metadata of every kind: owners and finalizers of others survive.
    pub fn metadata() -> Self {
        let owners = ListRule::Keyed {
            key: "uid".into(),
            identity: Vec::new(),
        };
        let metadata = Self {
            fields: BTreeMap::from([
                (
                    "ownerReferences".to_owned(),
                    Self {
                        list: owners,
                        ..Self::default()
                    },
                ),
                (
                    "finalizers".to_owned(),
                    Self {
                        list: ListRule::Set,
                        ..Self::default()
                    },
                ),
            ]),
            ..Self::default()
        };
        Self {
            fields: BTreeMap::from([("metadata".to_owned(), metadata)]),
            ..Self::default()
        }
    }

    /// The rules of the field `key`.
    pub(super) fn field(&self, key: &str) -> &Self {
        self.fields.get(key).or(self.values.as_deref()).unwrap_or(&PLAIN)
    }

    /// The rules of a list's elements.
    fn items(&self) -> &Self {
        self.items.as_deref().unwrap_or(&PLAIN)
    }

    /// The rules of one object in a list of them: the list's own `retainKeys` speaks of its elements.
    pub(super) fn element(&self) -> Self {
        Self {
            retain_keys: self.retain_keys,
            ..self.items().clone()
        }
    }

    fn is_plain(&self) -> bool {
        *self == PLAIN
    }
}

/// What no schema speaks of: maps merge, everything else is replaced.
static PLAIN: Rules = Rules {
    fields: BTreeMap::new(),
    values: None,
    items: None,
    list: ListRule::Replace,
    retain_keys: false,
    replace: false,
};

struct Reader<'a> {
    document: &'a Value,
    /// Every schema from the root down to here, by address.
    path: Vec<*const Value>,
    fields_left: usize,
}

impl<'a> Reader<'a> {
    fn new(document: &'a Value) -> Self {
        Self {
            document,
            path: Vec::new(),
            fields_left: FIELDS_MAX,
        }
    }

    fn read(&mut self, schema: &'a Value) -> Rules {
        let mut rules = Rules::default();
        let parts = parts(self.document, schema);
        // The last part is what a chain of references ends at, the only one that can be met again further down.
        let node = parts
            .last()
            .map_or(std::ptr::from_ref(schema), |part| std::ptr::from_ref(*part));
        let nested = self.path.iter().filter(|above| **above == node).count();
        if nested > RECURSION_MAX || self.fields_left == 0 {
            return rules;
        }
        self.fields_left -= 1;
        self.path.push(node);
        for part in parts {
            for (name, field) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
                let field = self.read(field);
                if !field.is_plain() {
                    rules.fields.insert(name.clone(), field);
                }
            }
            for (name, slot) in [("additionalProperties", &mut rules.values), ("items", &mut rules.items)] {
                if let Some(found) = part
                    .get(name)
                    .map(|below| self.read(below))
                    .filter(|found| !found.is_plain())
                {
                    *slot = Some(Box::new(found));
                }
            }
            let strategy = part
                .get("x-kubernetes-patch-strategy")
                .and_then(Value::as_str)
                .unwrap_or_default();
            for word in strategy.split(',') {
                match word {
                    "retainKeys" => rules.retain_keys = true,
                    "replace" => rules.replace = true,
                    "merge" => rules.list = list_rule(self.document, part),
                    _ => {}
                }
            }
        }
        self.path.pop();
        rules
    }
}

fn list_rule(document: &Value, schema: &Value) -> ListRule {
    let Some(key) = schema.get("x-kubernetes-patch-merge-key").and_then(Value::as_str) else {
        return ListRule::Set;
    };
    let default = |name: &str| {
        let items = schema.get("items")?;
        parts(document, items)
            .into_iter()
            .find_map(|part| part.get("properties")?.get(name)?.get("default"))
            .cloned()
    };
    let identity = list(schema, &["x-kubernetes-list-map-keys"])
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), default(name).unwrap_or(Value::Null)))
        .collect();
    ListRule::Keyed {
        key: key.to_owned(),
        identity,
    }
}

/// A schema and everything that it refers to. A field's own extensions stand beside its reference.
fn parts<'a>(document: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let mut parts = vec![schema];
    let mut next = 0;
    // References can form a ring in a hostile document.
    while next < parts.len() && parts.len() < PARTS_MAX {
        let part = parts[next];
        next += 1;
        let reference = part
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|path| path.strip_prefix("#"));
        parts.extend(reference.and_then(|path| document.pointer(path)));
        parts.extend(list(part, &["allOf"]));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({"components": {"schemas": {
            "Deployment": {
                "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
                "properties": {
                    "metadata": {"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}]},
                    "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}]},
                },
            },
            "Custom": {
                "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v1", "kind": "Custom"}],
                "properties": {"metadata": {"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}]}},
            },
            "ObjectMeta": {"properties": {"finalizers": {"x-kubernetes-patch-strategy": "merge"}}},
            "Spec": {"properties": {
                "strategy": {"allOf": [{"$ref": "#/components/schemas/Strategy"}], "x-kubernetes-patch-strategy": "retainKeys"},
                "volumes": {
                    "items": {"allOf": [{"$ref": "#/components/schemas/Volume"}]},
                    "x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge,retainKeys",
                },
                "ports": {
                    "items": {"properties": {"protocol": {"default": "TCP"}}},
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "x-kubernetes-patch-merge-key": "port", "x-kubernetes-patch-strategy": "merge",
                },
                "args": {"items": {"type": "string"}},
                "again": {"$ref": "#/components/schemas/Spec"},
            }},
            "Strategy": {"$ref": "#/components/schemas/Strategy"},
            "Volume": {"properties": {}},
        }}})
    }

    #[test]
    fn rules_follow_references_and_end_in_rings() {
        let rules = Rules::from_openapi(&document(), "apps", "v1", "Deployment").unwrap();
        let spec = rules.field("spec");
        assert!(spec.field("strategy").retain_keys);
        assert_eq!(spec.field("args"), &PLAIN);
        let volumes = spec.field("again").field("volumes");
        assert!(volumes.retain_keys);
        assert_eq!(
            volumes.list,
            ListRule::Keyed {
                key: "name".into(),
                identity: vec![]
            }
        );
        let identity = vec![("port".to_owned(), Value::Null), ("protocol".to_owned(), json!("TCP"))];
        assert_eq!(
            spec.field("ports").list,
            ListRule::Keyed {
                key: "port".into(),
                identity
            }
        );
        assert_eq!(rules.field("metadata").field("finalizers").list, ListRule::Set);
    }

    #[test]
    fn a_kind_with_rules_in_its_metadata_only_has_none() {
        assert_eq!(Rules::from_openapi(&document(), "example.com", "v1", "Custom"), None);
        assert_eq!(Rules::from_openapi(&document(), "apps", "v2", "Deployment"), None);
        assert_eq!(Rules::from_openapi(&Value::Null, "apps", "v1", "Deployment"), None);
    }
}
