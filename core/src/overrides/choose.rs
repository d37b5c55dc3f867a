//! Which override snapshots a placement's bindings name.
//!
//! [`Candidates`] are the objects that overrides can be about, made once per snapshot group; [`Chosen`] the overrides
//! that are about one of them, made once per placement; [`Chosen::on`] those that apply on a cluster, once per binding.

use std::collections::BTreeSet;

use fleet_api::names::PlacementKey;
use fleet_api::placement::{
    ClusterResourceOverrideSpec, NamespacedName, PlacementRef, PlacementScope, ResourceOverrideSpec,
};
use fleet_api::raw::RawJson;

use super::{BadRule, LabelledCluster, rules};
use crate::envelope::{self, EnvelopeKind};
use crate::selection::{ClusterScoped, ObjectId};

/// The objects of a snapshot group that an override can select.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    cluster_wide: BTreeSet<ObjectId>,
    namespaced: BTreeSet<ObjectId>,
}

/// The lists in a binding's spec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lists {
    /// ClusterResourceOverride snapshots, by name.
    pub cluster_wide: Vec<String>,
    /// ResourceOverride snapshots, by namespace and name.
    pub namespaced: Vec<NamespacedName>,
}

impl Lists {
    /// The names of all of them: `namespace/name` of ResourceOverride snapshots.
    pub fn shown(&self) -> impl Iterator<Item = String> {
        let namespaced = self.namespaced.iter();
        let namespaced = namespaced.map(|named| format!("{}/{}", named.namespace, named.name));
        self.cluster_wide.iter().cloned().chain(namespaced)
    }
}

/// The overrides that concern a placement, whatever the cluster.
#[derive(Debug, Clone, Default)]
pub struct Chosen<'a> {
    cluster_wide: Vec<(&'a str, &'a ClusterResourceOverrideSpec)>,
    namespaced: Vec<(&'a str, &'a str, &'a ResourceOverrideSpec)>,
}

impl Candidates {
    /// From the resources of all snapshots of a group. What cannot be read is skipped: the work generator reports it.
    pub fn new<'a>(resources: impl IntoIterator<Item = &'a RawJson>, cluster_scoped: ClusterScoped<'_>) -> Self {
        let mut candidates = Self::default();
        for resource in resources {
            let Ok(object) = ObjectId::of(resource) else { continue };
            match EnvelopeKind::of(&object) {
                Some(kind) if object.version == fleet_api::kind::VERSION => {
                    candidates.add_envelope(kind, &object, resource, cluster_scoped);
                }
                Some(_) => {}
                None if cluster_scoped(&object) == Some(true) => _ = candidates.cluster_wide.insert(object),
                None => candidates.add_namespaced(object),
            }
        }
        candidates
    }

    fn add_namespaced(&mut self, object: ObjectId) {
        self.cluster_wide.insert(ObjectId::of_namespace(&object.namespace));
        self.namespaced.insert(object);
    }

    fn add_envelope(
        &mut self,
        kind: EnvelopeKind,
        object: &ObjectId,
        raw: &RawJson,
        cluster_scoped: ClusterScoped<'_>,
    ) {
        let inner = envelope::inner(raw).unwrap_or_default();
        let inner = inner.values().filter_map(|manifest| ObjectId::of(manifest).ok());
        match kind {
            EnvelopeKind::Cluster => {
                self.cluster_wide
                    .extend(inner.filter(|o| cluster_scoped(o) == Some(true) && o.namespace.is_empty()));
            }
            EnvelopeKind::Namespaced => {
                self.cluster_wide.insert(ObjectId::of_namespace(&object.namespace));
                let fits = |o: &ObjectId| cluster_scoped(o) != Some(true) && o.namespace == object.namespace;
                self.namespaced.extend(inner.filter(fits));
            }
        }
    }

    /// What ClusterResourceOverrides can be about.
    pub fn cluster_wide(&self) -> impl Iterator<Item = &ObjectId> {
        self.cluster_wide.iter()
    }

    /// What ResourceOverrides can be about.
    pub fn namespaced(&self) -> impl Iterator<Item = &ObjectId> {
        self.namespaced.iter()
    }

    fn about_cluster_wide(&self, spec: &ClusterResourceOverrideSpec) -> bool {
        selected_cluster_wide(spec).any(|object| self.cluster_wide.contains(&object))
    }

    fn about_namespaced(&self, namespace: &str, spec: &ResourceOverrideSpec) -> bool {
        selected_in(namespace, spec).any(|object| self.namespaced.contains(&object))
    }
}

