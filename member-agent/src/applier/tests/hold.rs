//! A hub that went back in time.

use fleet_core::session::recovery::Recovery;

use super::*;

fn deleted() -> Value {
    json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})
}

/// A stage on which generation 2, with `c` and `late`, is applied.
async fn applied() -> Stage {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
    stage.pass().await;
    let now = [config("c", &json!({"a": "2"})), config("late", &json!({}))];
    stage.show(2, &json!({}), &json!({}), &now);
    stage.pass().await;
    stage.said();
    stage
}

/// A new process there, to which the hub shows its past.
async fn restarted(stage: &Stage, generation: i64, more: &Value, value: &str) -> Stage {
    let mut next = Stage::on(stage.hub.clone(), stage.member.clone());
    next.show(generation, more, &json!({}), &[config("c", &json!({"a": value}))]);
    next.applier.admission.load_records().await;
    next
}

fn recovered(stage: &Stage) -> Recovery {
    let later = stage.clock.now() + jiff::SignedDuration::from_secs(60);
    Recovery {
        went_back_at: None,
        recovered_at: Some(later),
    }
}

fn is_held(said: &[MemberMessage]) -> bool {
    said.iter().any(|message| {
        matches!(message, MemberMessage::WorkStatus(status)
            if status.conditions.iter().any(|c| c.type_ == "Applied" && c.reason == "HubWentBackInTime"))
    })
}

#[tokio::test(start_paused = true)]
async fn the_past_is_not_applied_and_nothing_is_removed() {
    for (generation, value) in [(1, "1"), (2, "1"), (1, "2")] {
        let stage = applied().await;
        let next = restarted(&stage, generation, &json!({}), value).await;
        let writes = next.member.written();
        next.pass().await;
        assert_eq!(next.member.written(), writes, "generation {generation}");
        assert!(is_held(&next.said()), "generation {generation}");
        assert_eq!(
            next.applier.known().works[0].generation,
            2,
            "the hub learns it in Hello"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_covers_every_work_deletions_too() {
    let mut stage = applied().await;
    // Noticed by another Work, by the hub agent, or by versions.
    stage.applier.admission.hub_went_back();
    stage.show(3, &deleted(), &json!({}), &[config("c", &json!({}))]);
    let writes = stage.member.written();
    stage.pass().await;
    assert_eq!(stage.member.written(), writes);
    assert!(!is_held(&stage.said()), "nothing is wrong with this one");
    stage.applier.open("imc", recovered(&stage));
    stage.pass().await;
    assert_eq!(stage.member.get(OWNER), None, "it was deleted indeed");
}

#[tokio::test(start_paused = true)]
async fn what_the_hub_has_forgotten_stays_after_the_recovery() {
    let stage = applied().await;
    let mut next = restarted(&stage, 1, &json!({}), "1").await;
    next.applier.open("imc", recovered(&next));
    next.pass().await;
    assert_eq!(next.member.get(&config_path("c")).unwrap()["data"]["a"], "1");
    let late = next.member.get(&config_path("late")).unwrap();
    assert_eq!(late["metadata"]["ownerReferences"], json!([]), "it belongs to nobody");
    let said = next.said();
    let kept = |message: &MemberMessage| matches!(message, MemberMessage::Event(e) if e.reason == "LeftoverKept");
    assert!(said.iter().any(kept), "{said:?}");

    // From then on it is as ever.
    let both = [config("c", &json!({"a": "1"})), config("d", &json!({}))];
    next.show(2, &json!({}), &json!({}), &both);
    next.pass().await;
    assert!(next.member.get(&config_path("d")).is_some());
    next.show(3, &json!({}), &json!({}), &both[..1]);
    next.pass().await;
    assert_eq!(next.member.get(&config_path("d")), None);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_not_written_down_as_the_works_own() {
    let stage = applied().await;
    let next = restarted(&stage, 1, &json!({}), "1").await;
    next.applier.open("imc", recovered(&next));
    next.member.fail(Fault::new(&config_path("late"), 403).writes());
    next.applier.pass("w").await.unwrap_err();
    next.member.recover();
    // As if the process had died there.
    let again = restarted(&next, 1, &json!({}), "1").await;
    again.applier.open("imc", recovered(&again));
    again.pass().await;
    assert!(again.member.get(&config_path("late")).is_some());
}

#[tokio::test(start_paused = true)]
async fn another_work_of_the_name_removes_nothing_of_the_one_before() {
    let stage = applied().await;
    let mut next = restarted(&stage, 1, &json!({"uid": "another"}), "3").await;
    next.pass().await;
    assert_eq!(next.member.get(&config_path("c")).unwrap()["data"]["a"], "3");
    assert!(next.member.get(&config_path("late")).is_some());

    // The end of one that has applied nothing is not the end of the other's objects.
    next.show(
        9,
        &json!({"uid": "third", "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        &json!({}),
        &[],
    );
    next.said();
    next.pass().await;
    assert!(next.member.get(OWNER).is_some() && next.member.get(&config_path("c")).is_some());
    assert!(matches!(&next.said()[..], [MemberMessage::CleanupComplete(work)] if work.uid == "third"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_only_the_cache_knows_removes_nothing() {
    let mut stage = applied().await;
    let live = stage.hub.get(WORK).unwrap();
    stage.show(3, &deleted(), &json!({}), &[config("c", &json!({}))]);
    stage.hub.put(WORK, live);
    stage.pass().await;
    assert!(stage.member.get(&config_path("c")).is_some() && stage.member.get(OWNER).is_some());
}
