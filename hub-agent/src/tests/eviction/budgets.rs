//! What evictions cost, and that budgets hold whatever the caches show.

use fleet_testkit::Fault;

use super::*;

const EVICTION: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacementevictions/a/status";

#[tokio::test(start_paused = true)]
async fn an_eviction_is_recorded_then_carried_out_then_told() {
    let server = hub();
    let agent = Agent::start(&server).await;
    ask(&server, "a");
    eventually("the eviction", || agent.stores.evictions.len() == 1).await;
    let reads = server.reads();
    agent.end(&server, "a").await;
    assert_eq!(
        server.written(),
        [
            format!("PATCH {EVICTION}"),
            format!("DELETE {}", binding("a")),
            format!("PATCH {EVICTION}"),
        ]
    );
    assert_eq!(server.reads() - reads, 1, "the budget");
    assert_eq!(
        says(&server, "a"),
        [
            "Valid=True: Eviction is valid".to_owned(),
            format!("Executed=True: {NO_BUDGET}"),
        ]
    );
    assert!(is_going(&server, "a"));
    let metrics = agent.metrics.encode();
    assert!(
        metrics.contains(r#"fleet_workload_eviction_complete{name="a",isCompleted="true",isValid="true"} "#),
        "{metrics}"
    );
    agent.pass("a").await.unwrap();
    assert_eq!(server.writes().len(), 3, "an end is an end");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_carried_out_costs_one_write() {
    let server = hub();
    limit(&server, json!({ "minAvailable": 3 }));
    for cluster in ["a", "nowhere"] {
        ask(&server, cluster);
    }
    let agent = Agent::start(&server).await;
    agent.end(&server, "a").await;
    agent.end(&server, "nowhere").await;
    assert_eq!(server.writes().len(), 2, "{:?}", server.writes());
    assert_eq!(
        says(&server, "a")[1],
        "Executed=False: Eviction is blocked by specified \
        ClusterResourcePlacementDisruptionBudget, availablePlacements: 3, totalPlacements: 3"
    );
    assert_eq!(
        says(&server, "nowhere"),
        ["Valid=False: Failed to find scheduler decision for placement in cluster targeted by eviction"]
    );
    assert!(!is_going(&server, "a"));
    let metrics = agent.metrics.encode();
    for labels in [
        r#"name="a",isCompleted="true",isValid="true""#,
        r#"name="nowhere",isCompleted="true",isValid="false""#,
    ] {
        assert!(metrics.contains(labels), "{metrics}");
    }
    server.delete(&path("clusterresourceplacementevictions", "a"));
    eventually("no series of what is gone", || {
        !agent.metrics.encode().contains(r#"name="a""#)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_no_watch_has_shown_yet_is_not_called_missing() {
    let server = Server::new();
    let agent = Agent::start(&server).await;
    server.lag();
    let full = hub();
    for plural in ["clusterresourceplacements", "clusterresourcebindings"] {
        for object in full.all(plural) {
            let name = object["metadata"]["name"].as_str().unwrap();
            server.put(&path(plural, name), object.clone());
        }
    }
    ask(&server, "a");
    agent.see(&server, "a");
    agent.end(&server, "a").await;
    assert!(is_executed(&server, "a"), "{:?}", says(&server, "a"));
}

#[tokio::test(start_paused = true)]
async fn two_quick_evictions_keep_the_budget_while_watches_lag() {
    let server = hub();
    limit(&server, json!({ "maxUnavailable": 1 }));
    for cluster in ["a", "b"] {
        ask(&server, cluster);
    }
    let agent = Agent::start(&server).await;
    server.lag();
    agent.end(&server, "a").await;
    agent.end(&server, "b").await;
    assert!(is_executed(&server, "a") && !is_executed(&server, "b"));
    assert!(!is_going(&server, "b"));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_whose_answer_was_lost_counts() {
    let server = hub();
    limit(&server, json!({ "maxUnavailable": 1 }));
    for cluster in ["a", "b"] {
        ask(&server, cluster);
    }
    let agent = Agent::start(&server).await;
    server.lag();
    server.fail(
        Fault::new("clusterresourcebindings", 500)
            .of("DELETE")
            .times(1)
            .done_all_the_same(),
    );
    assert!(agent.pass("a").await.is_err());
    let failing = r#"fleet_workload_eviction_complete{name="a",isCompleted="false",isValid="unknown"} "#;
    assert!(agent.metrics.encode().contains(failing), "{}", agent.metrics.encode());
    agent.end(&server, "b").await;
    assert!(!is_executed(&server, "b"), "{:?}", says(&server, "b"));
    agent.end(&server, "a").await;
    assert!(is_executed(&server, "a"));
    assert!(!agent.metrics.encode().contains(failing));
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_counts_what_the_last_has_done_although_its_watches_lag() {
    // After the record, after the deletion, after the outcome.
    for writes in 1..=3 {
        let server = hub();
        limit(&server, json!({ "maxUnavailable": 1 }));
        for cluster in ["a", "b"] {
            ask(&server, cluster);
        }
        let (last, next) = (Agent::start(&server).await, Agent::start(&server).await);
        server.lag();
        server.fail(Fault::new("", 500).writes().after(writes));
        _ = last.pass("a").await;
        last.stop.cancel();
        server.recover();
        assert_eq!(server.written().len(), writes);
        next.end(&server, "b").await;
        next.end(&server, "a").await;
        let executed = ["a", "b"].map(|eviction| is_executed(&server, eviction));
        assert_eq!(
            executed,
            [true, false],
            "after {writes} writes: {:?}",
            says(&server, "b")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_term_is_over_deletes_nothing() {
    let server = hub();
    ask(&server, "a");
    let last = Agent::start(&server).await;
    last.stop.cancel();
    last.pass("a").await.unwrap();
    assert!(!is_going(&server, "a"));
    assert_eq!(status(&server, "a").target.unwrap().message, NO_BUDGET);
    Agent::start(&server).await.end(&server, "a").await;
    assert!(is_going(&server, "a") && is_executed(&server, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_cannot_be_read_lets_nothing_go() {
    let server = hub();
    ask(&server, "a");
    let agent = Agent::start(&server).await;
    for code in [403, 404, 429, 500] {
        server.fail(Fault::new("disruptionbudgets/crp", code).of("GET"));
        assert!(agent.pass("a").await.is_err(), "{code}");
        assert!(server.writes().is_empty(), "{code}");
        server.recover();
    }
    agent.end(&server, "a").await;
    assert!(is_executed(&server, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_no_watch_has_shown_yet_holds() {
    let server = hub();
    ask(&server, "a");
    let agent = Agent::start(&server).await;
    server.lag();
    limit(&server, json!({ "maxUnavailable": 0 }));
    agent.end(&server, "a").await;
    assert!(!is_going(&server, "a"));
}
