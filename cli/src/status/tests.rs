use fleet_testkit::{Fault, Server};
use serde_json::json;

use super::*;
use crate::{
    output::{Format, Style},
    subject::Key,
    testing::{
        CLUSTERS, PLACEMENT_API,
        shown::{assert_fits, assert_golden, condition, hub, member, narrow, now, piped, place},
    },
};

async fn overview_of(server: &Server, namespace: &str) -> Overview {
    let place = place(server);
    fleet::read(&Reader::new(&place.hub), namespace, now())
        .await
        .expect("it can be read")
}

async fn detail_of(server: &Server, key: &Key) -> placement::Detail {
    let place = place(server);
    placement::must(&Reader::new(&place.hub), key, now())
        .await
        .expect("it is there")
}

#[tokio::test]
async fn the_fleet_is_one_screen_with_what_is_in_trouble_first() {
    let overview = overview_of(&hub(), "").await;
    assert_golden("status.txt", &piped(&overview));
    let wide = Style {
        wide: true,
        ..Style::default()
    };
    let text = output::rendered(&overview, Format::Wide, &wide).expect("it can be printed");
    assert_golden("status-wide.txt", &text);
    assert_golden(
        "status-name.txt",
        &output::rendered(&overview, Format::Name, &wide).expect("names"),
    );
    assert_golden(
        "status.yaml",
        &output::rendered(&overview, Format::Yaml, &wide).expect("yaml"),
    );
    assert_eq!(overview.exit(), Exit::Left);
    let narrow = output::rendered(&overview, Format::Table, &narrow()).expect("it can be printed");
    assert_fits(&narrow, 40);
}

#[tokio::test]
async fn a_run_that_has_failed_counts_until_another_follows() {
    let server = Server::new();
    server.put(&format!("{CLUSTERS}/east"), member("east", "2026-01-02T11:59:59Z"));
    server.put(
        "/apis/coordination.k8s.io/v1/namespaces/fleet-system/leases/136224848560.hub.fleet.azure.com",
        json!({ "spec": { "holderIdentity": "hub-agent-0", "renewTime": "2026-01-02T11:59:58.000000Z" } }),
    );
    let run = |name: &str, hour: u32, status: &str| {
        let ended = json!([
            condition("Initialized", "True", "UpdateRunInitialized", ""),
            condition("Succeeded", status, "x", ""),
        ]);
        server.put(
            &format!("{PLACEMENT_API}/clusterstagedupdateruns/{name}"),
            json!({
                "metadata": { "generation": 1, "creationTimestamp": format!("2026-01-02T{hour:02}:00:00Z") },
                "spec": { "placementName": "web", "stagedRolloutStrategyName": "s", "state": "Run" },
                "status": { "conditions": ended },
            }),
        );
    };
    for hour in 0..8 {
        run(&format!("release-{hour}"), hour, "False");
    }
    let overview = overview_of(&server, "").await;
    let text = piped(&overview);
    assert_eq!(overview.exit(), Exit::Left, "{text}");
    assert!(
        text.contains("update runs  1 in trouble") && text.contains("csur/release-7: "),
        "{text}"
    );
    assert!(
        !text.contains("release-6") && !text.contains("more are in trouble"),
        "{text}"
    );
    run("release-8", 8, "True");
    let overview = overview_of(&server, "").await;
    assert_eq!(overview.exit(), Exit::Done, "{}", piped(&overview));
}

#[tokio::test]
async fn more_than_a_screen_can_say_ends_with_where_the_rest_is() {
    let server = Server::new();
    for number in 0..7 {
        let name = format!("member-{number}");
        server.put(&format!("{CLUSTERS}/{name}"), member(&name, "2026-01-02T11:00:00Z"));
    }
    let text = piped(&overview_of(&server, "").await);
    assert!(text.contains(" more are in trouble\n"), "{text}");
    assert!(text.contains("next: kubectl fleet status -o json\n"), "{text}");
}

#[tokio::test]
async fn a_namespace_has_its_own_placements_only() {
    let overview = overview_of(&hub(), "shop").await;
    let names: Vec<_> = overview.placements.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, ["rp/api -n shop"]);
}

#[tokio::test]
async fn a_placement_is_shown_with_its_clusters_and_the_objects_in_trouble() {
    for (key, golden, exit) in [
        (Key::new("", "web"), "status-placement.txt", Exit::Left),
        (Key::new("shop", "api"), "status-namespaced.txt", Exit::Done),
    ] {
        let detail = detail_of(&hub(), &key).await;
        assert_golden(golden, &piped(&detail));
        assert_eq!(detail.exit(), exit);
        assert_fits(
            &output::rendered(&detail, Format::Table, &narrow()).expect("it can be printed"),
            40,
        );
    }
    let place = place(&hub());
    let missing = placement::must(&Reader::new(&place.hub), &Key::new("", "none"), now()).await;
    let error = missing.expect_err("it is not there");
    assert_eq!(
        crate::problem::next(&error, "status"),
        "kubectl get crp; kubectl get rp -A"
    );
}

#[tokio::test]
async fn ten_thousand_members_are_still_one_screen() {
    let server = Server::new();
    server.lag(); // Nobody watches.
    for number in 0..10_000 {
        let heartbeat = if number == 4711 {
            "2026-01-02T11:00:00Z"
        } else {
            "2026-01-02T11:59:59Z"
        };
        let name = format!("member-{number}");
        server.put(&format!("{CLUSTERS}/{name}"), member(&name, heartbeat));
    }
    let overview = overview_of(&server, "").await;
    assert_eq!(overview.members.len(), 10_000);
    let text = piped(&overview);
    assert!(text.lines().count() < 20, "{text}");
    assert!(
        text.contains("members      10000, 1 in trouble") && text.contains("why membercluster/member-4711"),
        "{text}"
    );
}

#[tokio::test]
async fn a_hub_that_shows_nothing_says_what_is_hidden() {
    let server = Server::new();
    server.answer(|_, path, _| {
        let words = "this is forbidden: User \"eve\" cannot list it";
        path.starts_with("/api").then(|| {
            (
                403,
                json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": words }),
            )
        })
    });
    let overview = overview_of(&server, "").await;
    let hidden: Vec<_> = overview.hidden.iter().map(|it| it.what.as_str()).collect();
    assert_eq!(
        hidden,
        [
            "clusterresourceplacements",
            "clusterstagedupdateruns",
            "internalmemberclusters",
            "leases",
            "memberclusters",
            "resourceplacements",
            "stagedupdateruns"
        ]
    );
    let text = piped(&overview);
    assert!(!text.contains("all well"), "{text}");
    assert!(text.contains("members      cannot be read"), "{text}");
    assert!(text.contains("hidden: leases (no right to list them)"), "{text}");
    assert_eq!(overview.exit(), Exit::Refused);
}

#[tokio::test]
async fn what_is_partly_hidden_is_not_known_to_be_well() {
    let server = Server::new();
    server.put(&format!("{CLUSTERS}/east"), member("east", "2026-01-02T11:59:59Z"));
    let no_agent_leads = overview_of(&server, "").await;
    server.fail(Fault::new("/clusterresourceplacements", 403));
    let overview = overview_of(&server, "").await;
    assert_eq!((no_agent_leads.exit(), overview.exit()), (Exit::Left, Exit::Left));
    let text = piped(&overview);
    assert!(
        text.contains("members      1, all well") && text.contains("placements   cannot be read"),
        "{text}"
    );
}
