//! As large as it gets.

use fleet_api::conditions;
use serde_json::json;

use super::hub::{Hub, strategy};

/// How many of a stage's clusters are under way, by the status.
fn under_way(hub: &Hub, stage: usize) -> usize {
    let clusters = hub.run.status.stages_status[stage].clusters.iter();
    let busy = clusters.filter(|cluster| {
        let says = |type_name| conditions::find(&cluster.conditions, type_name).is_some();
        says("Started") && !says("Succeeded")
    });
    busy.count()
}

#[test]
fn a_thousand_clusters_in_one_stage() {
    let names: Vec<_> = (0..1000).map(|n| format!("cluster-{n:04}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut hub = Hub::new(&names);
    hub.strategy = Some(strategy(
        json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": "10%" }]),
    ));
    for wave in names.chunks(100) {
        hub.settle();
        assert_eq!(under_way(&hub, 0), 100);
        for cluster in wave {
            hub.available(cluster);
        }
    }
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
    let size = serde_json::to_vec(&hub.run.status).unwrap().len();
    assert!(size < 1024 * 1024, "{size} bytes");
    let starts = hub.log.iter().filter(|line| line.starts_with("write ")).count();
    assert_eq!(starts, 1000);
    let statuses = hub.log.iter().filter(|line| *line == "status").count();
    assert!(statuses <= 15, "one for each wave, not for each cluster: {statuses}");
}

#[test]
fn thirty_one_stages_one_after_the_other() {
    let names: Vec<_> = (0..31).map(|n| format!("c{n}")).collect();
    let mut hub = Hub::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let stages: Vec<_> = names
        .iter()
        .map(|name| {
            hub.member(name, &[("stage", name)]);
            json!({ "name": name, "labelSelector": { "matchLabels": { "stage": name } } })
        })
        .collect();
    hub.strategy = Some(strategy(json!(stages)));
    for (stage, name) in names.iter().enumerate() {
        hub.settle();
        let begun: Vec<_> = (0..31).map(|stage| under_way(&hub, stage)).collect();
        assert_eq!(begun.iter().sum::<usize>(), 1, "{begun:?}");
        assert_eq!(under_way(&hub, stage), 1);
        hub.available(name);
    }
    hub.settle();
    assert_eq!(hub.said()[2], "Succeeded=True UpdateRunSucceeded");
}
