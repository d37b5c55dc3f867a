//! PickAll and the filters.

use serde_json::json;

use super::*;

fn required(terms: &serde_json::Value) -> PlacementPolicy {
    let affinity = json!({"affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}}});
    with(pick_all(), &affinity)
}

fn property(name: &str, operator: &str, value: &str) -> PlacementPolicy {
    required(&json!([{"propertySelector": {"matchExpressions": [
        {"name": name, "operator": operator, "values": [value]}]}}]))
}

#[test]
fn without_a_policy_every_usable_cluster_is_picked_and_the_others_are_explained() {
    let plan = hub(None).plan();
    assert_eq!(plan.create.len(), 7);
    assert_eq!(condition(&plan), found(7));
    assert_eq!(
        decisions(&plan),
        "+1 +2 +3 +4 +5 +6 +7 -left-cluster-central-prod -unhealthy-cluster-east-prod"
    );
    assert_eq!(score(&plan, "3"), (0, 0));
    assert_eq!(
        reason(&plan, "3"),
        "Successfully scheduled resources for placement in \"cluster-3-east-canary\" (affinity score: 0, topology \
         spread score: 0): picked by scheduling policy"
    );
    assert_eq!(
        reason(&plan, "left-cluster-central-prod"),
        "ClusterUnschedulable, cluster has left the fleet"
    );
    assert_eq!(
        reason(&plan, "unhealthy-cluster-east-prod"),
        "ClusterUnschedulable, cluster is not connected to the fleet: unhealthy for a prolonged period of time (last \
         transitioned 10.00 minutes ago)"
    );
    assert_eq!(plan.status.unwrap().observed_crp_generation, 1);
}

#[test]
fn terms_are_alternatives_and_what_is_in_a_term_must_all_hold() {
    let region = |region: &str| json!({"labelSelector": {"matchLabels": {"region": region}}});
    for (terms, picked) in [
        (json!([region("east"), region("west")]), "1 2 3 6 7"),
        (
            json!([{"labelSelector": {"matchLabels": {"region": "east", "env": "canary"}}}]),
            "3",
        ),
        (json!([{}]), "1 2 3 4 5 6 7"),
        (json!([]), "1 2 3 4 5 6 7"),
        (json!([region("north")]), ""),
    ] {
        let plan = hub(Some(required(&terms))).plan();
        let clusters: Vec<_> = plan.create.iter().map(|create| short(&create.cluster)).collect();
        assert_eq!(clusters.join(" "), picked, "{terms}");
    }
    let plan = hub(Some(required(&json!([region("north")])))).plan();
    assert_eq!(condition(&plan), found(0));
    assert_eq!(
        decisions(&plan)
            .split(' ')
            .filter(|decision| decision.starts_with('-'))
            .count(),
        9
    );
    assert_eq!(
        reason(&plan, "unhealthy-cluster-east-prod"),
        "ClusterUnschedulable, cluster does not match with any of the required cluster affinity terms",
        "affinity is asked before eligibility"
    );
}

#[test]
fn properties_compare_as_quantities_and_an_absent_one_never_matches() {
    let nodes = "kubernetes-fleet.io/node-count";
    for (operator, value, matches) in [
        ("Eq", "1000m", true),
        ("Eq", "2", false),
        ("Ne", "2", true),
        ("Ne", "1", false),
        ("Gt", "0", true),
        ("Gt", "1", false),
        ("Ge", "1", true),
        ("Lt", "1", false),
        ("Le", "1", true),
        ("Lt", "1k", true),
    ] {
        let mut hub = hub(Some(property(nodes, operator, value)));
        hub.members = vec![member("a").property(nodes, "1"), member("b")];
        let picked: Vec<_> = hub.plan().create.into_iter().map(|create| create.cluster).collect();
        assert_eq!(picked == ["a"], matches, "{operator} {value}: {picked:?}");
        assert!(!picked.contains(&"b".into()), "{operator} {value}");
    }
}

#[test]
fn resource_properties_are_split_at_the_first_dash() {
    for name in ["cpu", "ephemeral-storage"] {
        let mut hub = hub(Some(property(
            &format!("resources.kubernetes-fleet.io/available-{name}"),
            "Ge",
            "6",
        )));
        hub.members = vec![
            member("a").available(name, "8"),
            member("b").available(name, "4"),
            member("c"),
        ];
        let picked: Vec<_> = hub.plan().create.into_iter().map(|create| create.cluster).collect();
        assert_eq!(picked, ["a"]);
    }
}

#[test]
fn a_bad_value_on_one_cluster_rejects_that_cluster_only() {
    let mut hub = hub(Some(property("size", "Ge", "1")));
    hub.members = vec![member("a").property("size", "abc"), member("b").property("size", "2")];
    let plan = hub.plan();
    assert_eq!(decisions(&plan), "+b -a");
    assert_eq!(
        reason(&plan, "a"),
        "ClusterUnschedulable, cluster property size cannot be compared: \"abc\" is not a quantity"
    );
}

#[test]
fn a_bad_policy_changes_no_binding_and_says_why() {
    for (policy, cause) in [
        (
            property("resources.kubernetes-fleet.io/free-cpu", "Ge", "1"),
            "the scheduling policy is invalid: \"resources.kubernetes-fleet.io/free-cpu\" is not a valid property: after \
             \"resources.kubernetes-fleet.io/\" comes total, allocatable or available, a dash, and a resource name",
        ),
        (
            property("size", "Ge", "big"),
            "the scheduling policy is invalid: property \"size\" must be compared with exactly one quantity, not [\"big\"]",
        ),
        (
            property("size", "About", "1"),
            "the scheduling policy is invalid: \"About\" is not a valid property selector operator",
        ),
        (
            required(&json!([{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}])),
            "the scheduling policy is invalid: values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
        ),
    ] {
        let mut hub = hub(None);
        hub.run();
        hub.set_policy(policy);
        let plan = hub.plan();
        assert!(plan.create.is_empty() && plan.patch.is_empty() && plan.unschedule.is_empty());
        assert_eq!(plan.problem.as_ref().unwrap().to_string(), cause);
        assert_eq!(condition(&plan), format!("{}; {cause}", missing(0)));
        assert!(plan.status_changed);
    }
}

#[test]
fn every_taint_must_be_tolerated_and_the_first_that_is_not_is_named() {
    let tolerate = |tolerations: serde_json::Value| with(pick_all(), &json!({ "tolerations": tolerations }));
    let rows = [
        (
            json!([]),
            "taint &{Key:k Value:v Effect:NoSchedule} cannot be tolerated",
        ),
        (
            json!([{"key": "k", "value": "v"}]),
            "taint &{Key:e Value: Effect:NoSchedule} cannot be tolerated",
        ),
        (
            json!([{"key": "k", "operator": "Exists"}, {"key": "e", "operator": "Equal"}]),
            "",
        ),
        (json!([{"operator": "Exists"}]), ""),
        (json!([{"operator": "Exists", "effect": "NoSchedule"}]), ""),
        (
            json!([{"key": "k", "value": "w"}, {"key": "e"}]),
            "taint &{Key:k Value:v Effect:NoSchedule} cannot be tolerated",
        ),
    ];
    for (tolerations, text) in rows {
        let mut hub = hub(Some(tolerate(tolerations.clone())));
        hub.members = vec![member("a").taint("k", "v").taint("e", "")];
        let plan = hub.plan();
        if text.is_empty() {
            assert_eq!(decisions(&plan), "+a", "{tolerations}");
        } else {
            assert_eq!(
                reason(&plan, "a"),
                format!("ClusterUnschedulable, {text}"),
                "{tolerations}"
            );
        }
    }
}

#[test]
fn a_namespaced_placement_goes_where_its_namespace_is() {
    let known = |names: &[&str]| Some(names.iter().map(|name| ((*name).to_owned(), String::new())).collect());
    for (namespaces, text) in [
        (None, ""),
        (known(&[]), "cluster has no namespace information available"),
        (known(&["ns-a", "b"]), ""),
        (known(&["b"]), "target namespace does not exist on cluster"),
    ] {
        let mut hub = hub(None);
        hub.members = vec![Member {
            namespaces,
            ..member("a")
        }];
        assert_eq!(decisions(&hub.plan()), "+a", "a cluster-scoped placement does not care");
        hub.key = PlacementKey::new(Some("ns-a"), "app").unwrap();
        let plan = hub.plan();
        if text.is_empty() {
            assert_eq!(decisions(&plan), "+a");
        } else {
            assert_eq!(reason(&plan, "a"), format!("ClusterUnschedulable, {text}"));
        }
    }
}

#[test]
fn what_is_placed_stays_when_its_cluster_no_longer_fits_and_is_listed_once() {
    let mut hub = hub(Some(required(
        &json!([{"labelSelector": {"matchLabels": {"region": "east"}}}]),
    )));
    hub.run();
    hub.roll_out();
    *hub.member("-1-") = member("cluster-1-east-prod").label("region", "north");
    *hub.member("-2-") = member("cluster-2-east-prod").label("region", "east").taint("k", "v");
    *hub.member("-3-") = member("cluster-3-east-canary")
        .label("region", "east")
        .ineligible(UNHEALTHY);
    let plan = hub.run();
    assert!(plan.is_empty(), "{plan:?}");
    assert_eq!(hub.clusters().len(), 3);
    assert!(decisions(&plan).starts_with("+1 +2 +3 -4"), "{}", decisions(&plan));
}

#[test]
fn usage_that_falls_moves_nothing_and_usage_that_rises_adds() {
    let mut hub = hub(Some(property("resources.kubernetes-fleet.io/available-cpu", "Ge", "6")));
    hub.members = vec![member("a").available("cpu", "6"), member("b").available("cpu", "5")];
    hub.run();
    hub.members = vec![member("a").available("cpu", "4"), member("b").available("cpu", "8")];
    hub.run();
    assert_eq!(hub.clusters(), ["a", "b"]);
}
