//! What is said of the whole fleet: never that all is well when it is not, or when nobody can know.

use fleet_testkit::{Fault, Server};
use futures::FutureExt as _;
use serde_json::{Value, json};

use super::{visitor::Visitor, world};

const ALL_CLEAR: &str = "Nothing: every placement is where it should be";
const DONE: [(&str, &str, &str); 6] = [
    ("Scheduled", "True", "SchedulingPolicyFulfilled"),
    ("RolloutStarted", "True", "RolloutStarted"),
    ("Overridden", "True", "NoOverrideSpecified"),
    ("WorkSynchronized", "True", "WorkSynchronized"),
    ("Applied", "True", "ApplySucceeded"),
    ("Available", "True", "ResourceAvailable"),
];

/// A hub on which all is well.
fn well() -> Server {
    let server = Server::new();
    world::member(&server, "east", &json!({}), &json!([]), "2026-01-02T11:59:50Z");
    world::placement(&server, "", "web", &json!({"type": "RollingUpdate"}), &DONE);
    world::binding(&server, "", "web", "east", None, &json!({}));
    server
}

fn run(server: &Server, name: &str, created: &str, conditions: &Value) {
    server.put(
        &format!("{}/clusterstagedupdateruns/{name}", world::PLACEMENTS),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": created},
            "spec": {"placementName": "web", "stagedRolloutStrategyName": "all", "state": "Run"},
            "status": {"conditions": conditions},
        }),
    );
}

async fn fleet(server: Server) -> String {
    Visitor::on(server, true).await.get("/").await.body
}

#[tokio::test]
async fn all_is_well_is_said_when_it_is_so() {
    let page = fleet(well()).await;
    assert!(page.contains(ALL_CLEAR), "{page}");
}

#[tokio::test]
async fn a_placement_that_finds_too_few_clusters_has_failed_although_its_bindings_are_good() {
    let server = well();
    let mut says = DONE;
    says[0] = ("Scheduled", "False", "SchedulingPolicyUnfulfilled");
    world::placement(&server, "", "web", &json!({"type": "RollingUpdate"}), &says);
    let page = fleet(server).await;
    assert!(!page.contains(ALL_CLEAR) && page.contains("Placement web"), "{page}");
    assert!(page.contains("</span>1 failed</span>"), "{page}");
}

#[tokio::test]
async fn an_object_that_cannot_be_understood_is_named_and_all_is_not_well() {
    let server = well();
    server.put(
        &format!("{}/clusterresourceplacements/odd", world::PLACEMENTS),
        json!({"spec": {"policy": "all of them"}}),
    );
    let visitor = Visitor::on(server, true).await;
    let page = visitor.get("/").await.body;
    let says = "clusterresourceplacements odd cannot be understood";
    assert!(
        !page.contains(ALL_CLEAR) && page.contains(&format!("not everything is known: {says}")),
        "{page}"
    );
    assert!(page.contains(&format!("<strong>Not shown: </strong>{says}")), "{page}");
    let server = Server::new();
    server.put(
        &format!("{}/clusterstagedupdateruns/odd", world::PLACEMENTS),
        json!({"spec": {"state": 7}}),
    );
    let page = Visitor::on(server, true).await.get("/runs").await.body;
    assert!(
        page.contains("Nobody can say whether there are any") && !page.contains("There are no update runs"),
        "{page}"
    );
}

#[tokio::test]
async fn a_change_that_the_hub_has_not_seen_is_not_done() {
    let server = well();
    world::placement(&server, "", "web", &json!({"type": "RollingUpdate"}), &[]);
    let page = fleet(server).await;
    assert!(
        !page.contains(ALL_CLEAR) && page.contains("</span>1 under way</span>"),
        "{page}"
    );
}

#[tokio::test]
async fn a_drift_that_stops_nothing_is_not_where_it_should_be() {
    let server = well();
    let drift = json!({"driftedPlacements": [{
        "group": "apps", "version": "v1", "kind": "Deployment", "name": "web", "namespace": "web",
        "observationTime": "2026-01-02T11:30:00Z", "firstDriftedObservedTime": "2026-01-02T11:30:00Z",
        "targetClusterObservedGeneration": 3, "observedDrifts": [{"path": "/spec/replicas", "valueInHub": "3", "valueInMember": "9"}],
    }]});
    world::binding(&server, "", "web", "east", None, &drift);
    let page = fleet(server).await;
    assert!(!page.contains(ALL_CLEAR) && page.contains("Placement web"), "{page}");
}

