//! What users choose by annotations.

use fleet_api::events::EvictionEvent;

use super::*;

const WAIT: &str = "rollout.kubernetes-fleet.io/wait";
const TTL: &str = "rollout.kubernetes-fleet.io/ttl";

/// An eviction that waits for a budget of three.
async fn waiting() -> (Server, Agent) {
    let server = hub();
    limit(&server, json!({ "minAvailable": 3 }));
    ask_with(&server, "a", &json!({ WAIT: "10m" }));
    let mut agent = Agent::start(&server).await;
    agent.run();
    eventually("it waits", || says(&server, "a") == ["Valid=True: Eviction is valid"]).await;
    assert!(!is_going(&server, "a"));
    (server, agent)
}

#[tokio::test]
async fn who_waits_goes_when_the_budget_is_relaxed() {
    let (server, _agent) = waiting().await;
    limit(&server, json!({ "minAvailable": 2 }));
    eventually("it is executed", || is_executed(&server, "a")).await;
    assert!(is_going(&server, "a"));
}

#[tokio::test]
async fn who_waits_goes_when_enough_is_available() {
    let (server, _agent) = waiting().await;
    let writes = server.writes().len();
    bind(&server, "d", "False");
    bind(&server, "d", "True");
    eventually("it is executed", || is_executed(&server, "a")).await;
    assert_eq!(server.writes().len(), writes + 3);
}

#[tokio::test]
async fn the_next_leader_lets_it_wait_on() {
    let (server, agent) = waiting().await;
    agent.stop.cancel();
    let mut next = Agent::start(&server).await;
    let writes = server.writes().len();
    next.run();
    server.delete(&path("clusterresourceplacementdisruptionbudgets", "crp"));
    eventually("it is executed", || is_executed(&server, "a")).await;
    assert_eq!(server.writes().len(), writes + 3);
}

#[tokio::test]
async fn at_the_end_of_its_time_it_is_blocked() {
    let server = hub();
    limit(&server, json!({ "minAvailable": 3 }));
    // Made long ago, by the clock of the API server.
    let spec = json!({ "placementName": "crp", "clusterName": "a" });
    let metadata = json!({ "annotations": { WAIT: "10m" }, "creationTimestamp": "2026-01-01T00:00:00Z" });
    server.put(
        &path("clusterresourceplacementevictions", "a"),
        json!({ "metadata": metadata, "spec": spec }),
    );
    let mut agent = Agent::start(&server).await;
    agent.run();
    eventually("it is blocked", || says(&server, "a").len() == 2).await;
    assert!(says(&server, "a")[1].starts_with("Executed=False: Eviction is blocked by specified"));
}

#[tokio::test]
async fn every_annotation_that_says_nothing_usable_is_named() {
    let server = hub();
    ask_with(&server, "a", &json!({ WAIT: "soon", TTL: "never" }));
    let agent = Agent::start(&server).await;
    agent.end(&server, "a").await;
    let ignored = |annotation: &str, value: &str| EvictionEvent::BadAnnotation {
        annotation: annotation.to_owned(),
        value: value.to_owned(),
    };
    assert_eq!(
        agent.evictions.named(&Key::cluster("a")),
        [ignored(WAIT, "soon"), ignored(TTL, "never")]
    );
}

#[tokio::test]
async fn the_ended_go_when_their_time_is_over() {
    let server = hub();
    let ended = json!([{ "type": "Valid", "status": "False", "reason": "R", "message": "", "observedGeneration": 1,
                         "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
    let spec = json!({ "placementName": "crp", "clusterName": "a" });
    for (name, annotations) in [
        ("by-flag", json!({})),
        ("by-choice", json!({ TTL: "1h" })),
        ("kept", json!({ TTL: "0s" })),
        ("later", json!({ TTL: "1000000h" })),
    ] {
        server.put(
            &path("clusterresourceplacementevictions", name),
            json!({ "metadata": { "annotations": annotations }, "spec": spec, "status": { "conditions": ended } }),
        );
    }
    let mut agent = Agent::with_ttl(&server, SignedDuration::from_mins(1)).await;
    agent.run();
    let left = || -> Vec<String> {
        let all = server.all("clusterresourceplacementevictions");
        all.iter()
            .map(|e| e["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    eventually("two are gone", || left() == ["kept", "later"]).await;
    let mut keeps = Agent::start(&server).await;
    keeps.run();
    ask(&server, "b");
    eventually("b has ended", || is_executed(&server, "b")).await;
    assert_eq!(left(), ["b", "kept", "later"]);
}
