//! What a file would change.

use std::{io::Read as _, path::PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use fleet_api::{names::PlacementKey, placement::GROUP};
use fleet_core::selection::ObjectId;
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, Patch, PatchParams},
};
use serde_json::Value;

use super::kinds::Kinds;

/// Who tries the objects out. What they write is thrown away.
const FIELD_MANAGER: &str = "kubectl-fleet-plan";
/// No file of manifests is longer.
const FILE_MAX: u64 = 64 * 1024 * 1024;

/// Objects as somebody wrote them.
#[derive(Debug, Default)]
pub(super) struct Manifests(Vec<Value>);

/// An object as it would be.
#[derive(Debug, Clone)]
pub(super) struct Object {
    pub(super) id: ObjectId,
    pub(super) value: Value,
}

impl Manifests {
    /// Those of all files, in order.
    pub(super) fn read(files: &[PathBuf]) -> Result<Self> {
        let mut all = Vec::new();
        for file in files {
            let mut text = String::new();
            let shown = file.display();
            if file.as_os_str() == "-" {
                let read = std::io::stdin().take(FILE_MAX).read_to_string(&mut text);
                read.context("cannot read stdin")?;
            } else {
                let opened = std::fs::File::open(file).with_context(|| format!("cannot open {shown}"))?;
                let read = opened.take(FILE_MAX).read_to_string(&mut text);
                read.with_context(|| format!("cannot read {shown}"))?;
            }
            all.extend(
                Self::parse(&text)
                    .with_context(|| format!("{shown} holds no manifests"))?
                    .0,
            );
        }
        Ok(Self(all))
    }

    /// YAML documents, or JSON. Lists are taken apart.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
        let mut all = Vec::new();
        for document in documents {
            if document.is_null() {
                continue;
            }
            match document.get("items").and_then(Value::as_array) {
                Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                    all.extend(items.iter().cloned());
                }
                _ => all.push(document),
            }
        }
        for object in &all {
            let has = |field: &str| object[field].as_str().is_some_and(|text| !text.is_empty());
            ensure!(
                has("apiVersion") && has("kind") && object["metadata"]["name"].is_string(),
                "an object without apiVersion, kind or metadata.name: {}",
                object.to_string().chars().take(80).collect::<String>()
            );
        }
        Ok(Self(all))
    }

    /// The only placement in the files.
    pub(super) fn placement(&self, namespace: Option<&str>) -> Result<PlacementKey> {
        let is_placement = |object: &&Value| matches!(id(object), Some(id) if placement_scope(&id).is_some());
        let placements: Vec<_> = self.0.iter().filter(is_placement).filter_map(id).collect();
        match placements.as_slice() {
            [one] => {
                let own = Some(one.namespace.as_str()).filter(|own| !own.is_empty());
                let namespace = match placement_scope(one) {
                    Some(true) => Some(own.or(namespace).unwrap_or("default")),
                    _ => None,
                };
                Ok(PlacementKey::new(namespace, &one.name)?)
            }
            [] => bail!("the files hold no placement: name the one that selects what is in them"),
            several => {
                let names: Vec<_> = several.iter().map(|id| id.name.as_str()).collect();
                bail!(
                    "the files hold several placements ({}): name one of them",
                    names.join(", ")
                )
            }
        }
    }

    /// The objects as the API server would complete them; those that it cannot try out, as they are written, with a note.
    pub(super) async fn tried(
        &self,
        client: &Client,
        kinds: &Kinds,
        default_namespace: &str,
        notes: &mut Vec<String>,
    ) -> Result<Vec<Object>> {
        let mut all = Vec::new();
        for written in &self.0 {
            let Some(mut id) = id(written) else { continue };
            let Some(served) = kinds.get(&id) else {
                notes.push(format!(
                    "the hub does not serve {} {}: taken as it is written",
                    id.api_version(),
                    id.kind
                ));
                all.push(Object {
                    id,
                    value: written.clone(),
                });
                continue;
            };
            if !served.cluster_scoped && id.namespace.is_empty() {
                default_namespace.clone_into(&mut id.namespace);
            }
            let mut written = written.clone();
            if !id.namespace.is_empty() {
                written["metadata"]["namespace"] = id.namespace.clone().into();
            }
            let value = match try_out(client, &served.api, served.cluster_scoped, &id, &written).await {
                Ok(value) => value,
                Err(kube::Error::Api(status)) if status.code == 404 => written,
                Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains("cannot ") => {
                    notes.push(format!(
                        "{id} is taken as it is written: you may not try it out ({})",
                        status.message
                    ));
                    written
                }
                Err(error) => return Err(error).with_context(|| format!("the hub would not take {id}")),
            };
            all.push(Object { id, value });
        }
        Ok(all)
    }
}

/// As server-side apply would leave the object, without doing it.
async fn try_out(
    client: &Client,
    api: &ApiResource,
    cluster_scoped: bool,
    id: &ObjectId,
    written: &Value,
) -> kube::Result<Value> {
    let objects: Api<DynamicObject> = if cluster_scoped {
        Api::all_with(client.clone(), api)
    } else {
        Api::namespaced_with(client.clone(), &id.namespace, api)
    };
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::apply(FIELD_MANAGER).force()
    };
    let answer = objects.patch(&id.name, &params, &Patch::Apply(written)).await?;
    let mut value = serde_json::to_value(answer).map_err(kube::Error::SerdeError)?;
    // Lists give objects without these.
    value["apiVersion"] = written["apiVersion"].clone();
    value["kind"] = written["kind"].clone();
    Ok(value)
}

fn id(object: &Value) -> Option<ObjectId> {
    ObjectId::of(&object.into()).ok()
}

/// Whether it is a placement, and if so whether it is of the namespaced kind.
pub(super) fn placement_scope(id: &ObjectId) -> Option<bool> {
    match (id.group.as_str(), id.kind.as_str()) {
        (GROUP, "ClusterResourcePlacement") => Some(false),
        (GROUP, "ResourcePlacement") => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: { name: web }
---
---
apiVersion: v1
kind: List
items:
- { apiVersion: v1, kind: ConfigMap, metadata: { name: a, namespace: app } }
- { apiVersion: v1, kind: ConfigMap, metadata: { name: b, namespace: app } }
";

    #[test]
    fn documents_and_lists_are_objects_and_the_placement_is_found() {
        let manifests = Manifests::parse(FILE).expect("it is YAML");
        let names: Vec<_> = manifests.0.iter().filter_map(id).map(|id| id.name).collect();
        assert_eq!(names, ["web", "a", "b"]);
        assert_eq!(manifests.placement(None).expect("there is one").name(), "web");
    }

    #[test]
    fn what_is_no_object_is_said() {
        let odd = Manifests::parse("metadata: { name: x }").expect_err("it has no kind");
        assert!(odd.to_string().starts_with("an object without apiVersion"), "{odd}");
        let none = Manifests::parse("{ apiVersion: v1, kind: Secret, metadata: { name: x } }").expect("an object");
        let error = none.placement(None).expect_err("no placement").to_string();
        assert!(error.starts_with("the files hold no placement"), "{error}");
    }
}
