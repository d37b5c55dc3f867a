//! What keeps a picked cluster from getting Works: the rollout, overrides, the hub's API server.

use fleet_api::conditions::Words as _;
use fleet_api::conditions::binding::RolloutStarted;
use serde_json::{Value, json};

use super::Subject::{On, Placement};
use super::world::{BEFORE, condition, stops, web, with};
use super::{Row, assert_rows, row};

const CREATE: &str = "kubectl create -f - <<< \
    '{\"apiVersion\":\"placement.kubernetes-fleet.io/v1beta1\",\"kind\":\"ClusterStagedUpdateRun\",\"metadata\":{\"generateName\":\
     \"web-\"},\"spec\":{\"placementName\":\"web\",\"stagedRolloutStrategyName\":\"<strategy>\",\"state\":\"Run\"}}'";

fn held(why: &str) -> Value {
    let message = RolloutStarted::NotStartedYet.with_detail(why).message();
    stops(
        web(&["east", "west"]),
        "RolloutStarted",
        "False",
        "RolloutNotStartedYet",
        &message,
    )
}

fn external(runs: &Value) -> Value {
    let world = with(
        web(&["east"]),
        "/placements/0/spec/strategy",
        json!({"type": "External"}),
    );
    let world = with(world, "/bindings/0/spec/resourceSnapshotName", json!(""));
    let world = with(world, "/bindings/0/spec/state", json!("Scheduled"));
    let world = with(world, "/bindings/0/status/conditions", json!([]));
    with(world, "/runs", runs.clone())
}

