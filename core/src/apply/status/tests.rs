use super::*;
use fleet_api::placement::PatchDetail;
use manifest::Available;

fn id(ordinal: i64, kind: &str, name: &str) -> WorkResourceIdentifier {
    WorkResourceIdentifier {
        ordinal,
        version: "v1".into(),
        kind: kind.into(),
        name: name.into(),
        ..Default::default()
    }
}

fn report(ordinal: i64, verdict: Verdict, available: Option<Available>) -> ManifestReport {
    let live = json!({"apiVersion": "v1", "kind": "A", "metadata": {"generation": 2}, "status": {"x": 1}});
    ManifestReport {
        id: id(ordinal, "A", &format!("n{ordinal}")),
        verdict,
        live: Some(live),
        available,
        taken_over: false,
    }
}

fn applied(ordinal: i64, available: Available) -> ManifestReport {
    report(ordinal, Verdict::Applied(None), Some(available))
}

fn round(secs: i64) -> Round<'static> {
    Round {
        generation: 3,
        report_diff: false,
        mirror: false,
        degraded_counts: false,
        leftovers: None,
        now: Timestamp::from_second(secs).unwrap(),
    }
}

fn comparing(secs: i64) -> Round<'static> {
    Round {
        report_diff: true,
        ..round(secs)
    }
}

fn found(degraded: bool) -> Differences {
    let detail = PatchDetail {
        path: "/spec/replicas".into(),
        value_in_member: "2".into(),
        value_in_hub: "1".into(),
    };
    Differences {
        details: vec![detail],
        total: 1,
        degraded,
    }
}

fn lines(list: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition]) -> Vec<String> {
    list.iter()
        .map(|c| {
            format!(
                "{}={} {}@{}",
                c.type_,
                c.status,
                c.reason,
                c.observed_generation.unwrap_or_default()
            )
        })
        .collect()
}

fn of(manifests: &[ManifestReport], round: &Round<'_>) -> WorkStatus {
    status(&WorkStatus::default(), manifests, round)
}

#[test]
fn the_work_sums_up_its_manifests() {
    let failed = || report(1, Verdict::Failed(ApplyFailure::NotTakenOver), None);
    let rows: Vec<(Vec<ManifestReport>, &[&str])> = vec![
        (
            vec![],
            &[
                "Applied=True AllManifestsApplied@3",
                "Available=True AllManifestsAvailable@3",
            ],
        ),
        (
            vec![applied(0, Available::Available), applied(1, Available::NotTrackable)],
            &[
                "Applied=True AllManifestsApplied@3",
                "Available=True WorkNotTrackable@3",
            ],
        ),
        (
            vec![applied(0, Available::Available), applied(1, Available::NotYet)],
            &[
                "Applied=True AllManifestsApplied@3",
                "Available=False SomeManifestsAreNotAvailable@3",
            ],
        ),
        (
            vec![applied(0, Available::Available), failed()],
            &["Applied=False SomeManifestsAreNotApplied@3"],
        ),
    ];
    for (manifests, expected) in rows {
        assert_eq!(lines(&of(&manifests, &round(0)).conditions), expected);
    }
    let some = of(&[applied(0, Available::Available), failed()], &round(0));
    assert_eq!(
        some.conditions[0].message,
        "Failed to apply all manifests (1 of 2 manifests are applied)"
    );
    let stuck = of(
        &[],
        &Round {
            leftovers: Some("secrets \"s\" is forbidden"),
            ..round(0)
        },
    );
    assert_eq!(
        stuck.conditions[0].message,
        "All the specified manifests have been applied; secrets \"s\" is forbidden"
    );
}

#[test]
fn comparisons_have_their_own_condition_and_modes_replace_each_other() {
    let diff = |degraded| report(0, Verdict::Diff(found(degraded)), None);
    let all = of(&[diff(false), report(1, Verdict::NoDiff, None)], &comparing(0));
    assert_eq!(lines(&all.conditions), ["DiffReported=True AllManifestsDiffReported@3"]);
    assert_eq!(
        lines(&all.manifest_conditions[0].conditions),
        ["DiffReported=True FoundDiff@2"]
    );
    assert!(all.manifest_conditions[0].diff_details.is_some());
    assert!(all.manifest_conditions[0].drift_details.is_none());

    let degraded = of(&[diff(true)], &comparing(0));
    assert_eq!(
        lines(&degraded.conditions),
        ["DiffReported=False SomeManifestsHaveNotReportedDiff@3"]
    );
    assert!(
        degraded.conditions[0]
            .message
            .starts_with("Failed to report diff on all manifests (0 of 1 manifests have reported diff); ")
    );
    assert_eq!(
        lines(&degraded.manifest_conditions[0].conditions),
        ["DiffReported=True FoundDiffInDegradedMode@2"]
    );
    let counted = of(
        &[diff(true)],
        &Round {
            degraded_counts: true,
            ..comparing(0)
        },
    );
    assert_eq!(
        lines(&counted.conditions),
        ["DiffReported=True AllManifestsDiffReported@3"]
    );

    let then = status(
        &all,
        &[applied(0, Available::Available), applied(1, Available::Available)],
        &round(5),
    );
    let expected = [
        "Applied=True AllManifestsApplied@3",
        "Available=True AllManifestsAvailable@3",
    ];
    assert_eq!(lines(&then.conditions), expected);
    assert!(then.manifest_conditions[0].diff_details.is_none());
    let back = status(&then, &[diff(false)], &comparing(9));
    assert_eq!(
        lines(&back.conditions),
        ["DiffReported=True AllManifestsDiffReported@3"]
    );
    assert_eq!(
        lines(&back.manifest_conditions[0].conditions),
        ["DiffReported=True FoundDiff@2"]
    );

    let unknown = ApplyFailure::UnknownKind { error: "e".into() };
    let blocked = of(&[report(0, Verdict::Failed(unknown), None)], &comparing(0));
    let message = &blocked.manifest_conditions[0].conditions[0].message;
    assert!(
        message.starts_with("An error blocks the diff reporting process (DecodingErred, error: "),
        "{message}"
    );

    let taken = ManifestReport {
        taken_over: true,
        ..report(0, Verdict::NoDiff, None)
    };
    let message = of(&[taken], &comparing(0)).manifest_conditions[0].conditions[0]
        .message
        .clone();
    assert!(message.ends_with(TAKEN_OVER_WHILE_COMPARING), "{message}");
}

