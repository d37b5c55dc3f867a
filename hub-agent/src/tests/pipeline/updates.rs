//! Update runs against an API server that fails, and agents that are killed.

mod approvals;
mod by_hand;
mod faults;
mod groups;
mod settings;
mod told;

use fleet_api::{
    annotations,
    conditions::{self, Status, binding::Available},
    placement::{BindingState, UpdateRunStatus},
};
use fleet_testkit::Fault;

use super::*;

const RUN: &str = "run";
const STARTED: &str = "Detected the new changes on the resources and started the rollout process, resourceSnapshotIndex: 0, \
                       updateRun: run";

impl Hub {
    /// A run of three clusters, one after the other.
    async fn with_run() -> Self {
        let hub = Self::new(&json!({ "strategy": { "type": "External" } })).await;
        hub.begin_run(&json!({}));
        hub
    }

    /// A run of all clusters, one after the other, with what else is said of its only stage.
    fn begin_run(&self, more: &Value) {
        let mut stage = json!({ "name": "all", "labelSelector": {}, "maxConcurrency": 1 });
        merge(&mut stage, more);
        let strategy = json!({ "metadata": { "name": "strategy" }, "spec": { "stages": [stage] } });
        self.api.put("clusterstagedupdatestrategies", strategy);
        let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": "Run" });
        let run = json!({ "metadata": { "name": RUN }, "spec": spec });
        self.api.put("clusterstagedupdateruns", run);
        self.sync();
    }

    /// Every stage once, whatever fails. Members answer at once, and whoever is asked approves.
    async fn go(&self) {
        self.approve();
        let key = Key::cluster("crp");
        _ = selection::pass(&self.selection, &key).await;
        _ = scheduler::pass(&self.scheduler, &key).await;
        _ = rollout::pass(&self.rollout, &key).await;
        _ = updaterun::pass(&self.updates, &Key::cluster(RUN)).await;
        for binding in self.ctx.family.bindings_of.keys(&key) {
            _ = work::pass(&self.work, &binding).await;
            _ = binding_rollup::pass(&self.bindings, &binding).await;
        }
        self.report();
        for binding in self.ctx.family.bindings_of.keys(&key) {
            _ = work::pass(&self.work, &binding).await;
            _ = binding_rollup::pass(&self.bindings, &binding).await;
        }
        self.sync();
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        assert!(self.under_way() <= 1, "{:?}", self.ctx.family.bindings.all());
    }

    /// Approves what has no answer yet.
    fn approve(&self) {
        for request in self.api.all("clusterapprovalrequests").0 {
            if request["status"].is_null() {
                let status = json!({ "conditions": [condition("Approved", "True", 1)] });
                let name = &request["metadata"]["name"];
                let approved = json!({ "metadata": { "name": name }, "status": status });
                self.api.put("clusterapprovalrequests", approved);
            }
        }
        self.sync();
    }

    /// Clusters that have been started and are not available.
    fn under_way(&self) -> usize {
        let bindings = self.ctx.family.bindings.all();
        let busy = bindings.iter().filter(|binding| {
            let said = binding.status.as_ref().map(|status| status.conditions.as_slice());
            let generation = binding.metadata.generation.unwrap_or_default();
            binding.spec.state == BindingState::Bound
                && !conditions::is_true(said.unwrap_or_default(), Available::TYPE, generation)
        });
        busy.count()
    }

    fn run_status(&self) -> UpdateRunStatus {
        let run = self.api.get("clusterstagedupdateruns", RUN).unwrap();
        serde_json::from_value(run["status"].clone()).unwrap_or_default()
    }

    fn has_ended(&self) -> bool {
        let status = self.run_status();
        let ended = conditions::find(&status.conditions, "Succeeded");
        ended.is_some_and(|ended| {
            assert_eq!(Status::of(ended), Status::True, "{status:?}");
            true
        })
    }

    async fn finish(&self) {
        for _ in 0..60 {
            if self.has_ended() {
                return;
            }
            self.go().await;
        }
        panic!("it goes on for ever: {:?}", self.run_status());
    }

    /// Every cluster was updated, and says by whom.
    fn check_end(&self) {
        self.check_end_of(&CLUSTERS, 2);
    }

