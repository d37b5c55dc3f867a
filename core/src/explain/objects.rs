//! What explanations are made from, owned: whoever has read it from a hub fills [`Objects`] and lends them as a [`Fleet`].
//!
//! Objects of both scopes lie side by side, since members, Works and Events belong to both. What could not be read stays
//! empty.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_api::kind::{HasSpec, HasStatus, Resource};
use fleet_api::placement::{
    ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterScoped, Namespaced, Scope, Work,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::fleet::{Fleet, Live, View};

/// The objects of one scope, of all namespaces.
#[derive(Debug, Clone)]
pub struct Family<S: Scope> {
    /// Placements.
    pub placements: Vec<S::Placement>,
    /// Their policy snapshots.
    pub policies: Vec<S::PolicySnapshot>,
    /// The metadata of their resource snapshots.
    pub snapshots: Vec<ObjectMeta>,
    /// Their bindings.
    pub bindings: Vec<S::Binding>,
    /// Update runs.
    pub runs: Vec<S::UpdateRun>,
    /// Strategies that update runs follow.
    pub strategies: Vec<S::UpdateStrategy>,
    /// Approval requests of update runs.
    pub approvals: Vec<S::ApprovalRequest>,
}

// Derived, it would ask the kinds for a default, which they do not have.
impl<S: Scope> Default for Family<S> {
    fn default() -> Self {
        Self {
            placements: Vec::new(),
            policies: Vec::new(),
            snapshots: Vec::new(),
            bindings: Vec::new(),
            runs: Vec::new(),
            strategies: Vec::new(),
            approvals: Vec::new(),
        }
    }
}

/// An object as it is on a member.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveObject {
    /// The member.
    pub cluster: String,
    /// The kind.
    pub kind: String,
    /// Its metadata, with its managed fields.
    pub metadata: ObjectMeta,
}

/// Everything that has been read.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// All members.
    pub members: Vec<MemberCluster>,
    /// Whether there may be others, which could not be read.
    pub members_unread: bool,
    /// Their InternalMemberClusters. Their metadata is enough.
    pub internals: Vec<InternalMemberCluster>,
    /// Namespaces of the hub that are being deleted.
    pub terminating: Vec<String>,
    /// ClusterResourcePlacements and what belongs to them.
    pub cluster: Family<ClusterScoped>,
    /// ResourcePlacements and what belongs to them.
    pub namespaced: Family<Namespaced>,
    /// Works of members.
    pub works: Vec<Work>,
    /// Disruption budgets.
    pub budgets: Vec<ClusterResourcePlacementDisruptionBudget>,
    /// Evictions.
    pub evictions: Vec<ClusterResourcePlacementEviction>,
    /// Events, in any order.
    pub events: Vec<Event>,
    /// What the readyz of member agents says, by member.
    pub readyz: BTreeMap<String, String>,
    /// Objects on members.
    pub live: Vec<LiveObject>,
    /// Placements that are named somewhere and do not exist, by namespace and name.
    pub gone: BTreeSet<(String, String)>,
}

impl Objects {
    /// What is known, for the family of a namespace; for the cluster-scoped one if it is empty.
    pub fn fleet<'a>(&'a self, namespace: &'a str, now: Timestamp) -> Fleet<'a> {
        let mut fleet = Fleet::new(namespace, now);
        fleet.members = self.members.iter().collect();
        fleet.members_unread = self.members_unread;
        fleet.internals = self.internals.iter().collect();
        fleet.terminating = self.terminating.iter().map(String::as_str).collect();
        if namespace.is_empty() {
            self.cluster.lend(&mut fleet);
        } else {
            self.namespaced.lend(&mut fleet);
        }
        let everywhere = self.cluster.bindings.iter().map(view);
        let everywhere = everywhere.chain(self.namespaced.bindings.iter().map(view));
        fleet.others = everywhere.filter(|binding| !is_in(binding.meta, namespace)).collect();
        fleet.works = self.works.iter().collect();
        fleet.budgets = self.budgets.iter().collect();
        fleet.evictions = self.evictions.iter().collect();
        // Those about objects of other namespaces may have the names of objects that are looked at.
        let about = |event: &&Event| {
            let about = event.involved_object.namespace.as_deref().unwrap_or_default();
            about.is_empty() || about == namespace
        };
        fleet.events = self.events.iter().filter(about).collect();
        fleet.events.sort_by_key(|event| happened(event));
        let readyz = self.readyz.iter();
        fleet.readyz = readyz.map(|(name, says)| (name.as_str(), says.as_str())).collect();
        let live = self.live.iter().map(|live| Live {
            cluster: &live.cluster,
            kind: &live.kind,
            meta: &live.metadata,
        });
        fleet.live = live.collect();
        let gone = self.gone.iter();
        fleet.gone = gone
            .map(|(namespace, name)| (namespace.as_str(), name.as_str()))
            .collect();
        fleet
    }

    /// The namespaces that have placements or runs: each is a family of its own. Empty for the cluster-scoped one, which is
    /// first.
    pub fn namespaces(&self) -> BTreeSet<&str> {
        let placements = self.namespaced.placements.iter().map(Resource::meta);
        let metas = placements.chain(self.namespaced.runs.iter().map(Resource::meta));
        let namespaced = metas.filter_map(|meta| meta.namespace.as_deref());
        std::iter::once("").chain(namespaced).collect()
    }
}

