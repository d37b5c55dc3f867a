//! What becomes of bindings.

use serde_json::json;

use super::*;

const ONE: &str = "cluster-1-east-prod";

fn east() -> PlacementPolicy {
    with(
        pick_all(),
        &json!({"affinity": {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": "east"}}}]}}}}),
    )
}

#[test]
fn names_are_cut_hashed_and_the_same_when_repeated() {
    let mut hub = hub(None);
    hub.key = PlacementKey::new(None, "my.very-long-placement-name-indeed").unwrap();
    hub.members = vec![member("a-cluster-with-a-name-longer-than-that")];
    let name = hub.plan().create[0].binding.clone();
    assert_eq!(hub.plan().create[0].binding, name);
    let hash = name
        .strip_prefix("my-very-long-placement-nam-a-cluster-with-a-name-longe-")
        .unwrap();
    assert!(hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
}

#[test]
fn a_binding_being_deleted_is_released_and_its_cluster_gets_one_with_another_name() {
    let mut hub = hub(None);
    hub.run();
    hub.bindings[0].deleting = true;
    let (old, cluster) = (hub.bindings[0].name.clone(), hub.bindings[0].cluster.clone());
    let plan = hub.plan();
    assert_eq!(plan.release, [old.as_str()]);
    assert_eq!(plan.create.len(), 1);
    assert_eq!(plan.create[0].cluster, cluster);
    assert_ne!(plan.create[0].binding, old);
    hub.member(&cluster).taints = member("x").taint("k", "v").taints;
    assert!(
        hub.plan().create.is_empty(),
        "evicted from a tainted cluster, it does not come back"
    );
    hub.bindings[0].held = false;
    assert!(hub.plan().release.is_empty(), "nothing to release twice");
}

#[test]
fn a_new_policy_keeps_states_unschedules_the_others_and_schedules_new_ones() {
    let mut hub = hub(Some(pick_all()));
    hub.bindings = vec![
        binding(ONE, BindingState::Bound),
        binding("cluster-2-east-prod", BindingState::Scheduled),
        binding("cluster-6-west-prod", BindingState::Bound),
        binding("unhealthy-cluster-east-prod", BindingState::Bound),
    ];
    hub.set_policy(east());
    let plan = hub.run();
    let patched: Vec<_> = plan
        .patch
        .iter()
        .map(|p| (short(&p.cluster), p.state.as_str()))
        .collect();
    assert_eq!(patched, [("1", "Bound"), ("2", "Scheduled")]);
    let gone: Vec<_> = plan
        .unschedule
        .iter()
        .map(|u| (short(&u.cluster), u.previous.as_str()))
        .collect();
    assert_eq!(gone, [("6", "Bound"), ("unhealthy-cluster-east-prod", "Bound")]);
    assert_eq!(plan.create.iter().map(|c| short(&c.cluster)).collect::<Vec<_>>(), ["3"]);
    assert!(
        decisions(&plan).starts_with("+3 +1 +2 -4"),
        "created, patched, then the others: {}",
        decisions(&plan)
    );
    assert!(hub.run().is_empty());
}

#[test]
fn a_binding_comes_back_in_its_previous_state() {
    for (previous, state) in [
        ("Bound", "Bound"),
        ("Scheduled", "Scheduled"),
        ("Unscheduled", "Scheduled"),
    ] {
        let mut hub = hub(None);
        hub.members = vec![member(ONE)];
        hub.bindings = vec![binding(ONE, BindingState::Unscheduled).previous(previous).of("app-old")];
        let plan = hub.run();
        assert!(plan.create.is_empty());
        assert_eq!((plan.patch[0].state.as_str(), plan.patch[0].restored), (state, true));
        assert!(hub.run().is_empty());
    }
}

#[test]
fn a_binding_whose_previous_state_is_not_noted_stops_the_decision_visibly() {
    let mut hub = hub(None);
    hub.bindings = vec![binding(ONE, BindingState::Unscheduled)];
    let plan = hub.plan();
    assert!(plan.create.is_empty() && plan.patch.is_empty() && plan.unschedule.is_empty());
    let cause = "binding \"b-cluster-1-east-prod\" is Unscheduled and cluster \"cluster-1-east-prod\" is picked again, but \
                 the binding's annotation \"kubernetes-fleet.io/previous-binding-state\" does not say which state it had";
    assert_eq!(plan.problem.as_ref().unwrap().to_string(), cause);
    assert_eq!(condition(&plan), format!("{}; {cause}", missing(0)));
}

#[test]
fn an_unscheduled_binding_on_a_cluster_that_is_not_picked_is_left_alone() {
    let mut hub = hub(Some(east()));
    hub.bindings = vec![binding("cluster-6-west-prod", BindingState::Unscheduled)];
    let plan = hub.plan();
    assert!(plan.unschedule.is_empty() && plan.patch.is_empty() && plan.problem.is_none());
}

#[test]
fn of_several_bindings_on_a_cluster_one_goes_on() {
    let mut hub = hub(None);
    hub.members = vec![member("a")];
    let named = |name: &str, bound: Bound| Bound {
        name: name.into(),
        ..bound
    };
    hub.bindings = vec![
        named("1", binding("a", BindingState::Unscheduled).previous("Bound")),
        named("2", binding("a", BindingState::Scheduled).of("app-old")),
        named("3", binding("a", BindingState::Bound).of("app-old")),
    ];
    let plan = hub.run();
    assert_eq!(plan.patch.iter().map(|p| p.binding.as_str()).collect::<Vec<_>>(), ["3"]);
    assert_eq!(
        plan.unschedule.iter().map(|u| u.binding.as_str()).collect::<Vec<_>>(),
        ["2"]
    );
    assert_eq!(hub.clusters(), ["a"]);
}

#[test]
fn a_leaving_cluster_loses_its_binding_whatever_the_policy() {
    for policy in [None, Some(pick_n(1)), Some(pick_fixed(&[ONE]))] {
        let mut hub = hub(policy);
        hub.bindings = vec![binding(ONE, BindingState::Scheduled)];
        *hub.member("-1-") = member(ONE).leaving();
        let plan = hub.plan();
        assert_eq!(plan.vacate.len(), 1);
        assert!(plan.unschedule.is_empty() && plan.patch.is_empty());
    }
}

#[test]
fn a_deletion_and_a_departure_do_not_wait_for_a_good_policy() {
    let mut hub = hub(Some(pick_n(1)));
    hub.number = None;
    let mut deleting = binding(ONE, BindingState::Bound);
    deleting.deleting = true;
    hub.bindings = vec![deleting, binding("gone", BindingState::Bound)];
    let plan = hub.plan();
    assert_eq!((plan.release.len(), plan.vacate.len()), (1, 1));
}

#[test]
fn a_cluster_that_comes_back_gets_its_binding_back() {
    let mut hub = hub(None);
    hub.members = vec![member("a")];
    hub.run();
    hub.roll_out();
    hub.members.clear();
    hub.run();
    hub.members = vec![member("a")];
    let plan = hub.run();
    assert_eq!((plan.create.len(), plan.patch.len()), (0, 1));
    assert_eq!(plan.patch[0].state, BindingState::Bound);
}

#[test]
fn a_cluster_whose_name_no_member_can_have_is_not_usable() {
    let object: fleet_api::cluster::MemberCluster = serde_json::from_value(json!({
        "metadata": {"name": "has.dots"},
        "spec": {"identity": {"kind": "User", "name": "u"}},
        "status": {"agentStatus": [{
            "type": "MemberAgent",
            "lastReceivedHeartbeat": "1970-01-01T00:00:00Z",
            "conditions": [{"type": "Joined", "status": "True"}, {"type": "Healthy", "status": "True"}],
        }]},
    }))
    .unwrap();
    assert!(Cluster::new(&object, NOW).ineligible.is_some());
}
