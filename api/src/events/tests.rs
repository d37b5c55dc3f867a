use super::*;

/// Asserts for each Event its line `Type Reason: message`.
#[track_caller]
fn assert_rows<E: Event>(rows: &[(E, &str)]) {
    for (event, line) in rows {
        assert_eq!(
            format!(
                "{} {}: {}",
                event.event_type().as_str(),
                event.reason(),
                event.message()
            ),
            *line
        );
    }
}

#[test]
fn components() {
    let both = |of: fn(Scope) -> &'static str| [of(Scope::Cluster), of(Scope::Namespaced)];
    assert_eq!(both(MemberClusterEvent::component), ["mcv1beta1"; 2]);
    assert_eq!(
        both(InternalMemberClusterEvent::component),
        ["v1beta1InternalMemberClusterController"; 2]
    );
    assert_eq!(both(PlacementEvent::component), ["placement-controller"; 2]);
    assert_eq!(
        both(WorkGeneratorEvent::component),
        [
            "cluster resource binding work generator",
            "resource binding work generator"
        ]
    );
}

#[test]
fn member_clusters() {
    use MemberClusterEvent as E;
    assert_rows(&[
        (E::NamespaceCreated, "Normal NamespaceCreated: Namespace was created"),
        (E::NamespacePatched, "Normal NamespacePatched: Namespace was patched"),
        (E::RoleCreated, "Normal RoleCreated: role was created"),
        (E::RoleUpdated, "Normal RoleUpdated: role was updated"),
        (
            E::RoleBindingCreated,
            "Normal RoleBindingCreated: role binding was created",
        ),
        (
            E::RoleBindingUpdated,
            "Normal RoleBindingUpdated: role binding was updated",
        ),
        (
            E::InternalMemberClusterCreated,
            "Normal InternalMemberClusterCreated: Internal member cluster was created",
        ),
        (
            E::InternalMemberClusterUpdated,
            "Normal InternalMemberClusterSpecUpdated: internal member cluster spec updated",
        ),
        (
            E::ReadyToJoin,
            "Normal MemberClusterReadyToJoin: member cluster ready to join",
        ),
        (E::Joined, "Normal MemberClusterJoined: member cluster joined"),
        (E::Left, "Normal MemberClusterLeft: member cluster left"),
        (
            E::JoinStateUnknown,
            "Warning MemberClusterJoinStateUnknown: member cluster join state unknown",
        ),
        (
            E::BytesHeldBack {
                cluster: "a".into(),
                mebibytes: 16,
            },
            "Warning MemberClusterHeldBack: reports of a are written down later: it stores more than 16 MiB a minute",
        ),
        (
            E::SessionHeldBack {
                cluster: "a".into(),
                sessions: 12,
            },
            "Warning MemberClusterHeldBack: a is made to wait: it connects more than 12 times a minute",
        ),
        (
            E::AlreadyConnected {
                connected: "a".into(),
                refused: "b".into(),
            },
            "Warning MemberClusterAlreadyConnected: refused a connection from cluster b: cluster a is connected under \
             this name; give each cluster a MemberCluster of its own",
        ),
    ]);
}

#[test]
fn internal_member_clusters() {
    use InternalMemberClusterEvent as E;
    assert_rows(&[
        (
            E::Healthy,
            "Normal InternalMemberClusterHealthy: internal member cluster healthy",
        ),
        (
            E::Unhealthy,
            "Warning InternalMemberClusterUnhealthy: internal member cluster unhealthy",
        ),
        (
            E::Joined,
            "Normal InternalMemberClusterJoined: internal member cluster joined",
        ),
        (
            E::FailedToJoin,
            "Normal InternalMemberClusterFailedToJoin: internal member cluster failed to join",
        ),
        (
            E::Left,
            "Normal InternalMemberClusterLeft: internal member cluster left",
        ),
        (
            E::FailedToLeave,
            "Normal InternalMemberClusterFailedToLeave: internal member cluster failed to leave",
        ),
        (
            E::ProviderStarted,
            "Normal Started: The property provider has started successfully",
        ),
        (
            E::ProviderFailedToStart { error: "e".into() },
            "Warning FailedToStart: Failed to start the property provider: e",
        ),
        (
            E::ProviderStartTimedOut,
            "Warning TimedOut: The property provider does not start up in time",
        ),
        (
            E::ProviderTimedOut,
            "Warning TimedOut: The property provider does not respond in time",
        ),
    ]);
}

