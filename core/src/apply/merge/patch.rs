//! The smallest patch that turns the live object into the wanted one.
//!
//! A strategic patch names only the list elements that change, so that what others do to their own elements between
//! our read and our write survives. A JSON merge patch has to send lists whole.

use serde_json::{Map, Value, json};

use super::rules::{ListRule, Rules};
use super::three_way::Identity;
use crate::apply::json::{keys_of_both, same};

type Fields = Map<String, Value>;

/// The content type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// `application/strategic-merge-patch+json`.
    Strategic,
    /// `application/merge-patch+json`.
    Json,
}

/// The patch from `live` to `target`; nothing if they do not differ. `null` and absent are one: the API server writes
/// `creationTimestamp: null` into pod templates, and a patch cannot tell it to do otherwise.
pub fn patch(live: &Value, target: &Value, rules: &Rules, style: Style) -> Option<Value> {
    let (Some(live), Some(target)) = (live.as_object(), target.as_object()) else {
        return (!same(live, target)).then(|| target.clone());
    };
    let patch = fields(live, target, rules, style);
    (!patch.is_empty()).then_some(Value::Object(patch))
}

fn fields(live: &Fields, target: &Fields, rules: &Rules, style: Style) -> Fields {
    let mut patch = Fields::new();
    let present = |fields: &'_ Fields, key: &str| fields.get(key).filter(|value| !value.is_null()).cloned();
    for key in keys_of_both(live, target) {
        match (present(live, key), present(target, key)) {
            (None, None) => {}
            (Some(_), None) => {
                patch.insert(key.into(), Value::Null);
            }
            (None, Some(wanted)) => {
                patch.insert(key.into(), wanted);
            }
            (Some(now), Some(wanted)) => value(key, &now, wanted, rules.field(key), style, &mut patch),
        }
    }
    if style == Style::Strategic && rules.retain_keys && !patch.is_empty() {
        // Protects the union from a member that somebody else sets in the meantime.
        let mut keys: Vec<&String> = target
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, _)| key)
            .collect();
        keys.sort_unstable();
        patch.insert("$retainKeys".into(), json!(keys));
    }
    patch
}

fn value(key: &str, now: &Value, wanted: Value, rules: &Rules, style: Style, patch: &mut Fields) {
    if same(now, &wanted) {
        return;
    }
    match (now, &wanted) {
        (Value::Object(now), Value::Object(wanted)) if style == Style::Json || !rules.replace => {
            let below = fields(now, wanted, rules, style);
            if !below.is_empty() {
                patch.insert(key.into(), Value::Object(below));
            }
        }
        (Value::Array(now), Value::Array(wanted_items)) if style == Style::Strategic => match &rules.list {
            ListRule::Replace => {
                patch.insert(key.into(), wanted);
            }
            ListRule::Set => set(key, now, wanted_items, patch),
            ListRule::Keyed {
                key: merge_key,
                identity,
            } => match Identity::of(&[now, wanted_items], merge_key, identity) {
                Some(id) if id.is_merge_key() => keyed(key, now, wanted_items, merge_key, &id, rules, patch),
                // The API server would mix up elements with equal merge keys.
                _ => {
                    let replace = std::iter::once(json!({"$patch": "replace"}));
                    patch.insert(key.into(), replace.chain(wanted_items.iter().cloned()).collect());
                }
            },
        },
        _ => {
            patch.insert(key.into(), wanted);
        }
    }
}

fn set(key: &str, now: &[Value], wanted: &[Value], patch: &mut Fields) {
    let has = |list: &[Value], item: &Value| list.iter().any(|other| same(other, item));
    let added: Vec<&Value> = wanted.iter().filter(|item| !has(now, item)).collect();
    let deleted: Vec<&Value> = now.iter().filter(|item| !has(wanted, item)).collect();
    let kept = now.iter().filter(|item| has(wanted, item));
    if !kept.eq(wanted) {
        patch.insert(format!("$setElementOrder/{key}"), json!(wanted));
    }
    if !deleted.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{key}"), json!(deleted));
    }
    if !added.is_empty() {
        patch.insert(key.into(), json!(added));
    }
}

fn keyed(
    key: &str,
    now: &[Value],
    wanted: &[Value],
    merge_key: &str,
    id: &Identity<'_>,
    rules: &Rules,
    patch: &mut Fields,
) {
    let rules_of_element = rules.element();
    let find = |list: &[Value], item: &Value| list.iter().position(|other| id.same(other, item));
    let mut changes: Vec<Value> = Vec::new();
    for item in wanted {
        match find(now, item).and_then(|at| now[at].as_object()).zip(item.as_object()) {
            Some((before, after)) => {
                let mut change = fields(before, after, &rules_of_element, Style::Strategic);
                if !change.is_empty() {
                    change.insert(merge_key.into(), item[merge_key].clone());
                    changes.push(Value::Object(change));
                }
            }
            None => changes.push(item.clone()),
        }
    }
    let deleted = now.iter().filter(|item| find(wanted, item).is_none());
    changes.extend(deleted.map(|item| json!({"$patch": "delete", merge_key: item[merge_key]})));
    // Without a word about order the API server keeps the live one, but puts what is new first.
    let kept: Vec<&Value> = now.iter().filter(|item| find(wanted, item).is_some()).collect();
    if kept.len() < wanted.len() || !kept.iter().zip(wanted).all(|(a, b)| id.same(a, b)) {
        let order: Vec<Value> = wanted.iter().map(|item| json!({merge_key: item[merge_key]})).collect();
        patch.insert(format!("$setElementOrder/{key}"), Value::Array(order));
    }
    if !changes.is_empty() {
        patch.insert(key.into(), Value::Array(changes));
    }
}
