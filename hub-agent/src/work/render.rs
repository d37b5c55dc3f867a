//! Manifests for a binding's cluster, made once for all clusters on which the overrides do the same.

use std::{collections::BTreeMap, sync::Arc};

use fleet_api::placement::Scope;
use fleet_core::{
    overrides::{LabelledCluster, Overrides},
    work::{Group, Rendering, WorkFailure, render as core},
};
use fleet_runtime::Key;
use kube::{ResourceExt as _, core::object::HasSpec as _};

use super::WorkGenerator;
use crate::{
    cache::family::{beside, stored},
    pipeline::key_of,
};

/// What the binding's cluster gets, and the index of the snapshot that it comes from.
pub(super) fn render<S: Scope>(
    ctx: &WorkGenerator<S>,
    placement: &Key,
    binding: &S::Binding,
) -> Result<(Arc<Rendering>, String), WorkFailure> {
    let spec = binding.spec();
    let name = key_of(placement).map_err(|error| WorkFailure::Undecodable(error.to_string()))?;
    let master = ctx
        .family
        .snapshots
        .get(&beside(placement, &spec.resource_snapshot_name));
    let master = master.ok_or(WorkFailure::MasterMissing)?;
    let all = ctx.family.snapshots_of.get(placement);
    let group = Group::collect(&name, stored(&master), all.iter().map(stored))?;

    let stores = &ctx.shared.overrides;
    let mut wide = Vec::new();
    for snapshot in &spec.cluster_resource_override_snapshots {
        let found = stores.cluster_wide_snapshots.get(&Key::cluster(snapshot.as_str()));
        wide.push((
            snapshot,
            found.ok_or_else(|| WorkFailure::ClusterOverrideMissing(snapshot.clone()))?,
        ));
    }
    let mut narrow = Vec::new();
    for named in &spec.resource_override_snapshots {
        let key = Key::namespaced(named.namespace.as_str(), named.name.as_str());
        let found = stores.namespaced_snapshots.get(&key);
        narrow.push((
            named,
            found.ok_or_else(|| WorkFailure::OverrideMissing(key.to_string()))?,
        ));
    }
    let member = ctx.shared.members.get(&Key::cluster(spec.target_cluster.as_str()));
    let none = BTreeMap::new();
    let cluster = LabelledCluster {
        name: &spec.target_cluster,
        labels: member
            .as_ref()
            .and_then(|m| m.metadata.labels.as_ref())
            .unwrap_or(&none),
    };
    let overrides = Overrides::new(
        cluster,
        wide.iter().map(|(name, s)| (name.as_str(), &s.spec.override_spec)),
        narrow
            .iter()
            .map(|(n, s)| (n.namespace.as_str(), n.name.as_str(), &s.spec.override_spec)),
    )?;
    let rbac = ctx.shared.settings.rbac;
    let overrides = overrides.with(rbac);
    // By uid: a name says neither in which namespace an override is, nor which of two that had it one after the other.
    let uids = wide
        .iter()
        .map(|(_, s)| s.uid())
        .chain(narrow.iter().map(|(_, s)| s.uid()));
    let uids: Vec<String> = uids.map(Option::unwrap_or_default).collect();
    let class = format!("{} {}", uids.join(","), overrides.class());
    let snapshot = master.uid().unwrap_or_default();
    let index = group.index.to_owned();
    if let Some(known) = ctx.memory.renderings.get(placement, &snapshot, &class) {
        return Ok((known, index));
    }
    let user = &ctx.shared.user;
    let scoped = |object: &_| user.is_cluster_scoped(object);
    let rendering = Arc::new(core(&name, &group, &overrides, &scoped, rbac)?);
    ctx.memory.renderings.insert(placement, &snapshot, class, &rendering);
    Ok((rendering, index))
}
