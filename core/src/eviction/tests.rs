//! The flow, row by row, on JSON as users and agents write it.

use fleet_api::conditions::{self, Status};
use fleet_api::placement::{
    BindingSpec, BindingStatus, DisruptionBudgetSpec, EvictionSpec, EvictionStatus, PlacementSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::*;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// `Type Status@generation Reason message`, since second 1000.
pub(super) fn condition(line: &str) -> Value {
    let mut words = line.splitn(4, ' ');
    let (type_name, status) = (words.next().unwrap(), words.next().unwrap());
    let (status, generation) = status.split_once('@').unwrap();
    json!({ "type": type_name, "status": status, "observedGeneration": generation.parse::<i64>().unwrap(),
            "reason": words.next().unwrap(), "message": words.next().unwrap_or_default(),
            "lastTransitionTime": at(1000).to_string() })
}

const READY: &str = "Available True@1 AllWorkAreAvailable";

/// A binding as it is stored.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: BindingSpec,
    pub(super) status: BindingStatus,
}

pub(super) fn stored(cluster: &str, state: &str, said: &[&str]) -> Stored {
    let metadata = json!({ "name": format!("crp-{cluster}"), "uid": format!("uid-{cluster}"), "generation": 1 });
    let spec = json!({
        "state": state, "resourceSnapshotName": "crp-0-snapshot", "schedulingPolicySnapshotName": "crp-0",
        "targetCluster": cluster, "clusterDecision": { "clusterName": cluster, "selected": true, "reason": "" },
    });
    let said: Vec<_> = said.iter().map(|line| condition(line)).collect();
    Stored {
        metadata: serde_json::from_value(metadata).unwrap(),
        spec: serde_json::from_value(spec).unwrap(),
        status: serde_json::from_value(json!({ "conditions": said })).unwrap(),
    }
}

impl Stored {
    fn deleting(mut self) -> Self {
        self.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        self.metadata.generation = Some(2);
        self
    }

    fn was(mut self, state: &str) -> Self {
        let before = (
            fleet_api::annotations::PREVIOUS_BINDING_STATE.to_owned(),
            state.to_owned(),
        );
        self.metadata.annotations = Some([before].into());
        self
    }

    fn view(&self, taken: &Taken) -> Binding<'_> {
        Binding::of(&self.metadata, &self.spec, Some(&self.status), taken)
    }
}

/// The hub of a test: the placement `crp`, and an eviction of it from cluster `a`.
struct Hub {
    placement: Option<(ObjectMeta, PlacementSpec)>,
    bindings: Vec<Stored>,
    budget: Option<DisruptionBudgetSpec>,
    eviction: (ObjectMeta, EvictionSpec, EvictionStatus),
    others: Vec<EvictionStatus>,
}

impl Hub {
    #[expect(clippy::needless_pass_by_value, reason = "mostly called with a literal")]
    fn new(policy: Value, bindings: Vec<Stored>) -> Self {
        let mut placement = json!({ "resourceSelectors": [], "policy": policy });
        if placement["policy"].is_null() {
            placement.as_object_mut().unwrap().remove("policy");
        }
        let metadata = json!({ "name": "e", "generation": 1, "creationTimestamp": at(1000).to_string() });
        Self {
            placement: Some((ObjectMeta::default(), serde_json::from_value(placement).unwrap())),
            bindings,
            budget: None,
            eviction: (
                serde_json::from_value(metadata).unwrap(),
                EvictionSpec {
                    placement_name: "crp".into(),
                    cluster_name: "a".into(),
                },
                EvictionStatus::default(),
            ),
            others: Vec::new(),
        }
    }

    fn budget(mut self, limit: Value) -> Self {
        self.budget = Some(serde_json::from_value(limit).unwrap());
        self
    }

    fn annotated(mut self, key: &str, value: &str) -> Self {
        let annotations = self.eviction.0.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    fn view(&self) -> Eviction<'_> {
        Eviction::of(&self.eviction.0, &self.eviction.1, Some(&self.eviction.2))
    }

    fn decide(&self, now: i64) -> Decision {
        let budget = self.budget.as_ref().map_or(Budget::None, Budget::Limit);
        self.decide_with(budget, now)
    }

