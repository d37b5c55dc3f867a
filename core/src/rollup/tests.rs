//! Placement statuses, whole and by difference.

mod difference;

use fleet_api::placement::{BindingSpec, BindingStatus};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn context() -> Common<'static> {
    Common {
        scope: Scope::Cluster,
        generation: 1,
        external: false,
        reports_diff: false,
        latest: Some(("crp-0-snapshot", "0")),
        entry_bytes_max: ENTRIES_BYTES_MAX,
        now: at(100),
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": generation,
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    })
}

/// The words of a binding that has come so far; the last one is False if `ok` is not set.
const WAY: [(&str, &str, &str); 5] = [
    (
        "RolloutStarted",
        "RolloutStarted",
        "Detected the new changes on the resources and started the rollout process",
    ),
    (
        "Overridden",
        "NoOverrideSpecified",
        "No override rules are configured for the selected resources",
    ),
    (
        "WorkSynchronized",
        "AllWorkSynced",
        "All of the works are synchronized to the latest",
    ),
    (
        "Applied",
        "AllWorkHaveBeenApplied",
        "All corresponding work objects are applied",
    ),
    (
        "Available",
        "AllWorkAreAvailable",
        "All corresponding work objects are available",
    ),
];

fn binding_status(steps: usize, last_ok: bool) -> BindingStatus {
    let conditions: Vec<_> = WAY[..steps]
        .iter()
        .enumerate()
        .map(|(i, (type_, reason, message))| {
            let status = if i + 1 == steps && !last_ok { "False" } else { "True" };
            condition(type_, status, reason, message, 2)
        })
        .collect();
    let resource = json!({ "version": "v1", "kind": "ConfigMap", "name": "a", "namespace": "app" });
    let mut failed = resource.clone();
    failed["condition"] = condition("Applied", "False", "x", "y", 1);
    let mut drifted = resource.clone();
    drifted["observationTime"] = json!("1970-01-01T00:00:00Z");
    drifted["firstDriftedObservedTime"] = json!("1970-01-01T00:00:00Z");
    drifted["targetClusterObservedGeneration"] = json!(1);
    drifted["observedDrifts"] = json!([{ "path": "/data/x", "valueInMember": "z".repeat(100) }]);
    let mut diffed = drifted.clone();
    diffed["firstDiffedObservedTime"] = json!("1970-01-01T00:00:00Z");
    serde_json::from_value(json!({
        "conditions": conditions,
        "failedPlacements": [failed], "driftedPlacements": [drifted], "diffedPlacements": [diffed],
    }))
    .unwrap()
}

fn binding_spec(snapshot: &str) -> BindingSpec {
    BindingSpec {
        resource_snapshot_name: snapshot.into(),
        scheduling_policy_snapshot_name: "crp-0".into(),
        ..BindingSpec::default()
    }
}

fn decision(cluster: &str, selected: bool, reason: &str) -> ClusterDecision {
    ClusterDecision {
        cluster_name: cluster.into(),
        selected,
        reason: reason.into(),
        ..ClusterDecision::default()
    }
}

fn scheduler_status(decisions: &[ClusterDecision], fulfilled: bool) -> PolicySnapshotStatus {
    let found = decisions.iter().filter(|d| d.selected).count();
    let scheduled = if fulfilled {
        condition(
            "Scheduled",
            "True",
            "SchedulingPolicyFulfilled",
            &format!("found all cluster needed as specified by the scheduling policy, found {found} cluster(s)"),
            1,
        )
    } else {
        condition(
            "Scheduled",
            "False",
            "SchedulingPolicyUnfulfilled",
            "could not find all",
            1,
        )
    };
    serde_json::from_value(json!({
        "observedCRPGeneration": 1, "conditions": [scheduled], "targetClusters": decisions,
    }))
    .unwrap()
}

/// What the placement's conditions say, one line each.
fn lines(list: &[Condition]) -> Vec<String> {
    list.iter()
        .map(|c| format!("{}={} {}: {}", c.type_, c.status, c.reason, c.message))
        .collect()
}

struct Fleet {
    policy: PlacementPolicy,
    status: PolicySnapshotStatus,
    bindings: Vec<(String, BindingSpec, BindingStatus, String)>,
    previous: PlacementStatus,
}

