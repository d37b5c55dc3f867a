//! Reports about Works, and the cleanup finalizer.

use fleet_api::placement::WorkResourceIdentifier;
use fleet_core::session::{
    digest::KnownWork,
    merge::{ManifestReport, Mirrored},
    work::{Phase, WorkReport},
};
use fleet_proto::convert::CleanupProgress;

use super::*;

const FINALIZER: &str = "kubernetes-fleet.io/work-cleanup";

fn entry(ordinal: i64) -> ManifestReport {
    ManifestReport {
        identifier: WorkResourceIdentifier {
            ordinal,
            group: String::new(),
            version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            resource: "configmaps".to_owned(),
            namespace: "n".to_owned(),
            name: "c".to_owned(),
        },
        conditions: vec![condition("Applied", Status::True)],
        details: None,
        mirrored: None,
    }
}

fn report(name: &str) -> WorkReport {
    WorkReport {
        work: work_ref(name),
        observed_generation: 1,
        phase: Phase::Result,
        conditions: vec![condition("Applied", Status::True), condition("Available", Status::True)],
        manifests: vec![entry(0)],
    }
}

fn deleting(hub: &Hub, member: &str, work: &str) {
    hub.api.edit(&work_path(member, work), |work| {
        work["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
}

fn finalizers(hub: &Hub, member: &str, work: &str) -> Value {
    hub.api.get(&work_path(member, work))["metadata"]["finalizers"].clone()
}

#[tokio::test]
async fn a_report_is_stored_before_it_is_acknowledged_and_unknown_fields_stay() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[FINALIZER]);
    hub.api.edit(&work_path("a", "w"), |work| {
        work["status"] = json!({ "conditions": [], "future": 1 });
    });
    let mut member = hub.connect("a").await;
    assert_eq!(
        member.ask(MemberMessage::WorkStatus(report("w"))).await,
        Outcome::Persisted
    );
    let work = hub.api.get(&work_path("a", "w"));
    assert_eq!(work["status"]["conditions"][0]["type"], "Applied");
    assert_eq!(work["status"]["conditions"][0]["observedGeneration"], 1);
    assert_eq!(work["status"]["manifestConditions"][0]["identifier"]["name"], "c");
    assert_eq!(work["status"]["future"], 1);
    assert!(
        work["spec"]["workload"]["manifests"][0].is_object(),
        "the spec is untouched"
    );
    let before = hub.api.writes("");
    assert_eq!(
        member.ask(MemberMessage::WorkStatus(report("w"))).await,
        Outcome::Unchanged
    );
    assert_eq!(hub.api.writes(""), before);
    assert!(hub.metric("fleet_channel_persisted_total{kind=\"work\"} 1"));
}

#[tokio::test]
async fn reports_about_anything_but_the_own_work_of_today_are_refused() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.member("b");
    hub.work("a", "w", &[]);
    hub.work("b", "of-b", &[]);
    let mut member = hub.connect("a").await;
    let with = |change: fn(&mut WorkReport)| {
        let mut status = report("w");
        change(&mut status);
        MemberMessage::WorkStatus(status)
    };
    let table: Vec<(MemberMessage, Outcome)> = vec![
        (with(|s| s.work.name = "none".to_owned()), Outcome::Gone),
        (with(|s| s.work = work_ref("of-b")), Outcome::Gone),
        (with(|s| s.work.uid = "other".to_owned()), Outcome::UidMismatch),
        (with(|s| s.observed_generation = 0), Outcome::Superseded),
        (with(|s| s.observed_generation = 2), Outcome::Invalid),
        (with(|s| s.manifests.push(entry(1))), Outcome::Invalid),
        (
            with(|s| s.manifests[0].identifier.name = "other".to_owned()),
            Outcome::Invalid,
        ),
        (
            with(|s| s.conditions.push(condition("StatusTrimmed", Status::True))),
            Outcome::Invalid,
        ),
        (
            with(|s| {
                let json = json!({ "not": "an outline" }).into();
                s.manifests[0].mirrored = Some(Mirrored {
                    observed_at: jiff::Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(9),
                    json,
                });
            }),
            Outcome::Invalid,
        ),
        (MemberMessage::Claim(work_ref("of-b")), Outcome::Gone),
        (MemberMessage::CleanupComplete(work_ref("of-b")), Outcome::Gone),
        (MemberMessage::CleanupComplete(work_ref("w")), Outcome::NotDeleting),
    ];
    for (message, outcome) in table {
        let shown = format!("{message:?}");
        assert_eq!(member.ask(message).await, outcome, "{shown}");
    }
    assert_eq!(hub.api.writes("/works/"), 0);
    let path = pb::member_message::Body::Claim(pb::Claim {
        name: "../b".to_owned(),
        uid: "u".to_owned(),
    });
    member.seq += 1;
    member
        .raw(pb::MemberMessage {
            seq: member.seq,
            epoch: member.epoch,
            body: Some(path),
        })
        .await;
    assert_eq!(member.ack().await.outcome, Outcome::Invalid, "a name that is a path");
}

