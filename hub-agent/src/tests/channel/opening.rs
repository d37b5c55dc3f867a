//! Who gets a session, and who loses one.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use super::*;

#[tokio::test]
async fn a_session_is_stored_before_it_is_accepted() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(hello("a")).await;
    let accept = member.accepted().await;
    assert_eq!(
        (accept.session, accept.imc_uid.as_str(), accept.imc_generation),
        (1, "imc-a", 1)
    );
    let imc = hub.api.get(&imc_path("a"));
    assert_eq!(
        imc["metadata"]["annotations"]["kubernetes-fleet.io/member-session"],
        "cluster-a/1/1"
    );
    // Who compares them need not ask the agents.
    let version = |of: &str| imc["metadata"]["annotations"][format!("kubernetes-fleet.io/{of}-agent-version")].clone();
    assert_eq!(version("member"), "test");
    assert_eq!(version("hub"), env!("CARGO_PKG_VERSION"));
    assert!(hub.metric("fleet_channel_sessions 1"));
    assert!(hub.metric("fleet_channel_hellos_total{answer=\"accepted\"} 1"));
}

#[tokio::test]
async fn strangers_cannot_tell_a_member_from_none() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.member("b");
    let mut answers = vec![];
    for claimed in ["a", "nobody", "UPPER", "../b"] {
        let mut stranger = hub.dial(Some("token-b")).await;
        stranger.hello(hello(claimed)).await;
        answers.push(stranger.rejected().await);
    }
    assert_eq!(answers[0].0, RejectCode::PermissionDenied);
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[2].0, RejectCode::Misbehaved, "not even a name");
    let events = hub.events(1).await;
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(
        events[0].starts_with("MemberClusterIdentityMismatch refused a connection from user-b"),
        "{events:?}"
    );
    assert_eq!(hub.api.writes(""), 0, "nothing was written");
    assert!(hub.metric("fleet_channel_hellos_total{answer=\"permission_denied\"} 2"));
}

#[tokio::test]
async fn credentials_are_needed_and_judged() {
    let hub = Hub::start().await;
    hub.member("a");
    // One that the API server still accepts, and that says itself that it is over.
    let over = format!("x.{}.y", URL_SAFE_NO_PAD.encode(r#"{"exp":1767225600}"#));
    hub.api.allow(&over, "user-a");
    for token in [None, Some("wrong"), Some(over.as_str())] {
        let mut member = hub.dial(token).await;
        member.hello(hello("a")).await;
        assert_eq!(member.rejected().await.0, RejectCode::Unauthenticated);
    }
    hub.api.set_down(true);
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(hello("a")).await;
    assert_eq!(
        member.rejected().await.0,
        RejectCode::Unavailable,
        "not the member's fault"
    );
}

#[tokio::test]
async fn hello_comes_first_and_soon() {
    let settings = ChannelSettings {
        hello_timeout: Duration::from_millis(50),
        ..ChannelSettings::default()
    };
    let hub = Hub::with(settings).await;
    hub.member("a");
    let mut silent = hub.dial(Some("token-a")).await;
    assert_eq!(
        silent.rejected().await,
        (RejectCode::Misbehaved, "no Hello in time".to_owned())
    );
    let mut rude = hub.dial(Some("token-a")).await;
    rude.epoch = 1;
    rude.say(MemberMessage::Heartbeat).await;
    assert_eq!(rude.rejected().await.1, "the first message must be Hello");
    let mut twice = hub.connect("a").await;
    twice.epoch = 0;
    twice.hello(hello("a")).await;
    assert_eq!(twice.rejected().await.1, "a second Hello on one stream");
}

#[tokio::test]
async fn a_namespace_that_goes_means_not_a_member() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.api.edit("/api/v1/namespaces/fleet-member-a", |ns| {
        ns["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(hello("a")).await;
    assert_eq!(member.rejected().await.0, RejectCode::NotMember);
}

#[tokio::test]
async fn the_later_hello_of_a_process_supersedes_its_older_stream() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut first = hub.connect("a").await;
    let second = hub.connect("a").await;
    assert_eq!(second.epoch, 2);
    assert_eq!(first.rejected().await.0, RejectCode::Superseded);
    let mut other = hub.connect("a").await;
    assert_eq!(other.ask(joined("a")).await, Outcome::Persisted);
    assert!(hub.metric("fleet_channel_sessions 1"));
}

#[tokio::test]
async fn a_newer_leader_fences_the_older_one_also_on_another_replica() {
    let hub = Hub::start().await;
    hub.member("a");
    let replica = Hub::replica(hub.api.clone(), hub.stores.clone(), ChannelSettings::default()).await;
    let mut old = hub.connect("a").await;
    old.say(MemberMessage::Heartbeat).await;
    hub.eventually("beat", &imc_path("a"), |imc| {
        imc["status"]["agentStatus"][0].is_object()
    })
    .await;
    let mut new = replica.dial(Some("token-a")).await;
    new.hello(Hello {
        lease_transitions: 2,
        ..hello("a")
    })
    .await;
    assert_eq!(new.accepted().await.session, 2);
    let fenced = HubMessage::Fenced {
        session: 2,
        lease_transitions: 2,
    };
    assert_eq!(old.next().await, Some(fenced));
    assert_eq!(old.rejected().await.0, RejectCode::Superseded);
    let mut late = hub.dial(Some("token-a")).await;
    late.hello(hello("a")).await;
    assert_eq!(
        late.rejected().await.0,
        RejectCode::Superseded,
        "an older leader is not let in"
    );
}

#[tokio::test]
async fn two_clusters_under_one_name_do_not_alternate() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut first = hub.connect("a").await;
    let mut second = hub.dial(Some("token-a")).await;
    second
        .hello(Hello {
            cluster_uid: "intruder".to_owned(),
            lease_transitions: 9,
            ..hello("a")
        })
        .await;
    assert_eq!(second.rejected().await.0, RejectCode::AlreadyConnected);
    assert_eq!(
        first.ask(joined("a")).await,
        Outcome::Persisted,
        "the first is undisturbed"
    );
    let events = hub.events(1).await;
    let named = |e: &String| e.contains("cluster intruder") && e.contains("cluster cluster-a");
    assert!(events.iter().any(named), "{events:?}");
}

#[tokio::test]
async fn losing_the_identity_or_the_membership_ends_a_session_at_once() {
    let hub = Hub::start().await;
    for (name, code) in [("a", RejectCode::PermissionDenied), ("b", RejectCode::NotMember)] {
        hub.member(name);
        let mut member = hub.connect(name).await;
        if name == "a" {
            hub.api.edit(&mc_path(name), |mc| {
                mc["spec"]["identity"]["name"] = json!("other");
            });
        } else {
            hub.api.delete(&mc_path(name));
        }
        assert_eq!(member.rejected().await.0, code);
    }
}

#[tokio::test]
async fn one_identity_may_speak_for_several_members() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.member("b");
    hub.api.edit(&mc_path("b"), |mc| {
        mc["spec"]["identity"]["name"] = json!("user-a");
    });
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(hello("b")).await;
    member.accepted().await;
    hub.connect("a").await;
}

#[tokio::test]
async fn a_token_is_judged_again_and_a_revoked_one_ends_the_session() {
    let settings = ChannelSettings {
        review_interval: Duration::from_millis(50),
        ..ChannelSettings::default()
    };
    let hub = Hub::with(settings).await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    tokio::time::sleep(Duration::from_millis(120)).await;
    hub.api.set_down(true);
    tokio::time::sleep(Duration::from_millis(120)).await;
    hub.api.set_down(false);
    assert_eq!(
        member.ask(joined("a")).await,
        Outcome::Persisted,
        "an API server that is away revokes nothing"
    );
    hub.api.revoke("token-a");
    assert_eq!(member.rejected().await.0, RejectCode::Unauthenticated);
}

#[tokio::test]
async fn a_new_internal_member_cluster_makes_the_member_come_again() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    hub.api.edit(&imc_path("a"), |imc| {
        imc["metadata"] = json!({ "name": "a", "namespace": "fleet-member-a", "uid": "imc-new", "generation": 1 });
    });
    assert_eq!(member.rejected().await.0, RejectCode::Unavailable);
    let mut again = hub.dial(Some("token-a")).await;
    again.hello(hello("a")).await;
    assert_eq!(again.accepted().await.imc_uid, "imc-new");
}

