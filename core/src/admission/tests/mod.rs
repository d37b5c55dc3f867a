//! One row per text, in the chapter's order; beside them what holds for all.

mod laws;
mod others;
mod overrides;
mod placement;
mod policy;

use fleet_api::placement::{PlacementScope, PlacementSpec};
use serde_json::{Value, json};

use super::placement::{Kinds, Known};
use super::{Verdict, placement as rules};
use crate::selection::apis::Apis;

/// A hub with ConfigMaps, Namespaces, ClusterRoles and MemberClusters.
fn kind(group: &str, version: &str, kind: &str) -> Known {
    match (group, version, kind) {
        ("", "v1", "ConfigMap") => Known::Namespaced,
        ("", "v1", "Namespace")
        | ("rbac.authorization.k8s.io", "v1", "ClusterRole")
        | ("cluster.kubernetes-fleet.io", "v1beta1", "MemberCluster") => Known::ClusterScoped,
        ("starting", ..) => Known::NotYet,
        _ => Known::No,
    }
}

fn spec(value: &Value) -> PlacementSpec {
    serde_json::from_value(value.clone()).expect("a spec")
}

fn roles() -> Value {
    json!({"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "r"})
}

fn judged(scope: PlacementScope, name: &str, new: &Value, old: Option<&Value>) -> Verdict {
    let apis = Apis::default();
    let context = Kinds {
        kind: &kind,
        apis: &apis,
    };
    rules::judge(scope, name, &spec(new), old.map(spec).as_ref(), &context)
}

fn created(new: &Value) -> Verdict {
    judged(PlacementScope::Cluster, "p", new, None)
}

fn changed(old: &Value, new: &Value) -> Verdict {
    judged(PlacementScope::Cluster, "p", new, Some(old))
}

/// A placement of ClusterRoles with this policy.
fn with_policy(policy: &Value) -> Value {
    json!({"resourceSelectors": [roles()], "policy": policy})
}

fn with_strategy(strategy: &Value) -> Value {
    json!({"resourceSelectors": [roles()], "strategy": strategy})
}

/// What is wrong with a policy, without what stands before it.
fn policy_errors(policy: &Value) -> String {
    const BEFORE: &str = "deny create/update v1beta1 CRP has invalid fields the placement policy field is invalid: ";
    let verdict = created(&with_policy(policy));
    let text = verdict.message().strip_prefix(BEFORE).unwrap_or_default();
    text.to_owned()
}
