//! What the scheduler looks at: plain views over the objects, borrowed from whoever holds them.

use std::collections::BTreeMap;

use fleet_api::cluster::{MemberCluster, PropertyValue, ResourceUsage, Taint};
use fleet_api::conditions;
use fleet_api::conditions::decision::Ineligible;
use fleet_api::conditions::properties::NamespaceCollectionSucceeded;
use fleet_api::names::{ClusterName, PlacementKey};
use fleet_api::placement::{BindingSpec, BindingState, ClusterDecision, PlacementPolicy, PolicySnapshotStatus};
use fleet_api::{annotations, finalizers};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::membership::eligibility::eligibility_dated;

/// Everything that one decision depends on. Clusters and bindings may come in any order.
#[derive(Debug, Clone)]
pub struct World<'a> {
    /// Whose clusters are picked.
    pub placement: Placement<'a>,
    /// The current policy.
    pub snapshot: Snapshot<'a>,
    /// All clusters of the fleet, also those that are leaving or cannot be used.
    pub clusters: &'a [Cluster<'a>],
    /// All bindings of the placement, also those being deleted.
    pub bindings: &'a [Binding<'a>],
    /// When this is.
    pub now: Timestamp,
    /// Choices of whoever runs the hub.
    pub settings: SchedulerSettings,
}

/// The placement.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// Its name, and its namespace if it is of the namespaced kind.
    pub key: &'a PlacementKey,
    /// Its UID; names of new bindings depend on it.
    pub uid: &'a str,
}

/// The policy snapshot that is current.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// Its name, by which bindings refer to it.
    pub name: &'a str,
    /// Its generation, which the condition speaks of.
    pub generation: i64,
    /// The policy; none means every cluster.
    pub policy: Option<&'a PlacementPolicy>,
    /// The annotation with the number of clusters wanted, as it was found.
    pub number_of_clusters: Option<&'a str>,
    /// The annotation with the placement's generation, as it was found.
    pub placement_generation: Option<&'a str>,
    /// The status as last written.
    pub status: Option<&'a PolicySnapshotStatus>,
}

/// A cluster of the fleet.
#[derive(Debug, Clone)]
pub struct Cluster<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether its object is being deleted.
    pub leaving: bool,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its taints, in the order in which reasons name them.
    pub taints: &'a [Taint],
    /// What it reports about itself.
    pub properties: &'a BTreeMap<String, PropertyValue>,
    /// Its resources.
    pub usage: Option<&'a ResourceUsage>,
    /// Which namespaces it has.
    pub namespaces: Namespaces<'a>,
    /// Why it cannot be used now; none if it can.
    pub ineligible: Option<Ineligible>,
    /// When it can no longer be used if nothing is heard from it until then. None for one that cannot be used now:
    /// time alone never makes it usable.
    pub ineligible_from: Option<Timestamp>,
}

/// What is known about a cluster's namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces<'a> {
    /// The member does not collect them, so nothing can be said against it.
    NotCollected,
    /// It collects them but has not reported any.
    Unknown,
    /// These are there.
    Known(&'a BTreeMap<String, String>),
}

/// A binding of the placement.
#[derive(Debug, Clone)]
pub struct Binding<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The cluster that it is for.
    pub cluster: &'a str,
    /// Its state.
    pub state: &'a BindingState,
    /// The annotation with the state before `Unscheduled`, as it was found.
    pub previous_state: Option<&'a str>,
    /// The policy snapshot that picked the cluster.
    pub snapshot: &'a str,
    /// The decision that picked the cluster.
    pub decision: &'a ClusterDecision,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it still carries the scheduler's finalizer.
    pub held: bool,
}

/// Choices of whoever runs the hub. The default is what users of the API know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SchedulerSettings {
    /// Topology spread looks only at clusters that the placement could use or already uses, and always allows a pick
    /// that makes the spread more even. Otherwise a domain of unusable clusters can block the placement.
    pub spread_over_usable_clusters: bool,
    /// When a placement shrinks, of clusters with equal scores those that cannot be used now go first.
    pub trim_unusable_first: bool,
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_PROPERTIES: BTreeMap<String, PropertyValue> = BTreeMap::new();