    fn decide_with(&self, budget: Budget<'_>, now: i64) -> Decision {
        let taken = Taken::by(&self.others);
        let bindings: Vec<_> = self.bindings.iter().map(|b| b.view(&taken)).collect();
        let world = World {
            placement: self.placement.as_ref().map(|(meta, spec)| Placement::of(meta, spec)),
            bindings: &bindings,
            budget,
        };
        decide(&self.view(), &world, at(now))
    }

    /// Decides and stores what is to be written.
    fn store(&mut self, now: i64) -> EvictionOutcome {
        let decision = self.decide(now);
        let status = decision.status(&self.view(), at(now));
        if let Some(status) = status {
            self.eviction.2 = status;
        }
        decision.outcome
    }

    fn says(&self, type_name: &str) -> Option<(Status, String)> {
        let said = conditions::find(&self.eviction.2.conditions, type_name)?;
        assert_eq!(said.observed_generation, Some(1));
        Some((Status::of(said), said.message.clone()))
    }
}

fn pick_n(number: i32) -> Value {
    json!({ "placementType": "PickN", "numberOfClusters": number })
}

fn pick_all() -> Value {
    json!({ "placementType": "PickAll" })
}

fn ready(clusters: &[&str]) -> Vec<Stored> {
    clusters
        .iter()
        .map(|cluster| stored(cluster, "Bound", &[READY]))
        .collect()
}

#[track_caller]
fn assert_invalid(hub: &mut Hub, message: &str) {
    assert!(matches!(hub.store(1000), EvictionOutcome::Invalid(_)));
    assert_eq!(hub.says("Valid"), Some((Status::False, message.to_owned())));
    assert_eq!(hub.says("Executed"), None);
    assert_eq!(hub.store(2000), EvictionOutcome::Over, "it stays invalid");
}

#[test]
fn without_a_placement_it_is_invalid_for_ever() {
    let mut hub = Hub::new(pick_all(), ready(&["a"]));
    let placement = hub.placement.take();
    assert_invalid(&mut hub, "Failed to find ClusterResourcePlacement targeted by eviction");
    hub.placement = placement;
    assert_eq!(hub.store(3000), EvictionOutcome::Over, "the placement comes too late");
}

#[test]
fn a_placement_that_is_going_cannot_be_evicted() {
    let mut hub = Hub::new(pick_all(), ready(&["a"]));
    let going = stored("x", "Bound", &[]).deleting().metadata;
    hub.placement.as_mut().unwrap().0 = going;
    assert_invalid(&mut hub, "Found deleting ClusterResourcePlacement targeted by eviction");
}

#[test]
fn fixed_clusters_cannot_be_evicted() {
    let fixed = json!({ "placementType": "PickFixed", "clusterNames": ["a"] });
    assert_invalid(
        &mut Hub::new(fixed, ready(&["a"])),
        "Found ClusterResourcePlacement with PickFixed placement type targeted by eviction",
    );
}

#[test]
fn there_must_be_one_binding_for_the_cluster() {
    let mut twice = ready(&["a", "a"]);
    twice[1].metadata.uid = Some("other".into());
    assert_invalid(
        &mut Hub::new(pick_n(1), twice),
        "Found more than one scheduler decision for placement in cluster targeted by eviction",
    );
    assert_invalid(
        &mut Hub::new(pick_n(1), ready(&["b"])),
        "Failed to find scheduler decision for placement in cluster targeted by eviction",
    );
}

#[test]
fn what_is_going_anyway_is_executed_without_a_deletion() {
    let mut hub = Hub::new(pick_n(1), vec![stored("a", "Bound", &[READY]).deleting()]).budget(json!({}));
    assert!(matches!(hub.store(1000), EvictionOutcome::Executed { .. }));
    let message = "Eviction is allowed, resources propagated by placement is currently being removed from cluster \
                   targeted by eviction";
    assert_eq!(hub.says("Valid"), Some((Status::True, "Eviction is valid".into())));
    assert_eq!(hub.says("Executed"), Some((Status::True, message.into())));
    assert_eq!(hub.eviction.2.target, None);
    assert_eq!(hub.store(2000), EvictionOutcome::Over);
}

