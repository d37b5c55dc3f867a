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

/// The agent is shown that a cluster is available, or not.
async fn report(agent: &Agent, server: &Server, cluster: &str, available: &str) {
    bind(server, cluster, available);
    let version = server.get(&binding(cluster)).unwrap()["metadata"]["resourceVersion"].clone();
    let key = Key::cluster(format!("crp-{cluster}"));
    eventually("the report", || {
        let found = agent.bindings.get(&key);
        found.is_some_and(|found| json!(found.metadata.resource_version) == version)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_recovers_while_its_eviction_is_recorded_is_asked_of_the_budget() {
    let server = hub();
    limit(&server, json!({ "maxUnavailable": 0 }));
    server.edit(&binding("a"), |object| {
        let said = &mut object["status"]["conditions"][0];
        said["status"] = json!("False");
        said["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    });
    ask(&server, "a");
    let agent = Agent::start(&server).await;
    let outcome = agent.pass_but(&server, "a", report(&agent, &server, "a", "True"));
    assert!(matches!(outcome.await, Ok(Next::At(_))), "decided anew at once");
    let recorded = status(&server, "a").target.unwrap();
    assert_eq!(recorded.message, "Eviction is allowed, placement has failed");
    agent.end(&server, "a").await;
    assert!(!is_going(&server, "a") && !is_executed(&server, "a"));
    assert_eq!(status(&server, "a").target, None, "nothing is deleted for it any more");
}

#[tokio::test(start_paused = true)]
async fn another_cluster_that_goes_away_while_an_eviction_is_recorded_counts() {
    for restart in [false, true] {
        let server = hub();
        limit(&server, json!({ "minAvailable": 2 }));
        ask(&server, "a");
        let mut agent = Agent::start(&server).await;
        let outcome = agent.pass_but(&server, "a", report(&agent, &server, "c", "False"));
        assert!(matches!(outcome.await, Ok(Next::At(_))), "decided anew at once");
        assert!(status(&server, "a").target.is_some());
        if restart {
            agent = Agent::start(&server).await;
        }
        agent.end(&server, "a").await;
        assert!(!is_going(&server, "a"));
        let blocked = "Executed=False: Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, \
                       availablePlacements: 2, totalPlacements: 3";
        assert_eq!(says(&server, "a")[1], blocked, "restart {restart}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_is_taken_back_while_it_is_recorded_deletes_nothing() {
    let server = hub();
    ask(&server, "a");
    let agent = Agent::start(&server).await;
    let taken_back = async {
        server.delete(&path("clusterresourceplacementevictions", "a"));
        eventually("the eviction is gone", || agent.stores.evictions.is_empty()).await;
    };
    agent.pass_but(&server, "a", taken_back).await.unwrap();
    assert!(!is_going(&server, "a"));
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_was_made_anew_under_its_name_is_not_called_deleting_or_fixed() {
    let crp = path("clusterresourceplacements", "crp");
    for before in ["deleting", "fixed"] {
        let server = hub();
        let anew = server.get(&crp).unwrap()["spec"].clone();
        if before == "deleting" {
            server.edit(&crp, |object| {
                object["metadata"]["finalizers"] = json!(["example.com/held"]);
            });
            server.delete(&crp);
        } else {
            let fixed = json!({ "placementType": "PickFixed", "clusterNames": ["a"] });
            server.edit(&crp, |object| object["spec"]["policy"] = fixed);
        }
        let agent = Agent::start(&server).await;
        eventually("the placement of before", || agent.placements.len() == 1).await;
        server.lag();
        server.edit(&crp, |object| object["metadata"]["finalizers"] = json!([]));
        server.delete(&crp);
        server.put(&crp, json!({ "spec": anew }));
        ask(&server, "a");
        agent.see(&server, "a");
        agent.end(&server, "a").await;
        assert!(is_executed(&server, "a"), "{before}: {:?}", says(&server, "a"));
    }
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
