//! How many overrides there may be, and what must never be refused.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourceOverride, ResourceOverride};
use fleet_e2e::agents::with_webhooks;
use fleet_e2e::harness::{Ctx, scenario};
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const MOST: usize = 100;

fn rules() -> Value {
    json!({"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]}]})
}

fn cluster_wide(ctx: &Ctx, n: usize) -> Result<ClusterResourceOverride> {
    let name = ctx.name(&format!("wide-{n}"));
    let role = json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": name});
    let spec = json!({"clusterResourceSelectors": [role], "policy": rules()});
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": spec}),
    )?)
}

fn narrow(n: usize) -> Result<ResourceOverride> {
    let name = format!("narrow-{n}");
    let map = json!({"group": "", "version": "v1", "kind": "ConfigMap", "name": name});
    let spec = json!({"resourceSelectors": [map], "policy": rules()});
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": spec}),
    )?)
}

fn said<K: std::fmt::Debug>(answer: Result<K>) -> Result<String> {
    let error = answer.err().context("it was let in")?;
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) => Ok(status.message.clone()),
        _ => Err(error),
    }
}

#[test]
fn a_hundred_overrides_may_be_there_and_can_be_changed() {
    scenario("limit", |ctx| async move {
        let (full, other) = (
            ctx.namespace("hub").await?,
            ctx.another_namespace("hub", "other").await?,
        );
        with_webhooks(ctx.fleet(), async || {
            let there = Api::<ClusterResourceOverride>::all(ctx.hub().await?);
            let there = there.list(&kube::api::ListParams::default()).await?.items.len();
            for n in there..MOST {
                ctx.create("hub", cluster_wide(&ctx, n)?).await?;
            }
            let says = said(ctx.create("hub", cluster_wide(&ctx, MOST)?).await)?;
            let wanted = "denied the request: clusterResourceOverride limit has been reached: at most 100 cluster \
                          resources can be created.";
            ensure!(says.ends_with(wanted), "{says}");
            for n in 0..MOST {
                ctx.create_in("hub", &full, narrow(n)?).await?;
            }
            let says = said(ctx.create_in("hub", &full, narrow(MOST)?).await)?;
            let wanted =
                "denied the request: resourceOverride limit has been reached: at most 100 resources can be created.";
            ensure!(says.ends_with(wanted), "{says}");
            ctx.create_in("hub", &other, narrow(0)?).await?;
            // What is there can be changed.
            let rule = json!({"overrideType": "Delete", "clusterSelector": {"clusterSelectorTerms": []}});
            let change = Patch::Merge(json!({"spec": {"policy": {"overrideRules": [rule]}}}));
            let api = Api::<ResourceOverride>::namespaced(ctx.hub().await?, &full);
            api.patch("narrow-0", &PatchParams::default(), &change).await?;
            Ok(())
        })
        .await
    });
}

/// The kinds that webhooks judge, with their plurals.
const JUDGED: [(&str, &str); 6] = [
    ("ClusterResourcePlacement", "clusterresourceplacements"),
    ("ResourcePlacement", "resourceplacements"),
    ("ClusterResourceOverride", "clusterresourceoverrides"),
    ("ResourceOverride", "resourceoverrides"),
    ("ClusterResourcePlacementEviction", "clusterresourceplacementevictions"),
    (
        "ClusterResourcePlacementDisruptionBudget",
        "clusterresourceplacementdisruptionbudgets",
    ),
];

/// All objects in the YAML files of a folder and of those in it, and in the YAML of the guides there.
fn objects(folder: &Path, found: &mut Vec<(String, Value)>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            objects(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            in_guide(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read(&path)?;
            let all: Vec<Value> =
                serde_saphyr::from_slice_multiple(&text).with_context(|| path.display().to_string())?;
            found.extend(all.into_iter().map(|object| (path.display().to_string(), object)));
        }
    }
    Ok(())
}

/// All objects in the YAML of a guide.
fn in_guide(path: &Path, found: &mut Vec<(String, Value)>) -> Result<()> {
    let text = fs::read_to_string(path)?;
    let blocks = text.split("```yaml\n").skip(1);
    for yaml in blocks.filter_map(|block| block.split("```").next()) {
        let kind = |line: &str| {
            line.trim_start_matches("- ")
                .strip_prefix("kind:")
                .map(str::trim)
                .map(ToOwned::to_owned)
        };
        let is_judged = |kind: String| JUDGED.iter().any(|(name, _)| *name == kind);
        match serde_saphyr::from_slice_multiple::<Value>(yaml.as_bytes()) {
            Ok(all) => found.extend(all.into_iter().map(|object| (path.display().to_string(), object))),
            Err(error) if yaml.lines().filter_map(kind).any(is_judged) => {
                return Err(error).with_context(|| format!("{}: {yaml}", path.display()));
            }
            // Fragments need not be whole documents.
            Err(_) => {}
        }
    }
    Ok(())
}

#[test]
fn every_example_is_let_in_in_both_versions() {
    scenario("accepted", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let mut examples = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        objects(&root.join("docs"), &mut examples)?;
        in_guide(&root.join("README.md"), &mut examples)?;
        with_webhooks(ctx.fleet(), async || {
            let mut judged = 0;
            for (file, example) in &examples {
                let kind = example["kind"].as_str().unwrap_or_default();
                let Some((kind, plural)) = JUDGED.iter().find(|(name, _)| *name == kind) else {
                    continue;
                };
                for version in ["v1beta1", "v1"] {
                    accepted(&ctx, (kind, plural, version), &namespace, example)
                        .await
                        .with_context(|| format!("{file}: {kind} {version}"))?;
                    judged += 1;
                }
            }
            ensure!(judged >= 2 * JUDGED.len(), "only {judged} examples were judged");
            Ok(())
        })
        .await
    });
}

async fn accepted(
    ctx: &Ctx,
    (kind, plural, version): (&str, &str, &str),
    namespace: &str,
    example: &Value,
) -> Result<()> {
    let group = "placement.kubernetes-fleet.io";
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: format!("{group}/{version}"),
        kind: kind.into(),
        plural: plural.into(),
    };
    let mut object: DynamicObject = serde_json::from_value(example.clone())?;
    let client = ctx.hub().await?;
    let api: Api<DynamicObject> = if object.namespace().is_some() {
        object.metadata.namespace = Some(namespace.to_owned());
        Api::namespaced_with(client, namespace, &resource)
    } else {
        Api::all_with(client, &resource)
    };
    if let Some(types) = &mut object.types {
        types.api_version.clone_from(&resource.api_version);
    }
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    api.create(&dry, &object).await?;
    Ok(())
}
