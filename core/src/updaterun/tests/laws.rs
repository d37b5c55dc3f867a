//! Laws over random histories: clusters that come, go, work and break; users that stop, resume, approve and edit; other
//! runs; clocks that are set; crashes between any two writes.

use std::collections::BTreeSet;

use fleet_api::conditions;
use fleet_api::placement::{BindingState, PreviousContent, UpdateRunState};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proptest::prelude::*;
use serde_json::json;

use super::hub::{Hub, at, strategy};
use crate::updaterun::{Phase, Run, snapshot_name};
use crate::window::Windows;

const CLUSTERS: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];

#[derive(Debug, Clone)]
enum Happening {
    /// The agent passes, and crashes after so many writes.
    Crash(usize),
    Passes,
    Available(usize),
    Unavailable(usize),
    /// The scheduler writes to a binding.
    Touch(usize),
    Unschedule(usize),
    Restore(usize),
    Pick(usize),
    Gone(usize),
    TakeOver(usize),
    /// Another run gives a cluster just what this one would.
    Forestall(usize),
    Stop,
    Resume,
    Approve(usize, i64),
    DeleteRequest,
    /// The placement is gone, and back after some time or never.
    Placement(bool),
    Time(i64),
    /// Somebody sets the clock.
    Clock(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let cluster = 0..CLUSTERS.len();
    prop_oneof![
        4 => (0..9usize).prop_map(Happening::Crash),
        8 => Just(Happening::Passes),
        12 => cluster.clone().prop_map(Happening::Available),
        2 => cluster.clone().prop_map(Happening::Unavailable),
        2 => cluster.clone().prop_map(Happening::Touch),
        1 => cluster.clone().prop_map(Happening::Unschedule),
        1 => cluster.clone().prop_map(Happening::Restore),
        1 => cluster.clone().prop_map(Happening::Pick),
        2 => cluster.clone().prop_map(Happening::Gone),
        1 => cluster.clone().prop_map(Happening::TakeOver),
        1 => cluster.prop_map(Happening::Forestall),
        1 => Just(Happening::Stop),
        2 => Just(Happening::Resume),
        3 => (0..6usize, 0..2i64).prop_map(|(request, generation)| Happening::Approve(request, generation)),
        1 => Just(Happening::DeleteRequest),
        1 => any::<bool>().prop_map(Happening::Placement),
        3 => (1..400i64).prop_map(Happening::Time),
        1 => (-4000..4000i64).prop_map(Happening::Clock),
    ]
}

fn hub(max: u32, tasks: bool) -> Hub {
    let mut hub = Hub::new(&CLUSTERS[..6]);
    for (place, cluster) in CLUSTERS.iter().enumerate() {
        hub.member(cluster, &[("stage", if place < 3 { "one" } else { "two" })]);
    }
    hub.unschedule("c5");
    let (before, after) = if tasks {
        let wait = json!({ "type": "TimedWait", "waitTime": "1m" });
        (json!([{ "type": "Approval" }]), json!([wait, { "type": "Approval" }]))
    } else {
        (json!([]), json!([]))
    };
    let stage = |name: &str| {
        json!({ "name": name, "labelSelector": { "matchLabels": { "stage": name } }, "maxConcurrency": max,
            "beforeStageTasks": before, "afterStageTasks": after })
    };
    hub.strategy = Some(strategy(json!([stage("one"), stage("two")])));
    hub
}

impl Hub {
    fn has(&self, cluster: &str) -> bool {
        self.bindings.iter().any(|b| b.spec.target_cluster == cluster)
    }

    fn is_live(&mut self, cluster: &str) -> bool {
        self.binding(cluster).metadata.deletion_timestamp.is_none()
    }

    /// Unscheduled, and nobody deletes it.
    fn is_left(&mut self, cluster: &str) -> bool {
        self.is_live(cluster) && self.binding(cluster).spec.state == BindingState::Unscheduled
    }

