//! Which placements a cluster's change concerns.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn selecting(policy: PlacementPolicy, term: &serde_json::Value) -> PlacementPolicy {
    with(
        policy,
        &json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [term]}}}}),
    )
}

fn by_cpu() -> PlacementPolicy {
    let expression = json!({"name": "resources.kubernetes-fleet.io/available-cpu", "operator": "Ge", "values": ["6"]});
    selecting(
        pick_all(),
        &json!({"propertySelector": {"matchExpressions": [expression]}}),
    )
}

fn watchers() -> Watchers<&'static str> {
    let east = json!({"labelSelector": {"matchLabels": {"region": "east"}}});
    let spread = json!({"topologySpreadConstraints": [{"topologyKey": "region"}]});
    let mut watchers = Watchers::default();
    watchers.set("all", Interest::new(None, None, true));
    watchers.set(
        "all-east",
        Interest::new(Some(&selecting(pick_all(), &east)), None, true),
    );
    watchers.set("all-cpu", Interest::new(Some(&by_cpu()), None, true));
    watchers.set("all-in-ns", Interest::new(None, Some("ns"), true));
    watchers.set("n-done", Interest::new(Some(&pick_n(1)), None, true));
    watchers.set("n-open", Interest::new(Some(&pick_n(9)), None, false));
    watchers.set("n-spread", Interest::new(Some(&with(pick_n(9), &spread)), None, false));
    watchers.set("fixed-done", Interest::new(Some(&pick_fixed(&["c"])), None, true));
    watchers.set("fixed-open", Interest::new(Some(&pick_fixed(&["c", "d"])), None, false));
    watchers
}

fn woken(before: Option<&Member>, after: Option<&Member>, placed: &[&'static str]) -> String {
    let change = Change {
        before: before.map(Member::view),
        after: after.map(Member::view),
    };
    let placed: BTreeSet<_> = placed.iter().copied().collect();
    watchers()
        .concerned(&change, &placed)
        .into_iter()
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_change_wakes_exactly_those_whose_answer_it_changes() {
    let lost = Ineligible::HeartbeatLost(std::time::Duration::from_mins(6));
    let longer = Ineligible::HeartbeatLost(std::time::Duration::from_mins(7));
    let c = || member("c");
    let ns = |name: &str| Member {
        namespaces: Some([(name.to_owned(), String::new())].into()),
        ..c()
    };
    for (what, before, after, expected) in [
        ("nothing", c(), c(), ""),
        (
            "usage below the limit",
            c().available("cpu", "1"),
            c().available("cpu", "2"),
            "",
        ),
        (
            "usage above it",
            c().available("cpu", "1"),
            c().available("cpu", "8"),
            "all-cpu",
        ),
        (
            "usage of something else",
            c().available("memory", "1"),
            c().available("memory", "2"),
            "",
        ),
        (
            "a property that nobody asks for",
            c().property("p", "1"),
            c().property("p", "2"),
            "",
        ),
        (
            "a label that nobody asks for",
            c().label("x", "1"),
            c().label("x", "2"),
            "",
        ),
        (
            "a label that selects",
            c(),
            c().label("region", "east"),
            "all-east n-spread",
        ),
        (
            "another value of it",
            c().label("region", "a"),
            c().label("region", "b"),
            "n-spread",
        ),
        (
            "a taint removed",
            c().taint("k", "v"),
            c(),
            "all all-in-ns n-open n-spread",
        ),
        (
            "healthy again",
            c().ineligible(lost),
            c(),
            "all all-in-ns fixed-open n-open n-spread",
        ),
        ("still silent", c().ineligible(lost), c().ineligible(longer), ""),
        ("a namespace appears", ns("other"), ns("ns"), "all-in-ns"),
        ("another namespace appears", ns("other"), ns("another"), ""),
        ("namespaces are collected now", c(), ns("other"), "all-in-ns"),
        ("leaving", c(), c().leaving(), ""),
    ] {
        assert_eq!(woken(Some(&before), Some(&after), &[]), expected, "{what}");
    }
}

#[test]
fn a_placement_that_is_on_the_cluster_does_not_care_what_becomes_of_it() {
    let placed = ["all", "all-in-ns", "n-open", "n-spread"];
    let (well, sick) = (member("c"), member("c").ineligible(UNHEALTHY));
    assert_eq!(woken(Some(&well), Some(&sick), &placed), "fixed-open");
    assert_eq!(woken(Some(&sick), Some(&well), &placed), "fixed-open");
    let moved = member("c").label("region", "b");
    assert_eq!(woken(Some(&well), Some(&moved), &placed), "n-spread");
}

#[test]
fn a_new_cluster_wakes_those_that_could_take_it() {
    assert_eq!(
        woken(None, Some(&member("c")), &[]),
        "all all-in-ns fixed-open n-open n-spread"
    );
    let silent = member("c").ineligible(Ineligible::NotOnline);
    assert_eq!(
        woken(None, Some(&silent), &[]),
        "fixed-open",
        "from 'not found' to 'not online yet'"
    );
}

#[test]
fn a_cluster_that_is_gone_wakes_those_that_were_on_it_and_those_that_may_speak_of_it() {
    let c = member("c");
    assert_eq!(
        woken(Some(&c), None, &["n-done", "unheard-of"]),
        "all all-cpu all-east all-in-ns fixed-open n-done n-open n-spread unheard-of"
    );
}

#[test]
fn a_forgotten_placement_is_not_woken() {
    let mut watchers = watchers();
    watchers.remove(&"all");
    let (before, after) = (member("c").taint("k", "v"), member("c"));
    let change = Change {
        before: Some(before.view()),
        after: Some(after.view()),
    };
    assert!(!watchers.concerned(&change, &BTreeSet::new()).contains("all"));
}

/// The promise behind all this: whoever is not woken would not have changed anything.
#[test]
fn who_is_not_woken_has_nothing_to_do() {
    let variants: Vec<Member> = [
        member("c"),
        member("c").label("region", "east"),
        member("c").label("region", "west"),
        member("c").taint("k", "v"),
        member("c").available("cpu", "8"),
        member("c").ineligible(UNHEALTHY),
    ]
    .into();
    let east = json!({"labelSelector": {"matchLabels": {"region": "east"}}});
    let spread = json!({"topologySpreadConstraints": [{"topologyKey": "region"}]});
    let policies = [
        pick_all(),
        selecting(pick_all(), &east),
        by_cpu(),
        pick_n(1),
        pick_n(3),
        with(pick_n(3), &spread),
        pick_fixed(&["c"]),
        pick_fixed(&["c", "d"]),
    ];
    for policy in policies {
        for before in &variants {
            for after in &variants {
                let mut hub = hub(Some(policy.clone()));
                hub.members = vec![before.clone(), member("b").label("region", "west")];
                let plan = hub.run();
                let done = condition(&plan).starts_with("True");
                let placed = hub.clusters().contains(&"c");
                let interest = Interest::new(Some(&policy), None, done);
                let change = Change {
                    before: Some(before.view()),
                    after: Some(after.view()),
                };
                let concerned = interest.concerns(&change, placed);
                hub.members[0] = after.clone();
                let plan = hub.plan();
                // A satisfied placement would drop explanations or, named, report a sick cluster; upstream waits, too.
                let idle = plan.create.is_empty() && plan.patch.is_empty() && plan.unschedule.is_empty();
                assert!(
                    concerned || idle && (done || !plan.status_changed),
                    "{policy:?}\n{before:?}\n{after:?}\n{plan:?}"
                );
            }
        }
    }
}