#[test]
fn what_is_not_placed_is_blocked() {
    for binding in [
        stored("a", "Scheduled", &[]),
        stored("a", "Unscheduled", &[]),
        stored("a", "Unscheduled", &[]).was("Scheduled"),
        stored("a", "Somehow", &[READY]),
    ] {
        let mut hub = Hub::new(pick_all(), vec![binding]);
        assert!(matches!(hub.store(1000), EvictionOutcome::Blocked(_)));
        let message = "Eviction is blocked, placement has not propagated resources to target cluster yet";
        assert_eq!(hub.says("Executed"), Some((Status::False, message.into())));
    }
    let was_bound = stored("a", "Unscheduled", &[READY]).was("Bound");
    let hub = Hub::new(pick_all(), vec![was_bound]).budget(json!({ "minAvailable": 1 }));
    assert!(matches!(
        hub.decide(1000).outcome,
        EvictionOutcome::Blocked(Executed::OverBudget { .. })
    ));
}

#[test]
fn what_has_failed_needs_no_budget() {
    for (line, now, failed) in [
        ("Overridden False@1 OverriddenFailed x", 1000, true),
        ("WorkSynchronized False@1 SyncWorkFailed x", 1000, true),
        (
            "Applied False@1 NotAllWorkHaveBeenApplied Work object w has failed to apply",
            1000,
            true,
        ),
        ("Available False@1 NotAllWorkAreAvailable x", 1030, true),
        ("DiffReported True@1 AllWorkHaveDiffReported", 1000, true),
        ("DiffReported False@1 DiffReportInProgress", 1000, true),
        // On its way, or of another generation.
        (
            "Applied False@1 ApplyInProgress Resources are being applied",
            9000,
            false,
        ),
        (
            "Applied False@1 NotAllWorkHaveBeenApplied Work object w has not yet completed the apply op",
            9000,
            false,
        ),
        ("Available False@1 NotAllWorkAreAvailable x", 1029, false),
        ("Overridden False@0 OverriddenFailed x", 9000, false),
        ("WorkSynchronized False@0 SyncWorkFailed x", 9000, false),
        (
            "Applied False@0 NotAllWorkHaveBeenApplied Work object w has failed to apply",
            9000,
            false,
        ),
        ("Available False@0 NotAllWorkAreAvailable x", 9000, false),
        ("DiffReported True@0 AllWorkHaveDiffReported", 9000, false),
        ("Overridden Unknown@1 OverriddenFailed x", 9000, false),
        ("RolloutStarted False@1 RolloutNotStartedYet", 9000, false),
    ] {
        let mut hub = Hub::new(pick_n(2), vec![stored("a", "Bound", &[line])]).budget(json!({ "maxUnavailable": 0 }));
        let strategy = json!({ "type": "RollingUpdate", "rollingUpdate": { "unavailablePeriodSeconds": 30 } });
        hub.placement.as_mut().unwrap().1.strategy = serde_json::from_value(strategy).unwrap();
        let decision = hub.decide(now);
        if failed {
            assert!(matches!(decision.outcome, EvictionOutcome::Evict(_)), "{line}");
            assert_eq!(
                decision.message(),
                "Eviction is allowed, placement has failed",
                "{line}"
            );
        } else {
            assert_eq!(
                decision.message(),
                "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 0, \
                 totalPlacements: 1",
                "{line}"
            );
        }
    }
}

#[test]
fn the_period_is_a_minute_unless_said_otherwise() {
    let late = stored("a", "Bound", &["Available False@1 NotAllWorkAreAvailable x"]);
    let hub = Hub::new(json!(null), vec![late]).budget(json!({ "minAvailable": 1 }));
    assert!(matches!(hub.decide(1059).outcome, EvictionOutcome::Blocked(_)));
    assert!(matches!(hub.decide(1060).outcome, EvictionOutcome::Evict(_)));
}

