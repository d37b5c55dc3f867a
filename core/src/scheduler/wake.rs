//! Which placements a change of a cluster concerns.
//!
//! A fleet's clusters report all the time, and nearly always nothing follows from it. A placement is looked at again only
//! if the answer to "may it use this cluster, and if not, why" has changed for a cluster that it could still take. What
//! each placement depends on is indexed, so the work grows with what changed and with whom it concerns, not with the
//! number of placements.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::decision::{Ineligible, Rejection};
use fleet_api::placement::{PlacementPolicy, PlacementType};

use super::plugins::Filters;
use super::property::{Property, Usage};
use super::world::{Cluster, Namespaces};

/// What happened to one cluster. Both sides are judged at the time of the event, or, when time alone made a cluster
/// unusable, the first one just before.
#[derive(Debug, Clone)]
pub struct Change<'a> {
    /// The cluster before; none if it is new.
    pub before: Option<Cluster<'a>>,
    /// The cluster now; none if its object is gone.
    pub after: Option<Cluster<'a>>,
}

/// What a placement's decision depends on.
#[derive(Debug, Clone)]
pub struct Interest {
    wants: Wants,
    /// Whether it would take another cluster.
    open: bool,
}

#[derive(Debug, Clone)]
enum Wants {
    /// Clusters that are fit.
    Fit {
        filters: Box<Filters>,
        topology_keys: BTreeSet<String>,
        namespace: Option<String>,
    },
    /// Clusters that are named.
    Named(BTreeSet<String>),
    /// None, for the policy is broken, and no cluster can mend that.
    Nothing,
}

impl Interest {
    /// The interest of a placement with this policy. `fully_scheduled` says that it has all the clusters that its current
    /// generation wants; a placement that wants every cluster never has.
    pub fn new(policy: Option<&PlacementPolicy>, namespace: Option<&str>, fully_scheduled: bool) -> Self {
        let placement_type = policy.map_or(PlacementType::PickAll, |policy| policy.placement_type);
        let constraints = policy
            .into_iter()
            .flat_map(|policy| &policy.topology_spread_constraints);
        let wants = match (placement_type, Filters::new(policy, namespace)) {
            (PlacementType::PickFixed, _) => Wants::Named(
                policy
                    .into_iter()
                    .flat_map(|policy| policy.cluster_names.iter().cloned())
                    .collect(),
            ),
            (_, Err(_)) => Wants::Nothing,
            (_, Ok(filters)) => Wants::Fit {
                filters: Box::new(filters),
                topology_keys: constraints.map(|constraint| constraint.topology_key.clone()).collect(),
                namespace: namespace.map(Into::into),
            },
        };
        Self {
            wants,
            open: placement_type == PlacementType::PickAll || !fully_scheduled,
        }
    }

    /// Whether `change` can change the placement's decision. `placed` says that the placement is on the cluster, with a
    /// binding that is neither `Unscheduled` nor being deleted.
    pub fn concerns(&self, change: &Change<'_>, placed: bool) -> bool {
        let Some(after) = &change.after else {
            // Its binding ends, or its explanation does.
            return placed || self.open && change.before.as_ref().is_some_and(|before| self.mentions(before.name));
        };
        // A cluster on its way out keeps what it has until it is gone.
        if after.leaving || !self.open {
            return false;
        }
        match &self.wants {
            Wants::Nothing => false,
            Wants::Named(names) => {
                let why = |cluster: &Cluster<'_>| cluster.ineligible.map(ageless);
                names.contains(after.name) && change.before.as_ref().map(why) != Some(why(after))
            }
            Wants::Fit {
                filters, topology_keys, ..
            } => {
                let Some(before) = &change.before else {
                    return filters.admit(after).is_ok();
                };
                let moved = topology_keys
                    .iter()
                    .any(|key| before.labels.get(key) != after.labels.get(key));
                moved || !placed && verdict(filters, before) != verdict(filters, after)
            }
        }
    }

    fn mentions(&self, cluster: &str) -> bool {
        match &self.wants {
            Wants::Nothing => false,
            Wants::Named(names) => names.contains(cluster),
            Wants::Fit { .. } => true,
        }
    }
}

/// The filters' answer without how long ago something was.
fn verdict(filters: &Filters, cluster: &Cluster<'_>) -> Result<(), Rejection> {
    filters.admit(cluster).map_err(|why| match why {
        Rejection::Ineligible(why) => Rejection::Ineligible(ageless(why)),
        other => other,
    })
}

fn ageless(why: Ineligible) -> Ineligible {
    match why {
        Ineligible::HeartbeatLost(_) => Ineligible::HeartbeatLost(std::time::Duration::ZERO),
        Ineligible::Unhealthy(_) => Ineligible::Unhealthy(std::time::Duration::ZERO),
        other => other,
    }
}

/// The interests of all placements, found by what has changed.
#[derive(Debug, Clone)]
pub struct Watchers<K> {
    interests: BTreeMap<K, Interest>,
    index: BTreeMap<Aspect, BTreeSet<K>>,
}

/// A part of a cluster that decisions depend on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Aspect {
    /// Whether it can be used, and its taints: of interest to all that look for clusters that are fit.
    Fitness,
    Label(String),
    Property(Property),
    Namespace(String),
    /// Whether it reports namespaces at all.
    Namespaces,
    /// Its name.
    Name(String),
}

