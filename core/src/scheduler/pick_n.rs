//! PickN: the best so many of the clusters that are fit.

use std::cmp::Reverse;
use std::collections::HashSet;

use fleet_api::conditions::decision::{Rejection, Scores};
use fleet_api::placement::{ClusterDecision, PlacementPolicy};

use super::classes::trim_order;
use super::cycle::{Cycle, Selection, unschedule};
use super::decisions;
use super::greedy;
use super::plan::Problem;
use super::plugins::Filters;
use super::plugins::cluster_affinity::Preferred;
use super::plugins::same_placement_anti_affinity::Present;
use super::plugins::topology_spread::{Kind, Spread};
use super::reconcile::reconcile;
use super::world::{Binding, Cluster};

/// Picks clusters until there are `wanted`, or lets the worst go until no more are left.
pub(super) fn select(cycle: &Cycle<'_>, policy: &PlacementPolicy, wanted: usize) -> Result<Selection, Problem> {
    let have = cycle.classes.current_count();
    if wanted > have {
        grow(cycle, policy, wanted, wanted - have)
    } else if wanted < have || !cycle.classes.obsolete.is_empty() {
        Ok(shrink(cycle, have - wanted))
    } else {
        Ok(stay(cycle))
    }
}

/// A cluster that passed the filters, and how much the policy likes it.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    cluster: &'a Cluster<'a>,
    affinity: i32,
}

impl<'a> Candidate<'a> {
    fn scored(self, spread: i32) -> (&'a str, Scores) {
        (
            self.cluster.name,
            Scores {
                affinity: self.affinity,
                spread,
            },
        )
    }
}

/// What becomes of the candidates.
#[derive(Default)]
struct Ranked<'a> {
    picked: Vec<(&'a str, Scores)>,
    outscored: Vec<(&'a str, Scores)>,
    violating: Vec<(&'a str, Rejection)>,
}

fn grow(cycle: &Cycle<'_>, policy: &PlacementPolicy, wanted: usize, missing: usize) -> Result<Selection, Problem> {
    let world = cycle.world;
    let clusters = cycle.fleet.all();
    let filters = Filters::new(Some(policy), world.placement.key.namespace())?;
    let preferred = Preferred::new(Some(policy), clusters)?;
    let present = Present::new(&cycle.classes);

    let (mut candidates, mut filtered) = (Vec::new(), Vec::new());
    let mut usable = vec![false; clusters.len()];
    for (i, cluster) in clusters.iter().copied().enumerate() {
        if let Err(why) = filters.admit(cluster) {
            filtered.push((cluster.name, why));
            continue;
        }
        usable[i] = true;
        if !present.is_picked(cluster.name) {
            candidates.push(Candidate {
                cluster,
                affinity: preferred.score(cluster),
            });
        }
    }
    // Best first as far as everything but the spread is concerned. Of equals the greater name wins; it always has.
    candidates.sort_unstable_by_key(|&Candidate { cluster, affinity }| {
        Reverse((affinity, present.is_obsolete(cluster.name), cluster.name))
    });

    let kind = if world.settings.spread_over_usable_clusters {
        Kind::Usable
    } else {
        Kind::Fleet
    };
    let spread = Spread::new(
        policy,
        clusters,
        kind,
        |i| usable[i],
        |i| present.is_picked(clusters[i].name),
    );
    let ranked = match spread {
        None => rank(&candidates, missing),
        Some(spread) => rank_spread(spread, &candidates, missing),
    };
    let kept_out: HashSet<&str> = ranked.violating.iter().map(|(name, _)| *name).collect();
    filtered.extend(ranked.violating);
    filtered.sort_by_key(|(name, _)| *name);

    let picks = ranked
        .picked
        .into_iter()
        .map(|(name, scores)| decisions::picked(name, Some(scores)))
        .collect();
    let mut selection = reconcile(cycle, picks)?;
    selection.list_selected(cycle);
    selection.fulfilled = selection.found >= wanted;
    if !selection.fulfilled {
        // Candidates that the spread keeps out can become unusable by waiting, and users would read an old reason.
        let waiting = |candidate: &&Candidate<'_>| kept_out.contains(candidate.cluster.name);
        let ends = candidates
            .iter()
            .filter(waiting)
            .filter_map(|candidate| candidate.cluster.ineligible_from);
        selection.look_again = ends.min();
    }
    decisions::explain(&mut selection.decisions, ranked.outscored, filtered);
    Ok(selection)
}

fn rank<'a>(candidates: &[Candidate<'a>], missing: usize) -> Ranked<'a> {
    let (picked, outscored) = candidates.split_at(missing.min(candidates.len()));
    let scored = |candidates: &[Candidate<'a>]| candidates.iter().map(|candidate| candidate.scored(0)).collect();
    Ranked {
        picked: scored(picked),
        outscored: scored(outscored),
        violating: Vec::new(),
    }
}

