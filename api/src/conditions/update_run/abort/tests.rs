use super::*;

const ABORT: &str = "cannot continue the updateRun";
const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun";
const USER: &str = "failed to process the request due to a client error";
const UNEXP: &str = "unexpected behavior which cannot be handled by the controller";

#[track_caller]
fn assert_messages(rows: impl IntoIterator<Item = (Abort, String)>) {
    for (abort, message) in rows {
        assert_eq!(abort.message(), message);
    }
}

fn s(text: &str) -> String {
    text.to_owned()
}

#[test]
fn initialization() {
    let key = || s("/example-placement");
    assert_messages([
        (
            Abort::PlacementNotFound,
            format!("{VALID}: {USER}: parent placement not found"),
        ),
        (
            Abort::NotExternal {
                strategy: s("RollingUpdate"),
            },
            format!(
                "{VALID}: {USER}: parent placement does not have an external rollout strategy, \
                 current strategy: RollingUpdate"
            ),
        ),
        (
            Abort::NoPolicySnapshot { key: key() },
            format!("{VALID}: no latest policy snapshot found for placement /example-placement"),
        ),
        (
            Abort::SeveralPolicySnapshots { key: key(), count: 2 },
            format!(
                "{VALID}: {UNEXP}: multiple active policy snapshots found for placement \
                 /example-placement: got 2, want 1"
            ),
        ),
        (
            Abort::NoPolicyIndex { key: s("/p-0") },
            format!("{VALID}: {UNEXP}: policy snapshot `/p-0` does not have a policy index label"),
        ),
        (
            Abort::InvalidClusterCount {
                key: s("/p-0"),
                error: s("cannot find annotation kubernetes-fleet.io/number-of-clusters"),
            },
            format!(
                "{VALID}, {UNEXP}: cannot find annotation kubernetes-fleet.io/number-of-clusters: the policy snapshot \
                 `/p-0` doesn't have valid cluster count annotation"
            ),
        ),
        (
            Abort::NotScheduled { name: s("p-0") },
            format!("{VALID}: policy snapshot `p-0` not fully scheduled yet"),
        ),
        (
            Abort::NoBindings { key: s("/p-0") },
            format!("{VALID}: no scheduled or to-be-deleted bindings found for the latest policy snapshot /p-0"),
        ),
        (
            Abort::BindingCount {
                bindings: 1,
                clusters: 10,
            },
            format!(
                "{VALID}: {UNEXP}: the number of selected bindings 1 is not equal to the observed cluster count 10"
            ),
        ),
        (
            Abort::SnapshotIndex { index: s("abc") },
            format!("{VALID}: {USER}: invalid resource snapshot index `abc` provided, expected an integer >= 0"),
        ),
        (
            Abort::NoSnapshots { index: 1, key: key() },
            format!("{VALID}: {USER}: no resourceSnapshots with index `1` found for placement `/example-placement`"),
        ),
        (
            Abort::NoMasterSnapshot { key: key() },
            format!("{VALID}: {UNEXP}: no master resourceSnapshot found for placement /example-placement"),
        ),
        (Abort::Invalid { error: s("e") }, format!("{VALID}: e")),
    ]);
}