#[test]
fn a_deletion_is_recorded_first_and_ends_with_the_recorded_words() {
    let mut hub = Hub::new(pick_n(1), ready(&["a"]));
    let EvictionOutcome::Evict(target) = hub.store(1000) else {
        panic!()
    };
    assert_eq!((target.name.as_str(), target.uid.as_str()), ("crp-a", "uid-a"));
    assert_eq!(
        target.message,
        "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified"
    );
    assert_eq!(hub.eviction.2.target.as_ref(), Some(&target));
    assert_eq!(hub.says("Valid"), Some((Status::True, "Eviction is valid".into())));
    assert_eq!(hub.says("Executed"), None);
    assert!(hub.view().is_under_way());
    hub.eviction.2 = executed(&hub.view(), at(1001));
    assert_eq!(hub.says("Executed"), Some((Status::True, target.message)));
    assert_eq!(hub.store(2000), EvictionOutcome::Over);
}

#[test]
fn after_a_crash_the_record_decides() {
    let mut hub = Hub::new(pick_n(1), ready(&["a"]));
    let EvictionOutcome::Evict(target) = hub.store(1000) else {
        panic!()
    };
    // The deletion has happened: whatever else has happened since, the eviction has.
    hub.bindings[0] = hub.bindings[0].clone().deleting();
    hub.placement = None;
    let message = target.message.clone();
    assert_eq!(
        hub.decide(2000).outcome,
        EvictionOutcome::Executed {
            message: message.clone()
        }
    );
    hub.bindings = ready(&["a"]);
    hub.bindings[0].metadata.uid = Some("made anew".into());
    assert_eq!(
        hub.store(2000),
        EvictionOutcome::Executed {
            message: message.clone()
        }
    );
    assert_eq!(hub.says("Executed"), Some((Status::True, message)));
}

#[test]
fn a_record_without_its_deletion_is_decided_anew() {
    let mut hub = Hub::new(pick_n(1), ready(&["a"]));
    let EvictionOutcome::Evict(target) = hub.store(1000) else {
        panic!()
    };
    // The same binding: what was decided first stands, also if the budget speaks otherwise by now.
    let hub = &mut hub;
    hub.budget = Some(serde_json::from_value(json!({ "minAvailable": 0 })).unwrap());
    assert_eq!(hub.store(2000), EvictionOutcome::Evict(target));
    hub.budget = Some(serde_json::from_value(json!({ "minAvailable": 1 })).unwrap());
    assert!(matches!(hub.store(2000), EvictionOutcome::Blocked(_)));
    assert_eq!(hub.eviction.2.target, None, "nothing is deleted for it");
}

#[test]
fn the_budget_is_asked_only_where_it_decides() {
    let ask = |hub: Hub| hub.decide_with(Budget::Unread, 1000).outcome;
    assert_eq!(ask(Hub::new(pick_n(1), ready(&["a"]))), EvictionOutcome::NeedsBudget);
    assert!(matches!(
        ask(Hub::new(pick_n(1), ready(&["b"]))),
        EvictionOutcome::Invalid(_)
    ));
    let failed = vec![stored("a", "Bound", &["Overridden False@1 OverriddenFailed"])];
    assert!(matches!(ask(Hub::new(pick_n(1), failed)), EvictionOutcome::Evict(_)));
    assert!(matches!(
        ask(Hub::new(pick_n(1), vec![stored("a", "Scheduled", &[])])),
        EvictionOutcome::Blocked(_)
    ));
}

#[test]
fn budgets_that_pick_all_cannot_use_are_named() {
    for policy in [pick_all(), json!(null)] {
        for limit in [
            json!({ "maxUnavailable": 1 }),
            json!({ "maxUnavailable": "50%" }),
            json!({ "minAvailable": "50%" }),
            json!({ "minAvailable": "0%" }),
        ] {
            let decision = Hub::new(policy.clone(), ready(&["a", "b"])).budget(limit).decide(1000);
            assert_eq!(decision.outcome, EvictionOutcome::Blocked(Executed::Misconfigured));
            assert!(
                decision
                    .detail()
                    .ends_with("cannot be used with PickAll: set minAvailable to a number")
            );
        }
    }
}

