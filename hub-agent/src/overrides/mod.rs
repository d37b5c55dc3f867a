//! Overrides: keeps their snapshots, and tells which of them concern a placement.
//!
//! Watches both kinds of overrides and their snapshots, and writes snapshots and the overrides' finalizer. Which snapshots
//! a binding names is the rollout's to write, what they do to a manifest the work generator's.

mod concerned;
mod snapshots;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleet_api::{names::PlacementKey, placement::Scope, raw::RawJson};
use fleet_core::overrides::{
    LabelledCluster,
    choose::{Candidates, Chosen, Lists},
    snapshots::current,
};
use fleet_core::selection::{ClusterScoped, ObjectId};
use fleet_runtime::{
    Key,
    cache::{Index, Store},
};
use kube::{Resource, ResourceExt as _};

pub(crate) use self::{
    concerned::concerned,
    snapshots::{OverrideSnapshots, run},
};
use crate::{
    cache::overrides::{OverrideStores, parents},
    pipeline::Pipeline,
};

/// The overrides on each of these clusters for a placement with these resources. A cluster whose object cannot be read has no
/// labels to select it by, so nobody knows.
pub(crate) fn on_clusters<'a, S: Scope>(
    ctx: &Pipeline<S>,
    placement: &PlacementKey,
    resources: impl IntoIterator<Item = &'a RawJson>,
    clusters: &[&str],
) -> Vec<Result<Lists, String>> {
    let (shared, none) = (&ctx.shared, BTreeMap::new());
    let members = clusters.iter().map(|name| shared.members.get(&Key::cluster(*name)));
    let members: Vec<_> = members.collect();
    let views = clusters.iter().zip(&members).map(|(name, member)| LabelledCluster {
        name,
        labels: member.as_ref().map_or(&none, |member| member.labels()),
    });
    let views: Vec<_> = views.collect();
    let scoped = |object: &_| shared.user.is_cluster_scoped(object);
    let mut lists = lists(&shared.overrides, placement, resources, &scoped, &views);
    for ((list, name), member) in lists.iter_mut().zip(clusters).zip(&members) {
        if member.is_none() && ctx.knows_cluster(name) {
            *list = Err(format!("MemberCluster {name:?} cannot be read"));
        }
    }
    lists
}

/// The overrides that concern a placement with these resources, on each of the clusters.
pub(crate) fn lists<'a>(
    stores: &OverrideStores,
    placement: &PlacementKey,
    resources: impl IntoIterator<Item = &'a RawJson>,
    cluster_scoped: ClusterScoped<'_>,
    clusters: &[LabelledCluster<'_>],
) -> Vec<Result<Lists, String>> {
    if stores.cluster_wide_snapshots.is_empty() && stores.namespaced_snapshots.is_empty() {
        return vec![Ok(Lists::default()); clusters.len()];
    }
    let candidates = Candidates::new(resources, cluster_scoped);
    let about = (&stores.cluster_wide_about, &stores.cluster_wide_of);
    let wide = counting(candidates.cluster_wide(), about, &stores.cluster_wide);
    let about = (&stores.namespaced_about, &stores.namespaced_of);
    let narrow = counting(candidates.namespaced(), about, &stores.namespaced);
    let names: Vec<_> = narrow
        .iter()
        .map(|s| (s.namespace().unwrap_or_default(), s.name_any()))
        .collect();
    let wide_names: Vec<_> = wide.iter().map(|s| s.name_any()).collect();
    let chosen = Chosen::new(
        placement,
        &candidates,
        wide_names
            .iter()
            .zip(&wide)
            .map(|(name, s)| (name.as_str(), &s.spec.override_spec)),
        names
            .iter()
            .zip(&narrow)
            .map(|((namespace, name), s)| (namespace.as_str(), name.as_str(), &s.spec.override_spec)),
    );
    let on = |cluster| chosen.on(cluster).map_err(|bad| bad.to_string());
    clusters.iter().map(on).collect()
}

/// Of each override that is about one of these objects, in any of its snapshots: the snapshot that counts.
fn counting<'a, N: Resource, O: Resource + Send + Sync + 'static>(
    objects: impl Iterator<Item = &'a ObjectId>,
    (about, of): (&Index<N, ObjectId>, &Index<N, Key>),
    overrides: &Store<O>,
) -> Vec<Arc<N>> {
    let found = objects.flat_map(|object| about.get(object));
    let parents: BTreeSet<Key> = found.flat_map(|snapshot| parents(&*snapshot)).collect();
    // While an override is deleted its snapshots go one by one, and an old one must not count in between.
    let live = parents.iter().filter(|parent| is_live(overrides, parent));
    let counts = live.flat_map(|parent| {
        let snapshots = of.get(parent);
        current(snapshots.iter().map(|snapshot| (snapshot.meta(), snapshot.clone())))
    });
    counts.collect()
}

/// Whether an override is there to stay, also as one that cannot be read.
fn is_live<O: Resource + Send + Sync + 'static>(overrides: &Store<O>, key: &Key) -> bool {
    overrides.get(key).map_or_else(
        || overrides.is_odd(key),
        |found| found.meta().deletion_timestamp.is_none(),
    )
}
