//! What a plan says of the situations that people ask about.

use serde_json::json;

use super::hub::Hub;
use crate::plan::{self, Change, Kind, Plan, Request, Written};

fn cluster<'p>(plan: &'p Plan, name: &str) -> &'p crate::plan::PlannedCluster {
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
        run: None,
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
        run: None,
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

#[test]
fn a_run_that_is_written_already_is_planned_with_its_own_settings() {
    let mut hub = Hub::new(&json!(null))
        .with("east", &[("env", "prod")])
        .with("west", &[("env", "test")]);
    hub.edit(|spec| spec.strategy = Some(serde_json::from_value(json!({ "type": "External" })).unwrap()));
    let stages = json!({ "stages": [{ "name": "canary", "labelSelector": { "matchLabels": { "env": "test" } } }] });
    let stages = serde_json::from_value(stages).unwrap();
    let planned = |annotations: &[(&str, &str)]| {
        let own = annotations.iter();
        let own = own.map(|(key, value)| (format!("rollout.kubernetes-fleet.io/{key}"), (*value).to_owned()));
        let run = Written {
            name: "release",
            annotations: &own.collect(),
            retried: None,
        };
        let request = Request {
            strategy: "slow",
            spec: Some(&stages),
            settings: None,
            index: None,
            run: Some(run),
        };
        let plan = hub.plan(Some(&request));
        let on = plan.differences.iter().flat_map(|it| it.clusters.clone());
        (plan.run.unwrap(), on.collect::<Vec<_>>())
    };
    let planned_on = planned;
    let planned = |annotations: &[(&str, &str)]| planned_on(annotations).0;
    // Who is left out gets nothing.
    assert_eq!(planned_on(&[("unassigned-clusters", "Ignore")]).1, ["west"]);
    assert_eq!(planned_on(&[("unassigned-clusters", "Last")]).1, ["east", "west"]);
    let refused = planned(&[]);
    assert!(refused.problem.unwrap().contains("east") && refused.hash.is_empty());
    let ignored = planned(&[("unassigned-clusters", "Ignore")]);
    assert_eq!(ignored.problem, None);
    // The hash that is printed is the one that the run itself then has, and it stays the same once it is written down.
    let pinned = planned(&[("unassigned-clusters", "Ignore"), ("plan", &ignored.hash)]);
    assert_eq!((pinned.problem.as_ref(), &pinned.hash), (None, &ignored.hash));
    let last = planned(&[("unassigned-clusters", "Last"), ("plan", &ignored.hash)]);
    let problem = last.problem.unwrap();
    assert!(problem.contains("the plan differs"), "{problem}");
    assert!(!last.hash.is_empty() && last.hash != ignored.hash, "{}", last.hash);
    let odd = planned(&[("max-failures", "many")]).problem.unwrap();
    assert!(odd.contains("max-failures"), "{odd}");
    let gone = planned(&[("retry-of", "release-0")]).problem.unwrap();
    assert!(gone.contains("there is no update run release-0"), "{gone}");
}

#[test]
fn a_run_that_waits_or_has_failed_clusters_is_not_done() {
    let done = json!([{
        "type": "Succeeded", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-02T12:00:00Z",
    }]);
    let mut failed = done.clone();
    failed[0]["status"] = json!("False");
    let stage = |conditions: &serde_json::Value| json!({ "stageName": "canary", "clusters": [{ "clusterName": "east", "conditions": conditions }] });
    let gate = json!({
        "stage": "canary", "when": "after", "apiVersion": "batch/v1", "kind": "Job", "name": "check", "namespace": "ops",
        "condition": "Complete",
    });
    let left = |status: serde_json::Value| {
        let [stage] = plan::left(&serde_json::from_value(status).unwrap()).try_into().unwrap();
        stage
    };
    assert!(left(json!({ "stagesStatus": [stage(&done)] })).is_done());
    let unhappy = left(json!({ "stagesStatus": [stage(&failed)] }));
    assert_eq!((unhappy.done, unhappy.failed.as_slice()), (0, &["east".to_owned()][..]));
    assert!(!unhappy.is_done());
    let mut waits = stage(&done);
    waits["afterStageTaskStatus"] = json!([{ "type": "Approval", "approvalRequestName": "release-after-canary" }]);
    assert!(!left(json!({ "stagesStatus": [waits] })).is_done());
    let gated = left(json!({ "stagesStatus": [stage(&done)], "options": { "gates": [gate] } }));
    assert_eq!(gated.tasks, ["after it: the gate Job ops/check"]);
    assert!(!gated.is_done());
}
