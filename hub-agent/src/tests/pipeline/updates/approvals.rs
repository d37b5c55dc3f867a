//! An approval counts for the run that asked for it, and for no other.

use fleet_api::finalizers::UPDATE_RUN;

use super::*;

const RUNS: &str = "clusterstagedupdateruns";
const REQUESTS: &str = "clusterapprovalrequests";

impl Hub {
    /// A run whose only stage waits for an approval.
    async fn with_gate() -> Self {
        let hub = Self::new(&json!({ "strategy": { "type": "External" } })).await;
        let key = Key::cluster("crp");
        for _ in 0..3 {
            check(selection::pass(&hub.selection, &key).await);
            check(scheduler::pass(&hub.scheduler, &key).await);
            check(rollout::pass(&hub.rollout, &key).await);
            hub.sync();
        }
        hub.begin_run(&json!({ "beforeStageTasks": [{ "type": "Approval" }] }));
        hub.run_passes().await;
        assert_eq!(hub.api.all(REQUESTS).0.len(), 1, "{:?}", hub.run_status());
        hub
    }

    /// The run is looked at for as long as something comes of it, and nobody else does anything.
    async fn run_passes(&self) {
        for _ in 0..5 {
            _ = updaterun::pass(&self.updates, &Key::cluster(RUN)).await;
        }
    }

    /// Clusters that have content.
    fn begun(&self) -> usize {
        let bindings = self.api.all("clusterresourcebindings").0;
        let bound = |binding: &&Value| binding["spec"]["state"] == "Bound";
        bindings.iter().filter(bound).count()
    }

    fn finalizers(&self) -> Value {
        self.api.get(RUNS, RUN).unwrap()["metadata"]["finalizers"].clone()
    }

    /// Somebody replaces the whole object with one that has no finalizers.
    fn strip(&self) {
        let bare = json!({ "metadata": { "name": RUN, "finalizers": [] } });
        self.api.put(RUNS, bare);
        self.list(&self.ctx.family.updates.runs, RUNS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lost_its_finalizer_under_way_gets_it_back() {
    let hub = Hub::with_gate().await;
    let feeding = tokio::spawn({
        let updates = hub.updates.clone();
        async move { updaterun::feed(&updates).await }
    });
    hub.awake().await;
    assert_eq!(hub.finalizers(), json!([UPDATE_RUN]));
    hub.strip();
    assert_eq!(hub.finalizers(), json!([]));
    assert_eq!(hub.awake().await, 1, "nobody looks");
    hub.run_passes().await;
    assert_eq!(hub.finalizers(), json!([UPDATE_RUN]));
    hub.sync();
    assert_eq!(hub.awake().await, 0, "it wakes itself");
    feeding.abort();
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_deleted_run_does_not_count_for_the_next_of_its_name() {
    let hub = Hub::with_gate().await;
    hub.approve();
    // It was accepted, and what was asked for before the last cluster is still there.
    hub.run_passes().await;
    assert_eq!(hub.begun(), 1);
    hub.sync();
    // From now on the agent sees runs, and of requests only what it does itself.
    let going = json!({ "metadata": { "name": RUN, "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    hub.api.put(RUNS, going);
    hub.list(&hub.ctx.family.updates.runs, RUNS);
    hub.run_passes().await;
    assert!(hub.api.get(RUNS, RUN).is_none());
    assert!(hub.api.all(REQUESTS).0.is_empty());
    let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": "Run" });
    hub.api.put(RUNS, json!({ "metadata": { "name": RUN }, "spec": spec }));
    hub.list(&hub.ctx.family.updates.runs, RUNS);
    hub.api.writes();
    hub.run_passes().await;
    let asked = hub.api.all(REQUESTS).0;
    assert_eq!(asked.len(), 1, "it is asked for anew: {:?}", hub.run_status());
    assert!(asked[0]["status"].is_null(), "{asked:?}");
    let status = hub.run_status();
    let said = conditions::find(&status.conditions, "Progressing").unwrap();
    assert_eq!(said.reason, "UpdateRunWaiting");
    assert_eq!(hub.begun(), 1, "it goes on without having been approved");
}

#[tokio::test(start_paused = true)]
async fn an_acceptance_that_found_no_request_is_none() {
    let hub = Hub::with_gate().await;
    hub.approve();
    // Its user thinks better of it, which the agent does not see yet.
    hub.api.delete(REQUESTS, "run-before-all");
    hub.run_passes().await;
    assert_eq!(hub.begun(), 0);
    let tasks = hub.run_status().stages_status[0].before_stage_task_status.clone();
    assert!(conditions::find(&tasks[0].conditions, "ApprovalRequestApproved").is_none());
    let asked = hub.api.all(REQUESTS).0;
    assert_eq!(asked.len(), 1, "it is asked for anew");
    assert!(asked[0]["status"].is_null(), "{asked:?}");
}
