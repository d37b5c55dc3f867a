use super::*;
use crate::conditions::assert_rows;

/// Asserts for each state its line `Status Reason: message`; the type has a test of its own.
#[track_caller]
fn assert_words(rows: &[(&dyn Words, &str)]) {
    for (state, line) in rows {
        assert_eq!(
            format!("{} {}: {}", state.status().as_str(), state.reason(), state.message()),
            *line
        );
    }
}

#[test]
fn the_scope_decides_the_type() {
    for (scope, prefix) in [
        (Scope::Cluster, "ClusterResourcePlacement"),
        (Scope::Namespaced, "ResourcePlacement"),
    ] {
        for step in Step::ALL {
            assert_eq!(step.on_placement(scope), format!("{prefix}{}", step.on_cluster()));
        }
    }
    assert_rows(&[
        (
            &Scope::Cluster.state(&Scheduled::Pending),
            "ClusterResourcePlacementScheduled=Unknown SchedulePending: Scheduling has not completed",
        ),
        (
            &Scope::Namespaced.state(&Available::Available { clusters: 2 }),
            "ResourcePlacementAvailable=True ResourceAvailable: \
             The selected resources in 2 cluster(s) are available now",
        ),
    ]);
}

#[test]
fn a_detail_may_come_before_or_after_the_scope() {
    let line = "ResourcePlacementScheduled=Unknown SchedulePending: Scheduling has not completed; two snapshots";
    let inside = Scheduled::Pending.with_detail("two snapshots");
    assert_rows(&[
        (
            &Scope::Namespaced
                .state(&Scheduled::Pending)
                .with_detail("two snapshots"),
            line,
        ),
        (&Scope::Namespaced.state(&inside), line),
    ]);
}

#[test]
fn the_strategy_decides_which_steps_are_expected() {
    let types = |report_diff| {
        Step::expected(report_diff)
            .iter()
            .map(|s| s.on_cluster())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        types(false),
        [
            "RolloutStarted",
            "Overridden",
            "WorkSynchronized",
            "Applied",
            "Available"
        ]
    );
    assert_eq!(
        types(true),
        ["RolloutStarted", "Overridden", "WorkSynchronized", "DiffReported"]
    );
}

#[test]
fn scheduling_words() {
    assert_words(&[
        (
            &Scheduled::Fulfilled { clusters: 2 },
            "True SchedulingPolicyFulfilled: \
             found all cluster needed as specified by the scheduling policy, found 2 cluster(s)",
        ),
        (
            &Scheduled::Unfulfilled { clusters: 1 },
            "False SchedulingPolicyUnfulfilled: could not find all clusters needed as specified by the scheduling \
             policy, found 1 cluster(s) instead",
        ),
        (
            &Scheduled::InvalidSelectors {
                error: InvalidSelection::ForbiddenNamespace {
                    placement: "p".into(),
                    namespace: "kube-x".into(),
                },
            },
            "False InvalidResourceSelectors: The resource selectors are invalid: failed to process the request due to \
             a client error: invalid clusterRresourcePlacement p: namespace kube-x is not allowed to propagate",
        ),
        (
            &Scheduled::NoNamespaceSelector,
            "False InvalidResourceSelectors: NamespaceAccessible ClusterResourcePlacement doesn't specify a resource \
             selector which selects a namespace",
        ),
        (
            &Scheduled::NamespaceChanged {
                namespace: "b".into(),
                original: "a".into(),
            },
            "False InvalidResourceSelectors: namespace resource selector is choosing a different namespace 'b' from \
             what was originally picked 'a'. This is not allowed for NamespaceAccessible ClusterResourcePlacement",
        ),
    ]);
}