    fn happens(&mut self, happening: &Happening) {
        match happening {
            Happening::Crash(writes) => {
                self.writes_left = *writes;
                for _ in 0..3 {
                    self.pass_within_the_law();
                    if self.writes_left == 0 {
                        break;
                    }
                }
                self.writes_left = usize::MAX;
            }
            Happening::Passes => {
                for _ in 0..3 {
                    self.pass_within_the_law();
                }
            }
            Happening::Time(seconds) => self.now += seconds,
            Happening::Clock(seconds) => self.set_clock(*seconds),
            Happening::Forestall(place) if self.has(CLUSTERS[*place]) && self.is_live(CLUSTERS[*place]) => {
                self.forestall(CLUSTERS[*place]);
            }
            Happening::Stop if self.run.spec.state == UpdateRunState::Run => self.set_state(UpdateRunState::Stop),
            Happening::Resume if self.run.spec.state == UpdateRunState::Stop => self.set_state(UpdateRunState::Run),
            Happening::Approve(place, generation) => {
                let names: Vec<_> = self.approvals.iter().map(|a| a.name().to_owned()).collect();
                if let Some(name) = names.get(*place) {
                    self.approve(name, *generation);
                }
            }
            Happening::DeleteRequest => _ = self.approvals.pop(),
            Happening::Placement(there) => {
                if *there {
                    self.place("placement-uid");
                } else {
                    self.placement = None;
                }
            }
            Happening::Pick(place) => {
                let cluster = CLUSTERS[*place];
                let live = |b: &super::hub::BindingObject| {
                    b.spec.target_cluster == cluster && b.metadata.deletion_timestamp.is_none()
                };
                if !self.bindings.iter().any(live) {
                    self.pick(cluster);
                }
            }
            Happening::Gone(place) => {
                let cluster = CLUSTERS[*place];
                let leaving = |b: &super::hub::BindingObject| {
                    b.metadata.deletion_timestamp.is_some() || b.spec.state == BindingState::Unscheduled
                };
                self.bindings
                    .retain(|b| b.spec.target_cluster != cluster || !leaving(b));
            }
            Happening::Available(place) if self.has(CLUSTERS[*place]) => self.available(CLUSTERS[*place]),
            Happening::Unavailable(place) if self.has(CLUSTERS[*place]) => self.unavailable(CLUSTERS[*place]),
            Happening::Touch(place) if self.has(CLUSTERS[*place]) => self.binding(CLUSTERS[*place]).touch(),
            Happening::TakeOver(place) if self.has(CLUSTERS[*place]) => self.take_over(CLUSTERS[*place], "other"),
            Happening::Unschedule(place) if self.has(CLUSTERS[*place]) && self.is_live(CLUSTERS[*place]) => {
                self.unschedule(CLUSTERS[*place]);
            }
            Happening::Restore(place) if self.has(CLUSTERS[*place]) && self.is_left(CLUSTERS[*place]) => {
                self.restore(CLUSTERS[*place]);
            }
            _ => {}
        }
    }

    /// Clusters that this run has started and that have not been available since, by what is stored on their bindings.
    fn unproven(&self) -> BTreeSet<String> {
        let ours = |b: &&super::hub::BindingObject| {
            let annotations = b.metadata.annotations.as_ref();
            let signed = annotations.and_then(|list| list.get("kubernetes-fleet.io/update-run"));
            signed.is_some_and(|value| value == "run/run-uid")
                && b.spec.resource_snapshot_name == "web-1-snapshot"
                && matches!(b.spec.state, BindingState::Scheduled | BindingState::Bound)
                && b.metadata.deletion_timestamp.is_none()
        };
        let proven = |b: &&super::hub::BindingObject| {
            let entry = self.run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
            let mut entry = entry.filter(|entry| entry.cluster_name == b.spec.target_cluster);
            let ended = entry.any(|entry| conditions::find(&entry.conditions, "Succeeded").is_some());
            ended || conditions::is_true(&b.status.conditions, "Available", b.generation())
        };
        let unproven = self.bindings.iter().filter(ours).filter(|b| !proven(b));
        unproven.map(|b| b.spec.target_cluster.clone()).collect()
    }

