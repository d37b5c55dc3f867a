//! Somebody else writes to a run: that is looked at, what the run itself has written is not.

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
