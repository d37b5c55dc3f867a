//! What explanations are made from: objects of the hub, borrowed from whoever has read them.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_api::conditions::Status;
use fleet_api::names::Scope;
use fleet_api::placement::{
    ApprovalRequestSpec, ApprovalRequestStatus, BindingSpec, BindingStatus, ClusterResourcePlacementDisruptionBudget,
    ClusterResourcePlacementEviction, PerClusterPlacementStatus, PlacementSpec, PlacementStatus, PolicySnapshotSpec,
    PolicySnapshotStatus, UpdateRunSpec, UpdateRunStatus, Work,
};
use fleet_api::{annotations, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::names::Names;

/// An object of either scope.
#[derive(Debug)]
pub struct View<'a, Spec, Status> {
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// What is wanted.
    pub spec: &'a Spec,
    /// What is so.
    pub status: Option<&'a Status>,
}

impl<Spec, Status> Clone for View<'_, Spec, Status> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Spec, Status> Copy for View<'_, Spec, Status> {}

impl<'a, Spec, Status> View<'a, Spec, Status> {
    /// The view of an object.
    pub fn of(meta: &'a ObjectMeta, spec: &'a Spec, status: Option<&'a Status>) -> Self {
        Self { meta, spec, status }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    /// Its generation.
    pub fn generation(&self) -> i64 {
        self.meta.generation.unwrap_or_default()
    }

    /// Whether it is being deleted.
    pub fn deleting(&self) -> bool {
        self.meta.deletion_timestamp.is_some()
    }

    /// One of its labels; empty if it has none.
    pub fn label(&self, key: &str) -> &'a str {
        get(self.meta.labels.as_ref(), key)
    }

    /// One of its annotations; empty if it has none.
    pub fn annotation(&self, key: &str) -> &'a str {
        get(self.meta.annotations.as_ref(), key)
    }
}

/// A value in labels or annotations; empty if there is none.
pub(super) fn get<'a>(map: Option<&'a BTreeMap<String, String>>, key: &str) -> &'a str {
    map.and_then(|map| map.get(key)).map(String::as_str).unwrap_or_default()
}

/// A placement.
pub type Placement<'a> = View<'a, PlacementSpec, PlacementStatus>;
/// A policy snapshot.
pub type Policy<'a> = View<'a, PolicySnapshotSpec, PolicySnapshotStatus>;
/// A binding.
pub type Binding<'a> = View<'a, BindingSpec, BindingStatus>;
/// An update run.
pub type Run<'a> = View<'a, UpdateRunSpec, UpdateRunStatus>;
/// An approval request.
pub type Approval<'a> = View<'a, ApprovalRequestSpec, ApprovalRequestStatus>;

impl<'a> Placement<'a> {
    /// What its status says of each cluster that it has picked.
    pub fn entries(&self) -> impl Iterator<Item = &'a PerClusterPlacementStatus> + use<'a> {
        let entries = self.status.into_iter().flat_map(|status| &status.placement_statuses);
        entries.filter(|entry| !entry.cluster_name.is_empty())
    }
}

impl<'a> Binding<'a> {
    /// The condition of this type for its generation.
    pub fn fresh(&self, type_name: &str) -> Option<&'a Condition> {
        fleet_api::conditions::fresh(&self.status?.conditions, type_name, self.generation())
    }

    /// The run that started its cluster last; empty if none did.
    pub fn run(&self) -> &'a str {
        let annotation = self.annotation(annotations::UPDATE_RUN);
        annotation.split_once('/').map_or(annotation, |(name, _)| name)
    }
}

/// An object as it is on a member, by whoever can reach the member.
#[derive(Debug, Clone, Copy)]
pub struct Live<'a> {
    /// The member.
    pub cluster: &'a str,
    /// The kind.
    pub kind: &'a str,
    /// Its metadata, with its managed fields.
    pub meta: &'a ObjectMeta,
}

