//! Overrides and their snapshots, as the controller keeps them on an API server in memory.

use std::time::Duration;

use fleet_api::{finalizers, labels, names::field_managers};
use fleet_runtime::{
    cache::Era, clock::Clock, controller::Measures, events::Recorder, health::Health, metrics::Metrics,
    shutdown::Tasks, writes::Writes,
};
use fleet_testkit::Server;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    cache::family::{Placements, RunKinds},
    overrides,
    writer::Writer,
};

const OVERRIDE: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceoverrides/wide";
const SNAPSHOTS: &str = "clusterresourceoverridesnapshots";

/// An agent that knows nothing but what the API server has. It ends with what this gives.
async fn agent(server: &Server) -> (Tasks, DropGuard) {
    let (client, metrics) = (server.client(), Metrics::new());
    let mut tasks = Tasks::new(CancellationToken::new());
    let placements = Placements::start(&client, &Era::default(), RunKinds::both(true), &mut tasks);
    placements.synced(&Health::default()).await;
    let (writes, clock) = (Writes::new("hub", &metrics), Clock::system());
    let (events, sender) = Recorder::new(client.clone(), writes, clock, "hub-agent-0", &metrics);
    tasks.spawn_endless("events", sender.run());
    let context = overrides::OverrideSnapshots {
        stores: placements.overrides.clone(),
        cluster: placements.cluster.clone(),
        namespaced: placements.namespaced.clone(),
        writer: Writer::new(client, Writes::new("hub", &metrics), field_managers::OVERRIDE),
        events,
    };
    let stop = CancellationToken::new();
    let run = overrides::run(context, Measures::new(&metrics), stop.clone());
    tasks.spawn_forever("overrides", run);
    (tasks, stop.drop_guard())
}

