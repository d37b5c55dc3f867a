//! PickFixed: the clusters that are named.

use std::collections::HashSet;

use fleet_api::conditions::decision::Decision;

use super::cycle::{Cycle, Selection, unschedule};
use super::decisions;
use super::plan::Problem;
use super::plugins::same_placement_anti_affinity::Present;
use super::reconcile::reconcile;

/// Picks the named clusters that are there and can be used. Nothing else about them matters: who names a cluster means
/// it, taints or not.
pub(super) fn select(cycle: &Cycle<'_>, targets: &[String]) -> Result<Selection, Problem> {
    let present = Present::new(&cycle.classes);
    let mut seen = HashSet::new();
    let (mut valid, mut invalid, mut absent, mut picks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // A name that is given twice is one target: two bindings on a cluster would block each other.
    for target in targets.iter().filter(|target| seen.insert(target.as_str())) {
        let Some(cluster) = cycle.fleet.get(target) else {
            absent.push(decisions::unavailable(
                target,
                &Decision::NotFound {
                    cluster: target.clone(),
                },
            ));
            continue;
        };
        if let Some(why) = cluster.ineligible {
            invalid.push(decisions::unavailable(
                target,
                &Decision::Ineligible {
                    cluster: target.clone(),
                    why,
                },
            ));
            continue;
        }
        let decision = decisions::picked(target, None);
        if !present.is_picked(target) {
            picks.push(decision.clone());
        }
        valid.push(decision);
    }

    let mut selection = reconcile(cycle, picks)?;
    if targets.is_empty() {
        // Nothing is wanted, so nothing stays.
        selection.unschedule.extend(cycle.classes.current().map(unschedule));
    }
    selection.found = valid.len();
    selection.fulfilled = invalid.is_empty() && absent.is_empty();
    selection.decisions = valid
        .into_iter()
        .chain(invalid)
        .chain(absent)
        .take(decisions::DECISIONS_MAX)
        .collect();
    Ok(selection)
}
