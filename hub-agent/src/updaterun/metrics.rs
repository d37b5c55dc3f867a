//! How runs fare, under the names that KubeFleet's dashboards have; and how long our own steps take, without names.

use fleet_api::{
    conditions::{
        self, Status, Words as _,
        update_run::Succeeded,
        update_stage::{ApprovalRequestApproved, ApprovalRequestCreated, ClusterSucceeded, Progressing},
    },
    labels,
    placement::{ClusterUpdatingStatus, Scope, StageStatus, StageTaskStatus, UpdateRunStatus},
};
use fleet_runtime::{
    Key,
    cache::Changes,
    metrics::{self, Metrics},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Resource, ResourceExt as _, core::object::HasStatus as _};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, histogram::Histogram},
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

/// The metrics of runs, for both scopes. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Measures {
    approvals: Family<Task, Histogram>,
    stages: Family<Name, Histogram>,
    steps: Family<Step, Histogram>,
    /// Which series each run has, to take them away with it.
    series: Arc<Mutex<HashMap<Key, HashSet<&'static str>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
#[expect(non_snake_case, reason = "the label's name")]
struct Task {
    namespace: String,
    name: String,
    taskType: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Step {
    step: &'static str,
}

fn of_approvals() -> Histogram {
    Histogram::new([60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 21600.0, 43200.0, 86400.0])
}

fn of_stages() -> Histogram {
    Histogram::new([15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0])
}

impl Measures {
    /// Registers the families.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let new = Self {
            approvals: Family::new_with_constructor(of_approvals),
            stages: Family::new_with_constructor(of_stages),
            steps: Family::new_with_constructor(metrics::seconds),
            series: Arc::default(),
        };
        metrics.register(|registry| {
            registry.register(
                "fleet_workload_update_run_approval_request_latency_seconds",
                "From an approval request to its approval",
                new.approvals.clone(),
            );
            registry.register(
                "fleet_workload_update_run_stage_cluster_updating_duration_seconds",
                "From a stage's start until its last cluster was done",
                new.stages.clone(),
            );
            registry.register(
                "fleet_update_run_step_seconds",
                "Time that the steps of update runs took",
                new.steps.clone(),
            );
        });
        new
    }

    /// Takes away the series of a run that is gone.
    pub(super) fn forget(&self, key: &Key) {
        let Some(kinds) = self.series.lock().remove(key) else {
            return;
        };
        let (namespace, name) = (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned());
        for kind in kinds {
            self.approvals.remove(&Task {
                namespace: namespace.clone(),
                name: name.clone(),
                taskType: kind,
            });
        }
        self.stages.remove(&Name { namespace, name });
    }

    /// Takes away the series of runs that go, whoever leads: another replica may have ended them.
    pub(crate) async fn follow<S: Scope>(self, mut runs: Changes<S::UpdateRun>) {
        loop {
            let change = runs.next().await;
            let was_there = change.old.is_some();
            if was_there && change.differs(|run| run.meta().uid.clone()) {
                self.forget(&change.key);
            }
        }
    }

    /// How long a step took.
    fn step(&self, step: &'static str, took: f64) {
        self.steps.get_or_create(&Step { step }).observe(took);
    }

    /// How long it took to write the starts of clusters.
    pub(super) fn wrote_starts(&self, took: Duration) {
        self.step("cluster_started", took.as_secs_f64());
    }
}

fn seconds(since: Timestamp, until: Timestamp) -> f64 {
    until.duration_since(since).as_secs_f64().max(0.0)
}

/// A run has a plan, or has failed to get one.
pub(super) fn initialized<R: Resource>(measures: &Measures, run: &R, now: Timestamp) {
    if let Some(created) = run.creation_timestamp() {
        measures.step("initialized", seconds(created.0, now));
    }
}

/// A run has come this far.
pub(super) fn moved<S: Scope>(measures: &Measures, run: &S::UpdateRun, status: &UpdateRunStatus, now: Timestamp) {
    let none = UpdateRunStatus::default();
    let before = run.status().unwrap_or(&none);
    for (old, new) in stages(before).zip(stages(status)) {
        of_stage(measures, &Key::of(run), old, new, now);
    }
    if turned(&before.conditions, &status.conditions, Succeeded::TYPE).is_some()
        && let Some(created) = run.creation_timestamp()
    {
        measures.step("run", seconds(created.0, now));
    }
}

/// All stages, the deletion stage last.
fn stages(status: &UpdateRunStatus) -> impl Iterator<Item = &StageStatus> {
    status.stages_status.iter().chain(&status.deletion_stage_status)
}

