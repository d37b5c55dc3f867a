mod hub;

use std::{fs, path::PathBuf};

use fleet_api::conditions::{Status, member_agent::Healthy};
use fleet_core::session::{Outcome, WorkRef, seen::Subject};
use fleet_proto::convert::{FromMember, HubMessage, MemberMessage, RejectCode};
use fleet_runtime::{cache, health::Health, metrics::Metrics};
use tokio::{task::JoinHandle, time::timeout};

use self::hub::{Certificates, Hub, PATIENCE, proxy, slow_line};
use super::*;
use crate::{
    applier::{Applier, Known},
    membership::{Imc, WantedState},
    properties::Collected,
};

/// A member's session with everything around it in the test's hands.
struct Member {
    seen: watch::Sender<KnownImc>,
    phase: watch::Sender<Phase>,
    health: watch::Sender<Option<Healthy>>,
    hub_watch: watch::Sender<cache::State>,
    outgoing: Arc<Outgoing>,
    properties: watch::Sender<Option<Arc<ClusterReport>>>,
    barred: watch::Receiver<Option<Barred>>,
    ready: Health,
    metrics: Metrics,
    token: PathBuf,
    running: JoinHandle<()>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.running.abort();
        let _ = fs::remove_file(&self.token);
    }
}

impl Member {
    fn start(port: u16, ca: &str) -> Self {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        fleet_runtime::tls::install();
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let token = std::env::temp_dir().join(format!("fleet-session-{}-{number}", std::process::id()));
        fs::write(&token, "first").unwrap();
        let path = token.clone();
        let environment = move |name: &str| match name {
            "HUB_SERVER_URL" => Some("https://localhost:1".into()),
            "MEMBER_CLUSTER_NAME" => Some("east".into()),
            "CONFIG_PATH" => Some(path.clone().into_os_string()),
            "HUB_KUBE_HEADER" => Some("X-Extra: yes".into()),
            _ => None,
        };
        let settings = HubSettings::read(environment, false, false).unwrap();
        let credential = Credential::new(&settings.identity);
        let imc = Arc::new(imc(1, WantedState::Join, port, ca));
        let (seen, seen_rx) = watch::channel(KnownImc::Present(imc.clone()));
        let (phase, phase_rx) = watch::channel(Phase::Joined(imc));
        let (health, health_rx) = watch::channel(Some(Healthy::Healthy));
        let (hub_watch, hub_watch_rx) = watch::channel(cache::State::Watching);
        let (properties, properties_rx) = watch::channel(Some(report("1")));
        let (barred_tx, barred) = watch::channel(None);
        let (ready, metrics) = (Health::default(), Metrics::new());
        let outgoing = Arc::new(Outgoing::default());
        let context = SessionDeps {
            settings: Arc::new(settings),
            credential,
            platform_labels: BTreeMap::from([("fleet.azure.com/location".into(), "eastus".into())]),
            cluster_uid: "cluster".into(),
            lease_transitions: 7,
            instance_id: "instance".into(),
            seen: seen_rx,
            phase: phase_rx,
            health: health_rx,
            hub_watch: hub_watch_rx,
            properties: properties_rx,
            beat: Arc::new(Notify::new()),
            outgoing: outgoing.clone(),
            applier: Arc::new(NoWorks),
            barred: barred_tx,
            check: ready.check("session"),
            measures: Measures::new(&metrics),
            clock: Clock::system(),
        };
        let running = tokio::spawn(run(context));
        Self {
            seen,
            phase,
            health,
            hub_watch,
            outgoing,
            properties,
            barred,
            ready,
            metrics,
            token,
            running,
        }
    }

