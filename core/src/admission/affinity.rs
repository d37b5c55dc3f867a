//! Which clusters a policy requires and prefers.

use fleet_api::placement::{Affinity, ClusterSelectorTerm, PlacementType, PreferredClusterSelector};

use super::{Errors, properties, show};
use crate::scheduler::Selector;

/// What is wrong with the affinity of a policy of this type.
pub fn affinity(affinity: &Affinity, type_: PlacementType) -> Errors {
    let mut errors = Errors::none();
    let Some(clusters) = &affinity.cluster_affinity else {
        return errors;
    };
    let required = clusters.required_during_scheduling_ignored_during_execution.iter();
    for term in required.flat_map(|required| &required.cluster_selector_terms) {
        errors.append(required_term(term));
    }
    let preferred = &clusters.preferred_during_scheduling_ignored_during_execution;
    if type_ == PlacementType::PickAll && !preferred.is_empty() {
        errors
            .push("PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll");
        return errors;
    }
    for PreferredClusterSelector { preference, .. } in preferred {
        errors.append(preferred_term(preference));
    }
    errors
}

fn required_term(term: &ClusterSelectorTerm) -> Errors {
    let mut errors = Errors::none();
    errors.extend(bad_labels(term, "cluster selector"));
    if term.property_sorter.is_some() {
        errors.push("PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity");
    }
    if let Some(selector) = &term.property_selector {
        errors.append(properties::selector(selector));
    }
    errors
}

fn preferred_term(term: &ClusterSelectorTerm) -> Errors {
    let mut errors = Errors::none();
    errors.extend(bad_labels(term, "preferred cluster selector"));
    if term.property_selector.is_some() {
        errors.push("PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity");
    }
    errors.extend(
        term.property_sorter
            .as_ref()
            .and_then(|sorter| properties::bad_name(&sorter.name)),
    );
    errors
}

/// What is wrong with the labels that a term selects by; `of` says which kind of term it is.
pub(super) fn bad_labels(term: &ClusterSelectorTerm, of: &str) -> Option<String> {
    let labels = term.label_selector.as_ref()?;
    let why = Selector::new(labels).err()?;
    Some(format!(
        "the labelSelector in {of} {} is invalid: {why}",
        show::labels(labels)
    ))
}
