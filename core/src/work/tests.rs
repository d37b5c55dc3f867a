//! From snapshots to Works and back.

mod bounds;

use std::collections::BTreeMap;

use fleet_api::names::PlacementKey;
use fleet_api::placement::{
    BindingSpec, BindingStatus, ClusterResourceSnapshot, NamespacedName, ReportBackStrategy, Work,
};
use fleet_api::raw::RawJson;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::overrides::{LabelledCluster, Overrides, Rbac};
use crate::selection::ObjectId;

fn crp() -> PlacementKey {
    PlacementKey::new(None, "crp").unwrap()
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "app" } })
}

fn envelope(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
        "metadata": { "name": name, "namespace": "app" }, "data": data,
    })
}

fn snapshot(
    name: &str,
    index: &str,
    subindex: Option<usize>,
    total: usize,
    resources: &[Value],
) -> ClusterResourceSnapshot {
    let annotations = match subindex {
        Some(subindex) => json!({ "kubernetes-fleet.io/subindex-of-resource-snapshot": subindex.to_string() }),
        None => json!({ "kubernetes-fleet.io/number-of-resource-snapshots": total.to_string() }),
    };
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "kubernetes-fleet.io/resource-index": index }, "annotations": annotations },
        "spec": { "selectedResources": resources },
    }))
    .unwrap()
}

fn rendering_of(placement: &PlacementKey, snapshots: &[ClusterResourceSnapshot]) -> Result<Rendering, WorkFailure> {
    rendering_with(placement, snapshots, Rbac::Allowed)
}

fn rendering_with(
    placement: &PlacementKey,
    snapshots: &[ClusterResourceSnapshot],
    rbac: Rbac,
) -> Result<Rendering, WorkFailure> {
    fn stored(snapshot: &ClusterResourceSnapshot) -> Stored<'_> {
        Stored {
            metadata: &snapshot.metadata,
            resources: &snapshot.spec.selected_resources,
        }
    }
    let group = Group::collect(placement, stored(&snapshots[0]), snapshots.iter().map(stored))?;
    let labels = BTreeMap::new();
    let overrides = Overrides::none(LabelledCluster {
        name: "c1",
        labels: &labels,
    });
    render(placement, &group, &overrides, &scope, rbac)
}

/// Things are not known to the hub.
fn scope(object: &ObjectId) -> Option<bool> {
    (object.kind != "Thing").then_some(matches!(object.kind.as_str(), "Namespace" | "ClusterRoleBinding"))
}

fn rendering(resources: &[Value]) -> Rendering {
    rendering_of(&crp(), &[snapshot("crp-0-snapshot", "0", None, 1, resources)]).unwrap()
}

fn spec() -> BindingSpec {
    BindingSpec {
        resource_snapshot_name: "crp-0-snapshot".into(),
        target_cluster: "c1".into(),
        apply_strategy: Some(fleet_api::placement::ApplyStrategy::default()),
        ..BindingSpec::default()
    }
}

fn owner<'a>(placement: &'a PlacementKey, spec: &'a BindingSpec) -> Owner<'a> {
    Owner {
        placement,
        binding: "crp-c1-1",
        spec,
        index: "0",
        report_back: None,
        abandon: false,
    }
}

/// What the API server has after the plan was carried out.
fn stored(wanted: &WantedWork) -> Existing {
    let json = wanted.to_json("fleet-member-c1", true).unwrap();
    let work: Work = json.parse().unwrap();
    assert_eq!(
        work.metadata.finalizers.as_deref(),
        Some(&["kubernetes-fleet.io/work-cleanup".to_owned()][..])
    );
    Existing::of(&work)
}

