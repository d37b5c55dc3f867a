//! PickN without constraints: scores, ties, scaling.

use serde_json::json;

use super::*;

fn preferred(n: i32, terms: &serde_json::Value) -> PlacementPolicy {
    let affinity = json!({"affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": terms}}});
    with(pick_n(n), &affinity)
}

fn shorts(clusters: &[&str]) -> String {
    clusters.iter().map(|name| short(name)).collect::<Vec<_>>().join(" ")
}

#[test]
fn of_equal_clusters_the_greater_names_are_picked_and_the_rest_is_explained() {
    let plan = hub(Some(pick_n(3))).plan();
    assert_eq!(
        decisions(&plan),
        "+7 +6 +5 -4 -3 -2 -1 -left-cluster-central-prod -unhealthy-cluster-east-prod"
    );
    assert_eq!(condition(&plan), found(3));
    assert_eq!(
        reason(&plan, "4"),
        "Cluster \"cluster-4-central-prod\" does not score high enough (affinity score: 0, topology spread score: 0)"
    );
}

#[test]
fn too_few_clusters_are_all_picked_and_the_condition_says_so() {
    let plan = hub(Some(pick_n(10))).plan();
    assert_eq!(plan.create.len(), 7);
    assert_eq!(condition(&plan), missing(7));
    assert_eq!(plan.look_again, None, "nobody is kept out who could become unusable");
    let plan = hub(Some(pick_n(0))).plan();
    assert_eq!((plan.create.len(), condition(&plan)), (0, found(0)));
}

#[test]
fn growing_adds_and_shrinking_removes_without_touching_the_rest() {
    let mut hub = hub(Some(pick_n(1)));
    hub.run();
    hub.number = Some("3".into());
    let plan = hub.run();
    assert_eq!(decisions(&plan).split(" -").next(), Some("+6 +5 +7"));
    assert!(plan.patch.is_empty() && plan.unschedule.is_empty());
    hub.number = Some("1".into());
    let plan = hub.run();
    assert_eq!(shorts(&hub.clusters()), "7");
    let kept = decisions(&plan);
    assert!(
        kept.starts_with("+7 -4 -3"),
        "why others were not picked is still said: {kept}"
    );
    assert_eq!(condition(&plan), found(1));
    assert!(hub.run().is_empty());
}

#[test]
fn shrinking_takes_what_is_not_rolled_out_first_and_the_lowest_scores_of_each() {
    use BindingState::{Bound, Scheduled};
    let bindings = vec![
        binding("cluster-1-east-prod", Scheduled).score(0, 5),
        binding("cluster-2-east-prod", Scheduled).score(-1, 9),
        binding("cluster-4-central-prod", Bound).score(0, 1),
        binding("cluster-5-central-prod", Bound).score(0, 0),
    ];
    for (n, left) in [(3, "1 4 5"), (2, "4 5"), (1, "4"), (0, "")] {
        let mut hub = hub(Some(pick_n(n)));
        hub.bindings.clone_from(&bindings);
        hub.run();
        assert_eq!(shorts(&hub.clusters()), left, "{n}");
    }
}

#[test]
fn of_equal_scores_the_smaller_name_goes_first_and_a_missing_score_before_any() {
    let mut hub = hub(Some(pick_n(2)));
    let mut unscored = binding("cluster-6-west-prod", BindingState::Bound);
    unscored.decision.cluster_score = None;
    hub.bindings = vec![
        binding("cluster-2-east-prod", BindingState::Bound).score(0, -50),
        binding("cluster-1-east-prod", BindingState::Bound).score(0, -50),
        unscored,
        binding("cluster-4-central-prod", BindingState::Bound),
    ];
    let plan = hub.run();
    let gone: Vec<_> = plan.unschedule.iter().map(|gone| short(&gone.cluster)).collect();
    assert_eq!(gone, ["6", "1"]);
    assert_eq!(decisions(&plan), "+2 +4");
}

#[test]
fn unusable_clusters_go_first_among_equals_only_when_asked() {
    for (asked, left) in [(false, "2"), (true, "1")] {
        let mut hub = hub(Some(pick_n(1)));
        hub.settings.trim_unusable_first = asked;
        hub.member("-2-").ineligible = Some(UNHEALTHY);
        hub.bindings = ["cluster-1-east-prod", "cluster-2-east-prod"]
            .map(|c| binding(c, BindingState::Bound))
            .into();
        hub.run();
        assert_eq!(shorts(&hub.clusters()), left);
    }
}

#[test]
fn lingering_bindings_of_an_earlier_policy_go_when_the_number_is_right() {
    let mut hub = hub(Some(pick_n(1)));
    hub.bindings = vec![
        binding("cluster-1-east-prod", BindingState::Bound),
        binding("cluster-2-east-prod", BindingState::Bound).of("app-old"),
    ];
    let plan = hub.run();
    assert_eq!(shorts(&hub.clusters()), "1");
    assert_eq!(plan.unschedule.len(), 1);
}

