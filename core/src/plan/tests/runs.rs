//! The plan of an update run that is shown is the one that is run: it is made from the same objects, read elsewhere.

use std::collections::BTreeMap;

use fleet_api::annotations::{RESOURCE_HASH, ROLLOUT};
use fleet_api::conditions;
use fleet_api::conditions::update_run::Initialized;
use fleet_api::labels::RESOURCE_INDEX;
use fleet_api::placement::{BindingState, UpdateRunSpec, UpdateRunStatus, UpdateStrategySpec};
use jiff::Timestamp;
use serde_json::json;

use super::hub::{Hub, member, now};
use crate::plan::Request;
use crate::updaterun::{self, Binding, Inputs, Members, Memory, Moment, Outline, Placement, PolicySnapshot, Snapshot};

const ENVS: [&str; 3] = ["canary", "prod", "test"];
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

type Settings = BTreeMap<String, String>;

fn some_labels(rng: &mut fastrand::Rng) -> [(&'static str, &'static str); 2] {
    [
        ("env", ENVS[rng.usize(..3)]),
        ("order", ["1", "2", "03"][rng.usize(..3)]),
    ]
}

fn some_strategy(rng: &mut fastrand::Rng) -> (UpdateStrategySpec, Settings) {
    let count = rng.usize(1..4);
    let stages: Vec<_> = (0..count)
        .map(|place| {
            let mut stage = json!({
                "name": ENVS[place], "maxConcurrency": rng.usize(1..4),
                "labelSelector": { "matchLabels": { "env": ENVS[place] } },
            });
            if rng.bool() {
                stage["sortingLabelKey"] = json!("order");
            }
            if rng.bool() {
                stage["afterStageTasks"] = json!([{ "type": "TimedWait", "waitTime": "1m" }]);
            }
            stage
        })
        .collect();
    let unassigned = ["Fail", "Ignore", "Ignore=1", "Last"][rng.usize(..4)];
    let settings = [("unassigned-clusters", unassigned), ("max-failures", "10%")];
    let settings = settings.map(|(key, value)| (format!("{ROLLOUT}{key}"), value.to_owned()));
    let strategy = serde_json::from_value(json!({ "stages": stages })).unwrap();
    (strategy, settings.into())
}

fn some_hub(rng: &mut fastrand::Rng) -> Hub {
    let policy = match rng.usize(..3) {
        0 => json!(null),
        1 => json!({ "placementType": "PickN", "numberOfClusters": rng.usize(1..4) }),
        _ => json!({ "placementType": "PickFixed", "clusterNames": ["a", "c", "h"] }),
    };
    let mut hub = Hub::new(&policy);
    hub.edit(|spec| spec.strategy = Some(serde_json::from_value(json!({ "type": "External" })).unwrap()));
    for name in &NAMES[..rng.usize(1..NAMES.len())] {
        let labels = some_labels(rng);
        hub.members.insert((*name).to_owned(), member(name, &labels));
    }
    hub
}

/// Somebody changes something.
fn edit(hub: &mut Hub, rng: &mut fastrand::Rng) {
    let name = NAMES[rng.usize(..NAMES.len())];
    match rng.usize(..4) {
        0 => {
            hub.maps.insert("m".to_owned(), json!({ "a": rng.u8(..9).to_string() }));
        }
        1 => {
            let labels = some_labels(rng);
            hub.members.insert(name.to_owned(), member(name, &labels));
        }
        2 => _ = hub.members.remove(name),
        _ => {
            let count = hub.overrides.len();
            let spec = json!({
                "clusterResourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }],
                "policy": { "overrideRules": [{
                    "clusterSelector": { "clusterSelectorTerms": [
                        { "labelSelector": { "matchLabels": { "env": ENVS[rng.usize(..3)] } } },
                    ] },
                    "jsonPatchOverrides": [{ "op": "add", "path": "/metadata/labels", "value": { "x": "y" } }],
                }] },
            });
            hub.overrides
                .insert(format!("o-{count}"), serde_json::from_value(spec).unwrap());
        }
    }
}

