//! Somebody else writes to a run: that is looked at, what the run itself has written is not.

use fleet_api::placement::{BindingStatus, StageStatus};

use super::*;

impl Hub {
    /// Who is to be looked at because of what the stores have shown; nobody is from then on.
    pub(super) async fn awake(&self) -> usize {
        // Changes become keys in a task of their own.
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        let woken = self.updates.queue.len();
        for _ in 0..woken {
            let taken = self.updates.queue.take().await;
            self.updates.queue.done(&taken.key, Next::Wait);
        }
        woken
    }

    fn put_status(&self, status: &UpdateRunStatus) {
        let edited = json!({ "metadata": { "name": RUN }, "status": serde_json::to_value(status).unwrap() });
        self.api.put("clusterstagedupdateruns", edited);
        self.sync();
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_somebody_else_edits_is_looked_at_and_repaired() {
    let hub = Hub::with_run().await;
    let feeding = tokio::spawn({
        let updates = hub.updates.clone();
        async move { updaterun::feed(&updates).await }
    });
    while hub
        .run_status()
        .stages_status
        .iter()
        .all(|stage| stage.start_time.is_none())
    {
        hub.go().await;
    }
    // It stops: that is its user's word, and then its own.
    let stop = json!({ "metadata": { "name": RUN }, "spec": { "state": "Stop" } });
    hub.api.put("clusterstagedupdateruns", stop);
    hub.sync();
    assert_eq!(hub.awake().await, 1);
    for _ in 0..3 {
        _ = updaterun::pass(&hub.updates, &Key::cluster(RUN)).await;
    }
    hub.sync();
    let own = hub.run_status();
    let said = |status: &UpdateRunStatus| {
        conditions::find(&status.conditions, "Progressing")
            .unwrap()
            .reason
            .clone()
    };
    assert_eq!(said(&own), "UpdateRunStopped");
    assert_eq!(hub.awake().await, 0, "it wakes itself");
    let mut forged = own.clone();
    forged.conditions[1].reason = "Forged".to_owned();
    hub.put_status(&forged);
    assert_eq!(hub.awake().await, 1, "nobody looks");
    _ = updaterun::pass(&hub.updates, &Key::cluster(RUN)).await;
    hub.sync();
    assert_eq!(hub.run_status(), own);
    assert_eq!(hub.awake().await, 0, "it wakes itself");
    feeding.abort();
}

#[tokio::test(start_paused = true)]
async fn a_finished_run_is_not_repaired() {
    let hub = Hub::with_run().await;
    hub.finish().await;
    let mut forged = hub.run_status();
    forged.conditions[1].message = "forged".to_owned();
    forged.stages_status.clear();
    hub.put_status(&forged);
    hub.api.writes();
    for _ in 0..3 {
        hub.go().await;
    }
    let touched: Vec<_> = hub.api.writes().into_iter().filter(|w| w.contains("runs")).collect();
    assert_eq!(touched, Vec::<String>::new());
    assert_eq!(hub.run_status(), forged);
}

/// One thing that is changed about a run's placement.
fn touch(hub: &Hub, what: &str) {
    let note = |name: &str| json!({ "metadata": { "name": name, "annotations": { "example.com/touched": what } } });
    let binding = || hub.binding("b").metadata.name.clone().unwrap();
    match what {
        "a binding" => {
            let seen = json!({ "clusterName": "b", "selected": true, "reason": "again" });
            let edited = json!({ "metadata": { "name": binding() }, "spec": { "clusterDecision": seen } });
            hub.api.put("clusterresourcebindings", edited);
        }
        "a binding is gone" => hub.api.delete("clusterresourcebindings", &binding()),
        "a binding, before it is stored" => {
            let (placement, binding) = (Key::cluster("crp"), Key::cluster(binding()));
            _ = hub.ctx.signals.say(&placement, &binding, 7, BindingStatus::default());
        }
        "the placement" => {
            let edited = json!({ "metadata": { "name": "crp" }, "spec": { "revisionHistoryLimit": 7 } });
            hub.api.put("clusterresourceplacements", edited);
        }
        "the policy snapshot" => hub.api.put("clusterschedulingpolicysnapshots", note("crp-0")),
        "the resource snapshot" => hub.api.put("clusterresourcesnapshots", note("crp-0-snapshot")),
        _ => hub.api.put("clusterstagedupdatestrategies", note("strategy")),
    }
    hub.sync();
}

const TOUCHED: [&str; 6] = [
    "a binding",
    "a binding, before it is stored",
    "the placement",
    "the policy snapshot",
    "the resource snapshot",
    "a binding is gone",
];

/// What each change wakes, one after the other.
async fn woken(hub: &Hub, changes: &[&str]) -> Vec<usize> {
    let feeding = tokio::spawn({
        let updates = hub.updates.clone();
        async move { updaterun::feed(&updates).await }
    });
    hub.awake().await;
    let mut seen = Vec::new();
    for what in changes {
        touch(hub, what);
        seen.push(hub.awake().await);
    }
    feeding.abort();
    seen
}

#[tokio::test(start_paused = true)]
async fn whatever_a_run_is_decided_from_wakes_it_until_it_has_ended() {
    let hub = Hub::with_run().await;
    let has_begun = |stage: &StageStatus| stage.start_time.is_some();
    while !hub.run_status().stages_status.iter().any(has_begun) {
        hub.go().await;
    }
    assert_eq!(woken(&hub, &TOUCHED).await, [1; 6], "{TOUCHED:?}");
    // A run reads its strategy once.
    assert_eq!(woken(&hub, &["the strategy"]).await, [0]);
    let hub = Hub::with_run().await;
    assert_eq!(woken(&hub, &["the strategy"]).await, [1], "it has no plan yet");
    hub.finish().await;
    assert_eq!(woken(&hub, &TOUCHED).await, [0; 6], "it has ended: {TOUCHED:?}");
}
