//! Differences between the hub's and the member's side of an object, as people read them.

use std::borrow::Cow;

use fleet_api::placement::PatchDetail;
use serde_json::Value;

use super::canonical::number_text;
use super::json::{keys_of_both, same};

/// How many differences of one object are listed.
pub const DETAILS_MAX: usize = 100;
/// How much of one value is shown.
pub const VALUE_MAX_BYTES: usize = 1024;
/// Shown instead of a Secret's values.
pub const REDACTED: &str = "(redacted for security reasons)";
/// Shown as the hub's value when the member has no such object.
pub const WHOLE_OBJECT: &str = "(the whole object)";

/// The differences of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Differences {
    /// The first of them, at most [`DETAILS_MAX`].
    pub details: Vec<PatchDetail>,
    /// How many there are.
    pub total: usize,
    /// Found by full comparison because the API server considers the manifest invalid.
    pub degraded: bool,
}

impl Differences {
    /// The member does not have the object.
    pub fn absent() -> Self {
        let detail = PatchDetail {
            path: "/".into(),
            value_in_hub: WHOLE_OBJECT.into(),
            ..Default::default()
        };
        Self {
            details: vec![detail],
            total: 1,
            degraded: false,
        }
    }

    /// Says how much is left out, if anything is.
    pub fn cut_notice(&self) -> Option<String> {
        let shown = self.details.len();
        (shown < self.total).then(|| format!("{shown} of {} differences are listed", self.total))
    }
}

/// All differences from `hub` to `member`, in order of discovery. Arrays are compared by index, without alignment.
pub fn differences(hub: &Value, member: &Value) -> Differences {
    let mut finder = Finder {
        path: String::new(),
        secret: None,
        found: Differences::default(),
    };
    finder.compare(hub, member);
    finder.found
}

fn is_secret(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "Secret"
}

struct Finder {
    path: String,
    /// Where in the path a Secret begins: the object itself, or one that an envelope has in it.
    secret: Option<usize>,
    found: Differences,
}

impl Finder {
    fn compare(&mut self, hub: &Value, member: &Value) {
        let outer = self.secret;
        if is_secret(hub) || is_secret(member) {
            self.secret = Some(self.path.len());
        }
        self.compare_inside(hub, member);
        self.secret = outer;
    }

    fn compare_inside(&mut self, hub: &Value, member: &Value) {
        match (hub, member) {
            (Value::Object(h), Value::Object(m)) => {
                for key in keys_of_both(h, m) {
                    self.below(&escape(key), |finder| match (h.get(key), m.get(key)) {
                        (Some(hub), Some(member)) => finder.compare(hub, member),
                        (hub, member) => finder.report(hub, member),
                    });
                }
            }
            (Value::Array(h), Value::Array(m)) => {
                // Removals come first, as upstream lists them, but each under its own index.
                for (index, hub) in h.iter().enumerate().skip(m.len()) {
                    self.below(&index.to_string(), |finder| finder.report(Some(hub), None));
                }
                for (index, (hub, member)) in h.iter().zip(m).enumerate() {
                    self.below(&index.to_string(), |finder| finder.compare(hub, member));
                }
                for member in m.iter().skip(h.len()) {
                    self.below("-", |finder| finder.report(None, Some(member)));
                }
            }
            _ if same(hub, member) => {}
            _ => self.report(Some(hub), Some(member)),
        }
    }

    fn below(&mut self, step: &str, look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(step);
        look(self);
        self.path.truncate(length);
    }

    fn report(&mut self, hub: Option<&Value>, member: Option<&Value>) {
        self.found.total += 1;
        if self.found.details.len() == DETAILS_MAX {
            return;
        }
        let inside = self.secret.and_then(|begin| self.path.get(begin..)).unwrap_or_default();
        let hidden = inside.starts_with("/data") || inside.starts_with("/stringData");
        let show = |value: Option<&Value>| {
            let text = value.map(|value| value_text(&masked(value))).unwrap_or_default();
            if hidden && !text.is_empty() {
                REDACTED.to_owned()
            } else {
                text
            }
        };
        let (value_in_hub, value_in_member) = (show(hub), show(member));
        // A pointer to the root is empty, which the API does not show.
        let path = if self.path.is_empty() {
            "/".to_owned()
        } else {
            self.path.clone()
        };
        self.found.details.push(PatchDetail {
            path,
            value_in_member,
            value_in_hub,
        });
    }
}

/// A value without what Secrets in it hold.
fn masked(value: &Value) -> Cow<'_, Value> {
    if !holds_secret(value) {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    mask(&mut value);
    Cow::Owned(value)
}

fn holds_secret(value: &Value) -> bool {
    match value {
        Value::Object(fields) => is_secret(value) || fields.values().any(holds_secret),
        Value::Array(items) => items.iter().any(holds_secret),
        _ => false,
    }
}