#[tokio::test]
async fn a_work_that_the_cache_has_not_seen_is_read() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    hub.api.lag();
    hub.api.put(
        &work_path("a", "w"),
        json!({ "metadata": { "name": "w", "namespace": "fleet-member-a", "uid": "uid-w", "generation": 1 },
            "spec": { "workload": { "manifests": [
                { "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "c", "namespace": "n" } } ] } } }),
    );
    assert_eq!(
        member.ask(MemberMessage::Claim(work_ref("w"))).await,
        Outcome::Persisted
    );
    assert_eq!(
        member.ask(MemberMessage::WorkStatus(report("w"))).await,
        Outcome::Persisted
    );
}

/// A hub that went back in time, and whose watches have not noticed: the stores still have what was there before.
fn ahead(hub: &Hub, member: &str, work: &str) {
    let mut future = hub.api.get(&work_path(member, work));
    future["metadata"]["generation"] = json!(2);
    future["metadata"]["resourceVersion"] = json!("100000");
    hub.stores.show("MODIFIED", "works", &future);
}

#[tokio::test]
async fn a_report_about_what_a_restored_hub_has_is_stored_before_the_watches_notice() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[FINALIZER]);
    let mut member = hub.connect("a").await;
    ahead(&hub, "a", "w");
    assert_eq!(
        member.ask(MemberMessage::WorkStatus(report("w"))).await,
        Outcome::Persisted
    );
    let work = hub.api.get(&work_path("a", "w"));
    assert_eq!(work["status"]["conditions"][0]["observedGeneration"], 1);
}

#[tokio::test]
async fn a_work_that_a_restored_hub_deletes_is_let_go_before_the_watches_notice() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[FINALIZER]);
    let mut member = hub.connect("a").await;
    ahead(&hub, "a", "w");
    hub.api.lag();
    deleting(&hub, "a", "w");
    assert_eq!(
        member.ask(MemberMessage::CleanupComplete(work_ref("w"))).await,
        Outcome::Persisted
    );
    assert_eq!(hub.api.get(&work_path("a", "w")), Value::Null, "nothing keeps it");
}

#[tokio::test]
async fn somebody_elses_write_in_between_is_survived() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &["other"]);
    let mut member = hub.connect("a").await;
    // The stores do not hear of it before the first try has failed.
    hub.api.lag();
    hub.api.edit(&work_path("a", "w"), |work| {
        work["metadata"]["labels"] = json!({ "l": "v" });
    });
    let api = hub.api.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        api.catch_up();
    });
    assert_eq!(
        member.ask(MemberMessage::Claim(work_ref("w"))).await,
        Outcome::Persisted
    );
    assert_eq!(finalizers(&hub, "a", "w"), json!(["other", FINALIZER]));
    assert_eq!(hub.api.get(&work_path("a", "w"))["metadata"]["labels"]["l"], "v");
    assert_eq!(hub.api.writes("/works/w"), 2, "one conflict, one success");
}