#[tokio::test]
async fn platform_labels_are_filled_in_by_the_leader() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.leading.send_replace(false);
    let mut member = hub.dial(Some("token-a")).await;
    let label = |key: &str| (key.to_owned(), "eastus".to_owned());
    let platform_labels = [label("fleet.azure.com/location"), label("env")].into();
    member
        .hello(Hello {
            platform_labels,
            ..hello("a")
        })
        .await;
    member.accepted().await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(hub.api.writes("/memberclusters/"), 0);
    hub.leading.send_replace(true);
    hub.eventually("label", &mc_path("a"), |mc| {
        mc["metadata"]["labels"] == json!({ "fleet.azure.com/location": "eastus" })
    })
    .await;
}

#[tokio::test]
async fn stopping_tells_members_to_come_back() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    hub.stop.cancel();
    assert_eq!(member.rejected().await.0, RejectCode::Unavailable);
    tokio::time::timeout(PATIENCE, hub.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_member_that_has_applied_a_newer_work_marks_a_hub_that_went_back_in_time() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[]);
    let mark = || hub.api.get(&imc_path("a"))["metadata"]["annotations"]["kubernetes-fleet.io/went-back-at"].clone();
    let knows = |generation| fleet_core::session::digest::KnownWork {
        name: "w".to_owned(),
        uid: "uid-w".to_owned(),
        generation,
        status_digest: Vec::new(),
    };
    for (generation, marked) in [(1, false), (2, true)] {
        let mut member = hub.dial(Some("token-a")).await;
        let works = vec![knows(generation)];
        member.hello(Hello { works, ..hello("a") }).await;
        member.accepted().await;
        assert_eq!(!mark().is_null(), marked, "generation {generation}");
    }
}

#[tokio::test]
async fn what_a_member_that_is_to_leave_says_about_the_hub_counts_for_nothing() {
    let hub = Hub::start().await;
    hub.member("a");
    hub.work("a", "w", &[]);
    hub.api.edit(&mc_path("a"), |mc| {
        mc["metadata"]["finalizers"] = json!(["example.com/hold"]);
        mc["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    let works = vec![fleet_core::session::digest::KnownWork {
        name: "w".to_owned(),
        uid: "uid-w".to_owned(),
        generation: 2,
        status_digest: Vec::new(),
    }];
    let mut member = hub.dial(Some("token-a")).await;
    member.hello(Hello { works, ..hello("a") }).await;
    member.accepted().await;
    let imc = hub.api.get(&imc_path("a"));
    assert!(
        imc["metadata"]["annotations"]["kubernetes-fleet.io/went-back-at"].is_null(),
        "{imc}"
    );
}