impl<S: Scope> Family<S> {
    fn lend<'a>(&'a self, fleet: &mut Fleet<'a>) {
        fleet.placements = views(&self.placements, fleet.namespace);
        fleet.policies = views(&self.policies, fleet.namespace);
        let snapshots = self.snapshots.iter();
        fleet.snapshots = snapshots.filter(|meta| is_in(meta, fleet.namespace)).collect();
        fleet.bindings = views(&self.bindings, fleet.namespace);
        fleet.runs = views(&self.runs, fleet.namespace);
        fleet.approvals = views(&self.approvals, fleet.namespace);
    }
}

fn views<'a, K>(objects: &'a [K], namespace: &str) -> Vec<View<'a, K::Spec, K::Status>>
where
    K: Resource + HasSpec + HasStatus,
{
    let here = objects.iter().filter(|object| is_in(object.meta(), namespace));
    here.map(view).collect()
}

fn view<K: Resource + HasSpec + HasStatus>(object: &K) -> View<'_, K::Spec, K::Status> {
    View::of(object.meta(), object.spec(), object.status())
}

fn is_in(meta: &ObjectMeta, namespace: &str) -> bool {
    meta.namespace.as_deref().unwrap_or_default() == namespace
}

/// When an Event happened last.
pub fn happened(event: &Event) -> Option<Timestamp> {
    let series = event
        .series
        .as_ref()
        .and_then(|series| series.last_observed_time.as_ref());
    let last = event.last_timestamp.as_ref().or(event.first_timestamp.as_ref());
    let precise = series.or(event.event_time.as_ref()).map(|time| time.0);
    let created = event.metadata.creation_timestamp.as_ref();
    last.map(|time| time.0)
        .max(precise)
        .or_else(|| created.map(|time| time.0))
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;
    use crate::explain::{member, placement};

    fn of<K: DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    fn binding(namespace: Option<&str>, name: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": namespace, "labels": {"kubernetes-fleet.io/parent-CRP": "web"}},
            "spec": {
                "state": "Bound", "resourceSnapshotName": "s", "schedulingPolicySnapshotName": "p",
                "targetCluster": "east", "clusterDecision": {"clusterName": "east", "selected": true, "reason": ""},
            },
        })
    }

    fn event(name: &str, namespace: Option<&str>, minute: u32, message: &str) -> Event {
        of(json!({
            "metadata": {"name": name}, "reason": "R", "message": message,
            "involvedObject": {"kind": "ResourcePlacement", "name": "web", "namespace": namespace},
            "lastTimestamp": format!("2026-01-02T11:{minute:02}:00Z"),
        }))
    }

    fn objects() -> Objects {
        let web = |namespace: Option<&str>| {
            json!({
                "metadata": {"name": "web", "namespace": namespace, "generation": 1},
                "spec": {"resourceSelectors": []},
            })
        };
        Objects {
            members: vec![of(
                json!({"metadata": {"name": "east"}, "spec": {"identity": {"kind": "User", "name": "e"}}}),
            )],
            cluster: Family {
                placements: vec![of(web(None))],
                bindings: vec![of(binding(None, "web-east"))],
                ..Family::default()
            },
            namespaced: Family {
                placements: vec![of(web(Some("shop"))), of(web(Some("bank")))],
                bindings: vec![
                    of(binding(Some("shop"), "web-east")),
                    of(binding(Some("bank"), "web-east")),
                ],
                snapshots: vec![of(json!({"name": "s", "namespace": "bank"}))],
                ..Family::default()
            },
            events: vec![
                event("b", Some("shop"), 50, "late"),
                event("c", Some("bank"), 55, "elsewhere"),
                event("a", Some("shop"), 40, "early"),
            ],
            readyz: [("east".to_owned(), "readyz check passed".to_owned())].into(),
            ..Objects::default()
        }
    }

    #[test]
    fn a_family_sees_its_own_objects_and_what_all_share() {
        let objects = objects();
        let now = "2026-01-02T12:00:00Z".parse().unwrap();
        for (namespace, snapshots, scope) in [("", 0, "crp/web"), ("shop", 0, "rp/web"), ("bank", 1, "rp/web")] {
            let fleet = objects.fleet(namespace, now);
            assert_eq!((fleet.placements.len(), fleet.bindings.len()), (1, 1), "{namespace}");
            assert_eq!(
                (fleet.others.len(), fleet.snapshots.len()),
                (2, snapshots),
                "{namespace}"
            );
            assert_eq!(fleet.readyz["east"], "readyz check passed");
            assert_eq!(placement(&fleet, "web").subject, scope);
            let cause = member(&fleet, "east").cause().cloned().unwrap();
            assert!(cause.text.contains("has not seen the MemberCluster"), "{cause:?}");
        }
        assert_eq!(
            objects.namespaces().into_iter().collect::<Vec<_>>(),
            ["", "bank", "shop"]
        );
    }

    #[test]
    fn the_last_event_is_the_latest_one_of_the_family() {
        let objects = objects();
        let fleet = objects.fleet("shop", Timestamp::UNIX_EPOCH);
        let last = fleet.event("ResourcePlacement", "web", "R").unwrap();
        assert_eq!(last.message.as_deref(), Some("late"));
    }
}
