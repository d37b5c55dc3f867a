//! PickAll, and no policy at all: every cluster that is fit.

use fleet_api::conditions::decision::Scores;

use super::cycle::{Cycle, Selection};
use super::decisions;
use super::plan::Problem;
use super::plugins::Filters;
use super::plugins::same_placement_anti_affinity::Present;
use super::reconcile::reconcile;

/// Picks every cluster that passes the filters. What this policy picked before stays, whatever became of its cluster.
pub(super) fn select(cycle: &Cycle<'_>) -> Result<Selection, Problem> {
    let world = cycle.world;
    let filters = Filters::new(world.snapshot.policy, world.placement.key.namespace())?;
    let present = Present::new(&cycle.classes);
    let scores = Some(Scores { affinity: 0, spread: 0 });

    let (mut picks, mut filtered) = (Vec::new(), Vec::new());
    for cluster in cycle.fleet.all() {
        match filters.admit(cluster) {
            Err(why) => filtered.push((cluster.name, why)),
            Ok(()) if present.is_picked(cluster.name) => {}
            Ok(()) => picks.push(decisions::picked(cluster.name, scores)),
        }
    }

    let mut selection = reconcile(cycle, picks)?;
    selection.list_selected(cycle);
    decisions::explain(&mut selection.decisions, [], filtered);
    // All that are fit are all that are wanted, even if there are none.
    selection.fulfilled = true;
    Ok(selection)
}

impl Selection {
    /// Lists what the placement has now, new picks first, and counts it.
    pub(super) fn list_selected(&mut self, cycle: &Cycle<'_>) {
        let created = self.create.iter().map(|create| &create.decision);
        let patched = self.patch.iter().map(|patch| &patch.decision);
        let kept = cycle.classes.current().map(|binding| binding.decision);
        self.decisions = decisions::selected(created.chain(patched).chain(kept).cloned());
        self.found = self.create.len() + self.patch.len() + cycle.classes.current_count();
    }
}
