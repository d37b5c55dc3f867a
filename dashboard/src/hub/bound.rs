//! A binding as the dashboard keeps it: there may be a hundred thousand.
//!
//! Whole, each takes some kilobytes, and nearly all of it is said in the same words: those are kept once for all. What is
//! unusual (drifts, failures, overrides, scores) keeps its binding whole. Nothing is lost that a page shows.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashSet},
    hash::Hash,
    sync::{Arc, LazyLock},
};

use fleet_api::{
    annotations::{PREVIOUS_BINDING_STATE, UPDATE_RUN},
    kind::{HasSpec as _, HasStatus as _, Resource, SpecKind as _},
    labels::PARENT_PLACEMENT,
    placement::{ApplyStrategy, BindingSpec, BindingState, BindingStatus, ClusterDecision, Scope},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use parking_lot::Mutex;

use super::cell::{self, Cell};

/// A binding.
pub(crate) struct Bound<S: Scope> {
    metadata: ObjectMeta,
    parent: Option<Arc<str>>,
    generation: i64,
    cluster: Arc<str>,
    cell: Arc<Cell>,
    rest: Rest,
    scope: std::marker::PhantomData<S>,
}

enum Rest {
    Whole(Box<(BindingSpec, Option<BindingStatus>)>),
    Usual {
        state: BindingState,
        snapshot: Arc<str>,
        policy: Arc<str>,
        why: Arc<str>,
        strategy: Option<Arc<ApplyStrategy>>,
        conditions: Box<[Said]>,
    },
}

/// A condition: its words, which many have, and its times.
struct Said {
    words: Arc<[String; 4]>,
    generation: Option<i64>,
    at: Timestamp,
}

/// What is said in the same words is kept once.
struct Words<T: ?Sized>(Mutex<HashSet<Arc<T>>>);

impl<T: ?Sized + Eq + Hash> Words<T> {
    fn of(&self, words: impl Into<Arc<T>>) -> Arc<T> {
        /// Beyond this, words that nobody says any more are forgotten.
        const MANY: usize = 20_000;
        let words = words.into();
        let mut known = self.0.lock();
        if let Some(same) = known.get(&words) {
            return same.clone();
        }
        if known.len() >= MANY && known.len().is_power_of_two() {
            known.retain(|words| Arc::strong_count(words) > 1);
        }
        known.insert(words.clone());
        words
    }
}

static TEXTS: LazyLock<Words<str>> = LazyLock::new(|| Words(Mutex::default()));
static CONDITIONS: LazyLock<Words<[String; 4]>> = LazyLock::new(|| Words(Mutex::default()));
static STRATEGIES: LazyLock<Words<ApplyStrategy>> = LazyLock::new(|| Words(Mutex::default()));
static CELLS: LazyLock<Words<Cell>> = LazyLock::new(|| Words(Mutex::default()));

impl<S: Scope> Bound<S> {
    /// What is kept of a binding.
    pub(crate) fn of(mut binding: S::Binding) -> Self {
        let cell = CELLS.of(cell::of::<S>(&binding));
        let meta = std::mem::take(binding.meta_mut());
        let (spec, status) = (binding.spec().clone(), binding.status().cloned());
        let labels = meta.labels.as_ref();
        let annotations = meta.annotations.as_ref().map(|all| {
            let ours = all
                .iter()
                .filter(|(key, _)| [UPDATE_RUN, PREVIOUS_BINDING_STATE].contains(&key.as_str()));
            ours.map(|(key, value)| (key.clone(), value.clone()))
                .collect::<BTreeMap<_, _>>()
        });
        Self {
            parent: labels
                .and_then(|labels| labels.get(PARENT_PLACEMENT))
                .map(|name| TEXTS.of(name.as_str())),
            generation: meta.generation.unwrap_or_default(),
            cluster: TEXTS.of(spec.target_cluster.as_str()),
            cell,
            metadata: ObjectMeta {
                name: meta.name,
                namespace: meta.namespace,
                uid: meta.uid,
                resource_version: meta.resource_version,
                creation_timestamp: meta.creation_timestamp,
                deletion_timestamp: meta.deletion_timestamp,
                annotations: annotations.filter(|all| !all.is_empty()),
                ..ObjectMeta::default()
            },
            rest: Rest::of(spec, status),
            scope: std::marker::PhantomData,
        }
    }

    /// The placement that it belongs to.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.parent.as_deref()
    }

    /// The cluster that it is for.
    pub(crate) fn cluster(&self) -> &Arc<str> {
        &self.cluster
    }

    /// How it stands.
    pub(crate) fn cell(&self) -> &Arc<Cell> {
        &self.cell
    }

    /// The binding again.
    pub(crate) fn whole(&self) -> S::Binding {
        let mut metadata = self.metadata.clone();
        metadata.generation = Some(self.generation).filter(|generation| *generation > 0);
        let label = |name: &str| BTreeMap::from([(PARENT_PLACEMENT.to_owned(), name.to_owned())]);
        metadata.labels = self.parent().map(label);
        let (spec, status) = self.rest.whole(&self.cluster);
        let mut binding = S::Binding::from_spec(metadata, spec);
        *fleet_api::kind::HasStatus::status_mut(&mut binding) = status;
        binding
    }
}

