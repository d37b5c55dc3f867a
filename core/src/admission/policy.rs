//! Where things are placed.

use fleet_api::names::LABEL_MAX;
use fleet_api::placement::{PlacementPolicy, PlacementType, Toleration, TolerationOperator};

use super::{Errors, affinity, show};
use crate::membership::validate::label_value;
use crate::names::{dns_subdomain, qualified_name};

/// What is wrong with a policy.
pub fn policy(policy: &PlacementPolicy) -> Errors {
    match policy.placement_type {
        PlacementType::PickFixed => pick_fixed(policy),
        PlacementType::PickAll => pick_all(policy),
        PlacementType::PickN => pick_n(policy),
    }
}

fn pick_fixed(policy: &PlacementPolicy) -> Errors {
    let mut errors = Errors::none();
    for name in &policy.cluster_names {
        let why = dns_subdomain(name);
        if !why.is_empty() {
            errors.push(format!(
                "PickFixed cluster name {name} is not a valid member name: {}",
                why.join("; ")
            ));
        }
        if name.len() > LABEL_MAX {
            errors.push(format!(
                "PickFixed cluster name {name} cannot have length exceeding {LABEL_MAX}"
            ));
        }
    }
    let mut names = policy.cluster_names.iter().enumerate();
    if names.any(|(i, name)| policy.cluster_names[..i].contains(name)) {
        errors.push("cluster names must be unique for policy type PickFixed");
    }
    if policy.number_of_clusters.is_some() {
        errors.push(
            "number of clusters must be nil for policy type PickFixed, only valid for PickN placement policy type",
        );
    }
    if policy.affinity.is_some() {
        errors.push(
            "affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types",
        );
    }
    if !policy.topology_spread_constraints.is_empty() {
        errors.push(
            "topology spread constraints needs to be empty for policy type PickFixed, only valid for PickN policy type",
        );
    }
    if !policy.tolerations.is_empty() {
        errors.push("tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN");
    }
    errors
}

fn pick_all(policy: &PlacementPolicy) -> Errors {
    let mut errors = Errors::none();
    if !policy.cluster_names.is_empty() {
        errors.push("cluster names needs to be empty for policy type PickAll, only valid for PickFixed policy type");
    }
    if policy.number_of_clusters.is_some() {
        errors
            .push("number of clusters must be nil for policy type PickAll, only valid for PickN placement policy type");
    }
    errors.append(common(policy));
    if !policy.topology_spread_constraints.is_empty() {
        errors.push(
            "topology spread constraints needs to be empty for policy type PickAll, only valid for PickN policy type",
        );
    }
    errors
}

fn pick_n(policy: &PlacementPolicy) -> Errors {
    let mut errors = Errors::none();
    if !policy.cluster_names.is_empty() {
        errors.push("cluster names needs to be empty for policy type PickN, only valid for PickFixed policy type");
    }
    match policy.number_of_clusters {
        None => errors.push("number of cluster cannot be nil for policy type PickN"),
        Some(n) if n < 0 => errors.push(format!("number of clusters cannot be {n} for policy type PickN")),
        Some(_) => {}
    }
    errors.append(common(policy));
    errors
}

/// What PickAll and PickN have in common.
fn common(policy: &PlacementPolicy) -> Errors {
    let mut errors = Errors::none();
    if let Some(affinity) = &policy.affinity {
        errors.append(affinity::affinity(affinity, policy.placement_type));
    }
    errors.append(tolerations(&policy.tolerations));
    errors
}

fn tolerations(all: &[Toleration]) -> Errors {
    let mut errors = Errors::none();
    for (i, toleration) in all.iter().enumerate() {
        let shown = show::toleration(toleration);
        if !toleration.key.is_empty() {
            let why = qualified_name(&toleration.key).into_iter();
            errors.extend(why.map(|why| format!("invalid toleration key {shown}: {why}")));
        }
        match toleration.operator {
            TolerationOperator::Exists if !toleration.value.is_empty() => errors.push(format!(
                "invalid toleration {shown}: toleration value needs to be empty, when operator is Exists"
            )),
            TolerationOperator::Exists => {}
            TolerationOperator::Equal => {
                if toleration.key.is_empty() {
                    errors.push(format!(
                        "invalid toleration {shown}: toleration key cannot be empty, when operator is Equal"
                    ));
                }
                let why = label_value(&toleration.value).into_iter();
                errors.extend(why.map(|why| format!("invalid toleration value {shown}: {why}")));
            }
        }
        if all[..i].contains(toleration) {
            errors.push(format!("toleration {shown} already exists, tolerations must be unique"));
        }
    }
    errors
}
