//! The roll-up by difference is the full one.

use super::*;

/// What may happen to a placement between two looks at it.
#[derive(Debug, Clone)]
enum Happening {
    /// A binding says something else, or names another snapshot.
    Binding(usize, usize, bool, u8),
    /// A binding is gone, or there again.
    Unbound(usize),
    /// Time goes on.
    Seconds(i64),
    /// The last look is written.
    Written,
    /// Somebody edits the status.
    Edited(usize),
    /// The scheduler has other reasons, or picks fewer, or nothing is known of it.
    Decided(usize, u8),
    /// The placement has another generation.
    Generation,
    /// There are other resources.
    Latest(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0..6_usize, 0..6_usize, any::<bool>(), 0..3_u8).prop_map(|(i, steps, ok, index)| {
            Happening::Binding(i, steps.min(5), ok, index)
        }),
        1 => (0..6_usize).prop_map(Happening::Unbound),
        2 => (0..3_i64).prop_map(Happening::Seconds),
        4 => Just(Happening::Written),
        1 => (0..6_usize).prop_map(Happening::Edited),
        1 => (0..6_usize, 0..4_u8).prop_map(|(i, how)| Happening::Decided(i, how)),
        1 => Just(Happening::Generation),
        1 => (0..2_u8).prop_map(Happening::Latest),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// What is kept between looks never shows, whatever happens in between.
    #[test]
    fn a_roll_up_by_difference_is_the_full_one(
        external in any::<bool>(),
        start in prop::collection::vec((0..6_usize, any::<bool>()), 1..6),
        events in prop::collection::vec(happening(), 0..40),
    ) {
        let names: Vec<String> = (0..start.len()).map(|i| format!("c{i}")).collect();
        let clusters: Vec<_> = names.iter().zip(&start).map(|(n, (steps, ok))| (n.as_str(), (*steps).min(5), *ok)).collect();
        let mut fleet = Fleet::new(&clusters);
        let all = fleet.status.clone();
        let mut context = Common { external, ..context() };
        let mut versions = vec![0_usize; names.len()];
        let mut bound = vec![true; names.len()];
        let (mut kept, mut stored) = (Rollup::<usize>::default(), Origin::Other);
        let mut last = PlacementStatus::default();
        for event in events {
            match event {
                Happening::Binding(i, steps, ok, index) => {
                    let i = i % names.len();
                    let binding = &mut fleet.bindings[i];
                    binding.1 = binding_spec(if index == 2 { "crp-1-snapshot" } else { "crp-0-snapshot" });
                    binding.2 = binding_status(steps, ok);
                    binding.3 = if index == 0 { String::new() } else { index.to_string() };
                    versions[i] += 1;
                }
                Happening::Unbound(i) => {
                    let i = i % names.len();
                    bound[i] = !bound[i];
                }
                Happening::Seconds(n) => context.now = at(context.now.as_second() + n),
                Happening::Written => {
                    (fleet.previous, stored) = (last.clone(), Origin::Ours);
                }
                Happening::Edited(i) => {
                    if let Some(entry) = fleet.previous.placement_statuses.get_mut(i) {
                        entry.conditions.truncate(i);
                        entry.failed_placements.clear();
                    }
                    stored = Origin::Other;
                }
                Happening::Decided(i, how) => {
                    fleet.status = all.clone();
                    let decision = &mut fleet.status.target_clusters[i % names.len()];
                    match how {
                        0 => decision.reason = "picked again".into(),
                        1 => decision.selected = false,
                        2 => fleet.status.conditions.clear(),
                        _ => {}
                    }
                }
                Happening::Generation => {
                    context.generation += 1;
                    fleet.status.observed_crp_generation = context.generation;
                }
                Happening::Latest(index) => {
                    context.latest = Some(if index == 0 { ("crp-0-snapshot", "0") } else { ("crp-1-snapshot", "1") });
                }
            }
            let place = |name: &str| names.iter().position(|known| known == name).filter(|i| bound[*i]);
            let mut world = fleet.world(&context);
            world.bindings.retain(|name, _| place(name).is_some());
            let rolled = kept.look(&world, stored, |name| place(name).map(|i| versions[i]));
            last = roll_up(&world);
            prop_assert_eq!(rolled.is(&fleet.previous), last == fleet.previous);
            prop_assert_eq!(&rolled.into_status(), &last);
            stored = Origin::Same;
        }
    }
}
