//! Placements of both kinds.

use fleet_api::names::LABEL_MAX;
use fleet_api::placement::{PlacementScope, PlacementSpec, ResourceSelector, SelectionScope};

use super::{Errors, Verdict, gvk, policy, show, strategy};
use crate::scheduler::Selector;
use crate::selection::apis::Apis;

/// What the hub's API says about a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// Nobody knows yet what the hub serves.
    NotYet,
    /// The hub does not serve it.
    No,
    /// It has no namespaces.
    ClusterScoped,
    /// It has namespaces.
    Namespaced,
}

/// What is known beside the placement itself.
pub struct Kinds<'a> {
    /// Group, version and kind, to what the hub says about it.
    pub kind: &'a dyn Fn(&str, &str, &str) -> Known,
    /// Which kinds can be placed.
    pub apis: &'a Apis,
}

/// The kind as denials name it.
fn short(scope: PlacementScope) -> &'static str {
    match scope {
        PlacementScope::Cluster => "CRP",
        PlacementScope::Namespaced => "RP",
    }
}

/// Judges a placement that is to be created, or changed from `old`.
pub fn judge(
    scope: PlacementScope,
    name: &str,
    new: &PlacementSpec,
    old: Option<&PlacementSpec>,
    context: &Kinds<'_>,
) -> Verdict {
    if let Some(old) = old {
        if old.placement_type() != new.placement_type() {
            return Verdict::denied("placement type is immutable");
        }
        let of = |spec: &PlacementSpec| spec.policy.as_ref().map(|p| p.tolerations.clone()).unwrap_or_default();
        let kept = of(new);
        if of(old).iter().any(|toleration| !kept.contains(toleration)) {
            return Verdict::denied("tolerations have been updated/deleted, only additions to tolerations are allowed");
        }
    }
    let errors = errors(scope, name, new, old, context);
    if errors.is_empty() {
        return Verdict::Allowed(format!("any user is allowed to modify v1beta1 {}", short(scope)));
    }
    Verdict::Denied(format!(
        "deny create/update v1beta1 {} has invalid fields {errors}",
        short(scope)
    ))
}

fn errors(
    scope: PlacementScope,
    name: &str,
    new: &PlacementSpec,
    old: Option<&PlacementSpec>,
    context: &Kinds<'_>,
) -> Errors {
    let mut errors = Errors::none();
    if old.is_none() && name.len() > LABEL_MAX {
        errors.push(format!("the name field cannot have length exceeding {LABEL_MAX}"));
    }
    if !selectors(scope, new, old, context, &mut errors) {
        return errors;
    }
    errors.append(policy_and_strategy(new, old));
    errors
}

/// What is wrong with a placement that is there, but for its selectors and its name, of which its status speaks.
pub fn wrong(spec: &PlacementSpec) -> Errors {
    policy_and_strategy(spec, None)
}

fn policy_and_strategy(new: &PlacementSpec, old: Option<&PlacementSpec>) -> Errors {
    let mut errors = Errors::none();
    let before = old.and_then(|old| old.policy.as_ref());
    if let Some(own) = new.policy.as_ref().filter(|own| Some(*own) != before) {
        let found = policy::policy(own).beyond(&before.map(policy::policy).unwrap_or_default());
        if !found.is_empty() {
            errors.push(format!("the placement policy field is invalid: {found}"));
        }
    }
    let before = old.and_then(|old| old.strategy.as_ref());
    if let Some(own) = new.strategy.as_ref().filter(|own| Some(*own) != before) {
        let found = strategy::strategy(own).beyond(&before.map(strategy::strategy).unwrap_or_default());
        if !found.is_empty() {
            errors.push(format!("the rollout Strategy field  is invalid: {found}"));
        }
    }
    errors
}

/// Whether the rest is to be judged too: of a kind that nobody knows, nothing else is said.
fn selectors(
    scope: PlacementScope,
    new: &PlacementSpec,
    old: Option<&PlacementSpec>,
    context: &Kinds<'_>,
    errors: &mut Errors,
) -> bool {
    let namespaced_allowed = new.resource_selectors.iter().any(takes_from_a_namespace);
    let known = |selector: &ResourceSelector| old.is_some_and(|old| old.resource_selectors.contains(selector));
    for selector in new.resource_selectors.iter().filter(|selector| !known(selector)) {
        if let Some(labels) = &selector.label_selector {
            if !selector.name.is_empty() {
                let shown = show::selector(selector);
                errors.push(format!(
                    "the labelSelector and name fields are mutually exclusive in selector {shown}"
                ));
            }
            if let Err(why) = Selector::new(labels) {
                let shown = show::labels(labels);
                errors.push(format!(
                    "the labelSelector in resource selector {shown} is invalid: {why}"
                ));
            }
        }
        let ResourceSelector {
            group, version, kind, ..
        } = selector;
        let served = (context.kind)(group, version, kind);
        let cluster_scoped = match served {
            Known::No => {
                let version = if group.is_empty() {
                    version.clone()
                } else {
                    format!("{group}/{version}")
                };
                errors.push(format!(
                    "failed to get GVR of the selector: no matches for kind {kind:?} in version {version:?}"
                ));
                return false;
            }
            Known::NotYet => {
                errors.push("cannot perform resource scope check for now, please retry");
                continue;
            }
            Known::ClusterScoped => context.apis.is_enabled(group, version, kind),
            Known::Namespaced => false,
        };
        match scope {
            PlacementScope::Cluster if !cluster_scoped && !namespaced_allowed => errors.push(format!(
                "the resource is not found in schema (please retry) or it is not a cluster scoped resource: {}",
                gvk(group, version, kind)
            )),
            PlacementScope::Namespaced if served == Known::ClusterScoped => errors.push(format!(
                "the resource is not found in schema (please retry) or it is a cluster scoped resource: {}",
                gvk(group, version, kind)
            )),
            PlacementScope::Cluster | PlacementScope::Namespaced => {}
        }
    }
    true
}

fn takes_from_a_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty()
        && selector.version == "v1"
        && selector.kind == "Namespace"
        && selector.selection_scope == SelectionScope::NamespaceWithResourceSelectors
}
