//! What keeps a member from applying what it should, and what is applied from being available.

use fleet_api::conditions::Words as _;
use fleet_api::conditions::manifest::{Applied, ApplyFailure, InvalidOwners};
use serde_json::{Value, json};

use super::Subject::{On, Placement};
use super::world::{BEFORE, NOW, World, condition, fails, stops, web, with};
use super::{Row, assert_rows, row};

fn failing(what: &'static str, failure: ApplyFailure, cause: &'static str, next: &'static str) -> Row {
    let said = Applied::Failed { failure };
    let world = fails(web(&["east"]), said.reason(), &said.message());
    row(what, world, On("east"), "Applied", cause, next)
}

fn create(api: &str) -> ApplyFailure {
    ApplyFailure::Create { api: api.into() }
}

const LOOK: &str = "kubectl --context east get deployment.apps/api -n shop -o yaml --show-managed-fields";
const DIFF: &str = "kubectl fleet diff crp/web east";

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn objects_that_a_member_does_not_take() {
    assert_rows(vec![
        failing(
            "a missing CRD",
            ApplyFailure::UnknownKind {
                error: "no matches for kind".into(),
            },
            "Deployment shop/api: the member does not know the kind: its CRD is missing there. Place the CRD too, or install \
             it",
            "kubectl --context east api-resources --api-group=apps",
        ),
        failing(
            "a quota",
            create("deployments.apps \"api\" is forbidden: exceeded quota: small"),
            "Deployment shop/api: a quota on the member refuses the object: deployments.apps \"api\" is forbidden: exceeded \
             quota: small",
            "kubectl --context east describe quota -A",
        ),
        failing(
            "a terminating namespace",
            create("unable to create new content in namespace shop because it is being terminated"),
            "Deployment shop/api: the object's namespace is being deleted on the member",
            "kubectl --context east get namespaces",
        ),
        failing(
            "a missing namespace",
            create("namespaces \"shop\" not found"),
            "Deployment shop/api: the object's namespace does not exist on the member: place the namespace too",
            "kubectl --context east get namespaces",
        ),
        failing(
            "rights",
            create("deployments.apps is forbidden: User \"agent\" cannot create resource"),
            "Deployment shop/api: the member agent may not write the object: deployments.apps is forbidden: User \"agent\" \
             cannot create resource",
            "kubectl fleet check --member-context east",
        ),
        failing(
            "a webhook",
            create("admission webhook \"policy.example.com\" denied the request"),
            "Deployment shop/api: a webhook on the member refuses the object: admission webhook \"policy.example.com\" denied \
             the request",
            "kubectl --context east get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
        failing(
            "an immutable field",
            ApplyFailure::Patch {
                api: "Deployment.apps \"api\" is invalid: spec.selector: field is immutable".into(),
            },
            "Deployment shop/api: a field cannot be changed once it is set: delete the object on the member, and it is made \
             anew",
            "kubectl --context east delete deployment.apps/api -n shop",
        ),
        failing(
            "another field manager",
            ApplyFailure::ServerSideApply {
                api: "Apply failed with 1 conflict: conflict with \"hpa\": .spec.replicas".into(),
            },
            "Deployment shop/api: another field manager owns a field, and force is off: Apply failed with 1 conflict: \
             conflict with \"hpa\": .spec.replicas",
            LOOK,
        ),
        failing(
            "somebody who keeps changing it back",
            ApplyFailure::Contested { manager: "hpa".into() },
            "Deployment shop/api: two write the object: hpa keeps changing the object back on the member cluster; let only one \
             of the two manage it",
            LOOK,
        ),
        failing(
            "a foreign owner",
            ApplyFailure::OwnedByOthers {
                owners: "[ReplicaSet x]".into(),
            },
            "Deployment shop/api: the object has another owner on the member, and allowCoOwnership is off: the object is \
             already owned by some other sources(s) and co-ownership is disallowed (existingOwnerRefs: [ReplicaSet x])",
            LOOK,
        ),
        failing(
            "another placement",
            ApplyFailure::OwnedByAnotherWork,
            "Deployment shop/api: another placement has put the object there: only one can own it",
            "kubectl fleet why deployment.apps/api -n shop",
        ),
        failing(
            "owners that do not allow it",
            ApplyFailure::Owners(InvalidOwners::NotOwned),
            "Deployment shop/api: the object's owners do not allow it: failed to validate owner references: object is not \
             owned by the expected AppliedWork object",
            LOOK,
        ),
        failing(
            "a take-over that is refused for differences",
            ApplyFailure::TakeOverDiffs,
            "Deployment shop/api: the object was on the member before and differs, and whenToTakeOver is IfNoDiff",
            DIFF,
        ),
        failing(
            "a take-over that is not wanted",
            ApplyFailure::NotTakenOver,
            "Deployment shop/api: the object was on the member before, and whenToTakeOver is Never: it is left alone",
            "kubectl edit crp/web",
        ),
        failing(
            "an agent that is older than the hub",
            ApplyFailure::UnknownStrategy {
                strategy: "Magic".into(),
            },
            "Deployment shop/api: the member agent is older than the hub agent and does not know what it asks for: unexpected \
             apply strategy Magic is found",
            "kubectl fleet check --member-context east",
        ),
        failing(
            "an object without a name",
            ApplyFailure::GenerateName,
            "Deployment shop/api: the object has no name but a generateName: give it a name",
            "kubectl edit crp/web",
        ),
        failing(
            "an object that the member cannot show",
            ApplyFailure::Lookup { api: "timeout".into() },
            "Deployment shop/api: the member's API server does not show the object: failed to find the corresponding object \
             for the manifest object in the member cluster: error returned by the API server: timeout",
            "kubectl --context east describe deployment.apps/api -n shop",
        ),
    ]);
}

fn drifted(world: Value) -> Value {
    let drift = json!([{
        "group": "apps", "version": "v1", "kind": "Deployment", "name": "api", "namespace": "shop",
        "observationTime": NOW, "firstDriftedObservedTime": BEFORE, "targetClusterObservedGeneration": 2,
        "observedDrifts": [{"path": "/spec/replicas", "valueInMember": "5", "valueInHub": "2"}],
    }]);
    with(world, "/bindings/0/status/driftedPlacements", drift)
}

fn seen_by(manager: &str) -> Value {
    json!([{"cluster": "east", "kind": "Deployment", "metadata": {
        "name": "api", "namespace": "shop",
        "managedFields": [{"manager": manager, "operation": "Update", "time": BEFORE, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}}],
    }}])
}

