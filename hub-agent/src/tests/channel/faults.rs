//! Members that do not behave, and others that do not notice.

use fleet_api::events::EventType;
use fleet_proto::convert::{Event, EventObject};

use super::*;

#[tokio::test]
async fn garbage_is_answered_then_the_session_ends_and_nobody_else_notices() {
    let hub = Hub::start().await;
    hub.member("good");
    hub.member("bad");
    let mut good = hub.connect("good").await;
    let mut bad = hub.connect("bad").await;
    let empty = || pb::member_message::Body::WorkStatus(pb::WorkStatus::default());
    for seq in 2..200 {
        bad.raw(pb::MemberMessage {
            seq,
            epoch: bad.epoch,
            body: Some(empty()),
        })
        .await;
    }
    let (code, why) = bad.rejected().await;
    assert_eq!(code, RejectCode::Misbehaved);
    assert!(why.starts_with("too many malformed messages"), "{why}");
    assert_eq!(good.ask(joined("good")).await, Outcome::Persisted);
}

#[tokio::test]
async fn messages_of_another_session_or_of_an_unknown_type_have_no_effect() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    member
        .raw(pb::MemberMessage {
            seq: 9,
            epoch: member.epoch,
            body: None,
        })
        .await;
    member.epoch += 1;
    assert_eq!(member.ask(joined("a")).await, Outcome::Invalid);
    member.say(MemberMessage::Heartbeat).await;
    member.epoch -= 1;
    assert_eq!(member.ask(joined("a")).await, Outcome::Persisted);
}

#[tokio::test]
async fn a_message_over_the_limit_is_refused_and_the_session_lives() {
    let mut settings = ChannelSettings::default();
    settings.limits.max_message_bytes = 10_000;
    let hub = Hub::with(settings).await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    let MemberMessage::AgentStatus(mut status) = joined("a") else {
        unreachable!()
    };
    status.conditions[0].message = "x".repeat(20_000);
    assert_eq!(member.ask(MemberMessage::AgentStatus(status)).await, Outcome::TooLarge);
    assert_eq!(member.ask(joined("a")).await, Outcome::Persisted);
}

#[tokio::test]
async fn a_message_far_over_the_limit_ends_the_session() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    let body = pb::member_message::Body::Event(pb::Event {
        message: "x".repeat(9 << 20),
        ..pb::Event::default()
    });
    member
        .raw(pb::MemberMessage {
            seq: 2,
            epoch: 1,
            body: Some(body),
        })
        .await;
    assert_eq!(member.rejected().await.0, RejectCode::Misbehaved);
    hub.connect("a").await;
}

#[tokio::test]
async fn a_flood_is_slowed_down_and_others_are_not() {
    let hub = Hub::start().await;
    hub.member("flood");
    hub.member("calm");
    let mut flood = hub.connect("flood").await;
    let mut calm = hub.connect("calm").await;
    for _ in 0..3_000 {
        flood.say(MemberMessage::Heartbeat).await;
    }
    let start = tokio::time::Instant::now();
    for _ in 0..5 {
        calm.ask(joined("calm")).await;
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    let text = hub.metrics.encode();
    let line = text
        .lines()
        .find(|l| l.starts_with("fleet_channel_messages_total{type=\"heartbeat\"}"))
        .unwrap();
    let taken: u32 = line.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(taken < 1_500, "the burst and little more: {taken}");
}

#[tokio::test]
async fn a_member_that_reads_nothing_is_closed_and_others_go_on() {
    let mut settings = ChannelSettings {
        send_timeout: Duration::from_millis(200),
        ..ChannelSettings::default()
    };
    settings.rates.messages.sustained = 50_000;
    settings.rates.bytes.sustained = 50_000_000;
    let hub = Hub::with(settings).await;
    hub.member("deaf");
    hub.member("good");
    let mut deaf = hub.connect("deaf").await;
    let mut good = hub.connect("good").await;
    // Each has an answer that names it, until windows, buffers and queue are full.
    for n in 0..4_000 {
        let name = format!("{}.{n}", "n".repeat(230));
        deaf.say(MemberMessage::Claim(WorkRef {
            name,
            uid: "u".repeat(120),
        }))
        .await;
    }
    assert_eq!(good.ask(joined("good")).await, Outcome::Persisted);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !hub.metric("fleet_channel_sessions 1") {
        assert!(tokio::time::Instant::now() < deadline, "{}", hub.metrics.encode());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(good.ask(joined("good")).await, Outcome::Unchanged);
}

#[tokio::test]
async fn a_foreign_certificate_proves_nothing_to_the_hub_and_plain_text_is_not_spoken() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut tcp = TcpStream::connect(hub.address).await.unwrap();
    tokio::io::AsyncWriteExt::write_all(&mut tcp, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .unwrap();
    let mut rest = vec![];
    let read = tokio::io::AsyncReadExt::read_to_end(&mut tcp, &mut rest);
    tokio::time::timeout(PATIENCE, read).await.expect("closed").ok();
    hub.connect("a").await;
}

#[tokio::test]
async fn events_are_recorded_for_own_objects_only() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.member("b");
    hub.work("a", "w", &[]);
    let mut member = hub.connect("a").await;
    let event = |object, name: &str, uid: &str, reason: &str| {
        MemberMessage::Event(Event {
            object,
            work_name: name.to_owned(),
            object_uid: uid.to_owned(),
            type_: EventType::Warning,
            reason: reason.to_owned(),
            message: "m".to_owned(),
        })
    };
    member
        .say(event(
            EventObject::InternalMemberCluster,
            "",
            "imc-b",
            "InternalMemberClusterUnhealthy",
        ))
        .await;
    member
        .say(event(EventObject::Work, "w", "other", "ManifestContested"))
        .await;
    member.say(event(EventObject::Work, "w", "uid-w", "MadeUp")).await;
    member
        .say(event(EventObject::Work, "w", "uid-w", "ManifestContested"))
        .await;
    member
        .say(event(
            EventObject::InternalMemberCluster,
            "",
            "imc-a",
            "InternalMemberClusterUnhealthy",
        ))
        .await;
    assert_eq!(
        hub.events(2).await,
        ["ManifestContested m", "InternalMemberClusterUnhealthy m"]
    );
}

#[tokio::test]
async fn two_hundred_members_beat_together() {
    let hub = Hub::start().await;
    let mut members = vec![];
    for n in 0..200 {
        let name = format!("m{n}");
        hub.member(&name);
        members.push((name.clone(), hub.connect(&name).await));
    }
    let start = tokio::time::Instant::now();
    for (_, member) in &mut members {
        member.say(MemberMessage::Heartbeat).await;
    }
    for (name, _) in &members {
        hub.eventually("beat", &imc_path(name), |imc| {
            imc["status"]["agentStatus"][0].is_object()
        })
        .await;
    }
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}
