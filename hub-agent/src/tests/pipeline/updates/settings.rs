//! Runs with settings: budgets and the way back, another try, the end of old runs, and what stays for them.

use fleet_core::updaterun::{BindingAction, BindingWrite, Content, Given, Put, Stamp};

use super::*;
use crate::binding::{self, Unwritten};

const RUNS: &str = "clusterstagedupdateruns";
const BACK: [(&str, &str); 3] = [
    ("max-failures", "0"),
    ("cluster-deadline", "3s"),
    ("on-failure", "Rollback"),
];

impl Hub {
    /// Every cluster has version "one" by a first run, and there is a version "two".
    async fn furnished() -> Self {
        let hub = Self::with_run().await;
        hub.finish().await;
        Box::pin(hub.change("two")).await
    }

    /// The watch of ConfigMaps is not there, so another process has to see it.
    async fn change(self, version: &str) -> Self {
        let collection = "/api/v1/namespaces/app/configmaps";
        self.api.put(collection, config_map(version));
        Self::start(self.api.clone()).await
    }

    /// Another run, with these settings.
    fn begin(&self, name: &str, state: &str, settings: &[(&str, &str)]) {
        let settings = settings
            .iter()
            .map(|(key, value)| (format!("{}{key}", annotations::ROLLOUT), json!(value)));
        let settings: serde_json::Map<_, _> = settings.collect();
        let spec = json!({ "placementName": "crp", "stagedRolloutStrategyName": "strategy", "state": state });
        let run = json!({ "metadata": { "name": name, "annotations": settings }, "spec": spec });
        self.api.put(RUNS, run);
        self.sync();
    }

    /// Every stage once, for every run. Version "two" works nowhere but on these clusters.
    async fn turn(&self, two_works_on: &[&str]) {
        let key = Key::cluster("crp");
        _ = selection::pass(&self.selection, &key).await;
        _ = scheduler::pass(&self.scheduler, &key).await;
        _ = rollout::pass(&self.rollout, &key).await;
        for run in self.ctx.family.updates.runs.all() {
            _ = updaterun::pass(&self.updates, &Key::of(&*run)).await;
        }
        self.carry().await;
        for work in self.api.all("works").0 {
            let namespace = work["metadata"]["namespace"].as_str().unwrap();
            let works = two_works_on
                .iter()
                .any(|cluster| namespace.ends_with(&format!("-{cluster}")));
            let works = works || !work["spec"].to_string().contains("\"two\"");
            let generation = work["metadata"]["generation"].as_i64().unwrap();
            let said = json!([
                condition("Applied", "True", generation),
                condition("Available", if works { "True" } else { "False" }, generation),
            ]);
            let status = json!({ "metadata": { "name": work["metadata"]["name"] }, "status": { "conditions": said } });
            self.api.put(&format!("namespaces/{namespace}/works"), status);
        }
        self.sync();
        self.carry().await;
        self.sync();
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    }

    async fn carry(&self) {
        for binding in self.ctx.family.bindings_of.keys(&Key::cluster("crp")) {
            _ = work::pass(&self.work, &binding).await;
            _ = binding_rollup::pass(&self.bindings, &binding).await;
        }
    }

    /// Turns until this run says so; or its whole status.
    async fn until(&self, run: &str, type_name: &str, status: &str, two_works_on: &[&str]) -> String {
        for _ in 0..80 {
            let found = self.status_of(run);
            let said = conditions::find(&found.conditions, type_name).filter(|said| said.status == status);
            if let Some(said) = said {
                return said.message.clone();
            }
            self.turn(two_works_on).await;
        }
        panic!("{run} does not come to {type_name}={status}: {:?}", self.status_of(run));
    }

    async fn until_true(&self, what: &str, two_works_on: &[&str], holds: impl Fn() -> bool) {
        for _ in 0..80 {
            if holds() {
                return;
            }
            self.turn(two_works_on).await;
        }
        panic!("it does not come to this: {what}");
    }

    /// The clock of these tests is the system's, which does not follow tokio's.
    fn ended_a_minute_ago(&self, run: &str) {
        let before = fleet_runtime::clock::Clock::system().now_secs() - SignedDuration::from_mins(1);
        let mut run = self.api.get(RUNS, run).unwrap();
        for condition in run["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(before);
        }
        self.api.put(RUNS, run);
        self.sync();
    }

    fn status_of(&self, run: &str) -> UpdateRunStatus {
        let run = self.api.get(RUNS, run).unwrap_or_default();
        serde_json::from_value(run["status"].clone()).unwrap_or_default()
    }

    /// The index that a cluster has, and the run that gave it that.
    fn has(&self, cluster: &str) -> (String, String) {
        let binding = self.binding(cluster);
        let signed = &binding.metadata.annotations.as_ref().unwrap()[annotations::UPDATE_RUN];
        let snapshot = &binding.spec.resource_snapshot_name;
        let index = snapshot.trim_start_matches("crp-").trim_end_matches("-snapshot");
        (index.to_owned(), signed.split('/').next().unwrap().to_owned())
    }