#[test]
fn the_budget_counts_and_says_so() {
    let allowed = Hub::new(pick_all(), ready(&["a", "b"])).budget(json!({ "minAvailable": 1 }));
    assert_eq!(
        allowed.decide(1000).message(),
        "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, \
         totalPlacements: 2"
    );
    let nothing = ["Applied False@1 ApplyInProgress x"];
    for limit in [json!({ "minAvailable": 0 }), json!({ "minAvailable": "0%" })] {
        let hub = Hub::new(pick_n(1), vec![stored("a", "Bound", &nothing)]).budget(limit);
        assert_eq!(
            hub.decide(1000).message(),
            "Eviction is allowed by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 0, \
             totalPlacements: 1"
        );
    }
}

#[test]
fn what_is_missing_is_told_beside_the_exact_message() {
    let bindings = vec![
        stored("c", "Bound", &[READY]),
        stored("a", "Bound", &[READY]),
        stored("b", "Bound", &["Available False@1 NotAllWorkAreAvailable x"]),
        stored("e", "Scheduled", &[]),
        stored("d", "Bound", &[]),
        stored("f", "Bound", &[READY]).deleting(),
    ];
    let hub = Hub::new(pick_n(6), bindings).budget(json!({ "minAvailable": 2 }));
    let decision = hub.decide(1000);
    assert_eq!(
        decision.message(),
        "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, \
         totalPlacements: 6"
    );
    assert_eq!(
        decision.detail(),
        "needs 3 available, has 2: b (NotAllWorkAreAvailable), d (NotReportedYet), e (Scheduled), f (Deleting)"
    );
    let count = decision.count.as_ref().unwrap();
    assert_eq!((count.needed, count.available, count.total), (Some(3), 2, 6));
    assert_eq!(
        decision.event().unwrap(),
        fleet_api::events::EvictionEvent::Blocked { why: decision.detail() }
    );

    let none = Hub::new(pick_n(1), ready(&["a"])).budget(json!({ "maxUnavailable": 0 }));
    assert_eq!(none.decide(1000).detail(), "maxUnavailable: 0 allows no eviction");
    let empty = Hub::new(pick_n(1), ready(&["a"])).budget(json!({}));
    assert_eq!(empty.decide(1000).detail(), "an empty budget allows no eviction");
    let names: Vec<_> = (10..30)
        .map(|n| stored(&format!("m{n}"), "Bound", &[]))
        .chain(ready(&["a"]))
        .collect();
    let many = Hub::new(pick_n(21), names)
        .budget(json!({ "minAvailable": 1 }))
        .decide(1000)
        .detail();
    assert!(
        many.contains("m19 (NotReportedYet), …") && !many.contains("m20"),
        "{many}"
    );
}

#[test]
fn another_evictions_deletion_counts_before_any_watch_shows_it() {
    let mut first = Hub::new(pick_n(3), ready(&["a", "b", "c"])).budget(json!({ "maxUnavailable": 1 }));
    first.eviction.1.cluster_name = "b".into();
    assert!(matches!(first.store(1000), EvictionOutcome::Evict(_)));
    let recorded = first.eviction.2.clone();
    first.eviction.2 = executed(&first.view(), at(1000));
    for other in [recorded, first.eviction.2.clone()] {
        let mut second = Hub::new(pick_n(3), ready(&["a", "b", "c"])).budget(json!({ "maxUnavailable": 1 }));
        second.others = vec![other];
        let decision = second.decide(1000);
        assert!(matches!(decision.outcome, EvictionOutcome::Blocked(_)), "{decision:?}");
        assert_eq!(decision.detail(), "needs 3 available, has 2: b (Deleting)");
    }
}

#[test]
fn two_evictions_of_one_binding_cost_one() {
    let mut first = Hub::new(pick_n(1), ready(&["a"])).budget(json!({ "maxUnavailable": 1 }));
    first.store(1000);
    let mut second = Hub::new(pick_n(1), ready(&["a"])).budget(json!({ "maxUnavailable": 1 }));
    second.others = vec![first.eviction.2.clone()];
    // Nobody knows yet whether the first gets through.
    assert!(matches!(second.decide(1000).outcome, EvictionOutcome::Evict(_)));
    first.eviction.2 = executed(&first.view(), at(1001));
    second.others = vec![first.eviction.2];
    assert_eq!(second.decide(1001).message(), Executed::Deleting.message());
}