#[test]
fn placements() {
    use PlacementEvent as E;
    assert_rows(&[
        (
            E::RolloutStarted,
            "Normal PlacementRolloutStarted: Started rolling out the latest resources",
        ),
        (
            E::Overridden,
            "Normal PlacementOverriddenSucceeded: Placement has been successfully overridden",
        ),
        (
            E::WorkSynchronized,
            "Normal PlacementWorkSynchronized: \
             Work(s) have been created or updated successfully for the selected cluster(s)",
        ),
        (
            E::Applied,
            "Normal PlacementApplied: Resources have been applied to the selected cluster(s)",
        ),
        (
            E::Available,
            "Normal PlacementAvailable: Resources are available on the selected cluster(s)",
        ),
        (
            E::TakesOwnership { when: "Always".into() },
            "Warning PlacementTakesOwnership: ReportDiff with whenToTakeOver Always changes nothing on the clusters, but \
             takes ownership of objects that exist there: they are deleted with the placement; set whenToTakeOver to Never \
             to leave them alone",
        ),
        (
            E::StatusNotReportedBack { why: "Because.".into() },
            "Warning PlacementStatusNotReportedBack: Because.",
        ),
        (
            E::StatusContested {
                object: "Service \"web\"".into(),
                manager: "cloud".into(),
            },
            "Warning PlacementStatusContested: cloud also writes the status of Service \"web\" on the hub; let only one of \
             the two do so",
        ),
        (
            E::DiffReported,
            "Normal PlacementDiffReported: \
             Configuration differences have been reported on the selected cluster(s)",
        ),
        (
            E::Completed,
            "Normal PlacementRolloutCompleted: \
             Placement has finished the rollout process and reached the desired status",
        ),
        (
            E::CleanedUp,
            "Normal PlacementCleanupFinalizerRemoved: \
             Deleted the snapshots and removed the placement cleanup finalizer",
        ),
    ]);
    for step in Step::ALL {
        assert_eq!(E::succeeded(step).is_none(), step == Step::Scheduled);
        let failed = E::failed(step, "why".into());
        assert_eq!(
            (failed.event_type(), failed.message().as_str()),
            (EventType::Warning, "why")
        );
    }
}

#[test]
fn the_rest() {
    assert_rows(&[(
        WorkGeneratorEvent::DuplicateEnvelopeWorks {
            works: vec!["w1".into(), "w2".into()],
            envelope: "app/env".into(),
            namespace: "fleet-member-c1".into(),
        },
        "Warning DuplicateEnvelopeWorks: Multiple Work objects ([w1 w2]) found for envelope app/env in namespace \
         fleet-member-c1; delete all but the oldest to recover",
    )]);
}

#[test]
fn of_update_runs() {
    type E = UpdateRunEvent;
    let s = |text: &str| text.to_owned();
    let list = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    assert_rows(&[
        (
            E::Initialized,
            "Normal UpdateRunInitializedSuccessfully: The UpdateRun initialized successfully",
        ),
        (
            E::InitializationWaiting {
                bindings: list("b1 b2"),
            },
            "Warning UpdateRunInitializationWaiting: Waiting for the scheduler to look again at binding(s) of an older \
             policy: b1, b2",
        ),
        (
            E::StageStarted { stage: s("canary") },
            "Normal StageUpdatingStarted: Stage canary: Clusters in the stage started updating",
        ),
        (
            E::StageSucceeded { stage: s("canary") },
            "Normal StageUpdatingSucceeded: Stage canary: Stage update completed successfully",
        ),
        (
            E::StageSkipped { stage: s("canary") },
            "Normal StageUpdatingSkippedNoClusters: Stage canary: Stage skipped because it has no clusters",
        ),
        (
            E::ClusterSkipped {
                cluster: s("c1"),
                stage: s("canary"),
                why: s("gone"),
            },
            "Normal UpdateRunClusterSkipped: Cluster c1 in stage canary: gone",
        ),
        (
            E::ClustersNotIncluded {
                clusters: list("c4 c5"),
            },
            "Normal UpdateRunClustersNotIncluded: 2 cluster(s) picked after the run was initialized are left to the \
             next run: c4, c5",
        ),
        (
            E::ApprovalStale {
                request: s("r-after-s"),
                observed: 0,
                generation: 1,
            },
            "Warning UpdateRunApprovalStale: The approval of r-after-s is ignored: its Approved condition has \
             observedGeneration 0, want 1",
        ),
    ]);
}

