use std::time::Duration;

use fleet_runtime::cache::Event;
use serde_json::json;
use tokio::time::timeout;

use super::*;

fn node(name: &str, cpu: &str) -> LeanNode {
    serde_json::from_value(json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": "1",
                      "labels": { "topology.kubernetes.io/region": "eastus" } },
        "status": { "capacity": { "cpu": cpu, "memory": "1Gi" }, "allocatable": { "cpu": cpu, "memory": "1Gi" } },
    }))
    .unwrap()
}

fn pod(name: &str, cpu: &str, version: u32) -> LeanPod {
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": "d", "uid": name, "resourceVersion": version.to_string() },
        "spec": { "nodeName": "n", "containers": [{ "resources": { "requests": { "cpu": cpu } } }] },
    }))
    .unwrap()
}

fn namespace(name: &str, version: u32, terminating: bool) -> LeanNamespace {
    let phase = if terminating { "Terminating" } else { "Active" };
    serde_json::from_value(json!({
        "metadata": { "name": name, "uid": name, "resourceVersion": version.to_string() },
        "status": { "phase": phase },
    }))
    .unwrap()
}

async fn quiet(cluster: &OwnCluster) -> bool {
    timeout(Duration::from_secs(1), cluster.changed.notified())
        .await
        .is_err()
}

#[tokio::test(start_paused = true)]
async fn pods_change_what_is_available_without_a_word_and_nodes_say_so() {
    let pods = (0..500).map(|i| pod(&format!("p{i}"), "10m", 1)).collect();
    let cluster = OwnCluster::of(vec![node("n", "8")], pods, None).await;
    assert!(!quiet(&cluster).await, "the first list is news");
    let available = |cluster: &OwnCluster| cluster.available().unwrap().cpu.to_string();
    assert_eq!(available(&cluster), "3", "all 500 count");
    assert_eq!(cluster.region().as_deref(), Some("eastus"));
    assert_eq!(cluster.namespaces(Namespaces::complete), None, "not watched");

    let store = cluster.pods.as_ref().unwrap();
    store.feed(Event::Applied(pod("p0", "1010m", 2)));
    assert!(quiet(&cluster).await);
    assert_eq!(available(&cluster), "2");
    store.feed(Event::deleted(&pod("p0", "1010m", 3)));
    assert!(quiet(&cluster).await);
    assert_eq!(available(&cluster), "3010m");

    cluster.nodes.feed(Event::Applied(node("m", "1")));
    assert!(!quiet(&cluster).await);
    assert_eq!(cluster.usage(Usage::node_count), 2);
    cluster.nodes.feed(Event::deleted(&node("m", "1")));
    assert!(!quiet(&cluster).await);
    assert_eq!(cluster.usage(|u| u.capacity().cpu.to_string()), "8");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_disappears() {
    let cluster = OwnCluster::of(
        vec![],
        vec![],
        Some(vec![namespace("a", 1, false), namespace("b", 1, false)]),
    )
    .await;
    assert!(!quiet(&cluster).await);
    let names = |cluster: &OwnCluster| cluster.namespaces(|n| n.reported().keys().cloned().collect::<Vec<_>>());
    assert_eq!(names(&cluster).unwrap(), ["a", "b"]);
    let store = cluster.namespaces.as_ref().unwrap();
    store.feed(Event::Applied(namespace("b", 2, false)));
    assert!(quiet(&cluster).await, "nothing that counts");
    store.feed(Event::Applied(namespace("b", 3, true)));
    assert!(!quiet(&cluster).await);
    assert_eq!(names(&cluster).unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_watched_is_not_ready() {
    let cluster = OwnCluster::of(vec![], vec![], None).await;
    assert!(timeout(Duration::from_mins(1), cluster.ready()).await.is_err());
}
