//! Killed and refused at every request.

use fleet_testkit::Fault;

use super::*;

/// Deletes and restores everything about one cluster, as the rest of the fleet does: the binding goes, and a new one comes.
fn replace(server: &Server, cluster: &str) {
    if is_going(server, cluster) && server.get(&binding(cluster)).is_some() {
        server.edit(&binding(cluster), |object| object["metadata"]["finalizers"] = json!([]));
        bind(server, cluster, "True");
    }
}

/// How the eviction of `a` ends when something goes wrong at one write, and whoever looks next is this agent or a new one.
async fn story(at: usize, code: u16, lost: bool, restart: bool, replaced: bool) {
    let case = format!("write {at}, {code}, lost {lost}, restart {restart}, replaced {replaced}");
    let server = hub();
    ask(&server, "a");
    let agent = Agent::start(&server).await;
    let fault = Fault::new("", code).writes().after(at).times(1);
    server.fail(if lost { fault.done_all_the_same() } else { fault });
    _ = agent.pass("a").await;
    if replaced {
        replace(&server, "a");
    }
    let next = if restart { Agent::start(&server).await } else { agent };
    next.end(&server, "a").await;
    let deleted_before = at > 1 || (at == 1 && lost);
    if replaced && deleted_before {
        assert!(!is_going(&server, "a"), "the new binding is not deleted for it: {case}");
    } else {
        assert!(is_going(&server, "a"), "{case}");
    }
    assert_eq!(says(&server, "a")[1], format!("Executed=True: {NO_BUDGET}"), "{case}");
    let deleted = server
        .written()
        .iter()
        .filter(|line| line.starts_with("DELETE"))
        .count();
    assert!(deleted <= 1, "{case}: {:?}", server.written());
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_it_is_carried_out_once_and_ends_as_decided_first() {
    for at in 0..3 {
        for code in [409, 429, 500] {
            for (lost, restart) in [(false, false), (false, true), (true, false), (true, true)] {
                story(at, code, lost, restart, false).await;
                story(at, code, lost, restart, true).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_changes_before_its_deletion_is_looked_at_again() {
    let server = hub();
    // The first of a term lists what it decides from; this is about the ones after it.
    for cluster in ["a", "b"] {
        ask(&server, cluster);
    }
    let agent = Agent::start(&server).await;
    agent.end(&server, "b").await;
    server.forget_writes();
    server.lag();
    server.edit(&binding("a"), |object| {
        object["metadata"]["labels"]["touched"] = json!("yes");
    });
    let first = agent.pass("a");
    let show = async {
        eventually("a refused deletion", || server.writes().iter().any(|w| w.code == 409)).await;
        server.catch_up();
    };
    let (outcome, ()) = tokio::join!(first, show);
    assert!(matches!(outcome, Ok(Next::At(_))), "decided anew at once");
    agent.end(&server, "a").await;
    let deletions = server
        .written()
        .iter()
        .filter(|line| line.starts_with("DELETE"))
        .count();
    assert_eq!((deletions, is_executed(&server, "a")), (1, true));
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_is_taken_back_deletes_nothing() {
    let server = hub();
    ask(&server, "a");
    let agent = Agent::start(&server).await;
    server.lag();
    server.delete(&path("clusterresourceplacementevictions", "a"));
    agent.pass("a").await.unwrap();
    assert!(!is_going(&server, "a"));
    server.catch_up();
    eventually("the eviction is gone", || agent.stores.evictions.is_empty()).await;
    agent.pass("a").await.unwrap();
    assert!(!is_going(&server, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_many_that_have_ended_writes_nothing() {
    let server = hub();
    limit(&server, json!({ "maxUnavailable": 0 }));
    let said = |kind: &str, status: &str| {
        json!({ "type": kind, "status": status, "reason": "R", "message": "", "observedGeneration": 1,
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    for n in 0..100 {
        let conditions = match n % 3 {
            0 => json!([said("Valid", "False")]),
            1 => json!([said("Valid", "True"), said("Executed", "True")]),
            _ => json!([said("Valid", "True"), said("Executed", "False")]),
        };
        server.put(
            &path("clusterresourceplacementevictions", &format!("old-{n}")),
            json!({ "spec": { "placementName": "crp", "clusterName": "a" }, "status": { "conditions": conditions } }),
        );
    }
    let mut agent = Agent::start(&server).await;
    agent.run();
    // The one that comes last shows that all the others have been looked at.
    ask(&server, "b");
    eventually("the last one has ended", || !says(&server, "b").is_empty()).await;
    assert_eq!(server.writes().len(), 1, "{:?}", server.writes());
    let series = agent.metrics.encode();
    assert_eq!(series.matches("fleet_workload_eviction_complete{").count(), 101);
}
