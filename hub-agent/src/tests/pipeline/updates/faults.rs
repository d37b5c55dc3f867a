//! Every kind of write of a run that fails, or whose answer is lost, and watches that lag.

use super::*;

/// What is written in a run with an approval and a cluster to leave, in the order of their first time.
const WRITES: [(&str, &str, usize); 7] = [
    // Finalizer, plan, and how far it has come.
    ("PATCH", "clusterstagedupdateruns", 6),
    ("POST", "clusterresourcesnapshots", 1),
    ("POST", "clusterapprovalrequests", 1),
    // That it was accepted.
    ("PATCH", "clusterapprovalrequests", 1),
    // Content and stamp of each of two, and finalizers of one that goes.
    ("PATCH", "clusterresourcebindings", 6),
    ("DELETE", "clusterresourcebindings", 1),
    ("POST", "works", 2),
];

impl Hub {
    /// Clusters `a` and `b` are to be updated after an approval, and `c` is to be left.
    async fn with_long_run() -> Self {
        let fixed = |clusters: &[&str]| json!({ "placementType": "PickFixed", "clusterNames": clusters });
        let hub = Self::new(&json!({ "strategy": { "type": "External" }, "policy": fixed(&CLUSTERS) })).await;
        hub.go().await;
        let narrower = json!({ "metadata": { "name": "crp" }, "spec": { "policy": fixed(&["a", "b"]) } });
        hub.api.put("clusterresourceplacements", narrower);
        hub.sync();
        hub.go().await;
        assert_eq!(hub.binding("c").spec.state, BindingState::Unscheduled);
        hub.begin_run(&json!({ "beforeStageTasks": [{ "type": "Approval" }] }));
        hub
    }

    fn check_long_end(&self) {
        let status = self.run_status();
        let left = status.deletion_stage_status.unwrap().clusters;
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(conditions::find(&left[0].conditions, "Succeeded").is_some(), "{left:?}");
        assert_eq!(self.api.all("clusterresourcebindings").0.len(), 2);
        assert_eq!(self.api.all("clusterapprovalrequests").0.len(), 1);
        assert_eq!(self.api.all("clusterresourcesnapshots").0.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_write_may_fail_or_lose_its_answer() {
    let calm = Hub::with_long_run().await;
    calm.api.writes();
    calm.finish().await;
    calm.check_long_end();
    let written = calm.api.writes();
    for (method, plural, least) in WRITES {
        let times = written.iter().filter(|line| {
            let (verb, resource) = line.split_once(' ').unwrap_or_default();
            verb == method && resource.starts_with(plural)
        });
        let times = times.count();
        assert!(times >= least, "{method} {plural}: {times} in {written:?}");
        for after in 0..times {
            for (code, lost) in [(409, false), (429, false), (500, false), (500, true)] {
                let hub = Hub::with_long_run().await;
                let fault = Fault::new(plural, code).of(method).after(after).times(2);
                hub.api.fail(if lost { fault.done_all_the_same() } else { fault });
                hub.finish().await;
                hub.check_long_end();
                // Made, moved to the other policy, started.
                hub.check_end_of(&["a", "b"], 3);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_lags_starts_nothing_twice() {
    let hub = Hub::with_run().await;
    let run = Key::cluster(RUN);
    for _ in 0..3 {
        hub.go().await;
    }
    for _ in 0..20 {
        // The answers to its own writes are all that the agent hears.
        for _ in 0..5 {
            _ = updaterun::pass(&hub.updates, &run).await;
            for binding in hub.ctx.family.bindings_of.keys(&Key::cluster("crp")) {
                _ = work::pass(&hub.work, &binding).await;
                _ = binding_rollup::pass(&hub.bindings, &binding).await;
            }
            let bound = hub.api.all("clusterresourcebindings").0;
            let bound = bound.iter().filter(|binding| binding["spec"]["state"] == "Bound");
            let done = hub.run_status().stages_status;
            let done = done.iter().flat_map(|stage| &stage.clusters);
            let done = done.filter(|cluster| conditions::find(&cluster.conditions, "Succeeded").is_some());
            assert!(bound.count() <= done.count() + 1);
        }
        hub.go().await;
    }
    hub.finish().await;
    hub.check_end();
}

#[tokio::test(start_paused = true)]
async fn a_run_leaves_no_cluster_of_a_hub_that_went_back_in_time_until_it_has_recovered() {
    let hub = Hub::with_long_run().await;
    hub.mark("c", annotations::WENT_BACK_AT, "2026-01-02T00:00:00Z");
    for _ in 0..30 {
        hub.go().await;
    }
    let status = hub.run_status();
    assert!(
        conditions::find(&status.stages_status[0].conditions, "Succeeded").is_some(),
        "{status:?}"
    );
    assert!(!hub.has_ended());
    assert_eq!(hub.binding("c").metadata.deletion_timestamp, None);
    hub.mark("c", annotations::RECOVERED_AT, "2026-01-02T00:00:01Z");
    hub.finish().await;
    hub.check_long_end();
}