#[test]
fn a_snapshot_makes_one_work_and_every_envelope_another() {
    let inner = json!({ "a": config_map("a"), "b": config_map("b") });
    let rendering = rendering(&[config_map("plain"), envelope("web-envelope", &inner)]);
    let (placement, spec) = (crp(), spec());
    let plan = plan(&owner(&placement, &spec), &rendering, &[]);
    let names: Vec<_> = plan.creates.iter().map(|wanted| wanted.name.as_str()).collect();
    assert_eq!(names, ["crp-work", "crp-work-envelope-d20e1acfce766fe7"]);
    let [work, envelope] = &plan.creates[..] else {
        panic!("two Works")
    };
    assert_eq!(
        work.labels,
        BTreeMap::from(
            [
                ("kubernetes-fleet.io/parent-CRP", "crp"),
                ("kubernetes-fleet.io/parent-resource-binding", "crp-c1-1"),
                ("kubernetes-fleet.io/parent-resource-snapshot-index", "0"),
            ]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
        )
    );
    let nothing = "74234e98afe7498fb5daf1f36ac2d78acc339464f950703b8c019892f982b90b";
    assert_eq!(
        work.annotations["kubernetes-fleet.io/parent-resource-snapshot-name"],
        "crp-0-snapshot"
    );
    assert_eq!(
        work.annotations["kubernetes-fleet.io/parent-resource-override-snapshot-hash"],
        nothing
    );
    assert_eq!(
        work.annotations["kubernetes-fleet.io/parent-cluster-resource-override-snapshot-hash"],
        nothing
    );
    assert_eq!(envelope.labels["kubernetes-fleet.io/envelope-work"], "ResourceEnvelope");
    assert_eq!(envelope.labels["kubernetes-fleet.io/envelope-name"], "web-envelope");
    assert_eq!(envelope.labels["kubernetes-fleet.io/envelope-namespace"], "app");
    let inner: Vec<_> = envelope
        .manifests
        .iter()
        .map(|m| ObjectId::of(m).unwrap().name)
        .collect();
    assert_eq!(inner, ["b", "a"]);
}

#[test]
fn untouched_manifests_are_the_text_of_the_snapshot() {
    let text =
        r#"{ "apiVersion":"v1",  "kind":"ConfigMap", "metadata":{"name":"x","namespace":"app"}, "data":{"n":"1.0"} }"#;
    let mut master = snapshot("crp-0-snapshot", "0", None, 1, &[]);
    master.spec.selected_resources = vec![RawJson::from_text(text.into()).unwrap()];
    let rendering = rendering_of(&crp(), &[master]).unwrap();
    assert_eq!(rendering.pieces[0].manifests[0].as_str(), text);
}

#[test]
fn a_namespaced_placement_has_its_namespace_in_name_and_label() {
    let placement = PlacementKey::new(Some("app"), "rp").unwrap();
    let rendering = rendering_of(&placement, &[snapshot("rp-0-snapshot", "0", None, 1, &[])]).unwrap();
    let spec = spec();
    let plan = plan(&owner(&placement, &spec), &rendering, &[]);
    assert_eq!(plan.creates[0].name, "app.rp-work");
    assert_eq!(
        plan.creates[0].labels["kubernetes-fleet.io/parent-placement-namespace"],
        "app"
    );
    assert_eq!(plan.creates[0].manifests.len(), 0);
}

#[test]
fn a_group_is_ordered_and_must_be_complete() {
    let master = snapshot("crp-0-snapshot", "0", None, 3, &[config_map("a")]);
    let second = snapshot("crp-0-0", "0", Some(0), 0, &[config_map("b")]);
    let third = snapshot("crp-0-1", "0", Some(1), 0, &[config_map("c")]);
    let stranger = snapshot("crp-1-0", "1", Some(0), 0, &[]);
    let incomplete = rendering_of(&crp(), &[master.clone(), third.clone(), stranger]).unwrap_err();
    assert!(
        matches!(
            incomplete,
            WorkFailure::GroupIncomplete {
                total: 3,
                existing: 2,
                ..
            }
        ),
        "{incomplete}"
    );
    let rendering = rendering_of(&crp(), &[master, third, second]).unwrap();
    let names: Vec<_> = rendering.pieces.iter().map(|piece| piece.name.as_str()).collect();
    assert_eq!(names, ["crp-work", "crp-0", "crp-1"]);
}

#[test]
fn what_is_written_needs_no_second_write() {
    let rendering = rendering(&[config_map("a"), envelope("env", &json!({ "x": config_map("x") }))]);
    let (placement, spec) = (crp(), spec());
    let first = plan(&owner(&placement, &spec), &rendering, &[]);
    let existing: Vec<_> = first.creates.iter().map(stored).collect();
    assert!(plan(&owner(&placement, &spec), &rendering, &existing).is_settled());
}

#[test]
fn a_hand_edited_work_is_repaired() {
    let rendering = rendering(&[config_map("a")]);
    let (placement, spec) = (crp(), spec());
    let mut existing = stored(&plan(&owner(&placement, &spec), &rendering, &[]).creates[0]);
    existing.hash = content_hash(&[RawJson::from(config_map("edited"))]);
    let plan = plan(&owner(&placement, &spec), &rendering, &[existing]);
    assert!(plan.patches[0].manifests && !plan.patches[0].metadata && plan.changes_content());
}

