//! What holds in every world.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn members() -> impl Strategy<Value = Vec<Member>> {
    let one = (
        0..4u8,
        0..3u8,
        0..3u8,
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.2),
    );
    prop::collection::vec(one, 0..14).prop_map(|all| {
        let member = |(i, (region, env, size, sick, leaving, tainted))| {
            let mut member = member(&format!("c{i:02}")).property("size", &format!("{size}"));
            if region > 0 {
                member = member.label("region", &format!("r{region}"));
            }
            member = member.label("env", &format!("e{env}"));
            if tainted {
                member = member.taint("k", "v");
            }
            match (leaving, sick) {
                (true, _) => member.leaving(),
                (_, true) => member.ineligible(UNHEALTHY),
                _ => member,
            }
        };
        all.into_iter().enumerate().map(member).collect()
    })
}

fn policies() -> impl Strategy<Value = Option<PlacementPolicy>> {
    let affinity = prop::option::of(0..3u8).prop_map(|env| {
        env.map_or(json!({}), |env| {
            let env = json!({"labelSelector": {"matchLabels": {"env": format!("e{env}")}}});
            let size = json!({"propertySorter": {"name": "size", "sortOrder": "Descending"}});
            json!({"affinity": {"clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [env, {
                    "propertySelector": {"matchExpressions": [{"name": "size", "operator": "Ge", "values": ["1"]}]}}]},
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": size}]}}})
        })
    });
    let spread = prop_oneof![
        Just(json!({})),
        Just(json!({"topologySpreadConstraints": [{"topologyKey": "region"}]})),
        Just(json!({"topologySpreadConstraints": [
            {"topologyKey": "region", "whenUnsatisfiable": "ScheduleAnyway"}, {"topologyKey": "env", "maxSkew": 2}]})),
    ];
    let named = prop::collection::vec(0..16u8, 0..4).prop_map(|names| {
        let names: Vec<String> = names.into_iter().map(|i| format!("c{i:02}")).collect();
        Some(pick_fixed(&names.iter().map(String::as_str).collect::<Vec<_>>()))
    });
    prop_oneof![
        1 => Just(None),
        2 => affinity.clone().prop_map(|affinity| Some(with(pick_all(), &affinity))),
        4 => (0..9i32, affinity, spread)
            .prop_map(|(n, affinity, spread)| Some(with(with(pick_n(n), &affinity), &spread))),
        2 => named,
    ]
}

fn bindings() -> impl Strategy<Value = Vec<Bound>> {
    let one = (0..16u8, 0..3u8, prop::bool::ANY, prop::bool::weighted(0.15), -3..3i32);
    prop::collection::btree_map(0..16u8, one, 0..8).prop_map(|all| {
        let bound = |(cluster, (_, state, current, deleting, score)): (u8, (u8, u8, bool, bool, i32))| {
            let state =
                [BindingState::Scheduled, BindingState::Bound, BindingState::Unscheduled][usize::from(state)].clone();
            let mut bound = binding(&format!("c{cluster:02}"), state)
                .score(0, score)
                .previous("Bound");
            bound.deleting = deleting;
            if current { bound } else { bound.of("app-old") }
        };
        all.into_iter().map(bound).collect()
    })
}

fn hubs() -> impl Strategy<Value = Hub> {
    (members(), policies(), bindings()).prop_map(|(members, policy, bindings)| {
        let mut hub = hub(policy);
        (hub.members, hub.bindings) = (members, bindings);
        hub
    })
}

