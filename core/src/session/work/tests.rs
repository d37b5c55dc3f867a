use std::fmt::Write as _;

use fleet_api::conditions::Status;
use fleet_api::placement::{PatchDetail, ReportBackStrategy, ReportBackStrategyType, Work, WorkResourceIdentifier};
use fleet_api::raw::RawJson;
use proptest::prelude::*;
use serde_json::json;

use super::super::merge::{Differences, Mirrored};
use super::super::trim::WORK_BYTES;
use super::*;
use crate::membership::fixtures::at;

fn work(generation: i64, names: &[&str]) -> Work {
    let mut work: Work = serde_json::from_value(json!({
        "metadata": {"name": "w", "uid": "u", "generation": generation},
    }))
    .expect("a Work");
    work.spec.workload.manifests = names
        .iter()
        .map(|name| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}}).into()
        })
        .collect();
    work
}

fn id(ordinal: i64, name: &str) -> WorkResourceIdentifier {
    WorkResourceIdentifier {
        ordinal,
        version: "v1".into(),
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
        namespace: "app".into(),
        name: name.into(),
        ..WorkResourceIdentifier::default()
    }
}

fn said(type_: &str, status: Status) -> ReportedCondition {
    ReportedCondition {
        type_: type_.into(),
        status,
        reason: "R".into(),
        message: "m".into(),
        observed_generation: 0,
    }
}

fn entry(ordinal: i64, name: &str, status: Status) -> ManifestReport {
    ManifestReport {
        identifier: id(ordinal, name),
        conditions: vec![said("Applied", status)],
        details: None,
        mirrored: None,
    }
}

fn report(generation: i64, manifests: Vec<ManifestReport>) -> WorkReport {
    let conditions = vec![said("Applied", Status::True)];
    WorkReport {
        work: WorkRef {
            name: "w".into(),
            uid: "u".into(),
        },
        observed_generation: generation,
        phase: Phase::Result,
        conditions,
        manifests,
    }
}

/// [`super::persist`], with what the hub keeps of the Work.
fn persist(work: Option<&Work>, report: &WorkReport, live: bool, now: Timestamp) -> Decision<WorkStatus> {
    let Some(work) = work else {
        return super::persist(None, report, live, now);
    };
    let texts = work.spec.workload.manifests.iter().map(RawJson::as_str);
    let manifests: Vec<ManifestIdentity> = texts.map(ManifestIdentity::of).collect();
    let strategy = work.spec.report_back_strategy.as_ref();
    let stored = StoredWork {
        metadata: &work.metadata,
        manifests: &manifests,
        spec_bytes: count(&work.spec),
        mirror: strategy.is_some_and(|strategy| strategy.type_ == ReportBackStrategyType::Mirror),
        status: work.status.clone(),
        room: WORK_BYTES,
    };
    super::persist(Some(&stored), report, live, now)
}

fn store(work: &mut Work, report: &WorkReport, now: i64) -> Option<Outcome> {
    let decision = persist(Some(work), report, true, at(now));
    let outcome = decision.outcome();
    if let Decision::Write { write, .. } = decision {
        work.status = Some(write);
    }
    outcome
}

#[track_caller]
fn invalid(work: &Work, report: &WorkReport, why: &str) {
    assert_eq!(
        persist(Some(work), report, true, at(1)),
        Decision::answer(Outcome::Invalid, why)
    );
}

#[test]
fn only_a_report_about_this_very_work_and_generation_is_stored() {
    let work = work(3, &["a"]);
    let outcome = |work: Option<&Work>, r: &WorkReport, live| persist(work, r, live, at(1)).outcome();
    let fine = report(3, vec![entry(0, "a", Status::True)]);
    assert_eq!(outcome(Some(&work), &fine, false), Some(Outcome::Persisted));
    assert_eq!(outcome(None, &fine, true), Some(Outcome::Gone));
    assert_eq!(outcome(None, &fine, false), None, "the cache may be behind");
    assert_eq!(
        outcome(Some(&work), &report(2, vec![]), true),
        Some(Outcome::Superseded)
    );
    assert_eq!(
        outcome(Some(&work), &report(2, vec![]), false),
        None,
        "the cache may be ahead of a hub that went back in time"
    );
    assert_eq!(
        outcome(Some(&work), &report(4, vec![]), false),
        None,
        "the cache may be behind"
    );
    assert_eq!(outcome(Some(&work), &report(4, vec![]), true), Some(Outcome::Invalid));
    let foreign = WorkReport {
        work: WorkRef {
            name: "w".into(),
            uid: "old".into(),
        },
        ..fine
    };
    assert_eq!(outcome(Some(&work), &foreign, true), Some(Outcome::UidMismatch));
}

