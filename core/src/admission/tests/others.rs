use fleet_api::cluster::MemberClusterSpec;
use fleet_api::placement::DisruptionBudgetSpec;

use super::super::eviction::{Placement, budget, eviction};
use super::super::member::{asks_for_exports, deletion};
use super::*;

#[test]
fn an_eviction_needs_a_placement_that_can_lose_a_cluster() {
    let (all, fixed) = (
        spec(&json!({})),
        spec(&with_policy(&json!({"placementType": "PickFixed"}))),
    );
    let of = |spec, deleting| {
        Some(Placement {
            name: "p",
            spec,
            deleting,
        })
    };
    assert_eq!(
        eviction(None),
        Verdict::allowed(
            "Associated clusterResourcePlacement object for clusterResourcePlacementEviction is not found"
        )
    );
    assert_eq!(
        eviction(of(&all, true)),
        Verdict::denied("cluster resource placement p is being deleted")
    );
    assert_eq!(
        eviction(of(&fixed, false)),
        Verdict::denied("cluster resource placement policy type PickFixed is not supported")
    );
    assert_eq!(
        eviction(of(&all, false)),
        Verdict::allowed("clusterResourcePlacementEviction has valid fields")
    );
}

#[test]
fn a_budget_of_all_clusters_is_a_number_that_stay_available() {
    let budgets = |value: Value| -> DisruptionBudgetSpec { serde_json::from_value(value).expect("a spec") };
    let (all, fixed) = (
        spec(&json!({})),
        spec(&with_policy(&json!({"placementType": "PickFixed"}))),
    );
    let of = |spec| {
        Some(Placement {
            name: "p",
            spec,
            deleting: false,
        })
    };
    let most = budgets(json!({"maxUnavailable": 1}));
    let share = budgets(json!({"minAvailable": "50%"}));
    let number = budgets(json!({"minAvailable": 1}));
    let fine = Verdict::allowed("clusterResourcePlacementDisruptionBudget has valid fields");
    let refused =
        "cluster resource placement policy type PickAll is not supported with any specified max unavailable 1";
    assert_eq!(budget(&most, None, of(&all)), Verdict::denied(refused));
    assert_eq!(budget(&most, Some(&number), of(&all)), Verdict::denied(refused));
    assert_eq!(
        budget(&share, None, of(&all)).message(),
        "cluster resource placement policy type PickAll is not supported with min available as a percentage 50%"
    );
    for (new, old, placement) in [
        (&number, None, of(&all)),
        (&most, Some(&most), of(&all)),
        (&most, None, of(&fixed)),
        (&share, None, of(&fixed)),
    ] {
        assert_eq!(budget(new, old, placement), fine);
    }
    assert_eq!(
        budget(&most, None, None),
        Verdict::allowed(
            "Associated clusterResourcePlacement object for clusterResourcePlacementDisruptionBudget is not found"
        )
    );
}

#[test]
fn a_member_leaves_once_it_exports_nothing() {
    let member = |mode: Value| -> MemberClusterSpec {
        serde_json::from_value(json!({"identity": {"kind": "User", "name": "m"}, "deleteOptions": mode}))
            .expect("a spec")
    };
    let (strict, skip) = (member(json!(null)), member(json!({"validationMode": "Skip"})));
    assert_eq!(asks_for_exports(&strict, true), Ok(()));
    assert_eq!(
        asks_for_exports(&strict, false),
        Err(Verdict::allowed(
            "Networking agents disabled; skipping ServiceExport validation"
        ))
    );
    assert_eq!(
        asks_for_exports(&skip, true),
        Err(Verdict::allowed(
            "Skipping validation for member cluster DELETE when the validation mode is set to skip"
        ))
    );
    assert_eq!(deletion([]), Verdict::allowed("Member cluster is ready to leave"));
    assert_eq!(
        deletion(["app/web", "app/db"]),
        Verdict::denied("Please delete serviceExport app/web in the member cluster before leaving, request is denied")
    );
}