    /// One pass, with the laws that hold for each.
    fn pass_within_the_law(&mut self) {
        let before = self.clone();
        let finished = before.phase() == Phase::Finished;
        self.pass();
        let planned: BTreeSet<_> = self.planned().into_iter().collect();
        let max = usize::try_from(self.max()).unwrap();
        if finished {
            assert_eq!(self.log, before.log, "a finished run writes nothing");
        }
        for line in &self.log[before.log.len()..] {
            if let Some((verb @ ("write" | "stamp" | "delete"), cluster)) = line.split_once(' ') {
                assert!(planned.contains(cluster), "{verb} {cluster} is outside the plan");
            }
        }
        // Nothing is started while as many as may be are under way.
        let (old, new) = (before.unproven(), self.unproven());
        if new.difference(&old).next().is_some() {
            // One that is late has failed, whether or not that is stored yet.
            let options = self.run.status.options.as_ref();
            let failures = options.and_then(|options| options.max_failures.parse::<usize>().ok());
            let most = max + failures.unwrap_or_default();
            assert!(new.len() <= most, "{old:?} -> {new:?}: {:?}", self.log);
            assert_eq!(
                before.run.spec.state,
                UpdateRunState::Run,
                "a stopping run starts nothing"
            );
            let stages: BTreeSet<_> = new.iter().filter_map(|cluster| self.stage_of(cluster)).collect();
            assert!(stages.len() <= 1, "stages overlap: {new:?} {:?}", self.log);
        }
        self.keeps_its_budget(&before, new.difference(&old).next().is_some());
        self.keeps_to_windows(&before);
        let counts = self.run.status.stages_status.iter().map(|stage| {
            let says = |list: &[_], type_name| conditions::find(list, type_name).is_some();
            let under_way = |c: &&fleet_api::placement::ClusterUpdatingStatus| {
                says(&c.conditions, "Started") && !says(&c.conditions, "Succeeded")
            };
            stage.clusters.iter().filter(under_way).count()
        });
        assert!(counts.clone().all(|count| count <= max), "the status says too many");
        assert!(
            counts.filter(|count| *count > 0).count() <= 1,
            "the status says that stages overlap"
        );
        if self.run.status != before.run.status {
            let generation = Some(self.run.generation());
            assert!(
                self.every_condition()
                    .iter()
                    .all(|c| c.observed_generation == generation)
            );
        }
    }

    /// Outside the windows no cluster is started and none is left, whatever happened before.
    fn keeps_to_windows(&self, before: &Self) {
        let own = self.run.status.options.as_ref().map(|options| options.window.as_str());
        for line in &self.log[before.log.len()..] {
            let Some((verb @ ("write" | "delete"), cluster)) = line.split_once(' ') else {
                continue;
            };
            if verb == "write" && (before.has_from_this_run(cluster) || !self.has_from_this_run(cluster)) {
                continue;
            }
            let of_cluster = self.windows.get(cluster).map(String::as_str);
            for text in own.into_iter().chain(of_cluster).filter(|text| !text.is_empty()) {
                let open = Windows::parse(text).is_ok_and(|windows| windows.is_open(at(self.now)));
                assert!(open, "{line} at {}, outside {text}: {:?}", at(self.now), self.log);
            }
        }
    }

    /// Whether this run has given the cluster its version.
    fn has_from_this_run(&self, cluster: &str) -> bool {
        self.bindings.iter().any(|b| {
            let annotations = b.metadata.annotations.as_ref();
            let signed = annotations.and_then(|list| list.get("kubernetes-fleet.io/update-run"));
            b.spec.target_cluster == cluster
                && b.metadata.deletion_timestamp.is_none()
                && b.spec.resource_snapshot_name == "web-1-snapshot"
                && signed.is_some_and(|value| value == "run/run-uid")
        })
    }

    /// What holds for the failure budget after a pass that began with `before`.
    fn keeps_its_budget(&self, before: &Self, started: bool) {
        let Some(budget) = self.run.status.options.as_ref().map(|options| &options.max_failures) else {
            return;
        };
        let Ok(budget) = budget.parse::<usize>() else { return };
        let late = |hub: &Self| {
            let clusters = hub.run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
            let ends = clusters.filter_map(|cluster| conditions::find(&cluster.conditions, "Succeeded"));
            let ends: Vec<_> = ends.filter(|end| end.status == "False").collect();
            let never = ends
                .iter()
                .filter(|end| end.message.contains("did not become available"));
            (ends.len(), never.count())
        };
        let ((failed, _), (_, never)) = (late(before), late(self));
        let max = usize::try_from(self.max()).unwrap();
        assert!(
            !started || failed <= budget,
            "something was started beyond the budget: {:?}",
            self.log
        );
        assert!(
            never <= budget + max,
            "{never} clusters of this run never worked: {:?}",
            self.log
        );
    }