async fn eventually(what: &str, check: impl Fn() -> bool) {
    for _ in 0..1000 {
        if check() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come to this: {what}");
}

fn rules(value: &str) -> Value {
    json!({
        "clusterResourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }],
        "policy": { "overrideRules": [{ "clusterSelector": {}, "jsonPatchOverrides": [
            { "op": "add", "path": "/metadata/labels/a", "value": value } ] }] },
    })
}

/// Name, and whether it is labelled as the latest.
fn snapshots(server: &Server) -> Vec<(String, bool)> {
    let one = |snapshot: &Value| {
        let meta = &snapshot["metadata"];
        let latest = meta["labels"][labels::IS_LATEST_SNAPSHOT] == labels::TRUE;
        (meta["name"].as_str().unwrap_or_default().to_owned(), latest)
    };
    server.all(SNAPSHOTS).iter().map(one).collect()
}

#[tokio::test]
async fn a_snapshot_is_made_once_and_again_when_the_override_changes() {
    let server = Server::new();
    server.put(OVERRIDE, json!({ "spec": rules("one") }));
    let first = [("wide-0".to_owned(), true)];
    let second = [("wide-0".to_owned(), false), ("wide-1".to_owned(), true)];
    let running = agent(&server).await;
    eventually("a snapshot", || snapshots(&server) == first).await;
    let held = server.get(OVERRIDE).unwrap()["metadata"]["finalizers"].clone();
    assert_eq!(held, json!([finalizers::OVERRIDE]));

    // A label is no other content, nor is another agent a reason; the change after it shows that both were looked at.
    server.edit(OVERRIDE, |object| object["metadata"]["labels"] = json!({ "a": "b" }));
    drop(running);
    let _running = agent(&server).await;
    server.edit(OVERRIDE, |object| object["spec"] = rules("two"));
    eventually("one more snapshot", || snapshots(&server) == second).await;
    let made = server
        .writes()
        .into_iter()
        .filter(|write| write.method == "POST")
        .count();
    assert_eq!(made, 2);

    // Somebody deletes the latest: it is made again.
    server.delete(&format!(
        "/apis/placement.kubernetes-fleet.io/v1beta1/{SNAPSHOTS}/wide-1"
    ));
    eventually("the snapshot again", || snapshots(&server) == second).await;

    server.delete(OVERRIDE);
    eventually("all of it gone", || {
        snapshots(&server).is_empty() && server.get(OVERRIDE).is_none()
    })
    .await;
}

#[tokio::test]
async fn what_the_webhook_would_have_refused_is_warned_about() {
    let server = Server::new();
    let other = OVERRIDE.replace("wide", "another");
    server.put(OVERRIDE, json!({ "spec": rules("one") }));
    let _running = agent(&server).await;
    eventually("its snapshot", || snapshots(&server).len() == 1).await;
    let warnings = || {
        let of = |event: &Value| (event["reason"] == "OverrideInvalid").then(|| event["message"].to_string());
        server.all("events").iter().filter_map(of).collect::<Vec<_>>()
    };
    assert_eq!(warnings(), [""; 0]);

    // Two replicas may each let in one of two.
    server.put(&other, json!({ "spec": rules("two") }));
    eventually("a warning", || {
        warnings()
            .iter()
            .any(|said| said.contains("has been selected by both another and wide"))
    })
    .await;

    let mut patches = rules("three");
    patches["policy"]["overrideRules"][0]["jsonPatchOverrides"][0]["path"] = json!("/metadata/name");
    server.delete(&other);
    server.edit(OVERRIDE, |object| object["spec"] = patches.clone());
    eventually("one of the new content", || {
        let why = "cannot override metadata fields except annotations and labels";
        warnings().iter().any(|said| said.contains(why))
    })
    .await;

    // Those are for 100 other objects; it is the newest that is one too many, and no change of an older one.
    let full = "limit has been reached: at most 100 cluster resources can be created";
    let one_more = |n: usize| {
        let mut spec = rules("one");
        spec["clusterResourceSelectors"][0]["name"] = json!(format!("app-{n}"));
        server.put(&OVERRIDE.replace("wide", &format!("wide-{n}")), json!({ "spec": spec }));
    };
    (1..100).for_each(one_more);
    eventually("their snapshots", || {
        snapshots(&server).iter().filter(|(_, latest)| *latest).count() == 100
    })
    .await;
    assert!(!warnings().iter().any(|said| said.contains(full)), "{:?}", warnings());
    one_more(100);
    eventually("a warning", || warnings().iter().any(|said| said.contains(full))).await;
}

#[tokio::test]
async fn what_an_unfinished_run_may_have_to_give_back_is_not_pruned() {
    let server = Server::new();
    let previous = json!({ "resourceSnapshotName": "web-0-snapshot", "clusterResourceOverrideSnapshots": ["wide-0"] });
    let initialized = json!({ "type": "Initialized", "status": "True", "reason": "R", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z" });
    let run = json!({
        "spec": { "placementName": "web", "stagedRolloutStrategyName": "s", "state": "Run" },
        "status": { "conditions": [initialized], "stagesStatus": [
            { "stageName": "all", "clusters": [{ "clusterName": "east", "previous": previous }] },
        ] },
    });
    let newest = |server: &Server| snapshots(server).into_iter().find(|(_, latest)| *latest);
    server.put(OVERRIDE, json!({ "spec": rules("0") }));
    let _running = agent(&server).await;
    eventually("the first snapshot", || snapshots(&server).len() == 1).await;
    server.put(
        "/apis/placement.kubernetes-fleet.io/v1beta1/clusterstagedupdateruns/run",
        run,
    );
    for edit in 1..14 {
        server.edit(OVERRIDE, |object| object["spec"] = rules(&edit.to_string()));
        let name = format!("wide-{edit}");
        let made = || newest(&server).is_some_and(|(latest, _)| latest == name);
        eventually(&name, made).await;
    }
    let has = |name: &str| snapshots(&server).iter().any(|(found, _)| found == name);
    eventually("old ones are pruned", || !has("wide-1")).await;
    assert!(has("wide-0"), "{:?}", snapshots(&server));
}

#[tokio::test]
async fn an_override_that_is_made_anew_is_told_apart_while_a_binding_names_the_old_one() {
    let server = Server::new();
    server.put(OVERRIDE, json!({ "spec": rules("old") }));
    let _running = agent(&server).await;
    eventually("the first snapshot", || snapshots(&server).len() == 1).await;
    let binding = json!({ "spec": {
        "state": "Bound", "targetCluster": "east", "resourceSnapshotName": "web-0-snapshot",
        "schedulingPolicySnapshotName": "web-0", "clusterDecision": { "clusterName": "east", "selected": true, "reason": "" },
        "clusterResourceOverrideSnapshots": ["wide-0"],
    } });
    server.put(
        "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings/web-east",
        binding,
    );
    server.delete(OVERRIDE);
    eventually("all of it gone", || {
        snapshots(&server).is_empty() && server.get(OVERRIDE).is_none()
    })
    .await;
    // Under the old name the binding would get the new content without having been told.
    server.put(OVERRIDE, json!({ "spec": rules("new") }));
    eventually("another snapshot", || snapshots(&server).len() == 1).await;
    assert_eq!(snapshots(&server), [("wide-1".to_owned(), true)]);
}
