//! What a page is made from, taken out of the stores: what it is about, and what all pages need.

use std::collections::BTreeSet;

use fleet_api::{
    SpecKind as _,
    cluster::{InternalMemberCluster, InternalMemberClusterSpec, MemberCluster},
    kind::Kind as _,
    placement::{Scope, Work, WorkSpec},
};
use fleet_core::explain::{self, Objects};
use fleet_runtime::Key;

use super::{
    Family, Hub,
    family::{key, placement},
};
use crate::view::Name;

/// What has been taken so far.
pub(crate) struct Gathering<'a> {
    hub: &'a Hub,
    pub(crate) objects: Objects,
    taken: BTreeSet<Name>,
}

impl Hub {
    /// Begins with what belongs to all: members, budgets, evictions, Events.
    pub(crate) fn gather(&self) -> Gathering<'_> {
        let mut objects = Objects {
            members: self.members.all().iter().map(|it| (**it).clone()).collect(),
            members_unread: self.kinds.unread(&[MemberCluster::CRD.plural]).is_some(),
            budgets: self.budgets.all().iter().map(|it| (**it).clone()).collect(),
            evictions: self.evictions.all().iter().map(|it| (**it).clone()).collect(),
            events: self.events.all().iter().map(|it| (**it).clone()).collect(),
            ..Objects::default()
        };
        let internals = self.internals.all();
        let whole = |it: &std::sync::Arc<_>| {
            let partial: &kube::core::PartialObjectMeta<InternalMemberCluster> = it;
            InternalMemberCluster::from_spec(partial.metadata.clone(), InternalMemberClusterSpec::default())
        };
        objects.internals = internals.iter().map(whole).collect();
        objects.members.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        Gathering {
            hub: self,
            objects,
            taken: BTreeSet::new(),
        }
    }
}

impl Gathering<'_> {
    /// A placement with all that belongs to it.
    pub(crate) fn placement(&mut self, placement: &Name) {
        if !self.taken.insert(placement.clone()) {
            return;
        }
        let key = key(placement);
        if placement.namespace.is_empty() {
            take(&self.hub.cluster, &key, &mut self.objects.cluster, true);
        } else {
            take(&self.hub.namespaced, &key, &mut self.objects.namespaced, true);
        }
    }

    /// A run with all that belongs to its placement.
    pub(crate) fn run(&mut self, run: &Name) {
        let placement = if run.namespace.is_empty() {
            let found = self.hub.cluster.runs.get(&key(run));
            found.map(|run| run.spec.placement_name.clone())
        } else {
            let found = self.hub.namespaced.runs.get(&key(run));
            found.map(|run| run.spec.placement_name.clone())
        };
        if let Some(placement) = placement {
            self.placement(&Name::new(run.namespace.as_str(), placement));
        }
    }

    /// What is on a member, without what the same placements have elsewhere.
    pub(crate) fn member(&mut self, cluster: &str) {
        let works = self.hub.works_on(cluster);
        let whole = works
            .iter()
            .map(|it| Work::from_spec(it.metadata.clone(), WorkSpec::default()));
        self.objects.works = whole.collect();
        on(&self.hub.cluster, cluster, &mut self.objects.cluster);
        on(&self.hub.namespaced, cluster, &mut self.objects.namespaced);
    }
}

fn take<S: Scope>(from: &Family<S>, placement: &Key, into: &mut explain::Family<S>, all_bindings: bool) {
    into.placements
        .extend(from.placements.get(placement).map(|it| (*it).clone()));
    into.policies
        .extend(from.policies_of.get(placement).iter().map(|it| (**it).clone()));
    let snapshots = from.snapshots_of.get(placement);
    into.snapshots.extend(snapshots.iter().map(|it| it.metadata.clone()));
    if all_bindings {
        into.bindings
            .extend(from.bindings_of.get(placement).iter().map(|it| it.whole()));
    }
    for run in from.runs_of.get(placement) {
        let asked = from.approvals_of.get(&Key::of(&*run));
        into.approvals.extend(asked.iter().map(|it| (**it).clone()));
        into.runs.push((*run).clone());
    }
}

fn on<S: Scope>(from: &Family<S>, cluster: &str, into: &mut explain::Family<S>) {
    let mut placements = BTreeSet::new();
    for binding in from.bindings_on.get(&cluster.to_owned()) {
        placements.extend(placement(&binding));
        into.bindings.push(binding.whole());
    }
    for key in placements {
        take(from, &key, into, false);
    }
}
