//! Overrides: what is different about a placed object on some clusters.
//!
//! Three decisions: when an override gets a new snapshot ([`snapshots`]), which snapshots a placement's binding to a
//! cluster names ([`choose`]), and what they make of a manifest there ([`Overrides::apply`]). A manifest that no rule
//! touches is never parsed, and none becomes another object.
//!
//! Order: cluster-wide overrides first, in the binding's order, then namespaced ones; within an override rule by rule.
//! So the namespaced one wins over the cluster-wide, the later over the earlier.

pub mod choose;
pub mod patch;
mod rules;
pub mod snapshots;
#[cfg(test)]
mod tests;
mod unchanged;
pub mod variables;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fleet_api::placement::{
    ClusterResourceOverrideSpec, JsonPatchOverride, OverridePolicy, OverrideRule, OverrideType, ResourceOverrideSpec,
};
use fleet_api::raw::RawJson;
use serde_json::Value;

use crate::selection::ObjectId;
use crate::text::quote;
use patch::Operation;
pub use rules::{BadRule, matching};

/// The cluster for which a manifest is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelledCluster<'a> {
    /// The MemberCluster's name.
    pub name: &'a str,
    /// The MemberCluster's labels.
    pub labels: &'a BTreeMap<String, String>,
}

/// A kind of override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// ClusterResourceOverride.
    ClusterWide,
    /// ResourceOverride.
    Namespaced,
}

impl Reach {
    /// The kind of its snapshots.
    pub fn snapshot_kind(self) -> &'static str {
        match self {
            Self::ClusterWide => "ClusterResourceOverrideSnapshot",
            Self::Namespaced => "ResourceOverrideSnapshot",
        }
    }
}

/// Whether objects that grant rights may come out of a namespace. Nobody checks there that whoever wrote them has these
/// rights: on the hub an envelope is only data, and an override only a patch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Rbac {
    /// As any other kind.
    #[default]
    Allowed,
    /// Neither in what is placed by ResourcePlacements or ResourceEnvelopes, nor changed by ResourceOverrides.
    Forbidden,
}

impl Rbac {
    /// Whether `object` may not come out of a namespace.
    pub fn forbids(self, object: &ObjectId) -> bool {
        let grants = ["rbac.authorization.k8s.io", "authorization.openshift.io"];
        self == Self::Forbidden && grants.contains(&object.group.as_str())
    }
}

/// An override snapshot with the rules that apply on one cluster.
#[derive(Debug, Clone)]
struct Prepared<'a> {
    reach: Reach,
    snapshot: &'a str,
    selected: Vec<ObjectId>,
    rules: Vec<(usize, &'a OverrideRule)>,
}

/// The overrides of a binding, for its cluster.
#[derive(Debug, Clone)]
pub struct Overrides<'a> {
    cluster: LabelledCluster<'a>,
    prepared: Vec<Prepared<'a>>,
    rbac: Rbac,
}

/// What became of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum Rendered {
    /// No rule is about it; the text stays as it is.
    Untouched,
    /// It was patched.
    Patched(RawJson),
    /// A rule keeps it off this cluster.
    Deleted,
}

/// An override that does not fit the object it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} \"{snapshot}\" failed to apply on {object}: {cause}", reach.snapshot_kind())]
pub struct Error {
    /// The kind of override.
    pub reach: Reach,
    /// The override snapshot.
    pub snapshot: String,
    /// The object, as messages show it.
    pub object: String,
    /// What is wrong.
    pub cause: String,
}

impl<'a> Overrides<'a> {
    /// No overrides at all.
    pub fn none(cluster: LabelledCluster<'a>) -> Self {
        Self {
            cluster,
            prepared: Vec::new(),
            rbac: Rbac::default(),
        }
    }

    /// The same, with this said about objects that grant rights.
    #[must_use]
    pub fn with(self, rbac: Rbac) -> Self {
        Self { rbac, ..self }
    }

