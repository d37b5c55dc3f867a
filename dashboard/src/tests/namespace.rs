//! Whoever has rights in one namespace alone, and has named it.

use fleet_testkit::{Fault, Server};
use serde_json::json;

use super::{visitor::Visitor, world};

const ROLLING: &str = "RollingUpdate";

/// A hub on which two teams have each a placement, a run, and an Event.
fn two_teams() -> Server {
    let server = Server::new();
    world::everything(&server);
    world::placement(&server, "team-b", "billing", &json!({"type": ROLLING}), &[]);
    world::binding(&server, "team-b", "billing", "south", None, &json!({}));
    for (namespace, placement) in [("team-a", "api"), ("team-b", "billing")] {
        let of = |plural: &str, name: &str| format!("{}/namespaces/{namespace}/{plural}/{name}", world::PLACEMENTS);
        let waiting = json!({
            "conditions": [
                world::condition("Initialized", "True", "UpdateRunInitializedSuccessfully", ""),
                world::condition("Progressing", "False", "UpdateRunWaiting", ""),
            ],
            "stagesStatus": [{
                "stageName": "canary", "conditions": [], "clusters": [],
                "afterStageTaskStatus": [{
                    "type": "Approval", "approvalRequestName": format!("{placement}-1-after-canary"),
                    "conditions": [world::condition("ApprovalRequestCreated", "True", "R", "")],
                }],
            }],
        });
        server.put(
            &of("stagedupdateruns", &format!("{placement}-1")),
            json!({
                "metadata": {"generation": 1, "creationTimestamp": "2026-01-02T11:00:00Z"},
                "spec": {"placementName": placement, "stagedRolloutStrategyName": "s", "state": "Run"}, "status": waiting,
            }),
        );
        server.put(
            &of("approvalrequests", &format!("{placement}-1-after-canary")),
            json!({
                "metadata": {"generation": 1},
                "spec": {"parentStageRollout": format!("{placement}-1"), "targetStage": "canary"},
            }),
        );
        server.put(
            &format!("/api/v1/namespaces/{namespace}/events/{placement}.1"),
            json!({
                "involvedObject": {
                    "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourcePlacement",
                    "namespace": namespace, "name": placement,
                },
                "reason": "PlacementRolloutStarted", "message": format!("news of {namespace}"), "type": "Normal",
                "lastTimestamp": "2026-01-02T11:45:00Z",
            }),
        );
    }
    server
}

/// All that a RoleBinding in a namespace does not give: lists of whole clusters.
fn with_a_role_binding(server: &Server) {
    for plural in [
        "cluster",
        "memberclusters",
        "internalmemberclusters",
        "works",
        "resource",
        "scheduling",
        "staged",
        "approval",
    ] {
        server.fail(Fault::new(&format!("/v1beta1/{plural}"), 403));
    }
    server.fail(Fault::new("/api/v1/events", 403));
}

#[tokio::test]
async fn a_role_binding_in_one_namespace_shows_what_is_there() {
    let server = two_teams();
    with_a_role_binding(&server);
    let visitor = Visitor::within(server, Some("team-a"), true).await;
    let fleet = visitor.get("/").await.body;
    assert!(fleet.contains("Namespace team-a alone."), "{fleet}");
    // The cluster is known from the binding.
    assert!(
        fleet.contains("id=\"m-west\"") && fleet.contains("/namespaces/team-a/placements/api"),
        "{fleet}"
    );
    assert!(
        fleet.contains("Run team-a/api-1") && !fleet.contains("billing"),
        "{fleet}"
    );
    assert!(fleet.contains("<code>kubectl fleet status -n team-a</code>"), "{fleet}");
    let hidden = fleet
        .split("Hidden: ")
        .nth(1)
        .and_then(|rest| rest.split("</div>").next());
    let hidden = hidden.unwrap_or_else(|| panic!("{fleet}"));
    for kind in [
        "memberclusters",
        "works",
        "clusterresourceplacements",
        "clusterstagedupdateruns",
    ] {
        assert!(hidden.contains(kind), "{kind}: {hidden}");
    }
    for kind in [
        " resourceplacements",
        " resourcebindings",
        " stagedupdateruns",
        " approvalrequests",
        "events",
        "all namespaces",
    ] {
        assert!(!hidden.contains(kind), "{kind}: {hidden}");
    }
    for (path, says) in [
        ("/namespaces/team-a/placements/api", "the Works cannot be written"),
        (
            "/namespaces/team-a/placements/api/on/west",
            "kubectl fleet why rp/api west -n team-a",
        ),
        (
            "/namespaces/team-a/placements/api/snapshots",
            "kubectl fleet tree rp/api -n team-a",
        ),
        ("/namespaces/team-a/runs/api-1", "data-act=\"approve\""),
        ("/namespaces/team-a/runs/api-1", "kubectl fleet why sur/api-1 -n team-a"),
        ("/runs", "kubectl fleet top -n team-a"),
        ("/timeline", "news of team-a"),
        ("/timeline", "kubectl get events -n team-a"),
        ("/namespaces/team-a/placements/nothing", "kubectl get rp -n team-a"),
    ] {
        let page = visitor.get(path).await;
        assert!(
            page.code == 200 && page.body.contains(says),
            "{path} {says}: {}",
            page.body
        );
        assert!(
            !page.body.contains("billing") && !page.body.contains("news of team-b"),
            "{path}: {}",
            page.body
        );
    }
}

#[tokio::test]
async fn without_a_namespace_a_role_binding_shows_nothing_and_the_page_says_what_would() {
    let server = two_teams();
    with_a_role_binding(&server);
    let visitor = Visitor::on(server, true).await;
    let fleet = visitor.get("/").await.body;
    assert!(
        fleet.contains(", resourceplacements") && fleet.contains("start the dashboard with <code>-n</code>"),
        "{fleet}"
    );
}

#[tokio::test]
async fn a_change_in_the_namespace_is_seen_and_one_in_another_is_not() {
    let visitor = Visitor::within(two_teams(), Some("team-a"), true).await;
    world::placement(&visitor.server, "team-b", "second", &json!({"type": ROLLING}), &[]);
    world::placement(&visitor.server, "team-a", "first", &json!({"type": ROLLING}), &[]);
    let mut changed = visitor.hub.changed();
    let page = loop {
        let page = visitor.get("/placements").await.body;
        if page.contains("/namespaces/team-a/placements/first") {
            break page;
        }
        changed.changed().await.unwrap();
    };
    // Who may see what is cluster-scoped sees it as ever.
    assert!(
        page.contains("/placements/metrics") && !page.contains("team-b"),
        "{page}"
    );
    for path in ["placements/second", "runs/billing-1", "placements/billing/timeline"] {
        let page = visitor.get(&format!("/namespaces/team-b/{path}")).await.body;
        assert!(page.contains("Its namespace is not looked at"), "{path}: {page}");
    }
}

#[tokio::test]
async fn one_namespace_alone_is_not_everything() {
    let server = Server::new();
    world::member(&server, "east", &json!({}), &json!([]), "2026-01-02T11:59:50Z");
    let visitor = Visitor::within(server, Some("team-a"), true).await;
    let page = visitor.get("/").await.body;
    assert!(page.contains("of all namespaces only team-a is looked at"), "{page}");
}