#[tokio::test]
async fn the_finalizer_comes_with_a_claim_and_goes_with_the_clean_up() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &["other"]);
    let mut member = hub.connect("a").await;
    assert_eq!(
        member.ask(MemberMessage::Claim(work_ref("w"))).await,
        Outcome::Persisted
    );
    assert_eq!(finalizers(&hub, "a", "w"), json!(["other", FINALIZER]));
    assert_eq!(
        member.ask(MemberMessage::Claim(work_ref("w"))).await,
        Outcome::Unchanged
    );
    deleting(&hub, "a", "w");
    assert_eq!(
        member.ask(MemberMessage::Claim(work_ref("w"))).await,
        Outcome::Superseded
    );
    assert_eq!(
        member.ask(MemberMessage::CleanupComplete(work_ref("w"))).await,
        Outcome::Persisted
    );
    assert_eq!(finalizers(&hub, "a", "w"), json!(["other"]), "exactly this one");

    hub.work("a", "v", &[FINALIZER]);
    deleting(&hub, "a", "v");
    assert_eq!(
        member.ask(MemberMessage::CleanupComplete(work_ref("v"))).await,
        Outcome::Persisted
    );
    assert_eq!(hub.api.get(&work_path("a", "v")), Value::Null);
    assert_eq!(
        member.ask(MemberMessage::CleanupComplete(work_ref("v"))).await,
        Outcome::Gone,
        "the second meets nothing"
    );
}

#[tokio::test]
async fn a_member_that_has_stopped_for_good_frees_its_works_and_has_left() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.member("b");
    for n in 0..20 {
        hub.work("a", &format!("w{n}"), &[FINALIZER]);
    }
    hub.work("b", "of-b", &[FINALIZER]);
    let mut member = hub.connect("a").await;
    member.ask(joined("a")).await;
    let stopped = |imc_generation| MemberMessage::ApplierStopped {
        imc_uid: "imc-a".to_owned(),
        imc_generation,
    };
    assert_eq!(
        member.ask(stopped(1)).await,
        Outcome::NotDeleting,
        "nobody asked it to leave"
    );
    hub.api.edit(&imc_path("a"), |imc| {
        imc["spec"]["state"] = json!("Leave");
        imc["metadata"]["generation"] = json!(2);
    });
    assert_eq!(member.ask(stopped(2)).await, Outcome::Persisted);
    for n in 0..20 {
        assert_eq!(finalizers(&hub, "a", &format!("w{n}")), json!([]));
    }
    assert_eq!(finalizers(&hub, "b", "of-b"), json!([FINALIZER]));
    hub.eventually("left", &imc_path("a"), |imc| {
        let conditions = imc["status"]["agentStatus"][0]["conditions"]
            .as_array()
            .unwrap()
            .clone();
        conditions
            .iter()
            .any(|c| c["type"] == "Joined" && c["status"] == "False")
            && conditions
                .iter()
                .any(|c| c["type"] == "Healthy" && c["status"] == "True")
    })
    .await;
    assert_eq!(
        member.ask(stopped(2)).await,
        Outcome::Persisted,
        "repeated without harm"
    );
}

#[tokio::test]
async fn with_the_api_server_away_the_newest_report_is_kept_and_written_once() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[FINALIZER]);
    let mut member = hub.connect("a").await;
    hub.api.set_down(true);
    for n in 0..20 {
        let mut status = report("w");
        status.conditions[0].message = format!("attempt {n}");
        member.say(MemberMessage::WorkStatus(status)).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(hub.api.get(&work_path("a", "w"))["status"], Value::Null);
    hub.api.set_down(false);
    let newest = member.seq;
    loop {
        let ack = member.ack().await;
        if ack.seq == newest {
            assert_eq!(ack.outcome, Outcome::Persisted);
            break;
        }
        assert_eq!(
            ack.outcome,
            Outcome::Superseded,
            "never acknowledged as stored: {ack:?}"
        );
    }
    assert_eq!(
        hub.api.get(&work_path("a", "w"))["status"]["conditions"][0]["message"],
        "attempt 19"
    );
    assert_eq!(hub.api.writes("/works/w/status"), 1);
}

