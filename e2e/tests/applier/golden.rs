//! The three-way merge beside kubectl's: the same cases, put to the same API server.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use fleet_e2e::wait;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::gadgets::Gadgets;
use crate::site::{Site, on_own_site};

const OURS: &str = "kubernetes-fleet.io/last-applied-configuration";
const KUBECTLS: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Two ports with one number: kubectl takes them for one element, so what it makes of them is no yardstick.
const NO_YARDSTICK: [&str; 1] = ["equal-merge-keys"];

#[derive(Deserialize)]
struct Case {
    gvk: Gvk,
    original: Option<Value>,
    modified: Value,
    live: Value,
}

#[derive(Deserialize)]
struct Gvk {
    group: String,
    version: String,
    kind: String,
}

/// The object in another namespace. Owners in the cases are made up: the garbage collector would take them at their word.
fn moved(object: &Value, namespace: &str, group: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["namespace"] = json!(namespace);
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("uid");
        meta.remove("ownerReferences");
    }
    // Addresses and node ports are the cluster's to give.
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| key != "clusterIP" && key != "clusterIPs");
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
            port.remove("nodePort");
        }
    }
    if let Some(version) = object["apiVersion"]
        .as_str()
        .and_then(|v| v.strip_prefix("example.com/"))
    {
        object["apiVersion"] = json!(format!("{group}/{version}"));
    }
    object
}

/// The object as somebody left it: with the record of what was applied before, and changed since.
fn with_record(case: &Case, namespace: &str, group: &str, key: &str) -> Value {
    let mut live = moved(&case.live, namespace, group);
    if let Some(original) = &case.original {
        live["metadata"]["annotations"][key] = json!(moved(original, namespace, group).to_string());
    }
    live
}

/// What has to be the same: all that people write.
fn essence(object: &DynamicObject) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    let own = [
        "last-applied-configuration",
        "spec-hash",
        "deployment.kubernetes.io/revision",
    ];
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !own.iter().any(|part| key.contains(part)));
    }
    let meta = &object["metadata"];
    let meta = json!({"labels": meta["labels"], "annotations": meta["annotations"], "finalizers": meta["finalizers"]});
    let mut rest = object.clone();
    for key in ["metadata", "status"] {
        rest.as_object_mut().map(|fields| fields.remove(key));
    }
    // Addresses are handed out one by one.
    if let Some(spec) = rest.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|key, _| key != "clusterIP" && key != "clusterIPs");
    }
    json!({"meta": meta, "rest": rest})
}

async fn compare(site: &Site, theirs: &str, name: &str, case: &Case, group: &str) -> Result<()> {
    let own_kind = case.gvk.group == "example.com";
    let gvk = GroupVersionKind::gvk(
        if own_kind { group } else { &case.gvk.group },
        &case.gvk.version,
        &case.gvk.kind,
    );
    let plural = format!("{}s", case.gvk.kind.to_lowercase());
    let kind = ApiResource::from_gvk_with_plural(&gvk, &plural);
    let api = |namespace: &str| Api::<DynamicObject>::namespaced_with(site.client.clone(), namespace, &kind);
    let object = case.live["metadata"]["name"].as_str().context("a name")?;
    let made = |namespace: &str, key: &str| -> Result<DynamicObject> {
        Ok(serde_json::from_value(with_record(case, namespace, group, key))?)
    };
    api(theirs)
        .create(&PostParams::default(), &made(theirs, KUBECTLS)?)
        .await?;
    let modified = moved(&case.modified, theirs, group);
    let kubectl = site.ctx.kubectl(site.cluster)?.apply(&modified.to_string()).await;
    let comparable = !NO_YARDSTICK.contains(&name);
    ensure!(kubectl.is_ok() || !comparable, "{name}: {kubectl:?}");

    let ours = &site.namespace;
    api(ours).create(&PostParams::default(), &made(ours, OURS)?).await?;
    site.apply(&json!({}), &[moved(&case.modified, ours, group)]).await?;
    site.until("Applied", "True").await?;
    let (by_kubectl, by_us) = (api(theirs).get(object).await?, api(ours).get(object).await?);
    ensure!(
        !comparable || essence(&by_kubectl) == essence(&by_us),
        "{name}: kubectl makes\n{:#}\nwe make\n{:#}",
        essence(&by_kubectl),
        essence(&by_us)
    );
    // The agent would put finalizers of the manifest back as long as there is the Work.
    let (works, default) = (site.works(), DeleteParams::default());
    works.delete(&site.name, &default).await?;
    api(theirs).delete(object, &default).await?;
    for namespace in [theirs, ours] {
        let going = |live: Option<&DynamicObject>| live.is_none_or(|o| o.metadata.deletion_timestamp.is_some());
        let left = wait::until(api(namespace), object, "deleting", going).await?;
        if left.is_some_and(|object| !object.finalizers().is_empty()) {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            match api(namespace).patch(object, &PatchParams::default(), &free).await {
                // The garbage collector was faster with its own.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => drop(other?),
            }
        }
    }
    wait::until_gone(works, &site.name).await?;
    wait::until_gone(api(ours), object).await?;
    wait::until_gone(api(theirs), object).await
}

/// kubectl applies finalizers too, so the agent is told to.
#[test]
fn every_golden_case_ends_as_with_kubectl() {
    let flag = "--work-applier-keep-finalizers=true";
    on_own_site("golden", |spec| spec.args.push(flag.into()), all_cases);
}

async fn all_cases(mut site: Site) -> Result<()> {
    let gadgets = Gadgets::new(&site);
    gadgets.define(&site, &[("v1", true)]).await?;
    let theirs = site.ctx.another_namespace(site.cluster, "kubectl").await?;
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/golden/merge");
    let mut cases: Vec<_> = std::fs::read_dir(dir)?.collect::<std::io::Result<_>>()?;
    cases.sort_by_key(std::fs::DirEntry::path);
    ensure!(cases.len() > 10, "only {} cases", cases.len());
    for entry in cases {
        let name = entry.file_name().to_string_lossy().replace(".json", "");
        let case: Case = serde_json::from_slice(&std::fs::read(entry.path())?)?;
        site.name = site.ctx.name(&name);
        compare(&site, &theirs, &name, &case, &gadgets.group).await?;
    }
    Ok(())
}