#[test]
fn weights_add_up_and_negative_ones_rank_last() {
    let terms = json!([
        {"weight": 40, "preference": {"labelSelector": {"matchLabels": {"region": "east"}}}},
        {"weight": -40, "preference": {"labelSelector": {"matchLabels": {"env": "canary"}}}},
        {"weight": 0, "preference": {"propertySorter": {
            "name": "resources.kubernetes-fleet.io/bad", "sortOrder": "Ascending"}}},
    ]);
    let plan = hub(Some(preferred(2, &terms))).plan();
    assert_eq!(decisions(&plan).split(" -left").next(), Some("+2 +1 -6 -5 -4 -3 -7"));
    assert_eq!(
        [score(&plan, "2"), score(&plan, "3"), score(&plan, "7")],
        [(40, 0), (0, 0), (-40, 0)]
    );
}

#[test]
fn sorters_rank_between_the_least_and_the_greatest_value_of_the_whole_fleet() {
    let nodes = "kubernetes-fleet.io/node-count";
    for (order, expected) in [
        ("Ascending", [86, 57, 29, 86, 0, 86, 0]),
        ("Descending", [14, 43, 71, 14, 100, 14, 100]),
    ] {
        let sorter = json!([{"weight": 100, "preference": {"propertySorter": {"name": nodes, "sortOrder": order}}}]);
        let mut hub = hub(Some(preferred(7, &sorter)));
        for (member, count) in hub.members.iter_mut().zip(["2", "4", "6", "2", "8", "2", "8", "1"]) {
            *member = std::mem::take(member).property(nodes, count);
        }
        let plan = hub.plan();
        let scores: Vec<_> = (1..=7).map(|i| score(&plan, &i.to_string()).0).collect();
        assert_eq!(scores, expected, "{order}");
    }
}

#[test]
fn a_property_that_is_missing_the_same_everywhere_or_unreadable_scores_nothing() {
    let sorter = json!([{"weight": 100, "preference": {"propertySorter": {"name": "p", "sortOrder": "Ascending"}}}]);
    for values in [&[][..], &["4", "4", "4"], &["abc"]] {
        let mut hub = hub(Some(preferred(7, &sorter)));
        for (member, value) in hub.members.iter_mut().zip(values) {
            *member = std::mem::take(member).property("p", value);
        }
        let plan = hub.plan();
        assert_eq!(decisions(&plan).split(" -").next(), Some("+7 +6 +5 +4 +3 +2 +1"));
        assert_eq!(score(&plan, "1"), (0, 0));
    }
}

#[test]
fn after_a_policy_change_clusters_that_have_it_win_over_greater_names() {
    let mut hub = hub(Some(pick_n(2)));
    hub.bindings = vec![
        binding("cluster-1-east-prod", BindingState::Bound).of("app-old"),
        binding("cluster-2-east-prod", BindingState::Scheduled).of("app-old"),
    ];
    let plan = hub.run();
    assert!(plan.create.is_empty() && plan.unschedule.is_empty());
    let patches: Vec<_> = plan
        .patch
        .iter()
        .map(|p| (short(&p.cluster), p.state.as_str(), p.restored))
        .collect();
    assert_eq!(patches, [("1", "Bound", false), ("2", "Scheduled", false)]);
}

#[test]
fn a_cluster_that_leaves_is_replaced_in_the_same_decision() {
    let mut hub = hub(Some(pick_n(2)));
    hub.run();
    hub.roll_out();
    hub.members.retain(|member| !member.name.contains("-7-"));
    let plan = hub.run();
    assert_eq!(plan.vacate.len(), 1);
    assert_eq!(plan.vacate[0].previous, BindingState::Bound);
    assert_eq!(shorts(&hub.clusters()), "5 6");
    assert_eq!(condition(&plan), found(2));
}

#[test]
fn an_unusable_number_is_refused_with_the_cause() {
    for (number, text) in [
        (None, "it is missing"),
        (Some("-1"), "\"-1\" is not a whole number"),
        (Some("x"), "\"x\" is not a whole number"),
    ] {
        let mut hub = hub(Some(pick_n(1)));
        hub.number = number.map(Into::into);
        let plan = hub.plan();
        let cause = format!(
            "policy snapshot \"app-0\" has no usable annotation \"kubernetes-fleet.io/number-of-clusters\": {text}"
        );
        assert_eq!(plan.problem.as_ref().unwrap().to_string(), cause);
        assert!(plan.create.is_empty());
        assert_eq!(condition(&plan), format!("{}; {cause}", missing(0)));
    }
    let mut hub = hub(Some(pick_n(1)));
    hub.generation = None;
    let plan = hub.plan();
    assert!(plan.problem.is_some() && plan.status.is_none() && plan.create.is_empty());
}
