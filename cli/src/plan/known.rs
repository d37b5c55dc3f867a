//! Overrides as the hub has them, and as a file would make them.

use anyhow::Result;
use fleet_api::{
    labels,
    placement::{
        ClusterResourceOverrideSnapshot, ClusterResourceOverrideSpec, GROUP, ResourceOverrideSnapshot,
        ResourceOverrideSpec,
    },
};
use fleet_core::{
    overrides::snapshots,
    plan::Overrides,
    selection::ObjectId,
    snapshot::{is_latest, number},
};
use kube::{ResourceExt, core::ObjectMeta};

use super::manifests::Object;

/// Snapshots of overrides, and those that a file would make.
pub(super) struct Known<'a> {
    wide: Vec<(String, &'a ClusterResourceOverrideSpec, bool)>,
    narrow: Vec<((String, String), &'a ResourceOverrideSpec, bool)>,
    new_wide: Vec<(String, ClusterResourceOverrideSpec)>,
    new_narrow: Vec<((String, String), ResourceOverrideSpec)>,
}

impl<'a> Known<'a> {
    pub(super) fn new(
        wide: &'a [ClusterResourceOverrideSnapshot],
        narrow: &'a [ResourceOverrideSnapshot],
        over: &[Object],
    ) -> Result<Self> {
        let current_wide = snapshots::current(wide.iter().map(|it| (&it.metadata, it.name_any())));
        let current_narrow = snapshots::current(
            narrow
                .iter()
                .map(|it| (&it.metadata, (it.namespace().unwrap_or_default(), it.name_any()))),
        );
        let mut known = Self {
            wide: wide
                .iter()
                .map(|it| {
                    (
                        it.name_any(),
                        &it.spec.override_spec,
                        current_wide.contains(&it.name_any()),
                    )
                })
                .collect(),
            narrow: narrow
                .iter()
                .map(|it| {
                    let named = (it.namespace().unwrap_or_default(), it.name_any());
                    let counts = current_narrow.contains(&named);
                    (named, &it.spec.override_spec, counts)
                })
                .collect(),
            new_wide: Vec::new(),
            new_narrow: Vec::new(),
        };
        for object in over.iter().filter(|it| it.id.group == GROUP) {
            let spec = || object.value["spec"].clone();
            match object.id.kind.as_str() {
                "ClusterResourceOverride" => {
                    let spec: ClusterResourceOverrideSpec = serde_json::from_value(spec())?;
                    let metas = wide.iter().map(|it| (&it.metadata, it.spec.override_hash.0.clone()));
                    let hash = snapshots::hash(&spec)?;
                    if let Some(name) = new_snapshot(&object.id, &hash, metas)? {
                        let of = |it: &ClusterResourceOverrideSnapshot| parent(&it.metadata) == Some(&object.id.name);
                        let old: Vec<_> = wide.iter().filter(|it| of(it)).map(ResourceExt::name_any).collect();
                        known
                            .wide
                            .iter_mut()
                            .filter(|it| old.contains(&it.0))
                            .for_each(|it| it.2 = false);
                        known.new_wide.push((name, spec));
                    }
                }
                "ResourceOverride" => {
                    let spec: ResourceOverrideSpec = serde_json::from_value(spec())?;
                    let inside =
                        |it: &&ResourceOverrideSnapshot| it.namespace().as_deref() == Some(&object.id.namespace);
                    let metas = narrow
                        .iter()
                        .filter(inside)
                        .map(|it| (&it.metadata, it.spec.override_hash.0.clone()));
                    let hash = snapshots::hash(&spec)?;
                    if let Some(name) = new_snapshot(&object.id, &hash, metas)? {
                        let of = |it: &ResourceOverrideSnapshot| parent(&it.metadata) == Some(&object.id.name);
                        let old = narrow.iter().filter(inside).filter(|it| of(it));
                        let old: Vec<_> = old
                            .map(|it| (it.namespace().unwrap_or_default(), it.name_any()))
                            .collect();
                        known
                            .narrow
                            .iter_mut()
                            .filter(|it| old.contains(&it.0))
                            .for_each(|it| it.2 = false);
                        known.new_narrow.push(((object.id.namespace.clone(), name), spec));
                    }
                }
                _ => {}
            }
        }
        Ok(known)
    }

    pub(super) fn overrides(&self) -> Overrides<'_> {
        let mut all = Overrides::default();
        let wide = self
            .wide
            .iter()
            .map(|(name, spec, counts)| (name.as_str(), *spec, *counts));
        let new = self.new_wide.iter().map(|(name, spec)| (name.as_str(), spec, true));
        for (name, spec, counts) in wide.chain(new) {
            all.cluster_wide.insert(name, spec);
            if counts {
                all.current_cluster_wide.push(name);
            }
        }
        let narrow = self.narrow.iter().map(|(named, spec, counts)| (named, *spec, *counts));
        let new = self.new_narrow.iter().map(|(named, spec)| (named, spec, true));
        for ((namespace, name), spec, counts) in narrow.chain(new) {
            let named = (namespace.as_str(), name.as_str());
            all.namespaced.insert(named, spec);
            if counts {
                all.current_namespaced.push(named);
            }
        }
        all
    }
}

fn parent(metadata: &ObjectMeta) -> Option<&String> {
    metadata.labels.as_ref()?.get(labels::PARENT_OVERRIDE)
}

/// The snapshot that the hub would make of an override; none if it has one of this content.
fn new_snapshot<'a>(
    id: &ObjectId,
    hash: &[u8],
    stored: impl Iterator<Item = (&'a ObjectMeta, Vec<u8>)>,
) -> Result<Option<String>> {
    let own = stored.filter(|(meta, _)| parent(meta) == Some(&id.name));
    let existing: Vec<_> = own
        .map(|(meta, hash)| snapshots::Existing {
            name: meta.name.clone().unwrap_or_default(),
            index: number(meta, labels::OVERRIDE_INDEX),
            labelled_latest: is_latest(meta),
            hash,
            in_use: true,
        })
        .collect();
    let changes = snapshots::plan(&id.name, hash, &existing, |_| false)?;
    Ok(changes.create.map(|(name, _)| name))
}
