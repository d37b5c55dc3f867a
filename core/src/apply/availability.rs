//! When an applied object is available: one rule per kind, and what its manifest says itself.

use fleet_api::{annotations::AVAILABLE_WHEN, conditions::manifest::Available};
use serde_json::Value;

use super::{
    expression::{self, Answer},
    json::{at, generation, integer, list, text},
};

/// Whether `object`, as the API server returned it, is available. A kind without a rule is not trackable, which counts
/// as available.
///
/// The manifest may say more with an expression in its annotation [`AVAILABLE_WHEN`]: the hub's word counts, not what
/// somebody has made of the annotation on the member. It comes on top of the kind's rule, so that nobody who adds a check
/// loses one, and it is what decides for kinds without a rule.
pub fn availability(group: &str, version: &str, resource: &str, manifest: &Value, object: &Value) -> Available {
    let of_kind = by_kind(group, version, resource, object);
    let Some(expression) = at(manifest, &["metadata", "annotations", AVAILABLE_WHEN]).and_then(Value::as_str) else {
        return of_kind;
    };
    // What a cluster puts into a Secret never leaves it, not even bit by bit.
    let answer = match (group, resource) {
        ("", "secrets") => Answer::Wrong("it is not asked about Secrets".to_owned()),
        _ => expression::judge(expression, object),
    };
    match (answer, of_kind) {
        (Answer::Wrong(why), _) => Available::Failed {
            error: format!("{AVAILABLE_WHEN}: {why}"),
        },
        (_, not_yet @ (Available::NotYet | Available::Failed { .. })) => not_yet,
        (Answer::Holds, Available::Available | Available::NotTrackable) => when(!is_behind(object)),
        (Answer::DoesNot, Available::Available | Available::NotTrackable) => Available::NotYet,
    }
}

/// Whether the status says that it speaks of an older generation: whatever an expression finds in it is no longer true.
fn is_behind(object: &Value) -> bool {
    integer(object, &["status", "observedGeneration"]).is_some_and(|observed| observed < generation(object))
}

fn by_kind(group: &str, version: &str, resource: &str, object: &Value) -> Available {
    let (noun, rule): (&str, Rule) = match (group, version, resource) {
        ("apps", "v1", "deployments") => ("deployment", deployment),
        ("apps", "v1", "statefulsets") => ("stateful set", stateful_set),
        ("apps", "v1", "daemonsets") => ("daemon set", daemon_set),
        ("", "v1", "services") => ("service", service),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions") => ("custom resource definition", definition),
        ("policy", "v1", "poddisruptionbudgets") => ("pod disruption budget", disruption_budget),
        _ if is_data(group, version, resource) => return Available::Available,
        _ => return Available::NotTrackable,
    };
    rule(object).unwrap_or_else(|error| Available::Failed {
        error: format!("failed to convert the unstructured object to a {noun}: {error}"),
    })
}

/// An error is a field of a type that the kind does not have.
type Rule = fn(&Value) -> Result<Available, String>;

/// Kinds that are available as soon as they exist.
fn is_data(group: &str, version: &str, resource: &str) -> bool {
    let resources: &[&str] = match (group, version) {
        ("", "v1") => &[
            "namespaces",
            "secrets",
            "configmaps",
            "serviceaccounts",
            "limitranges",
            "resourcequotas",
        ],
        ("rbac.authorization.k8s.io", "v1") => &["roles", "clusterroles", "rolebindings", "clusterrolebindings"],
        ("networking.k8s.io", "v1") => &["networkpolicies", "ingressclasses"],
        ("storage.k8s.io", "v1") => &["csidrivers", "csinodes", "storageclasses", "csistoragecapacities"],
        ("apps", "v1") => &["controllerrevisions"],
        ("scheduling.k8s.io", "v1") => &["priorityclasses"],
        _ => &[],
    };
    resources.contains(&resource)
}

fn when(available: bool) -> Available {
    if available {
        Available::Available
    } else {
        Available::NotYet
    }
}

/// A number that counts from 0 when absent; a value of another type means that this is not the object it says it is.
fn count(object: &Value, path: &[&str]) -> Result<i64, String> {
    count_or(object, path, 0)
}

fn count_or(object: &Value, path: &[&str], default: i64) -> Result<i64, String> {
    match at(object, path) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_i64()
            .ok_or_else(|| format!("{} is not an integer", path.join("."))),
    }
}

fn is_observed(object: &Value) -> Result<bool, String> {
    Ok(count(object, &["status", "observedGeneration"])? == generation(object))
}

fn deployment(object: &Value) -> Result<Available, String> {
    let status = |name| count(object, &["status", name]);
    let required = count_or(object, &["spec", "replicas"], 1)?;
    Ok(when(
        is_observed(object)?
            && status("availableReplicas")? == required
            && status("updatedReplicas")? == required
            && status("unavailableReplicas")? == 0,
    ))
}

fn stateful_set(object: &Value) -> Result<Available, String> {
    let status = |name| count(object, &["status", name]);
    let revision = |name| text(object, &["status", name]);
    Ok(when(
        is_observed(object)?
            && status("availableReplicas")? == count_or(object, &["spec", "replicas"], 1)?
            && status("currentReplicas")? == status("updatedReplicas")?
            && revision("currentRevision") == revision("updateRevision"),
    ))
}

fn daemon_set(object: &Value) -> Result<Available, String> {
    let status = |name| count(object, &["status", name]);
    Ok(when(
        is_observed(object)?
            && status("numberAvailable")? == status("desiredNumberScheduled")?
            && status("currentNumberScheduled")? == status("updatedNumberScheduled")?,
    ))
}

#[allow(clippy::unnecessary_wraps, reason = "all rules have one shape")]
fn service(object: &Value) -> Result<Available, String> {
    let first = |path: &[&str]| list(object, path).first();
    Ok(match text(object, &["spec", "type"]) {
        // `None` of a headless service counts.
        "" | "ClusterIP" | "NodePort" => when(
            first(&["spec", "clusterIPs"])
                .and_then(Value::as_str)
                .is_some_and(|ip| !ip.is_empty()),
        ),
        "LoadBalancer" => when(
            first(&["status", "loadBalancer", "ingress"])
                .is_some_and(|ingress| !text(ingress, &["ip"]).is_empty() || !text(ingress, &["hostname"]).is_empty()),
        ),
        _ => Available::NotTrackable,
    })
}

fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    list(object, &["status", "conditions"])
        .iter()
        .find(|condition| text(condition, &["type"]) == name)
}

#[allow(clippy::unnecessary_wraps, reason = "all rules have one shape")]
fn definition(object: &Value) -> Result<Available, String> {
    let holds = |name| condition(object, name).is_some_and(|condition| text(condition, &["status"]) == "True");
    Ok(when(holds("Established") && holds("NamesAccepted")))
}

fn disruption_budget(object: &Value) -> Result<Available, String> {
    let Some(condition) = condition(object, "DisruptionAllowed") else {
        return Ok(Available::NotYet);
    };
    let says = (text(condition, &["status"]), text(condition, &["reason"]));
    let allowed = count(object, &["status", "disruptionsAllowed"])? > 0;
    let expected = if allowed {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    // The condition's own generation is what the disruption controller has looked at.
    let observed = count(condition, &["observedGeneration"])? == generation(object);
    Ok(when(observed && says == expected))
}

#[cfg(test)]
mod tests;