fn rank_spread<'a>(mut spread: Spread<'_>, candidates: &[Candidate<'a>], missing: usize) -> Ranked<'a> {
    let clusters: Vec<_> = candidates.iter().map(|candidate| candidate.cluster).collect();
    let outcome = greedy::pick(&mut spread, &clusters, missing);
    let mut ranked = Ranked {
        picked: outcome
            .picked
            .into_iter()
            .map(|(i, score)| candidates[i].scored(score))
            .collect(),
        ..Ranked::default()
    };
    for (i, verdict) in outcome.rest {
        match verdict {
            Ok(score) => ranked.outscored.push(candidates[i].scored(score)),
            Err(violation) => ranked
                .violating
                .push((candidates[i].cluster.name, spread.rejection(violation))),
        }
    }
    ranked.outscored.sort_by_key(|(_, scores)| Reverse(scores.spread)); // stable: the rest of the order is there
    ranked
}

/// Lets bindings of earlier policies go, and then `surplus` of this one: what is not rolled out yet before what is, and
/// the worst first. The scores are those of the moment of picking.
fn shrink(cycle: &Cycle<'_>, surplus: usize) -> Selection {
    let classes = &cycle.classes;
    let unusable = |cluster: &str| {
        cycle.world.settings.trim_unusable_first
            && cycle
                .fleet
                .get(cluster)
                .is_none_or(|cluster| cluster.ineligible.is_some())
    };
    let trim = |bindings: &mut Vec<&Binding<'_>>, count: usize| -> Vec<_> {
        // A group that stays or goes as a whole keeps its order by name.
        if count > 0 && count < bindings.len() {
            bindings.sort_by(|a, b| trim_order(a, b, unusable));
        }
        bindings.drain(..count.min(bindings.len())).map(unschedule).collect()
    };

    let (mut scheduled, mut bound) = (classes.scheduled.clone(), classes.bound.clone());
    let from_scheduled = surplus.min(scheduled.len());
    let mut selection = Selection {
        fulfilled: true,
        ..Selection::default()
    };
    selection.unschedule = classes.obsolete.iter().map(|binding| unschedule(binding)).collect();
    selection.unschedule.extend(trim(&mut scheduled, from_scheduled));
    selection.unschedule.extend(trim(&mut bound, surplus - from_scheduled));
    selection.found = scheduled.len() + bound.len();
    selection.decisions = listed(cycle, scheduled.iter().chain(&bound));
    selection
}

fn stay(cycle: &Cycle<'_>) -> Selection {
    let classes = &cycle.classes;
    Selection {
        decisions: listed(cycle, classes.bound.iter().chain(&classes.scheduled)),
        found: classes.current_count(),
        fulfilled: true,
        ..Selection::default()
    }
}

/// The decisions when nobody was picked: about those that stay, and what was said of the others before.
fn listed<'a>(cycle: &Cycle<'_>, kept: impl Iterator<Item = &'a &'a Binding<'a>>) -> Vec<ClusterDecision> {
    let mut list = decisions::selected(kept.map(|binding| binding.decision.clone()));
    let before = cycle.world.snapshot.status.map(|status| &status.target_clusters[..]);
    decisions::keep_explanations(&mut list, before.unwrap_or_default(), |cluster| {
        cycle.fleet.get(cluster).is_some()
    });
    list
}