    /// The override snapshots that a binding names, in its order, each with its content.
    pub fn new(
        cluster: LabelledCluster<'a>,
        cluster_wide: impl IntoIterator<Item = (&'a str, &'a ClusterResourceOverrideSpec)>,
        namespaced: impl IntoIterator<Item = (&'a str, &'a str, &'a ResourceOverrideSpec)>,
    ) -> Result<Self, BadRule> {
        let mut prepared = Vec::new();
        for (snapshot, spec) in cluster_wide {
            let selected = choose::selected_cluster_wide(spec).collect();
            prepared.push(Prepared::new(
                Reach::ClusterWide,
                snapshot,
                selected,
                &spec.policy,
                &cluster,
            )?);
        }
        for (namespace, snapshot, spec) in namespaced {
            let selected = choose::selected_in(namespace, spec).collect();
            prepared.push(Prepared::new(
                Reach::Namespaced,
                snapshot,
                selected,
                &spec.policy,
                &cluster,
            )?);
        }
        Ok(Self {
            cluster,
            prepared,
            rbac: Rbac::default(),
        })
    }

    /// What `manifest` is on this cluster. `cluster_scoped` is what the hub's API knows about its kind; a kind that it
    /// does not know counts as namespaced.
    pub fn apply(&self, object: &ObjectId, cluster_scoped: bool, manifest: &RawJson) -> Result<Rendered, Error> {
        let namespace = ObjectId::of_namespace(&object.namespace);
        let (mut original, mut document) = (None::<Value>, None::<Value>);
        for prepared in &self.prepared {
            let about = match (prepared.reach, cluster_scoped) {
                (Reach::Namespaced, true) => continue,
                // An override of a namespace is one of everything in it.
                (Reach::ClusterWide, false) => &namespace,
                (Reach::ClusterWide, true) | (Reach::Namespaced, false) => object,
            };
            if !prepared.selected.contains(about) {
                continue;
            }
            for (_, rule) in &prepared.rules {
                if rule.override_type == OverrideType::Delete {
                    // Whatever a later override would patch is not there any more.
                    return Ok(Rendered::Deleted);
                }
                let before = original.get_or_insert_with(|| manifest.to_value());
                let document = document.get_or_insert_with(|| before.clone());
                let allowed = if prepared.reach == Reach::Namespaced && self.rbac.forbids(object) {
                    Err("this hub does not allow a ResourceOverride to change objects that grant rights".to_owned())
                } else {
                    Ok(())
                };
                let applied = allowed.and_then(|()| patched(document, &rule.json_patch_overrides, &self.cluster));
                let applied = applied.and_then(|()| unchanged::check(before, document).map_err(ToOwned::to_owned));
                applied.map_err(|cause| Error {
                    reach: prepared.reach,
                    snapshot: prepared.snapshot.into(),
                    object: object.to_string(),
                    cause,
                })?;
            }
        }
        Ok(document.map_or(Rendered::Untouched, |document| {
            Rendered::Patched(RawJson::from(document))
        }))
    }

    /// A key that is equal for clusters on which these overrides do the same, so that a placement to a thousand equal
    /// clusters is rendered once.
    pub fn class(&self) -> String {
        let mut class = String::new();
        for prepared in &self.prepared {
            let rules: Vec<_> = prepared.rules.iter().map(|(index, _)| index.to_string()).collect();
            write!(class, "{:?} {} {};", prepared.reach, prepared.snapshot, rules.join(",")).expect("a string grows");
            let values = prepared
                .rules
                .iter()
                .flat_map(|(_, rule)| &rule.json_patch_overrides)
                .filter_map(value_text);
            for value in values.filter(|value| value.contains("${")) {
                // A variable that fails does so for this cluster, which is then a class of its own.
                let value = variables::substitute(value, &self.cluster).unwrap_or_else(|error| error);
                write!(class, "{value};").expect("a string grows");
            }
        }
        class
    }
}

impl<'a> Prepared<'a> {
    fn new(
        reach: Reach,
        snapshot: &'a str,
        selected: Vec<ObjectId>,
        policy: &'a OverridePolicy,
        cluster: &LabelledCluster<'_>,
    ) -> Result<Self, BadRule> {
        let rules = rules::matching(policy, cluster).map_err(|error| error.in_snapshot(snapshot))?;
        Ok(Self {
            reach,
            snapshot,
            selected,
            rules,
        })
    }
}

fn value_text(entry: &JsonPatchOverride) -> Option<&str> {
    entry.value.as_ref().map(RawJson::as_str)
}

fn patched(document: &mut Value, entries: &[JsonPatchOverride], cluster: &LabelledCluster<'_>) -> Result<(), String> {
    for entry in entries {
        let text = variables::substitute(value_text(entry).unwrap_or("null"), cluster)?;
        let value =
            serde_json::from_str(&text).map_err(|error| format!("the value {} is not JSON: {error}", quote(&text)))?;
        patch::apply(
            document,
            Operation {
                op: entry.op,
                path: &entry.path,
                value,
            },
        )?;
    }
    Ok(())
}