#[test]
fn a_blocked_eviction_is_never_tried_again() {
    let mut hub = Hub::new(pick_all(), ready(&["a"])).budget(json!({ "minAvailable": 1 }));
    assert!(matches!(hub.store(1000), EvictionOutcome::Blocked(_)));
    hub.budget = None;
    assert_eq!(hub.store(1001), EvictionOutcome::Over);
    // Executed ends it for any generation, Valid only for its own.
    hub.eviction.0.generation = Some(2);
    assert_eq!(hub.decide(1002).outcome, EvictionOutcome::Over);
}

#[test]
fn by_choice_it_waits_for_the_budget() {
    let wait = fleet_api::annotations::EVICTION_WAIT;
    let mut hub = Hub::new(pick_all(), ready(&["a"]))
        .budget(json!({ "minAvailable": 1 }))
        .annotated(wait, "10m");
    let waiting = hub.store(1010);
    assert!(
        matches!(waiting, EvictionOutcome::Waiting { until, look_again, .. } if until == at(1600) && look_again == at(1600))
    );
    assert_eq!(
        (hub.says("Valid").unwrap().0, hub.says("Executed")),
        (Status::True, None)
    );
    assert_eq!(hub.eviction.2.target, None);
    assert!(hub.view().is_under_way());
    let mut relaxed = Hub::new(pick_all(), ready(&["a"])).annotated(wait, "10m");
    relaxed.eviction.2 = hub.eviction.2.clone();
    assert!(matches!(relaxed.decide(1500).outcome, EvictionOutcome::Evict(_)));
    assert!(
        matches!(hub.store(1600), EvictionOutcome::Blocked(_)),
        "the time is over"
    );
}

#[test]
fn who_waits_looks_again_when_its_target_fails() {
    let late = stored("a", "Bound", &["Available False@1 NotAllWorkAreAvailable x"]);
    let wait = fleet_api::annotations::EVICTION_WAIT;
    let hub = Hub::new(pick_all(), vec![late])
        .budget(json!({ "minAvailable": 1 }))
        .annotated(wait, "1h");
    let outcome = hub.decide(1010).outcome;
    assert!(matches!(outcome, EvictionOutcome::Waiting { look_again, .. } if look_again == at(1060)));
    assert!(matches!(hub.decide(1060).outcome, EvictionOutcome::Evict(_)));
}

#[test]
fn what_is_no_duration_is_ignored_and_named() {
    let wait = fleet_api::annotations::EVICTION_WAIT;
    let hub = Hub::new(pick_all(), ready(&["a"]))
        .budget(json!({}))
        .annotated(wait, "soon");
    assert_eq!(hub.view().ignored, [(wait, "soon")]);
    assert!(matches!(hub.decide(1000).outcome, EvictionOutcome::Blocked(_)));
}

#[test]
fn the_ended_go_after_the_time_that_was_chosen() {
    let ttl = fleet_api::annotations::EVICTION_TTL;
    let day = SignedDuration::from_hours(24);
    let ended = |hub: Hub| {
        let mut hub = hub.budget(json!({}));
        assert_eq!(hub.view().expires(day), None, "it has not ended");
        hub.store(1000);
        hub
    };
    let plain = ended(Hub::new(pick_all(), ready(&["a"])));
    assert_eq!(plain.view().expires(day), Some(at(1000 + 24 * 3600)));
    assert_eq!(plain.view().expires(SignedDuration::ZERO), None, "kept for ever");
    let own = ended(Hub::new(pick_all(), ready(&["a"])).annotated(ttl, "1h"));
    assert_eq!(own.view().expires(day), Some(at(1000 + 3600)));
    assert_eq!(own.view().expires(SignedDuration::ZERO), Some(at(1000 + 3600)));
    let kept = ended(Hub::new(pick_all(), ready(&["a"])).annotated(ttl, "0s"));
    assert_eq!(kept.view().expires(day), None);
    let invalid = ended(Hub::new(pick_all(), ready(&["b"])));
    assert_eq!(invalid.view().expires(day), Some(at(1000 + 24 * 3600)));
}