#[tokio::test]
async fn a_run_that_has_failed_needs_somebody_until_there_is_a_later_one() {
    let server = well();
    let failed = json!([
        world::condition("Initialized", "True", "UpdateRunInitializedSuccessfully", ""),
        world::condition(
            "Succeeded",
            "False",
            "UpdateRunFailed",
            "cannot continue the updateRun: broken"
        ),
    ]);
    run(&server, "one", "2026-01-02T11:00:00Z", &failed);
    let visitor = Visitor::on(server, true).await;
    let page = visitor.get("/").await.body;
    assert!(!page.contains(ALL_CLEAR) && page.contains("Run one"), "{page}");
    assert!(page.contains("</span>1 failed</span>"), "{page}");
    let going = json!([
        world::condition("Initialized", "True", "UpdateRunInitializedSuccessfully", ""),
        world::condition("Progressing", "True", "UpdateRunProgressing", ""),
    ]);
    run(&visitor.server, "two", "2026-01-02T11:10:00Z", &going);
    let mut changed = visitor.hub.changed();
    while visitor.get("/").await.body.contains("Run one") {
        changed.changed().await.unwrap();
    }
}

#[tokio::test]
async fn what_may_not_be_read_is_not_called_empty() {
    let server = Server::new();
    world::everything(&server);
    server.fail(Fault::new("/memberclusters", 403));
    let visitor = Visitor::on(server, true).await;
    let page = visitor.get("/").await.body;
    assert!(
        page.contains("you may not read memberclusters") && !page.contains("kubectl fleet join"),
        "{page}"
    );
    // What bindings tell of members is there.
    assert!(
        page.contains("id=\"m-east\"") && page.contains("/placements/web/on/east"),
        "{page}"
    );
    let why = visitor.get("/placements/web/on/nowhere").await.body;
    assert!(!why.contains("the fleet has no member"), "{why}");
    let members = visitor.get("/members").await.body;
    assert!(members.contains("Nobody can say whether there are any") && !members.contains("kubectl fleet join"));

    let server = Server::new();
    server.fail(Fault::new("/clusterresourceplacements", 403));
    server.fail(Fault::new("/stagedupdateruns", 403));
    let visitor = Visitor::on(server, true).await;
    let page = visitor.get("/").await.body;
    assert!(
        !page.contains(ALL_CLEAR) && page.contains("not everything is known"),
        "{page}"
    );
    for path in ["/placements", "/runs"] {
        let page = visitor.get(path).await.body;
        assert!(
            page.contains("Nobody can say") && !page.contains("kubectl apply"),
            "{path}: {page}"
        );
    }
}

#[tokio::test]
async fn the_group_with_the_worst_comes_first() {
    let server = Server::new();
    world::everything(&server);
    let visitor = Visitor::on(server, true).await;
    let page = visitor.get("/?group=environment").await.body;
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
    // north is silent, and in production; south has no such label, and is well.
    assert!(at("environment = production") < at("environment = canary"));
    assert!(at("environment = canary") < at("environment = (no label)"));
}

#[tokio::test]
async fn a_heartbeat_alone_makes_nothing_anew() {
    let server = well();
    let visitor = Visitor::on(server, true).await;
    let mut changed = visitor.hub.changed();
    let heartbeat = || {
        let member = visitor.hub.member("east").unwrap();
        let status = member.status.clone().unwrap();
        status.agent_status[0]
            .last_received_heartbeat
            .clone()
            .unwrap()
            .0
            .to_string()
    };
    // Whatever is still to be told of the beginning.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    changed.mark_unchanged();
    let later = "2026-01-02T11:59:58Z";
    world::member(&visitor.server, "east", &json!({}), &json!([]), later);
    while heartbeat() != later {
        tokio::task::yield_now().await;
    }
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert!(
        changed.changed().now_or_never().is_none(),
        "a heartbeat has woken every page"
    );
    world::member(&visitor.server, "east", &json!({"region": "eu"}), &json!([]), later);
    changed.changed().await.unwrap();
}

#[tokio::test]
async fn a_name_that_nothing_can_have_gets_into_no_command() {
    let visitor = Visitor::on(well(), true).await;
    for path in [
        "/placements/x;reboot",
        "/members/$(reboot)",
        "/placements/web/on/x%20y",
        "/runs/a%27b/timeline",
    ] {
        let page = visitor.get(path).await;
        assert_eq!(page.code, 200, "{path}");
        assert!(
            page.body.contains("Nothing can be called") && !page.body.contains("data-copy"),
            "{path}: {}",
            page.body
        );
    }
}