#[test]
fn another_override_list_with_the_same_result_changes_no_spec() {
    let rendering = rendering(&[config_map("a")]);
    let (placement, before) = (crp(), spec());
    let existing = [stored(&plan(&owner(&placement, &before), &rendering, &[]).creates[0])];
    let after = BindingSpec {
        resource_override_snapshots: vec![NamespacedName {
            name: "ro-a-0".into(),
            namespace: "app".into(),
        }],
        ..spec()
    };
    let plan = plan(&owner(&placement, &after), &rendering, &existing);
    let [patch] = &plan.patches[..] else {
        panic!("one patch")
    };
    assert!(patch.metadata && !patch.manifests && !patch.strategy && !plan.changes_content());
    assert_eq!(patch.to_json().unwrap().to_value().get("spec"), None);
}

#[test]
fn override_lists_hash_as_upstream_hashes_them() {
    let named = [NamespacedName {
        name: "ro-a-0".into(),
        namespace: "app".into(),
    }];
    assert_eq!(
        serde_json::to_string(&named).unwrap(),
        r#"[{"name":"ro-a-0","namespace":"app"}]"#
    );
    assert_eq!(
        list_hash(&named),
        fleet_api::names::sha256_hex(r#"[{"name":"ro-a-0","namespace":"app"}]"#)
    );
}

#[test]
fn strategies_reach_works_without_a_new_snapshot() {
    let rendering = rendering(&[config_map("a")]);
    let (placement, spec) = (crp(), spec());
    let existing = [stored(&plan(&owner(&placement, &spec), &rendering, &[]).creates[0])];
    let mirror: ReportBackStrategy =
        serde_json::from_value(json!({ "type": "Mirror", "destination": "WorkAPI" })).unwrap();
    let owner = Owner {
        report_back: Some(&mirror),
        abandon: true,
        ..owner(&placement, &spec)
    };
    let plan = plan(&owner, &rendering, &existing);
    let body = plan.patches[0].to_json().unwrap().to_value();
    assert_eq!(
        body["spec"]["reportBackStrategy"],
        json!({ "type": "Mirror", "destination": "WorkAPI" })
    );
    assert_eq!(
        body["metadata"]["annotations"][fleet_api::annotations::DELETE_PROPAGATION],
        "Abandon"
    );
    assert_eq!(body["spec"].get("workload"), None);
}

#[test]
fn abandon_that_is_taken_back_leaves_the_work() {
    let rendering = rendering(&[config_map("a")]);
    let (placement, spec) = (crp(), spec());
    let abandoning = Owner {
        abandon: true,
        ..owner(&placement, &spec)
    };
    let existing = [stored(&plan(&abandoning, &rendering, &[]).creates[0])];
    let plan = plan(&owner(&placement, &spec), &rendering, &existing);
    let body = plan.patches[0].to_json().unwrap().to_value();
    assert_eq!(
        body["metadata"]["annotations"][fleet_api::annotations::DELETE_PROPAGATION],
        Value::Null
    );
}

#[test]
fn works_that_nobody_wants_are_deleted_and_moved_objects_are_not_dropped_on_the_way() {
    let inner = json!({ "x": config_map("x") });
    let (placement, spec) = (crp(), spec());
    let first = plan(&owner(&placement, &spec), &rendering(&[envelope("env", &inner)]), &[]);
    let mut existing: Vec<_> = first.creates.iter().map(stored).collect();
    let gone = "crp-work-envelope-".to_owned() + &existing[1].name["crp-work-envelope-".len()..];
    // The envelope is no longer selected, and nothing of it was applied: at once.
    let empty = rendering(&[]);
    assert_eq!(
        plan(&owner(&placement, &spec), &empty, &existing).deletes,
        std::slice::from_ref(&gone)
    );
    // Its object is now selected itself, and the member holds it for the envelope: first the new Work.
    existing[1]
        .holds
        .insert(ObjectId::of(&RawJson::from(config_map("x"))).unwrap());
    let moved = rendering(&[config_map("x")]);
    let waiting = plan(&owner(&placement, &spec), &moved, &existing);
    assert!(waiting.deletes.is_empty() && !waiting.is_settled());
    assert_eq!(waiting.deletes_later[&gone], ["crp-work"]);
    // Written and answered: now the old one can go.
    existing[0] = stored(&waiting.patches[0].wanted);
    existing[0].answered = true;
    assert_eq!(plan(&owner(&placement, &spec), &moved, &existing).deletes, [gone]);
}

#[test]
fn an_object_is_taken_over_before_it_is_given_away() {
    let (placement, spec) = (crp(), spec());
    let inner = |name: &str| json!({ "x": config_map(name) });
    let before = [
        envelope("a", &inner("x")),
        envelope("b", &inner("y")),
        envelope("c", &inner("z")),
    ];
    let mut existing: Vec<_> = plan(&owner(&placement, &spec), &rendering(&before), &[])
        .creates
        .iter()
        .map(stored)
        .collect();
    for (work, name) in existing[1..].iter_mut().zip(["x", "y", "z"]) {
        work.holds
            .insert(ObjectId::of(&RawJson::from(config_map(name))).unwrap());
    }
    let waves = |after: &[Value]| -> Vec<usize> {
        let plan = plan(&owner(&placement, &spec), &rendering(after), &existing);
        let wave = |work: &Existing| {
            let patch = plan.patches.iter().find(|patch| patch.wanted.name == work.name);
            patch.map_or(0, |patch| patch.wave)
        };
        existing[1..].iter().map(wave).collect()
    };
    // Everybody takes his neighbour's: a from b, b from c.
    let shifted = [
        envelope("a", &inner("y")),
        envelope("b", &inner("z")),
        envelope("c", &inner("new")),
    ];
    assert_eq!(waves(&shifted), [0, 1, 2]);
    // A circle begins somewhere.
    let turned = [
        envelope("a", &inner("y")),
        envelope("b", &inner("x")),
        envelope("c", &inner("z")),
    ];
    assert_ne!(waves(&turned)[0], waves(&turned)[1]);
}

#[test]
fn the_successor_of_a_moved_object_is_known_by_the_name_that_its_work_has() {
    let x = json!({ "x": config_map("x") });
    let (placement, spec) = (crp(), spec());
    let first = plan(
        &owner(&placement, &spec),
        &rendering(&[envelope("old", &x), envelope("new", &x)]),
        &[],
    );
    let mut existing: Vec<_> = first.creates.iter().map(stored).collect();
    let x = ObjectId::of(&RawJson::from(config_map("x"))).unwrap();
    existing[1].holds.insert(x);
    existing[2].name = "crp-work-configmap-4711".into();
    let later = rendering(&[envelope("new", &json!({ "x": config_map("x") }))]);
    let waiting = plan(&owner(&placement, &spec), &later, &existing);
    assert_eq!(waiting.deletes_later[&existing[1].name], ["crp-work-configmap-4711"]);
    existing[2].answered = true;
    let deletes = plan(&owner(&placement, &spec), &later, &existing).deletes;
    assert_eq!(deletes, std::slice::from_ref(&existing[1].name));
}

#[test]
fn an_envelope_keeps_the_work_that_carries_its_labels() {
    let rendering = rendering(&[envelope("env", &json!({ "x": config_map("x") }))]);
    let (placement, spec) = (crp(), spec());
    let first = plan(&owner(&placement, &spec), &rendering, &[]);
    let mut existing: Vec<_> = first.creates.iter().map(stored).collect();
    existing[1].name = "crp-work-configmap-4711".into();
    assert!(plan(&owner(&placement, &spec), &rendering, &existing).is_settled());
    // A second one: nobody can tell which is right, so none is touched.
    existing.push(Existing {
        name: "crp-work-envelope-2".into(),
        ..existing[1].clone()
    });
    let plan = plan(&owner(&placement, &spec), &rendering, &existing);
    assert!(plan.deletes.is_empty() && plan.patches.is_empty());
    assert_eq!(
        plan.failures[0].to_string(),
        "2 work objects found for the same envelope app/env, only one expected"
    );
}

#[test]
fn a_work_that_is_being_deleted_has_to_go_first() {
    let rendering = rendering(&[config_map("a")]);
    let (placement, spec) = (crp(), spec());
    let mut existing = stored(&plan(&owner(&placement, &spec), &rendering, &[]).creates[0]);
    existing.deleting = true;
    let plan = plan(&owner(&placement, &spec), &rendering, &[existing]);
    assert!(plan.creates.is_empty());
    assert_eq!(
        plan.failures,
        [WorkFailure::Terminating {
            work: "crp-work".into()
        }]
    );
}

#[test]
fn a_name_that_another_scope_has_taken_is_reported() {
    // ClusterResourcePlacement `app.rp` and ResourcePlacement `app/rp` want the same Work.
    let (cluster_wide, namespaced) = (
        PlacementKey::new(None, "app.rp").unwrap(),
        PlacementKey::new(Some("app"), "rp").unwrap(),
    );
    let spec = spec();
    let rendered = |placement: &PlacementKey| rendering_of(placement, &[snapshot("s", "0", None, 1, &[])]).unwrap();
    let taken = stored(&plan(&owner(&namespaced, &spec), &rendered(&namespaced), &[]).creates[0]);
    let plan = plan(&owner(&cluster_wide, &spec), &rendered(&cluster_wide), &[taken]);
    assert!(plan.creates.is_empty() && plan.deletes.is_empty());
    assert_eq!(
        plan.failures[0].to_string(),
        "works.placement.kubernetes-fleet.io \"app.rp-work\" already exists; it belongs to ResourcePlacement app/rp \
         (binding crp-c1-1)"
    );
    assert_eq!(plan.failures[0].recovery(), Recovery::Retry);
}

#[test]
fn manifests_that_do_not_fit_are_refused() {
    let mut big = config_map("big");
    big["data"] = json!({ "x": "y".repeat(MANIFESTS_BYTES_MAX) });
    let failure = rendering_of(
        &crp(),
        &[snapshot("crp-0-snapshot", "0", None, 1, &[config_map("a"), big])],
    )
    .unwrap_err();
    let WorkFailure::Oversized { largest, .. } = &failure else {
        panic!("{failure}")
    };
    assert_eq!(largest, r#"ConfigMap "big" in namespace "app""#);
}

#[test]
fn content_is_compared_by_meaning() {
    let hash = |text: &str| content_hash(&[RawJson::from_text(text.into()).unwrap()]);
    assert_eq!(hash(r#"{"a":1,"b":"<"}"#), hash("{ \"b\": \"\\u003c\", \"a\": 1.0 }"));
    assert_ne!(hash(r#"{"a":1}"#), hash(r#"{"a":1.5}"#));
}

// === The way back ===

fn work_with(name: &str, conditions: &Value, manifests: &Value) -> Work {
    serde_json::from_value(json!({
        "metadata": { "name": name, "generation": 3 },
        "status": { "conditions": conditions, "manifestConditions": manifests },
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, reason: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    })
}

fn subject(previous: Option<&BindingStatus>) -> Subject<'_> {
    Subject {
        generation: 5,
        overridden: false,
        reports_diff: false,
        clock: ContentClock::Unchanged,
        previous,
    }
}

fn rolled_up(subject: &Subject<'_>, works: &[Work]) -> BindingStatus {
    let views: Vec<_> = works.iter().map(View::of).collect();
    binding_status(subject, Progress::Written(&views), Timestamp::from_second(100).unwrap())
}

fn last_line(status: &BindingStatus) -> String {
    let last = status.conditions.last().unwrap();
    format!("{}={} {}: {}", last.type_, last.status, last.reason, last.message)
}

#[test]
fn works_roll_up_into_the_worst_of_them() {
    let applied = |status| condition("Applied", status, "x", 3);
    let available = |status, reason| condition("Available", status, reason, 3);
    let rows: [(Vec<Work>, &str); 8] = [
        (
            vec![
                work_with("b", &json!([]), &json!([])),
                work_with("a", &json!([condition("Applied", "True", "x", 2)]), &json!([])),
            ],
            "Applied=False NotAllWorkHaveBeenApplied: Work object a has not yet completed the apply op",
        ),
        (
            vec![
                work_with("a", &json!([applied("False")]), &json!([])),
                work_with("b", &json!([applied("Unknown")]), &json!([])),
            ],
            "Applied=False NotAllWorkHaveBeenApplied: Work object b has not yet completed the apply op",
        ),
        (
            vec![
                work_with("a", &json!([applied("False")]), &json!([])),
                work_with("b", &json!([applied("True")]), &json!([])),
            ],
            "Applied=False NotAllWorkHaveBeenApplied: Work object a has failed to apply",
        ),
        (
            vec![work_with("a", &json!([applied("True")]), &json!([]))],
            "Available=False NotAllWorkAreAvailable: Work object a has not yet completed availability check",
        ),
        (
            vec![work_with(
                "a",
                &json!([applied("True"), available("False", "x")]),
                &json!([]),
            )],
            "Available=False NotAllWorkAreAvailable: Work object a is not yet available",
        ),
        (
            vec![
                work_with("a", &json!([applied("True"), available("True", "x")]), &json!([])),
                work_with(
                    "b",
                    &json!([applied("True"), available("True", "WorkNotTrackable")]),
                    &json!([]),
                ),
            ],
            "Available=True NotAllWorkAreAvailabilityTrackable: The availability of work object b is not trackable",
        ),
        (
            vec![work_with(
                "b",
                &json!([
                    applied("True"),
                    available("True", "SomeManifestsAreNotAvailabilityTrackable")
                ]),
                &json!([]),
            )],
            "Available=True NotAllWorkAreAvailabilityTrackable: The availability of work object b is not trackable",
        ),
        (
            vec![work_with(
                "a",
                &json!([applied("True"), available("True", "x")]),
                &json!([]),
            )],
            "Available=True AllWorkAreAvailable: All corresponding work objects are available",
        ),
    ];
    for (works, line) in rows {
        assert_eq!(last_line(&rolled_up(&subject(None), &works)), line);
    }
}

#[test]
fn differences_and_applying_never_show_together() {
    let applied = rolled_up(
        &subject(None),
        &[work_with(
            "a",
            &json!([
                condition("Applied", "True", "x", 3),
                condition("Available", "True", "x", 3)
            ]),
            &json!([]),
        )],
    );
    let diff = Subject {
        reports_diff: true,
        ..subject(Some(&applied))
    };
    for (status, line) in [
        (
            "True",
            "DiffReported=True AllWorkHaveDiffReported: All corresponding work objects have reported diff",
        ),
        (
            "False",
            "DiffReported=False NotAllWorkHaveDiffReported: Work object a has failed to report diff",
        ),
        (
            "Unknown",
            "DiffReported=False NotAllWorkHaveDiffReported: Work object a has not yet completed diff reporting",
        ),
    ] {
        let rolled = rolled_up(
            &diff,
            &[work_with(
                "a",
                &json!([condition("DiffReported", status, "x", 3)]),
                &json!([]),
            )],
        );
        assert_eq!(last_line(&rolled), line);
        assert_eq!(rolled.conditions.len(), 3);
    }
}

#[test]
fn a_failure_ends_the_sequence_and_leaves_rollout_alone() {
    let mut previous = rolled_up(
        &subject(None),
        &[work_with(
            "a",
            &json!([condition("Applied", "True", "x", 3)]),
            &json!([]),
        )],
    );
    previous.conditions.insert(
        0,
        serde_json::from_value(condition("RolloutStarted", "True", "RolloutStarted", 5)).unwrap(),
    );
    let status = binding_status(
        &subject(Some(&previous)),
        Progress::Failed(&WorkFailure::MasterMissing),
        Timestamp::UNIX_EPOCH,
    );
    let types: Vec<_> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["RolloutStarted", "Overridden"]);
    let refused = WorkFailure::Write("refused".into());
    let status = binding_status(
        &subject(Some(&previous)),
        Progress::Failed(&refused),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(
        last_line(&status),
        "WorkSynchronized=False SyncWorkFailed: Failed to synchronize the work to the latest: refused"
    );
    let status = binding_status(&subject(Some(&previous)), Progress::JustWritten, Timestamp::UNIX_EPOCH);
    assert_eq!(
        last_line(&status),
        "Applied=False ApplyInProgress: Resources are being applied"
    );
}

#[test]
fn the_clock_of_availability_starts_with_the_content() {
    let works = [work_with(
        "a",
        &json!([
            condition("Applied", "True", "x", 3),
            condition("Available", "True", "WorkNotTrackable", 3)
        ]),
        &json!([]),
    )];
    let views: Vec<_> = works.iter().map(View::of).collect();
    let at = |second| Timestamp::from_second(second).unwrap();
    let since = |status: &BindingStatus| status.conditions.last().unwrap().last_transition_time.0.as_second();
    let first = binding_status(&subject(None), Progress::Written(&views), at(10));
    let again = |clock, generation| {
        let subject = Subject {
            generation,
            clock,
            ..subject(Some(&first))
        };
        since(&binding_status(&subject, Progress::Written(&views), at(50)))
    };
    assert_eq!(since(&first), 10);
    assert_eq!(again(ContentClock::Unchanged, 6), 10);
    assert_eq!(again(ContentClock::Since(at(30)), 6), 50);
    assert_eq!(again(ContentClock::Since(at(5)), 6), 10);
    assert_eq!(again(ContentClock::Unknown, 6), 50);
    assert_eq!(again(ContentClock::Unknown, 5), 10);
}

#[test]
fn details_are_sorted_cut_and_shown_only_where_they_belong() {
    let manifests: Vec<_> = (0..150)
        .map(|i| {
            json!({
                "identifier": { "ordinal": i, "version": "v1", "kind": "ConfigMap", "name": format!("n{:03}", 149 - i), "namespace": "app" },
                "conditions": [condition("Applied", "False", "y", 1)],
                "driftDetails": { "observationTime": "1970-01-01T00:00:00Z", "firstDriftedObservedTime": "1970-01-01T00:00:00Z", "observedInMemberClusterGeneration": 1 },
                "diffDetails": { "observationTime": "1970-01-01T00:00:00Z", "firstDiffedObservedTime": "1970-01-01T00:00:00Z" },
            })
        })
        .collect();
    let manifests = json!(manifests);
    let lists = |conditions: Value, reports_diff: bool| {
        let subject = Subject {
            reports_diff,
            ..subject(None)
        };
        let status = rolled_up(&subject, &[work_with("a", &conditions, &manifests)]);
        (
            status.failed_placements.len(),
            status.diffed_placements.len(),
            status.drifted_placements.len(),
        )
    };
    let applied = |status| condition("Applied", status, "x", 3);
    let available = |status| condition("Available", status, "x", 3);
    for (conditions, reports_diff, expected) in [
        (json!([]), false, (0, 0, 0)),
        (json!([applied("False")]), false, (100, 100, 100)),
        (json!([applied("True")]), false, (0, 0, 100)),
        (json!([applied("True"), available("False")]), false, (100, 0, 100)),
        (json!([applied("True"), available("True")]), false, (0, 0, 100)),
        (json!([condition("DiffReported", "True", "x", 3)]), true, (0, 100, 0)),
        (json!([condition("DiffReported", "False", "x", 3)]), true, (0, 0, 0)),
    ] {
        assert_eq!(lists(conditions.clone(), reports_diff), expected, "{conditions}");
    }
    let status = rolled_up(
        &subject(None),
        &[work_with("a", &json!([applied("False")]), &manifests)],
    );
    assert_eq!(status.failed_placements[0].name, "n000");
    assert_eq!(status.failed_placements[99].name, "n099");
}

#[test]
fn what_is_wrong_or_complete_is_no_step_on_the_way() {
    let status = |said: &[(&str, &str)]| BindingStatus {
        conditions: said
            .iter()
            .map(|(type_name, status)| serde_json::from_value(condition(type_name, status, "R", 2)).unwrap())
            .collect(),
        ..BindingStatus::default()
    };
    for (said, interim) in [
        (&[("RolloutStarted", "True"), ("WorkSynchronized", "True")][..], true),
        (
            &[
                ("WorkSynchronized", "True"),
                ("Applied", "True"),
                ("Available", "False"),
            ],
            true,
        ),
        (
            &[("WorkSynchronized", "True"), ("Applied", "True"), ("Available", "True")],
            false,
        ),
        (&[("WorkSynchronized", "True"), ("DiffReported", "True")], false),
        (&[("WorkSynchronized", "True"), ("DiffReported", "False")], false),
        (&[("WorkSynchronized", "True"), ("Applied", "False")], false),
        (&[("RolloutStarted", "False")], false),
        (&[("Overridden", "False")], false),
        (&[("WorkSynchronized", "False")], false),
    ] {
        assert_eq!(is_interim(&status(said), 2), interim, "{said:?}");
    }
    for (reports_diff, type_name) in [(false, "Applied"), (true, "DiffReported")] {
        let subject = Subject {
            generation: 2,
            reports_diff,
            ..subject(None)
        };
        let written = binding_status(&subject, Progress::JustWritten, Timestamp::UNIX_EPOCH);
        assert!(fleet_api::conditions::is_false(&written.conditions, type_name, 2));
        assert!(is_interim(&written, 2), "the member has not answered yet");
    }
    let old = status(&[("WorkSynchronized", "False")]);
    assert!(
        is_interim(&old, 3),
        "what is said of an older generation does not count"
    );
}
