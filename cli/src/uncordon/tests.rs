use serde_json::json;

use super::*;
use crate::testing::{CLUSTERS, Fake, PLACEMENT_API};

fn options(dry_run: bool, cleanup: bool) -> Options {
    Options {
        dry_run,
        cleanup,
        wait: false,
    }
}

/// Cordoned, with a taint of somebody else, and with an eviction that was never answered.
fn left_behind() -> Fake {
    let hub = Fake::new();
    hub.server.edit(&format!("{CLUSTERS}/east"), |cluster| {
        cluster["spec"]["taints"] = json!([
            { "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule" },
            { "key": "gpu", "value": "only", "effect": "NoSchedule" },
        ]);
    });
    for (name, cluster) in [
        ("drain-eviction-web-east-0000aaaa", "east"),
        ("drain-eviction-web-west-0000aaaa", "west"),
        ("mine", "east"),
    ] {
        let spec = json!({ "placementName": "web", "clusterName": cluster });
        hub.put(
            &format!("clusterresourceplacementevictions/{name}"),
            json!({ "spec": spec }),
        );
    }
    hub
}

#[tokio::test]
async fn what_keeps_placements_away_is_named() {
    let hub = left_behind();
    let client = Hub::new(hub.server.client());
    let report = uncordon(&client, "east", options(true, false), &hub.say())
        .await
        .expect("a report");
    let wanted = "\
CLUSTER   OUTCOME               KEPT AWAY BY
east      would be uncordoned   taint gpu=only:NoSchedule
                                eviction drain-eviction-web-east-0000aaaa, which the hub may still carry out (--cleanup deletes it)
";
    assert_eq!(report.table().to_string(), wanted);
    assert!(hub.server.writes().is_empty());
}

#[tokio::test]
async fn cleanup_deletes_what_drains_have_left_and_nothing_else() {
    let hub = left_behind();
    let client = Hub::new(hub.server.client());
    let report = uncordon(&client, "east", options(false, true), &hub.say())
        .await
        .expect("a report");
    assert_eq!(report.outcome, UncordonOutcome::Uncordoned);
    assert!(report.evictions.is_empty());
    assert_eq!(hub.evictions(), ["drain-eviction-web-west-########", "mine"]);
    let report = uncordon(&client, "east", options(false, false), &hub.say())
        .await
        .expect("a report");
    assert_eq!(
        serde_json::to_value(&report).expect("it is JSON"),
        json!({
            "cluster": "east", "dryRun": false, "outcome": "notCordoned", "evictions": [],
            "taints": [{ "key": "gpu", "value": "only", "effect": "NoSchedule" }],
        })
    );
}

#[tokio::test]
async fn it_waits_for_what_drains_have_left_if_asked_to() {
    let hub = left_behind();
    let client = Hub::new(hub.server.client());
    let options = Options {
        wait: true,
        ..Options::default()
    };
    let say = hub.say();
    let ending = async {
        tokio::task::yield_now().await;
        let path = format!("{PLACEMENT_API}/clusterresourceplacementevictions/drain-eviction-web-east-0000aaaa");
        hub.server.edit(&path, |eviction| {
            eviction["status"] = json!({ "conditions": [{
                "type": "Executed", "status": "True", "reason": "Played", "message": "",
                "lastTransitionTime": "2026-01-09T01:53:53Z",
            }] });
        });
    };
    let (report, ()) = tokio::join!(uncordon(&client, "east", options, &say), ending);
    assert!(report.expect("a report").evictions.is_empty());
}