    async fn wait_ready(&self, ready: bool) {
        let became = async {
            while self.ready.report().0 != ready {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, became).await.expect("readiness in time");
    }
}

fn imc(generation: i64, wanted: WantedState, port: u16, ca: &str) -> Imc {
    use base64::{Engine, engine::general_purpose::STANDARD};
    Imc {
        wanted,
        period: Duration::from_secs(1),
        endpoint: Some(format!("localhost:{port}")),
        ca: Some(STANDARD.encode(ca)),
        ..Imc::for_tests("u", generation)
    }
}

fn report(nodes: &str) -> Arc<ClusterReport> {
    let mut collected = Collected::default();
    collected.set(
        "nodes",
        nodes,
        jiff::Timestamp::UNIX_EPOCH + SignedDuration::from_secs(1),
    );
    Arc::new(ClusterReport {
        collected: Some(collected),
        conditions: vec![],
    })
}

async fn hub() -> (Hub, Member) {
    let certificates = Certificates::new();
    let hub = Hub::listen(&certificates).await;
    let member = Member::start(hub.address.port(), &certificates.ca_pem);
    (hub, member)
}

fn joined(message: &FromMember) -> Option<Status> {
    match &message.body {
        MemberMessage::AgentStatus(status) => Some(status.conditions[0].status),
        _ => None,
    }
}

#[tokio::test]
async fn a_session_begins_with_hello_then_heartbeat_status_and_properties() {
    let (mut hub, member) = hub().await;
    let mut peer = hub.peer().await;
    assert_eq!(peer.metadata.get("authorization").unwrap(), "Bearer first");
    assert_eq!(peer.metadata.get("x-extra").unwrap(), "yes");
    assert!(!member.ready.report().0);
    let hello = peer.accept(5).await;
    assert_eq!((hello.member_cluster.as_str(), hello.lease_transitions), ("east", 7));
    assert_eq!(
        (hello.cluster_uid.as_str(), hello.instance_id.as_str()),
        ("cluster", "instance")
    );
    assert_eq!(hello.platform_labels["fleet.azure.com/location"], "eastus");
    member.wait_ready(true).await;

    let (first, second, third) = (peer.next().await, peer.next().await, peer.next().await);
    assert_eq!(first.body, MemberMessage::Heartbeat);
    assert_eq!(joined(&second), Some(Status::True));
    assert!(matches!(&third.body, MemberMessage::Properties(p) if p.properties["nodes"].value == "1"));
    assert!(first.epoch == 5 && first.seq < second.seq && second.seq < third.seq);
    peer.ack(&second, Outcome::Persisted).await;
    peer.ack(&third, Outcome::Persisted).await;

    // Heartbeats go on by themselves; changes come at once.
    let mut events = 0;
    let mut beats = 0;
    while beats < 2 {
        match peer.next().await.body {
            MemberMessage::Heartbeat => beats += 1,
            MemberMessage::Event(_) => events += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(events, 2, "joined and healthy, once each");
    member.properties.send_replace(Some(report("2")));
    assert!(matches!(peer.report().await.body, MemberMessage::Properties(p) if p.properties["nodes"].value == "2"));
    member.health.send_replace(Some(Healthy::Unhealthy { code: 500 }));
    assert!(
        matches!(peer.report().await.body, MemberMessage::AgentStatus(s) if s.conditions[1].status == Status::False)
    );
    assert!(member.metrics.encode().contains("fleet_member_session_accepted 1\n"));
}

#[tokio::test]
async fn what_was_not_answered_is_sent_again_after_a_break() {
    let (mut hub, member) = hub().await;
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    let status = peer.report().await;
    peer.ack(&status, Outcome::Persisted).await;
    let properties = peer.report().await;
    assert!(matches!(properties.body, MemberMessage::Properties(_)));
    // The stream is cut before the hub could answer; meanwhile there is news.
    drop(peer);
    member.wait_ready(false).await;
    member.properties.send_replace(Some(report("2")));

    let mut peer = hub.peer().await;
    peer.accept(2).await;
    assert!(matches!(peer.next().await.body, MemberMessage::Heartbeat));
    let again = peer.report().await;
    let mut rest = [again, peer.report().await];
    rest.sort_by_key(|m| matches!(m.body, MemberMessage::Properties(_)));
    assert_eq!(joined(&rest[0]), Some(Status::True));
    assert!(matches!(&rest[1].body, MemberMessage::Properties(p) if p.properties["nodes"].value == "2"));
    assert!(rest.iter().all(|m| m.epoch == 2));

    // What the hub cannot take now is kept.
    peer.ack(&rest[1], Outcome::RetryLater).await;
    peer.ack(&rest[0], Outcome::Unchanged).await;
    assert!(matches!(peer.report().await.body, MemberMessage::Properties(_)));
}

#[tokio::test]
async fn leaving_ends_in_silence() {
    let (mut hub, member) = hub().await;
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    for _ in 0..2 {
        let message = peer.report().await;
        peer.ack(&message, Outcome::Unchanged).await;
    }
    let ca = member.seen.borrow().imc().unwrap().clone();
    let leave = Arc::new(Imc {
        generation: 2,
        wanted: WantedState::Leave,
        ..(*ca).clone()
    });
    member.seen.send_replace(KnownImc::Present(leave.clone()));
    member.phase.send_replace(Phase::Stopped(leave));
    let stopped = peer.report().await;
    assert!(matches!(
        stopped.body,
        MemberMessage::ApplierStopped { imc_generation: 2, .. }
    ));
    peer.ack(&stopped, Outcome::Persisted).await;
    let left = peer.report().await;
    assert_eq!(joined(&left), Some(Status::False));
    assert!(
        matches!(peer.next().await.body, MemberMessage::Heartbeat),
        "until it is stored"
    );
    peer.ack(&left, Outcome::Persisted).await;
    let silent = async {
        loop {
            // At most what was on its way, and the Event.
            match peer.next().await.body {
                MemberMessage::Event(event) => assert_eq!(event.reason, "InternalMemberClusterLeft"),
                MemberMessage::Heartbeat => panic!("a heartbeat after leaving"),
                other => panic!("{other:?}"),
            }
        }
    };
    assert!(timeout(Duration::from_millis(2500), silent).await.is_err());

    // The namespace goes: the session ends and nobody knocks until there is a new membership.
    member.seen.send_replace(KnownImc::Absent);
    member.phase.send_replace(Phase::Idle);
    assert!(hub.is_alone(Duration::from_secs(1)).await);
    let again = Arc::new(Imc {
        uid: "v".into(),
        ..(*ca).clone()
    });
    member.seen.send_replace(KnownImc::Present(again.clone()));
    member.phase.send_replace(Phase::Joined(again));
    let mut peer = hub.peer().await;
    peer.accept(2).await;
    assert!(matches!(peer.report().await.body, MemberMessage::AgentStatus(s) if s.imc_uid == "v"));
}

#[tokio::test]
async fn a_refused_member_knocks_again_and_pauses_only_when_it_must() {
    let (mut hub, member) = hub().await;
    for (code, bars, reason) in [
        (RejectCode::Unauthenticated, false, "unauthenticated"),
        (RejectCode::PermissionDenied, false, "permission_denied"),
        (RejectCode::Unavailable, false, "unavailable"),
        (RejectCode::NotMember, true, "not_member"),
    ] {
        let mut peer = hub.peer().await;
        peer.hello().await;
        peer.reject(code).await;
        let counted = format!("fleet_member_session_ended_total{{reason=\"{reason}\"}} 1\n");
        let noticed = async {
            while !member.metrics.encode().contains(&counted) {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, noticed).await.expect("counted in time");
        assert_eq!(member.barred.borrow().is_some(), bars, "{code:?}");
    }
    assert!(member.ready.report().1.contains("NotMember: because"));
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    member.wait_ready(true).await;
    assert!(member.barred.borrow().is_none(), "accepted: it may apply again");

    peer.say(HubMessage::Fenced {
        session: 9,
        lease_transitions: 7,
    })
    .await;
    member.wait_ready(false).await;
    let why = member.barred.borrow().clone().unwrap().why;
    assert!(why.contains("newer session (9"), "{why}");
    let mut peer = hub.peer().await;
    peer.accept(10).await;
    member.wait_ready(true).await;
    assert!(member.barred.borrow().is_none());
}

/// What a member meets that was removed while nobody could reach it: its MemberCluster is gone, and its rights with it.
#[tokio::test]
async fn a_member_that_may_neither_speak_nor_read_pauses() {
    let (mut hub, member) = hub().await;
    member.hub_watch.send_replace(cache::State::Failing {
        reason: cache::Reason::Forbidden,
        message: "forbidden".to_owned(),
    });
    let mut peer = hub.peer().await;
    peer.hello().await;
    peer.reject(RejectCode::PermissionDenied).await;
    let mut barred = member.barred.clone();
    let why = timeout(PATIENCE, barred.wait_for(Option::is_some)).await;
    assert!(why.is_ok_and(|barred| barred.is_ok()));
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    timeout(PATIENCE, barred.wait_for(Option::is_none))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn reports_that_were_forgotten_on_their_way_take_no_room() {
    let (mut hub, member) = hub().await;
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    let mut answered = 0;
    while answered < 2 * fleet_proto::limits::IN_FLIGHT {
        let work = WorkRef {
            name: format!("w{answered}"),
            uid: "u".to_owned(),
        };
        let subject = Subject::Claim(work.name.clone());
        member.outgoing.report(subject.clone(), MemberMessage::Claim(work));
        let claim = loop {
            let message = peer.report().await;
            if matches!(message.body, MemberMessage::Claim(_)) {
                break message;
            }
            peer.ack(&message, Outcome::Persisted).await;
        };
        // The watch was faster than the answer.
        member.outgoing.forget(&subject);
        peer.ack(&claim, Outcome::Persisted).await;
        answered += 1;
    }
}

#[tokio::test]
async fn a_false_hub_never_sees_a_credential() {
    let (real, foreign) = (Certificates::new(), Certificates::new());
    let mut hub = Hub::listen(&foreign).await;
    let member = Member::start(hub.address.port(), &real.ca_pem);
    assert!(hub.is_alone(Duration::from_secs(2)).await, "not even a request");
    let text = member.ready.report().1;
    assert!(
        text.contains("could not connect") && text.contains("certificate"),
        "{text}"
    );
    assert!(member.barred.borrow().is_none(), "it goes on applying");

    // The hub announces its real endpoint: no waiting.
    let mut hub = Hub::listen(&real).await;
    let next = Arc::new(imc(1, WantedState::Join, hub.address.port(), &real.ca_pem));
    member.seen.send_replace(KnownImc::Present(next));
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    member.wait_ready(true).await;
}

#[tokio::test]
async fn a_rotated_token_is_used_at_the_next_attempt() {
    let (mut hub, member) = hub().await;
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    let in_an_hour = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000);
    fs::write(&member.token, "second").unwrap();
    fs::File::options()
        .write(true)
        .open(&member.token)
        .unwrap()
        .set_modified(in_an_hour)
        .unwrap();
    peer.reject(RejectCode::Unauthenticated).await;
    let mut peer = hub.peer().await;
    assert_eq!(peer.metadata.get("authorization").unwrap(), "Bearer second");
    // No token at all: nothing is sent without one.
    fs::remove_file(&member.token).unwrap();
    peer.hello().await;
    peer.reject(RejectCode::Unauthenticated).await;
    assert!(hub.is_alone(Duration::from_secs(1)).await);
    assert!(member.ready.report().1.contains("no credential for the hub"));
    fs::write(&member.token, "third").unwrap();
    assert_eq!(hub.peer().await.metadata.get("authorization").unwrap(), "Bearer third");
}

#[tokio::test]
async fn a_half_open_connection_is_noticed_in_seconds() {
    let certificates = Certificates::new();
    let mut hub = Hub::listen(&certificates).await;
    let (freeze, frozen) = watch::channel(false);
    let address = proxy(hub.address, frozen).await;
    let member = Member::start(address.port(), &certificates.ca_pem);
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    member.wait_ready(true).await;
    freeze.send_replace(true);
    let began = Instant::now();
    member.wait_ready(false).await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    freeze.send_replace(false);
    let mut peer = hub.peer().await;
    peer.accept(2).await;
    member.wait_ready(true).await;
}

#[tokio::test]
async fn a_session_stays_on_a_line_slower_than_the_pings() {
    let certificates = Certificates::new();
    let mut hub = Hub::listen(&certificates).await;
    // With a period of a second pings are a third of one apart, and their answers take longer than that.
    let address = slow_line(hub.address, Duration::from_millis(300)).await;
    let member = Member::start(address.port(), &certificates.ca_pem);
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    member.wait_ready(true).await;
    let ended = async {
        while member.ready.report().0 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(
        timeout(Duration::from_secs(3), ended).await.is_err(),
        "{:?}",
        member.ready.report()
    );
}

#[tokio::test]
async fn a_hub_that_never_answers_is_left_alone_and_messages_out_of_order_change_nothing() {
    let (mut hub, member) = hub().await;
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    let status = peer.report().await;
    // An answer to something that was never sent, and something that only a newer hub would say.
    let mut stray = status.clone();
    stray.seq = 999;
    peer.ack(&stray, Outcome::Persisted).await;
    peer.send
        .send(Ok(fleet_proto::pb::HubMessage { body: None }))
        .await
        .unwrap();
    peer.ack(&status, Outcome::Persisted).await;
    for _ in 0..2 {
        peer.next().await;
    }
    assert!(member.ready.report().0);
}

#[tokio::test]
async fn another_period_takes_effect_at_once() {
    let (mut hub, member) = hub().await;
    let before = member.seen.borrow().imc().unwrap().clone();
    let slow = Imc {
        period: Duration::from_mins(10),
        ..(*before).clone()
    };
    member.seen.send_replace(KnownImc::Present(Arc::new(slow)));
    let mut peer = hub.peer().await;
    peer.accept(1).await;
    assert!(matches!(peer.next().await.body, MemberMessage::Heartbeat));
    for _ in 0..2 {
        let message = peer.report().await;
        peer.ack(&message, Outcome::Unchanged).await;
    }
    member.seen.send_replace(KnownImc::Present(before));
    let beat = timeout(Duration::from_secs(3), peer.next())
        .await
        .expect("within the new period");
    assert!(matches!(beat.body, MemberMessage::Heartbeat));
}

/// An applier without Works: these tests are about the session.
struct NoWorks;

impl Applier for NoWorks {
    fn open(&self, _: &str, _: fleet_core::session::recovery::Recovery) {}

    fn close(&self) -> futures::future::BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn known(&self) -> Known {
        Known::default()
    }

    fn resend(&self, _: Vec<String>) {}

    fn answered(&self, _: &fleet_proto::convert::Ack) {}
}