#[test]
fn stages() {
    let (key, stage) = (|| s("/strategy"), || s("canary"));
    let twelve = ('a'..='l').map(String::from).collect();
    assert_messages([
        (
            Abort::StrategyNotFound { key: key() },
            format!("{VALID}: {USER}: referenced updateStrategy not found: `/strategy`"),
        ),
        (
            Abort::BeforeStageTasks {
                key: key(),
                stage: stage(),
                error: InvalidTask::SeveralBefore,
            },
            format!(
                "{VALID}: {USER}: the before stage tasks are invalid, updateStrategy: `/strategy`, stage: canary, \
                 err: beforeStageTasks can have at most one task"
            ),
        ),
        (
            Abort::AfterStageTasks {
                key: key(),
                stage: stage(),
                error: InvalidTask::NoPositiveWait { index: 1 },
            },
            format!(
                "{VALID}: {USER}: the after stage tasks are invalid, updateStrategy: `/strategy`, stage: canary, \
                 err: task 1 of type TimedWait has wait duration <= 0"
            ),
        ),
        (
            Abort::StageSelector {
                key: key(),
                stage: stage(),
                error: s("e"),
            },
            format!(
                "{VALID}: {USER}: the stage label selector is invalid, updateStrategy: `/strategy`, \
                 stage: canary, err: e"
            ),
        ),
        (
            Abort::ClusterInSeveralStages { cluster: s("c") },
            format!("{VALID}: {USER}: cluster `c` appears in more than one stages"),
        ),
        (
            Abort::SortingLabel {
                label: s("order"),
                value: s(""),
                cluster: s("c"),
                error: s("invalid syntax"),
            },
            format!(
                "{VALID}: {USER}: the sorting label `order:` on cluster `c` is not valid: \
                 strconv.Atoi: parsing \"\": invalid syntax"
            ),
        ),
        (
            Abort::ClustersNotInStages { clusters: twelve },
            format!(
                "{VALID}: {USER}: some clusters are not placed in any stage, total 12, showing up to 10: \
                 a, b, c, d, e, f, g, h, i, j"
            ),
        ),
        (
            Abort::DuplicateStage {
                key: key(),
                stage: stage(),
            },
            format!("{VALID}: {USER}: the stage name `canary` appears more than once, updateStrategy: `/strategy`"),
        ),
    ]);
    let tasks = [
        (
            InvalidTask::NotAllowedBefore {
                index: 0,
                task_type: s("TimedWait"),
            },
            "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval",
        ),
        (
            InvalidTask::ApprovalWithWait { index: 0 },
            "task 0 of type Approval cannot have wait duration set",
        ),
        (
            InvalidTask::SameTypeTwice {
                task_type: s("Approval"),
            },
            "afterStageTasks cannot have two tasks of the same type: Approval",
        ),
        (
            InvalidTask::NoWait { index: 1 },
            "task 1 of type TimedWait has wait duration set to nil",
        ),
    ];
    for (task, text) in tasks {
        assert_eq!(task.to_string(), text);
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one table")]
fn validation() {
    let (is, was, stage) = (|| s("new"), || s("old"), || s("canary"));
    assert_messages([
        (
            Abort::ApplyStrategyChanged { is: is(), was: was() },
            format!("{ABORT}: {USER}: the applyStrategy in the updateRun is outdated, latest: new, recorded: old"),
        ),
        (
            Abort::PolicyIndexChanged {
                is: s("1"),
                was: s("0"),
            },
            format!("{ABORT}: the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0"),
        ),
        (
            Abort::SnapshotGone {
                name: s("p-1-snapshot"),
            },
            format!("{ABORT}: the resource snapshot p-1-snapshot used in the updateRun no longer exists"),
        ),
        (
            Abort::InvalidConcurrency {
                value: s("many"),
                stage: stage(),
            },
            format!(
                "{ABORT}: {UNEXP}: the maxConcurrency `many` of the stage `canary` is neither a positive number nor a \
                 percentage"
            ),
        ),
        (
            Abort::ClusterCountChanged { is: 3, was: 2 },
            format!("{ABORT}: the cluster count initialized in the updateRun is outdated, latest: 3, recorded: 2"),
        ),
        (
            Abort::StatusLost { field: "stagesStatus" },
            format!("{ABORT}: {UNEXP}: the updateRun has nil stagesStatus"),
        ),
        (
            Abort::StageCountChanged { is: 1, was: 2 },
            format!("{ABORT}: the number of stages in the updateRun has changed, new: 1, existing: 2"),
        ),
        (
            Abort::StageNameChanged {
                index: 0,
                is: is(),
                was: was(),
            },
            format!("{ABORT}: index `0` stage name in the updateRun has changed, new: new, existing: old"),
        ),
        (
            Abort::FinishedAfterUpdating { index: 1, updating: 0 },
            format!("{ABORT}: {UNEXP}: the finished stage `1` is after the updating stage `0`"),
        ),
        (
            Abort::UnfinishedInFinished {
                cluster: s("c"),
                stage: stage(),
            },
            format!("{ABORT}: {UNEXP}: cluster `c` in the finished stage `canary` has not succeeded"),
        ),
        (
            Abort::FinishedOutOfOrder {
                stage: stage(),
                last: -1,
            },
            format!(
                "{ABORT}: {UNEXP}: the finished stage `canary` is not right after the last finished \
                 stage with index `-1`"
            ),
        ),
        (
            Abort::StageFailed {
                stage: stage(),
                error: s("e"),
            },
            format!("{ABORT}: the stage `canary` has failed, err: e"),
        ),
        (
            Abort::SeveralUpdating {
                stage: stage(),
                updating: 0,
            },
            format!(
                "{ABORT}: {UNEXP}: the stage `canary` is updating, but there is already a stage with index `0` updating"
            ),
        ),
        (
            Abort::UpdatingOutOfOrder {
                stage: stage(),
                last: 0,
            },
            format!(
                "{ABORT}: {UNEXP}: the updating stage `canary` is not right after the last finished \
                 stage with index `0`"
            ),
        ),
        (
            Abort::TooManyUpdating {
                count: 3,
                stage: stage(),
                max: 2,
            },
            format!(
                "{ABORT}: {UNEXP}: the number of updating clusters `3` in the updating stage `canary` exceeds \
                 maxConcurrency `2`"
            ),
        ),
        (
            Abort::DeletingTooEarly { updating: -1, last: 0 },
            format!(
                "{ABORT}: {UNEXP}: the delete stage is active, but there are still stages updating, \
                 updatingStageIndex: -1, lastFinishedStageIndex: 0"
            ),
        ),
        (
            Abort::DeleteStageFailed { error: s("e") },
            format!("{ABORT}: the delete stage has failed, err: e"),
        ),
    ]);
}

#[test]
fn execution() {
    let (cluster, stage) = (|| s("member2"), || s("staging"));
    let preempted = Abort::Preempted {
        cluster: cluster(),
        stage: stage(),
        binding: s("p-member2-e1a567da"),
    };
    let preempted_text = format!(
        "{USER}: the binding of the updating cluster `member2` in the stage `staging` is not up-to-date with the \
         desired status, please check the status of binding `p-member2-e1a567da` and see if there is a concurrent \
         updateRun referencing the same placement and updating the same cluster"
    );
    assert_eq!(preempted.to_cluster_error(), preempted_text);
    assert_messages([
        (preempted, format!("{ABORT}: {preempted_text}")),
        (
            Abort::ClusterFailed {
                cluster: cluster(),
                stage: stage(),
            },
            format!("{ABORT}: the cluster `member2` in the stage staging has failed"),
        ),
        (
            Abort::ForeignApproval {
                task: s("/r-after-s"),
                found_run: s("/x"),
                found_stage: s("y"),
                run: s("/r"),
                stage: s("s"),
            },
            format!(
                "{ABORT}: {UNEXP}: the approval request task `/r-after-s` is targeting update run `/x` and stage `y`, \
                 want target update run `/r and stage `s`"
            ),
        ),
        (
            Abort::NotDeleting { cluster: cluster() },
            format!(
                "{ABORT}: {UNEXP}: the cluster `member2` in the deleting stage is marked as deleting but its \
                 corresponding binding is not deleting"
            ),
        ),
        (
            Abort::Several {
                messages: vec![s("a"), s("b")],
            },
            s("[a, b]"),
        ),
    ]);
}

#[test]
fn settings_and_what_they_end() {
    assert_messages([
        (
            Abort::BadAnnotation {
                annotation: s("rollout.kubernetes-fleet.io/max-failures"),
                kind: s("ClusterStagedUpdateRun"),
                key: s("/run"),
                why: s("it is no number"),
            },
            format!(
                "{VALID}: {USER}: the annotation rollout.kubernetes-fleet.io/max-failures of ClusterStagedUpdateRun \
                 /run is invalid: it is no number"
            ),
        ),
        (
            Abort::TooManyUnassigned {
                count: 3,
                max: 2,
                clusters: s("a, b, c"),
            },
            format!(
                "{VALID}: {USER}: some clusters are not placed in any stage, total 3, at most 2 may be ignored: a, b, c"
            ),
        ),
        (
            Abort::Retry {
                why: s("there is no run x"),
            },
            format!("{VALID}: {USER}: there is no run x"),
        ),
        (
            Abort::PlanDiffers { difference: s("d") },
            format!("{VALID}: {USER}: the plan differs from the one that was approved: d"),
        ),
        (
            Abort::BudgetExhausted {
                clusters: vec![s("a"), s("b")],
                max: 1,
            },
            format!("{ABORT}: the failure budget is exhausted: 2 cluster(s) failed, at most 1 may: a, b"),
        ),
        (
            Abort::GateFailed {
                gate: s("Job ops/check"),
                stage: s("canary"),
                why: s("Failed=True BackoffLimitExceeded"),
            },
            format!("{ABORT}: the gate Job ops/check of stage canary has failed: Failed=True BackoffLimitExceeded"),
        ),
        (Abort::RollbackRequested, format!("{ABORT}: a rollback was requested")),
        (
            Abort::RolledBack {
                error: format!("{ABORT}: a rollback was requested"),
                restored: 2,
                of: 3,
            },
            format!("{ABORT}: a rollback was requested; rolled back 2 of 3 cluster(s)"),
        ),
    ]);
}