#[test]
fn times_move_only_with_what_they_speak_of() {
    let drifted = || report(0, Verdict::Drifted(ApplyFailure::Drifts, found(false)), None);
    let first = of(&[drifted()], &round(100));
    let later = status(&first, &[drifted()], &round(200));
    let details = later.manifest_conditions[0].drift_details.as_ref().unwrap();
    assert_eq!(details.first_drifted_observed_time.0.as_second(), 100);
    assert_eq!(details.observation_time.0.as_second(), 200);
    assert_eq!(details.observed_in_member_cluster_generation, 2);
    assert_eq!(
        later.manifest_conditions[0].conditions[0]
            .last_transition_time
            .0
            .as_second(),
        100
    );
    assert_eq!(later.conditions[0].last_transition_time.0.as_second(), 100);
    let gone = status(&later, &[applied(0, Available::Available)], &round(300));
    assert!(gone.manifest_conditions[0].drift_details.is_none());
    let again = status(&gone, &[drifted()], &round(400));
    let details = again.manifest_conditions[0].drift_details.as_ref().unwrap();
    assert_eq!(details.first_drifted_observed_time.0.as_second(), 400);
    // Nothing changes: nothing to write.
    let calm = status(&gone, &[applied(0, Available::Available)], &round(500));
    assert_eq!(calm, gone);
}

#[test]
fn duplicates_keep_their_own_history() {
    let twin = |ordinal, verdict| ManifestReport {
        id: id(ordinal, "A", "same"),
        ..report(ordinal, verdict, None)
    };
    let both = || {
        [
            twin(0, Verdict::Applied(None)),
            twin(1, Verdict::Failed(ApplyFailure::Duplicated)),
        ]
    };
    let first = of(&both(), &round(100));
    assert_eq!(status(&first, &both(), &round(200)), first);
    // Reordering moves the history along.
    let moved = status(
        &first,
        &[ManifestReport {
            id: id(5, "A", "same"),
            ..twin(0, Verdict::Applied(None))
        }],
        &round(300),
    );
    assert_eq!(
        moved.manifest_conditions[0].conditions[0]
            .last_transition_time
            .0
            .as_second(),
        100
    );
}

#[test]
fn mirrored_status_is_shown_kept_and_cleared() {
    let mirror = |secs| Round {
        mirror: true,
        ..round(secs)
    };
    let on = of(&[applied(0, Available::Available)], &mirror(100));
    let shown = on.manifest_conditions[0].back_reported_status.as_ref().unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "A", "status": {"x": 1}});
    assert_eq!(shown.observed_status.as_ref().unwrap().to_value(), expected);
    let without = ManifestReport {
        live: Some(json!({})),
        ..applied(0, Available::Available)
    };
    let kept = status(&on, &[without], &mirror(200));
    assert_eq!(
        kept.manifest_conditions[0].back_reported_status,
        on.manifest_conditions[0].back_reported_status
    );
    let off = status(&on, &[applied(0, Available::Available)], &round(300));
    assert_eq!(off.manifest_conditions[0].back_reported_status, None);
}

#[test]
fn long_lists_and_long_errors_say_so_and_fit() {
    let many = Differences {
        total: 250,
        ..found(false)
    };
    let cut = of(
        &[report(0, Verdict::Drifted(ApplyFailure::Drifts, many), None)],
        &round(0),
    );
    let message = &cut.manifest_conditions[0].conditions[0].message;
    assert!(message.ends_with("; 1 of 250 differences are listed"), "{message}");
    let long = ApplyFailure::Patch {
        api: "x".repeat(40_000),
    };
    let cut = of(&[report(0, Verdict::Failed(long), None)], &round(0));
    assert_eq!(
        cut.manifest_conditions[0].conditions[0].message.len(),
        conditions::MESSAGE_MAX
    );
}

#[test]
fn preparing_keeps_previous_entries() {
    let before = of(&[applied(0, Available::Available)], &round(0));
    let shown = preparing(&before, &[id(0, "A", "n0"), id(1, "A", "new")], 4, round(9).now);
    assert_eq!(shown.conditions, before.conditions);
    assert_eq!(shown.manifest_conditions[0], before.manifest_conditions[0]);
    assert_eq!(
        lines(&shown.manifest_conditions[1].conditions),
        ["Applied=False PreparingToProcess@4"]
    );
}