#[test]
fn times_stay_where_facts_stay() {
    let mut work = work(1, &["a", "b"]);
    let first = report(1, vec![entry(0, "a", Status::True), entry(1, "b", Status::False)]);
    assert_eq!(store(&mut work, &first, 10), Some(Outcome::Persisted));
    assert_eq!(store(&mut work, &first, 20), Some(Outcome::Unchanged), "a duplicate");
    let second = report(1, vec![entry(0, "a", Status::True), entry(1, "b", Status::True)]);
    assert_eq!(store(&mut work, &second, 30), Some(Outcome::Persisted));
    let status = work.status.expect("stored");
    assert_eq!(status.conditions[0].observed_generation, Some(1));
    let since: Vec<_> = status
        .manifest_conditions
        .iter()
        .map(|m| m.conditions[0].last_transition_time.0)
        .collect();
    assert_eq!(since, [at(10), at(30)]);
}

#[test]
fn history_follows_the_object_when_manifests_are_reordered() {
    let mut work = work(1, &["a", "b"]);
    store(
        &mut work,
        &report(1, vec![entry(0, "a", Status::True), entry(1, "b", Status::False)]),
        10,
    );
    work.spec.workload.manifests.reverse();
    work.metadata.generation = Some(2);
    store(
        &mut work,
        &report(2, vec![entry(0, "b", Status::False), entry(1, "a", Status::True)]),
        20,
    );
    let status = work.status.expect("stored");
    assert!(
        status
            .manifest_conditions
            .iter()
            .all(|m| m.conditions[0].last_transition_time.0 == at(10))
    );
}

fn drifted(observed: i64) -> ManifestReport {
    let detail = PatchDetail {
        path: "/data/x".into(),
        value_in_member: "1".into(),
        value_in_hub: "2".into(),
    };
    ManifestReport {
        details: Some(Details::Drift(Differences {
            observed_at: at(observed),
            generation: Some(2),
            details: vec![
                detail.clone(),
                PatchDetail {
                    path: "/data/y".into(),
                    ..detail
                },
            ],
        })),
        ..entry(0, "a", Status::False)
    }
}

#[test]
fn the_first_observation_is_kept_and_refreshes_are_rare() {
    let mut work = work(1, &["a"]);
    assert_eq!(
        store(&mut work, &report(1, vec![drifted(10)]), 12),
        Some(Outcome::Persisted)
    );
    assert_eq!(
        store(&mut work, &report(1, vec![drifted(40)]), 40),
        Some(Outcome::Unchanged),
        "only the time"
    );
    assert_eq!(
        store(&mut work, &report(1, vec![drifted(310)]), 310),
        Some(Outcome::Persisted)
    );
    let drift = work.status.as_ref().expect("stored").manifest_conditions[0]
        .drift_details
        .clone()
        .expect("drift");
    assert_eq!(
        (drift.first_drifted_observed_time.0, drift.observation_time.0),
        (at(10), at(310))
    );
    assert_eq!(
        store(&mut work, &report(1, vec![drifted(9_999)]), 700),
        Some(Outcome::Persisted)
    );
    let drift = work.status.as_ref().expect("stored").manifest_conditions[0]
        .drift_details
        .clone()
        .expect("drift");
    assert_eq!(drift.observation_time.0, at(700), "not in the future");
}

