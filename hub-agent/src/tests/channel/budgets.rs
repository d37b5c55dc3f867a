//! What one member may cost, however much it says and however often it connects.

use fleet_api::{
    cluster::PropertyValue,
    placement::{PatchDetail, WorkResourceIdentifier},
};
use fleet_core::session::{
    budget::Rate,
    cluster::PropertiesReport,
    merge::{Details, Differences, ManifestReport},
    trim::STATUSES_BYTES,
    work::{Phase, WorkReport},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn status(work: &str, message: &str) -> MemberMessage {
    let mut applied = condition("Applied", Status::True);
    message.clone_into(&mut applied.message);
    MemberMessage::WorkStatus(WorkReport {
        work: work_ref(work),
        observed_generation: 1,
        phase: Phase::Result,
        conditions: vec![applied],
        manifests: vec![],
    })
}

fn says(work: &Value, message: &str) -> bool {
    work["status"]["conditions"][0]["message"] == message
}

fn held_back(hub: &Hub) -> usize {
    let told = hub.api.events();
    told.iter().filter(|e| e.starts_with("MemberClusterHeldBack")).count()
}

#[tokio::test]
async fn one_work_is_written_a_few_times_and_the_newest_word_is_the_last() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[]);
    let mut member = hub.connect("a").await;
    for i in 0..400 {
        member.say(status("w", &format!("{i}"))).await;
        while let Ok(answer) = tokio::time::timeout(Duration::from_millis(2), member.receive.message()).await {
            answer.unwrap().expect("the session lives");
        }
    }
    hub.eventually("the last word", &work_path("a", "w"), |work| says(work, "399"))
        .await;
    let writes = hub.api.writes("/works/w/status");
    // Eight at once, then one a second; it took a few seconds at most.
    assert!((8..=20).contains(&writes), "{writes}");
}

#[tokio::test]
async fn a_work_that_goes_through_its_states_is_not_held_up() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[]);
    let mut member = hub.connect("a").await;
    let since = tokio::time::Instant::now();
    for state in ["preparing", "applied", "available"] {
        assert_eq!(member.ask(status("w", state)).await, Outcome::Persisted);
    }
    assert!(since.elapsed() < Duration::from_millis(900), "{:?}", since.elapsed());
}

#[tokio::test]
async fn stored_bytes_are_bounded_told_once_and_nothing_is_lost() {
    let mut settings = ChannelSettings::default();
    // Room for a few statuses of ten kilobytes, then two a second.
    settings.rates.stored = Rate {
        sustained: 20_000 * 60,
        burst: 60_000,
    };
    let hub = Hub::with(settings).await;
    hub.member("a");
    hub.member("b");
    for i in 0..10 {
        hub.work("a", &format!("w{i}"), &[]);
    }
    let mut member = hub.connect("a").await;
    let mut neighbour = hub.connect("b").await;
    let text = "x".repeat(10_000);
    for i in 0..10 {
        member.say(status(&format!("w{i}"), &text)).await;
    }
    assert_eq!(neighbour.ask(joined("b")).await, Outcome::Persisted);
    let at_once = hub.api.writes("/works/");
    assert!(at_once <= 6, "{at_once}");
    for _ in 0..10 {
        assert_eq!(member.ack().await.outcome, Outcome::Persisted);
    }
    for i in 0..10 {
        assert!(says(&hub.api.get(&work_path("a", &format!("w{i}"))), &text), "w{i}");
    }
    let told = hub.events(1).await;
    assert!(
        told.iter().any(|e| e.contains("reports of a are written down later")),
        "{told:?}"
    );
    assert_eq!(held_back(&hub), 1);
}

/// A report with differences of 100 KB.
fn drifted(work: &str) -> MemberMessage {
    let value = "x".repeat(1_000);
    let difference = |i| PatchDetail {
        path: format!("/data/{i}"),
        value_in_member: value.clone(),
        value_in_hub: String::new(),
    };
    let mut applied = condition("Applied", Status::False);
    applied.message = "what it says".to_owned();
    MemberMessage::WorkStatus(WorkReport {
        work: work_ref(work),
        observed_generation: 1,
        phase: Phase::Result,
        conditions: vec![applied.clone()],
        manifests: vec![ManifestReport {
            identifier: WorkResourceIdentifier::default(),
            conditions: vec![applied],
            details: Some(Details::Diff(Differences {
                observed_at: jiff::Timestamp::from_second(9).unwrap(),
                generation: None,
                details: (0..100).map(difference).collect(),
            })),
            mirrored: None,
        }],
    })
}

