//! Golden cases, and the laws of the merge.
//!
//! The golden cases are data (`tests/golden/merge/*.json`), so that the same cases can be put to a real API server.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::path::Path;

use super::*;
use crate::apply::json::same;

/// What an API server does with a strategic merge patch, written from its documentation and on its own, so that a
/// mistake in `patch` cannot hide in it.
fn serve(live: &Value, patch: &Value, rules: &Rules) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let mut out = live.as_object().cloned().unwrap_or_default();
    if let Some(retain) = patch.get("$retainKeys") {
        let keys: Vec<&str> = retain.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(
            patch
                .iter()
                .all(|(k, v)| k.starts_with('$') || v.is_null() || keys.contains(&k.as_str()))
        );
        out.retain(|key, _| keys.contains(&key.as_str()));
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        match (out.get(key), value) {
            (_, Value::Null) => {
                out.remove(key);
            }
            (Some(now @ Value::Object(_)), Value::Object(_)) if !rules.field(key).replace => {
                let merged = serve(now, value, rules.field(key));
                out.insert(key.clone(), merged);
            }
            (Some(Value::Array(now)), Value::Array(items)) => {
                let merged = serve_list(now, items, rules.field(key));
                out.insert(key.clone(), Value::Array(merged));
            }
            _ => {
                out.insert(key.clone(), value.clone());
            }
        }
    }
    for (key, value) in patch {
        if let Some(key) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().unwrap();
            out[key].as_array_mut().unwrap().retain(|item| !gone.contains(item));
        }
    }
    for (key, value) in patch {
        if let Some(key) = key.strip_prefix("$setElementOrder/") {
            let order = value.as_array().unwrap();
            let merge_key = match &rules.field(key).list {
                rules::ListRule::Keyed { key, .. } => Some(key.clone()),
                _ => None,
            };
            let id = |item: &Value| merge_key.as_ref().map_or_else(|| item.clone(), |key| item[key].clone());
            let rank = |item: &Value| order.iter().position(|o| id(o) == id(item));
            let list = out[key].as_array_mut().unwrap();
            // Every element is listed in the orders that we send.
            assert!(list.iter().all(|item| rank(item).is_some()), "{list:?} {order:?}");
            list.sort_by_key(rank);
        }
    }
    Value::Object(out)
}

fn serve_list(now: &[Value], items: &[Value], rules: &Rules) -> Vec<Value> {
    match &rules.list {
        rules::ListRule::Replace => items.to_vec(),
        rules::ListRule::Set => items
            .iter()
            .filter(|item| !now.contains(item))
            .chain(now)
            .cloned()
            .collect(),
        rules::ListRule::Keyed { key, .. } => {
            if items.first().is_some_and(|item| item["$patch"] == "replace") {
                return items[1..].to_vec();
            }
            let mut out = now.to_vec();
            for item in items {
                let at = out.iter().position(|other| other[key] == item[key]);
                match (at, item.get("$patch")) {
                    (Some(at), Some(_)) => {
                        out.remove(at);
                    }
                    (Some(at), None) => {
                        out[at] = serve(&out[at], item, &rules.element());
                    }
                    // New elements come first, unless an order is given.
                    (None, None) => out.insert(0, item.clone()),
                    (None, Some(_)) => {}
                }
            }
            out
        }
    }
}

fn apply(live: &Value, patch: Option<&Patch>, rules: Option<&Rules>) -> Value {
    let Some(patch) = patch else { return live.clone() };
    match patch.style {
        Style::Strategic => serve(live, &patch.body, rules.unwrap()),
        // A JSON merge patch is a strategic one that knows no rules.
        Style::Json => serve(live, &patch.body, &Rules::default()),
    }
}