fn of_stage(measures: &Measures, key: &Key, old: &StageStatus, new: &StageStatus, now: Timestamp) {
    let (namespace, name) = (key.namespace().unwrap_or_default().to_owned(), key.name().to_owned());
    for (old, new) in old.clusters.iter().zip(&new.clusters) {
        if let Some(ended) = turned(&old.conditions, &new.conditions, ClusterSucceeded::TYPE)
            && ended.reason == ClusterSucceeded::Succeeded.reason()
            && let Some(started) = conditions::find(&new.conditions, "Started")
        {
            measures.step("cluster_available", seconds(started.last_transition_time.0, now));
        }
    }
    let done = |stage: &StageStatus| !stage.clusters.is_empty() && stage.clusters.iter().all(is_done);
    // A stage that was stopped in between took as long as its user liked.
    let was_under_way = conditions::find(&old.conditions, Progressing::TYPE)
        .is_some_and(|said| said.reason == Progressing::Started.reason());
    if done(new) && !done(old) && was_under_way {
        let since = new.start_time.as_ref().map_or(now, |time| time.0);
        let series = Name {
            namespace: namespace.clone(),
            name: name.clone(),
        };
        measures.series.lock().entry(key.clone()).or_default();
        measures.stages.get_or_create(&series).observe(seconds(since, now));
    }
    if let (None, Some(start), Some(end)) = (&old.end_time, &new.start_time, &new.end_time) {
        measures.step("stage", seconds(start.0, end.0));
    }
    let tasks = [
        (
            &old.before_stage_task_status,
            &new.before_stage_task_status,
            labels::BEFORE_STAGE,
        ),
        (
            &old.after_stage_task_status,
            &new.after_stage_task_status,
            labels::AFTER_STAGE,
        ),
    ];
    for (old, new, task_type) in tasks {
        for took in old.iter().zip(new).filter_map(|(old, new)| latency(old, new)) {
            let series = Task {
                namespace: namespace.clone(),
                name: name.clone(),
                taskType: task_type,
            };
            measures.series.lock().entry(key.clone()).or_default().insert(task_type);
            measures.approvals.get_or_create(&series).observe(took);
        }
    }
}

fn is_done(cluster: &ClusterUpdatingStatus) -> bool {
    let ended = conditions::find(&cluster.conditions, ClusterSucceeded::TYPE);
    ended.is_some_and(|condition| Status::of(condition) == Status::True)
}

/// How long a task that has just been approved was waited for.
fn latency(old: &StageTaskStatus, new: &StageTaskStatus) -> Option<f64> {
    let approved = turned(&old.conditions, &new.conditions, ApprovalRequestApproved::TYPE)?;
    let created = conditions::find(&new.conditions, ApprovalRequestCreated::TYPE)?;
    Some(seconds(created.last_transition_time.0, approved.last_transition_time.0))
}

