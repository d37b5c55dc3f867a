//! PickN with topology spread constraints.

use serde_json::json;

use super::*;

fn spread(n: i32, constraints: &[(&str, i32, &str)]) -> PlacementPolicy {
    let constraints: Vec<_> = constraints
        .iter()
        .map(|(key, max_skew, action)| json!({"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": action}))
        .collect();
    with(pick_n(n), &json!({"topologySpreadConstraints": constraints}))
}

const HARD: &str = "DoNotSchedule";
const SOFT: &str = "ScheduleAnyway";

#[test]
fn a_hard_constraint_spreads_the_picks_and_names_itself_where_it_forbids_one() {
    let plan = hub(Some(spread(2, &[("region", 1, HARD)]))).plan();
    assert_eq!(
        decisions(&plan),
        "+7 +5 -4 -3 -2 -1 -6 -left-cluster-central-prod -unhealthy-cluster-east-prod"
    );
    assert_eq!(
        [score(&plan, "7"), score(&plan, "5"), score(&plan, "4")],
        [(0, -1), (0, 0), (0, 0)]
    );
    assert_eq!(
        reason(&plan, "6"),
        "ClusterUnschedulable, violated doNotSchedule topology spread constraint \"region\" (max skew 1)"
    );
    assert_eq!(condition(&plan), found(2));
}

#[test]
fn two_hard_constraints_add_their_scores() {
    let plan = hub(Some(spread(2, &[("region", 1, HARD), ("env", 1, HARD)]))).plan();
    assert_eq!([score(&plan, "7"), score(&plan, "5")], [(0, -2), (0, 1)]);
}

#[test]
fn a_soft_constraint_only_costs() {
    let plan = hub(Some(spread(2, &[("region", 1, SOFT)]))).plan();
    assert_eq!(score(&plan, "6"), (0, -1000));
    assert!(
        decisions(&plan).starts_with("+7 +5 -4 -3 -2 -1 -6"),
        "{}",
        decisions(&plan)
    );
    let plan = hub(Some(spread(2, &[("region", 1, SOFT), ("env", 1, SOFT)]))).plan();
    assert_eq!(score(&plan, "6"), (0, -999));
}

#[test]
fn spread_counts_more_than_affinity() {
    let mut policy = spread(1, &[("region", 1, HARD)]);
    policy = with(
        policy,
        &json!({"affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"labelSelector": {"matchLabels": {"region": "west"}}}}]}}}),
    );
    let mut hub = hub(Some(policy));
    hub.members.push(member("alone"));
    let plan = hub.plan();
    assert_eq!(
        plan.create[0].cluster, "alone",
        "0/0 without the label beats 100 with -1"
    );
    assert_eq!(score(&plan, "7"), (100, -1));
}

#[test]
fn a_domain_that_cannot_be_used_pins_the_minimum_unless_asked_otherwise() {
    let policy = with(
        spread(3, &[("region", 1, HARD)]),
        &json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchExpressions": [
                {"key": "region", "operator": "NotIn", "values": ["west"]}]}}]}}}}),
    );
    let mut hub = hub(Some(policy));
    let plan = hub.plan();
    assert_eq!(condition(&plan), missing(2));
    assert_eq!(plan.look_again, Some(NOW), "a reason may change by waiting");
    hub.settings.spread_over_usable_clusters = true;
    assert_eq!(condition(&hub.plan()), found(3));
}

#[test]
fn clusters_without_the_label_are_outside_of_the_spread() {
    let mut hub = hub(Some(spread(3, &[("region", 1, HARD)])));
    hub.members = vec![member("a"), member("b"), member("c")];
    let plan = hub.plan();
    assert_eq!(decisions(&plan), "+c +b +a");
    assert_eq!(score(&plan, "a"), (0, 0));
}

/// A fleet whose domains hold so many, and whether one more may go to the first domain, and with what score.
#[test]
fn skew_is_judged_as_users_know_it() {
    for (counts, max_skew, usable, expected) in [
        (&[1, 4, 4][..], 1, false, None),
        (&[1, 1, 3], 1, false, None),
        (&[2, 2, 2], 1, false, Some(-1)),
        (&[1, 2, 2], 1, false, Some(1)),
        (&[3], 1, false, Some(-1)),
        (&[2, 1, 2], 1, false, None),
        (&[2, 1, 3], 2, false, Some(0)),
        (&[1, 4, 4], 1, true, Some(1)),
        (&[1, 1, 3], 1, true, Some(0)),
    ] {
        let total: usize = counts.iter().sum();
        let mut hub = hub(Some(spread(
            i32::try_from(total).unwrap() + 1,
            &[("d", max_skew, HARD)],
        )));
        hub.settings.spread_over_usable_clusters = usable;
        hub.members = vec![member("free").label("d", "0")];
        for (domain, count) in counts.iter().enumerate() {
            for i in 0..*count {
                let name = format!("taken-{domain}-{i}");
                hub.members.push(member(&name).label("d", &domain.to_string()));
                hub.bindings.push(binding(&name, BindingState::Bound));
            }
        }
        let plan = hub.plan();
        let score = plan
            .create
            .first()
            .map(|create| create.decision.cluster_score.clone().unwrap().priority_score);
        assert_eq!(score.flatten(), expected, "{counts:?} max {max_skew}");
    }
}

#[test]
fn after_a_policy_change_no_binding_that_stays_is_ever_unscheduled() {
    let mut hub = hub(Some(spread(3, &[("region", 1, HARD)])));
    hub.run();
    hub.roll_out();
    let before: Vec<String> = hub.clusters().into_iter().map(Into::into).collect();
    hub.set_policy(spread(3, &[("region", 2, HARD)]));
    let plan = hub.run();
    assert!(plan.create.is_empty() && plan.unschedule.is_empty(), "{plan:?}");
    assert_eq!(hub.clusters(), before);
    assert!(plan.status_changed && plan.status.is_some(), "one decision, one status");
}

/// The picks of upstream's way: one at a time, each with a fresh look at everything.
fn one_at_a_time(hub: &Hub) -> Vec<(String, i32)> {
    let mut hub = hub.clone();
    let wanted: usize = hub.number.take().unwrap().parse().unwrap();
    let mut picks = Vec::new();
    for n in 1..=wanted {
        hub.number = Some(n.to_string());
        let plan = hub.run();
        let Some(create) = plan.create.into_iter().next() else {
            break;
        };
        picks.push((
            create.cluster,
            create.decision.cluster_score.unwrap().priority_score.unwrap(),
        ));
    }
    picks
}

proptest::proptest! {
    #[test]
    fn all_picks_at_once_are_the_picks_one_at_a_time(
        labels in proptest::collection::vec((0..4u8, 0..3u8, proptest::bool::weighted(0.2)), 1..14),
        n in 1..10i32,
        skew in 1..3i32,
        hard in proptest::bool::ANY,
    ) {
        let mut hub = hub(Some(spread(n, &[("a", skew, if hard { HARD } else { SOFT }), ("b", 1, HARD)])));
        hub.members = labels
            .into_iter()
            .enumerate()
            .map(|(i, (a, b, bare))| {
                let member = member(&format!("c{i:02}")).label("b", &b.to_string());
                if bare { member } else { member.label("a", &a.to_string()) }
            })
            .collect();
        let at_once: Vec<_> = hub
            .plan()
            .create
            .into_iter()
            .map(|create| (create.cluster, create.decision.cluster_score.unwrap().priority_score.unwrap()))
            .collect();
        proptest::prop_assert_eq!(at_once, one_at_a_time(&hub));
    }
}