fn mask(value: &mut Value) {
    let secret = is_secret(value);
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                if secret && (key == "data" || key == "stringData") {
                    *field = REDACTED.into();
                } else {
                    mask(field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        _ => {}
    }
}

/// A step of an RFC 6901 pointer.
fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// A value as upstream prints it, but with plain integers and no longer than [`VALUE_MAX_BYTES`].
fn value_text(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    if text.len() > VALUE_MAX_BYTES {
        let shown = &text[..text.floor_char_boundary(VALUE_MAX_BYTES)];
        text = format!("{shown}... ({} bytes in all)", text.len());
    }
    text
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push_str("map[");
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_value(out, &fields[key]);
            }
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::merge::tests::any_json;
    use proptest::prelude::*;
    use serde_json::json;

    fn shown(hub: &Value, member: &Value) -> Vec<(String, String, String)> {
        let found = differences(hub, member);
        found
            .details
            .into_iter()
            .map(|d| (d.path, d.value_in_hub, d.value_in_member))
            .collect()
    }

    fn rows(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
        rows.iter()
            .map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned()))
            .collect()
    }

    #[test]
    fn objects_by_key_in_bytewise_order() {
        let hub = json!({"b": 1, "a": {"x/y": "old", "t~": true}, "gone": null, "type": [1]});
        let member = json!({"b": 1_000_000.0, "a": {"x/y": "new", "t~": false}, "new": {"k": [1, "two"]}, "type": {}});
        let expected = [
            ("/a/t~0", "true", "false"),
            ("/a/x~1y", "old", "new"),
            ("/b", "1", "1000000"),
            ("/gone", "<nil>", ""),
            ("/new", "", "map[k:[1 two]]"),
            ("/type", "[1]", "map[]"),
        ];
        assert_eq!(shown(&hub, &member), rows(&expected));
    }

    #[test]
    fn arrays_by_index() {
        let shorter = [("/l/1", "b", ""), ("/l/2", "c", ""), ("/l/0", "a", "x")];
        assert_eq!(
            shown(&json!({"l": ["a", "b", "c"]}), &json!({"l": ["x"]})),
            rows(&shorter)
        );
        let longer = [("/l/0", "a", "x"), ("/l/-", "", "y"), ("/l/-", "", "z")];
        assert_eq!(
            shown(&json!({"l": ["a"]}), &json!({"l": ["x", "y", "z"]})),
            rows(&longer)
        );
    }

    #[test]
    fn a_list_of_ports_reads_as_upstream_prints_it() {
        let member = json!({"ports": [{"name": "http", "targetPort": 8080, "port": 80, "protocol": "TCP"}]});
        let expected = [("/ports", "", "[map[name:http port:80 protocol:TCP targetPort:8080]]")];
        assert_eq!(shown(&json!({}), &member), rows(&expected));
    }

    #[test]
    fn secrets_are_masked_and_their_paths_are_not() {
        let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data});
        let found = shown(
            &secret(json!({"a": "x", "e": ""})),
            &secret(json!({"a": "y", "b": "z", "e": "f"})),
        );
        let expected = [
            ("/data/a", REDACTED, REDACTED),
            ("/data/b", "", REDACTED),
            ("/data/e", "", REDACTED),
        ];
        assert_eq!(found, rows(&expected));
    }

    #[test]
    fn secrets_in_envelopes_are_masked_too() {
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"password": value}});
        let envelope = |data: Value| json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope", "data": data});
        let found = shown(
            &envelope(json!({"a": secret("b25l"), "gone": secret("Z29uZQ==")})),
            &envelope(json!({"a": secret("dHdv"), "plain": "text"})),
        );
        let redacted = format!("map[apiVersion:v1 data:{REDACTED} kind:Secret]");
        let expected = [
            ("/data/a/data/password", REDACTED, REDACTED),
            ("/data/gone", redacted.as_str(), ""),
            ("/data/plain", "", "text"),
        ];
        assert_eq!(found, rows(&expected));
        // Another kind instead is no way around it.
        let found = shown(&envelope(json!({"a": [secret("b25l")]})), &envelope(json!({"a": "x"})));
        assert!(!found[0].1.contains("b25l"), "{found:?}");
    }

    #[test]
    fn the_list_is_cut_and_says_so() {
        let many: Value = (0..250)
            .map(|i| (format!("k{i:03}"), json!(i)))
            .collect::<serde_json::Map<_, _>>()
            .into();
        let found = differences(&many, &json!({}));
        assert_eq!((found.details.len(), found.total), (100, 250));
        assert_eq!(found.cut_notice().unwrap(), "100 of 250 differences are listed");
        let long = differences(&json!({"a": "é".repeat(2000)}), &json!({"a": 1}));
        assert!(long.details[0].value_in_hub.ends_with("é... (4000 bytes in all)"));
        assert!(long.details[0].value_in_hub.len() < VALUE_MAX_BYTES + 32);
        assert_eq!(long.cut_notice(), None);
    }

    proptest! {
        #[test]
        fn equal_values_do_not_differ_and_different_ones_do(a in any_json(), b in any_json()) {
            prop_assert_eq!(differences(&a, &a), Differences::default());
            prop_assert_eq!(differences(&a, &b).total == 0, same(&a, &b));
        }
    }
}
