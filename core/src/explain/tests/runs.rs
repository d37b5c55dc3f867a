//! What keeps update runs from going on.

use fleet_api::conditions::update_run::Abort;
use serde_json::{Value, json};

use super::Subject::Run;
use super::world::{World, condition, stops, web, with};
use super::{assert_rows, row};

const WATCH: &str = "kubectl fleet rollout watch csur/release";
const RESUME: &str = "kubectl patch csur/release --type merge --patch '{\"spec\":{\"state\":\"Run\"}}'";

fn initialized() -> Value {
    condition("Initialized", "True", "UpdateRunInitializedSuccessfully", "")
}

fn cluster(name: &str, conditions: &Value) -> Value {
    json!({"clusterName": name, "conditions": conditions})
}

pub(super) fn started() -> Value {
    condition("Started", "True", "ClusterUpdatingStarted", "")
}

pub(super) fn updated() -> Value {
    condition("Succeeded", "True", "ClusterUpdatingSucceeded", "")
}

/// A run with stages `canary` (east, with an approval before and a wait and an approval after) and `prod` (west).
pub(super) fn release(east: &Value, tasks: &[&str]) -> Value {
    let world = with(
        web(&["east", "west"]),
        "/placements/0/spec/strategy",
        json!({"type": "External"}),
    );
    let task = |name: &str, type_: &str| {
        let met = tasks.contains(&name);
        let done = match type_ {
            "TimedWait" => condition("WaitTimeElapsed", "True", "AfterStageTaskWaitTimeElapsed", ""),
            _ => condition(
                "ApprovalRequestApproved",
                "True",
                "StageTaskApprovalRequestApproved",
                "",
            ),
        };
        let conditions = if met { vec![done] } else { vec![] };
        json!({"type": type_, "approvalRequestName": format!("release-{name}-canary"), "conditions": conditions})
    };
    with(
        world,
        "/runs",
        json!([{
            "metadata": {"name": "release", "generation": 1},
            "spec": {"placementName": "web", "stagedRolloutStrategyName": "s", "state": "Run"},
            "status": {
                "resourceSnapshotIndexUsed": "0",
                "conditions": [initialized()],
                "stagedUpdateStrategySnapshot": {"stages": [
                    {"name": "canary", "afterStageTasks": [{"type": "TimedWait", "waitTime": "1h"}, {"type": "Approval"}]},
                    {"name": "prod"},
                ]},
                "stagesStatus": [
                    {"stageName": "canary", "clusters": [cluster("east", east)],
                        "beforeStageTaskStatus": [task("before", "Approval")],
                        "afterStageTaskStatus": [task("wait", "TimedWait"), task("after", "Approval")]},
                    {"stageName": "prod", "clusters": [cluster("west", &json!([]))]},
                ],
                "deletionStageStatus": {"stageName": "kubernetes-fleet.io/deleteStage", "clusters": []},
            },
        }]),
    )
}

fn request(name: &str, stage: &str, conditions: &Value) -> Value {
    json!([{
        "metadata": {"name": format!("release-{name}-canary"), "generation": 1},
        "spec": {"parentStageRollout": "release", "targetStage": stage},
        "status": {"conditions": conditions},
    }])
}

pub(super) fn ended(type_: &str, abort: &Abort) -> Value {
    let failed = condition(type_, "False", "UpdateRunFailed", &abort.message());
    let conditions = if type_ == "Initialized" {
        json!([failed])
    } else {
        json!([initialized(), failed])
    };
    with(release(&json!([]), &[]), "/runs/0/status/conditions", conditions)
}

