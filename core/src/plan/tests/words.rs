//! What a plan says of the situations that people ask about.

use serde_json::json;

use super::hub::Hub;
use crate::plan::{Change, Kind, Plan, Request};

fn cluster<'p>(plan: &'p Plan, name: &str) -> &'p crate::plan::Cluster {
    plan.clusters.iter().find(|cluster| cluster.name == name).unwrap()
}

#[test]
fn a_cluster_that_is_not_picked_is_told_what_it_lacks() {
    let term = json!({ "clusterSelectorTerms": [{ "labelSelector": { "matchLabels": { "env": "prod" } } }] });
    let hub = Hub::new(&json!({
        "placementType": "PickAll",
        "affinity": { "clusterAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": term } },
    }));
    let hub = hub.with("east", &[("env", "prod")]).with("west", &[("env", "test")]);
    let plan = hub.plan(None);
    assert_eq!(cluster(&plan, "east").change, Change::Added);
    let west = cluster(&plan, "west");
    assert_eq!(west.change, Change::NotPicked);
    assert_eq!(
        west.reason,
        "west does not match the required affinity: it has label env=test, not env=prod"
    );
    assert_eq!(
        west.hint.as_deref(),
        Some("kubectl label membercluster west --overwrite env=prod")
    );
    assert!(plan.differs());
}

#[test]
fn only_what_changes_is_shown_and_clusters_that_are_alike_together() {
    let mut hub = Hub::new(&json!(null)).with("east", &[]).with("west", &[]);
    hub.settle();
    assert!(!hub.plan(None).differs());
    hub.maps.insert("m".to_owned(), json!({ "a": "2" }));
    let plan = hub.plan(None);
    assert!(plan.resources.is_new && plan.resources.snapshot == "web-1-snapshot");
    let [difference] = plan.differences.as_slice() else {
        panic!("one difference, not {:?}", plan.differences);
    };
    assert_eq!(difference.clusters, ["east", "west"]);
    let [object] = difference.objects.as_slice() else {
        panic!("one object, not {:?}", difference.objects);
    };
    assert_eq!((object.name.as_str(), object.change), ("m", Kind::Changed));
    assert!(
        object.diff.contains("\n-  a:") && object.diff.contains("\n+  a:"),
        "{}",
        object.diff
    );
}

#[test]
fn refused_selectors_are_all_there_is_to_say() {
    let placing = crate::plan::Placing {
        kind: "ClusterResourcePlacement",
        namespace: None,
        name: "web".to_owned(),
        is_new: false,
    };
    let plan = Plan::refused(placing, "no such kind");
    assert!(plan.differs() && plan.clusters.is_empty());
}

#[test]
fn a_placement_that_update_runs_roll_out_shows_the_run() {
    let mut hub = Hub::new(&json!(null))
        .with("east", &[("env", "prod")])
        .with("west", &[("env", "test")]);
    hub.edit(|spec| spec.strategy = Some(serde_json::from_value(json!({ "type": "External" })).unwrap()));
    let strategy = |stages: serde_json::Value| serde_json::from_value(json!({ "stages": stages })).unwrap();
    let stage = |name: &str, env: &str| json!({ "name": name, "labelSelector": { "matchLabels": { "env": env } } });
    let both = strategy(json!([stage("canary", "test"), stage("rest", "prod")]));
    let request = Request {
        strategy: "slow",
        spec: Some(&both),
        settings: None,
        index: None,
    };
    let run = hub.plan(Some(&request)).run.unwrap();
    assert_eq!(run.problem, None);
    let outline = run.outline.as_ref().unwrap();
    let stages: Vec<_> = outline
        .stages
        .iter()
        .map(|stage| (stage.name.as_str(), stage.clusters[0].cluster.as_str()))
        .collect();
    assert_eq!(stages, [("canary", "west"), ("rest", "east")]);
    assert_eq!(outline.first_difference(&run.hash), None);

    // The same plan again has the same hash; other content has another.
    assert_eq!(hub.plan(Some(&request)).run.unwrap().hash, run.hash);
    hub.maps.insert("m".to_owned(), json!({ "a": "2" }));
    let other = hub.plan(Some(&request)).run.unwrap();
    let difference = other.outline.unwrap().first_difference(&run.hash).unwrap();
    assert!(difference.starts_with("the resources ("), "{difference}");

    let one = strategy(json!([stage("canary", "test")]));
    let request = Request {
        spec: Some(&one),
        ..request
    };
    let run = hub.plan(Some(&request)).run.unwrap();
    assert!(run.hash.is_empty());
    let problem = run.problem.unwrap();
    assert!(problem.contains("east"), "{problem}");
    assert_eq!(run.outline.unwrap().unassigned[0].cluster, "east");
    let gone = Request { spec: None, ..request };
    let problem = hub.plan(Some(&gone)).run.unwrap().problem.unwrap();
    assert!(problem.contains("slow"), "{problem}");
}

#[test]
fn a_run_of_an_earlier_index_gives_back_what_was_selected_then() {
    let mut hub = Hub::new(&json!(null)).with("east", &[]);
    hub.settle();
    hub.maps.insert("m".to_owned(), json!({ "a": "2" }));
    hub.settle();
    hub.edit(|spec| spec.strategy = Some(serde_json::from_value(json!({ "type": "External" })).unwrap()));
    hub.settle_policy();
    hub.maps.insert("m".to_owned(), json!({ "a": "3" }));
    // Without a run nothing happens, whatever is selected now.
    let plan = hub.plan(None);
    assert!(!plan.differs(), "{plan:#?}");
    let all = serde_json::from_value(json!({ "stages": [{ "name": "all", "labelSelector": {} }] })).unwrap();
    let request = |index| Request {
        strategy: "all",
        spec: Some(&all),
        settings: None,
        index,
    };
    let back = hub.plan(Some(&request(Some("0"))));
    assert_eq!(
        (back.resources.snapshot.as_str(), back.resources.is_new),
        ("web-0-snapshot", false)
    );
    let diff = &back.differences[0].objects[0].diff;
    assert!(diff.contains("\n-  a: ") && diff.contains("\n+  a: "), "{diff}");
    let now = hub.plan(Some(&request(None)));
    assert_eq!(
        (now.resources.snapshot.as_str(), now.resources.is_new),
        ("web-2-snapshot", true)
    );
    let gone = hub.plan(Some(&request(Some("7")))).run.unwrap();
    assert!(gone.problem.is_some() && gone.hash.is_empty(), "{gone:?}");
}