/// Everything that is known. What could not be read is left out; an explanation then says less.
#[derive(Debug, Clone)]
pub struct Fleet<'a> {
    /// The time.
    pub now: Timestamp,
    /// The namespace of the family that is looked at; empty for the cluster-scoped one.
    pub namespace: &'a str,
    /// All members.
    pub members: Vec<&'a MemberCluster>,
    /// Whether there may be others, which could not be read: then nothing is said of those that are not known.
    pub members_unread: bool,
    /// Their InternalMemberClusters.
    pub internals: Vec<&'a InternalMemberCluster>,
    /// Namespaces of the hub that are being deleted.
    pub terminating: Vec<&'a str>,
    /// Placements of the family.
    pub placements: Vec<Placement<'a>>,
    /// Their policy snapshots.
    pub policies: Vec<Policy<'a>>,
    /// The metadata of their resource snapshots.
    pub snapshots: Vec<&'a ObjectMeta>,
    /// Their bindings.
    pub bindings: Vec<Binding<'a>>,
    /// Bindings of the other families: what else is on members.
    pub others: Vec<Binding<'a>>,
    /// Works of members.
    pub works: Vec<&'a Work>,
    /// Update runs of the family.
    pub runs: Vec<Run<'a>>,
    /// Their approval requests.
    pub approvals: Vec<Approval<'a>>,
    /// Disruption budgets.
    pub budgets: Vec<&'a ClusterResourcePlacementDisruptionBudget>,
    /// Evictions.
    pub evictions: Vec<&'a ClusterResourcePlacementEviction>,
    /// Events.
    pub events: Vec<&'a Event>,
    /// What the readyz of member agents says, by member, from whoever can reach it.
    pub readyz: BTreeMap<&'a str, &'a str>,
    /// Objects on members.
    pub live: Vec<Live<'a>>,
    /// Placements that are named somewhere and do not exist, by namespace and name.
    pub gone: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Fleet<'a> {
    /// Nothing is known yet but the time and the family.
    pub fn new(namespace: &'a str, now: Timestamp) -> Self {
        Self {
            now,
            namespace,
            members: Vec::new(),
            members_unread: false,
            internals: Vec::new(),
            terminating: Vec::new(),
            placements: Vec::new(),
            policies: Vec::new(),
            snapshots: Vec::new(),
            bindings: Vec::new(),
            others: Vec::new(),
            works: Vec::new(),
            runs: Vec::new(),
            approvals: Vec::new(),
            budgets: Vec::new(),
            evictions: Vec::new(),
            events: Vec::new(),
            readyz: BTreeMap::new(),
            live: Vec::new(),
            gone: BTreeSet::new(),
        }
    }

    /// Which family is looked at.
    pub fn scope(&self) -> Scope {
        self.names().scope()
    }

    /// Names in the family, none of them filled in yet.
    pub fn names(&self) -> Names<'a> {
        Names {
            namespace: self.namespace,
            ..Names::default()
        }
    }

    /// The placement of this name.
    pub fn placement(&self, name: &str) -> Option<Placement<'a>> {
        self.placements
            .iter()
            .copied()
            .find(|placement| placement.name() == name)
    }

    /// The latest policy snapshot of a placement.
    pub fn policy(&self, placement: &str) -> Option<Policy<'a>> {
        let of = |policy: &&Policy<'a>| {
            policy.label(labels::PARENT_PLACEMENT) == placement
                && labels::parse_bool(policy.label(labels::IS_LATEST_SNAPSHOT)) == Some(true)
        };
        self.policies.iter().find(of).copied()
    }

    /// The name of a placement's latest resource snapshot.
    pub fn latest_snapshot(&self, placement: &str) -> Option<&'a str> {
        let of = |meta: &&&ObjectMeta| {
            let label = |key| get(meta.labels.as_ref(), key);
            label(labels::PARENT_PLACEMENT) == placement
                && labels::parse_bool(label(labels::IS_LATEST_SNAPSHOT)) == Some(true)
        };
        self.snapshots.iter().find(of)?.name.as_deref()
    }

    /// The bindings of a placement.
    pub fn bindings_of(&self, placement: &str) -> impl Iterator<Item = Binding<'a>> {
        let of = move |binding: &&Binding<'a>| binding.label(labels::PARENT_PLACEMENT) == placement;
        self.bindings.iter().filter(of).copied()
    }

    /// The binding of a placement to a cluster; one that is being deleted only if there is no other.
    pub fn binding(&self, placement: &str, cluster: &str) -> Option<Binding<'a>> {
        self.bindings_of(placement)
            .filter(|binding| binding.spec.target_cluster == cluster)
            .min_by_key(View::deleting)
    }

    /// The member of this name.
    pub fn member(&self, name: &str) -> Option<&'a MemberCluster> {
        let of = |member: &&&MemberCluster| member.metadata.name.as_deref() == Some(name);
        self.members.iter().find(of).copied()
    }

    /// The InternalMemberCluster of a member.
    pub fn internal(&self, name: &str) -> Option<&'a InternalMemberCluster> {
        let of = |internal: &&&InternalMemberCluster| internal.metadata.name.as_deref() == Some(name);
        self.internals.iter().find(of).copied()
    }

    /// The run of this name.
    pub fn run(&self, name: &str) -> Option<Run<'a>> {
        self.runs.iter().copied().find(|run| run.name() == name)
    }

    /// The last Event with this reason about an object.
    pub fn event(&self, kind: &str, name: &str, reason: &str) -> Option<&'a Event> {
        let about = |event: &&&Event| {
            event.involved_object.kind.as_deref() == Some(kind)
                && event.involved_object.name.as_deref() == Some(name)
                && event.reason.as_deref() == Some(reason)
        };
        self.events.iter().filter(about).copied().next_back()
    }

    /// How long ago that was, as texts say it.
    pub fn ago(&self, then: Timestamp) -> String {
        span(self.now.duration_since(then))
    }
}

/// Whether the condition of this type is there and true, whatever generation it speaks of.
pub(super) fn holds(list: &[Condition], type_name: &str) -> bool {
    fleet_api::conditions::find(list, type_name).is_some_and(|condition| Status::of(condition) == Status::True)
}

/// A duration as texts say it: `45s`, `12m`, `3h20m`, `2d`.
pub fn span(duration: jiff::SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 60 {
        format!("{minutes}m")
    } else if hours >= 48 {
        format!("{days}d")
    } else if minutes % 60 > 0 {
        format!("{hours}h{}m", minutes % 60)
    } else {
        format!("{hours}h")
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn spans_are_short() {
        for (seconds, text) in [
            (-5, "0s"),
            (45, "45s"),
            (119, "119s"),
            (720, "12m"),
            (3600, "1h"),
            (12000, "3h20m"),
            (200_000, "2d"),
        ] {
            assert_eq!(span(SignedDuration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn the_name_of_a_run_is_told_from_its_uid() {
        let meta = ObjectMeta {
            annotations: Some([(annotations::UPDATE_RUN.to_owned(), "release-7/abc".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let spec = BindingSpec::default();
        assert_eq!(Binding::of(&meta, &spec, None).run(), "release-7");
    }
}