#[test]
fn preparing_keeps_what_is_known_and_never_follows_a_result() {
    let mut work = work(1, &["a", "b"]);
    store(&mut work, &report(1, vec![entry(0, "a", Status::True)]), 10);
    work.metadata.generation = Some(2);
    let preparing = WorkReport {
        phase: Phase::Preparing,
        conditions: vec![],
        ..report(2, vec![entry(0, "a", Status::True), entry(1, "b", Status::True)])
    };
    assert_eq!(store(&mut work, &preparing, 20), Some(Outcome::Persisted));
    let status = work.status.as_ref().expect("stored");
    assert_eq!(status.conditions[0].observed_generation, Some(1), "untouched");
    assert_eq!(status.manifest_conditions[0].conditions[0].reason, "R", "word for word");
    assert_eq!(status.manifest_conditions[1].conditions[0].reason, "PreparingToProcess");
    assert_eq!(status.manifest_conditions[1].conditions[0].observed_generation, Some(2));
    store(
        &mut work,
        &report(2, vec![entry(0, "a", Status::True), entry(1, "b", Status::True)]),
        30,
    );
    assert_eq!(store(&mut work, &preparing, 40), Some(Outcome::Unchanged));
}

#[test]
fn lies_about_the_manifests_are_refused() {
    let work = work(1, &["a"]);
    let with = |e| report(1, vec![e]);
    invalid(
        &work,
        &report(1, vec![entry(0, "a", Status::True); 2]),
        "2 entries for 1 manifests",
    );
    invalid(&work, &with(entry(1, "a", Status::True)), "there is no manifest 1");
    invalid(&work, &with(entry(-1, "a", Status::True)), "there is no manifest -1");
    invalid(
        &work,
        &with(entry(0, "b", Status::True)),
        "manifest 0: the identifier is not the manifest's",
    );
    let mut other = entry(0, "a", Status::True);
    other.conditions.push(said("Ready", Status::True));
    invalid(
        &work,
        &with(other),
        "manifest 0: the manifest has no condition Ready that a member reports",
    );
    let trimmed = WorkReport {
        conditions: vec![said("StatusTrimmed", Status::True)],
        ..report(1, vec![])
    };
    invalid(
        &work,
        &trimmed,
        "the Work has no condition StatusTrimmed that a member reports",
    );
    let twice = WorkReport {
        conditions: vec![said("Applied", Status::True); 2],
        ..report(1, vec![])
    };
    invalid(&work, &twice, "the Work has condition Applied twice");
}

fn mirrored(json: &str) -> ManifestReport {
    let json = RawJson::from_text(json.into()).expect("JSON");
    ManifestReport {
        mirrored: Some(Mirrored {
            observed_at: at(1),
            json,
        }),
        ..entry(0, "a", Status::True)
    }
}