impl<'a> Cluster<'a> {
    /// The view of `object` at `now`.
    pub fn new(object: &'a MemberCluster, now: Timestamp) -> Self {
        Self::dated(object, now, |stamp| stamp)
    }

    /// The same for who has seen the clock being set ([`eligibility_dated`](crate::membership::eligibility::eligibility_dated)).
    pub fn dated(object: &'a MemberCluster, now: Timestamp, dated: impl Fn(Timestamp) -> Timestamp) -> Self {
        let status = object.status.as_ref();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        let (ineligible, ineligible_from) = match eligibility_dated(object, now, dated) {
            // Nothing can join under such a name, whatever the status says, and nothing could be placed there.
            Ok(_) if ClusterName::new(name).is_err() => (Some(Ineligible::NotOnline), None),
            Ok(until) => (None, Some(until)),
            Err(why) => (Some(why), None),
        };
        let collects = status
            .is_some_and(|status| conditions::find(&status.conditions, NamespaceCollectionSucceeded::TYPE).is_some());
        Self {
            name,
            leaving: object.metadata.deletion_timestamp.is_some(),
            labels: object.metadata.labels.as_ref().unwrap_or(&NO_LABELS),
            taints: &object.spec.taints,
            properties: status.map_or(&NO_PROPERTIES, |status| &status.properties),
            usage: status.and_then(|status| status.resource_usage.as_ref()),
            namespaces: match status.map(|status| &status.namespaces) {
                _ if !collects => Namespaces::NotCollected,
                // An empty map is dropped on the wire, so it cannot be told from none.
                Some(namespaces) if !namespaces.is_empty() => Namespaces::Known(namespaces),
                _ => Namespaces::Unknown,
            },
            ineligible,
            ineligible_from,
        }
    }

    /// A cluster whose object exists and cannot be read: it gets nothing new, and what it has is not taken from it.
    pub fn unread(name: &'a str) -> Self {
        Self {
            name,
            leaving: false,
            labels: &NO_LABELS,
            taints: &[],
            properties: &NO_PROPERTIES,
            usage: None,
            namespaces: Namespaces::Unknown,
            ineligible: Some(Ineligible::NotOnline),
            ineligible_from: None,
        }
    }
}

impl<'a> Binding<'a> {
    /// The view of a binding of either scope.
    pub fn new(metadata: &'a ObjectMeta, spec: &'a BindingSpec) -> Self {
        let annotation = |key| {
            metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(key))
                .map(String::as_str)
        };
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            uid: metadata.uid.as_deref().unwrap_or_default(),
            cluster: &spec.target_cluster,
            state: &spec.state,
            previous_state: annotation(annotations::PREVIOUS_BINDING_STATE),
            snapshot: &spec.scheduling_policy_snapshot_name,
            decision: &spec.cluster_decision,
            deleting: metadata.deletion_timestamp.is_some(),
            held: metadata
                .finalizers
                .iter()
                .flatten()
                .any(|held| held == finalizers::SCHEDULER_BINDING),
        }
    }
}

impl<'a> Snapshot<'a> {
    /// The view of a policy snapshot of either scope.
    pub fn new(
        metadata: &'a ObjectMeta,
        policy: Option<&'a PlacementPolicy>,
        status: Option<&'a PolicySnapshotStatus>,
    ) -> Self {
        let annotation = |key| {
            metadata
                .annotations
                .as_ref()
                .and_then(|all| all.get(key))
                .map(String::as_str)
        };
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            policy,
            number_of_clusters: annotation(annotations::NUMBER_OF_CLUSTERS),
            placement_generation: annotation(annotations::PLACEMENT_GENERATION),
            status,
        }
    }
}