#[test]
fn runs_without_a_plan() {
    let bare = |world: Value| with(world, "/runs/0/status", Value::Null);
    assert_rows(vec![
        row(
            "a run that does not exist",
            json!({}),
            Run,
            "Found",
            "there is no csur/release",
            "kubectl get csur; kubectl get sur -A",
        ),
        row(
            "a run that the hub agent has not seen",
            bare(release(&json!([]), &[])),
            Run,
            "Initialized",
            "the hub agent has not made the run's plan yet",
            "kubectl -n fleet-system logs deploy/hub-agent",
        ),
        row(
            "a placement that is not External",
            with(
                bare(release(&json!([]), &[])),
                "/placements/0/spec/strategy",
                json!({"type": "RollingUpdate"}),
            ),
            Run,
            "Initialized",
            "the strategy of crp/web is not External, so no run may update it",
            "kubectl edit crp/web",
        ),
        row(
            "the guides' case: a snapshot that does not exist",
            ended(
                "Initialized",
                &Abort::NoSnapshots {
                    index: 1,
                    key: "/web".into(),
                },
            ),
            Run,
            "Initialized",
            "the placement has no resource snapshot of that index (no resourceSnapshots with index `1` found for placement \
             `/web`); the run cannot go on: create another",
            "kubectl get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=web",
        ),
        row(
            "a run that waits to be started",
            with(release(&json!([]), &[]), "/runs/0/spec/state", json!("Initialize")),
            Run,
            "Running",
            "the run has its plan and waits for spec.state: Run",
            RESUME,
        ),
    ]);
}

#[test]
fn runs_that_have_ended_before_their_time() {
    assert_rows(vec![
        row(
            "the guides' case: the placement is gone",
            ended("Succeeded", &Abort::PlacementNotFound),
            Run,
            "Alive",
            "the placement does not exist any more (parent placement not found); the run cannot go on: create another",
            "kubectl get crp; kubectl get rp -A",
        ),
        row(
            "the guides' case: another run took the cluster, and nothing tells any more which",
            taken_over(),
            Run,
            "Alive",
            "another update run, or somebody, gave a cluster other content while this run was updating it (the binding of the \
             updating cluster `east` in the stage `canary` is not up-to-date with the desired status, please check the status \
             of binding `b` and see if there is a concurrent updateRun referencing the same placement and updating the same \
             cluster); the run cannot go on: create another",
            "kubectl get csur",
        ),
        row(
            "the hub agent has said which run took the cluster",
            told("Cluster east in stage canary was taken over by update run hotfix (resourceSnapshotIndex 2)"),
            Run,
            "Alive",
            "Cluster east in stage canary was taken over by update run hotfix (resourceSnapshotIndex 2); the run cannot go on: \
             create another",
            "kubectl fleet why csur/hotfix",
        ),
        row(
            "somebody edited the binding",
            told(
                "Cluster east in stage canary was given other content (resourceSnapshotIndex 2), not by an update run",
            ),
            Run,
            "Alive",
            "Cluster east in stage canary was given other content (resourceSnapshotIndex 2), not by an update run; the run \
             cannot go on: create another",
            "kubectl fleet why crp/web",
        ),
        row(
            "the binding says which run took the cluster",
            signed("hotfix"),
            Run,
            "Alive",
            "csur/hotfix took a cluster over while this run was updating it; the run cannot go on: create another",
            "kubectl fleet why csur/hotfix",
        ),
    ]);
    // Edited by hand, a binding keeps the name of the run before, which never had that content to give.
    let mut edited = signed("before");
    edited["runs"].as_array_mut().unwrap().push(json!({
        "metadata": {"name": "before", "uid": "uid", "generation": 1},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "s", "state": "Run"},
        "status": {"resourceSnapshotIndexUsed": "7"},
    }));
    // What repaired the cluster afterwards took nothing over, nor did the run itself.
    for world in [
        edited,
        with(
            signed("repair"),
            "/bindings/0/status/conditions/0/lastTransitionTime",
            json!("2026-01-02T11:31:00Z"),
        ),
        signed("release"),
    ] {
        let world = World::new("", &world);
        let chain = crate::explain::run(&world.fleet(), "release");
        let text = &chain.cause().unwrap().text;
        assert!(text.starts_with("another update run, or somebody, "), "{text}");
    }
    assert_every_abort_has_a_line();
}

/// A run that has lost `east` to somebody.
fn taken_over() -> Value {
    let preempted = Abort::Preempted {
        cluster: "east".into(),
        stage: "canary".into(),
        binding: "b".into(),
    };
    let failed = condition("Succeeded", "False", "ClusterUpdatingFailed", "");
    let clusters = json!([cluster("east", &json!([started(), failed]))]);
    with(
        ended("Succeeded", &preempted),
        "/runs/0/status/stagesStatus/0/clusters",
        clusters,
    )
}