    /// Nothing that this run could take back still has its version.
    fn has_taken_everything_back(&self) {
        for cluster in self.run.status.stages_status.iter().flat_map(|stage| &stage.clusters) {
            let Some(previous) = &cluster.previous else { continue };
            let ours = self.bindings.iter().filter(|b| {
                let signed = b.metadata.annotations.as_ref();
                let signed = signed.and_then(|list| list.get("kubernetes-fleet.io/update-run"));
                b.spec.target_cluster == cluster.cluster_name
                    && signed.is_some_and(|value| value == "run/run-uid")
                    && b.metadata.deletion_timestamp.is_none()
                    && b.spec.state == BindingState::Bound
            });
            for binding in ours {
                let has = PreviousContent {
                    resource_snapshot_name: binding.spec.resource_snapshot_name.clone(),
                    resource_override_snapshots: binding.spec.resource_override_snapshots.clone(),
                    cluster_resource_override_snapshots: binding.spec.cluster_resource_override_snapshots.clone(),
                    apply_strategy: binding.spec.apply_strategy.clone(),
                };
                // No apply strategy is the usual one.
                let usual = |mut content: PreviousContent| {
                    content.apply_strategy.get_or_insert_default();
                    content
                };
                let kept = previous.resource_snapshot_name.is_empty() || usual(has.clone()) == usual(previous.clone());
                assert!(kept, "{} still has {has:?}: {:?}", cluster.cluster_name, self.log);
            }
        }
    }

    fn phase(&self) -> Phase {
        Run::of(&self.run.metadata, &self.run.spec, Some(&self.run.status)).phase()
    }

    fn max(&self) -> u32 {
        let stage = &self.strategy.as_ref().unwrap().stages[0];
        match &stage.max_concurrency {
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(max) => u32::try_from(*max).unwrap(),
            k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(_) => 0,
        }
    }

    fn planned(&self) -> Vec<String> {
        let status = &self.run.status;
        let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
        let clusters = stages.flat_map(|stage| &stage.clusters);
        clusters.map(|cluster| cluster.cluster_name.clone()).collect()
    }

    fn stage_of(&self, cluster: &str) -> Option<usize> {
        let stages = &self.run.status.stages_status;
        stages
            .iter()
            .position(|stage| stage.clusters.iter().any(|entry| entry.cluster_name == cluster))
    }

    /// Everything goes well from here on: what the run waits for comes to pass.
    fn all_goes_well(&mut self) {
        self.place("placement-uid");
        self.happens(&Happening::Resume);
        for _ in 0..60 {
            for _ in 0..6 {
                self.pass_within_the_law();
            }
            let idle = (self.log.len(), self.run.status.clone());
            self.pass_within_the_law();
            if self.phase() == Phase::Finished {
                return;
            }
            assert_eq!(
                (self.log.len(), self.run.status.clone()),
                idle,
                "it comes to rest: {:?}",
                self.log
            );
            self.says_what_it_waits_for();
            self.now += 61;
            if self.waits_for_windows() {
                let next = self.look_again.expect("every window opens again");
                self.now = self.now.max(next.as_second() - at(0).as_second());
            }
            let names: Vec<_> = self.approvals.iter().map(|a| a.name().to_owned()).collect();
            for name in names {
                self.approve(&name, 1);
            }
            for cluster in CLUSTERS {
                self.happens(&Happening::Available(
                    CLUSTERS.iter().position(|c| *c == cluster).unwrap(),
                ));
            }
            self.bindings.retain(|b| b.metadata.deletion_timestamp.is_none());
        }
        panic!("the run does not end: {:?} {:#?}", self.said(), self.log);
    }

    fn waits_for_windows(&self) -> bool {
        let said = conditions::find(&self.run.status.conditions, "Progressing");
        said.is_some_and(|said| said.message.contains(" waiting for the window of "))
    }

