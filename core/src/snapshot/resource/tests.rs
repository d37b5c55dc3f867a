use jiff::SignedDuration;

use super::*;

fn crp() -> PlacementKey {
    PlacementKey::new(None, "crp").unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An object of so many bytes, the newline included.
fn object(bytes: usize) -> RawJson {
    RawJson::from_text(format!("\"{}\"", "x".repeat(bytes - 3))).unwrap()
}

fn rules() -> Rules {
    Rules {
        history_limit: 10,
        flags: Flags::default(),
        at_once: false,
        above: None,
    }
}

fn planned(objects: &[RawJson], rules: Rules, existing: &[Existing], now: i64) -> Changes {
    plan(
        &crp(),
        Selection { objects, envelopes: 1 },
        rules,
        existing,
        &|_| false,
        at(now),
    )
}

/// What the API server has after the changes were made at this time.
fn stored(changes: &Changes, existing: &[Existing], now: i64) -> Vec<Existing> {
    let mut stored: Vec<_> = existing
        .iter()
        .filter(|s| !changes.delete.contains(&s.name))
        .cloned()
        .collect();
    for snapshot in &mut stored {
        if let Some(master) = &mut snapshot.master {
            master.labelled_latest &= !changes.demote.contains(&snapshot.name);
            if let Some((_, at)) = changes.record.as_ref().filter(|(name, _)| *name == snapshot.name) {
                master.detected = Some(at.to_string());
            }
        }
    }
    stored.extend(changes.create.iter().map(|new| {
        Existing {
            name: new.name.clone(),
            index: new.labels["kubernetes-fleet.io/resource-index"].parse().ok(),
            subindex: new
                .annotations
                .get("kubernetes-fleet.io/subindex-of-resource-snapshot")
                .map(|s| s.parse().unwrap()),
            master: new
                .annotations
                .get("kubernetes-fleet.io/resource-hash")
                .map(|hash| Master {
                    labelled_latest: true,
                    hash: hash.clone(),
                    created: at(now),
                    detected: None,
                }),
        }
    }));
    stored
}

#[test]
fn an_empty_selection_is_one_empty_snapshot() {
    assert_eq!(
        hash(&[]),
        "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1"
    );
    let changes = planned(&[], rules(), &[], 0);
    let [master] = &changes.create[..] else {
        panic!("one snapshot")
    };
    assert_eq!((master.name.as_str(), master.range.clone()), ("crp-0-snapshot", 0..0));
    assert_eq!(
        master.annotations["kubernetes-fleet.io/number-of-resource-snapshots"],
        "1"
    );
    assert_eq!(
        master.annotations["kubernetes-fleet.io/number-of-enveloped-object"],
        "1"
    );
    assert_eq!(master.labels["kubernetes-fleet.io/is-latest-snapshot"], "true");
}

#[test]
#[expect(clippy::single_range_in_vec_init, reason = "one chunk is one range")]
fn selections_are_split_by_size() {
    let half = CHUNK_BYTES_MAX / 2;
    for (sizes, expected) in [
        (vec![half, half], vec![0..2]),
        (vec![half, half + 1], vec![0..1, 1..2]),
        (vec![10, 900 * 1024, 10], vec![0..1, 1..2, 2..3]),
        (vec![900 * 1024], vec![0..1]),
        (vec![half, half, 10], vec![0..2, 2..3]),
    ] {
        let objects: Vec<_> = sizes.iter().map(|size| object(*size)).collect();
        assert_eq!(split(&objects), expected, "{sizes:?}");
    }
}

#[test]
fn only_the_master_carries_hash_counts_and_label() {
    let objects = [object(CHUNK_BYTES_MAX), object(CHUNK_BYTES_MAX), object(10)];
    let changes = planned(&objects, rules(), &[], 0);
    let names: Vec<_> = changes.create.iter().map(|new| new.name.as_str()).collect();
    assert_eq!(names, ["crp-0-snapshot", "crp-0-0", "crp-0-1"]);
    assert_eq!(
        changes.create[0].annotations["kubernetes-fleet.io/number-of-resource-snapshots"],
        "3"
    );
    for (subindex, new) in changes.create[1..].iter().enumerate() {
        let only = [(
            "kubernetes-fleet.io/subindex-of-resource-snapshot".to_owned(),
            subindex.to_string(),
        )];
        assert_eq!(new.annotations, BTreeMap::from(only));
        assert!(!new.labels.contains_key("kubernetes-fleet.io/is-latest-snapshot"));
    }
}

#[test]
fn equal_content_writes_nothing() {
    let objects = [object(10)];
    let existing = stored(&planned(&objects, rules(), &[], 0), &[], 0);
    assert_eq!(planned(&objects, rules(), &existing, 100), Changes::default());
}

#[test]
fn a_half_made_group_is_completed_under_its_index() {
    let objects = [object(CHUNK_BYTES_MAX), object(CHUNK_BYTES_MAX), object(10)];
    let whole = stored(&planned(&objects, rules(), &[], 0), &[], 0);
    let changes = planned(&objects, rules(), &whole[..1], 100);
    let names: Vec<_> = changes.create.iter().map(|new| new.name.as_str()).collect();
    assert_eq!(names, ["crp-0-0", "crp-0-1"]);
    assert_eq!(changes.index, 0);
}

#[test]
fn a_change_after_a_quiet_time_goes_out_at_once_and_the_next_waits() {
    let existing = stored(&planned(&[object(10)], rules(), &[], 0), &[], 0);
    let changes = planned(&[object(11)], rules(), &existing, 100);
    assert_eq!(
        (changes.demote.as_slice(), changes.index),
        (&["crp-0-snapshot".to_owned()][..], 1)
    );
    assert_eq!(changes.create[0].name, "crp-1-snapshot");
    let existing = stored(&changes, &existing, 100);
    let waiting = planned(&[object(12)], rules(), &existing, 101);
    assert_eq!((waiting.wait, waiting.index, waiting.record), (Some(at(102)), 1, None));
    assert!(waiting.create.is_empty() && waiting.demote.is_empty());
    // A run does not wait.
    let at_once = planned(
        &[object(12)],
        Rules {
            at_once: true,
            ..rules()
        },
        &existing,
        101,
    );
    assert_eq!(at_once.index, 2);
}

#[test]
fn a_change_that_is_taken_back_leaves_no_trace() {
    let flags = Flags {
        minimum_interval: Some(SignedDuration::from_secs(30)),
        collection: Some(SignedDuration::from_secs(15)),
    };
    let rules = Rules { flags, ..rules() };
    let existing = stored(&planned(&[object(10)], rules, &[], 0), &[], 0);
    let waiting = planned(&[object(11)], rules, &existing, 100);
    assert_eq!(waiting.wait, Some(at(115)));
    assert_eq!(waiting.record, Some(("crp-0-snapshot".into(), at(100))));
    let existing = stored(&waiting, &existing, 100);
    // Again looked at: nothing new to write.
    let again = planned(&[object(12)], rules, &existing, 105);
    assert_eq!((again.wait, again.record), (Some(at(115)), None));
    assert_eq!(planned(&[object(12)], rules, &existing, 115).index, 1);
    let back = planned(&[object(10)], rules, &existing, 105);
    assert_eq!((back.forget, back.create.len()), (Some("crp-0-snapshot".to_owned()), 0));
    // Nonsense in the annotation is overwritten.
    let mut broken = existing;
    broken[0].master.as_mut().unwrap().detected = Some("soon".into());
    assert_eq!(
        planned(&[object(11)], rules, &broken, 200).record,
        Some(("crp-0-snapshot".into(), at(200)))
    );
}

#[test]
fn a_crash_after_relabelling_does_not_wait_again() {
    let mut existing = stored(&planned(&[object(10)], rules(), &[], 0), &[], 0);
    existing[0].master.as_mut().unwrap().labelled_latest = false;
    assert_eq!(
        planned(&[object(11)], rules(), &existing, 0).create[0].name,
        "crp-1-snapshot"
    );
    assert_eq!(
        planned(&[object(10)], rules(), &existing, 0).promote,
        Some("crp-0-snapshot".into())
    );
}

#[test]
fn whole_groups_go_and_those_in_use_stay() {
    let rules = Rules {
        history_limit: 2,
        ..rules()
    };
    let mut existing = Vec::new();
    for (shorter, now) in [(0, 0), (1, 1000)] {
        let objects = [object(CHUNK_BYTES_MAX - shorter), object(10)];
        existing = stored(&planned(&objects, rules, &existing, now), &existing, now);
    }
    let objects = [object(12)];
    let changes = planned(&objects, rules, &existing, 5000);
    assert_eq!(changes.delete, ["crp-0-0", "crp-0-snapshot"]);
    assert_eq!(changes.demote, ["crp-1-snapshot"]);
    let used = plan(
        &crp(),
        Selection {
            objects: &objects,
            envelopes: 0,
        },
        rules,
        &existing,
        &|i| i == 0,
        at(5000),
    );
    assert!(used.delete.is_empty());
    // The binding moves on, nothing else happens: now it goes.
    let existing = stored(&used, &existing, 5000);
    assert_eq!(
        planned(&objects, rules, &existing, 6000).delete,
        ["crp-0-0", "crp-0-snapshot"]
    );
}

/// Deleted by hand, and the source edited since: what a binding names is gone, and nothing else gets its name.
#[test]
fn an_index_that_is_named_is_not_given_again() {
    let named = ["crp-1-snapshot", "crp-0-snapshot", "crp-9-0", "other-7-snapshot", ""];
    let above = greatest_index(&crp(), named);
    assert_eq!(above, Some(1));
    let rules = Rules {
        at_once: true,
        above,
        ..rules()
    };
    assert_eq!(planned(&[object(10)], rules, &[], 0).create[0].name, "crp-2-snapshot");
    let existing = stored(&planned(&[object(10)], self::rules(), &[], 0), &[], 0);
    assert_eq!(planned(&[object(11)], rules, &existing, 0).index, 2);
    assert_eq!(
        planned(&[object(10)], rules, &existing, 0),
        Changes::default(),
        "it is there"
    );
    assert_eq!(greatest_index(&crp(), []), None);
}
