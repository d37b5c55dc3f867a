//! What is wrong with a placement's selectors.

use fleet_api::conditions::error_class::ErrorClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::chain::Cause;
use super::names::Names;

const LINES: &[(&str, &str, &str)] = &[
    (
        "no matches for kind",
        "the hub does not know the kind: install its CRD, or correct group, version and kind",
        "kubectl api-resources",
    ),
    (
        "cannot select namespace-scoped resource",
        "a ClusterResourcePlacement cannot select single objects of a namespace: select the namespace, or use a \
         ResourcePlacement",
        "kubectl edit {placement}{n}",
    ),
    (
        "cannot select cluster-scoped resource",
        "a ResourcePlacement cannot select cluster-scoped objects: use a ClusterResourcePlacement",
        "kubectl edit {placement}{n}",
    ),
    (
        "is not allowed to propagate",
        "the namespace belongs to Kubernetes or to the fleet and is never placed",
        "kubectl edit {placement}{n}",
    ),
    (
        "no namespaces were selected",
        "the namespace to select from does not exist, or is being deleted",
        "kubectl get namespaces",
    ),
    (
        "found duplicate resource",
        "two selectors select the same object: remove one",
        "kubectl edit {placement}{n}",
    ),
    (
        "choosing a different namespace",
        "a NamespaceAccessible placement cannot change its namespace: create another placement",
        "kubectl edit {placement}{n}",
    ),
    (
        "doesn't specify a resource selector which selects a namespace",
        "a NamespaceAccessible placement has to select a namespace",
        "kubectl edit {placement}{n}",
    ),
];

/// The cause that an `InvalidResourceSelectors` tells of, with the message that names the selector.
pub(super) fn cause(condition: &Condition, names: &Names<'_>) -> Cause {
    let message = condition.message.strip_prefix("The resource selectors are invalid: ");
    let message = ErrorClass::strip(message.unwrap_or(&condition.message));
    let known = LINES.iter().find(|(words, ..)| message.contains(words));
    let (text, next) = known.map_or(
        ("the resource selectors cannot be used", "kubectl edit {placement}{n}"),
        |(_, text, next)| (*text, *next),
    );
    Cause::new(format!("{text} ({message})"), names.fill(next)).holding("every change; clusters keep what they have")
}
