use super::*;
use fleet_api::conditions::to_condition;
use fleet_api::placement::ManifestCondition;
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

fn id(kind: &str, name: &str) -> WorkResourceIdentifier {
    WorkResourceIdentifier {
        version: "v1".into(),
        kind: kind.into(),
        name: name.into(),
        ..Default::default()
    }
}

fn good(kind: &str, name: &str) -> Manifest {
    Manifest {
        id: id(kind, name),
        object: Ok(json!({})),
    }
}

fn bad(kind: &str, name: &str, failure: ApplyFailure) -> Manifest {
    Manifest {
        id: id(kind, name),
        object: Err(failure),
    }
}

fn attempt(generation: i64) -> Attempt {
    Attempt {
        at: None,
        work_uid: "w".into(),
        generation,
        spec_digest: "d".into(),
    }
}

fn names(entries: &[&WorkResourceIdentifier]) -> Vec<String> {
    entries.iter().map(|id| id.name.clone()).collect()
}

fn intended(generation: i64, manifests: &[Manifest]) -> Inventory {
    let mut inventory = Inventory::default();
    inventory.intend(&attempt(generation), manifests);
    inventory
}

#[test]
fn only_what_is_new_has_to_be_written_first() {
    let mut inventory = Inventory::default();
    assert!(inventory.intend(&attempt(1), &[good("A", "a")]));
    assert!(!inventory.intend(&attempt(2), &[good("A", "a")]));
    assert_eq!(inventory.attempt, attempt(2));
    assert!(inventory.intend(&attempt(3), &[good("B", "b")]));
    assert_eq!(inventory.entries.len(), 2);
    let unknown = ApplyFailure::UnknownKind { error: String::new() };
    assert!(!inventory.intend(&attempt(4), &[bad("C", "c", unknown)]));
}

#[test]
fn leftovers_are_what_the_spec_no_longer_names() {
    let inventory = intended(1, &[good("A", "a"), good("B", "b"), good("C", "c")]);
    assert_eq!(names(&inventory.leftovers(&[good("C", "c"), good("A", "a")])), ["b"]);
    // Discovery has lost the kind for a moment.
    let unknown = || ApplyFailure::UnknownKind { error: String::new() };
    let hiccup = [bad("A", "a", unknown()), bad("B", "b", unknown()), good("C", "c")];
    assert!(inventory.leftovers(&hiccup).is_empty());
    let unreadable = bad("", "", ApplyFailure::NotAnObject { error: String::new() });
    assert!(inventory.leftovers(&[unreadable]).is_empty());
    // Another version is the same object.
    let mut bumped = good("A", "a");
    bumped.id.version = "v2".into();
    assert_eq!(
        names(&inventory.leftovers(&[bumped, good("B", "b"), good("C", "c")])),
        Vec::<String>::new()
    );
    // A generateName-only manifest names nothing, and does no harm.
    assert_eq!(
        inventory.leftovers(&[bad("A", "", ApplyFailure::GenerateName)]).len(),
        3
    );
}

#[test]
fn removal_of_every_kind_of_leftover() {
    let us = Owner {
        name: "w".into(),
        uid: "u1".into(),
    };
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "c1"});
    let object = |owners: Value| json!({"metadata": {"uid": "x", "ownerReferences": owners}});
    let none = BTreeSet::new();
    let check = |live: Value, current: &BTreeSet<String>| removal(Live::Found(&live), &us, current);
    assert_eq!(removal(Live::Failed("timeout"), &us, &none), Removal::Keep);
    assert_eq!(removal(Live::Absent, &us, &none), Removal::Forget(Confirmed::Gone));
    assert_eq!(
        check(object(json!([other])), &none),
        Removal::Forget(Confirmed::NotOurs)
    );
    assert_eq!(
        check(object(json!([us.reference()])), &none),
        Removal::Delete { uid: "x".into() }
    );
    let shared = check(object(json!([us.reference(), other])), &none);
    assert_eq!(shared, Removal::Release(object(json!([other]))));
    let mut going = object(json!([us.reference()]));
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(check(going, &none), Removal::Keep);
    let moved = BTreeSet::from(["x".to_owned()]);
    let same_object = check(object(json!([us.reference()])), &moved);
    assert_eq!(same_object, Removal::Forget(Confirmed::Renamed));
}