proptest! {
    #[test]
    fn only_usable_clusters_that_pass_every_filter_are_newly_picked(hub in hubs()) {
        let plan = hub.plan();
        prop_assert!(plan.problem.is_none());
        let filters = plugins::Filters::new(hub.policy.as_ref(), None).unwrap();
        let fixed = hub.policy.as_ref().is_some_and(|policy| policy.placement_type == PlacementType::PickFixed);
        let picked = plan.create.iter().map(|c| &c.cluster).chain(plan.patch.iter().map(|p| &p.cluster));
        for name in picked {
            let member = hub.members.iter().find(|member| member.name == *name).unwrap();
            prop_assert!(member.ineligible.is_none());
            prop_assert!(fixed || filters.admit(&member.view()).is_ok());
        }
    }

    #[test]
    fn pick_n_never_ends_with_more_than_n(mut hub in hubs()) {
        hub.run();
        if let Some(n) = hub.policy.as_ref().and_then(|policy| policy.number_of_clusters) {
            prop_assert!(hub.clusters().len() <= usize::try_from(n).unwrap());
        }
    }

    #[test]
    fn in_an_unchanged_world_there_is_nothing_more_to_do(mut hub in hubs(), rolled_out in prop::bool::ANY) {
        hub.run();
        if rolled_out {
            hub.roll_out();
        }
        let again = hub.run();
        let writes = again.release.len() + again.vacate.len() + again.create.len() + again.patch.len() + again.unschedule.len();
        prop_assert_eq!(writes, 0, "{:?}", again);
        // Once it has all it wants, PickN lists only what is picked; after that nothing changes any more.
        hub.run();
        prop_assert!(hub.run().is_empty());
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(hub in hubs(), seed in any::<u64>()) {
        let mut shuffled = hub.clone();
        let mut rng = fastrand::Rng::with_seed(seed);
        rng.shuffle(&mut shuffled.members);
        rng.shuffle(&mut shuffled.bindings);
        prop_assert_eq!(hub.plan(), shuffled.plan());
    }

    #[test]
    fn no_cluster_gets_two_bindings_and_no_binding_two_changes(mut hub in hubs()) {
        let plan = hub.run();
        let mut names: Vec<_> = plan.patch.iter().map(|p| &p.binding).collect();
        names.extend(plan.vacate.iter().chain(&plan.unschedule).map(|u| &u.binding));
        names.extend(plan.create.iter().map(|c| &c.binding));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), count);
        let clusters = hub.clusters();
        let mut unique = clusters.clone();
        unique.dedup();
        prop_assert_eq!(clusters, unique);
    }

    #[test]
    fn what_this_policy_picked_stays_unless_it_shrinks_or_the_cluster_goes(hub in hubs()) {
        let plan = hub.plan();
        let shrinks = hub.policy.as_ref().is_some_and(|p| p.number_of_clusters.is_some())
            || hub.policy.as_ref().is_some_and(|p| p.placement_type == PlacementType::PickFixed && p.cluster_names.is_empty());
        for gone in &plan.unschedule {
            let binding = hub.bindings.iter().find(|binding| binding.name == gone.binding).unwrap();
            prop_assert!(shrinks || binding.snapshot != hub.snapshot);
        }
    }

    #[test]
    fn shrinking_takes_the_lowest_scores(mut hub in hubs(), n in 0..4usize) {
        hub.members = (0..16).map(|i| member(&format!("c{i:02}"))).collect();
        hub.policy = Some(pick_n(0));
        hub.number = Some(n.to_string());
        for bound in &mut hub.bindings {
            (bound.state, bound.deleting, bound.snapshot) = (BindingState::Bound, false, hub.snapshot.clone());
        }
        let rank = |bound: &Bound| (bound.decision.cluster_score.as_ref().unwrap().affinity_score, bound.cluster.clone());
        let mut expected: Vec<_> = hub.bindings.iter().map(rank).collect();
        expected.sort();
        expected.reverse();
        expected.truncate(n);
        let mut expected: Vec<_> = expected.into_iter().map(|(_, cluster)| cluster).collect();
        expected.sort();
        if hub.bindings.len() >= n {
            hub.run();
            prop_assert_eq!(hub.clusters(), expected);
        }
    }

    #[test]
    fn the_list_of_decisions_keeps_to_its_limits_and_counts_right(hub in hubs()) {
        let plan = hub.plan();
        let decisions = &plan.status.as_ref().unwrap().target_clusters;
        prop_assert!(decisions.len() <= DECISIONS_MAX);
        let names: std::collections::BTreeSet<_> = decisions.iter().map(|d| &d.cluster_name).collect();
        prop_assert_eq!(names.len(), decisions.len());
        let selected = decisions.iter().filter(|d| d.selected).count();
        let text = format!("found {selected} cluster(s)");
        prop_assert!(condition(&plan).contains(&text));
    }
}