/// The same, with the hub agent's Event about it.
fn told(message: &str) -> Value {
    let event = |kind: &str| {
        json!({
            "metadata": {"name": "e"}, "reason": "UpdateRunPreempted", "message": message,
            "involvedObject": {"kind": kind, "name": "release"},
        })
    };
    let events = json!([event("ClusterStagedUpdateRun"), event("StagedUpdateRun")]);
    with(taken_over(), "/events", events)
}

/// The same, with a run on the binding and without an Event.
fn signed(run: &str) -> Value {
    let annotations = json!({ "kubernetes-fleet.io/update-run": format!("{run}/uid") });
    with(taken_over(), "/bindings/0/metadata/annotations", annotations)
}

#[test]
fn runs_that_took_back_what_they_did_and_left_a_cluster_alone() {
    let abort = Abort::RolledBack {
        error: "cannot continue the updateRun: a rollback was requested".into(),
        restored: 0,
        of: 1,
    };
    let world = |run: &str| {
        let ended = with(
            ended("Succeeded", &abort),
            "/runs/0/status/stagesStatus/0/clusters",
            json!([cluster("east", &json!([started()]))]),
        );
        let annotations = json!({ "kubernetes-fleet.io/update-run": format!("{run}/uid") });
        with(ended, "/bindings/0/metadata/annotations", annotations)
    };
    let text = |world: &Value| {
        let version = world["bindings"][0]["spec"]["resourceSnapshotName"].clone();
        let index = version
            .as_str()
            .unwrap()
            .trim_start_matches("web-")
            .trim_end_matches("-snapshot");
        let world = with(world.clone(), "/runs/0/status/resourceSnapshotIndexUsed", json!(index));
        let world = World::new("", &world);
        let chain = crate::explain::run(&world.fleet(), "release");
        chain.cause().unwrap().text.clone()
    };
    let left = "; left alone with resource snapshot web-";
    let said = text(&world("release"));
    assert!(said.contains(left) && said.ends_with("-snapshot: east"), "{said}");
    let said = text(&world("repair"));
    assert!(!said.contains(left), "it has something else by now: {said}");
}

