//! What a member says about itself, and how often it is written.

use fleet_api::cluster::{PropertyValue, ResourceUsage};
use fleet_core::session::cluster::PropertiesReport;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time};

use super::*;

/// Whole seconds as the API has them.
fn beat(object: &Value) -> Option<Timestamp> {
    object["status"]["agentStatus"][0]["lastReceivedHeartbeat"]
        .as_str()?
        .parse()
        .ok()
}

/// An entry on the MemberCluster, as the membership controller copies it; beside another agent's and a field from the
/// future.
fn copy(hub: &Hub, name: &str) {
    hub.api.edit(&mc_path(name), |mc| {
        mc["status"] = json!({ "conditions": [], "fromTheFuture": 7, "agentStatus": [
            { "type": "MemberAgent", "conditions": [], "lastReceivedHeartbeat": "2020-01-01T00:00:00Z", "future": 1 },
            { "type": "ServiceExportImportAgent", "conditions": [], "lastReceivedHeartbeat": "2020-01-01T00:00:00Z" },
        ] });
    });
}

fn properties(name: &str, cpu: &str, observed_at: Timestamp) -> MemberMessage {
    let map = |q: &str| [("cpu".to_owned(), Quantity(q.to_owned()))].into();
    MemberMessage::Properties(PropertiesReport {
        imc_uid: format!("imc-{name}"),
        imc_generation: 1,
        properties: [(
            "p".to_owned(),
            PropertyValue {
                value: "1".to_owned(),
                observation_time: Time(observed_at),
            },
        )]
        .into(),
        usage: Some(ResourceUsage {
            capacity: map("4"),
            allocatable: map("4"),
            available: map(cpu),
            observation_time: Some(Time(observed_at)),
        }),
        namespaces: None,
        conditions: vec![
            condition("Joined", Status::False),
            condition("ClusterPropertyCollectionSucceeded", Status::True),
        ],
        collected: true,
    })
}

#[tokio::test]
async fn the_first_beat_reaches_the_internal_member_cluster() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    member.say(MemberMessage::Heartbeat).await;
    hub.eventually("beat", &imc_path("a"), |imc| beat(imc).is_some()).await;
    assert_eq!(
        hub.api.writes("/memberclusters/"),
        0,
        "there is no entry to put a time on yet"
    );
}

#[tokio::test]
async fn a_beat_that_changes_nothing_is_one_write_of_the_member_cluster() {
    let hub = Hub::start().await;
    hub.member("a");
    copy(&hub, "a");
    let mut member = hub.connect("a").await;
    member.say(MemberMessage::Heartbeat).await;
    let now = Clock::system().now();
    hub.eventually("beat", &mc_path("a"), |mc| {
        beat(mc).is_some_and(|at| now.duration_since(at) < jiff::SignedDuration::from_secs(5))
    })
    .await;
    assert_eq!(hub.api.writes("/internalmemberclusters/a/status"), 0);
    assert_eq!(hub.api.writes("/memberclusters/a/status"), 1);
    let mc = hub.api.get(&mc_path("a"));
    assert_eq!(
        mc["status"]["agentStatus"][0]["future"], 1,
        "fields that we do not know stay"
    );
    assert_eq!(
        mc["status"]["agentStatus"][1]["lastReceivedHeartbeat"],
        "2020-01-01T00:00:00Z"
    );
    assert_eq!(mc["status"]["fromTheFuture"], 7);
}

#[tokio::test]
async fn a_burst_of_beats_counts_once() {
    let hub = Hub::start().await;
    hub.member("a");
    copy(&hub, "a");
    let mut member = hub.connect("a").await;
    for _ in 0..100 {
        member.say(MemberMessage::Heartbeat).await;
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        hub.api.writes("/memberclusters/a/status") <= 2,
        "{}",
        hub.api.writes("")
    );
}

#[tokio::test]
async fn every_fifth_beat_refreshes_the_internal_member_cluster() {
    let hub = Hub::start().await;
    hub.member("a");
    copy(&hub, "a");
    let mut member = hub.connect("a").await;
    for _ in 0..7 {
        member.say(MemberMessage::Heartbeat).await;
        tokio::time::sleep(Duration::from_millis(1_050)).await;
    }
    assert_eq!(hub.api.writes("/internalmemberclusters/a/status"), 1);
    assert_eq!(hub.api.writes("/memberclusters/a/status"), 6);
}

