//! What a file would change.

use std::{io::Read as _, path::PathBuf};

use anyhow::{Context as _, Result, ensure};
use fleet_api::{names::PlacementKey, placement::GROUP};
use fleet_core::{
    plan::applied::{self, Patch as Applied},
    selection::ObjectId,
};
use kube::{
    Client,
    api::{Api, DynamicObject, Patch, PatchParams},
};
use serde_json::Value;

use super::kinds::{Kinds, Served};
use crate::problem::Failure;

/// Who tries the objects out. What they write is thrown away.
const FIELD_MANAGER: &str = "kubectl-fleet-plan";
/// As whom `kubectl apply --server-side` writes.
const SERVER_SIDE: &str = "kubectl";
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

    /// The only placement in the files, or that of the only update run in them.
    pub(super) fn placement(&self, namespace: &str) -> Result<PlacementKey> {
        let placements = self.placements(namespace);
        let runs = || {
            self.0
                .iter()
                .filter_map(|object| placement_of_run(object, namespace))
                .collect()
        };
        let found: Vec<_> = if placements.is_empty() { runs() } else { placements };
        match found.as_slice() {
            [(namespace, name)] => Ok(PlacementKey::new(namespace.as_deref(), name)?),
            [] => Err(Failure::usage(
                "the files hold no placement: name the one that selects what is in them",
                "kubectl get crp; kubectl get rp --all-namespaces",
            )),
            several => {
                let names: Vec<_> = several.iter().map(|(_, name)| name.as_str()).collect();
                let text = format!(
                    "the files hold several placements ({}): name one of them",
                    names.join(", ")
                );
                Err(Failure::usage(text, "kubectl fleet plan --help"))
            }
        }
    }

    /// The placement of this name in the files, the cluster-scoped one first.
    pub(super) fn called(&self, name: &str, namespace: &str) -> Result<Option<PlacementKey>> {
        let own = |home: &Option<String>| home.as_ref().is_none_or(|home| home == namespace);
        let placements = self.placements(namespace).into_iter();
        let found = placements
            .filter(|(home, own_name)| own_name == name && own(home))
            .min();
        Ok(match found {
            Some((home, name)) => Some(PlacementKey::new(home.as_deref(), &name)?),
            None => None,
        })
    }

    /// Namespaces and names of placements.
    fn placements(&self, namespace: &str) -> Vec<(Option<String>, String)> {
        let found = self.0.iter().filter_map(|object| {
            let id = id(object)?;
            let home = placement_scope(&id)?.then(|| or(&id.namespace, namespace));
            Some((home, id.name))
        });
        found.collect()
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
            let value = match try_out(client, served, &id, &written).await {
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

/// As `kubectl apply` would leave the object, without doing it: by the way by which the object was applied before.
async fn try_out(client: &Client, served: &Served, id: &ObjectId, written: &Value) -> kube::Result<Value> {
    let objects: Api<DynamicObject> = if served.cluster_scoped {
        Api::all_with(client.clone(), &served.api)
    } else {
        Api::namespaced_with(client.clone(), &id.namespace, &served.api)
    };
    // Who may write it and not read it learns what comes of it without what goes.
    let live = objects.get_opt(&id.name).await.ok().flatten();
    let live = live.map(serde_json::to_value).transpose();
    let live = live.map_err(kube::Error::SerdeError)?.unwrap_or_default();
    let trial = PatchParams {
        dry_run: true,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let answer = match applied::patch(&live, written) {
        Some(Applied::Merge(patch)) => objects.patch(&id.name, &trial, &Patch::Merge(patch)).await?,
        Some(Applied::Strategic(patch)) => objects.patch(&id.name, &trial, &Patch::Strategic(patch)).await?,
        None => {
            let manager = if is_server_side(&live) {
                SERVER_SIDE
            } else {
                FIELD_MANAGER
            };
            let trial = PatchParams {
                field_manager: Some(manager.to_owned()),
                force: true,
                ..trial
            };
            objects.patch(&id.name, &trial, &Patch::Apply(written)).await?
        }
    };
    let mut value = serde_json::to_value(answer).map_err(kube::Error::SerdeError)?;
    // Lists give objects without these.
    value["apiVersion"] = written["apiVersion"].clone();
    value["kind"] = written["kind"].clone();
    Ok(value)
}

/// Whether `kubectl apply --server-side` has written the object: then it takes off what its file no longer says.
fn is_server_side(live: &Value) -> bool {
    let managers = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers
        .into_iter()
        .any(|entry| entry["manager"] == SERVER_SIDE && entry["operation"] == "Apply")
}

/// The placement that an update run is about.
fn placement_of_run(object: &Value, namespace: &str) -> Option<(Option<String>, String)> {
    let id = id(object).filter(|id| id.group == GROUP)?;
    let home = match id.kind.as_str() {
        "ClusterStagedUpdateRun" => None,
        "StagedUpdateRun" => Some(or(&id.namespace, namespace)),
        _ => return None,
    };
    Some((home, object["spec"]["placementName"].as_str()?.to_owned()))
}

fn or(namespace: &str, default: &str) -> String {
    if namespace.is_empty() { default } else { namespace }.to_owned()
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
        assert_eq!(manifests.placement("shop").expect("there is one").name(), "web");
    }

    #[test]
    fn what_is_no_object_is_said() {
        let odd = Manifests::parse("metadata: { name: x }").expect_err("it has no kind");
        assert!(odd.to_string().starts_with("an object without apiVersion"), "{odd}");
        let none = Manifests::parse("{ apiVersion: v1, kind: Secret, metadata: { name: x } }").expect("an object");
        let error = none.placement("shop").expect_err("no placement").to_string();
        assert!(error.starts_with("the files hold no placement"), "{error}");
    }

    #[test]
    fn a_placement_without_namespace_is_in_that_of_the_context() {
        let file = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: { name: web }
";
        let manifests = Manifests::parse(file).expect("YAML");
        let key = manifests.placement("shop").expect("there is one");
        assert_eq!((key.namespace(), key.name()), (Some("shop"), "web"));
        let found = manifests
            .called("web", "shop")
            .expect("a name")
            .map(|key| key.to_string());
        assert_eq!(found.as_deref(), Some("shop/web"));
        assert!(manifests.called("other", "shop").expect("a name").is_none());
    }

    #[test]
    fn a_run_alone_names_its_placement() {
        let run = |kind: &str| {
            let file = format!(
                "{{ apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: {kind}, metadata: {{ name: r }}, \
                 spec: {{ placementName: web }} }}"
            );
            let manifests = Manifests::parse(&file).expect("YAML");
            manifests.placement("shop").expect("it is about one").to_string()
        };
        assert_eq!(run("ClusterStagedUpdateRun"), "web");
        assert_eq!(run("StagedUpdateRun"), "shop/web");
    }

    #[test]
    fn who_applies_server_side_is_seen() {
        let by = |manager: &str, operation: &str| {
            let entry = serde_json::json!([{ "manager": manager, "operation": operation }]);
            is_server_side(&serde_json::json!({ "metadata": { "managedFields": entry } }))
        };
        assert!(by("kubectl", "Apply"));
        assert!(!by("kubectl", "Update") && !by("helm", "Apply") && !is_server_side(&Value::Null));
    }
}
