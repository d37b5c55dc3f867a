//! Where objects come from.

use fleet_api::placement::ResourceIdentifier;
use serde_json::{Value, json};

use super::world::{BEFORE, World, condition, web, with};
use super::{Lineage, Verdict, object, orphans_on};

fn id() -> ResourceIdentifier {
    ResourceIdentifier {
        group: "apps".into(),
        version: "v1".into(),
        kind: "Deployment".into(),
        name: "api".into(),
        namespace: "shop".into(),
        envelope: None,
    }
}

fn work(binding: &str, conditions: &Value) -> Value {
    json!([{
        "metadata": {
            "name": "web-work", "namespace": "fleet-member-east",
            "labels": {
                "kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/parent-resource-binding": binding,
                "kubernetes-fleet.io/envelope-name": "env",
            },
            "annotations": {"kubernetes-fleet.io/parent-resource-snapshot-name": "web-0-snapshot"},
        },
        "spec": {},
        "status": {"conditions": [], "manifestConditions": [{
            "identifier": {"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments",
                "namespace": "shop", "name": "api"},
            "conditions": conditions,
        }]},
    }])
}

fn placed(binding: &str, conditions: &Value) -> Value {
    let mut world = with(web(&["east"]), "/works", work(binding, conditions));
    world = with(
        world,
        "/snapshots",
        json!([{"name": "web-0-snapshot", "creationTimestamp": BEFORE}]),
    );
    world = with(
        world,
        "/bindings/0/spec/clusterResourceOverrideSnapshots",
        json!(["wide-0"]),
    );
    world = with(
        world,
        "/bindings/0/spec/resourceOverrideSnapshots",
        json!([{"name": "narrow-1", "namespace": "shop"}]),
    );
    with(
        world,
        "/bindings/0/metadata/annotations",
        json!({"kubernetes-fleet.io/update-run": "release/uid"}),
    )
}

fn lineage(json: &Value) -> Lineage {
    let world = World::new("", json);
    let mut all = object(&world.fleet(), &id());
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn an_object_is_followed_to_its_placement_snapshot_overrides_and_run() {
    let well = json!([
        condition("Applied", "True", "Applied", ""),
        condition("Available", "True", "Available", "")
    ]);
    let found = lineage(&placed("web-east-1", &well));
    assert_eq!(found.placement, "crp/web");
    assert_eq!(found.cluster, "east");
    assert_eq!(found.snapshot, "web-0-snapshot");
    assert_eq!(found.taken_at.map(|time| time.0), BEFORE.parse().ok());
    assert_eq!(found.overrides, ["wide-0", "shop/narrow-1"]);
    assert_eq!(found.run, "release");
    assert_eq!(found.envelope, "env");
    assert_eq!(found.chain.verdict(), Verdict::Done);
}

#[test]
fn an_object_in_trouble_says_why() {
    let failed = json!([condition(
        "Applied",
        "False",
        "NotTakenOver",
        "no ownership of the object in the member cluster"
    )]);
    let found = lineage(&placed("web-east-1", &failed));
    assert_eq!(
        found.chain.cause().unwrap().text,
        "Deployment shop/api: the object was on the member before, and whenToTakeOver is Never: it is left alone"
    );
}

#[test]
fn an_orphaned_work_is_told() {
    let well = json!([condition("Applied", "True", "Applied", "")]);
    let found = lineage(&placed("gone", &well));
    assert_eq!(found.binding, "");
    assert_eq!(found.chain.first_unmet().unwrap().name, "Placed");
    assert_eq!(
        found.chain.cause().unwrap().text,
        "the Work is an orphan: its binding to crp/web is gone, and nobody keeps or removes the object"
    );
    // The last of its placement: no binding is left to tell by.
    let mut world = with(placed("gone", &well), "/bindings", json!([]));
    world = with(world, "/gone", json!([["", "web"]]));
    assert_eq!(
        lineage(&world).chain.cause().unwrap().text,
        "the Work is an orphan: crp/web is gone, and nobody keeps or removes the object"
    );
    let world = World::new("", &world);
    assert_eq!(orphans_on(&world.fleet(), "east").len(), 1);
}

#[test]
fn a_manifest_is_found_before_the_member_has_reported() {
    let mut world = placed("web-east-1", &json!([]));
    world = with(world, "/works/0/status", json!({"conditions": []}));
    let manifest =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "shop"}});
    world = with(world, "/works/0/spec", json!({"workload": {"manifests": [manifest]}}));
    let found = lineage(&world);
    assert_eq!(found.chain.cause().unwrap().text, "east has not reported about it yet");
}

#[test]
fn what_no_work_carries_comes_from_nowhere() {
    let world = World::new("", &web(&["east"]));
    assert_eq!(object(&world.fleet(), &id()), []);
}