#[test]
fn rollout_words() {
    assert_words(&[
        (
            &RolloutStarted::Started { clusters: 3 },
            "True RolloutStarted: All 3 cluster(s) start rolling out the latest resource",
        ),
        (
            &RolloutStarted::NotStarted { clusters: 3 },
            "False RolloutNotStartedYet: The rollout is being blocked by the rollout strategy in 3 cluster(s)",
        ),
        (
            &RolloutStarted::Undecided { clusters: 3 },
            "Unknown RolloutStartedUnknown: There are still 3 cluster(s) in the process of deciding whether to roll \
             out the latest resources or not",
        ),
        (
            &RolloutStarted::ExternalMixed,
            "Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and \
             different resource snapshot versions are observed across clusters",
        ),
        (
            &RolloutStarted::ExternalNone,
            "Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and no \
             resource snapshot name is observed across clusters, probably rollout has not started yet",
        ),
        (
            &RolloutStarted::ExternalUndecided { cluster: "c1".into() },
            "Unknown RolloutControlledByExternalController: Rollout is controlled by an external controller and \
             cluster c1 is in RolloutStarted Unknown state",
        ),
    ]);
}

#[test]
fn later_words() {
    assert_words(&[
        (
            &Overridden::Succeeded { clusters: 3 },
            "True OverriddenSucceeded: The selected resources are successfully overridden in 3 cluster(s)",
        ),
        (
            &Overridden::NoneSpecified,
            "True NoOverrideSpecified: No override rules are configured for the selected resources",
        ),
        (
            &Overridden::Failed { clusters: 3 },
            "False OverriddenFailed: Failed to override resources in 3 cluster(s)",
        ),
        (
            &Overridden::Pending { clusters: 3 },
            "Unknown OverriddenPending: There are still 3 cluster(s) in the process of overriding the selected \
             resources if there is any override defined",
        ),
        (
            &WorkSynchronized::Synchronized { clusters: 3 },
            "True WorkSynchronized: Work(s) are successfully created or updated in 3 target cluster(s)' namespaces",
        ),
        (
            &WorkSynchronized::NotYet { clusters: 1 },
            "False WorkNotSynchronizedYet: \
             There are 1 cluster(s) which have not finished creating or updating work(s) yet",
        ),
        (
            &WorkSynchronized::Pending { clusters: 3 },
            "Unknown WorkSynchronizedUnknown: There are still 3 cluster(s) in the process of creating or updating the \
             work object(s) in the hub cluster",
        ),
        (
            &Applied::Succeeded { clusters: 3 },
            "True ApplySucceeded: The selected resources are successfully applied to 3 cluster(s)",
        ),
        (
            &Applied::Failed { clusters: 3 },
            "False ApplyFailed: \
             Failed to apply resources to 3 cluster(s), please check the `failedPlacements` status",
        ),
        (
            &Applied::Pending { clusters: 3 },
            "Unknown ApplyPending: \
             There are still 3 cluster(s) in the process of applying the resources on the member cluster",
        ),
        (
            &Available::NotYet { clusters: 3 },
            "False ResourceNotAvailableYet: The selected resources in 3 cluster(s) are still not available yet",
        ),
        (
            &Available::Pending { clusters: 3 },
            "Unknown ResourceAvailableUnknown: There are still 3 cluster(s) in the process of checking the \
             availability of the selected resources",
        ),
        (
            &DiffReported::Completed { clusters: 3 },
            "True DiffReportingCompleted: Diff reporting in 3 cluster(s) has been completed",
        ),
        (
            &DiffReported::Incomplete { clusters: 3 },
            "False DiffReportingIncompleteOrFailed: \
             Diff reporting in 3 clusters is still in progress or has failed",
        ),
        (
            &DiffReported::Pending { clusters: 3 },
            "Unknown DiffReportingPending: \
             There are still 3 cluster(s) in the process of checking for configuration differences",
        ),
    ]);
    assert_rows(&[
        (
            &StatusSynced::Succeeded {
                namespace: "app".into(),
            },
            "ClusterResourcePlacementStatusSynced=True StatusSyncSucceeded: \
             Successfully created or updated ClusterResourcePlacementStatus in namespace 'app'",
        ),
        (
            &StatusSynced::Failed { error: "e".into() },
            "ClusterResourcePlacementStatusSynced=False StatusSyncFailed: Failed to create or update \
             ClusterResourcePlacementStatus: error returned by the API server: failed to create or update \
             ClusterResourcePlacementStatus: e",
        ),
    ]);
}