/// The condition of this type, if it is true or false now and has not been before.
fn turned<'a>(old: &[Condition], new: &'a [Condition], type_name: &str) -> Option<&'a Condition> {
    let is_decided = |condition: &&Condition| Status::of(condition) != Status::Unknown;
    let before = conditions::find(old, type_name).filter(is_decided);
    let after = conditions::find(new, type_name).filter(is_decided);
    after.filter(|_| before.is_none())
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::ClusterScoped;
    use fleet_runtime::cache::{Event, Store};
    use serde_json::json;

    use super::*;

    fn shown(metrics: &Metrics) -> bool {
        metrics.encode().contains("name=\"release\"")
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_that_another_leader_ended_leaves_no_series() {
        let metrics = Metrics::new();
        let (measures, runs) = (Measures::new(&metrics), Store::new("clusterstagedupdateruns"));
        let run = |uid: &str, version: &str| -> <ClusterScoped as Scope>::UpdateRun {
            let spec = json!({ "placementName": "web", "stagedRolloutStrategyName": "s" });
            let meta = json!({ "name": "release", "uid": uid, "resourceVersion": version });
            serde_json::from_value(json!({ "metadata": meta, "spec": spec })).unwrap()
        };
        tokio::spawn(measures.clone().follow::<ClusterScoped>(runs.subscribe()));
        let seen = async |event| {
            runs.feed(event);
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        seen(Event::Applied(run("one", "1"))).await;
        let stages = |end: &str| {
            let condition = |type_: &str, reason: &str| {
                json!({
                    "type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": end,
                })
            };
            let cluster =
                json!({ "clusterName": "a", "conditions": [condition("Succeeded", "ClusterUpdatingSucceeded")] });
            let stage = json!({ "stageName": "s", "startTime": end, "clusters": [cluster],
                "conditions": [condition("Progressing", "StageUpdatingStarted")] });
            serde_json::from_value::<StageStatus>(stage).unwrap()
        };
        let measure = || {
            let now = "2026-01-02T12:00:00Z";
            let (mut before, after) = (stages(now), stages(now));
            before.clusters[0].conditions.clear();
            of_stage(
                &measures,
                &Key::cluster("release"),
                &before,
                &after,
                now.parse().unwrap(),
            );
        };
        measure();
        assert!(shown(&metrics));
        seen(Event::Applied(run("one", "2"))).await;
        assert!(shown(&metrics), "it goes on");
        seen(Event::Applied(run("two", "3"))).await;
        assert!(!shown(&metrics), "it is another run");
        measure();
        seen(Event::deleted(&run("two", "4"))).await;
        assert!(!shown(&metrics));
    }
    /// One stage of two clusters, of which one is done and the other is about to be.
    fn stage(reason: &str, ended: usize, tasks: &serde_json::Value) -> StageStatus {
        let condition = |type_: &str, reason: &str, at: &str| json!({ "type": type_, "status": "True", "reason": reason, "message": "", "lastTransitionTime": at });
        let began = "2026-01-02T12:00:00Z";
        let clusters = ["a", "b"].iter().enumerate().map(|(place, name)| {
            let mut said = vec![condition("Started", "ClusterUpdatingStarted", began)];
            if place < ended {
                said.push(condition(
                    "Succeeded",
                    "ClusterUpdatingSucceeded",
                    "2026-01-02T12:00:40Z",
                ));
            }
            json!({ "clusterName": name, "conditions": said })
        });
        let stage = json!({ "stageName": "s", "startTime": began, "clusters": clusters.collect::<Vec<_>>(),
            "conditions": [condition("Progressing", reason, began)], "beforeStageTaskStatus": tasks });
        serde_json::from_value(stage).unwrap()
    }

    fn measured(old: &StageStatus, new: &StageStatus) -> String {
        let metrics = Metrics::new();
        let (measures, now) = (Measures::new(&metrics), "2026-01-02T12:00:40Z");
        of_stage(
            &measures,
            &Key::namespaced("shop", "release"),
            old,
            new,
            now.parse().unwrap(),
        );
        metrics.encode()
    }

    #[test]
    fn a_stage_is_measured_only_if_it_was_under_way_to_its_end() {
        const LINE: &str = "fleet_workload_update_run_stage_cluster_updating_duration_seconds_sum{namespace=\"shop\",\
                            name=\"release\"} 40";
        let none = json!([]);
        let waits = "StageUpdatingWaiting";
        for (before, ended, seen) in [
            ("StageUpdatingStarted", 1, true),
            ("StageUpdatingStarted", 2, false),
            ("StageUpdatingStopping", 1, false),
            ("StageUpdatingStopped", 1, false),
            (waits, 1, false),
        ] {
            let text = measured(&stage(before, ended, &none), &stage(waits, 2, &none));
            assert_eq!(text.contains(LINE), seen, "{before} {ended}: {text}");
        }
    }

    #[test]
    fn approvals_and_steps_are_measured_once() {
        let said = |type_: &str, at: &str| json!({ "type": type_, "status": "True", "reason": "R", "message": "", "lastTransitionTime": at });
        let created = said("ApprovalRequestCreated", "2026-01-02T11:00:00Z");
        let approved = said("ApprovalRequestApproved", "2026-01-02T11:10:00Z");
        let task = |said: &[&serde_json::Value]| json!([{ "type": "Approval", "conditions": said }]);
        let (open, done) = (task(&[&created]), task(&[&created, &approved]));
        let latency = "fleet_workload_update_run_approval_request_latency_seconds_sum{namespace=\"shop\",name=\"release\",\
                       taskType=\"beforeStage\"} 600";
        let step = "fleet_update_run_step_seconds_sum{step=\"cluster_available\"} 40";
        let (waiting, under_way) = ("StageUpdatingWaiting", "StageUpdatingStarted");
        let text = measured(&stage(waiting, 1, &open), &stage(under_way, 2, &done));
        assert!(text.contains(latency) && text.contains(step), "{text}");
        let text = measured(&stage(under_way, 2, &done), &stage(under_way, 2, &done));
        assert!(
            !text.contains("release") && !text.contains("cluster_available"),
            "{text}"
        );
    }
}