#[tokio::test]
async fn however_many_works_a_member_has_its_statuses_fit_into_memory() {
    const WORKS: usize = 300;
    let mut settings = ChannelSettings::default();
    let boundless = Rate {
        sustained: u32::MAX,
        burst: u32::MAX,
    };
    settings.rates.stored = boundless;
    settings.rates.bytes = boundless;
    let hub = Hub::with(settings).await;
    hub.member("a");
    for i in 0..WORKS {
        hub.work("a", &format!("w{i}"), &[]);
    }
    let mut member = hub.connect("a").await;
    for i in 0..WORKS {
        assert_eq!(member.ask(drifted(&format!("w{i}"))).await, Outcome::Persisted, "w{i}");
    }
    let statuses: Vec<Value> = (0..WORKS)
        .map(|i| hub.api.get(&work_path("a", &format!("w{i}")))["status"].clone())
        .collect();
    let stored: usize = statuses.iter().map(|status| status.to_string().len()).sum();
    // What is over is what each may have in any case.
    assert!(stored < STATUSES_BYTES + WORKS * 8 * 1024, "{stored}");
    let details = |status: &Value| status["manifestConditions"][0]["diffDetails"]["observedDiffs"].clone();
    assert_eq!(details(&statuses[0]).as_array().unwrap().len(), 100);
    let last = &statuses[WORKS - 1];
    assert_eq!(details(last)[0]["path"], "/data/0 and 99 more path(s)");
    assert_eq!(last["conditions"][0]["message"], "what it says");
    assert_eq!(last["conditions"][1]["type"], "StatusTrimmed");
}

#[tokio::test]
async fn what_a_cluster_says_about_itself_is_paced_too() {
    let mut settings = ChannelSettings::default();
    settings.rates.cluster = Rate { sustained: 2, burst: 3 };
    let hub = Hub::with(settings).await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    for i in 0..50 {
        let MemberMessage::AgentStatus(mut status) = joined("a") else {
            unreachable!()
        };
        status.conditions[1].message = format!("{i}");
        member.say(MemberMessage::AgentStatus(status)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    hub.eventually("the last word", &imc_path("a"), |imc| {
        imc["status"]["agentStatus"][0]["conditions"][1]["message"] == "49"
    })
    .await;
    let writes = hub.api.writes("/internalmemberclusters/a/status");
    assert!((3..=8).contains(&writes), "{writes}");
}

/// Properties of 100 KB, different each time.
fn large_properties(round: usize) -> MemberMessage {
    let property = PropertyValue {
        value: format!("{round}{}", "x".repeat(100_000)),
        observation_time: Time(jiff::Timestamp::from_second(9).unwrap()),
    };
    MemberMessage::Properties(PropertiesReport {
        imc_uid: "imc-a".to_owned(),
        imc_generation: 1,
        collected: true,
        properties: BTreeMap::from([("example.com/large".to_owned(), property)]),
        usage: None,
        namespaces: None,
        conditions: vec![],
    })
}

#[tokio::test]
async fn what_a_cluster_says_about_itself_counts_as_stored_wherever_it_is_copied() {
    let mut settings = ChannelSettings::default();
    // Room for two reports, each in three copies, and no third for a long time.
    settings.rates.stored = Rate {
        sustained: 60,
        burst: 700_000,
    };
    let hub = Hub::with(settings).await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    for round in 0..2 {
        assert_eq!(member.ask(large_properties(round)).await, Outcome::Persisted);
    }
    member.say(large_properties(2)).await;
    hub.events(1).await;
    assert_eq!(held_back(&hub), 1);
    let writes = || hub.api.writes("/internalmemberclusters/a/status");
    assert_eq!(writes(), 2);
    // Nor does another session pay for it, since opening one stores the object again.
    for _ in 0..20 {
        let mut again = hub.dial(Some("token-a")).await;
        again.hello(hello("a")).await;
        match again.next().await {
            Some(HubMessage::Accept(_)) => {}
            Some(HubMessage::Reject(reject)) => {
                assert_eq!(reject.message, "held back: the member has too much written");
                assert_eq!(writes(), 2);
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("sessions cost nothing");
}

#[tokio::test]
async fn a_member_that_keeps_reconnecting_is_made_to_wait() {
    let mut settings = ChannelSettings::default();
    settings.rates.sessions = Rate {
        sustained: 60,
        burst: 3,
    };
    let hub = Hub::with(settings).await;
    hub.member("a");
    hub.member("b");
    for _ in 0..3 {
        hub.connect("a").await;
    }
    let sessions = hub.api.writes("/internalmemberclusters/a");
    for _ in 0..20 {
        let mut again = hub.dial(Some("token-a")).await;
        again.hello(hello("a")).await;
        let (code, why) = again.rejected().await;
        assert_eq!(
            (code, why.as_str()),
            (RejectCode::Unavailable, "too many sessions in a short time")
        );
    }
    assert_eq!(
        hub.api.writes("/internalmemberclusters/a"),
        sessions,
        "nothing was written for it"
    );
    hub.connect("b").await;
    hub.events(1).await;
    assert_eq!(held_back(&hub), 1);
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    hub.connect("a").await;
}

#[tokio::test]
async fn reconnecting_buys_no_more_messages() {
    let mut settings = ChannelSettings::default();
    settings.rates.malformed = Rate {
        sustained: 1,
        burst: 30,
    };
    let hub = Hub::with(settings).await;
    hub.member("a");
    let garbage = |epoch| pb::MemberMessage {
        seq: 0,
        epoch,
        body: Some(pb::member_message::Body::WorkStatus(pb::WorkStatus::default())),
    };
    let mut first = hub.connect("a").await;
    for _ in 0..25 {
        first.raw(garbage(first.epoch)).await;
    }
    assert_eq!(first.ask(joined("a")).await, Outcome::Persisted);
    let mut second = hub.connect("a").await;
    for _ in 0..25 {
        second.raw(garbage(second.epoch)).await;
    }
    assert_eq!(second.rejected().await.0, RejectCode::Misbehaved);
}