#[test]
fn golden_cases() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/merge");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 10, "the golden cases are there");
    for file in files {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let word = |key: &str| case["gvk"][key].as_str().unwrap();
        let rules = Rules::from_openapi(&case["schema"], word("group"), word("version"), word("kind"));
        assert_eq!(json!(rules.is_some()), case["strategic"], "{name}");
        let base = if case["original"].is_null() {
            String::new()
        } else {
            case["original"].to_string()
        };
        let patch = create(&base, &case["modified"], &case["live"], rules.as_ref()).unwrap();
        if let Some(expected) = case.get("patch") {
            assert_eq!(
                patch.as_ref().map_or(&Value::Null, |patch| &patch.body),
                expected,
                "{name}"
            );
        }
        let merged = apply(&case["live"], patch.as_ref(), rules.as_ref());
        assert_eq!(merged, case["expected"], "{name}");
        let again = create(
            &case["modified"].to_string(),
            &case["modified"],
            &merged,
            rules.as_ref(),
        )
        .unwrap();
        assert_eq!(again, None, "{name}: applying again changes nothing");
    }
}

#[test]
fn a_garbled_base_is_none() {
    let (manifest, live) = (json!({"a": 1}), json!({"b": 2}));
    assert_eq!(create("{", &manifest, &live, None), create("", &manifest, &live, None));
}

#[test]
fn a_patch_never_makes_another_object() {
    let live = json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}});
    for (name, manifest) in [
        ("apiVersion", json!({"apiVersion": "v2"})),
        ("kind", json!({"kind": "B"})),
        ("metadata.name", json!({"metadata": {"name": "b"}})),
    ] {
        assert_eq!(create("", &manifest, &live, None), Err(Error::Identity(name)));
    }
}

#[test]
fn a_plain_merge_keeps_other_owners_under_a_lock() {
    let live = json!({"metadata": {"ownerReferences": [{"uid": "other"}], "finalizers": ["theirs"]}});
    let manifest = json!({"metadata": {"ownerReferences": [{"uid": "ours"}], "finalizers": ["mine"]}});
    let patch = create("", &manifest, &live, None).unwrap().unwrap();
    assert!(patch.locked);
    let expected = json!({"ownerReferences": [{"uid": "other"}, {"uid": "ours"}], "finalizers": ["theirs", "mine"]});
    assert_eq!(patch.body["metadata"], expected);
    let labels = create("", &json!({"metadata": {"labels": {"a": "b"}}}), &live, None)
        .unwrap()
        .unwrap();
    assert!(!labels.locked);
}

#[test]
fn finalizers_that_leave_the_manifest_go_and_those_of_others_stay() {
    let base = json!({"metadata": {"finalizers": ["ours", "gone"]}}).to_string();
    let live = json!({"metadata": {"finalizers": ["theirs", "ours"]}});
    let plain = create(&base, &json!({"metadata": {}}), &live, None).unwrap().unwrap();
    assert!(plain.locked);
    assert_eq!(plain.body, json!({"metadata": {"finalizers": ["theirs"]}}));
    let strategic = create(&base, &json!({"metadata": {}}), &live, Some(&made_up_rules()))
        .unwrap()
        .unwrap();
    assert_eq!(
        strategic.body,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["ours"]}})
    );
    // Nobody else's is left.
    let live = json!({"metadata": {"finalizers": ["ours"]}});
    let last = create(&base, &json!({"metadata": {}}), &live, None).unwrap().unwrap();
    assert_eq!(last.body, json!({"metadata": {"finalizers": null}}));
    // What was never ours is never touched.
    assert_eq!(create("{}", &json!({"metadata": {}}), &live, None).unwrap(), None);
}

/// Rules for made-up objects: `k` lists by name with nested ones, `s` sets, `u` unions, `r` replaced maps.
fn made_up_rules() -> Rules {
    let document = json!({"components": {"schemas": {"T": {
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "T"}],
        "properties": {
            "k": {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                  "x-kubernetes-list-map-keys": ["name", "b"],
                  "items": {"$ref": "#/components/schemas/T"}},
            "s": {"x-kubernetes-patch-strategy": "merge"},
            "u": {"x-kubernetes-patch-strategy": "retainKeys", "$ref": "#/components/schemas/T"},
            "r": {"x-kubernetes-patch-strategy": "replace"},
            "m": {"$ref": "#/components/schemas/T"},
        },
    }}}});
    Rules::from_openapi(&document, "", "v1", "T").unwrap()
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0..3i64).prop_map(Value::from),
        "[xy]".prop_map(Value::from),
        any::<bool>().prop_map(Value::from)
    ]
}

