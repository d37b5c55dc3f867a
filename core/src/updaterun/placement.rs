//! What the placement must be like, at initialization and for as long as the run lasts: there, External, with a policy that
//! can be read.

use std::collections::BTreeSet;

use fleet_api::annotations::NUMBER_OF_CLUSTERS;
use fleet_api::conditions::update_run::Abort;
use fleet_api::placement::{ApplyStrategy, PlacementType, RolloutStrategyType};

use super::number;
use super::world::{Placement, PolicySnapshot, Run};
use crate::rollout;

/// The count of a placement that takes every cluster that is fit.
pub(super) const ALL: i64 = -1;

/// The apply strategy of a placement that a run may act on, defaults filled in.
pub(super) fn apply_strategy(placement: Option<Placement<'_>>) -> Result<ApplyStrategy, Abort> {
    let placement = placement
        .filter(|placement| !placement.deleting)
        .ok_or(Abort::PlacementNotFound)?;
    let type_ = placement.spec.rollout_type();
    if type_ != RolloutStrategyType::External {
        return Err(Abort::NotExternal {
            strategy: type_.as_str().to_owned(),
        });
    }
    let strategy = placement.spec.strategy.as_ref();
    Ok(rollout::apply_strategy(
        strategy.and_then(|strategy| strategy.apply_strategy.as_ref()),
    ))
}

/// The one policy snapshot that counts, with an index.
pub(super) fn latest_policy<'a>(
    run: &Run<'_>,
    policies: &'a [PolicySnapshot<'a>],
) -> Result<&'a PolicySnapshot<'a>, Abort> {
    let key = || run.key(&run.spec.placement_name);
    let latest: Vec<_> = policies.iter().filter(|policy| policy.latest).collect();
    match latest[..] {
        [] => Err(Abort::NoPolicySnapshot { key: key() }),
        [policy] if policy.index.is_empty() => Err(Abort::NoPolicyIndex {
            key: run.key(policy.name),
        }),
        [policy] => Ok(policy),
        _ => Err(Abort::SeveralPolicySnapshots {
            key: key(),
            count: latest.len(),
        }),
    }
}

/// How many clusters the policy asks for, or [`ALL`].
pub(super) fn cluster_count(run: &Run<'_>, snapshot: &PolicySnapshot<'_>) -> Result<i64, Abort> {
    let Some(policy) = snapshot.policy else { return Ok(ALL) };
    match policy.placement_type {
        PlacementType::PickAll => Ok(ALL),
        // A name given twice is one cluster.
        PlacementType::PickFixed => {
            let names: BTreeSet<_> = policy.cluster_names.iter().collect();
            Ok(i64::try_from(names.len()).unwrap_or(i64::MAX))
        }
        PlacementType::PickN => read_count(snapshot.number_of_clusters).map_err(|error| Abort::InvalidClusterCount {
            key: run.key(snapshot.name),
            error,
        }),
    }
}

fn read_count(annotation: Option<&str>) -> Result<i64, String> {
    let text = annotation.ok_or_else(|| format!("cannot find annotation {NUMBER_OF_CLUSTERS}"))?;
    let invalid = |why: &str| format!("invalid annotation {NUMBER_OF_CLUSTERS}: {text} is not a valid count: {why}");
    match number::parse(text) {
        Ok(count) if count < 0 => Err(invalid("it is negative")),
        Ok(count) => Ok(count),
        Err(why) => Err(invalid(&format!("strconv.Atoi: parsing {text:?}: {why}"))),
    }
}