/// What the controllers make of a run with these annotations, from what is stored.
fn run(hub: &Hub, strategy: &UpdateStrategySpec, settings: &Settings, annotations: &Settings) -> updaterun::Plan {
    let spec = UpdateRunSpec {
        placement_name: "web".to_owned(),
        staged_rollout_strategy_name: "careful".to_owned(),
        ..UpdateRunSpec::default()
    };
    let (meta, snapshot) = {
        let latest = hub.snapshots.iter().rev();
        let mut masters = latest.filter(|(meta, _)| {
            let annotations = meta.annotations.as_ref();
            annotations.is_some_and(|list| list.contains_key(RESOURCE_HASH))
        });
        masters
            .next()
            .map(|(meta, _)| (meta, &meta.labels.as_ref().unwrap()[RESOURCE_INDEX]))
            .unwrap()
    };
    let hash = meta.annotations.as_ref().unwrap()[RESOURCE_HASH].as_str();
    let status = UpdateRunStatus::default();
    let run = updaterun::Run {
        name: "spring",
        namespace: "",
        uid: "run-uid",
        generation: 3,
        annotations: Some(annotations),
        spec: &spec,
        status: &status,
    };
    let policies = hub.policies.iter();
    let policies: Vec<_> = policies
        .map(|it| PolicySnapshot::of(&it.meta, &it.spec, it.status.as_ref()))
        .collect();
    let bindings = bindings(hub);
    let labels = hub.members.iter();
    let none = BTreeMap::new();
    let labels: Members<'_> = labels
        .map(|(name, member)| (name.as_str(), member.metadata.labels.as_ref().unwrap_or(&none)))
        .collect();
    let inputs = Inputs {
        placement: Some(Placement::of(&hub.placement.meta, &hub.placement.spec)),
        policies: &policies,
        bindings: &bindings,
        members: &labels,
        strategy: Some(strategy),
        settings: Some(settings),
        retried: None,
        snapshot: Snapshot::Group {
            index: snapshot,
            hash: Some(hash),
        },
        overrides: &|cluster| hub.lists(cluster),
    };
    let memory = Memory {
        lacking_since: Some(Timestamp::MIN),
        ..Memory::default()
    };
    let at = Moment {
        now: now(),
        steady: now(),
    };
    updaterun::plan(&run, &inputs, &memory, at).plan
}

fn bindings(hub: &Hub) -> Vec<Binding<'_>> {
    let bindings = hub.bindings.values();
    bindings
        .map(|it| Binding::of(&it.meta, &it.spec, it.status.as_ref()))
        .collect()
}

/// Every cluster gets what the plan says.
fn carry_out(hub: &mut Hub, status: &UpdateRunStatus) {
    let clusters = status.stages_status.iter().flat_map(|stage| &stage.clusters);
    for cluster in clusters {
        let mut all = hub.bindings.values_mut();
        let binding = all.find(|it| it.spec.target_cluster == cluster.cluster_name).unwrap();
        binding.spec.state = BindingState::Bound;
        binding.spec.resource_snapshot_name = format!("web-{}-snapshot", status.resource_snapshot_index_used);
        binding
            .spec
            .cluster_resource_override_snapshots
            .clone_from(&cluster.cluster_resource_override_snapshots);
        binding.spec.apply_strategy.clone_from(&status.apply_strategy);
    }
    hub.bindings.retain(|_, it| it.spec.state != BindingState::Unscheduled);
}

#[test]
fn the_plan_that_is_shown_is_the_one_that_is_run() {
    let (mut ready, mut refused) = (0, 0);
    for seed in 0..150 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut hub = some_hub(&mut rng);
        for round in 0..4 {
            let context = format!("seed {seed}, round {round}");
            let (strategy, settings) = some_strategy(&mut rng);
            let request = Request {
                strategy: "careful",
                spec: Some(&strategy),
                settings: Some(&settings),
                index: None,
                run: None,
            };
            let shown = hub.plan(Some(&request)).run.unwrap();
            // Now the hub does what is foretold, and somebody makes the run.
            hub.settle_policy();
            hub.settle_resources();
            let approved = [(format!("{ROLLOUT}plan"), shown.hash.clone())];
            let approved = if shown.problem.is_some() {
                Settings::new()
            } else {
                approved.into()
            };
            match (run(&hub, &strategy, &settings, &approved), shown.problem) {
                (updaterun::Plan::Ready(status), None) => {
                    let latest = hub.snapshots.iter().rev().find_map(|(meta, _)| {
                        let annotations = meta.annotations.as_ref()?;
                        annotations.get(RESOURCE_HASH).cloned()
                    });
                    let outline = Outline::of(&status, &bindings(&hub), &latest.unwrap());
                    assert_eq!(Some(outline), shown.outline, "{context}");
                    ready += 1;
                    if rng.bool() {
                        carry_out(&mut hub, &status);
                    }
                    // An edit between the two is noticed, if it makes another plan.
                    let mut other = approved;
                    other.insert(format!("{ROLLOUT}plan"), "sha256:0".to_owned());
                    let other = run(&hub, &strategy, &settings, &other);
                    assert!(matches!(other, updaterun::Plan::Failed(_)), "{context}");
                }
                (updaterun::Plan::Failed(status), Some(problem)) => {
                    let said = conditions::find(&status.conditions, Initialized::TYPE).unwrap();
                    assert_eq!(said.message, problem, "{context}");
                    refused += 1;
                }
                (plan, problem) => panic!("{context}: {problem:?} was shown, and then: {plan:?}"),
            }
            for _ in 0..rng.usize(1..4) {
                edit(&mut hub, &mut rng);
            }
        }
    }
    assert!(ready > 100 && refused > 20, "both happen: {ready}, {refused}");
}
