//! Overrides of both kinds: what they select, on which clusters, and what they change there.

use fleet_api::placement::{
    ClusterResourceOverrideSpec, JsonPatchOp, OverridePolicy, OverrideRule, OverrideType, ResourceOverrideSpec,
    SelectionScope,
};

use super::affinity::bad_labels;
use super::paths::path;
use super::{Errors, Verdict, show};

/// How many overrides there may be: in the fleet of those for cluster-scoped objects, in a namespace of the others.
pub const MAX: usize = 100;

/// What an override selects, in a form that two overrides can be compared by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selected {
    group: String,
    version: String,
    kind: String,
    name: String,
    scope: Option<SelectionScope>,
    namespace: String,
}

/// What is known of the other overrides of the same kind, in the same namespace.
pub struct Others<'a> {
    /// How many there are.
    pub count: usize,
    /// Which of them, but for the one that is judged, selects the same.
    pub selecting: &'a dyn Fn(&Selected) -> Option<String>,
}

/// What a ClusterResourceOverride selects.
pub fn selected_cluster_wide(spec: &ClusterResourceOverrideSpec) -> Vec<Selected> {
    let one = |s: &fleet_api::placement::ResourceSelector| Selected {
        group: s.group.clone(),
        version: s.version.clone(),
        kind: s.kind.clone(),
        name: s.name.clone(),
        scope: Some(s.selection_scope),
        namespace: String::new(),
    };
    spec.cluster_resource_selectors.iter().map(one).collect()
}

/// What a ResourceOverride in this namespace selects.
pub fn selected_in(namespace: &str, spec: &ResourceOverrideSpec) -> Vec<Selected> {
    let one = |s: &fleet_api::placement::ResourceOverrideSelector| Selected {
        group: s.group.clone(),
        version: s.version.clone(),
        kind: s.kind.clone(),
        name: s.name.clone(),
        scope: None,
        namespace: namespace.to_owned(),
    };
    spec.resource_selectors.iter().map(one).collect()
}

/// Judges a ClusterResourceOverride that is to be created, or changed from `old`.
pub fn cluster_wide(
    name: &str,
    new: &ClusterResourceOverrideSpec,
    old: Option<&ClusterResourceOverrideSpec>,
    others: &Others<'_>,
) -> Verdict {
    if old.is_none() && others.count >= MAX {
        return Verdict::Denied(format!(
            "clusterResourceOverride limit has been reached: at most {MAX} cluster resources can be created."
        ));
    }
    let errors = of_selectors(new).beyond(&old.map(of_selectors).unwrap_or_default());
    let shown = new.cluster_resource_selectors.iter().map(show::selector);
    let selected = selected_cluster_wide(new).into_iter().zip(shown).collect::<Vec<_>>();
    let before = old.map(|old| (selected_cluster_wide(old), &old.policy));
    finish(
        "clusterResourceOverride",
        name,
        &errors,
        &selected,
        &new.policy,
        before,
        others,
    )
}

/// Judges a ResourceOverride that is to be created, or changed from `old`.
pub fn namespaced(
    (namespace, name): (&str, &str),
    new: &ResourceOverrideSpec,
    old: Option<&ResourceOverrideSpec>,
    others: &Others<'_>,
) -> Verdict {
    if old.is_none() && others.count >= MAX {
        return Verdict::Denied(format!(
            "resourceOverride limit has been reached: at most {MAX} resources can be created."
        ));
    }
    let errors = of_named_selectors(new).beyond(&old.map(of_named_selectors).unwrap_or_default());
    let shown = new.resource_selectors.iter().map(show::override_selector);
    let selected = selected_in(namespace, new).into_iter().zip(shown).collect::<Vec<_>>();
    let before = old.map(|old| (selected_in(namespace, old), &old.policy));
    finish(
        "resourceOverride",
        name,
        &errors,
        &selected,
        &new.policy,
        before,
        others,
    )
}

