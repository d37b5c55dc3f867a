//! The CRDs of the product, read from the repository when a fleet starts, so that a change needs no rebuild here.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::cluster::Role;
use crate::cluster::objects::FIELD_MANAGER;
use crate::wait;

/// The variable that names another directory with CRDs.
pub const CRD_DIR_ENV: &str = "FLEET_CRD_DIR";
/// The one kind that lives on members.
const MEMBER_KIND: &str = "AppliedWork";

/// `FLEET_CRD_DIR`, else `deploy/crds` of the repository.
pub fn dir() -> PathBuf {
    std::env::var_os(CRD_DIR_ENV).filter(|dir| !dir.is_empty()).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/crds"),
        PathBuf::from,
    )
}

/// All CRDs in `dir`; none at all is an error, because a fleet without them proves nothing.
pub fn load(dir: &Path) -> Result<Vec<Value>> {
    let mut files = std::fs::read_dir(dir)
        .with_context(|| format!("no CRDs: cannot read {} (run `make generate`)", dir.display()))?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|e| e == "yaml" || e == "yml"));
    files.sort();
    let mut crds = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).with_context(|| format!("{} is no YAML", path.display()))?;
        // Else an empty document, or a kustomization beside the CRDs.
        let definitions = documents
            .into_iter()
            .filter(|value| value["kind"] == "CustomResourceDefinition");
        crds.extend(definitions);
    }
    if crds.is_empty() {
        bail!("no CRDs in {} (run `make generate`)", dir.display());
    }
    Ok(crds)
}

/// Those that belong on a cluster of this role.
pub fn for_role(crds: &[Value], role: Role) -> Vec<Value> {
    let on_member = |crd: &&Value| crd["spec"]["names"]["kind"] == MEMBER_KIND;
    match role {
        Role::Hub => crds.to_vec(),
        Role::Member => crds.iter().filter(on_member).cloned().collect(),
    }
}

/// The name of a CRD.
pub fn name(crd: &Value) -> String {
    crd["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Installs or updates the CRDs and waits until the API server serves them; returns the names that were not there before.
pub async fn install(client: &Client, crds: &[Value]) -> Result<Vec<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let before = api.list_metadata(&ListParams::default()).await?;
    let before = before.iter().map(kube::ResourceExt::name_any).collect::<BTreeSet<_>>();

    let params = PatchParams::apply(FIELD_MANAGER).force();
    try_join_all(crds.iter().map(|crd| {
        let (api, params) = (api.clone(), params.clone());
        async move {
            let name = name(crd);
            api.patch(&name, &params, &Patch::Apply(crd))
                .await
                .with_context(|| format!("cannot install CRD {name}"))
        }
    }))
    .await?;

    let wanted = crds.iter().map(name).collect::<Vec<_>>();
    wait::until_list(api, "CRDs established", |found: &[CustomResourceDefinition]| {
        wanted
            .iter()
            .all(|name| found.iter().any(|crd| crd.name_any() == *name && is_established(crd)))
    })
    .await?;
    Ok(wanted.into_iter().filter(|name| !before.contains(name)).collect())
}

/// The names of those that exist already and were put there by somebody else.
pub async fn foreign(client: &Client, crds: &[Value]) -> Result<Vec<String>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let wanted = crds.iter().map(name).collect::<BTreeSet<_>>();
    let ours = |managers: &[ManagedFieldsEntry]| managers.iter().any(|m| m.manager.as_deref() == Some(FIELD_MANAGER));
    let existing = api.list_metadata(&ListParams::default()).await?;
    let foreign = existing
        .iter()
        .filter(|crd| wanted.contains(&crd.name_any()) && !ours(crd.managed_fields()));
    Ok(foreign.map(kube::ResourceExt::name_any).collect())
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|c| c.type_ == "Established" && c.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_only_what_lives_there_and_an_empty_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(load(dir.path()).unwrap_err().to_string().contains("no CRDs in"));
        let crd = |kind: &str| {
            format!("kind: CustomResourceDefinition\nmetadata: {{name: {kind}}}\nspec: {{names: {{kind: {kind}}}}}\n")
        };
        std::fs::write(
            dir.path().join("a.yaml"),
            format!("{}---\n{}", crd("AppliedWork"), crd("Work")),
        )
        .unwrap();
        std::fs::write(dir.path().join("README.md"), "no CRD").unwrap();
        let crds = load(dir.path()).unwrap();
        assert_eq!(crds.iter().map(name).collect::<Vec<_>>(), ["AppliedWork", "Work"]);
        assert_eq!(for_role(&crds, Role::Hub).len(), 2);
        assert_eq!(
            for_role(&crds, Role::Member).iter().map(name).collect::<Vec<_>>(),
            ["AppliedWork"]
        );
    }
}