    fn marked(&self, snapshot: &str) -> Option<String> {
        let snapshot = self.api.get("clusterresourcesnapshots", snapshot)?;
        let mark = &snapshot["metadata"]["annotations"][annotations::FAILED_IN];
        mark.as_str().map(ToOwned::to_owned)
    }

    /// `a` works with version "two", `b` does not, and `c` never gets it.
    fn is_taken_back(&self, when: &str) {
        let status = self.status_of("bad");
        let said = conditions::find(&status.conditions, "Succeeded").map(|said| said.message.as_str());
        let said = said.unwrap_or_default();
        let end =
            "the failure budget is exhausted: 1 cluster(s) failed, at most 0 may: b; rolled back 2 of 2 cluster(s)";
        assert!(said.ends_with(end), "{when}: {status:?}");
        for (cluster, run) in [("a", "bad"), ("b", "bad"), ("c", "run")] {
            assert_eq!(self.has(cluster), ("0".to_owned(), run.to_owned()), "{when}: {cluster}");
        }
        for cluster in ["a", "b"] {
            let binding = self.binding(cluster);
            // Made, started, started, given back: nothing is written twice.
            assert_eq!(binding.metadata.generation, Some(4), "{when}: {binding:?}");
            let status = binding.status.as_ref().unwrap();
            let started = conditions::find(&status.conditions, "RolloutStarted").unwrap();
            assert!(
                started.message.ends_with("resourceSnapshotIndex: 0, updateRun: bad"),
                "{when}: {started:?}"
            );
        }
        assert_eq!(self.marked("crp-1-snapshot").as_deref(), Some("bad"), "{when}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_version_takes_itself_back_and_can_be_tried_again() {
    let hub = Hub::furnished().await;
    hub.begin("bad", "Run", &BACK);
    hub.until("bad", "Succeeded", "False", &["a"]).await;
    hub.is_taken_back("calmly");
    hub.begin("again", "Run", &[("retry-of", "bad")]);
    hub.until("again", "Succeeded", "True", &CLUSTERS).await;
    for cluster in CLUSTERS {
        assert_eq!(hub.has(cluster), ("1".to_owned(), "again".to_owned()));
    }
    assert_eq!(
        hub.api.all("clusterresourcesnapshots").0.len(),
        2,
        "none was taken for it"
    );
}

#[tokio::test(start_paused = true)]
async fn killed_after_any_write_of_a_rollback_it_ends_the_same() {
    for lost in [false, true] {
        for writes in 0..14 {
            let hub = Hub::furnished().await;
            hub.begin("bad", "Run", &BACK);
            let rolls_back = |status: &UpdateRunStatus| {
                let said = conditions::find(&status.conditions, "Progressing");
                said.is_some_and(|said| said.reason == "UpdateRunRollingBack")
            };
            hub.until_true("a way back", &["a"], || rolls_back(&hub.status_of("bad")))
                .await;
            // From the next write on nothing is stored any more; or one is, and its answer is lost.
            let fault = Fault::new("/apis/placement.", 500).writes().after(writes);
            hub.api.fail(if lost { fault.done_all_the_same() } else { fault });
            for _ in 0..6 {
                hub.turn(&["a"]).await;
            }
            hub.api.recover();
            let next = Hub::start(hub.api.clone()).await;
            drop(hub);
            next.until("bad", "Succeeded", "False", &["a"]).await;
            next.is_taken_back(&format!("after {writes}, lost {lost}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_only_when_its_version_is_marked_unless_that_is_forbidden() {
    let hub = Hub::furnished().await;
    hub.begin("bad", "Run", &BACK);
    hub.until_true("b has it", &["a"], || hub.has("b").0 == "1").await;
    hub.api.fail(Fault::new("clusterresourcesnapshots", 500).of("PATCH"));
    for _ in 0..30 {
        hub.turn(&["a"]).await;
    }
    assert_eq!(hub.has("a").0, "0", "it is taken back all the same");
    assert_eq!(hub.marked("crp-1-snapshot"), None);
    let status = hub.status_of("bad");
    assert!(
        conditions::find(&status.conditions, "Succeeded").is_none(),
        "{status:?}"
    );
    hub.api.recover();
    hub.until("bad", "Succeeded", "False", &["a"]).await;
    hub.is_taken_back("in the end");

    let hub = Hub::furnished().await;
    hub.begin("bad", "Run", &BACK);
    hub.until_true("b has it", &["a"], || hub.has("b").0 == "1").await;
    hub.api.set_forbidden(Some("clusterresourcesnapshots"));
    hub.until("bad", "Succeeded", "False", &["a"]).await;
    assert_eq!(hub.marked("crp-1-snapshot"), None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_has_ended_goes_when_its_time_is_over_and_a_newer_one_is_there() {
    let hub = Hub::furnished().await;
    hub.begin("old", "Run", &[("ttl", "5s")]);
    hub.until("old", "Succeeded", "True", &CLUSTERS).await;
    hub.ended_a_minute_ago("old");
    hub.turn(&CLUSTERS).await;
    assert!(hub.api.get(RUNS, "old").is_some(), "it is the newest");
    hub.begin("new", "Run", &[("ttl", "1h")]);
    hub.until("new", "Succeeded", "True", &CLUSTERS).await;
    for _ in 0..3 {
        hub.turn(&CLUSTERS).await;
    }
    assert!(
        hub.api.get(RUNS, "old").is_none(),
        "{:?}",
        hub.api.get(RUNS, "old").map(|run| run["metadata"].clone())
    );
    assert!(hub.api.get(RUNS, "new").is_some() && hub.api.get(RUNS, RUN).is_some());
}

#[tokio::test(start_paused = true)]
async fn what_a_run_may_have_to_give_back_is_not_pruned() {
    let hub = Hub::furnished().await;
    let one = json!({ "metadata": { "name": "crp" }, "spec": { "revisionHistoryLimit": 1 } });
    hub.api.put("clusterresourceplacements", one);
    let stage = json!({ "name": "all", "labelSelector": {}, "maxConcurrency": 3 });
    let strategy = json!({ "metadata": { "name": "strategy" }, "spec": { "stages": [stage] } });
    hub.api.put("clusterstagedupdatestrategies", strategy);
    hub.sync();
    hub.begin("bad", "Run", &[("on-failure", "Rollback")]);
    let all_have_it = || CLUSTERS.iter().all(|cluster| hub.has(cluster).0 == "1");
    hub.until_true("all have it", &[], all_have_it).await;
    // Another run takes a snapshot of its own; nobody names the first one any more but the record of the bad run.
    let hub = hub.change("three").await;
    hub.begin("next", "Initialize", &[]);
    hub.until("next", "Initialized", "True", &[]).await;
    let names = |hub: &Hub| {
        let all = hub.api.all("clusterresourcesnapshots").0;
        let names = all
            .iter()
            .map(|snapshot| snapshot["metadata"]["name"].as_str().unwrap().to_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    };
    assert_eq!(names(&hub), ["crp-0-snapshot", "crp-1-snapshot", "crp-2-snapshot"]);
    let requested =
        json!({ "metadata": { "name": "bad", "annotations": { annotations::ROLLBACK: annotations::REQUESTED } } });
    hub.api.put(RUNS, requested);
    hub.sync();
    let said = hub.until("bad", "Succeeded", "False", &[]).await;
    assert!(
        said.ends_with("a rollback was requested; rolled back 3 of 3 cluster(s)"),
        "{said}"
    );
    for cluster in CLUSTERS {
        assert_eq!(hub.has(cluster).0, "0");
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_run_has_given_a_cluster_since_is_not_overwritten() {
    let hub = Hub::furnished().await;
    let decided = hub.binding("a");
    let signed = |binding: &ClusterResourceBinding| {
        let annotations = binding.metadata.annotations.clone().unwrap_or_default();
        annotations.get(annotations::UPDATE_RUN).cloned()
    };
    let strategy = decided.spec.apply_strategy.clone().unwrap_or_default();
    let change = BindingWrite {
        binding: decided.metadata.name.clone().unwrap(),
        uid: decided.metadata.uid.clone().unwrap(),
        cluster: "a".to_owned(),
        was: Given::by(signed(&decided).as_deref(), &decided.spec),
        action: BindingAction::Put(Box::new(Put {
            content: Content {
                snapshot: "crp-1-snapshot".to_owned(),
                overrides: fleet_core::overrides::choose::Lists::default(),
                apply_strategy: strategy,
            },
            annotation: Some("late/uid".to_owned()),
            stamp: Stamp {
                message: "late".to_owned(),
                at: jiff::Timestamp::UNIX_EPOCH,
            },
        })),
    };
    let other = json!({ "metadata": { "name": change.binding, "annotations": { annotations::UPDATE_RUN: "other/uid" } },
        "spec": { "resourceSnapshotName": "crp-7-snapshot" } });
    hub.api.put("clusterresourcebindings", other);
    hub.sync();
    let placement = Key::cluster("crp");
    let written = binding::update(&hub.ctx, &placement, &change).await;
    assert!(matches!(written, Err(Unwritten::Overtaken)), "it is decided anew");
    hub.sync();
    assert_eq!(hub.has("a"), ("7".to_owned(), "other".to_owned()));
    // What has only been scheduled anew is the same to the run.
    let found = hub.binding("a");
    let mut change = change;
    change.was = Given::by(signed(&found).as_deref(), &found.spec);
    let touched = json!({ "metadata": { "name": change.binding },
        "spec": { "clusterDecision": { "clusterName": "a", "selected": true, "reason": "again" } } });
    hub.api.put("clusterresourcebindings", touched);
    hub.sync();
    assert!(binding::update(&hub.ctx, &placement, &change).await.is_ok());
    hub.sync();
    assert_eq!(hub.has("a"), ("1".to_owned(), "late".to_owned()));
}
