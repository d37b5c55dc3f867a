//! What the scheduler decides: the writes, in the order in which they are safe, and why not if there are none.

use fleet_api::names::ClusterNameError;
use fleet_api::placement::{BindingSpec, BindingState, ClusterDecision, PolicySnapshotStatus};
use fleet_api::{finalizers, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::property::BadName;
use super::selector::BadSelector;

/// What to write. Each list is done before the next begins, so that new bindings exist before old ones are released.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// 1. Bindings being deleted: take the scheduler's finalizer off. By name.
    pub release: Vec<String>,
    /// 2. Bindings whose cluster is gone or going.
    pub vacate: Vec<Unschedule>,
    /// 3. Clusters newly picked, best first (PickAll: by name).
    pub create: Vec<Create>,
    /// 4. Existing bindings that go on under the current policy.
    pub patch: Vec<Patch>,
    /// 5. Bindings whose cluster is no longer picked.
    pub unschedule: Vec<Unschedule>,
    /// 6. The policy snapshot's status. None if nothing can be said about this generation of the placement.
    pub status: Option<PolicySnapshotStatus>,
    /// Whether `status` has to be written: false if a reader would learn nothing new from it.
    pub status_changed: bool,
    /// What is wrong with the input. Then only `release`, `vacate` and `status` are filled; tell the user and try again
    /// from time to time.
    pub problem: Option<Problem>,
    /// When time alone may change this answer.
    pub look_again: Option<Timestamp>,
}

/// Mark a binding `Unscheduled` and note its state before in the annotation, keeping all other annotations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unschedule {
    /// The binding.
    pub binding: String,
    /// Its cluster.
    pub cluster: String,
    /// The state to note. Decided once, so that a repeated write cannot note `Unscheduled`.
    pub previous: BindingState,
}

/// Make a binding in state `Scheduled`.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// Its name. The same world gives the same name, so a repeated write makes no second binding.
    pub binding: String,
    /// Its cluster.
    pub cluster: String,
    /// Why the cluster was picked.
    pub decision: ClusterDecision,
}

impl Create {
    /// The binding as it is made for a placement, picked by the policy snapshot `policy`.
    pub fn binding(&self, namespace: Option<&str>, placement: &str, policy: &str) -> (ObjectMeta, BindingSpec) {
        let label = (labels::PARENT_PLACEMENT.to_owned(), placement.to_owned());
        let meta = ObjectMeta {
            name: Some(self.binding.clone()),
            namespace: namespace.map(ToOwned::to_owned),
            labels: Some([label].into()),
            finalizers: Some(vec![finalizers::SCHEDULER_BINDING.to_owned()]),
            ..ObjectMeta::default()
        };
        let spec = BindingSpec {
            state: BindingState::Scheduled,
            scheduling_policy_snapshot_name: policy.to_owned(),
            target_cluster: self.cluster.clone(),
            cluster_decision: self.decision.clone(),
            ..BindingSpec::default()
        };
        (meta, spec)
    }
}

/// Make a binding point to the current policy snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// The binding.
    pub binding: String,
    /// Its cluster.
    pub cluster: String,
    /// The state that it keeps or, from `Unscheduled`, gets back.
    pub state: BindingState,
    /// Whether it comes back from `Unscheduled`; the annotation with the state before is then removed.
    pub restored: bool,
    /// Why the cluster was picked this time.
    pub decision: ClusterDecision,
}

/// Why no cluster can be picked at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Without the placement's generation nobody could tell what a status speaks of.
    #[error("policy snapshot {snapshot:?} has no usable annotation {annotation:?}: {value}")]
    Annotation {
        /// The policy snapshot.
        snapshot: String,
        /// The annotation's key.
        annotation: &'static str,
        /// What is wrong with the value.
        value: String,
    },
    /// A label selector of the policy is malformed.
    #[error("the scheduling policy is invalid: {0}")]
    Selector(#[from] BadSelector),
    /// The policy names a property that cannot exist.
    #[error("the scheduling policy is invalid: {0}")]
    Property(#[from] BadName),
    /// A property is compared with something that is no quantity, or with none or several.
    #[error(
        "the scheduling policy is invalid: property {property:?} must be compared with exactly one quantity, not {values:?}"
    )]
    PropertyValues {
        /// The property's name.
        property: String,
        /// What it is compared with.
        values: Vec<String>,
    },
    /// The policy compares in a way that this version does not know.
    #[error("the scheduling policy is invalid: {0:?} is not a valid property selector operator")]
    PropertyOperator(String),
    /// A picked cluster has a name that no member can have, so there is no name for its binding.
    #[error("cluster {cluster:?} cannot get a binding: {error}")]
    ClusterName {
        /// The cluster.
        cluster: String,
        /// What is wrong with its name.
        error: ClusterNameError,
    },
    /// A cluster is picked again, but what its old binding was before is not written down.
    #[error(
        "binding {binding:?} is Unscheduled and cluster {cluster:?} is picked again, but the binding's annotation \
         {annotation:?} does not say which state it had"
    )]
    PreviousState {
        /// The binding.
        binding: String,
        /// Its cluster.
        cluster: String,
        /// The annotation's key.
        annotation: &'static str,
    },
}

impl Plan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        let Self {
            release,
            vacate,
            create,
            patch,
            unschedule,
            status_changed,
            ..
        } = self;
        release.is_empty()
            && vacate.is_empty()
            && create.is_empty()
            && patch.is_empty()
            && unschedule.is_empty()
            && !status_changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_binding_belongs_to_its_placement_and_is_held_by_the_scheduler() {
        let create = Create {
            binding: "web-east".to_owned(),
            cluster: "east".to_owned(),
            decision: ClusterDecision {
                cluster_name: "east".to_owned(),
                selected: true,
                ..ClusterDecision::default()
            },
        };
        let (meta, spec) = create.binding(Some("shop"), "web", "web-3");
        assert_eq!(meta.labels.unwrap()[labels::PARENT_PLACEMENT], "web");
        assert_eq!(meta.namespace.as_deref(), Some("shop"));
        assert_eq!(meta.finalizers.unwrap(), [finalizers::SCHEDULER_BINDING]);
        assert_eq!(
            (spec.state, spec.target_cluster, spec.scheduling_policy_snapshot_name),
            (BindingState::Scheduled, "east".to_owned(), "web-3".to_owned())
        );
        assert_eq!(spec.cluster_decision, create.decision);
    }
}
