//! One kind of placement and everything that belongs to it.

use fleet_api::{
    kind::{HasSpec as _, Kind, Resource},
    labels,
    placement::Scope,
};
use fleet_runtime::{
    Key,
    cache::{Index, Store},
};
use kube::core::PartialObjectMeta;

use super::{Watching, bound::Bound};
use crate::view::Name;

/// The stores of one scope. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Family<S: Scope> {
    pub(crate) placements: Store<S::Placement>,
    pub(crate) policies: Store<S::PolicySnapshot>,
    pub(crate) policies_of: Index<S::PolicySnapshot, Key>,
    pub(crate) snapshots: Store<PartialObjectMeta<S::ResourceSnapshot>>,
    pub(crate) snapshots_of: Index<PartialObjectMeta<S::ResourceSnapshot>, Key>,
    pub(crate) bindings: Store<Bound<S>>,
    pub(crate) bindings_of: Index<Bound<S>, Key>,
    pub(crate) bindings_on: Index<Bound<S>, String>,
    pub(crate) runs: Store<S::UpdateRun>,
    pub(crate) runs_of: Index<S::UpdateRun, Key>,
    /// The runs' requests.
    pub(crate) approvals: Store<S::ApprovalRequest>,
    pub(crate) approvals_of: Index<S::ApprovalRequest, Key>,
}

impl<S: Scope> Family<S> {
    /// `changed` hears of each placement of which a binding has changed.
    pub(super) fn watch(watching: &mut Watching<'_>, changed: impl Fn(&Name) + Send + Sync + 'static) -> Self {
        let mut policies = Store::builder(S::PolicySnapshot::CRD.plural);
        let policies_of = policies.index(parent);
        let mut snapshots = Store::builder(S::ResourceSnapshot::CRD.plural);
        let snapshots_of = snapshots.index(parent);
        let mut bindings = Store::builder(S::Binding::CRD.plural);
        let of_placement = bindings.index(|binding: &Bound<S>| placement(binding).into_iter().collect());
        let on_cluster = bindings.index(|binding: &Bound<S>| vec![binding.cluster().to_string()]);
        let mut runs = Store::builder(S::UpdateRun::CRD.plural);
        let runs_of = runs.index(|run: &S::UpdateRun| vec![beside(run, &run.spec().placement_name)]);
        let mut approvals = Store::builder(S::ApprovalRequest::CRD.plural);
        let approvals_of =
            approvals.index(|asked: &S::ApprovalRequest| vec![beside(asked, &asked.spec().parent_stage_rollout)]);
        let bindings = watching.bound(bindings, move |binding| {
            if let Some(key) = placement(binding) {
                changed(&name(&key));
            }
        });
        Self {
            placements: watching.whole(Store::builder(S::Placement::CRD.plural)),
            policies: watching.whole(policies),
            policies_of,
            snapshots: watching.names(snapshots),
            snapshots_of,
            bindings,
            bindings_of: of_placement,
            bindings_on: on_cluster,
            runs: watching.whole(runs),
            runs_of,
            approvals: watching.whole(approvals),
            approvals_of,
        }
    }
}

/// The key of what an object's label names as its placement.
pub(crate) fn parent<K: Resource>(object: &K) -> Vec<Key> {
    let labels = object.meta().labels.as_ref();
    let name = labels.and_then(|labels| labels.get(labels::PARENT_PLACEMENT));
    name.map(|name| beside(object, name)).into_iter().collect()
}

/// The key of the placement that a binding belongs to.
pub(super) fn placement<S: Scope>(binding: &Bound<S>) -> Option<Key> {
    binding.parent().map(|name| beside(binding, name))
}

/// Its name.
pub(crate) fn parent_name<S: Scope>(binding: &Bound<S>) -> Option<Name> {
    placement(binding).map(|key| name(&key))
}

/// The key of an object of this name in the namespace of another.
fn beside<K: Resource>(object: &K, name: &str) -> Key {
    match object.meta().namespace.as_deref() {
        Some(namespace) => Key::namespaced(namespace, name),
        None => Key::cluster(name),
    }
}

pub(crate) fn key(name: &Name) -> Key {
    match name.namespace.as_str() {
        "" => Key::cluster(name.name.as_str()),
        namespace => Key::namespaced(namespace, name.name.as_str()),
    }
}

pub(crate) fn name(key: &Key) -> Name {
    Name::new(key.namespace().unwrap_or_default(), key.name())
}
