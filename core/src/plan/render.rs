//! What each cluster has now and would have then.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use fleet_api::placement::{BindingSpec, NamespacedName};
use fleet_api::raw::RawJson;

use super::Walk;
use super::answer::{Difference, ObjectChange, PlannedCluster};
use super::diff;
use super::picking::Binding;
use super::resources::Frozen;
use crate::overrides::Overrides;
use crate::overrides::choose::Lists;
use crate::selection::ObjectId;
use crate::work::{Group, Rendering, render};

/// Manifests by object.
type Manifests = BTreeMap<ObjectId, RawJson>;
/// What a cluster of a class gets, or why it gets nothing.
type Rendered = Rc<Result<Manifests, String>>;

/// What changes on each cluster. Those that are left out, and those on which nothing can be rendered, keep what they have; the
/// latter say so.
pub(super) fn differences(
    walk: &Walk<'_, '_>,
    bindings: &[Binding],
    (frozen, left_out): (&Frozen<'_>, &BTreeSet<&str>),
    clusters: &mut [PlannedCluster],
) -> Vec<Difference> {
    let mut kitchen = Kitchen::new(walk, frozen);
    let before: BTreeMap<&str, &BindingSpec> = walk
        .world
        .bindings
        .iter()
        .filter(|binding| !binding.spec.resource_snapshot_name.is_empty())
        .map(|binding| (binding.spec.target_cluster.as_str(), binding.spec))
        .collect();
    let picked: BTreeMap<&str, &Binding> = bindings
        .iter()
        .filter(|binding| binding.is_live())
        .map(|binding| (binding.spec.target_cluster.as_str(), binding))
        .collect();
    let nothing: Rendered = Rc::new(Ok(Manifests::new()));
    // By what the cluster has and what it gets: most clusters are alike.
    let mut alike: BTreeMap<(usize, usize), Difference> = BTreeMap::new();
    let concerned = clusters
        .iter_mut()
        .filter(|cluster| !left_out.contains(cluster.name.as_str()));
    for cluster in concerned {
        let has = match before.get(cluster.name.as_str()) {
            Some(spec) => kitchen.before(spec),
            None => nothing.clone(),
        };
        let gets = if picked.contains_key(cluster.name.as_str()) {
            match walk.lists(&cluster.name) {
                Ok(lists) => kitchen.after(&cluster.name, &lists),
                Err(_) => has.clone(),
            }
        } else {
            nothing.clone()
        };
        // What it has is not known where a snapshot is gone; then all that it gets is shown.
        let none = Manifests::new();
        let old = has.as_ref().as_ref().unwrap_or(&none);
        let new = match gets.as_ref() {
            Ok(new) => new,
            Err(why) => {
                cluster.problem = Some(why.clone());
                continue;
            }
        };
        let key = (Rc::as_ptr(&has).addr(), Rc::as_ptr(&gets).addr());
        let difference = alike.entry(key).or_insert_with(|| Difference {
            clusters: Vec::new(),
            objects: between(old, new),
        });
        difference.clusters.push(cluster.name.clone());
    }
    let mut all: Vec<_> = alike.into_values().filter(|it| !it.objects.is_empty()).collect();
    // Not by address: equal worlds give equal plans.
    all.sort_by(|a, b| a.clusters.cmp(&b.clusters));
    merged(all)
}

/// Puts clusters with equal changes together that came to them from different sides.
fn merged(all: Vec<Difference>) -> Vec<Difference> {
    let mut merged: Vec<Difference> = Vec::new();
    for difference in all {
        match merged.iter_mut().find(|known| known.objects == difference.objects) {
            Some(known) => {
                known.clusters.extend(difference.clusters);
                known.clusters.sort_unstable();
            }
            None => merged.push(difference),
        }
    }
    merged
}

fn between(before: &Manifests, after: &Manifests) -> Vec<ObjectChange> {
    let old = before
        .iter()
        .filter_map(|(object, text)| diff::change(object, Some(text), after.get(object)));
    let new = after
        .iter()
        .filter(|(object, _)| !before.contains_key(*object))
        .filter_map(|(object, text)| diff::change(object, None, Some(text)));
    old.chain(new).collect()
}

/// Renders once what is alike.
struct Kitchen<'k, 'w, 'a> {
    walk: &'k Walk<'w, 'a>,
    group: Group<'k>,
    /// By snapshot and class.
    done: BTreeMap<(String, String), Rendered>,
}

