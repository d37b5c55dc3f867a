//! How long one scheduling decision takes: `cargo run --release -p fleet-core --example schedule`.
//!
//! Prints the best and the median of several runs for fleets of 1,000 and 10,000 clusters, for policies from the
//! plainest to the most demanding.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::{Duration, Instant};

use fleet_api::cluster::{PropertyValue, ResourceUsage};
use fleet_api::names::PlacementKey;
use fleet_api::placement::{BindingState, ClusterDecision, PlacementPolicy};
use fleet_core::scheduler::{
    Binding, Change, Cluster, Interest, Namespaces, Placement, SchedulerSettings, Snapshot, Watchers, World, schedule,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const RUNS: usize = 11;

struct Member {
    name: String,
    labels: BTreeMap<String, String>,
    properties: BTreeMap<String, PropertyValue>,
    usage: ResourceUsage,
}

impl Member {
    fn new(i: usize) -> Self {
        let name = format!("cluster-{i:05}");
        let label = |key: &str, value: String| (key.to_owned(), value);
        let nodes = PropertyValue {
            value: (i % 97).to_string(),
            observation_time: Time(NOW),
        };
        let mut usage = ResourceUsage::default();
        usage
            .available
            .insert("cpu".into(), Quantity(format!("{}m", 500 + i * 7 % 9973)));
        Self {
            labels: BTreeMap::from([
                label("region", format!("region-{}", i % 12)),
                label("env", ["prod", "staging", "dev"][i % 3].into()),
                label("host", name.clone()),
            ]),
            name,
            properties: BTreeMap::from([("kubernetes-fleet.io/node-count".to_owned(), nodes)]),
            usage,
        }
    }

    fn view(&self) -> Cluster<'_> {
        Cluster {
            name: &self.name,
            leaving: false,
            labels: &self.labels,
            taints: &[],
            properties: &self.properties,
            usage: Some(&self.usage),
            namespaces: Namespaces::NotCollected,
            ineligible: None,
            ineligible_from: None,
        }
    }
}

fn policies(clusters: usize) -> Vec<(&'static str, PlacementPolicy)> {
    let half = clusters / 2;
    let affinity = json!({"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [{
            "labelSelector": {"matchExpressions": [{"key": "env", "operator": "In", "values": ["prod", "staging"]}]},
            "propertySelector": {"matchExpressions": [
                {"name": "resources.kubernetes-fleet.io/available-cpu", "operator": "Ge", "values": ["1"]}]}}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 20, "preference": {"labelSelector": {"matchLabels": {"region": "region-3"}}}},
            {"weight": -50, "preference": {"propertySorter": {
                "name": "kubernetes-fleet.io/node-count", "sortOrder": "Ascending"}}}]}});
    let spread = |key: &str, action: &str| json!({"topologyKey": key, "whenUnsatisfiable": action});
    let rows = [
        ("PickAll", json!({"placementType": "PickAll"})),
        ("PickN 10", json!({"placementType": "PickN", "numberOfClusters": 10})),
        (
            "PickN half, affinity",
            json!({"placementType": "PickN", "numberOfClusters": half, "affinity": affinity}),
        ),
        (
            "PickN half, 12 regions",
            json!({"placementType": "PickN", "numberOfClusters": half, "affinity": affinity,
                "topologySpreadConstraints": [spread("region", "ScheduleAnyway")]}),
        ),
        (
            "PickN half, a domain each",
            json!({"placementType": "PickN", "numberOfClusters": half,
                "topologySpreadConstraints": [spread("host", "DoNotSchedule")]}),
        ),
        (
            "PickN 100, both",
            json!({"placementType": "PickN", "numberOfClusters": 100,
                "topologySpreadConstraints": [spread("region", "DoNotSchedule"), spread("host", "DoNotSchedule")]}),
        ),
    ];
    let policy = |value| serde_json::from_value(value).expect("a policy as users write it");
    rows.map(|(name, value)| (name, policy(value))).into()
}

/// The best and the median time of several runs.
fn measure(mut run: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[0], times[RUNS / 2])
}

fn main() {
    let key = PlacementKey::new(None, "app").expect("a valid name");
    println!(
        "{:>9}  {:<28} {:>10} {:>10}  bindings",
        "clusters", "decision", "best", "median"
    );
    for count in [1_000, 10_000] {
        let members: Vec<_> = (0..count).map(Member::new).collect();
        let clusters: Vec<_> = members.iter().map(Member::view).collect();
        for (name, policy) in policies(count) {
            let number = policy.number_of_clusters.unwrap_or_default().to_string();
            let mut world = World {
                placement: Placement {
                    key: &key,
                    uid: "0b5f0a3e-9c0e-4d0b-8f0e-3a1f6f0d9a11",
                },
                snapshot: Snapshot {
                    name: "app-0",
                    generation: 1,
                    policy: Some(&policy),
                    number_of_clusters: Some(&number),
                    placement_generation: Some("1"),
                    status: None,
                },
                clusters: &clusters,
                bindings: &[],
                now: NOW,
                settings: SchedulerSettings::default(),
            };
            let show = |what: &str, (best, median): (Duration, Duration), bindings: usize| {
                println!("{count:>9}  {what:<28} {best:>10.2?} {median:>10.2?}  {bindings}");
            };
            let plan = schedule(&world);
            show(name, measure(|| _ = black_box(schedule(&world))), plan.create.len());

            // The same again with everything in place: what a restart costs.
            let picked: Vec<(String, ClusterDecision)> = plan
                .create
                .into_iter()
                .map(|create| (create.binding, create.decision))
                .collect();
            let bindings: Vec<_> = picked
                .iter()
                .map(|(name, decision)| Binding {
                    name,
                    uid: name,
                    cluster: &decision.cluster_name,
                    state: &BindingState::Bound,
                    previous_state: None,
                    snapshot: "app-0",
                    decision,
                    deleting: false,
                    held: true,
                })
                .collect();
            (world.bindings, world.snapshot.status) = (&bindings, plan.status.as_ref());
            show("  again", measure(|| _ = black_box(schedule(&world))), bindings.len());
        }
    }
    heartbeats();
}

/// What it costs to find out that a heartbeat with new usage concerns nobody.
fn heartbeats() {
    let mut watchers = Watchers::default();
    for placement in 0..1000 {
        watchers.set(placement, Interest::new(None, None, true));
    }
    let (before, mut after) = (Member::new(1), Member::new(1));
    after.usage.available.insert("cpu".into(), Quantity("1".into()));
    let change = Change {
        before: Some(before.view()),
        after: Some(after.view()),
    };
    let placed = BTreeSet::new();
    let (best, median) = measure(|| assert!(black_box(watchers.concerned(&change, &placed)).is_empty()));
    println!("1,000 PickAll placements, a heartbeat with new usage: best {best:.2?}, median {median:.2?}");
}
