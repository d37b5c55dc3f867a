use fleet_testkit::Fault;
use serde_json::json;

use super::*;
use crate::{
    output::Style,
    testing::{
        PLACEMENT_API,
        shown::{assert_golden, hub, now, place},
    },
};

const RUN: &str = "clusterstagedupdateruns/release";

async fn picture_of(place: &Place, line: &str) -> Picture {
    let mut rollout = Rollout::of(place, &[line.to_owned()]).await.expect(line);
    rollout.read(now()).await.expect(line)
}

#[tokio::test]
async fn a_run_is_shown_with_its_stages_and_what_keys_do() {
    let server = hub();
    let place = place(&server);
    let picture = picture_of(&place, "csur/release").await;
    assert_golden(
        "rollout-run.txt",
        &Style::default().finish(&(picture.body)(&Style::default())),
    );
    let request = Key::new("", "release-after-canary");
    let actions: Vec<_> = picture.offers.iter().map(|offer| offer.action.clone()).collect();
    assert_eq!(
        actions,
        [Action::Approve(request), Action::Stop(Key::new("", "release"))]
    );
    assert_eq!(
        picture.line,
        "csur/release: 1 of 2 clusters updated, stage canary: nobody has approved release-after-canary"
    );
    assert_eq!(picture.ended, None);
    assert_eq!(picture_of(&place, "csur/none").await.ended, Some(Exit::Error));
}

/// What the clusters of a stage wait for, or have used up, is not seen on its clusters.
#[tokio::test]
async fn gates_and_failures_that_may_be_are_shown() {
    let server = hub();
    let gate = |when: &str, passed: serde_json::Value| {
        json!({
            "stage": "canary", "when": when, "apiVersion": "batch/v1", "kind": "Job", "name": when, "namespace": "ci",
            "condition": "Complete", "passed": passed,
        })
    };
    let mut run = server
        .get(&format!("{PLACEMENT_API}/{RUN}"))
        .expect("the run of the hub");
    run["status"]["options"] = json!({
        "maxFailures": "50%",
        "gates": [gate("before", json!("2026-01-02T11:00:00Z")), gate("after", json!(null))],
    });
    let lost = json!([
        { "type": "Started", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T11:00:00Z" },
        { "type": "Succeeded", "status": "False", "reason": "x", "message": "", "lastTransitionTime": "2026-01-02T11:00:00Z" },
    ]);
    run["status"]["stagesStatus"][0]["clusters"][0]["conditions"] = lost;
    server.put(&format!("{PLACEMENT_API}/{RUN}"), run);
    let picture = picture_of(&place(&server), "csur/release").await;
    assert_golden(
        "rollout-gates.txt",
        &Style::default().finish(&(picture.body)(&Style::default())),
    );
    assert!(
        picture
            .offers
            .iter()
            .any(|offer| matches!(offer.action, Action::Approve(_)))
    );
}

#[tokio::test]
async fn a_placement_is_watched_until_it_is_done() {
    let server = hub();
    let place = place(&server);
    let web = picture_of(&place, "web").await;
    assert_eq!(web.ended, None);
    assert_golden(
        "rollout-placement.txt",
        &Style::default().finish(&(web.body)(&Style::default())),
    );
    assert_eq!(picture_of(&place, "crp/pay").await.ended, Some(Exit::Done));
    assert_eq!(picture_of(&place, "rp/api").await.ended, Some(Exit::Done));
}

/// Each change is a line, also one that happens while the API server is away.
#[tokio::test(start_paused = true)]
async fn a_watch_survives_an_api_server_that_goes_away() {
    let server = hub();
    let place = place(&server);
    let mut rollout = Rollout::of(&place, &["csur/release".to_owned()]).await.expect("a run");
    server.fail(Fault::new("clusterstagedupdateruns", 503).times(3));
    let printed = parking_lot::Mutex::new(Vec::new());
    let print = |line: &str| {
        printed.lock().push(line.to_owned());
        if printed.lock().len() == 1 {
            server.edit(&format!("{PLACEMENT_API}/{RUN}"), |run| {
                run["status"]["conditions"][1] = json!({
                    "type": "Succeeded", "status": "True", "reason": "UpdateRunSucceeded", "message": "", "observedGeneration": 1,
                    "lastTransitionTime": "2026-01-02T12:00:00Z",
                });
            });
            server.fail(Fault::new("clusterstagedupdateruns", 503).times(20));
        }
        Ok(())
    };
    let ended = live::lines(&mut rollout, &print).await.expect("it recovers");
    assert_eq!(ended, Exit::Done);
    let printed = printed.into_inner();
    assert_eq!(printed.len(), 2, "{printed:?}");
    assert!(printed[1].ends_with(": done\n"), "{printed:?}");
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let server = hub();
    let place = place(&server);
    let refused = Rollout::of(&place, &["membercluster/east".to_owned()]).await;
    assert!(refused.is_err_and(|error| crate::problem::exit_of(&error) == Exit::Usage));
}

/// The watch of a frozen API server says nothing for ever.
#[tokio::test(start_paused = true)]
async fn what_is_watched_is_read_again_even_if_nothing_is_heard() {
    let server = hub();
    let mut rollout = Rollout::of(&place(&server), &["csur/release".to_owned()])
        .await
        .expect("a run");
    rollout.read(now()).await.expect("it is there");
    let waited = tokio::time::timeout(Duration::from_mins(1), rollout.changed()).await;
    waited
        .expect("it is not waited for without end")
        .expect("nothing fails");
}