/// What is wrong with the selectors, each for itself.
fn of_selectors(spec: &ClusterResourceOverrideSpec) -> Errors {
    let all = &spec.cluster_resource_selectors;
    let mut errors = Errors::none();
    for (i, selector) in all.iter().enumerate() {
        let shown = show::selector(selector);
        if selector.label_selector.is_some() {
            errors.push(format!(
                "label selector is not supported for resource selection {shown}"
            ));
        } else if selector.name.is_empty() {
            errors.push(format!("resource name is required for resource selection {shown}"));
        } else if all[..i].contains(selector) {
            errors.push(already_there(&shown));
        }
    }
    errors
}

/// The same for selectors that always have a name.
fn of_named_selectors(spec: &ResourceOverrideSpec) -> Errors {
    let all = &spec.resource_selectors;
    let twice = all
        .iter()
        .enumerate()
        .filter(|(i, selector)| all[..*i].contains(selector));
    twice
        .map(|(_, selector)| already_there(&show::override_selector(selector)))
        .collect()
}

fn already_there(shown: &str) -> String {
    format!("resource selector {shown} already exists, and must be unique")
}

/// What both kinds have in common, once the selectors are judged each for itself.
fn finish(
    kind: &str,
    name: &str,
    of_selectors: &Errors,
    selected: &[(Selected, String)],
    new: &OverridePolicy,
    before: Option<(Vec<Selected>, &OverridePolicy)>,
    others: &Others<'_>,
) -> Verdict {
    if !of_selectors.is_empty() {
        return Verdict::Denied(of_selectors.to_string());
    }
    let mut errors = Errors::none();
    let (known, old) = before.unzip();
    let known = known.unwrap_or_default();
    for (selected, shown) in selected.iter().filter(|(selected, _)| !known.contains(selected)) {
        if let Some(other) = (others.selecting)(selected) {
            errors.push(format!(
                "invalid resource selector {shown}: the resource has been selected by both {name} and {other}, which is \
                 not supported"
            ));
        }
    }
    errors.append(policy(new).beyond(&old.map(policy).unwrap_or_default()));
    if errors.is_empty() {
        return Verdict::Allowed(format!("{kind} has valid fields"));
    }
    Verdict::Denied(errors.to_string())
}

/// What is wrong with the rules of an override.
pub fn policy(policy: &OverridePolicy) -> Errors {
    let mut errors = Errors::none();
    for rule in &policy.override_rules {
        if rule.override_type == OverrideType::Delete && !rule.json_patch_overrides.is_empty() {
            // Alone, whatever else there is.
            return Errors::from_iter([
                "invalid JSONPatchOverrides: JSONPatchOverrides cannot be set when the override type is Delete"
                    .to_owned(),
            ]);
        }
        errors.append(clusters(rule));
        errors.append(patches(rule));
    }
    errors
}

fn clusters(rule: &OverrideRule) -> Errors {
    let mut errors = Errors::none();
    for term in rule
        .cluster_selector
        .iter()
        .flat_map(|selector| &selector.cluster_selector_terms)
    {
        let shown = show::term(term);
        if term.property_selector.is_some() || term.property_sorter.is_some() {
            errors.push(format!(
                "invalid clusterSelector {shown}: only labelSelector is supported"
            ));
        }
        if term.label_selector.is_none() {
            errors.push(format!("invalid clusterSelector {shown}: labelSelector is required"));
        }
        errors.extend(bad_labels(term, "cluster selector"));
    }
    errors
}

fn patches(rule: &OverrideRule) -> Errors {
    let mut errors = Errors::none();
    if rule.override_type == OverrideType::JsonPatch && rule.json_patch_overrides.is_empty() {
        errors.push("invalid JSONPatchOverrides: JSONPatchOverrides cannot be empty");
    }
    for patch in &rule.json_patch_overrides {
        let mut wrong = |why: &str| errors.push(format!("invalid JSONPatchOverride {}: {why}", show::patch(patch)));
        if let Err(why) = path(&patch.path) {
            wrong(why);
        }
        if patch.op == JsonPatchOp::Remove && patch.value.is_some() {
            wrong("remove operation cannot have value");
        }
    }
    errors
}