#[test]
fn of_update_runs_with_settings() {
    type E = UpdateRunEvent;
    let s = |text: &str| text.to_owned();
    let list = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
    assert_rows(&[
        (
            E::ClustersUnassigned {
                clusters: list("c4 c5"),
            },
            "Normal UpdateRunClustersUnassigned: 2 cluster(s) are in no stage of the strategy: c4, c5",
        ),
        (
            E::ClusterFailed {
                cluster: s("c1"),
                stage: s("canary"),
                why: s("late"),
            },
            "Warning UpdateRunClusterFailed: Cluster c1 in stage canary: late",
        ),
        (
            E::RollingBack { why: s("why") },
            "Warning UpdateRunRollingBack: The update run is rolling back: why",
        ),
        (
            E::RolledBack {
                restored: 2,
                of: 2,
                left: String::new(),
            },
            "Warning UpdateRunRolledBack: Rolled back 2 of 2 cluster(s)",
        ),
        (
            E::RolledBack {
                restored: 1,
                of: 2,
                left: s("c1 (gone)"),
            },
            "Warning UpdateRunRolledBack: Rolled back 1 of 2 cluster(s); left alone: c1 (gone)",
        ),
        (
            E::SnapshotHasFailed {
                snapshot: s("web-2-snapshot"),
                run: s("r1"),
            },
            "Warning UpdateRunSnapshotHasFailed: The resource snapshot web-2-snapshot was taken back by update run r1",
        ),
        (
            E::NoFailureBudget {
                without_effect: s("it does nothing"),
            },
            "Warning UpdateRunNoFailureBudget: Without rollout.kubernetes-fleet.io/max-failures no cluster ever fails (0 is \
             for none may), so it does nothing",
        ),
        (
            E::RollbackIgnored { why: s("why") },
            "Warning UpdateRunRollbackIgnored: The annotation rollout.kubernetes-fleet.io/rollback is ignored: why",
        ),
        (
            E::WindowUnreadable {
                cluster: s("c1"),
                why: s("why"),
            },
            "Warning UpdateRunWindowUnreadable: The annotation rollout.kubernetes-fleet.io/window of MemberCluster c1 \
             cannot be read, so the cluster counts as closed: why",
        ),
        (
            E::GateWaiting {
                stage: s("canary"),
                gate: s("Job ops/check"),
                why: s("Complete is not True"),
            },
            "Normal UpdateRunGateWaiting: Stage canary is waiting for the gate Job ops/check: Complete is not True",
        ),
        (
            E::GatePassed {
                stage: s("canary"),
                gate: s("Job ops/check"),
            },
            "Normal UpdateRunGatePassed: The gate Job ops/check of stage canary has passed",
        ),
    ]);
}

#[test]
fn of_update_runs_that_others_disturb() {
    type E = UpdateRunEvent;
    let s = |text: &str| text.to_owned();
    assert_rows(&[
        (
            E::Preempted {
                cluster: s("c1"),
                stage: s("canary"),
                run: s("r2"),
                index: s("3"),
            },
            "Warning UpdateRunPreempted: Cluster c1 in stage canary was taken over by update run r2 \
             (resourceSnapshotIndex 3)",
        ),
        (
            E::Changed {
                cluster: s("c1"),
                stage: s("canary"),
                index: s("3"),
            },
            "Warning UpdateRunPreempted: Cluster c1 in stage canary was given other content (resourceSnapshotIndex \
             3), not by an update run",
        ),
    ]);
}

#[test]
fn of_evictions() {
    type E = EvictionEvent;
    let s = |text: &str| text.to_owned();
    assert_eq!(
        E::component(Scope::Cluster),
        "clusterresourceplacementeviction-controller"
    );
    assert_rows(&[
        (
            E::Blocked {
                why: s("needs 3 available, has 2: a (NotAllWorkAreAvailable)"),
            },
            "Warning EvictionBlocked: needs 3 available, has 2: a (NotAllWorkAreAvailable)",
        ),
        (
            E::Waiting {
                until: s("2026-01-01T00:00:00Z"),
                why: s("needs 3 available, has 2"),
            },
            "Normal EvictionWaiting: waits for the budget until 2026-01-01T00:00:00Z: needs 3 available, has 2",
        ),
        (
            E::BadAnnotation {
                annotation: s("rollout.kubernetes-fleet.io/wait"),
                value: s("soon"),
            },
            "Warning EvictionAnnotationIgnored: the annotation rollout.kubernetes-fleet.io/wait is ignored: \"soon\" is \
             no duration such as 30s, 10m or 1h30m",
        ),
    ]);
}

#[test]
fn messages_fit() {
    let event = PlacementEvent::Held {
        error: "ü".repeat(MESSAGE_MAX),
    };
    assert!(event.message().len() <= MESSAGE_MAX);
}
