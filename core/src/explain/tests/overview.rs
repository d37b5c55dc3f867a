//! The rows of `status`.

use fleet_api::conditions::update_run::Abort;
use serde_json::{Value, json};

use super::runs::{ended, release, started, updated};
use super::world::{World, condition, fails, member, stops, web, with};
use crate::explain::{Verdict, cluster_rows, diff_rows, member_rows, placement_rows, run_rows};

#[test]
fn a_run_is_said_in_one_line() {
    let (begun, done) = (json!([started()]), json!([started(), updated()]));
    let state = |state: &str| with(release(&json!([]), &[]), "/runs/0/spec/state", json!(state));
    let succeeded = condition("Succeeded", "True", "UpdateRunSucceeded", "");
    let over = with(
        release(&done, &["before", "wait", "after"]),
        "/runs/0/status/conditions/-",
        succeeded,
    );
    let lost = condition("Succeeded", "False", "ClusterUpdatingFailed", "x");
    let failed = release(&json!([started(), lost]), &["before"]);
    let rows: [(Value, Verdict, &str, usize); 9] = [
        (
            release(&json!([]), &[]),
            Verdict::Waiting,
            "nobody has approved release-before-canary",
            0,
        ),
        (
            release(&json!([]), &["before"]),
            Verdict::Waiting,
            "1 cluster to update",
            0,
        ),
        (release(&begun, &["before"]), Verdict::Waiting, "it updates east", 0),
        (
            release(&done, &["before"]),
            Verdict::Waiting,
            "it waits for its time to pass",
            1,
        ),
        (
            release(&done, &["before", "wait"]),
            Verdict::Waiting,
            "nobody has approved release-after-canary",
            1,
        ),
        (state("Initialize"), Verdict::Waiting, "it waits for spec.state: Run", 0),
        (state("Stop"), Verdict::Waiting, "somebody has stopped it", 0),
        (failed, Verdict::Failed, "east has failed", 0),
        (over, Verdict::Done, "done", 1),
    ];
    for (world, verdict, text, updated) in rows {
        for namespace in ["", "shop"] {
            let world = World::new(namespace, &world);
            let found = run_rows(&world.fleet());
            assert_eq!((found[0].verdict, found[0].text.as_str()), (verdict, text));
            assert_eq!((found[0].updated, found[0].clusters), (updated, 2), "{text}");
            assert!(found[0].next.is_empty() == (verdict == Verdict::Done), "{text}");
            if !found[0].next.is_empty() {
                super::assert_command(&found[0].next);
            }
        }
    }
    let failed = World::new("", &ended("Initialized", &Abort::PlacementNotFound));
    let found = run_rows(&failed.fleet());
    assert_eq!(
        (found[0].verdict, found[0].ended, found[0].text.as_str()),
        (Verdict::Failed, true, "it could not begin")
    );
}

#[test]
fn a_run_says_what_holds_it_up() {
    let says = |world: Value, status: &str, reason: &str, message: &str| {
        let said = condition("Progressing", status, reason, message);
        with(world, "/runs/0/status/conditions/-", said)
    };
    let gated = |world: Value, when: &str| {
        let gate = json!({
            "stage": "canary", "when": when, "apiVersion": "batch/v1", "kind": "Job", "name": "smoke", "namespace": "ci",
            "condition": "Complete",
        });
        with(world, "/runs/0/status/options", json!({ "gates": [gate] }))
    };
    let waiting_room = "The updateRun is waiting for the window of east cluster(s) in stage canary, next at \
                        2026-01-02T21:00:00Z";
    let stuck = "The updateRun is stuck waiting for east cluster(s) in stage canary to finish updating, please check \
                 placement status for potential errors";
    let done = json!([started(), updated()]);
    let lost = json!([started(), condition("Succeeded", "False", "ClusterUpdatingFailed", "x")]);
    let mut back = says(
        release(&lost, &["before"]),
        "True",
        "UpdateRunRollingBack",
        "The update run is rolling back, 1 of 3 cluster(s) restored",
    );
    back = with(
        back,
        "/runs/0/status/stagesStatus/0/endTime",
        json!(super::world::BEFORE),
    );
    let end = condition(
        "Succeeded",
        "False",
        "StageUpdatingFailed",
        "the failure budget is exhausted",
    );
    back = with(back, "/runs/0/status/stagesStatus/0/conditions", json!([end]));
    let counted = with(
        release(&lost, &["before", "wait"]),
        "/runs/0/status/options",
        json!({ "maxFailures": "50%" }),
    );
    let why = "kubectl fleet why csur/release";
    let job = "kubectl get job smoke -n ci -o yaml";
    for (world, verdict, text, next) in [
        (
            says(
                release(&json!([started()]), &["before"]),
                "False",
                "UpdateRunStuck",
                stuck,
            ),
            Verdict::Failed,
            "it is stuck at east",
            why,
        ),
        (
            says(
                release(&json!([]), &["before"]),
                "False",
                "UpdateRunWaiting",
                waiting_room,
            ),
            Verdict::Waiting,
            "it is waiting for the window of east cluster(s) in stage canary, next at 2026-01-02T21:00:00Z",
            why,
        ),
        (
            gated(release(&json!([]), &["before"]), "before"),
            Verdict::Waiting,
            "it waits until Complete is True of Job ci/smoke",
            job,
        ),
        (
            gated(release(&done, &["before", "wait", "after"]), "after"),
            Verdict::Waiting,
            "it waits until Complete is True of Job ci/smoke",
            job,
        ),
        (
            back,
            Verdict::Waiting,
            "it is rolling back, 1 of 3 cluster(s) restored",
            why,
        ),
        // A failure that the budget allows is not the end.
        (
            counted,
            Verdict::Waiting,
            "nobody has approved release-after-canary; 1 cluster may fail, 1 has: east",
            "kubectl fleet approve clusterapprovalrequest --name release-after-canary",
        ),
    ] {
        let world = World::new("", &world);
        let found = run_rows(&world.fleet());
        assert_eq!(
            (found[0].verdict, found[0].text.as_str(), found[0].next.as_str()),
            (verdict, text, next)
        );
        assert_eq!(found[0].stage, "canary", "{text}");
    }
}