fn assert_every_abort_has_a_line() {
    // Every abort that a user can mend has a line of its own.
    let key = || "/web".to_owned();
    for abort in [
        Abort::NotExternal {
            strategy: "RollingUpdate".into(),
        },
        Abort::SnapshotIndex { index: "x".into() },
        Abort::StrategyNotFound { key: key() },
        Abort::StageSelector {
            key: key(),
            stage: "s".into(),
            error: "e".into(),
        },
        Abort::ClusterInSeveralStages { cluster: "east".into() },
        Abort::SortingLabel {
            label: "l".into(),
            value: "x".into(),
            cluster: "east".into(),
            error: "invalid syntax".into(),
        },
        Abort::ClustersNotInStages {
            clusters: vec!["east".into()],
        },
        Abort::DuplicateStage {
            key: key(),
            stage: "s".into(),
        },
        Abort::NotScheduled { name: "web-0".into() },
        Abort::NoBindings { key: key() },
        Abort::PolicyIndexChanged {
            is: "1".into(),
            was: "0".into(),
        },
        Abort::SnapshotGone { name: "s".into() },
    ] {
        let world = World::new("", &ended("Succeeded", &abort));
        let chain = super::run(&world.fleet(), "release");
        let cause = chain.cause().unwrap();
        assert!(!cause.text.starts_with("the run has failed"), "{}", cause.text);
        super::assert_command(&cause.next);
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn runs_that_wait() {
    let done = json!([started(), updated()]);
    let approved = |generation: i64| {
        let mut approved = condition("Approved", "True", "ClusterApprovalRequestApproved", "");
        approved["observedGeneration"] = json!(generation);
        json!([approved])
    };
    let after = |conditions: &Value, stage: &str| {
        with(
            release(&done, &["before", "wait"]),
            "/approvals",
            request("after", stage, conditions),
        )
    };
    let approve = "kubectl fleet approve clusterapprovalrequest --name release-after-canary";
    assert_rows(vec![
        row(
            "an approval before a stage",
            with(
                release(&json!([]), &[]),
                "/approvals",
                request("before", "canary", &json!([])),
            ),
            Run,
            "approval before stage canary",
            "nobody has approved release-before-canary",
            "kubectl fleet approve clusterapprovalrequest --name release-before-canary",
        ),
        row(
            "an approval that is not asked for",
            release(&json!([]), &[]),
            Run,
            "approval before stage canary",
            "the hub agent has not asked for the approval release-before-canary yet",
            "kubectl -n fleet-system logs deploy/hub-agent",
        ),
        row(
            "a wait",
            release(&done, &["before"]),
            Run,
            "wait after stage canary",
            "30m left of 1h",
            WATCH,
        ),
        row(
            "the guides' case: an approval after a stage",
            after(&json!([]), "canary"),
            Run,
            "approval after stage canary",
            "nobody has approved release-after-canary",
            approve,
        ),
        row(
            "an approval with the wrong generation",
            after(&approved(7), "canary"),
            Run,
            "approval after stage canary",
            "the approval of release-after-canary does not count: it is for generation 7, and the request has generation 1",
            approve,
        ),
        row(
            "an approval that the run has not noticed",
            after(&approved(1), "canary"),
            Run,
            "approval after stage canary",
            "release-after-canary is approved; the run is about to go on",
            WATCH,
        ),
        row(
            "an approval request for something else",
            after(&json!([]), "other"),
            Run,
            "approval after stage canary",
            "the request release-after-canary is about run release and stage other: it was not made for this run",
            "kubectl delete clusterapprovalrequest release-after-canary",
        ),
        row(
            "clusters that are not begun",
            release(&done, &["before", "wait", "after"]),
            Run,
            "stage prod",
            "not begun yet: west",
            WATCH,
        ),
    ]);
}

#[test]
fn runs_that_are_stopped_or_stuck() {
    let stopped = |reason: &str| {
        let world = with(
            release(&json!([started()]), &["before"]),
            "/runs/0/spec/state",
            json!("Stop"),
        );
        with(
            world,
            "/runs/0/status/conditions/-",
            condition("Progressing", "False", reason, ""),
        )
    };
    let stuck = stops(
        release(&json!([started()]), &["before"]),
        "Available",
        "False",
        "NotAllWorkAreAvailable",
        "",
    );
    let stuck = with(
        stuck,
        "/bindings/0/status/failedPlacements",
        json!([{
            "group": "apps", "version": "v1", "kind": "Deployment", "name": "nginx", "namespace": "shop",
            "condition": condition("Available", "False", "ManifestNotAvailableYet", ""),
        }]),
    );
    let succeeded = json!([initialized(), condition("Succeeded", "True", "UpdateRunSucceeded", "")]);
    let all = with(
        release(&json!([started(), updated()]), &["before", "wait", "after"]),
        "/runs/0/status/stagesStatus/1/clusters/0/conditions",
        json!([started(), updated()]),
    );
    assert_rows(vec![
        row(
            "a stopped run",
            stopped("UpdateRunStopped"),
            Run,
            "Running",
            "somebody has stopped the run",
            RESUME,
        ),
        row(
            "a run that is stopping",
            stopped("UpdateRunStopping"),
            Run,
            "Running",
            "the run is stopping, once clusters that are being updated are done",
            WATCH,
        ),
        row(
            "the guides' case: a run that is stuck at what does not become available",
            stuck,
            Run,
            "stage canary",
            "0 of 1 cluster updated, under way: east, for 30m. east: Deployment shop/nginx: applied, but not available yet",
            "kubectl --context east describe deployment.apps/nginx -n shop",
        ),
        row(
            "a run that says itself that it is stuck",
            with(
                release(&json!([started()]), &["before"]),
                "/runs/0/status/conditions/-",
                condition(
                    "Progressing",
                    "False",
                    "UpdateRunStuck",
                    "The updateRun is stuck waiting for east cluster(s) in stage canary to finish updating",
                ),
            ),
            Run,
            "stage canary",
            "0 of 1 cluster updated, stuck: east, for 30m",
            WATCH,
        ),
        row(
            "a run that goes on",
            release(&json!([started()]), &["before"]),
            Run,
            "stage canary",
            "0 of 1 cluster updated, under way: east, for 30m",
            WATCH,
        ),
        row(
            "a run that has succeeded",
            with(all, "/runs/0/status/conditions", succeeded),
            Run,
            "",
            "",
            "",
        ),
    ]);
    let world = World::new("", &stopped("UpdateRunStopped"));
    let chain = super::run(&world.fleet(), "release");
    assert_eq!(chain.cause().unwrap().holds_back, "2 clusters");
}

#[test]
fn runs_that_wait_for_what_is_not_theirs() {
    let says = |world: Value, status: &str, reason: &str, message: &str| {
        let said = condition("Progressing", status, reason, message);
        with(world, "/runs/0/status/conditions/-", said)
    };
    let gated = |world: Value, when: &str| {
        let gate = json!({
            "stage": "canary", "when": when, "apiVersion": "batch/v1", "kind": "Job", "name": "smoke", "namespace": "ci",
            "condition": "Complete",
        });
        with(world, "/runs/0/status/options", json!({ "gates": [gate] }))
    };
    let window =
        "The updateRun is waiting for the window of east cluster(s) in stage canary, next at 2026-01-02T21:00:00Z";
    let end = condition(
        "Succeeded",
        "False",
        "StageUpdatingFailed",
        "cannot continue the updateRun: the failure budget is exhausted",
    );
    let back = says(
        release(&json!([started()]), &["before"]),
        "True",
        "UpdateRunRollingBack",
        "The update run is rolling back, 1 of 3 cluster(s) restored",
    );
    let job = "kubectl get job smoke -n ci -o yaml";
    assert_rows(vec![
        row(
            "a gate before a stage",
            gated(release(&json!([]), &["before"]), "before"),
            Run,
            "gate before stage canary",
            "waits until Complete is True of Job ci/smoke",
            job,
        ),
        row(
            "a gate after a stage",
            gated(
                release(&json!([started(), updated()]), &["before", "wait", "after"]),
                "after",
            ),
            Run,
            "gate after stage canary",
            "waits until Complete is True of Job ci/smoke",
            job,
        ),
        row(
            "a window that is closed",
            says(release(&json!([]), &["before"]), "False", "UpdateRunWaiting", window),
            Run,
            "stage canary",
            window,
            "kubectl get memberclusters -o yaml | grep rollout.kubernetes-fleet.io/window",
        ),
        row(
            "a run that rolls back",
            with(back, "/runs/0/status/stagesStatus/0/conditions", json!([end])),
            Run,
            "Running",
            "The update run is rolling back, 1 of 3 cluster(s) restored, because the failure budget is exhausted",
            WATCH,
        ),
    ]);
}

#[test]
fn runs_with_a_failure_budget() {
    let options = |max: &str, east: &Value| {
        let world = with(
            release(east, &["before", "wait", "after"]),
            "/runs/0/status/options",
            json!({ "maxFailures": max }),
        );
        let ended = json!([condition("Succeeded", "True", "StageUpdatingSucceeded", "")]);
        with(world, "/runs/0/status/stagesStatus/0/conditions", ended)
    };
    let done = json!([started(), updated()]);
    let failed = json!([
        started(),
        condition("Succeeded", "False", "ClusterUpdatingFailed", "the cluster did not")
    ]);
    let prod = |what, world, cause| row(what, world, Run, "stage prod", cause, WATCH);
    assert_rows(vec![
        prod(
            "none has failed",
            options("50%", &done),
            "not begun yet: west; 1 cluster may fail, none has",
        ),
        prod(
            "one of an earlier stage has",
            options("50%", &failed),
            "not begun yet: west; 1 cluster may fail, 1 has: east",
        ),
        row(
            "one of a stage that has not ended has",
            with(
                release(&failed, &["before"]),
                "/runs/0/status/options",
                json!({ "maxFailures": "50%" }),
            ),
            Run,
            "wait after stage canary",
            "30m left of 1h",
            WATCH,
        ),
        prod(
            "none may",
            options("0", &done),
            "not begun yet: west; no cluster may fail, none has",
        ),
    ]);
}
