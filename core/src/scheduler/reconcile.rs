//! Picked clusters against the bindings that exist: what is made, what goes on, and what ends.

use std::collections::HashMap;

use fleet_api::annotations;
use fleet_api::names::{self, ClusterName};
use fleet_api::placement::{BindingState, ClusterDecision};

use super::cycle::{Cycle, Selection, unschedule};
use super::plan::{Create, Patch, Problem};
use super::world::Binding;

/// The binding changes that give each of `picks` one binding. Bindings of an earlier policy on other clusters end;
/// bindings of this policy are not touched.
pub(super) fn reconcile(cycle: &Cycle<'_>, picks: Vec<ClusterDecision>) -> Result<Selection, Problem> {
    let classes = &cycle.classes;
    let mut selection = Selection::default();
    let mut picks: Vec<Option<ClusterDecision>> = picks.into_iter().map(Some).collect();
    let by_cluster: HashMap<String, usize> = picks
        .iter()
        .enumerate()
        .filter_map(|(i, pick)| Some((pick.as_ref()?.cluster_name.clone(), i)))
        .collect();

    // One binding per cluster goes on: rather one that is still in force, and of these one that is rolled out.
    let mut heirs: HashMap<&str, (bool, bool, &str)> = HashMap::new();
    for binding in classes.obsolete.iter().chain(&classes.unscheduled) {
        let rank = (
            *binding.state == BindingState::Unscheduled,
            !was_bound(binding),
            binding.name,
        );
        let heir = heirs.entry(binding.cluster).or_insert(rank);
        *heir = rank.min(*heir);
    }
    let mut take = |binding: &Binding<'_>| {
        let heir = heirs
            .get(binding.cluster)
            .is_some_and(|(.., name)| *name == binding.name);
        by_cluster
            .get(binding.cluster)
            .filter(|_| heir)
            .and_then(|i| picks[*i].take())
    };

    for binding in &classes.obsolete {
        match take(binding) {
            Some(decision) => selection.patch.push(patch(binding, binding.state.clone(), decision)),
            None => selection.unschedule.push(unschedule(binding)),
        }
    }
    for binding in &classes.unscheduled {
        if let Some(decision) = take(binding) {
            selection.patch.push(patch(binding, previous_state(binding)?, decision));
        }
    }

    let mut deleting: HashMap<&str, Vec<&str>> = HashMap::new();
    for binding in &classes.deleting {
        deleting.entry(binding.cluster).or_default().push(binding.uid);
    }
    for decision in picks.into_iter().flatten() {
        let cluster = decision.cluster_name.clone();
        let name = ClusterName::new(cluster.as_str()).map_err(|error| Problem::ClusterName {
            cluster: cluster.clone(),
            error,
        })?;
        let deleting = deleting.get(cluster.as_str()).into_iter().flatten().copied();
        let placement = &cycle.world.placement;
        let binding = names::binding(placement.key, placement.uid, &name, deleting);
        selection.create.push(Create {
            binding,
            cluster,
            decision,
        });
    }
    Ok(selection)
}

fn was_bound(binding: &Binding<'_>) -> bool {
    *binding.state == BindingState::Bound || binding.previous_state == Some(BindingState::Bound.as_str())
}

fn patch(binding: &Binding<'_>, state: BindingState, decision: ClusterDecision) -> Patch {
    Patch {
        binding: binding.name.into(),
        cluster: binding.cluster.into(),
        state,
        restored: *binding.state == BindingState::Unscheduled,
        decision,
    }
}

fn previous_state(binding: &Binding<'_>) -> Result<BindingState, Problem> {
    match binding.previous_state.map(BindingState::from) {
        Some(state @ (BindingState::Scheduled | BindingState::Bound)) => Ok(state),
        // Other agents note this when they repeat a write. From `Scheduled` the rollout finds its way in any case.
        Some(BindingState::Unscheduled) => Ok(BindingState::Scheduled),
        _ => Err(Problem::PreviousState {
            binding: binding.name.into(),
            cluster: binding.cluster.into(),
            annotation: annotations::PREVIOUS_BINDING_STATE,
        }),
    }
}