impl Fleet {
    fn new(clusters: &[(&str, usize, bool)]) -> Self {
        let decisions: Vec<_> = clusters
            .iter()
            .map(|(name, ..)| decision(name, true, "picked"))
            .collect();
        let bindings = clusters.iter().map(|(name, steps, ok)| {
            (
                (*name).to_owned(),
                binding_spec("crp-0-snapshot"),
                binding_status(*steps, *ok),
                "0".to_owned(),
            )
        });
        Self {
            policy: serde_json::from_value(json!({ "placementType": "PickAll" })).unwrap(),
            status: scheduler_status(&decisions, true),
            bindings: bindings.collect(),
            previous: PlacementStatus::default(),
        }
    }

    fn world<'a>(&'a self, context: &Common<'a>) -> World<'a> {
        let view = |(name, spec, status, index): &'a (String, BindingSpec, BindingStatus, String)| {
            (
                name.as_str(),
                BindingView {
                    generation: 2,
                    spec,
                    status: Some(status),
                    index,
                },
            )
        };
        World {
            context: *context,
            policy: Some(PolicyView {
                generation: 1,
                policy: Some(&self.policy),
                number_of_clusters: None,
                status: Some(&self.status),
            }),
            bindings: self.bindings.iter().map(view).collect(),
            selected: &[],
            group_content: &|index| {
                vec![ResourceIdentifier {
                    name: format!("of {index}"),
                    ..ResourceIdentifier::default()
                }]
            },
            previous: &self.previous,
        }
    }

    fn rolled_up(&self, context: &Common<'_>) -> PlacementStatus {
        roll_up(&self.world(context))
    }
}

#[test]
fn a_terminating_member_namespace_reads_as_in_the_guide() {
    let error = "works.placement.kubernetes-fleet.io \"crp1-work\" is forbidden: unable to create new content in \
                 namespace fleet-member-kind-cluster-1 because it is being terminated";
    let mut fleet = Fleet::new(&[("kind-cluster-1", 3, false)]);
    let words = fleet.bindings[0].2.conditions.last_mut().unwrap();
    words.reason = "SyncWorkFailed".into();
    words.message = format!("Failed to synchronize the work to the latest: {error}");
    fleet.status.target_clusters[0].reason = "Successfully scheduled resources for placement in \"kind-cluster-1\" \
        (affinity score: 0, topology spread score: 0): picked by scheduling policy"
        .into();
    let status = fleet.rolled_up(&context());
    assert_eq!(
        lines(&status.conditions),
        [
            "ClusterResourcePlacementScheduled=True SchedulingPolicyFulfilled: found all cluster needed as specified by \
             the scheduling policy, found 1 cluster(s)",
            "ClusterResourcePlacementRolloutStarted=True RolloutStarted: All 1 cluster(s) start rolling out the latest \
             resource",
            "ClusterResourcePlacementOverridden=True NoOverrideSpecified: No override rules are configured for the \
             selected resources",
            "ClusterResourcePlacementWorkSynchronized=False WorkNotSynchronizedYet: There are 1 cluster(s) which have \
             not finished creating or updating work(s) yet",
        ]
    );
    assert_eq!(status.observed_resource_index, "0");
    let entry = &status.placement_statuses[0];
    assert_eq!(entry.cluster_name, "kind-cluster-1");
    assert_eq!(
        lines(&entry.conditions),
        [
            "Scheduled=True Scheduled: Successfully scheduled resources for placement in \"kind-cluster-1\" (affinity \
             score: 0, topology spread score: 0): picked by scheduling policy"
                .to_owned(),
            "RolloutStarted=True RolloutStarted: Detected the new changes on the resources and started the rollout process"
                .to_owned(),
            "Overridden=True NoOverrideSpecified: No override rules are configured for the selected resources".to_owned(),
            format!("WorkSynchronized=False SyncWorkFailed: Failed to synchronize the work to the latest: {error}"),
        ]
    );
    assert!(entry.conditions.iter().all(|c| c.observed_generation == Some(1)));
}

