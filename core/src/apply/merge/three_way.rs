//! The object that a client-side apply makes of base, manifest and live object.
//!
//! What the manifest says wins; what the base said and the manifest no longer says goes; everything else on the live
//! object stays. The answer is the whole object, from which [`super::patch`] makes the smallest patch. (kubectl makes
//! two patches and merges those; the outcome is the same, and this way it can be looked at.)

use serde_json::{Map, Value};

use super::rules::{ListRule, Rules};
use crate::apply::json::same;

type Fields = Map<String, Value>;

/// `live` after `manifest` was applied to it, where `base` is the manifest of the time before.
pub fn three_way(base: &Value, manifest: &Value, live: &Value, rules: &Rules) -> Value {
    match (manifest, live) {
        (Value::Object(manifest), Value::Object(live)) => {
            let none = Fields::new();
            Value::Object(fields(base.as_object().unwrap_or(&none), manifest, live, rules))
        }
        _ => without_nulls(manifest),
    }
}

fn fields(base: &Fields, manifest: &Fields, live: &Fields, rules: &Rules) -> Fields {
    let mut merged = live.clone();
    // A union: what the manifest does not name cannot stay beside what it does.
    if rules.retain_keys {
        merged.retain(|key, _| manifest.get(key).is_some_and(|value| !value.is_null()));
    }
    for (key, before) in base.iter().filter(|(key, _)| !manifest.contains_key(*key)) {
        // Of a set, such as finalizers, only what the base had: the rest is others'.
        let others = match (&rules.field(key).list, before, merged.remove(key)) {
            (ListRule::Set, Value::Array(before), Some(Value::Array(live))) => set(before, &[], &live),
            _ => Vec::new(),
        };
        if !others.is_empty() {
            merged.insert(key.clone(), Value::Array(others));
        }
    }
    for (key, wanted) in manifest {
        if wanted.is_null() {
            merged.remove(key);
        } else {
            let value = value(
                base.get(key).unwrap_or(&Value::Null),
                wanted,
                live.get(key),
                rules.field(key),
            );
            merged.insert(key.clone(), value);
        }
    }
    merged
}

fn value(base: &Value, wanted: &Value, live: Option<&Value>, rules: &Rules) -> Value {
    match (wanted, live) {
        (Value::Object(_), Some(live @ Value::Object(_))) if !rules.replace => three_way(base, wanted, live, rules),
        (Value::Array(wanted), Some(Value::Array(live))) => {
            let base = base.as_array().map_or(&[][..], Vec::as_slice);
            Value::Array(match &rules.list {
                // As it stands: in a list that is taken whole, a null may carry meaning.
                ListRule::Replace => wanted.clone(),
                ListRule::Set => set(base, wanted, live),
                ListRule::Keyed { key, identity } => keyed(base, wanted, live, key, identity, rules),
            })
        }
        _ => without_nulls(wanted),
    }
}

fn set(base: &[Value], wanted: &[Value], live: &[Value]) -> Vec<Value> {
    let mut first_of_each: Vec<Value> = Vec::new();
    for item in wanted {
        if !has(&first_of_each, item) {
            first_of_each.push(item.clone());
        }
    }
    let others = live
        .iter()
        .filter(|item| !has(wanted, item) && !has(base, item))
        .cloned()
        .collect();
    interleave(others, first_of_each, |item| live.iter().position(|l| same(l, item)))
}

fn has(list: &[Value], item: &Value) -> bool {
    list.iter().any(|other| same(other, item))
}

fn keyed(
    base: &[Value],
    wanted: &[Value],
    live: &[Value],
    key: &str,
    identity: &[(String, Value)],
    rules: &Rules,
) -> Vec<Value> {
    let Some(id) = Identity::of(&[base, wanted, live], key, identity) else {
        // Elements that cannot be told apart: the manifest's list is taken as a whole.
        return wanted.to_vec();
    };
    let find = |list: &[Value], item: &Value| list.iter().position(|other| id.same(other, item));
    let ours: Vec<Value> = wanted
        .iter()
        .map(|item| {
            let before = find(base, item).map_or(&Value::Null, |at| &base[at]);
            let now = find(live, item).map(|at| &live[at]);
            element(before, item, now, rules)
        })
        .collect();
    let others = live
        .iter()
        .filter(|item| find(wanted, item).is_none() && find(base, item).is_none())
        .cloned()
        .collect();
    interleave(others, ours, |item| find(live, item))
}

fn element(base: &Value, wanted: &Value, live: Option<&Value>, rules: &Rules) -> Value {
    let (Some(Value::Object(live)), Value::Object(wanted)) = (live, wanted) else {
        return without_nulls(wanted);
    };
    let none = Fields::new();
    Value::Object(fields(
        base.as_object().unwrap_or(&none),
        wanted,
        live,
        &rules.element(),
    ))
}

/// What tells the elements of a list apart.
pub(super) struct Identity<'a> {
    keys: Vec<(&'a str, Option<&'a Value>)>,
}

impl<'a> Identity<'a> {
    /// The merge key if it is unique in each list, else the full identity if that is, else nothing.
    pub(super) fn of(lists: &[&[Value]], key: &'a str, identity: &'a [(String, Value)]) -> Option<Self> {
        let by_key = Self {
            keys: vec![(key, None)],
        };
        let by_all = Self {
            keys: identity
                .iter()
                .map(|(name, default)| (name.as_str(), Some(default)))
                .collect(),
        };
        [by_key, by_all]
            .into_iter()
            .filter(|id| !id.keys.is_empty())
            .find(|id| lists.iter().all(|list| id.is_unique_in(list)))
    }

    /// Whether the merge key alone is enough, as the API server needs it to be.
    pub(super) fn is_merge_key(&self) -> bool {
        matches!(self.keys.as_slice(), [(_, None)])
    }

    pub(super) fn same(&self, a: &Value, b: &Value) -> bool {
        self.keys.iter().all(
            |(name, default)| match (part(a, name, *default), part(b, name, *default)) {
                (Some(a), Some(b)) => same(a, b),
                _ => false,
            },
        )
    }

    fn is_unique_in(&self, list: &[Value]) -> bool {
        list.iter().enumerate().all(|(i, item)| {
            // An element that is not even the same as itself lacks a key.
            self.same(item, item) && !list[..i].iter().any(|earlier| self.same(earlier, item))
        })
    }
}

fn part<'v>(item: &'v Value, name: &str, default: Option<&'v Value>) -> Option<&'v Value> {
    let found = item.as_object()?.get(name).filter(|value| !value.is_null());
    found
        .or(default)
        .filter(|value| !value.is_null() && !value.is_object() && !value.is_array())
}

/// Puts `ours`, in the manifest's order, between `others`, in the live order: another's element comes first where the
/// live list says so, and before what is new. This is the order that the API server makes of `$setElementOrder`.
fn interleave(others: Vec<Value>, ours: Vec<Value>, live_index: impl Fn(&Value) -> Option<usize>) -> Vec<Value> {
    let mut merged = Vec::with_capacity(others.len() + ours.len());
    let mut others = others.into_iter().peekable();
    for item in ours {
        let at = live_index(&item).unwrap_or(usize::MAX);
        while let Some(other) = others.next_if(|other| live_index(other).is_some_and(|before| before < at)) {
            merged.push(other);
        }
        merged.push(item);
    }
    merged.extend(others);
    merged
}

/// `null` in a manifest asks for absence, also where the API server would keep it.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}
