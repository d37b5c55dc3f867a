//! What a plan foretells is what then happens, whatever is edited.

use serde_json::json;

use super::hub::{Hub, Log, member};
use crate::plan::{Action, Change, Plan};

const ENVS: [&str; 2] = ["prod", "test"];
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

/// As the log of a hub says it.
fn waves(plan: &Plan) -> Log {
    let words = |action| match action {
        Action::Place => "place",
        Action::Update => "update",
        Action::Remove => "remove",
    };
    let waves = plan.rollout.waves.iter();
    let sorted = waves.map(|wave| {
        let turns = wave.clusters.iter();
        let mut said: Vec<_> = turns
            .map(|turn| format!("{} {}", words(turn.action), turn.cluster))
            .collect();
        said.sort();
        said
    });
    sorted.collect()
}

fn sorted(log: Log) -> Log {
    let each = log.into_iter().map(|mut wave| {
        wave.sort();
        wave
    });
    each.collect()
}

fn policy(rng: &mut fastrand::Rng) -> serde_json::Value {
    let term =
        json!({ "clusterSelectorTerms": [{ "labelSelector": { "matchLabels": { "env": ENVS[rng.usize(..2)] } } }] });
    let affinity = json!({ "clusterAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } });
    let prefers = json!({ "clusterAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
        "weight": 20, "preference": { "labelSelector": { "matchLabels": { "env": ENVS[rng.usize(..2)] } } },
    }] } });
    let tolerations = if rng.bool() {
        json!([{ "key": "away", "operator": "Exists" }])
    } else {
        json!([])
    };
    let spread = json!([{
        "maxSkew": rng.usize(1..3), "topologyKey": "env",
        "whenUnsatisfiable": if rng.bool() { "DoNotSchedule" } else { "ScheduleAnyway" },
    }]);
    match rng.usize(..7) {
        0 => json!(null),
        1 => json!({ "placementType": "PickAll", "affinity": affinity, "tolerations": tolerations }),
        2 => json!({ "placementType": "PickAll", "tolerations": tolerations }),
        3 => json!({
            "placementType": "PickN", "numberOfClusters": rng.usize(..5), "topologySpreadConstraints": spread,
            "tolerations": tolerations,
        }),
        4 => json!({ "placementType": "PickN", "numberOfClusters": rng.usize(..5), "affinity": prefers }),
        5 => json!({ "placementType": "PickN", "numberOfClusters": rng.usize(..5), "affinity": affinity }),
        _ => {
            let names: Vec<_> = NAMES.iter().filter(|_| rng.bool()).collect();
            json!({ "placementType": "PickFixed", "clusterNames": names })
        }
    }
}

/// Somebody does something. Answers with what.
fn edit(hub: &mut Hub, rng: &mut fastrand::Rng) -> String {
    let name = NAMES[rng.usize(..NAMES.len())];
    match rng.usize(..9) {
        0 => {
            let policy = policy(rng);
            let said = format!("policy {policy}");
            hub.edit(|spec| spec.policy = serde_json::from_value(policy).unwrap());
            said
        }
        1 => {
            let data = json!({ "a": rng.u8(..3).to_string() });
            hub.maps.insert(format!("m{}", rng.u8(..2)), data);
            "a map is another".to_owned()
        }
        2 => {
            let spec = json!({
                "clusterResourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }],
                "policy": { "overrideRules": [{
                    "clusterSelector": { "clusterSelectorTerms": [
                        { "labelSelector": { "matchLabels": { "env": ENVS[rng.usize(..2)] } } },
                    ] },
                    "jsonPatchOverrides": [{ "op": "add", "path": "/metadata/labels", "value": { "x": "${MEMBER-CLUSTER-NAME}" } }],
                }] },
            });
            let count = hub.overrides.len();
            hub.overrides
                .insert(format!("o-{count}"), serde_json::from_value(spec).unwrap());
            "an override is new".to_owned()
        }
        3 => {
            hub.members.remove(name);
            format!("{name} has left")
        }
        4 | 5 => {
            let labels = [("env", ENVS[rng.usize(..2)])];
            hub.members.insert(name.to_owned(), member(name, &labels));
            format!("{name} is {labels:?}")
        }
        6 => {
            let taints = if rng.bool() {
                json!([{ "key": "away", "value": "", "effect": "NoSchedule" }])
            } else {
                json!([])
            };
            let said = format!("the taints of {name} are {taints}");
            if let Some(member) = hub.members.get_mut(name) {
                member.spec.taints = serde_json::from_value(taints).unwrap();
            }
            said
        }
        7 => {
            let agents = hub.members.get_mut(name).and_then(|member| member.status.as_mut());
            let agents = agents.into_iter().flat_map(|status| &mut status.agent_status);
            for agent in agents {
                let heard = agent.last_received_heartbeat.as_mut().expect("it was heard of");
                heard.0 -= jiff::SignedDuration::from_hours(1);
            }
            format!("{name} is silent")
        }
        _ => {
            let budget = json!({ "rollingUpdate": { "maxUnavailable": rng.usize(1..3), "maxSurge": rng.usize(1..3) } });
            let said = format!("strategy {budget}");
            hub.edit(|spec| spec.strategy = Some(serde_json::from_value(budget).unwrap()));
            said
        }
    }
}