#[tokio::test]
async fn a_report_in_flight_is_stored_and_answered_before_the_hub_stops() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[FINALIZER]);
    let mut member = hub.connect("a").await;
    hub.api.set_down(true);
    member.say(MemberMessage::WorkStatus(report("w"))).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    hub.stop.cancel();
    hub.api.set_down(false);
    assert_eq!(member.ack().await.outcome, Outcome::Persisted);
    assert_eq!(
        hub.api.get(&work_path("a", "w"))["status"]["conditions"][0]["type"],
        "Applied"
    );
    assert_eq!(member.rejected().await.0, RejectCode::Unavailable);
}

#[tokio::test]
async fn too_many_reports_at_once_are_put_off_and_heartbeats_go_on() {
    let mut settings = ChannelSettings::default();
    settings.limits.max_in_flight = 4;
    let hub = Hub::with(settings).await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    for n in 0..8 {
        hub.work("a", &format!("w{n}"), &[]);
    }
    hub.api.fail(Some(("/works/", 503)));
    for n in 0..8 {
        member.say(MemberMessage::Claim(work_ref(&format!("w{n}")))).await;
    }
    for _ in 0..4 {
        assert_eq!(member.ack().await.outcome, Outcome::RetryLater);
    }
    member.say(MemberMessage::Heartbeat).await;
    hub.eventually("beat", &imc_path("a"), |imc| {
        imc["status"]["agentStatus"][0].is_object()
    })
    .await;
    hub.api.fail(None);
    for _ in 0..4 {
        assert_eq!(member.ack().await.outcome, Outcome::Persisted);
    }
}

#[tokio::test]
async fn what_the_api_server_never_takes_is_answered_as_such() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[]);
    let mut member = hub.connect("a").await;
    for (code, outcome) in [(422, Outcome::Invalid), (413, Outcome::TooLarge), (404, Outcome::Gone)] {
        hub.api.fail(Some(("/works/", code)));
        assert_eq!(
            member.ask(MemberMessage::WorkStatus(report("w"))).await,
            outcome,
            "{code}"
        );
    }
}

#[tokio::test]
async fn accept_names_the_works_whose_status_is_not_what_the_member_sent() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "same", &[]);
    hub.work("a", "lost", &[]);
    let mut member = hub.connect("a").await;
    member.ask(MemberMessage::WorkStatus(report("same"))).await;
    let stored: fleet_api::placement::WorkStatus =
        serde_json::from_str(&hub.api.get(&work_path("a", "same"))["status"].to_string()).unwrap();
    let digest = fleet_core::session::digest::digest(&stored).to_vec();
    let known = |name: &str| KnownWork {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        generation: 1,
        status_digest: digest.clone(),
    };
    let mut again = hub.dial(Some("token-a")).await;
    again
        .hello(Hello {
            works: vec![known("same"), known("lost"), known("gone")],
            ..hello("a")
        })
        .await;
    assert_eq!(again.accepted().await.resend_works, ["lost"]);
}

#[tokio::test]
async fn a_clean_up_that_takes_long_is_answered_so_that_its_end_can_follow() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[FINALIZER]);
    deleting(&hub, "a", "w");
    let mut member = hub.connect("a").await;
    let progress = CleanupProgress {
        work: work_ref("w"),
        since: None,
        remaining: 1,
        blockers: Vec::new(),
    };
    assert_eq!(
        member.ask(MemberMessage::CleanupProgress(progress)).await,
        Outcome::Unchanged
    );
    assert_eq!(
        member.ask(MemberMessage::CleanupComplete(work_ref("w"))).await,
        Outcome::Persisted
    );
}