/// Where overrides find these resources, whatever is known of their kinds: the namespaces, and what is in none. No
/// override is about a resource of a group that is not found under what it selects, or under its own namespace.
pub fn found_under<'a>(resources: impl IntoIterator<Item = &'a RawJson>) -> BTreeSet<ObjectId> {
    let mut found = BTreeSet::new();
    for resource in resources {
        let Ok(object) = ObjectId::of(resource) else { continue };
        if EnvelopeKind::of(&object) == Some(EnvelopeKind::Cluster) {
            let inner = envelope::inner(resource).unwrap_or_default();
            let inner = inner.values().filter_map(|manifest| ObjectId::of(manifest).ok());
            found.extend(inner.filter(|inner| inner.namespace.is_empty()));
        } else if object.namespace.is_empty() {
            found.insert(object);
        } else {
            found.insert(ObjectId::of_namespace(&object.namespace));
        }
    }
    found
}

impl<'a> Chosen<'a> {
    /// Those of the latest override snapshots (name, or namespace and name, with the override's content) that concern
    /// the placement.
    pub fn new(
        placement: &PlacementKey,
        candidates: &Candidates,
        cluster_wide: impl IntoIterator<Item = (&'a str, &'a ClusterResourceOverrideSpec)>,
        namespaced: impl IntoIterator<Item = (&'a str, &'a str, &'a ResourceOverrideSpec)>,
    ) -> Self {
        let cluster_wide = cluster_wide.into_iter().filter(|(_, spec)| {
            refers(spec.placement.as_ref(), None, placement) && candidates.about_cluster_wide(spec)
        });
        let namespaced = namespaced.into_iter().filter(|(namespace, _, spec)| {
            refers(spec.placement.as_ref(), Some(namespace), placement) && candidates.about_namespaced(namespace, spec)
        });
        let mut chosen = Self {
            cluster_wide: cluster_wide.collect(),
            namespaced: namespaced.collect(),
        };
        chosen.cluster_wide.sort_by_key(|(name, _)| *name);
        chosen
            .namespaced
            .sort_by_key(|(namespace, name, _)| (*namespace, *name));
        chosen
    }

    /// What the binding to `cluster` names: the overrides with at least one rule for it.
    pub fn on(&self, cluster: &LabelledCluster<'_>) -> Result<Lists, BadRule> {
        let mut lists = Lists::default();
        for (name, spec) in &self.cluster_wide {
            let rules = rules::matching(&spec.policy, cluster).map_err(|error| error.in_snapshot(name))?;
            if !rules.is_empty() {
                lists.cluster_wide.push((*name).into());
            }
        }
        for (namespace, name, spec) in &self.namespaced {
            let rules = rules::matching(&spec.policy, cluster).map_err(|error| error.in_snapshot(name))?;
            if !rules.is_empty() {
                lists.namespaced.push(NamespacedName {
                    name: (*name).into(),
                    namespace: (*namespace).into(),
                });
            }
        }
        Ok(lists)
    }
}

/// Whether an override is for this placement: it names it, or none at all.
pub fn refers(reference: Option<&PlacementRef>, namespace: Option<&str>, placement: &PlacementKey) -> bool {
    let Some(reference) = reference else { return true };
    let namespace = match reference.scope {
        PlacementScope::Cluster => None,
        PlacementScope::Namespaced => namespace,
    };
    reference.name == placement.name() && namespace == placement.namespace()
}

/// What a ClusterResourceOverride selects. Only group, version, kind and name count; the selection scope does not.
pub fn selected_cluster_wide(spec: &ClusterResourceOverrideSpec) -> impl Iterator<Item = ObjectId> {
    spec.cluster_resource_selectors.iter().map(|selector| ObjectId {
        group: selector.group.clone(),
        version: selector.version.clone(),
        kind: selector.kind.clone(),
        namespace: String::new(),
        name: selector.name.clone(),
    })
}

/// What a ResourceOverride of this namespace selects.
pub fn selected_in(namespace: &str, spec: &ResourceOverrideSpec) -> impl Iterator<Item = ObjectId> {
    spec.resource_selectors.iter().map(move |selector| ObjectId {
        group: selector.group.clone(),
        version: selector.version.clone(),
        kind: selector.kind.clone(),
        namespace: namespace.into(),
        name: selector.name.clone(),
    })
}
