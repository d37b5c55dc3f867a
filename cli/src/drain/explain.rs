//! Why a placement may not go: the hub's own decision, made here from what the hub has now.

use fleet_api::{
    conditions::eviction::{Executed, Valid},
    labels::PARENT_PLACEMENT,
    placement::{ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget},
};
use fleet_core::eviction::{self, Binding, Budget, Count, Decision, EvictionOutcome, Placement, Taken, World, decide};
use jiff::Timestamp;

use super::report::{DrainOutcome, HeldUp, Unavailable};
use crate::{evictions::Eviction, hub::Hub, problem::Problem};

/// What would become of an eviction of the placement now. `others` are the evictions that there are.
pub(super) async fn decision(
    hub: &Hub,
    placement: &str,
    cluster: &str,
    others: &[Eviction],
    now: Timestamp,
) -> Result<Decision, Problem> {
    let selector = format!("{PARENT_PLACEMENT}={placement}");
    let (found, bindings, budget) = futures::try_join!(
        hub.find::<ClusterResourcePlacement>(placement),
        hub.list(&selector, |_: &ClusterResourceBinding| true),
        hub.find::<ClusterResourcePlacementDisruptionBudget>(placement),
    )?;
    let own = others.iter().filter(|other| other.spec.placement_name == placement);
    let taken = Taken::by(own.filter_map(|other| other.status.as_ref()));
    let views = bindings.items.iter();
    let views: Vec<_> = views
        .map(|it| Binding::of(&it.metadata, &it.spec, it.status.as_ref(), &taken))
        .collect();
    let world = World {
        placement: found.as_ref().map(|it| Placement::of(&it.metadata, &it.spec)),
        bindings: &views,
        budget: budget
            .as_ref()
            .map_or(Budget::None, |budget| Budget::Limit(&budget.spec)),
    };
    Ok(decide(&eviction::Eviction::asking(placement, cluster), &world, now))
}

/// What a decision would make of the placement.
pub(super) fn would_be(decision: &Decision) -> DrainOutcome {
    match &decision.outcome {
        EvictionOutcome::Evict(_) => DrainOutcome::WouldBeEvicted,
        EvictionOutcome::Executed { .. } => DrainOutcome::Removing,
        EvictionOutcome::Invalid(Valid::PlacementMissing | Valid::PlacementDeleting | Valid::BindingMissing) => {
            DrainOutcome::Gone
        }
        EvictionOutcome::Invalid(Valid::PickFixed) => DrainOutcome::Stays,
        EvictionOutcome::Invalid(_)
        | EvictionOutcome::Blocked(_)
        | EvictionOutcome::Waiting { .. }
        | EvictionOutcome::Over
        | EvictionOutcome::NeedsBudget => DrainOutcome::WouldBeBlocked,
    }
}

/// What holds it up.
pub(super) fn held_up(decision: &Decision) -> Option<HeldUp> {
    let other = || {
        Some(HeldUp::Other {
            message: decision.message(),
        })
    };
    match &decision.outcome {
        EvictionOutcome::Evict(_) => None,
        EvictionOutcome::Invalid(Valid::PickFixed) => Some(HeldUp::PickFixed),
        EvictionOutcome::Blocked(Executed::NotPlaced) => Some(HeldUp::NotPlaced),
        EvictionOutcome::Blocked(_) | EvictionOutcome::Waiting { .. } => decision
            .count
            .as_ref()
            .map_or_else(other, |it| Some(counted(it, decision))),
        _ => other(),
    }
}

fn counted(count: &Count, decision: &Decision) -> HeldUp {
    let never = if count.misconfigured {
        "cannot be used with PickAll: set minAvailable to a number".to_owned()
    } else {
        String::new()
    };
    let unavailable = decision.unavailable.iter().map(|it| Unavailable {
        cluster: it.cluster.clone(),
        reason: it.reason.clone(),
    });
    HeldUp::Budget {
        limit: count.limit.clone(),
        never,
        needed: count.needed,
        available: count.available,
        total: count.total,
        unavailable: unavailable.collect(),
    }
}
