//! Evictions and disruption budgets. Both are judged again when an eviction is carried out.

use fleet_api::placement::{DisruptionBudgetSpec, PlacementSpec, PlacementType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{Verdict, show};

/// The ClusterResourcePlacement that an eviction or a budget is about.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// Its name.
    pub name: &'a str,
    /// What is wanted of it.
    pub spec: &'a PlacementSpec,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// Judges an eviction that is to be created. One of a placement that is not there passes: it is said in its status.
pub fn eviction(placement: Option<Placement<'_>>) -> Verdict {
    let Some(Placement { name, spec, deleting }) = placement else {
        return Verdict::allowed(
            "Associated clusterResourcePlacement object for clusterResourcePlacementEviction is not found",
        );
    };
    if deleting {
        return Verdict::Denied(format!("cluster resource placement {name} is being deleted"));
    }
    if spec.placement_type() == PlacementType::PickFixed {
        return Verdict::denied("cluster resource placement policy type PickFixed is not supported");
    }
    Verdict::allowed("clusterResourcePlacementEviction has valid fields")
}

/// Judges a budget that is to be created, or changed from `old`. One may well be there before its placement.
pub fn budget(
    new: &DisruptionBudgetSpec,
    old: Option<&DisruptionBudgetSpec>,
    placement: Option<Placement<'_>>,
) -> Verdict {
    const PICK_ALL: &str = "cluster resource placement policy type PickAll is not supported with";
    let Some(placement) = placement else {
        return Verdict::allowed(
            "Associated clusterResourcePlacement object for clusterResourcePlacementDisruptionBudget is not found",
        );
    };
    if placement.spec.placement_type() == PlacementType::PickAll {
        let (most, least) = (&new.max_unavailable, &new.min_available);
        if let Some(most) = most
            .as_ref()
            .filter(|_| old.is_none_or(|old| old.max_unavailable != *most))
        {
            let shown = show::amount(most);
            return Verdict::Denied(format!("{PICK_ALL} any specified max unavailable {shown}"));
        }
        if let Some(IntOrString::String(share)) = least
            .as_ref()
            .filter(|_| old.is_none_or(|old| old.min_available != *least))
        {
            return Verdict::Denied(format!("{PICK_ALL} min available as a percentage {share}"));
        }
    }
    Verdict::allowed("clusterResourcePlacementDisruptionBudget has valid fields")
}