#[test]
fn drifts_name_the_field_and_who_did_it() {
    let said = Applied::Failed {
        failure: ApplyFailure::Drifts,
    };
    let found = drifted(fails(web(&["east"]), said.reason(), &said.message()));
    assert_rows(vec![
        row(
            "drift",
            found.clone(),
            Placement,
            "Applied",
            "east: Deployment shop/api: somebody changed the object on the member, and whenToApply is IfNotDrifted: \
             /spec/replicas is 5 on the member and 2 on the hub",
            DIFF,
        ),
        row(
            "drift, with the live object at hand",
            with(found, "/live", seen_by("kubectl-scale")),
            On("east"),
            "Applied",
            "Deployment shop/api: somebody changed the object on the member, and whenToApply is IfNotDrifted: /spec/replicas \
             is 5 on the member and 2 on the hub, by kubectl-scale",
            DIFF,
        ),
    ]);
    let world = World::new("", &with(drifted(web(&["east"])), "/live", seen_by("hpa")));
    let chain = super::placement_on(&world.fleet(), "web", "east");
    assert_eq!(chain.first_unmet(), None);
    assert_eq!(
        chain.notes[0].text,
        "Deployment shop/api has drifted, for 30m: /spec/replicas is 5 on the member and 2 on the hub, by hpa"
    );
}

#[test]
fn members_that_hold_things_up() {
    let applying = stops(
        web(&["east"]),
        "Applied",
        "False",
        "ApplyInProgress",
        "Resources are being applied",
    );
    let beat = "/members/0/status/agentStatus/0/lastReceivedHeartbeat";
    let held = json!([{
        "metadata": {"name": "east", "namespace": "fleet-member-east",
            "annotations": {"kubernetes-fleet.io/went-back-at": BEFORE}},
        "spec": {"state": "Join"},
    }]);
    let unavailable = with(
        stops(
            web(&["east", "west"]),
            "Available",
            "False",
            "NotAllWorkAreAvailable",
            "Work object web-work is not yet available",
        ),
        "/bindings/0/status/failedPlacements",
        json!([{
            "group": "apps", "version": "v1", "kind": "Deployment", "name": "api", "namespace": "shop",
            "condition": condition("Available", "False", "ManifestNotAvailableYet", "Manifest is not yet available"),
        }]),
    );
    assert_rows(vec![
        row(
            "a member that is applying",
            applying.clone(),
            On("east"),
            "Applied",
            "the member is applying the resources",
            "kubectl fleet why membercluster/east",
        ),
        row(
            "a silent member",
            with(applying.clone(), beat, json!("2026-01-02T11:40:00Z")),
            Placement,
            "Applied",
            "east: no heartbeat for 20m: the agent or the cluster is down, the network is cut, or its token has expired",
            "kubectl fleet check --member-context east",
        ),
        row(
            "a hub that went back in time",
            with(applying, "/internals", held),
            On("east"),
            "Applied",
            "east: the hub went back in time, as after a restore from a backup: nothing is applied or removed until somebody \
             has looked",
            "kubectl annotate imc east -n fleet-member-east --overwrite kubernetes-fleet.io/recovered-at=$(date -u \
             +%Y-%m-%dT%H:%M:%SZ)",
        ),
        row(
            "the guides' case: something that does not become available",
            unavailable,
            Placement,
            "Available",
            "east: Deployment shop/api: applied, but not available yet",
            "kubectl --context east describe deployment.apps/api -n shop",
        ),
        row(
            "differences that are not reported",
            with(
                stops(
                    web(&["east"]),
                    "DiffReported",
                    "False",
                    "NotAllWorkHaveDiffReported",
                    "Work object web-work has failed to report diff",
                ),
                "/placements/0/spec/strategy",
                json!({"applyStrategy": {"type": "ReportDiff"}}),
            ),
            On("east"),
            "DiffReported",
            "something is not compared: Work object web-work has failed to report diff",
            DIFF,
        ),
    ]);
}

#[test]
fn a_copy_of_the_status_that_cannot_be_written_is_noted() {
    let failed = condition("StatusSynced", "False", "StatusSyncFailed", "e");
    let world = World::new("", &with(web(&["east"]), "/says", json!([failed])));
    let chain = super::placement(&world.fleet(), "web");
    assert_eq!(chain.first_unmet(), None);
    assert_eq!(chain.notes[0].text, "the copy of the status cannot be written: e");
}

#[test]
fn what_is_held_back_is_said() {
    let world = stops(
        web(&["east", "north", "west"]),
        "Overridden",
        "False",
        "OverriddenFailed",
        "x",
    );
    let world = World::new("", &world);
    let chain = super::placement(&world.fleet(), "web");
    assert_eq!(chain.cause().unwrap().holds_back, "1 of 3 clusters (east)");
}