#[test]
fn a_placement_is_at_its_first_step_that_is_not_done() {
    let stopped = |step, reason, message| stops(web(&["east", "west"]), step, "False", reason, message);
    for (world, step, verdict, ready, behind) in [
        (web(&["east", "west"]), "Available", Verdict::Done, 2, ""),
        (
            stopped("Overridden", "OverriddenFailed", "x"),
            "Overridden",
            Verdict::Failed,
            1,
            "east",
        ),
        (
            with(web(&["east"]), "/unseen", json!(true)),
            "Scheduled",
            Verdict::Waiting,
            0,
            "",
        ),
    ] {
        let world = World::new("", &world);
        let found = placement_rows(&world.fleet());
        assert_eq!((found[0].step.as_str(), found[0].verdict), (step, verdict));
        assert_eq!((found[0].ready, found[0].behind.as_str()), (ready, behind), "{step}");
    }
}

#[test]
fn a_cluster_names_the_objects_in_trouble_and_what_differs() {
    let drifted = json!([{
        "group": "apps", "version": "v1", "kind": "Deployment", "name": "cart", "namespace": "shop",
        "observationTime": super::world::NOW, "firstDriftedObservedTime": super::world::BEFORE,
        "targetClusterObservedGeneration": 2,
        "observedDrifts": [{"path": "/spec/replicas", "valueInMember": "5", "valueInHub": "2"}],
    }]);
    let world = fails(web(&["east", "west"]), "ManifestApplyFailed", "exceeded quota: q");
    let world = World::new("", &with(world, "/bindings/0/status/driftedPlacements", drifted));
    let fleet = world.fleet();
    let found = cluster_rows(&fleet, "web");
    let east = found.iter().find(|row| row.cluster == "east").unwrap();
    assert_eq!((east.verdict, east.step.as_str()), (Verdict::Failed, "Applied"));
    let objects: Vec<_> = east
        .objects
        .iter()
        .map(|row| (row.name.as_str(), row.verdict, row.text.as_str()))
        .collect();
    assert_eq!(
        objects,
        [
            (
                "Deployment shop/api",
                Verdict::Failed,
                "a quota on the member refuses the object: exceeded quota: q"
            ),
            (
                "Deployment shop/cart",
                Verdict::Done,
                "has drifted: /spec/replicas is 5 on the member and 2 on the hub"
            ),
        ]
    );
    for next in found
        .iter()
        .map(|row| &row.next)
        .chain(east.objects.iter().map(|row| &row.next))
    {
        super::assert_command(next);
    }
    assert_eq!(diff_rows(&fleet, "web", None).len(), 1);
    assert_eq!(diff_rows(&fleet, "web", Some("west")), []);
    assert_eq!(cluster_rows(&fleet, "none"), []);
}

#[test]
fn a_member_says_how_it_is_and_what_is_on_it() {
    let mut world = web(&["east"]);
    let silent = with(
        member("west", &json!({})),
        "/status/agentStatus/0/lastReceivedHeartbeat",
        json!("2026-01-02T11:40:00Z"),
    );
    world = with(world, "/members/-", silent);
    let world = World::new("", &world);
    let found = member_rows(&world.fleet());
    let rows: Vec<_> = found
        .iter()
        .map(|row| (row.name.as_str(), row.verdict, row.health.as_str(), row.placed))
        .collect();
    assert_eq!(
        rows,
        [
            ("east", Verdict::Done, "well", 1),
            ("west", Verdict::Failed, "no heartbeat for 20m", 0)
        ]
    );
}