impl<K> Default for Watchers<K> {
    fn default() -> Self {
        Self {
            interests: BTreeMap::new(),
            index: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Watchers<K> {
    /// Notes what `placement` depends on now.
    pub fn set(&mut self, placement: K, interest: Interest) {
        self.remove(&placement);
        for aspect in aspects(&interest) {
            self.index.entry(aspect).or_default().insert(placement.clone());
        }
        self.interests.insert(placement, interest);
    }

    /// Forgets `placement`.
    pub fn remove(&mut self, placement: &K) {
        let Some(interest) = self.interests.remove(placement) else {
            return;
        };
        for aspect in aspects(&interest) {
            if let Some(placements) = self.index.get_mut(&aspect) {
                placements.remove(placement);
                if placements.is_empty() {
                    self.index.remove(&aspect);
                }
            }
        }
    }

    /// The placements whose decision `change` can change. `placed` are those on the cluster, each with a binding that is
    /// neither `Unscheduled` nor being deleted.
    pub fn concerned(&self, change: &Change<'_>, placed: &BTreeSet<K>) -> BTreeSet<K> {
        let touched = touched(change);
        let candidates: BTreeSet<&K> = touched
            .iter()
            .filter_map(|aspect| self.index.get(aspect))
            .flatten()
            .collect();
        let gone = change.after.is_none();
        let candidates = candidates.into_iter().chain(placed.iter().filter(|_| gone));
        let concerned = candidates.filter(|placement| match self.interests.get(*placement) {
            Some(interest) => interest.concerns(change, placed.contains(*placement)),
            // Its policy is not known here yet, but its binding has lost its cluster.
            None => gone,
        });
        concerned.cloned().collect()
    }
}

/// What the interest depends on. One that takes no more clusters depends on nothing but the clusters that it has.
fn aspects(interest: &Interest) -> BTreeSet<Aspect> {
    if !interest.open {
        return BTreeSet::new();
    }
    match &interest.wants {
        Wants::Nothing => BTreeSet::new(),
        Wants::Named(names) => names.iter().cloned().map(Aspect::Name).collect(),
        Wants::Fit {
            filters,
            topology_keys,
            namespace,
        } => {
            let labels = filters
                .required
                .label_keys()
                .chain(topology_keys.iter().map(String::as_str));
            let mut aspects: BTreeSet<_> = labels.map(|key| Aspect::Label(key.into())).collect();
            aspects.extend(filters.required.properties().cloned().map(Aspect::Property));
            aspects.extend(
                namespace
                    .iter()
                    .flat_map(|ns| [Aspect::Namespace(ns.clone()), Aspect::Namespaces]),
            );
            aspects.insert(Aspect::Fitness);
            aspects
        }
    }
}

/// The parts of the cluster that differ.
fn touched(change: &Change<'_>) -> BTreeSet<Aspect> {
    let (before, after) = match (&change.before, &change.after) {
        (None, None) => return BTreeSet::new(),
        (None, Some(only)) | (Some(only), None) => {
            return BTreeSet::from([Aspect::Fitness, Aspect::Name(only.name.into())]);
        }
        (Some(before), Some(after)) => (before, after),
    };
    let mut touched = BTreeSet::new();
    let eligibility = before.ineligible.map(ageless) != after.ineligible.map(ageless);
    if eligibility || before.taints != after.taints {
        touched.extend([Aspect::Fitness, Aspect::Name(after.name.into())]);
    }
    touched.extend(differing(before.labels, after.labels).into_iter().map(Aspect::Label));
    if before.properties != after.properties {
        let values = |cluster: &Cluster<'_>| -> BTreeMap<String, String> {
            cluster
                .properties
                .iter()
                .map(|(name, property)| (name.clone(), property.value.clone()))
                .collect()
        };
        let names = differing(&values(before), &values(after));
        touched.extend(names.into_iter().map(|name| Aspect::Property(Property::Reported(name))));
    }
    if before.usage != after.usage {
        let (before, after) = (
            before.usage.cloned().unwrap_or_default(),
            after.usage.cloned().unwrap_or_default(),
        );
        for (kind, before, after) in [
            (Usage::Total, &before.capacity, &after.capacity),
            (Usage::Allocatable, &before.allocatable, &after.allocatable),
            (Usage::Available, &before.available, &after.available),
        ] {
            let resources = differing(before, after).into_iter();
            touched.extend(resources.map(|resource| Aspect::Property(Property::Usage(kind, resource))));
        }
    }
    match (before.namespaces, after.namespaces) {
        (Namespaces::Known(before), Namespaces::Known(after)) => {
            // The value names an owner, which is of no interest here.
            let names = before
                .keys()
                .filter(|ns| !after.contains_key(*ns))
                .chain(after.keys().filter(|ns| !before.contains_key(*ns)));
            touched.extend(names.cloned().map(Aspect::Namespace));
        }
        (before, after) if before == after => {}
        _ => _ = touched.insert(Aspect::Namespaces),
    }
    touched
}

/// The keys under which two maps differ.
fn differing<V: PartialEq>(before: &BTreeMap<String, V>, after: &BTreeMap<String, V>) -> Vec<String> {
    let changed = before
        .iter()
        .filter(|(key, value)| after.get(*key) != Some(*value))
        .map(|(key, _)| key);
    changed
        .chain(after.keys().filter(|key| !before.contains_key(*key)))
        .cloned()
        .collect()
}