/// Objects of the made-up kind; `nulls` for manifests, which may ask for absence.
fn made_up(nulls: bool) -> BoxedStrategy<Value> {
    let leaf = if nulls {
        prop_oneof![4 => scalar(), 1 => Just(Value::Null)].boxed()
    } else {
        scalar().boxed()
    };
    let empty = Just(json!({})).boxed();
    empty
        .prop_recursive(3, 24, 4, move |inner| {
            let leaf = leaf.clone();
            let element = ("[abc]", inner.clone()).prop_map(|(name, mut value)| {
                value["name"] = json!(name);
                value
            });
            let field = prop_oneof![
                ("[abc]", leaf.clone()).boxed(),
                (
                    Just("k".to_owned()),
                    prop::collection::vec(element, 0..4).prop_map(Value::from)
                )
                    .boxed(),
                (
                    Just("s".to_owned()),
                    prop::sample::subsequence(vec!["r", "p", "q"], 0..4).prop_map(|list| json!(list))
                )
                    .boxed(),
                (
                    Just("l".to_owned()),
                    prop::collection::vec(scalar(), 0..3).prop_map(Value::from)
                )
                    .boxed(),
                ("[umr]", inner).boxed(),
            ];
            prop::collection::vec(field, 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect()))
        })
        .boxed()
}

/// Any JSON at all.
pub(crate) fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        "[a-c]".boxed(),
        prop::sample::select(vec![
            "metadata", "spec", "status", "kind", "name", "k", "s", "u", "$patch", "data"
        ])
        .prop_map(str::to_owned)
        .boxed(),
    ];
    leaf.prop_recursive(4, 48, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key.clone(), inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
    .boxed()
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.clone(), without_nulls(v)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn the_patch_makes_the_target_and_then_there_is_none(
        base in made_up(false), manifest in made_up(false), live in made_up(false), strategic: bool,
    ) {
        let rules = made_up_rules();
        let rules = strategic.then_some(&rules);
        let patch = create(&base.to_string(), &manifest, &live, rules).unwrap();
        let merged = apply(&live, patch.as_ref(), rules);
        let metadata = Rules::metadata();
        let target = three_way(&base, &manifest, &live, rules.unwrap_or(&metadata));
        prop_assert!(same(&merged, &target), "{merged} is not {target}");
        let again = create(&manifest.to_string(), &manifest, &merged, rules).unwrap();
        prop_assert_eq!(again, None);
    }

    #[test]
    fn a_manifest_with_nulls_settles_too(base in made_up(true), manifest in made_up(true), live in made_up(false)) {
        let rules = made_up_rules();
        let patch = create(&base.to_string(), &manifest, &live, Some(&rules)).unwrap();
        // The API server forgets nulls, wherever they are.
        let merged = without_nulls(&apply(&live, patch.as_ref(), Some(&rules)));
        let manifest = without_nulls(&manifest);
        prop_assert_eq!(create(&manifest.to_string(), &manifest, &merged, Some(&rules)).unwrap(), None);
    }

    #[test]
    fn fields_that_only_others_set_survive(base in made_up(false), manifest in made_up(false), live in made_up(false)) {
        let rules = made_up_rules();
        let patch = create(&base.to_string(), &manifest, &live, Some(&rules)).unwrap();
        let merged = apply(&live, patch.as_ref(), Some(&rules));
        for (key, value) in live.as_object().unwrap() {
            if manifest.get(key).is_none() && base.get(key).is_none() {
                prop_assert_eq!(merged.get(key), Some(value));
            }
        }
    }

    #[test]
    fn no_json_is_too_odd(base in any_json(), manifest in any_json(), live in any_json(), document in any_json()) {
        let rules = made_up_rules();
        for rules in [None, Some(&rules), Rules::from_openapi(&document, "", "v1", "T").as_ref()] {
            let _ = create(&base.to_string(), &manifest, &live, rules);
        }
    }
}