fn a_run(conditions: &Value) -> Value {
    json!([{
        "metadata": {"name": "release", "generation": 1},
        "spec": {"placementName": "web", "stagedRolloutStrategyName": "s", "state": "Run"},
        "status": {"conditions": conditions},
    }])
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn rollouts_that_wait() {
    let done = condition("Succeeded", "True", "UpdateRunSucceeded", "");
    assert_rows(vec![
        row(
            "a full rollout budget",
            held("waiting for 1 of 3 clusters to become available: west (Work object web-work is not yet available)"),
            Placement,
            "RolloutStarted",
            "east: the rollout budget is used up: waiting for 1 of 3 clusters to become available: west (Work object \
             web-work is not yet available)",
            "kubectl fleet why crp/web west",
        ),
        row(
            "a rollout budget that blocks everything",
            held("maxUnavailable is 0, so no available cluster may be updated or left"),
            On("east"),
            "RolloutStarted",
            "the rollout budget blocks everything: maxUnavailable is 0, so no available cluster may be updated or left",
            "kubectl edit crp/web",
        ),
        row(
            "a surge that waits for a cluster to be left",
            held("maxSurge is 1, so a cluster has to be left first"),
            On("east"),
            "RolloutStarted",
            "maxSurge is 1, so a cluster has to be left first",
            "kubectl edit crp/web",
        ),
        row(
            "an earlier binding that is not gone",
            held("waiting for the earlier binding /web-east-0 on cluster east to be deleted"),
            On("east"),
            "RolloutStarted",
            "waiting for the earlier binding /web-east-0 on cluster east to be deleted",
            "kubectl fleet why membercluster/east",
        ),
        row(
            "a window that is closed",
            held("waiting for the window of cluster east, next at 2026-01-02T21:00:00Z"),
            Placement,
            "RolloutStarted",
            "east: waiting for the window of cluster east, next at 2026-01-02T21:00:00Z",
            "kubectl get membercluster east -o yaml",
        ),
        row(
            "a window that cannot be read",
            held(
                "the annotation rollout.kubernetes-fleet.io/window of MemberCluster east cannot be read: it names no zone",
            ),
            On("east"),
            "RolloutStarted",
            "the annotation rollout.kubernetes-fleet.io/window of MemberCluster east cannot be read: it names no zone",
            "kubectl edit membercluster east",
        ),
        row(
            "a rollout that has not decided",
            with(web(&["east"]), "/bindings/0/status/conditions", json!([])),
            On("east"),
            "RolloutStarted",
            "the rollout has not decided about the cluster yet",
            "kubectl -n fleet-system logs deploy/hub-agent",
        ),
        row(
            "an older snapshot",
            with(
                web(&["east"]),
                "/snapshots",
                json!([{"name": "web-1-snapshot", "labels": {
                    "kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/is-latest-snapshot": "true",
                }}]),
            ),
            On("east"),
            "RolloutStarted",
            "east still has web-0-snapshot, and the rollout has not come to it with web-1-snapshot",
            "kubectl fleet why crp/web",
        ),
        row(
            "External without a run",
            external(&json!([])),
            Placement,
            "RolloutStarted",
            "east: the strategy is External: nothing is rolled out until somebody creates an update run",
            CREATE,
        ),
        row(
            "External with a run that has not come to the cluster",
            external(&a_run(&json!([condition(
                "Initialized",
                "True",
                "UpdateRunInitializedSuccessfully",
                ""
            )]))),
            On("east"),
            "RolloutStarted",
            "update run csur/release has not come to it yet",
            "kubectl fleet why csur/release",
        ),
        row(
            "External after the last run",
            external(&a_run(&json!([done]))),
            On("east"),
            "RolloutStarted",
            "the strategy is External, and no update run is under way; the last one was release: create another",
            CREATE,
        ),
    ]);
}

fn unsynchronized(what: &'static str, error: &str, cause: &'static str, next: &'static str) -> Row {
    let message = format!("Failed to synchronize the work to the latest: {error}");
    let world = stops(web(&["east"]), "WorkSynchronized", "False", "SyncWorkFailed", &message);
    row(what, world, On("east"), "WorkSynchronized", cause, next)
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn works_that_cannot_be_written() {
    assert_rows(vec![
        unsynchronized(
            "the guides' case: a member namespace that is terminating",
            "works.placement.kubernetes-fleet.io \"web-work\" is forbidden: unable to create new content in namespace \
             fleet-member-east because it is being terminated",
            "the namespace fleet-member-east is being deleted on the hub: the member is leaving, or somebody deleted it",
            "kubectl fleet why membercluster/east",
        ),
        unsynchronized(
            "a quota on the hub",
            "works \"web-work\" is forbidden: exceeded quota: small, requested: count/works=1",
            "a quota on the hub refuses the Work: works \"web-work\" is forbidden: exceeded quota: small, requested: \
             count/works=1",
            "kubectl describe quota -n fleet-member-east",
        ),
        unsynchronized(
            "the guides' other case: an envelope that is not well formed",
            "failed to parse the wrapped manifest data to a Kubernetes runtime object \
             (manifestKey=a.yaml,envelopeObjRef=shop/env): no kind",
            "an envelope holds something that is not an object: failed to parse the wrapped manifest data to a Kubernetes \
             runtime object (manifestKey=a.yaml,envelopeObjRef=shop/env): no kind",
            "kubectl get resourceenvelopes,clusterresourceenvelopes -A",
        ),
        unsynchronized(
            "an envelope with an object of another scope",
            "a cluster scope object role (r) has been wrapped in a resource envelope shop/env",
            "an envelope holds an object of the wrong scope or namespace: a cluster scope object role (r) has been wrapped in \
             a resource envelope shop/env",
            "kubectl get resourceenvelopes,clusterresourceenvelopes -A",
        ),
        unsynchronized(
            "a name that is taken",
            "works.placement.kubernetes-fleet.io \"web-work\" already exists; it belongs to other",
            "another placement has a Work of this name: works.placement.kubernetes-fleet.io \"web-work\" already exists; it \
             belongs to other",
            "kubectl get works -n fleet-member-east --show-labels",
        ),
        unsynchronized(
            "a Work that is still being deleted",
            "works.placement.kubernetes-fleet.io \"web-work\" already exists",
            "the Work of before is still being deleted: the member has to clean up first",
            "kubectl fleet why membercluster/east",
        ),
        unsynchronized(
            "too much for one Work",
            "the manifests for Work web-work have 9 bytes, but at most 5 fit into one object: make x smaller, or take it out \
             of the selection",
            "what is placed is too large for one Work: the manifests for Work web-work have 9 bytes, but at most 5 fit into \
             one object: make x smaller, or take it out of the selection",
            "kubectl edit crp/web",
        ),
        unsynchronized(
            "something unheard of",
            "the disk is on fire",
            "the Works cannot be written: the disk is on fire",
            "kubectl fleet why crp/web east",
        ),
    ]);
}

#[test]
fn overrides_that_do_not_fit() {
    let overridden = |error: &str| {
        let message = format!("Failed to apply the override rules on the resources: {error}");
        stops(web(&["east"]), "Overridden", "False", "OverriddenFailed", &message)
    };
    let list = "kubectl get clusterresourceoverrides,resourceoverrides -A";
    assert_rows(vec![
        row(
            "an override that does not fit",
            overridden("clusterResourceOverrideSnapshot \"o-0\" failed to apply on Deployment api: no such path"),
            Placement,
            "Overridden",
            "east: an override does not fit an object: clusterResourceOverrideSnapshot \"o-0\" failed to apply on Deployment \
             api: no such path",
            list,
        ),
        row(
            "an override that does not fit what is in an envelope",
            overridden("failed to apply overrides to Deployment api from envelope shop/env: no such path"),
            On("east"),
            "Overridden",
            "an override does not fit an object in an envelope: failed to apply overrides to Deployment api from envelope \
             shop/env: no such path",
            list,
        ),
        row(
            "an override snapshot that is gone",
            overridden("clusterResourceOverrideSnapshot o-0 is not found"),
            On("east"),
            "Overridden",
            "an override that the cluster should get no longer exists: clusterResourceOverrideSnapshot o-0 is not found",
            "kubectl get clusterresourceoverridesnapshots,resourceoverridesnapshots -A",
        ),
        row(
            "a resource snapshot that is gone",
            overridden("the master resource snapshot is not found"),
            On("east"),
            "Overridden",
            "the resource snapshot that the cluster should get no longer exists",
            "kubectl get clusterresourcesnapshots -l kubernetes-fleet.io/parent-CRP=web",
        ),
    ]);
}

#[test]
fn placements_that_leave() {
    let leaving = with(web(&["east"]), "/bindings/0/metadata/deletionTimestamp", json!(BEFORE));
    assert_rows(vec![
        row(
            "a deleted placement",
            with(
                web(&["east", "west"]),
                "/placements/0/metadata/deletionTimestamp",
                json!(BEFORE),
            ),
            Placement,
            "Deleted",
            "the placement is deleted, and still on 2 clusters: east, west",
            "kubectl fleet why crp/web east",
        ),
        row(
            "a binding that is being deleted",
            leaving.clone(),
            On("east"),
            "Removed",
            "the placement is being removed from east",
            "kubectl get works -n fleet-member-east -l kubernetes-fleet.io/parent-CRP=web",
        ),
        row(
            "a binding that is being deleted on a silent member",
            with(
                leaving,
                "/members/0/status/agentStatus/0/lastReceivedHeartbeat",
                json!("2026-01-02T11:00:00Z"),
            ),
            On("east"),
            "Removed",
            "the placement is being removed from east, but: no heartbeat for 1h: the agent or the cluster is down, the \
             network is cut, or its token has expired",
            "kubectl fleet check --member-context east",
        ),
        row(
            "a cluster that is no longer picked",
            with(web(&["east"]), "/bindings/0/spec/state", json!("Unscheduled")),
            On("east"),
            "Removed",
            "east is no longer picked; what is there is removed when the rollout lets it go",
            "kubectl fleet why crp/web",
        ),
        row(
            "a closed cluster that is no longer picked",
            with(
                with(web(&["east"]), "/bindings/0/spec/state", json!("Unscheduled")),
                "/members/0/metadata/annotations",
                // It is a Friday.
                json!({ "rollout.kubernetes-fleet.io/window": "Mon 00:00-24:00 UTC" }),
            ),
            On("east"),
            "Removed",
            "east is no longer picked; what is there is removed when its window opens",
            "kubectl get membercluster east -o yaml",
        ),
    ]);
}
