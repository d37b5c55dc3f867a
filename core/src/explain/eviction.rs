//! Why an eviction is not carried out.

use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{ClusterResourcePlacementEviction, DisruptionBudgetSpec, PlacementType};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::chain::{Cause, Chain, Step, Verdict};
use super::fleet::Fleet;
use super::names::{Names, few};
use super::reasons;

/// Explains an eviction.
pub fn eviction(fleet: &Fleet<'_>, name: &str) -> Chain {
    let mut chain = Chain::new(format!("crpe/{name}"));
    let found = fleet
        .evictions
        .iter()
        .find(|found| found.metadata.name.as_deref() == Some(name));
    let Some(found) = found else {
        let text = format!("there is no eviction {name}");
        chain.push(Step::failed("Found", Cause::new(text, "kubectl get crpe")));
        return chain;
    };
    let names = Names {
        placement: &found.spec.placement_name,
        cluster: &found.spec.cluster_name,
        ..Names::default()
    };
    chain.push(Step::done("Found", "").since(found.metadata.creation_timestamp.as_ref()));
    chain.push(valid(found, &names));
    chain.push(executed(fleet, found, &names));
    if let Some(text) = blocks_everything(fleet, &names)
        && chain.verdict() == Verdict::Done
    {
        chain.note(text, names.fill("kubectl edit crpdb {name}"));
    }
    chain
}

fn valid(eviction: &ClusterResourcePlacementEviction, names: &Names<'_>) -> Step {
    let list = eviction
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let Some(condition) = conditions::find(list, Valid::TYPE) else {
        return Step::waiting(
            Valid::TYPE,
            Cause::new(
                "the hub agent has not looked at the eviction yet",
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        );
    };
    if Status::of(condition) == Status::True {
        return reasons::step(Valid::TYPE, condition, names);
    }
    let says = |word: &str| condition.message.contains(word);
    let (text, next) = if says("PickFixed") {
        (
            "{placement} names its clusters, so nothing can be evicted: take {cluster} out of clusterNames",
            "kubectl edit {placement}",
        )
    } else if says("deleting") {
        ("{placement} is being deleted anyway", "kubectl fleet why {placement}")
    } else if says("Failed to find ClusterResourcePlacement") {
        ("there is no {placement}", "kubectl get crp")
    } else if says("more than one") {
        (
            "two bindings of {placement} are on {cluster}: wait until one is gone",
            "kubectl get {crb} -l kubernetes-fleet.io/parent-CRP={name}",
        )
    } else {
        (
            "{placement} is not on {cluster}",
            "kubectl fleet why {placement} {cluster}",
        )
    };
    Step::failed(Valid::TYPE, Cause::new(names.fill(text), names.fill(next)))
        .since(Some(&condition.last_transition_time))
}

fn executed(fleet: &Fleet<'_>, eviction: &ClusterResourcePlacementEviction, names: &Names<'_>) -> Step {
    let list = eviction
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let Some(condition) = conditions::find(list, Executed::TYPE) else {
        return Step::waiting(
            Executed::TYPE,
            Cause::new(
                names.fill("the eviction waits: for its budget, or for {cluster} to be cleaned up"),
                names.fill("kubectl get crpdb {name} -o yaml"),
            ),
        );
    };
    if Status::of(condition) == Status::True {
        return Step::done(Executed::TYPE, condition.message.clone()).since(Some(&condition.last_transition_time));
    }
    let cause = if condition.message.contains("has not propagated resources") {
        Cause::new(
            names.fill("{placement} has put nothing on {cluster} yet"),
            names.fill("kubectl fleet why {placement} {cluster}"),
        )
    } else if let Some(text) = blocks_everything(fleet, names) {
        Cause::new(text, names.fill("kubectl edit crpdb {name}"))
    } else {
        let counts = condition
            .message
            .split_once("availablePlacements: ")
            .map_or("", |(_, counts)| counts);
        let counts = counts.replace(", totalPlacements: ", " of ");
        Cause::new(
            names.fill(&format!(
                "the budget of {{placement}} needs more available clusters ({counts} are available); blocked is final: \
                 repair clusters, then evict again{}",
                unavailable(fleet, names)
            )),
            names.fill("kubectl fleet drain {cluster}"),
        )
    };
    Step::failed(Executed::TYPE, cause.holding(names.fill("draining {cluster}")))
        .since(Some(&condition.last_transition_time))
}

/// Clusters of the placement that are not available, of those whose bindings are known.
fn unavailable(fleet: &Fleet<'_>, names: &Names<'_>) -> String {
    let not: Vec<&str> = fleet
        .bindings_of(names.placement)
        .filter(|binding| binding.fresh("Available").is_none_or(|c| Status::of(c) != Status::True))
        .map(|binding| binding.spec.target_cluster.as_str())
        .collect();
    if not.is_empty() {
        String::new()
    } else {
        format!("; not available: {}", few(not))
    }
}

/// Whether the budget of the placement lets nothing go, however well its clusters are.
fn blocks_everything(fleet: &Fleet<'_>, names: &Names<'_>) -> Option<String> {
    let of = |budget: &&&fleet_api::placement::ClusterResourcePlacementDisruptionBudget| {
        budget.metadata.name.as_deref() == Some(names.placement)
    };
    let budget = fleet.budgets.iter().find(of)?;
    let placement = fleet.placement(names.placement);
    let policy = placement.and_then(|placement| placement.spec.policy.as_ref());
    let wanted = match policy.map(|policy| policy.placement_type) {
        Some(PlacementType::PickN) => policy.and_then(|policy| policy.number_of_clusters),
        _ => None,
    };
    never(&budget.spec, wanted)
        .map(|why| format!("the disruption budget of {} blocks everything: {why}", names.placement))
}

/// Why a budget lets nothing go. `wanted` is PickN's number of clusters; PickAll has none to take a share of.
pub fn never(budget: &DisruptionBudgetSpec, wanted: Option<i32>) -> Option<String> {
    let share = |value: &IntOrString| matches!(value, IntOrString::String(_));
    match (&budget.max_unavailable, &budget.min_available, wanted) {
        (Some(_), _, None) => Some("maxUnavailable cannot be used without a number of clusters (PickAll)".into()),
        (Some(IntOrString::Int(0)), ..) => Some("maxUnavailable is 0".into()),
        (Some(IntOrString::String(text)), ..) if text == "0%" => Some("maxUnavailable is 0%".into()),
        (None, Some(min), None) if share(min) => {
            Some("minAvailable cannot be a percentage without a number of clusters (PickAll)".into())
        }
        (None, Some(IntOrString::Int(min)), Some(wanted)) if *min >= wanted => Some(format!(
            "minAvailable is {min}, and {wanted} clusters are wanted in all"
        )),
        (None, Some(IntOrString::String(text)), Some(_)) if text == "100%" => Some("minAvailable is 100%".into()),
        (None, None, _) => Some("it is empty".into()),
        _ => None,
    }
}
