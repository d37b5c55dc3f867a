//! Lists, single objects, and which kinds there are.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    fault::refusal,
    objects::Objects,
    path::{Collection, Target, value},
};

/// A kind that is served.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) namespaced: bool,
    /// Whether its status is written by itself.
    pub(crate) status: bool,
}

/// The kinds that discovery names.
pub(crate) type Kinds = BTreeMap<Collection, Kind>;

/// The answer to a question about kinds.
pub(crate) fn discovery(kinds: &Kinds, path: &str) -> Option<Value> {
    match path {
        "/api" => Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] })),
        "/apis" => {
            let prefixes = kinds.keys().filter_map(|kind| kind.prefix.strip_prefix("/apis/"));
            let mut groups: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
            for (group, version) in prefixes.filter_map(|prefix| prefix.split_once('/')) {
                let entry = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
                let versions = groups.entry(group).or_default();
                if !versions.contains(&entry) {
                    versions.push(entry);
                }
            }
            let groups: Vec<Value> = groups
                .into_iter()
                .map(|(name, versions)| json!({ "name": name, "preferredVersion": versions[0], "versions": versions }))
                .collect();
            Some(json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups }))
        }
        _ => {
            let own = kinds.iter().filter(|(collection, _)| collection.prefix == path);
            let resources: Vec<Value> = own.flat_map(|(collection, kind)| entries(collection, kind)).collect();
            let version = path.strip_prefix("/apis/").or_else(|| path.strip_prefix("/api/"))?;
            (!resources.is_empty()).then(|| {
                json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources })
            })
        }
    }
}

fn entries(collection: &Collection, kind: &Kind) -> Vec<Value> {
    let entry = |name: String, verbs: &[&str]| json!({ "name": name, "singularName": "", "kind": kind.name, "namespaced": kind.namespaced, "verbs": verbs });
    let plural = collection.plural.clone();
    let status = kind
        .status
        .then(|| entry(format!("{plural}/status"), &["get", "patch", "update"]));
    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    [entry(plural, &verbs)].into_iter().chain(status).collect()
}

/// One object, or a list.
pub(crate) fn read(objects: &Objects, target: &Target, query: &str, metadata_only: bool) -> (u16, Value) {
    let shown = |object: &Value| {
        if metadata_only {
            metadata(object)
        } else {
            object.clone()
        }
    };
    if let Some(place) = target.place() {
        return match objects.all.get(&place) {
            Some(object) => (200, shown(object)),
            None => refusal(404, "no such object", Some(&place.name)),
        };
    }
    let limit: usize = value(query, "limit").and_then(|text| text.parse().ok()).unwrap_or(0);
    let begin: usize = value(query, "continue").and_then(|text| text.parse().ok()).unwrap_or(0);
    let found: Vec<Value> = objects
        .all
        .iter()
        .filter(|(place, object)| target.has(place) && is_selected(object, query))
        .map(|(_, object)| shown(object))
        .collect();
    let end = if limit == 0 {
        found.len()
    } else {
        found.len().min(begin + limit)
    };
    let mut meta = json!({ "resourceVersion": objects.version.to_string() });
    if end < found.len() {
        meta["continue"] = json!(end.to_string());
        meta["remainingItemCount"] = json!(found.len() - end);
    }
    let items = found.get(begin..end).unwrap_or_default();
    let kind = if metadata_only {
        "PartialObjectMetadataList"
    } else {
        "List"
    };
    let version = if metadata_only { "meta.k8s.io/v1" } else { "v1" };
    (
        200,
        json!({ "apiVersion": version, "kind": kind, "metadata": meta, "items": items }),
    )
}

/// What clients get that ask for metadata alone.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object["metadata"] })
}

/// Whether an object is one of those that a list, a watch or a deletion is about.
pub(crate) fn is_selected(object: &Value, query: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    let by_labels = value(query, "labelSelector").is_none_or(|selector| {
        let mut terms = selector.split(',').filter(|term| !term.is_empty());
        terms.all(
            |term| match (term.strip_prefix('!'), term.split_once("!="), term.split_once('=')) {
                (Some(absent), ..) => labels[absent].is_null(),
                (_, Some((key, value)), _) => labels[key] != value,
                (_, _, Some((key, value))) => labels[key.trim_end_matches('=')] == value.trim_start_matches('='),
                _ => !labels[term].is_null(),
            },
        )
    });
    let by_fields = value(query, "fieldSelector").is_none_or(|selector| {
        let found = |field: &str| object.pointer(&format!("/{}", field.replace('.', "/")));
        let mut terms = selector.split(',').filter(|term| !term.is_empty());
        terms.all(|term| match (term.split_once("!="), term.split_once('=')) {
            (Some((field, value)), _) => found(field).is_none_or(|found| found != value),
            (_, Some((field, value))) => found(field).is_some_and(|found| found == value),
            _ => false,
        })
    });
    by_labels && by_fields
}
