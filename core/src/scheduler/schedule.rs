//! One decision about one placement.

use fleet_api::annotations;
use fleet_api::conditions::Words;
use fleet_api::conditions::policy_snapshot::Scheduled;
use fleet_api::placement::PlacementType;

use super::classes::{Classes, Fleet};
use super::cycle::{Cycle, Selection, unschedule};
use super::decisions;
use super::plan::{Plan, Problem};
use super::status;
use super::world::World;
use super::{pick_all, pick_fixed, pick_n};

/// Decides which clusters a placement gets. Equal worlds give equal plans, in whatever order their parts come.
///
/// Everything is decided before anything is written: the plan for a policy with spread constraints already contains all
/// picks, so no binding that stays is ever `Unscheduled` in between.
pub fn schedule<'a>(world: &'a World<'a>) -> Plan {
    let fleet = Fleet::new(world.clusters);
    let classes = Classes::new(world, &fleet);
    let cycle = Cycle { world, fleet, classes };
    let classes = &cycle.classes;

    // Not even a broken policy may keep a deletion or a departure waiting.
    let mut plan = Plan {
        release: classes
            .deleting
            .iter()
            .filter(|binding| binding.held)
            .map(|binding| binding.name.into())
            .collect(),
        vacate: classes.dangling.iter().map(|binding| unschedule(binding)).collect(),
        ..Plan::default()
    };
    let generation = match whole_number(
        world,
        annotations::PLACEMENT_GENERATION,
        world.snapshot.placement_generation,
    ) {
        Ok(generation) => generation,
        Err(problem) => {
            plan.problem = Some(problem);
            return plan;
        }
    };
    let (status, changed) = match select(&cycle) {
        Ok(selection) => {
            let Selection {
                create,
                patch,
                unschedule,
                decisions,
                found,
                fulfilled,
                look_again,
            } = selection;
            (plan.create, plan.patch, plan.unschedule, plan.look_again) = (create, patch, unschedule, look_again);
            let state = if fulfilled {
                Scheduled::Fulfilled { clusters: found }
            } else {
                Scheduled::Unfulfilled { clusters: found }
            };
            status::new(world, generation, decisions, &state)
        }
        Err(problem) => {
            // What is placed stays as it is, and users learn why nothing more happens.
            let decisions = decisions::selected(classes.current().map(|binding| binding.decision.clone()));
            let state = Scheduled::Unfulfilled {
                clusters: classes.current_count(),
            }
            .with_detail(problem.to_string());
            plan.problem = Some(problem);
            status::new(world, generation, decisions, &state)
        }
    };
    (plan.status, plan.status_changed) = (Some(status), changed);
    plan
}

fn select(cycle: &Cycle<'_>) -> Result<Selection, Problem> {
    match cycle.world.snapshot.policy {
        None => pick_all::select(cycle),
        Some(policy) => match policy.placement_type {
            PlacementType::PickAll => pick_all::select(cycle),
            PlacementType::PickN => {
                let snapshot = &cycle.world.snapshot;
                let wanted = whole_number(
                    cycle.world,
                    annotations::NUMBER_OF_CLUSTERS,
                    snapshot.number_of_clusters,
                )?;
                pick_n::select(cycle, policy, usize::try_from(wanted).unwrap_or(usize::MAX))
            }
            PlacementType::PickFixed => pick_fixed::select(cycle, &policy.cluster_names),
        },
    }
}

/// The annotation's value, a decimal number of at least zero.
fn whole_number(world: &World<'_>, annotation: &'static str, value: Option<&str>) -> Result<i64, Problem> {
    let problem = |value: String| Problem::Annotation {
        snapshot: world.snapshot.name.into(),
        annotation,
        value,
    };
    let text = value.ok_or_else(|| problem("it is missing".into()))?;
    let number: Option<i64> = text.parse().ok().filter(|number| *number >= 0);
    number.ok_or_else(|| problem(format!("{text:?} is not a whole number")))
}