#[tokio::test]
async fn a_replica_that_does_not_lead_writes_no_member_cluster() {
    let hub = Hub::start().await;
    hub.member("a");
    copy(&hub, "a");
    hub.leading.send_replace(false);
    let mut member = hub.connect("a").await;
    member.say(MemberMessage::Heartbeat).await;
    hub.eventually("beat", &imc_path("a"), |imc| beat(imc).is_some()).await;
    assert_eq!(hub.api.writes("/memberclusters/"), 0);
}

#[tokio::test]
async fn content_is_stored_before_it_is_acknowledged() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    assert_eq!(member.ask(joined("a")).await, Outcome::Persisted);
    let imc = hub.api.get(&imc_path("a"));
    let entry = &imc["status"]["agentStatus"][0];
    assert_eq!(
        (entry["type"].as_str(), entry["conditions"][0]["type"].as_str()),
        (Some("MemberAgent"), Some("Joined"))
    );
    assert!(beat(&imc).is_some(), "a report is a sign of life");
    let before = hub.api.writes("");
    assert_eq!(
        member.ask(joined("a")).await,
        Outcome::Unchanged,
        "the same again changes nothing"
    );
    assert_eq!(hub.api.writes("") - before, 0);

    let future = Clock::system().now() + jiff::SignedDuration::from_hours(9);
    assert_eq!(member.ask(properties("a", "3", future)).await, Outcome::Persisted);
    let imc = hub.api.get(&imc_path("a"));
    assert_eq!(imc["status"]["resourceUsage"]["available"]["cpu"], "3");
    let observed: Timestamp = imc["status"]["properties"]["p"]["observationTime"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(observed <= Clock::system().now(), "never in the hub's future");
    let types: Vec<_> = imc["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].clone())
        .collect();
    assert_eq!(
        types,
        ["ClusterPropertyCollectionSucceeded"],
        "what the hub owns is refused"
    );
}

#[tokio::test]
async fn transition_times_stay_while_the_status_does() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    member.ask(joined("a")).await;
    hub.api.edit(&imc_path("a"), |imc| {
        imc["status"]["agentStatus"][0]["conditions"][0]["lastTransitionTime"] = json!("2020-01-01T00:00:00Z");
    });
    let MemberMessage::AgentStatus(mut status) = joined("a") else {
        unreachable!()
    };
    status.conditions[0].message = "other words".to_owned();
    assert_eq!(member.ask(MemberMessage::AgentStatus(status)).await, Outcome::Persisted);
    let stored = hub.api.get(&imc_path("a"))["status"]["agentStatus"][0]["conditions"][0].clone();
    assert_eq!(stored["lastTransitionTime"], "2020-01-01T00:00:00Z");
    assert_eq!(stored["message"], "other words");
}

#[tokio::test]
async fn a_status_that_somebody_clears_is_written_again() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    member.ask(joined("a")).await;
    member.ask(properties("a", "3", Clock::system().now())).await;
    hub.api.edit(&imc_path("a"), |imc| imc["status"] = json!({}));
    hub.eventually("repair", &imc_path("a"), |imc| {
        imc["status"]["agentStatus"][0]["conditions"][0]["type"] == "Joined"
            && imc["status"]["resourceUsage"]["available"]["cpu"] == "3"
    })
    .await;
}

#[tokio::test]
async fn reports_for_another_internal_member_cluster_or_the_future_are_refused() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    let MemberMessage::AgentStatus(status) = joined("a") else {
        unreachable!()
    };
    let other = AgentReport {
        imc_uid: "other".to_owned(),
        ..status.clone()
    };
    assert_eq!(
        member.ask(MemberMessage::AgentStatus(other)).await,
        Outcome::UidMismatch
    );
    let ahead = AgentReport {
        imc_generation: 9,
        ..status
    };
    assert_eq!(member.ask(MemberMessage::AgentStatus(ahead)).await, Outcome::Invalid);
    assert_eq!(
        hub.api.get(&imc_path("a"))["status"]["agentStatus"][0]["conditions"],
        Value::Null
    );
}

#[tokio::test]
async fn while_the_api_server_is_away_nothing_is_acknowledged_and_nothing_is_lost() {
    let hub = Hub::start().await;
    hub.member("a");
    let mut member = hub.connect("a").await;
    hub.api.set_down(true);
    member.say(joined("a")).await;
    member.say(MemberMessage::Heartbeat).await;
    let silence = tokio::time::timeout(Duration::from_millis(400), member.receive.message()).await;
    assert!(silence.is_err(), "{silence:?}");
    hub.api.set_down(false);
    assert_eq!(member.ack().await.outcome, Outcome::Persisted);
    assert!(beat(&hub.api.get(&imc_path("a"))).is_some());
}