#[test]
fn unknown_outranks_false_and_ends_the_list() {
    // One cluster has not said anything after the Works, one has failed to apply, one is through.
    let status = Fleet::new(&[("a", 5, true), ("b", 4, false), ("c", 3, true)]).rolled_up(&context());
    assert_eq!(
        lines(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementApplied=Unknown ApplyPending: There are still 1 cluster(s) in the process of applying the \
         resources on the member cluster"
    );
    let status = Fleet::new(&[("a", 5, true), ("b", 4, false)]).rolled_up(&context());
    assert_eq!(
        lines(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementApplied=False ApplyFailed: Failed to apply resources to 1 cluster(s), please check the \
         `failedPlacements` status"
    );
    let status = Fleet::new(&[("a", 5, true), ("b", 5, true)]).rolled_up(&context());
    assert_eq!(
        lines(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementAvailable=True ResourceAvailable: The selected resources in 2 cluster(s) are available now"
    );
    assert!(is_completed(&context(), &status.conditions));
}

#[test]
fn the_first_thing_that_a_binding_does_not_say_is_unknown() {
    for (steps, line) in [
        (
            0,
            "RolloutStarted=Unknown RolloutStartedUnknown: In the process of deciding whether to roll out some version of the resources or not",
        ),
        (
            1,
            "Overridden=Unknown OverriddenPending: In the process of overriding the selected resources if there is any override defined",
        ),
        (
            2,
            "WorkSynchronized=Unknown WorkSynchronizedUnknown: In the process of creating or updating the work object(s) in the hub cluster",
        ),
        (
            3,
            "Applied=Unknown ApplyPending: In the process of applying the resources on the member cluster",
        ),
        (
            4,
            "Available=Unknown ResourceAvailableUnknown: The availability of the selected resources is unknown yet ",
        ),
    ] {
        let status = Fleet::new(&[("a", steps, true)]).rolled_up(&context());
        assert_eq!(lines(&status.placement_statuses[0].conditions).last().unwrap(), line);
    }
}

#[test]
fn a_binding_of_an_older_snapshot_is_blocked_or_undecided() {
    let mut fleet = Fleet::new(&[("a", 5, true)]);
    fleet.bindings[0].1.resource_snapshot_name = "crp-old-snapshot".into();
    let entry = &fleet.rolled_up(&context()).placement_statuses[0];
    assert!(
        lines(&entry.conditions)
            .last()
            .unwrap()
            .starts_with("RolloutStarted=Unknown")
    );
    assert_eq!(entry.observed_resource_index, "0");
    fleet.bindings[0].2.conditions[0].status = "False".into();
    let status = fleet.rolled_up(&context());
    assert_eq!(
        lines(&status.placement_statuses[0].conditions).last().unwrap(),
        "RolloutStarted=False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy"
    );
    assert_eq!(
        lines(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementRolloutStarted=False RolloutNotStartedYet: The rollout is being blocked by the rollout \
         strategy in 1 cluster(s)"
    );
    // Its generation has moved on: nobody has decided yet.
    fleet.bindings[0].2.conditions[0].observed_generation = Some(1);
    let entry = &fleet.rolled_up(&context()).placement_statuses[0];
    assert!(
        lines(&entry.conditions)
            .last()
            .unwrap()
            .starts_with("RolloutStarted=Unknown")
    );
}

#[test]
fn a_cluster_without_binding_is_undecided() {
    let undecided = "RolloutStarted=Unknown RolloutStartedUnknown: In the process of deciding whether to roll out some \
                     version of the resources or not";
    let mut fleet = Fleet::new(&[("a", 5, true)]);
    let bindings = std::mem::take(&mut fleet.bindings);
    let status = fleet.rolled_up(&context());
    let entry = &status.placement_statuses[0];
    assert_eq!(lines(&entry.conditions)[1..], [undecided]);
    assert_eq!(entry.observed_resource_index, "");
    // What it says is about an older generation of itself.
    fleet.bindings = bindings;
    fleet.bindings[0].2.conditions[0].observed_generation = Some(1);
    let status = fleet.rolled_up(&context());
    assert_eq!(lines(&status.placement_statuses[0].conditions)[1..], [undecided]);
}

#[test]
fn every_step_stops_the_list_where_one_cluster_stops() {
    // Steps reached by one of three clusters, and whether the last went well: the placement's last line.
    for (steps, ok, line) in [
        (
            0,
            true,
            "RolloutStarted=Unknown RolloutStartedUnknown: There are still 1 cluster(s) in the process of deciding whether \
             to roll out the latest resources or not",
        ),
        (
            1,
            false,
            "RolloutStarted=False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 1 cluster(s)",
        ),
        (
            1,
            true,
            "Overridden=Unknown OverriddenPending: There are still 1 cluster(s) in the process of overriding the selected \
             resources if there is any override defined",
        ),
        (
            2,
            false,
            "Overridden=False OverriddenFailed: Failed to override resources in 1 cluster(s)",
        ),
        (
            2,
            true,
            "WorkSynchronized=Unknown WorkSynchronizedUnknown: There are still 1 cluster(s) in the process of creating or \
             updating the work object(s) in the hub cluster",
        ),
        (
            3,
            false,
            "WorkSynchronized=False WorkNotSynchronizedYet: There are 1 cluster(s) which have not finished creating or \
             updating work(s) yet",
        ),
        (
            3,
            true,
            "Applied=Unknown ApplyPending: There are still 1 cluster(s) in the process of applying the resources on the \
             member cluster",
        ),
        (
            4,
            false,
            "Applied=False ApplyFailed: Failed to apply resources to 1 cluster(s), please check the `failedPlacements` \
             status",
        ),
        (
            4,
            true,
            "Available=Unknown ResourceAvailableUnknown: There are still 1 cluster(s) in the process of checking the \
             availability of the selected resources",
        ),
        (
            5,
            false,
            "Available=False ResourceNotAvailableYet: The selected resources in 1 cluster(s) are still not available yet",
        ),
    ] {
        for scope in [Scope::Cluster, Scope::Namespaced] {
            let mut fleet = Fleet::new(&[("a", 5, true), ("b", steps, ok), ("c", 5, true)]);
            let context = Common { scope, ..context() };
            // What was true before is gone.
            fleet.previous = Fleet::new(&[("a", 5, true), ("b", 5, true), ("c", 5, true)]).rolled_up(&context);
            let status = fleet.rolled_up(&context);
            let said = lines(&status.conditions);
            let prefix = match scope {
                Scope::Cluster => "ClusterResourcePlacement",
                Scope::Namespaced => "ResourcePlacement",
            };
            assert_eq!(*said.last().unwrap(), format!("{prefix}{line}"));
            let reached = if ok { steps + 1 } else { steps };
            assert_eq!(said.len(), 1 + reached, "{said:?}");
        }
    }
}

#[test]
fn whatever_the_scheduler_has_not_said_is_pending() {
    type Change = fn(&mut PolicySnapshotStatus);
    let changes: [Change; 4] = [
        |status| status.conditions.clear(),
        |status| status.conditions[0].observed_generation = Some(0),
        |status| status.observed_crp_generation = 0,
        |status| status.conditions[0].status = "Unknown".into(),
    ];
    for change in changes {
        let mut fleet = Fleet::new(&[("a", 5, true)]);
        change(&mut fleet.status);
        let status = fleet.rolled_up(&context());
        assert_eq!(
            lines(&status.conditions),
            ["ClusterResourcePlacementScheduled=Unknown SchedulePending: Scheduling has not completed"]
        );
        assert!(status.placement_statuses.is_empty());
    }
}

#[test]
fn details_are_copied_only_where_they_belong() {
    for (steps, ok, expected) in [
        (3, true, (0, 0, 0)),
        (4, false, (1, 1, 1)),
        (4, true, (0, 1, 0)),
        (5, false, (1, 1, 1)),
        (5, true, (0, 1, 0)),
    ] {
        let status = Fleet::new(&[("a", steps, ok)]).rolled_up(&context());
        let entry = &status.placement_statuses[0];
        let counts = (
            entry.failed_placements.len(),
            entry.drifted_placements.len(),
            entry.diffed_placements.len(),
        );
        assert_eq!(counts, expected, "{steps} {ok}");
    }
}

#[test]
fn one_overridden_cluster_is_enough_for_the_message() {
    let mut fleet = Fleet::new(&[("a", 5, true), ("b", 5, true)]);
    fleet.bindings[1].1.cluster_resource_override_snapshots = vec!["cro-0".into()];
    let status = fleet.rolled_up(&context());
    assert_eq!(
        lines(&status.conditions)[2],
        "ClusterResourcePlacementOverridden=True OverriddenSucceeded: The selected resources are successfully overridden \
         in 2 cluster(s)"
    );
    assert_eq!(
        status.placement_statuses[1].applicable_cluster_resource_overrides,
        ["cro-0"]
    );
}

#[test]
fn scheduling_that_is_not_done_leaves_older_conditions_alone() {
    let mut fleet = Fleet::new(&[("a", 5, true)]);
    fleet.previous = fleet.rolled_up(&context());
    let later = Common {
        generation: 2,
        ..context()
    };
    let status = fleet.rolled_up(&later);
    assert_eq!(
        lines(&status.conditions)[0],
        "ClusterResourcePlacementScheduled=Unknown SchedulePending: Scheduling has not completed"
    );
    assert!(status.placement_statuses.is_empty());
    assert_eq!(status.conditions.len(), 6);
    assert_eq!(status.conditions[5].observed_generation, Some(1));
    assert_eq!(first_unmet(&later, &status.conditions).unwrap().0, Step::Scheduled);
}

#[test]
fn the_metric_names_the_first_condition_that_is_not_true() {
    let stands = |steps, ok, context: &Common<'_>| {
        let status = Fleet::new(&[("a", steps, ok)]).rolled_up(&Common {
            generation: 1,
            ..*context
        });
        let found = standing(context, &status.conditions);
        format!("{} {} {}", found.condition_type, found.status, found.reason)
    };
    let later = Common {
        generation: 2,
        ..context()
    };
    for (steps, ok, context, expected) in [
        (5, true, context(), "Completed True Completed"),
        (4, false, context(), "ClusterResourcePlacementApplied False ApplyFailed"),
        (
            3,
            true,
            context(),
            "ClusterResourcePlacementApplied Unknown ApplyPending",
        ),
        (5, true, later, "ClusterResourcePlacementScheduled nil nil"),
    ] {
        assert_eq!(stands(steps, ok, &context), expected);
    }
}

#[test]
fn without_a_cluster_only_scheduling_is_said() {
    let mut fleet = Fleet::new(&[("a", 5, true)]);
    fleet.previous = fleet.rolled_up(&context());
    fleet.status = scheduler_status(&[], true);
    let status = fleet.rolled_up(&context());
    assert_eq!(status.conditions.len(), 1);
}

#[test]
fn clusters_that_were_not_found_are_listed_without_name_and_keep_their_time() {
    let mut fleet = Fleet::new(&[("a", 5, true)]);
    fleet.policy = serde_json::from_value(json!({ "placementType": "PickN", "numberOfClusters": 3 })).unwrap();
    let decisions = [
        decision("a", true, "picked"),
        decision("b", false, "Cluster \"b\" does not score high enough"),
        decision("c", false, "no"),
        decision("d", false, "never shown"),
    ];
    fleet.status = scheduler_status(&decisions, false);
    let status = fleet.rolled_up(&context());
    let shown: Vec<_> = status
        .placement_statuses
        .iter()
        .map(|e| lines(&e.conditions)[0].clone())
        .collect();
    assert_eq!(
        shown[1..],
        [
            "Scheduled=False ScheduleFailed: Cluster \"b\" does not score high enough",
            "Scheduled=False ScheduleFailed: no"
        ]
    );
    // Found ones are tracked although scheduling failed.
    assert!(
        lines(&status.conditions)
            .last()
            .unwrap()
            .starts_with("ClusterResourcePlacementAvailable=True")
    );
    assert!(!is_completed(&context(), &status.conditions));
    fleet.previous = status.clone();
    assert_eq!(
        fleet.rolled_up(&Common {
            now: at(500),
            ..context()
        }),
        status
    );
}

#[test]
fn a_second_look_changes_nothing() {
    let mut fleet = Fleet::new(&[("a", 5, true), ("b", 4, false)]);
    let first = fleet.rolled_up(&context());
    fleet.previous = first.clone();
    assert_eq!(
        fleet.rolled_up(&Common {
            now: at(999),
            ..context()
        }),
        first
    );
}

#[test]
fn reporting_differences_swaps_the_conditions() {
    let mut fleet = Fleet::new(&[("a", 5, true)]);
    fleet.previous = fleet.rolled_up(&context());
    let diff = Common {
        reports_diff: true,
        ..context()
    };
    let status = fleet.rolled_up(&diff);
    assert_eq!(
        lines(&status.conditions).last().unwrap(),
        "ClusterResourcePlacementDiffReported=Unknown DiffReportingPending: There are still 1 cluster(s) in the process of \
         checking for configuration differences"
    );
    assert_eq!(status.conditions.len(), 5);
    let mut reported = condition("DiffReported", "False", "DiffReportInProgress", "x", 2);
    fleet.bindings[0]
        .2
        .conditions
        .push(serde_json::from_value(reported.clone()).unwrap());
    assert_eq!(
        lines(&fleet.rolled_up(&diff).conditions).last().unwrap(),
        "ClusterResourcePlacementDiffReported=False DiffReportingIncompleteOrFailed: Diff reporting in 1 clusters is still \
         in progress or has failed"
    );
    reported["status"] = json!("True");
    *fleet.bindings[0].2.conditions.last_mut().unwrap() = serde_json::from_value(reported).unwrap();
    let status = fleet.rolled_up(&diff);
    assert_eq!(status.placement_statuses[0].diffed_placements.len(), 1);
    assert!(is_completed(&diff, &status.conditions));
}

#[test]
fn an_external_rollout_shows_what_the_clusters_agree_on() {
    let external = Common {
        external: true,
        scope: Scope::Namespaced,
        latest: None,
        ..context()
    };
    let line = |fleet: &Fleet| {
        let status = fleet.rolled_up(&external);
        (
            lines(&status.conditions).last().unwrap().clone(),
            status.observed_resource_index.clone(),
            status.selected_resources.len(),
        )
    };
    let mut fleet = Fleet::new(&[("a", 0, true), ("b", 0, true)]);
    fleet.bindings.iter_mut().for_each(|b| b.3.clear());
    assert_eq!(
        line(&fleet),
        (
            "ResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an \
             external controller and no resource snapshot name is observed across clusters, probably rollout has \
             not started yet"
                .to_owned(),
            String::new(),
            0
        )
    );
    fleet.bindings[0].3 = "1".into();
    assert_eq!(
        line(&fleet).0,
        "ResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an \
         external controller and different resource snapshot versions are observed across clusters"
    );
    fleet.bindings[1].3 = "1".into();
    fleet.bindings[0].2 = binding_status(5, true);
    assert_eq!(
        line(&fleet),
        (
            "ResourcePlacementRolloutStarted=Unknown RolloutControlledByExternalController: Rollout is controlled by an \
             external controller and cluster b is in RolloutStarted Unknown state"
                .to_owned(),
            "1".into(),
            1
        )
    );
    fleet.bindings[1].2 = binding_status(5, true);
    assert!(line(&fleet).0.starts_with("ResourcePlacementAvailable=True"));
}

#[test]
fn only_bindings_of_the_latest_policy_count_and_of_two_the_greater_name() {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    let meta = |name: &str, deleting: bool| ObjectMeta {
        name: Some(name.into()),
        deletion_timestamp: deleting.then(|| Time(at(0))),
        ..ObjectMeta::default()
    };
    let spec = |cluster: &str, policy: &str| BindingSpec {
        target_cluster: cluster.into(),
        scheduling_policy_snapshot_name: policy.into(),
        resource_snapshot_name: format!("{cluster}-{policy}"),
        ..BindingSpec::default()
    };
    let all = [
        (meta("a-1", false), spec("a", "crp-1")),
        (meta("a-2", false), spec("a", "crp-1")),
        (meta("a-3", true), spec("a", "crp-1")),
        (meta("b-1", false), spec("b", "crp-0")),
        (meta("c-1", false), spec("", "crp-1")),
    ];
    let views: Vec<_> = all
        .iter()
        .zip(0..)
        .map(|((meta, spec), i)| {
            (
                meta,
                BindingView {
                    generation: i,
                    spec,
                    status: None,
                    index: "",
                },
            )
        })
        .collect();
    let found = bindings_by_cluster("crp-1", views);
    assert_eq!(
        found.iter().map(|(c, b)| (*c, b.generation)).collect::<Vec<_>>(),
        [("a", 1)]
    );
}

#[test]
fn an_entry_that_is_too_large_loses_details_and_no_condition() {
    let mut fleet = Fleet::new(&[("a", 4, false)]);
    let whole = fleet.rolled_up(&context());
    fleet.previous = PlacementStatus::default();
    let size = serde_json::to_vec(&whole.placement_statuses[0]).unwrap().len();
    let tight = fleet.rolled_up(&Common {
        entry_bytes_max: size - 100,
        ..context()
    });
    assert!(
        tight.placement_statuses[0].drifted_placements[0]
            .observed_drifts
            .is_empty()
    );
    let tighter = fleet.rolled_up(&Common {
        entry_bytes_max: 10,
        ..context()
    });
    assert!(tighter.placement_statuses[0].failed_placements.is_empty());
    assert_eq!(
        lines(&tighter.placement_statuses[0].conditions),
        lines(&whole.placement_statuses[0].conditions)
    );
    assert_eq!(lines(&tighter.conditions), lines(&whole.conditions));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// The shell's way: one entry replaced per event, the rest untouched.
    #[test]
    fn replacing_entries_one_by_one_gives_the_full_roll_up(
        external in any::<bool>(),
        start in prop::collection::vec((0..6_usize, any::<bool>(), 0..3_u8), 1..6),
        events in prop::collection::vec((0..6_usize, 0..6_usize, any::<bool>(), 0..3_u8), 0..20),
    ) {
        let names: Vec<String> = (0..start.len()).map(|i| format!("c{i}")).collect();
        let clusters: Vec<_> = names.iter().zip(&start).map(|(n, (steps, ok, _))| (n.as_str(), (*steps).min(5), *ok)).collect();
        let mut fleet = Fleet::new(&clusters);
        for (binding, (_, _, index)) in fleet.bindings.iter_mut().zip(&start) {
            binding.3 = if *index == 0 { String::new() } else { index.to_string() };
        }
        let context = Common { external, ..context() };
        let make = |fleet: &Fleet, i: usize| {
            let (name, spec, status, index) = &fleet.bindings[i];
            let view = BindingView { generation: 2, spec, status: Some(status), index };
            entry(&context, &decision(name, true, "picked"), Some(&view), None)
        };
        let mut counts = Counts::default();
        let mut entries: Vec<_> = (0..names.len()).map(|i| make(&fleet, i)).collect();
        entries.iter().enumerate().for_each(|(i, entry)| counts.add(i, entry));
        for (i, steps, ok, index) in events {
            let i = i % names.len();
            fleet.bindings[i].2 = binding_status(steps.min(5), ok);
            fleet.bindings[i].3 = if index == 0 { String::new() } else { index.to_string() };
            counts.remove(i, &entries[i]);
            entries[i] = make(&fleet, i);
            counts.add(i, &entries[i]);

            let full = fleet.rolled_up(&context);
            let shown: Vec<_> = entries.iter().map(|entry| entry.status.clone()).collect();
            prop_assert_eq!(&full.placement_statuses, &shown);
            let mut list = vec![full.conditions[0].clone()];
            conditions(&context, &counts, &mut list);
            prop_assert_eq!(&full.conditions, &list);
        }
    }
}

#[test]
fn comparing_acquires_what_is_there_unless_it_is_told_not_to() {
    let strategy =
        |text: Value| -> RolloutStrategy { serde_json::from_value(json!({ "applyStrategy": text })).unwrap() };
    let table = [
        (json!({ "type": "ReportDiff" }), Some("Always")),
        (
            json!({ "type": "ReportDiff", "whenToTakeOver": "IfNoDiff" }),
            Some("IfNoDiff"),
        ),
        (json!({ "type": "ReportDiff", "whenToTakeOver": "Never" }), None),
        (json!({ "type": "ClientSideApply" }), None),
        (json!({ "type": "ServerSideApply", "whenToTakeOver": "Always" }), None),
    ];
    for (apply, when) in table {
        let found = acquires(Some(&strategy(apply.clone()))).map(|when| when.to_string());
        assert_eq!(found.as_deref(), when, "{apply}");
    }
    assert_eq!(acquires(None), None);
}
