//! The snapshot's status: what fits into it and when it is written.

use std::time::Duration;

use super::*;

#[test]
fn twenty_unselected_clusters_are_explained_the_outscored_first() {
    let mut hub = hub(Some(pick_n(1)));
    hub.members = (0..11).map(|i| member(&format!("fit-{i:02}"))).collect();
    hub.members
        .extend((0..30).map(|i| member(&format!("tainted-{i:02}")).taint("k", "v")));
    let plan = hub.plan();
    let shown = decisions(&plan);
    assert_eq!(plan.status.unwrap().target_clusters.len(), 21);
    assert!(
        shown.starts_with("+fit-10 -fit-09") && shown.ends_with("-tainted-08 -tainted-09"),
        "{shown}"
    );
}

#[test]
fn a_placed_cluster_that_is_filtered_makes_room_for_the_next() {
    let mut hub = hub(None);
    hub.members = (0..30).map(|i| member(&format!("c{i:02}"))).collect();
    hub.members
        .iter_mut()
        .skip(1)
        .for_each(|member| member.ineligible = Some(UNHEALTHY));
    hub.bindings = (0..5)
        .map(|i| binding(&format!("c{i:02}"), BindingState::Bound))
        .collect();
    let plan = hub.plan();
    assert_eq!(
        plan.status
            .unwrap()
            .target_clusters
            .iter()
            .filter(|d| !d.selected)
            .count(),
        20
    );
}

#[test]
fn no_more_than_a_thousand_decisions_are_listed() {
    let mut hub = hub(Some(pick_n(1100)));
    hub.members = (0..1200).map(|i| member(&format!("c{i:04}"))).collect();
    let plan = hub.plan();
    assert_eq!(plan.create.len(), 1100);
    assert_eq!(condition(&plan), found(1100));
    let decisions = plan.status.unwrap().target_clusters;
    assert_eq!(
        (decisions.len(), decisions.iter().filter(|d| d.selected).count()),
        (1000, 1000)
    );
}

#[test]
fn the_same_outcome_is_not_written_twice_even_as_time_passes() {
    let mut hub = hub(None);
    assert!(hub.run().status_changed);
    hub.now = NOW + Duration::from_mins(3);
    hub.member("unhealthy").ineligible = Some(Ineligible::Unhealthy(Duration::from_mins(13)));
    assert!(hub.run().is_empty(), "an age alone is no news");
    hub.member("unhealthy").ineligible = Some(Ineligible::HeartbeatLost(Duration::from_mins(13)));
    assert!(hub.run().status_changed, "another reason is");
}

#[test]
fn another_generation_is_written_with_the_old_transition_time() {
    let mut hub = hub(None);
    hub.run();
    hub.now = NOW + Duration::from_mins(3);
    hub.generation = Some("2".into());
    let plan = hub.run();
    assert!(plan.status_changed && plan.create.is_empty());
    let status = plan.status.unwrap();
    assert_eq!(status.observed_crp_generation, 2);
    assert_eq!(status.conditions[0].last_transition_time.0, NOW);
    assert_eq!(status.conditions[0].observed_generation, Some(1));
}

#[test]
fn order_alone_is_no_reason_to_write_but_a_message_is() {
    let mut hub = hub(None);
    hub.run();
    hub.status.as_mut().unwrap().target_clusters.reverse();
    assert!(!hub.plan().status_changed);
    hub.status.as_mut().unwrap().conditions[0].message = "something else".into();
    assert!(hub.plan().status_changed);
}

#[test]
fn a_newer_status_is_not_moved_back() {
    let mut hub = hub(None);
    hub.run();
    hub.status.as_mut().unwrap().conditions[0].observed_generation = Some(5);
    assert!(!hub.plan().status_changed);
}

#[test]
fn why_others_were_not_picked_is_still_said_when_nothing_changes_or_fewer_are_wanted() {
    let mut hub = hub(Some(pick_n(2)));
    hub.members = ["a", "b", "c"].map(member).into();
    hub.members.push(member("tainted").taint("k", "v"));
    let first = hub.run();
    assert_eq!(decisions(&first), "+c +b -a -tainted");
    let quiet = hub.run();
    assert!(quiet.is_empty(), "nothing is said anew: {quiet:?}");
    hub.members.retain(|member| member.name != "tainted");
    assert!(
        !decisions(&hub.run()).contains("tainted"),
        "what is gone is not explained"
    );
    hub.number = Some("1".into());
    assert!(decisions(&hub.run()).ends_with(" -a"), "the rest is");
}