#[test]
fn mirrored_status_has_exactly_three_fields_and_is_asked_for() {
    let mut work = work(1, &["a"]);
    let outline = "manifest 0: mirrored status is not an object with exactly apiVersion, kind and status";
    let whole = r#"{"apiVersion":"v1","kind":"ConfigMap","status":{"x":1}}"#;
    invalid(
        &work,
        &report(1, vec![mirrored(r#"{"apiVersion":"v1","kind":"ConfigMap"}"#)]),
        outline,
    );
    invalid(&work, &report(1, vec![mirrored("[]")]), outline);
    let more = r#"{"apiVersion":"v1","kind":"ConfigMap","status":{},"spec":{}}"#;
    invalid(&work, &report(1, vec![mirrored(more)]), outline);
    let kind = r#"{"apiVersion":"v1","kind":"Secret","status":{}}"#;
    let why = "manifest 0: mirrored status is of another kind than the manifest";
    invalid(&work, &report(1, vec![mirrored(kind)]), why);
    store(&mut work, &report(1, vec![mirrored(whole)]), 1);
    assert!(
        work.status.as_ref().expect("stored").manifest_conditions[0]
            .back_reported_status
            .is_none()
    );
    work.spec.report_back_strategy = Some(ReportBackStrategy {
        type_: ReportBackStrategyType::Mirror,
        ..ReportBackStrategy::default()
    });
    store(&mut work, &report(1, vec![mirrored(whole)]), 2);
    let back = |work: &Work| {
        let status = work.status.as_ref().expect("stored");
        let back = status.manifest_conditions[0].back_reported_status.clone();
        back.and_then(|back| back.observed_status)
            .map(|json| json.as_str().to_owned())
    };
    assert_eq!(back(&work).as_deref(), Some(whole), "as it came");
    store(&mut work, &report(1, vec![entry(0, "a", Status::False)]), 3);
    assert_eq!(
        back(&work).as_deref(),
        Some(whole),
        "what could not be looked at is as it was"
    );
    work.spec.report_back_strategy = None;
    store(&mut work, &report(1, vec![entry(0, "a", Status::True)]), 4);
    assert_eq!(back(&work), None, "nobody asks for it any more");
}

#[test]
fn an_oversized_work_is_trimmed_and_says_so() {
    let mut work = work(1, &["a"]);
    let mut filler = String::new();
    write!(filler, "{}", "x".repeat(WORK_BYTES - 1_500)).expect("a String takes all");
    let mut manifest = work.spec.workload.manifests[0].to_value();
    manifest["data"] = json!({ "x": filler });
    work.spec.workload.manifests[0] = manifest.into();
    assert_eq!(
        store(&mut work, &report(1, vec![entry(0, "a", Status::False)]), 1),
        Some(Outcome::Persisted)
    );
    assert_eq!(
        work.status.as_ref().expect("stored").conditions.len(),
        1,
        "it still fits"
    );

    let mut long = drifted(2);
    if let Some(Details::Drift(d)) = &mut long.details {
        d.details[0].value_in_member = "y".repeat(2_000);
    }
    assert_eq!(
        store(&mut work, &report(1, vec![long.clone()]), 2),
        Some(Outcome::Persisted)
    );
    let status = work.status.clone().expect("stored");
    let drifts = status.manifest_conditions[0]
        .drift_details
        .as_ref()
        .expect("drift")
        .observed_drifts
        .clone();
    assert_eq!(
        drifts,
        [PatchDetail {
            path: "/data/x and 1 more path(s)".into(),
            value_in_member: "(omitted)".into(),
            value_in_hub: "(omitted)".into(),
        }]
    );
    let trimmed = find(&status.conditions, "StatusTrimmed").expect("said");
    assert!(
        trimmed.message.contains(" bytes over limit 1415578)"),
        "{}",
        trimmed.message
    );
    assert_eq!(
        store(&mut work, &report(1, vec![long]), 9),
        Some(Outcome::Unchanged),
        "trimmed alike"
    );
    store(&mut work, &report(1, vec![entry(0, "a", Status::False)]), 10);
    assert!(find(&work.status.expect("stored").conditions, "StatusTrimmed").is_none());
}

proptest! {
    /// Reports of any age in any order, each perhaps twice: what is stored always speaks of the Work's generation or an
    /// earlier state of it, and never goes back.
    #[test]
    fn an_older_report_never_undoes_a_newer(steps in prop::collection::vec((0..4i64, any::<bool>(), any::<bool>()), 1..60)) {
        let mut work = work(1, &["a"]);
        let mut newest = 0;
        for (i, (lag, bump, ok)) in (1..).zip(steps) {
            let generation = work.metadata.generation.unwrap_or_default() + i64::from(bump);
            work.metadata.generation = Some(generation);
            let said = report(generation - lag, vec![entry(0, "a", if ok { Status::True } else { Status::False })]);
            let outcome = store(&mut work, &said, i);
            prop_assert_eq!(outcome == Some(Outcome::Superseded), lag > 0);
            if outcome == Some(Outcome::Persisted) {
                prop_assert_eq!(store(&mut work, &said, i + 1), Some(Outcome::Unchanged));
            }
            let stored = work.status.as_ref().and_then(|s| s.conditions[0].observed_generation).unwrap_or(0);
            prop_assert!(stored >= newest && stored <= generation);
            newest = stored;
        }
    }
}