#[test]
fn a_cluster_that_ran_upstream_is_adopted() {
    let now = Timestamp::UNIX_EPOCH;
    let entry = |name: &str, state: Option<Applied>| ManifestCondition {
        identifier: id("A", name),
        conditions: state.iter().map(|state| to_condition(state, 1, now)).collect(),
        ..Default::default()
    };
    let status = WorkStatus {
        manifest_conditions: vec![
            entry("applied", Some(Applied::Applied)),
            entry("preparing", Some(Applied::Preparing)),
            entry(
                "failed",
                Some(Applied::Failed {
                    failure: ApplyFailure::NotTakenOver,
                }),
            ),
            entry("compared", None),
            entry("", Some(Applied::Applied)),
        ],
        ..Default::default()
    };
    let resource = AppliedResource {
        id: id("A", "recorded"),
        uid: "u".into(),
    };
    let inventory = Inventory::adopted(&status, &[resource]);
    let found: Vec<_> = inventory.entries.values().map(|id| id.name.as_str()).collect();
    assert_eq!(found, ["applied", "compared", "preparing", "recorded"]);
}

#[test]
fn it_survives_its_storage_and_names_nothing_twice() {
    let mut inventory = intended(3, &[good("A", "a"), good("A", "b"), good("B", "c")]);
    for id in inventory.entries.values_mut() {
        id.namespace = "n".into();
    }
    inventory.entries = keyed(inventory.entries.into_values());
    let listed = |key: &ObjectKey| key.name == "b";
    let applied = inventory.entries.iter().filter(|(key, _)| listed(key));
    let status = AppliedWorkStatus {
        applied_resources: applied
            .map(|(_, id)| AppliedResource {
                id: id.clone(),
                uid: "u".into(),
            })
            .collect(),
        inventory: Some(inventory.to_store(listed)),
    };
    let text = serde_json::to_string(&status).unwrap();
    assert_eq!(text.matches("\"b\"").count(), 1, "{text}");
    let read: AppliedWorkStatus = serde_json::from_str(&text).unwrap();
    assert_eq!(Inventory::stored(&read), Some(inventory));
    assert_eq!(Inventory::stored(&AppliedWorkStatus::default()), None);
}

#[test]
fn a_thousand_intentions_take_a_few_bytes_each() {
    let manifests: Vec<Manifest> = (0..1000)
        .map(|i| good("ConfigMap", &format!("settings-{i:04}")))
        .collect();
    let text = serde_json::to_string(&intended(1, &manifests).to_store(|_| false)).unwrap();
    assert!(text.len() < 20_000, "{} bytes", text.len());
}

proptest! {
    /// Whatever the spec becomes, an entry goes only by a confirmation.
    #[test]
    fn an_unconfirmed_entry_is_never_dropped(
        specs in prop::collection::vec(prop::collection::vec(("[AB]", "[ab]", 0..4u8), 0..4), 1..6),
        confirmed in prop::collection::vec(("[AB]", "[ab]"), 0..2),
    ) {
        let mut inventory = Inventory::default();
        let mut expected = BTreeSet::new();
        for (generation, spec) in (1..).zip(specs) {
            let manifests: Vec<Manifest> = spec.iter().map(|(kind, name, how)| match how {
                0 => bad(kind, name, ApplyFailure::UnknownKind { error: String::new() }),
                1 => bad(kind, name, ApplyFailure::Duplicated),
                _ => good(kind, name),
            }).collect();
            expected.extend(manifests.iter().filter(|m| m.object.is_ok()).filter_map(|m| ObjectKey::of(&m.id)));
            inventory.intend(&attempt(generation), &manifests);
            let keys: BTreeSet<_> = inventory.entries.keys().cloned().collect();
            prop_assert_eq!(&keys, &expected);
            for (kind, name) in &confirmed {
                inventory.forget(&id(kind, name), Confirmed::Gone);
                expected.remove(&ObjectKey::of(&id(kind, name)).unwrap());
            }
        }
    }
}

#[test]
fn namesakes_are_found_whatever_their_kind() {
    let manifests = [
        good("Deployment", "web"),
        good("Service", "web"),
        good("Service", "other"),
        bad("Gone", "web", ApplyFailure::UnknownKind { error: String::new() }),
    ];
    let found = Inventory::namesakes(&[id("Ingress", "web")], &manifests);
    let kinds: Vec<&str> = found.iter().map(|manifest| &*manifest.id.kind).collect();
    assert_eq!(kinds, ["Deployment", "Service", "Gone"]);
    assert!(Inventory::namesakes(&[], &manifests).is_empty());
}