impl Rest {
    fn of(spec: BindingSpec, status: Option<BindingStatus>) -> Self {
        let quiet = |status: &BindingStatus| {
            status.failed_placements.is_empty()
                && status.drifted_placements.is_empty()
                && status.diffed_placements.is_empty()
        };
        let usual = spec.resource_override_snapshots.is_empty()
            && spec.cluster_resource_override_snapshots.is_empty()
            && spec.cluster_decision.selected
            && spec.cluster_decision.cluster_score.is_none()
            && spec.cluster_decision.cluster_name == spec.target_cluster
            && status.as_ref().is_some_and(quiet);
        let Some(status) = status.as_ref().filter(|_| usual) else {
            return Self::Whole(Box::new((spec, status)));
        };
        let said = status.conditions.iter().map(|it| Said {
            words: CONDITIONS.of([
                it.type_.clone(),
                it.status.clone(),
                it.reason.clone(),
                it.message.clone(),
            ]),
            generation: it.observed_generation,
            at: it.last_transition_time.0,
        });
        Self::Usual {
            state: spec.state,
            snapshot: TEXTS.of(spec.resource_snapshot_name),
            policy: TEXTS.of(spec.scheduling_policy_snapshot_name),
            why: TEXTS.of(spec.cluster_decision.reason),
            strategy: spec.apply_strategy.map(|strategy| STRATEGIES.of(strategy)),
            conditions: said.collect(),
        }
    }

    fn whole(&self, cluster: &str) -> (BindingSpec, Option<BindingStatus>) {
        let (state, snapshot, policy, why, strategy, conditions) = match self {
            Self::Whole(whole) => return (**whole).clone(),
            Self::Usual {
                state,
                snapshot,
                policy,
                why,
                strategy,
                conditions,
            } => (state, snapshot, policy, why, strategy, conditions),
        };
        let said = conditions.iter().map(|said| {
            let [type_, status, reason, message] = (*said.words).clone();
            Condition {
                type_,
                status,
                reason,
                message,
                observed_generation: said.generation,
                last_transition_time: Time(said.at),
            }
        });
        let spec = BindingSpec {
            state: state.clone(),
            resource_snapshot_name: snapshot.to_string(),
            scheduling_policy_snapshot_name: policy.to_string(),
            target_cluster: cluster.to_owned(),
            cluster_decision: ClusterDecision {
                cluster_name: cluster.to_owned(),
                selected: true,
                cluster_score: None,
                reason: why.to_string(),
            },
            apply_strategy: strategy.as_deref().cloned(),
            ..BindingSpec::default()
        };
        let status = BindingStatus {
            conditions: said.collect(),
            ..BindingStatus::default()
        };
        (spec, Some(status))
    }
}

impl<S: Scope> Resource for Bound<S> {
    type DynamicType = ();
    type Scope = <S::Binding as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        S::Binding::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        S::Binding::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        S::Binding::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        S::Binding::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::{ClusterResourceBinding, ClusterScoped};
    use serde_json::{Value, json};

    use super::*;

    fn binding(more: &Value) -> ClusterResourceBinding {
        let said = |type_: &str| {
            json!({ "type": type_, "status": "True", "reason": "R", "message": "m", "observedGeneration": 2,
                    "lastTransitionTime": "2026-01-02T11:30:00Z" })
        };
        let mut status = json!({ "conditions": [said("RolloutStarted"), said("Applied")] });
        if let (Some(status), Some(more)) = (status.as_object_mut(), more.as_object()) {
            status.extend(more.clone());
        }
        serde_json::from_value(json!({
            "metadata": {
                "name": "web-east", "generation": 2, "uid": "u", "resourceVersion": "7",
                "labels": { "kubernetes-fleet.io/parent-CRP": "web" },
                "annotations": { "kubernetes-fleet.io/update-run": "run-1/x" },
            },
            "spec": {
                "state": "Bound", "resourceSnapshotName": "web-0-snapshot", "schedulingPolicySnapshotName": "web-0",
                "targetCluster": "east", "applyStrategy": { "type": "ServerSideApply" },
                "clusterDecision": { "clusterName": "east", "selected": true, "reason": "picked" },
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn what_is_kept_is_the_binding_again() {
        let failed = json!({ "failedPlacements": [{
            "version": "v1", "kind": "ConfigMap", "name": "c",
            "condition": { "type": "Applied", "status": "False", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T11:30:00Z" },
        }] });
        for more in [json!({}), failed] {
            let whole = binding(&more);
            let kept = Bound::<ClusterScoped>::of(whole.clone());
            assert_eq!(kept.whole(), whole);
            assert_eq!((kept.parent(), kept.cluster().as_ref()), (Some("web"), "east"));
        }
    }

    #[test]
    fn the_same_words_are_kept_once() {
        let (one, two) = (
            Bound::<ClusterScoped>::of(binding(&json!({}))),
            Bound::<ClusterScoped>::of(binding(&json!({}))),
        );
        let (Rest::Usual { conditions: one, .. }, Rest::Usual { conditions: two, .. }) = (&one.rest, &two.rest) else {
            panic!("they are usual");
        };
        assert!(Arc::ptr_eq(&one[0].words, &two[0].words) && !Arc::ptr_eq(&one[0].words, &one[1].words));
    }
}