    /// A run that rests waits for somebody, and says for whom: a cluster with a start, a request, or a time.
    fn says_what_it_waits_for(&self) {
        let timer = self.look_again.is_some_and(|instant| instant > at(self.now));
        if self.phase() == Phase::Uninitialized {
            assert!(timer, "its patience ends");
            return;
        }
        let progressing = conditions::find(&self.run.status.conditions, "Progressing").expect("it says what it does");
        let stages = self
            .run
            .status
            .stages_status
            .iter()
            .chain(&self.run.status.deletion_stage_status);
        let busy = stages.clone().flat_map(|stage| &stage.clusters).any(|cluster| {
            conditions::find(&cluster.conditions, "Started").is_some()
                && conditions::find(&cluster.conditions, "Succeeded").is_none()
        });
        // The sentence names the stage, whose own condition says the same.
        let stage = stages.clone().find(|stage| {
            let name = format!(" stage {} ", stage.stage_name);
            progressing.message.contains(&name)
        });
        let stage = stage.and_then(|stage| conditions::find(&stage.conditions, "Progressing"));
        let waits = match progressing.reason.as_str() {
            "UpdateRunProgressing" => busy && timer,
            "UpdateRunRollingBack" => timer,
            "UpdateRunWaiting" if self.waits_for_windows() => timer,
            "UpdateRunStuck" => busy && stage.is_some_and(|stage| stage.status == "True"),
            "UpdateRunWaiting" => {
                let says = |stage: &Condition| stage.reason == "StageUpdatingWaiting";
                (timer || !self.approvals.is_empty()) && stage.is_some_and(says)
            }
            _ => false,
        };
        assert!(waits, "{progressing:?} {:?}", self.log);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn hold_in_every_history(
        max in 1..4u32,
        tasks in any::<bool>(),
        history in prop::collection::vec(happening(), 0..60),
    ) {
        let mut hub = hub(max, tasks);
        for happening in &history {
            hub.happens(happening);
        }
        hub.all_goes_well();
        let run = Run::of(&hub.run.metadata, &hub.run.spec, Some(&hub.run.status));
        prop_assert_eq!(run.phase(), Phase::Finished);
        if hub.said().last().is_some_and(|line| line.starts_with("Succeeded=True")) {
            prop_assert_eq!(snapshot_name(&run), "web-1-snapshot");
            for (index, stage) in hub.run.status.stages_status.iter().enumerate() {
                prop_assert!(stage.end_time.is_some(), "stage {} has not ended", index);
            }
        }
    }

    #[test]
    fn hold_with_a_budget_and_a_way_back(
        max in 1..4u32,
        tasks in any::<bool>(),
        failures in 0..3u32,
        rollback in any::<bool>(),
        history in prop::collection::vec(happening(), 0..60),
    ) {
        let mut hub = hub(max, tasks);
        for cluster in &CLUSTERS[..5] {
            hub.had(cluster, "0");
            hub.had_its_own(cluster);
        }
        // What other runs give.
        hub.snapshots.insert("2".into(), Some("placement-uid".into()));
        hub.set("max-failures", &failures.to_string()).set("cluster-deadline", "90s");
        hub.set("on-failure", if rollback { "Rollback" } else { "Halt" });
        for happening in &history {
            hub.happens(happening);
        }
        hub.all_goes_well();
        prop_assert_eq!(hub.phase(), Phase::Finished);
        let end = conditions::find(&hub.run.status.conditions, "Succeeded");
        if end.is_some_and(|end| end.message.contains("; rolled back ")) {
            hub.has_taken_everything_back();
        }
    }

    #[test]
    fn hold_with_windows(
        max in 1..4u32,
        tasks in any::<bool>(),
        // The clock begins at 13:46 on a Monday.
        windows in prop::collection::vec((800..860u32, 2..40u32), 1..4),
        clusters in prop::collection::vec((0..6usize, 780..900u32, 5..300u32), 0..3),
        history in prop::collection::vec(happening(), 0..60),
    ) {
        let mut hub = hub(max, tasks);
        let shown = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
        let window = |start: u32, length: u32| format!("Mon-Sun {}-{} UTC", shown(start), shown(start + length));
        let all: Vec<_> = windows.iter().map(|(start, length)| window(*start, *length)).collect();
        hub.set("window", &all.join("; "));
        for (cluster, start, length) in &clusters {
            hub.windows.insert(CLUSTERS[*cluster].into(), window(*start, *length));
        }
        for happening in &history {
            hub.happens(happening);
        }
        hub.windows.clear();
        hub.all_goes_well();
        prop_assert_eq!(hub.phase(), Phase::Finished);
    }
}