    /// With the generation that a binding has after one start.
    fn check_end_of(&self, clusters: &[&str], generation: i64) {
        for cluster in clusters {
            let binding = self.binding(cluster);
            let signed = &binding.metadata.annotations.as_ref().unwrap()[annotations::UPDATE_RUN];
            assert!(signed.starts_with("run/"), "{signed}");
            let started = binding.metadata.generation;
            assert_eq!(started, Some(generation), "it is started once: {binding:?}");
            let status = binding.status.as_ref().unwrap();
            let started = conditions::find(&status.conditions, "RolloutStarted").unwrap();
            assert_eq!(started.message, STARTED);
        }
        assert_eq!(self.api.all("clusterresourcesnapshots").0.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_costs_what_the_budget_says() {
    let hub = Hub::with_run().await;
    hub.finish().await;
    hub.check_end();
    let runs: Vec<_> = tally(&hub.api.writes())
        .into_iter()
        .filter(|write| write.contains("runs") || write.contains("bindings") || write.contains("snapshots"))
        .collect();
    assert_eq!(
        runs,
        [
            "3 PATCH clusterresourcebindings",
            "6 PATCH clusterresourcebindings/status",
            "1 PATCH clusterschedulingpolicysnapshots/status",
            "1 PATCH clusterstagedupdateruns",
            "6 PATCH clusterstagedupdateruns/status",
            "3 POST clusterresourcebindings",
            "1 POST clusterresourcesnapshots",
            "1 POST clusterschedulingpolicysnapshots",
        ]
    );
    let next = Hub::start(hub.api.clone()).await;
    for _ in 0..3 {
        next.go().await;
    }
    let touched: Vec<_> = next.api.writes().into_iter().filter(|w| w.contains("runs")).collect();
    assert_eq!(touched, Vec::<String>::new(), "it is never written again");
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_a_run_ends_the_same() {
    for lost in [false, true] {
        for writes in 0..30 {
            let hub = Hub::with_run().await;
            // From the next write on nothing is stored any more; or one is, and its answer is lost.
            for method in ["POST", "PATCH", "PUT", "DELETE"] {
                let fault = Fault::new("updateruns", 500).of(method).after(writes / 3);
                let fault = if lost { fault.done_all_the_same() } else { fault };
                hub.api.fail(fault);
                let fault = Fault::new("clusterresourcebindings", 500).of(method).after(writes);
                let fault = if lost { fault.done_all_the_same() } else { fault };
                hub.api.fail(fault);
            }
            for _ in 0..12 {
                hub.go().await;
            }
            hub.api.recover();
            let next = Hub::start(hub.api.clone()).await;
            drop(hub);
            next.finish().await;
            next.check_end();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_cannot_be_written_is_tried_again() {
    for code in [409, 429, 500] {
        let hub = Hub::with_run().await;
        for _ in 0..2 {
            hub.go().await;
        }
        hub.api
            .fail(Fault::new("clusterresourcebindings", code).of("PATCH").times(3));
        hub.finish().await;
        hub.check_end();
    }
}

#[tokio::test(start_paused = true)]
async fn the_clusters_of_a_wave_are_written_side_by_side() {
    let hub = Hub::new(&json!({ "strategy": { "type": "External" } })).await;
    hub.begin_run(&json!({ "maxConcurrency": 3 }));
    let key = Key::cluster("crp");
    for _ in 0..3 {
        check(selection::pass(&hub.selection, &key).await);
        check(scheduler::pass(&hub.scheduler, &key).await);
        check(rollout::pass(&hub.rollout, &key).await);
        hub.sync();
    }
    hub.api.writes();
    for _ in 0..5 {
        _ = updaterun::pass(&hub.updates, &Key::cluster(RUN)).await;
    }
    let order = hub.api.order().into_iter().filter(|line| line.contains("bindings"));
    // One after the other each would be stamped before the next one is filled.
    let (fill, stamp) = ("PATCH clusterresourcebindings", "PATCH clusterresourcebindings/status");
    assert_eq!(order.collect::<Vec<_>>(), [fill, fill, fill, stamp, stamp, stamp]);
}

#[tokio::test(start_paused = true)]
async fn with_the_next_run_the_rollout_has_started_anew() {
    const LONG_AGO: &str = "2026-01-01T00:00:00Z";
    let hub = Hub::with_run().await;
    hub.finish().await;
    for mut binding in hub.api.all("clusterresourcebindings").0 {
        for said in binding["status"]["conditions"].as_array_mut().unwrap() {
            said["lastTransitionTime"] = json!(LONG_AGO);
        }
        hub.api.put("clusterresourcebindings", binding);
    }
    hub.api.put("/api/v1/namespaces/app/configmaps", config_map("two"));
    let hub = Hub::start(hub.api.clone()).await;
    let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": "Run" });
    let next = json!({ "metadata": { "name": "next" }, "spec": spec });
    hub.api.put("clusterstagedupdateruns", next);
    hub.sync();
    for _ in 0..20 {
        _ = updaterun::pass(&hub.updates, &Key::cluster("next")).await;
        hub.go().await;
    }
    for cluster in CLUSTERS {
        let binding = hub.binding(cluster);
        assert_eq!(binding.spec.resource_snapshot_name, "crp-1-snapshot", "{cluster}");
        let list = &binding.status.as_ref().unwrap().conditions;
        let started = conditions::find(list, "RolloutStarted").unwrap();
        assert!(started.message.ends_with("updateRun: next"), "{}", started.message);
        let since = started.last_transition_time.0;
        assert_ne!(
            since,
            LONG_AGO.parse().unwrap(),
            "{cluster} keeps the time of the run before"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_run_has_frozen_is_kept_until_its_plan_names_it() {
    let hub = Hub::new(&json!({ "strategy": { "type": "External" }, "revisionHistoryLimit": 1 })).await;
    hub.begin_run(&json!({}));
    let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": "Run" });
    hub.api.put(
        "clusterstagedupdateruns",
        json!({ "metadata": { "name": "next" }, "spec": spec }),
    );
    // Each freezes what there is now, and no status says so yet.
    let freeze = async |text: &str| {
        hub.api.put("/api/v1/namespaces/app/configmaps", config_map(text));
        let hub = Hub::start(hub.api.clone()).await;
        let key = Key::cluster("crp");
        let placement = hub.ctx.family.placements.get(&key).unwrap();
        let frozen = selection::freeze(&hub.ctx, &key, &placement).await;
        assert!(matches!(frozen, Ok(Ok(_))));
        let names = hub.api.all("clusterresourcesnapshots").0.into_iter();
        names
            .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(freeze("one").await, ["crp-0-snapshot"]);
    assert_eq!(freeze("two").await, ["crp-0-snapshot", "crp-1-snapshot"]);
    hub.api.delete("clusterstagedupdateruns", "next");
    assert_eq!(freeze("three").await, ["crp-2-snapshot"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_made_after_one_that_somebody_deleted_goes_stage_by_stage() {
    let hub = Hub::with_run().await;
    hub.finish().await;
    hub.api.delete("clusterresourcesnapshots", "crp-0-snapshot");
    hub.api.put("/api/v1/namespaces/app/configmaps", config_map("two"));
    let hub = Hub::start(hub.api.clone()).await;
    let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": "Run" });
    let next = json!({ "metadata": { "name": "next" }, "spec": spec });
    hub.api.put("clusterstagedupdateruns", next);
    hub.sync();
    let has_two = |hub: &Hub| {
        let works = hub.api.all("works").0;
        works
            .iter()
            .filter(|work| work["spec"].to_string().contains("\"two\""))
            .count()
    };
    for _ in 0..20 {
        let before = has_two(&hub);
        _ = updaterun::pass(&hub.updates, &Key::cluster("next")).await;
        // One at a time is under way: that is looked at there.
        hub.go().await;
        assert!(has_two(&hub) <= before + 1, "several clusters get it together");
    }
    assert_eq!(has_two(&hub), 3);
    for cluster in CLUSTERS {
        let binding = hub.binding(cluster);
        assert_eq!(binding.spec.resource_snapshot_name, "crp-1-snapshot", "{cluster}");
        let signed = &binding.metadata.annotations.as_ref().unwrap()[annotations::UPDATE_RUN];
        assert!(signed.starts_with("next/"), "{signed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_without_an_index_takes_the_latest_version_if_nothing_has_changed() {
    let hub = Hub::with_run().await;
    hub.finish().await;
    let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": "Run" });
    let next = json!({ "metadata": { "name": "next" }, "spec": spec });
    hub.api.put("clusterstagedupdateruns", next);
    hub.sync();
    for _ in 0..3 {
        _ = updaterun::pass(&hub.updates, &Key::cluster("next")).await;
        hub.sync();
    }
    let run = hub.api.get("clusterstagedupdateruns", "next").unwrap();
    assert_eq!(run["status"]["resourceSnapshotIndexUsed"], "0", "{run}");
    // Every cluster had it: nothing was started anew, and there is one version.
    hub.check_end();
}
