//! PickFixed.

use super::*;

const ONE: &str = "cluster-1-east-prod";
const TWO: &str = "cluster-2-east-prod";
const SICK: &str = "unhealthy-cluster-east-prod";

#[test]
fn each_named_cluster_is_placed_or_explained() {
    let plan = hub(Some(pick_fixed(&["nobody", SICK, ONE, "left-cluster-central-prod"]))).plan();
    assert_eq!(
        decisions(&plan),
        "+1 -unhealthy-cluster-east-prod -left-cluster-central-prod -nobody"
    );
    assert_eq!(plan.create.len(), 1);
    assert_eq!(plan.create[0].decision.cluster_score, None);
    assert_eq!(
        reason(&plan, "1"),
        "Successfully scheduled resources for placement in \"cluster-1-east-prod\": picked by scheduling policy"
    );
    assert_eq!(
        reason(&plan, SICK),
        "Cluster \"unhealthy-cluster-east-prod\" is not eligible for resource placement yet: cluster is not connected to \
         the fleet: unhealthy for a prolonged period of time (last transitioned 10.00 minutes ago)"
    );
    assert_eq!(
        reason(&plan, "left-cluster-central-prod"),
        "Cluster \"left-cluster-central-prod\" is not eligible for resource placement yet: cluster has left the fleet"
    );
    assert_eq!(reason(&plan, "nobody"), "Specified cluster \"nobody\" is not found");
    assert_eq!(condition(&plan), missing(1));
}

#[test]
fn a_named_cluster_is_placed_whatever_its_taints() {
    let mut hub = hub(Some(pick_fixed(&[ONE])));
    *hub.member("-1-") = member(ONE).taint("k", "v");
    assert_eq!(condition(&hub.plan()), found(1));
}

#[test]
fn a_changed_list_adds_keeps_and_removes() {
    let mut hub = hub(Some(pick_fixed(&[ONE, TWO])));
    hub.run();
    hub.roll_out();
    hub.set_policy(pick_fixed(&[TWO, "cluster-3-east-canary"]));
    let plan = hub.run();
    assert_eq!(plan.create.iter().map(|c| short(&c.cluster)).collect::<Vec<_>>(), ["3"]);
    assert_eq!(
        (short(&plan.patch[0].cluster), &plan.patch[0].state),
        ("2", &BindingState::Bound)
    );
    assert_eq!(
        (short(&plan.unschedule[0].cluster), &plan.unschedule[0].previous),
        ("1", &BindingState::Bound)
    );
    assert!(hub.run().is_empty());
}

#[test]
fn a_listed_cluster_that_is_unusable_when_the_list_changes_loses_its_binding_and_gets_it_back() {
    let mut hub = hub(Some(pick_fixed(&[ONE, TWO])));
    hub.run();
    hub.roll_out();
    hub.member("-2-").ineligible = Some(UNHEALTHY);
    assert!(
        !hub.plan().create.iter().any(|_| true),
        "as long as the list is the same it stays"
    );
    assert_eq!(hub.clusters(), [ONE, TWO]);
    hub.set_policy(pick_fixed(&[TWO]));
    hub.run();
    assert!(hub.clusters().is_empty());
    hub.member("-2-").ineligible = None;
    let plan = hub.run();
    assert!(plan.create.is_empty());
    assert_eq!(
        (&plan.patch[0].state, plan.patch[0].restored),
        (&BindingState::Bound, true)
    );
    assert_eq!(condition(&plan), found(1));
}

#[test]
fn a_placed_cluster_that_becomes_unusable_is_reported_but_stays() {
    let mut hub = hub(Some(pick_fixed(&[ONE])));
    hub.run();
    hub.member("-1-").ineligible = Some(UNHEALTHY);
    let plan = hub.run();
    assert_eq!((decisions(&plan).as_str(), condition(&plan)), ("-1", missing(0)));
    assert_eq!(hub.clusters(), [ONE]);
}

#[test]
fn a_missing_cluster_is_placed_when_it_joins() {
    let mut hub = hub(Some(pick_fixed(&["new"])));
    hub.run();
    hub.members.push(member("new"));
    assert_eq!(condition(&hub.run()), found(1));
}

#[test]
fn an_empty_list_releases_everything() {
    let mut hub = hub(Some(pick_fixed(&[ONE])));
    hub.run();
    hub.set_policy(pick_fixed(&[]));
    let plan = hub.run();
    assert!(hub.clusters().is_empty());
    assert_eq!(condition(&plan), found(0));
}

#[test]
fn a_name_given_twice_is_one_target() {
    let plan = hub(Some(pick_fixed(&[ONE, ONE]))).plan();
    assert_eq!((plan.create.len(), condition(&plan)), (1, found(1)));
}
