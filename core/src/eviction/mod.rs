//! Evictions: whether a placement may be taken off one cluster, and what is said of that.
//!
//! [`decide`] takes an eviction and the world as it is and answers with an outcome, the budget's numbers, and the clusters
//! that are not available. The shell carries the answer out and decides nothing. Everything is derived from stored objects:
//! before a binding is deleted its name and UID are stored in the eviction, so that a pass may be repeated or lost at any
//! point, and so that a deletion counts for the evictions after it before any watch shows it ([`Taken`]).
//!
//! ```text
//! Valid=True + target ──► DELETE binding ──► Executed=True      (a binding is deleted)
//! Valid=True + Executed                                         (nothing is deleted: blocked, or going anyway)
//! Valid=False                                                   (there is nothing to evict)
//! ```

mod budget;
mod decision;
mod failed;
#[cfg(test)]
mod laws;
mod status;
#[cfg(test)]
mod tests;
mod world;

use fleet_api::conditions::Words as _;
use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_api::placement::{EvictionTarget, PlacementType};
use jiff::{SignedDuration, Timestamp};

pub use budget::Count;
pub use decision::{Decision, EvictionOutcome, Unavailable};
pub use status::{Ended, executed};
pub use world::{Binding, Budget, Eviction, Placement, Taken, World};

/// What becomes of an eviction: the first check that applies decides, in the order that clients know.
///
/// # Guarantees
/// Equal worlds give equal answers. A recorded target that is deleting or gone ends the eviction as it was decided before
/// the deletion, whatever has happened since.
pub fn decide(eviction: &Eviction<'_>, world: &World<'_>, now: Timestamp) -> Decision {
    if eviction.ended().is_some() {
        return EvictionOutcome::Over.into();
    }
    if let Some(target) = &eviction.status.target
        && world.bindings.iter().all(|b| b.uid != target.uid || b.deleting)
    {
        let message = target.message.clone();
        return EvictionOutcome::Executed { message }.into();
    }
    let (placement, target) = match target(eviction, world) {
        Ok(found) => found,
        Err(invalid) => return EvictionOutcome::Invalid(invalid).into(),
    };
    if target.deleting {
        let message = Executed::Deleting.message();
        return EvictionOutcome::Executed { message }.into();
    }
    let unavailable = world.unavailable(target);
    let decision = |outcome, count| Decision {
        outcome,
        count,
        unavailable: unavailable.clone(),
    };
    if !target.placed {
        return decision(EvictionOutcome::Blocked(Executed::NotPlaced), None);
    }
    let period = placement.unavailable_period();
    if failed::is_failed(target, period, now) {
        return decision(evict(eviction, target, &Executed::Failed), None);
    }
    let limit = match world.budget {
        Budget::Unread => return EvictionOutcome::NeedsBudget.into(),
        Budget::None => return decision(evict(eviction, target, &Executed::NoBudget), None),
        Budget::Limit(limit) => limit,
    };
    let total = world.bindings.len();
    let count = budget::count(limit, placement.desired(), total, total - unavailable.len());
    let (available, blocked) = (
        count.available,
        Executed::OverBudget {
            available: count.available,
            total,
        },
    );
    let outcome = if count.misconfigured {
        wait_or_block(eviction, Executed::Misconfigured, target, period, now)
    } else if count.allows() {
        evict(eviction, target, &Executed::WithinBudget { available, total })
    } else {
        wait_or_block(eviction, blocked, target, period, now)
    };
    decision(outcome, Some(count))
}

/// The placement, and the one binding that is meant; or why there is none.
fn target<'a, 'w>(eviction: &Eviction<'_>, world: &'w World<'a>) -> Result<(Placement<'a>, &'w Binding<'a>), Valid> {
    let placement = world.placement.ok_or(Valid::PlacementMissing)?;
    if placement.deleting {
        return Err(Valid::PlacementDeleting);
    }
    if placement.spec.placement_type() == PlacementType::PickFixed {
        return Err(Valid::PickFixed);
    }
    let mut on_cluster = world.bindings.iter().filter(|b| b.cluster == eviction.cluster);
    match (on_cluster.next(), on_cluster.next()) {
        (Some(binding), None) => Ok((placement, binding)),
        (None, _) => Err(Valid::BindingMissing),
        (Some(_), Some(_)) => Err(Valid::SeveralBindings),
    }
}

/// The binding is to be deleted. What was decided first about the same one stands.
fn evict(eviction: &Eviction<'_>, target: &Binding<'_>, allowed: &Executed) -> EvictionOutcome {
    let first = eviction.status.target.as_ref().filter(|first| first.uid == target.uid);
    EvictionOutcome::Evict(first.cloned().unwrap_or_else(|| EvictionTarget {
        name: target.name.to_owned(),
        uid: target.uid.to_owned(),
        message: allowed.message(),
    }))
}

/// Blocked is the end, unless its user chose to wait and the time is not over.
fn wait_or_block(
    eviction: &Eviction<'_>,
    blocked: Executed,
    target: &Binding<'_>,
    period: SignedDuration,
    now: Timestamp,
) -> EvictionOutcome {
    let until = eviction.waits_until().filter(|until| now < *until);
    let Some(until) = until else {
        return EvictionOutcome::Blocked(blocked);
    };
    // A binding that fails meanwhile needs no budget any more.
    let fails_at = failed::fails_at(target, period).filter(|at| now < *at);
    EvictionOutcome::Waiting {
        blocked,
        until,
        look_again: fails_at.map_or(until, |at| at.min(until)),
    }
}

/// An instant so much later; never is late enough where that cannot be told.
fn later(instant: Timestamp, span: SignedDuration) -> Timestamp {
    instant.saturating_add(span).unwrap_or(Timestamp::MAX)
}
