//! A run as a pipeline: what it waits for, how much of its budget is used, and that it goes back.

use serde_json::{Value, json};

use super::{visitor::Visitor, world};

fn cluster(name: &str, conditions: &[(&str, &str)]) -> Value {
    let said = conditions
        .iter()
        .map(|(type_, status)| world::condition(type_, status, "R", "broken"));
    json!({"clusterName": name, "conditions": said.collect::<Vec<_>>()})
}

/// A run with two stages: the first is over with a failure, the second is under way, two at once.
fn status(progressing: (&str, &str), failed: bool) -> Value {
    let gate = |stage: &str, when: &str, name: &str, passed: Option<&str>| {
        json!({"stage": stage, "when": when, "apiVersion": "batch/v1", "kind": "Job", "name": name, "namespace": "shop",
               "condition": "Complete", "failOn": "Failed", "passed": passed})
    };
    let ended = if failed { "False" } else { "True" };
    json!({
        "resourceSnapshotIndexUsed": "3",
        "stagedUpdateStrategySnapshot": {"stages": [{"name": "canary"}, {"name": "rest", "maxConcurrency": 2}]},
        "options": {
            "maxFailures": "20%", "onFailure": "Rollback", "clusterDeadline": "10m", "window": "Mon-Fri 08:00-17:00 Europe/Berlin",
            "notBefore": "2026-01-02T08:00:00Z",
            "gates": [gate("canary", "before", "smoke", Some("2026-01-02T11:30:00Z")), gate("rest", "after", "soak", None)],
        },
        "conditions": [
            world::condition("Initialized", "True", "UpdateRunInitializedSuccessfully", ""),
            world::condition("Progressing", "True", progressing.0, progressing.1),
        ],
        "stagesStatus": [
            {
                "stageName": "canary", "startTime": "2026-01-02T11:00:00Z", "endTime": "2026-01-02T11:10:00Z",
                "conditions": [world::condition("Succeeded", ended, "R", "cannot continue the updateRun: too many clusters have failed")],
                "clusters": [cluster("east", &[("Started", "True"), ("Succeeded", "True")]), cluster("west", &[("Started", "True"), ("Succeeded", "False")])],
            },
            {
                "stageName": "rest", "startTime": "2026-01-02T11:20:00Z",
                "conditions": [world::condition("Progressing", "True", "R", "")],
                "clusters": [cluster("north", &[("Started", "True")]), cluster("south", &[]), cluster("a", &[]), cluster("b", &[])],
            },
        ],
    })
}

async fn page(status: &Value) -> String {
    let visitor = Visitor::new().await;
    visitor.server.put(
        &format!("{}/clusterstagedupdateruns/back", world::PLACEMENTS),
        json!({
            "metadata": {"generation": 1, "creationTimestamp": "2026-01-02T11:00:00Z"},
            "spec": {"placementName": "shop", "stagedRolloutStrategyName": "s", "state": "Run"}, "status": status,
        }),
    );
    let mut changed = visitor.hub.changed();
    loop {
        let page = visitor.get("/runs/back").await.body;
        if page.contains("class=\"pipeline") {
            return page;
        }
        changed.changed().await.unwrap();
    }
}

#[tokio::test]
async fn gates_waves_and_the_failure_budget_are_in_the_pipeline() {
    let page = page(&status(("UpdateRunProgressing", ""), false)).await;
    for text in [
        "task gate done",
        "Job shop/smoke",
        "task gate waiting",
        "Job shop/soak",
        "fails the run if it is Failed",
        "</span>1 failed</span> of 6 clusters; 20% may fail",
        "<dd>Rollback</dd>",
        "Mon-Fri 08:00-17:00 Europe/Berlin",
        "<dd>10m</dd>",
        "2026-01-02T08:00:00Z",
        "Now: 1, at most 2 at once",
        "Next: 3, at most 2 at once: 2 waves",
        "Over: 2",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("goes back"), "{page}");
}

#[tokio::test]
async fn a_wait_counts_down_although_a_cluster_has_failed_within_the_budget() {
    let mut status = status(("UpdateRunWaiting", ""), false);
    let stage = &mut status["stagesStatus"][0];
    stage["conditions"] = json!([world::condition("Progressing", "False", "StageUpdatingWaiting", "")]);
    stage["afterStageTaskStatus"] = json!([{"type": "TimedWait"}]);
    let tasks = json!([{"type": "TimedWait", "waitTime": "1h"}]);
    status["stagedUpdateStrategySnapshot"]["stages"][0]["afterStageTasks"] = tasks;
    let shown = page(&status).await;
    assert!(
        shown.contains("waits, <time class=\"until\" datetime=\"2026-01-02T12:30:00Z\">until "),
        "{shown}"
    );
    // Once too many have failed nobody waits any more.
    status["stagesStatus"][0]["conditions"] = json!([world::condition("Succeeded", "False", "R", "")]);
    let shown = page(&status).await;
    assert!(
        shown.contains("a wait, later") && !shown.contains("waits, <time"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_run_that_goes_back_does_not_look_like_one_that_goes_on() {
    let words = "The update run is rolling back, 1 of 3 cluster(s) restored";
    let page = page(&status(("UpdateRunRollingBack", words), true)).await;
    for text in [
        "This run goes back",
        words,
        "Because too many clusters have failed",
        "class=\"pipeline back\"",
        "</span>rolls back</span>",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[tokio::test]
async fn an_approval_says_what_it_sets_going_now() {
    let visitor = Visitor::new().await;
    let ask = async |request: &str, run: &str| {
        visitor
            .get(&format!("/act?act=approve&name={request}&run={run}"))
            .await
            .body
    };
    let asked = ask("shop-1-after-canary", "shop-1").await;
    let effect = "The run shop-1 goes on with stage production once this is so too: its wait is over.";
    assert!(asked.contains(effect) && asked.contains("<form"), "{asked}");
    for (request, run, why) in [
        ("shop-1-after-canary", "gone", "There is no run gone."),
        (
            "shop-1-after-production",
            "shop-1",
            "has no request shop-1-after-production",
        ),
    ] {
        let asked = ask(request, run).await;
        assert!(asked.contains(why) && !asked.contains("<form"), "{asked}");
    }
}