/// Plans, lets it happen, and compares.
fn compare(hub: &mut Hub, context: &str) {
    let plan = hub.plan(None);
    let log = hub.settle();
    assert_eq!(sorted(log.clone()), waves(&plan), "{context}: the order");
    let picked = plan.clusters.iter().filter(|cluster| cluster.change.has_it());
    let picked: Vec<_> = picked.map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(hub.placed(), picked, "{context}: the clusters");
    for binding in hub.bindings.values() {
        let cluster = plan
            .clusters
            .iter()
            .find(|it| it.name == binding.spec.target_cluster)
            .unwrap();
        let named: Vec<_> = cluster.overrides.iter().map(|it| it.name.clone()).collect();
        assert_eq!(
            named, binding.spec.cluster_resource_override_snapshots,
            "{context}: the overrides"
        );
        assert_eq!(
            binding.spec.resource_snapshot_name, plan.resources.snapshot,
            "{context}"
        );
        assert_eq!(
            binding.spec.scheduling_policy_snapshot_name, plan.policy.snapshot,
            "{context}"
        );
        assert_eq!(binding.spec.cluster_decision.reason, cluster.reason, "{context}");
    }
    // Where nothing changes on a cluster, nothing may be shown, and the other way round.
    let shown = plan.differences.iter().flat_map(|it| &it.clusters);
    for name in shown {
        let touched = log.iter().flatten().any(|line| line.ends_with(&format!(" {name}")));
        assert!(touched, "{context}: {name} was to change, and did not: {log:?}");
    }
    let again = hub.plan(None);
    assert!(!again.differs(), "{context}: nothing is left to do, but {again:#?}");
    let removed = again.clusters.iter().any(|cluster| cluster.change == Change::Removed);
    assert!(!removed, "{context}");
}

#[test]
fn what_a_plan_foretells_happens() {
    let seeds = std::env::var("FLEET_PLAN_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    for seed in 0..seeds.unwrap_or(60) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut hub = Hub::new(&policy(&mut rng));
        for name in &NAMES[..rng.usize(1..NAMES.len())] {
            hub.members
                .insert((*name).to_owned(), member(name, &[("env", ENVS[rng.usize(..2)])]));
        }
        compare(&mut hub, &format!("seed {seed}, new"));
        let mut story = Vec::new();
        for _ in 0..6 {
            for _ in 0..rng.usize(1..4) {
                story.push(edit(&mut hub, &mut rng));
            }
            compare(&mut hub, &format!("seed {seed}, {story:?}"));
        }
    }
}

#[test]
fn a_thousand_clusters_are_planned_in_no_time() {
    let mut hub = Hub::new(&json!({ "placementType": "PickN", "numberOfClusters": 500 }));
    for i in 0..1000 {
        let name = format!("c{i:04}");
        hub.members.insert(name.clone(), member(&name, &[("env", ENVS[i % 2])]));
    }
    let plan = hub.plan(None);
    let count = |change| plan.clusters.iter().filter(|cluster| cluster.change == change).count();
    assert_eq!((count(Change::Added), count(Change::NotPicked)), (500, 500));
    assert!(plan.clusters.iter().all(|cluster| !cluster.reason.is_empty()));
    assert_eq!(plan.differences.len(), 1, "clusters that get the same are shown once");
}