impl<'k, 'w, 'a> Kitchen<'k, 'w, 'a> {
    fn new(walk: &'k Walk<'w, 'a>, frozen: &'k Frozen<'_>) -> Self {
        Self {
            walk,
            group: frozen.group(),
            done: BTreeMap::new(),
        }
    }

    /// What a binding has put on its cluster.
    fn before(&mut self, spec: &BindingSpec) -> Rendered {
        let lists = Lists {
            cluster_wide: spec.cluster_resource_override_snapshots.clone(),
            namespaced: spec.resource_override_snapshots.clone(),
        };
        let (walk, name) = (self.walk, spec.resource_snapshot_name.as_str());
        let snapshots = walk.world.snapshots.iter();
        let master = snapshots.clone().find(|it| it.metadata.name.as_deref() == Some(name));
        let group = master.ok_or_else(|| format!("resource snapshot {name} is gone"));
        let group = group.and_then(|master| {
            let collected = Group::collect(walk.world.key, *master, snapshots.copied());
            collected.map_err(|failure| failure.to_string())
        });
        match group {
            Ok(group) => self.rendered(name, &group, &spec.target_cluster, &lists),
            Err(why) => self.failed(name, why),
        }
    }

    /// Kept, so that its address is its own.
    fn failed(&mut self, snapshot: &str, why: String) -> Rendered {
        let key = (snapshot.to_owned(), format!("! {why}"));
        self.done.entry(key).or_insert_with(|| Rc::new(Err(why))).clone()
    }

    /// What a cluster would get.
    fn after(&mut self, cluster: &str, lists: &Lists) -> Rendered {
        let group = self.group.clone();
        self.rendered("", &group, cluster, lists)
    }

    fn rendered(&mut self, snapshot: &str, group: &Group<'_>, cluster: &str, lists: &Lists) -> Rendered {
        let overrides = match self.overrides(cluster, lists) {
            Ok(overrides) => overrides,
            Err(why) => return self.failed(snapshot, why),
        };
        let class = format!("{} {}", shown(lists), overrides.class());
        let world = self.walk.world;
        let make = || {
            let rendering = render(world.key, group, &overrides, world.cluster_scoped, world.settings.rbac);
            Rc::new(rendering.map(manifests).map_err(|failure| failure.to_string()))
        };
        self.done
            .entry((snapshot.to_owned(), class))
            .or_insert_with(make)
            .clone()
    }

    fn overrides<'c>(&self, cluster: &'c str, lists: &'c Lists) -> Result<Overrides<'c>, String>
    where
        'k: 'c,
    {
        let known = &self.walk.world.overrides;
        let mut wide = Vec::new();
        for name in &lists.cluster_wide {
            let spec = known.cluster_wide.get(name.as_str());
            wide.push((
                name.as_str(),
                *spec.ok_or_else(|| format!("override snapshot {name} is gone"))?,
            ));
        }
        let mut narrow = Vec::new();
        for NamespacedName { name, namespace } in &lists.namespaced {
            let spec = known.namespaced.get(&(namespace.as_str(), name.as_str()));
            let spec = spec.ok_or_else(|| format!("override snapshot {namespace}/{name} is gone"))?;
            narrow.push((namespace.as_str(), name.as_str(), *spec));
        }
        let made = Overrides::new(self.walk.cluster(cluster), wide, narrow);
        made.map(|made| made.with(self.walk.world.settings.rbac))
            .map_err(|bad| bad.to_string())
    }
}

fn shown(lists: &Lists) -> String {
    let narrow = lists
        .namespaced
        .iter()
        .map(|it| format!("{}/{}", it.namespace, it.name));
    let all: Vec<_> = lists.cluster_wide.iter().cloned().chain(narrow).collect();
    all.join(",")
}

fn manifests(rendering: Rendering) -> Manifests {
    let pieces = rendering.pieces.into_iter();
    pieces
        .flat_map(|piece| {
            let texts: Vec<_> = piece.manifests.to_vec();
            piece.objects.into_iter().zip(texts)
        })
        .collect()
}
