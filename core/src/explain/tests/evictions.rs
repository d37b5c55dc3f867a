//! What keeps evictions from being carried out.

use fleet_api::conditions::Words as _;
use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_api::placement::DisruptionBudgetSpec;
use serde_json::{Value, json};

use super::Subject::Eviction;
use super::world::{condition, policy, stops, web, with};
use super::{assert_rows, row};

fn evict(world: Value, conditions: &Value) -> Value {
    with(
        world,
        "/evictions",
        json!([{
            "metadata": {"name": "evict"}, "spec": {"placementName": "web", "clusterName": "east"},
            "status": {"conditions": conditions},
        }]),
    )
}

fn invalid(valid: &Valid) -> Value {
    evict(
        web(&["east"]),
        &json!([condition("Valid", "False", valid.reason(), &valid.message())]),
    )
}

fn blocked(world: Value, executed: &Executed) -> Value {
    let valid = condition("Valid", "True", Valid::Valid.reason(), "");
    evict(
        world,
        &json!([
            valid,
            condition("Executed", "False", executed.reason(), &executed.message())
        ]),
    )
}

fn budget(world: Value, spec: &Value) -> Value {
    with(world, "/budgets", json!([{"metadata": {"name": "web"}, "spec": spec}]))
}

fn two() -> Value {
    let two = json!({"placementType": "PickN", "numberOfClusters": 2});
    policy(web(&["east", "west"]), &two, &[], true)
}

#[test]
#[allow(clippy::too_many_lines, reason = "one row for each situation")]
fn evictions_that_are_not_carried_out() {
    let over = Executed::OverBudget { available: 1, total: 2 };
    let sick = stops(two(), "Available", "False", "NotAllWorkAreAvailable", "");
    assert_rows(vec![
        row(
            "none",
            json!({}),
            Eviction,
            "Found",
            "there is no eviction evict",
            "kubectl get crpe",
        ),
        row(
            "not looked at",
            evict(web(&["east"]), &json!([])),
            Eviction,
            "Valid",
            "the hub agent has not looked at the eviction yet",
            "kubectl -n fleet-system logs deploy/hub-agent",
        ),
        row(
            "named clusters",
            invalid(&Valid::PickFixed),
            Eviction,
            "Valid",
            "crp/web names its clusters, so nothing can be evicted: take east out of clusterNames",
            "kubectl edit crp/web",
        ),
        row(
            "no placement",
            invalid(&Valid::PlacementMissing),
            Eviction,
            "Valid",
            "there is no crp/web",
            "kubectl get crp",
        ),
        row(
            "a placement that is being deleted",
            invalid(&Valid::PlacementDeleting),
            Eviction,
            "Valid",
            "crp/web is being deleted anyway",
            "kubectl fleet why crp/web",
        ),
        row(
            "two bindings",
            invalid(&Valid::SeveralBindings),
            Eviction,
            "Valid",
            "two bindings of crp/web are on east: wait until one is gone",
            "kubectl get clusterresourcebindings -l kubernetes-fleet.io/parent-CRP=web",
        ),
        row(
            "no binding",
            invalid(&Valid::BindingMissing),
            Eviction,
            "Valid",
            "crp/web is not on east",
            "kubectl fleet why crp/web east",
        ),
        row(
            "a budget that waits",
            evict(two(), &json!([condition("Valid", "True", Valid::Valid.reason(), "")])),
            Eviction,
            "Executed",
            "the eviction waits: for its budget, or for east to be cleaned up",
            "kubectl get crpdb web -o yaml",
        ),
        row(
            "nothing placed",
            blocked(two(), &Executed::NotPlaced),
            Eviction,
            "Executed",
            "crp/web has put nothing on east yet",
            "kubectl fleet why crp/web east",
        ),
        row(
            "an eviction that its budget blocks",
            blocked(budget(sick, &json!({"minAvailable": 1})), &over),
            Eviction,
            "Executed",
            "the budget of crp/web needs more available clusters (1 of 2 are available); blocked is final: repair clusters, \
             then evict again; not available: east",
            "kubectl fleet drain east",
        ),
        row(
            "a budget that blocks everything",
            blocked(budget(two(), &json!({"minAvailable": 2})), &over),
            Eviction,
            "Executed",
            "the disruption budget of web blocks everything: minAvailable is 2, and 2 clusters are wanted in all",
            "kubectl edit crpdb web",
        ),
        row(
            "a budget that PickAll cannot use",
            blocked(
                budget(web(&["east"]), &json!({"maxUnavailable": 1})),
                &Executed::Misconfigured,
            ),
            Eviction,
            "Executed",
            "the disruption budget of web blocks everything: maxUnavailable cannot be used without a number of clusters \
             (PickAll)",
            "kubectl edit crpdb web",
        ),
    ]);
}

#[test]
fn budgets_that_never_allow_anything() {
    for (budget, wanted, never) in [
        (json!({"maxUnavailable": 0}), Some(3), true),
        (json!({"maxUnavailable": "0%"}), Some(3), true),
        (json!({"maxUnavailable": 1}), Some(3), false),
        (json!({"maxUnavailable": 1}), None, true),
        (json!({"minAvailable": 3}), Some(3), true),
        (json!({"minAvailable": "100%"}), Some(3), true),
        (json!({"minAvailable": 2}), Some(3), false),
        (json!({"minAvailable": "50%"}), None, true),
        (json!({"minAvailable": 2}), None, false),
        (json!({}), Some(3), true),
    ] {
        let spec: DisruptionBudgetSpec = serde_json::from_value(budget.clone()).unwrap();
        assert_eq!(
            super::budget_never_allows(&spec, wanted).is_some(),
            never,
            "{budget} of {wanted:?}"
        );
    }
}
