use super::member_cluster::{Joined, ReadyToJoin};
use super::work::Applied;
use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn a_first_state_is_added_with_its_time() {
    let mut list = vec![];
    assert!(set(&mut list, &ReadyToJoin::Ready, 3, at(100)));
    assert_eq!(
        list,
        [Condition {
            type_: "ReadyToJoin".into(),
            status: "True".into(),
            reason: "MemberClusterReadyToJoin".into(),
            message: "Member cluster is ready to join the fleet".into(),
            observed_generation: Some(3),
            last_transition_time: Time(at(100)),
        }]
    );
}

#[test]
fn the_same_state_again_changes_nothing() {
    let mut list = vec![];
    set(&mut list, &Joined::Joined, 1, at(100));
    let before = list.clone();
    assert!(!set(&mut list, &Joined::Joined, 1, at(200)));
    assert_eq!(list, before);
}

#[test]
fn the_time_moves_only_with_the_status() {
    let mut list = vec![];
    set(&mut list, &Joined::Inconsistent, 1, at(100));
    // Another message, then another generation: a reader can tell, but nothing has come about.
    let missing = Joined::AgentsMissing {
        cluster: "c".into(),
        expected: 1,
        reported: 0,
    };
    assert!(set(&mut list, &missing, 1, at(200)));
    assert!(set(&mut list, &missing, 2, at(300)));
    assert_eq!(list[0].last_transition_time, Time(at(100)));
    assert!(set(&mut list, &Joined::Joined, 2, at(400)));
    assert_eq!(list[0].last_transition_time, Time(at(400)));
}

#[test]
fn anew_moves_the_time_and_nothing_else() {
    let mut list = vec![];
    set(&mut list, &Joined::Joined, 1, at(100));
    set_anew(&mut list, &Joined::Joined, 1, at(200));
    assert_eq!(list, [to_condition(&Joined::Joined, 1, at(200))]);
}

#[test]
fn other_conditions_keep_their_place_and_content() {
    let foreign = Condition {
        type_: "SomebodyElses".into(),
        status: "Maybe".into(),
        reason: "R".into(),
        message: String::new(),
        observed_generation: None,
        last_transition_time: Time(at(1)),
    };
    let mut list = vec![foreign.clone()];
    set(&mut list, &Joined::Joined, 1, at(100));
    set(&mut list, &ReadyToJoin::Ready, 1, at(100));
    set(&mut list, &Joined::Left, 2, at(200));
    let types: Vec<_> = list.iter().map(|c| c.type_.as_str()).collect();
    assert_eq!(types, ["SomebodyElses", "Joined", "ReadyToJoin"]);
    assert_eq!(list[0], foreign);
}

#[test]
fn times_have_whole_seconds() {
    let mut list = vec![];
    set(
        &mut list,
        &Joined::Joined,
        1,
        "2026-01-08T00:19:58.987Z".parse().unwrap(),
    );
    assert_eq!(
        list[0].last_transition_time,
        Time("2026-01-08T00:19:58Z".parse().unwrap())
    );
}

#[test]
fn over_long_messages_are_cut_between_characters() {
    let mut list = vec![];
    let state = Applied::SomeNotApplied { applied: 0, total: 1 }.with_detail("ü".repeat(MESSAGE_MAX));
    set(&mut list, &state, 1, at(1));
    assert!(list[0].message.len() > MESSAGE_MAX - 2 && list[0].message.len() <= MESSAGE_MAX);
}

#[test]
fn only_a_fresh_condition_counts() {
    let mut list = vec![];
    set(&mut list, &Joined::Joined, 1, at(1));
    assert!(is_true(&list, "Joined", 1));
    assert!(!is_true(&list, "Joined", 2) && !is_false(&list, "Joined", 2));
    assert!(find(&list, "Joined").is_some() && fresh(&list, "Joined", 2).is_none());
    set(&mut list, &Joined::Left, 2, at(1));
    assert!(is_false(&list, "Joined", 2));
    set(&mut list, &Joined::Inconsistent, 2, at(1));
    assert!(!is_true(&list, "Joined", 2) && !is_false(&list, "Joined", 2));
    assert!(fresh(&list, "Absent", 2).is_none());
}

#[test]
fn a_kind_without_generations_leaves_the_field_out() {
    let mut list = vec![];
    set(&mut list, &Joined::Joined, 0, at(1));
    assert_eq!(list[0].observed_generation, None);
    assert!(is_true(&list, "Joined", 0));
}

#[test]
fn a_mirrored_condition_has_the_reader_s_generation_and_time() {
    let source = to_condition(&Joined::Left, 7, at(5));
    let mut list = vec![];
    assert!(mirror(&mut list, "Shown", &source, 2, at(100)));
    assert!(!mirror(&mut list, "Shown", &source, 2, at(200)));
    assert_eq!(list[0].type_, "Shown");
    assert_eq!(list[0].message, source.message);
    assert_eq!(list[0].observed_generation, Some(2));
    assert_eq!(list[0].last_transition_time, Time(at(100)));
}

#[test]
fn observing_and_removing() {
    let mut list = vec![];
    set(&mut list, &Joined::Joined, 1, at(1));
    observe(&mut list, 4);
    assert!(is_true(&list, "Joined", 4));
    assert!(remove(&mut list, "Joined"));
    assert!(!remove(&mut list, "Joined"));
}

#[test]
fn a_published_sentence_takes_no_detail() {
    let open = binding::RolloutStarted::NotStartedYet.with_detail("maxUnavailable is 0");
    assert_eq!(
        open.message(),
        "The resources cannot be updated to the latest because of the rollout strategy; maxUnavailable is 0"
    );
    assert_eq!(
        binding::RolloutStarted::NotStartedYet.with_detail("").message(),
        binding::RolloutStarted::NotStartedYet.message()
    );
    let shown = binding::WorkSynchronized::Synced.with_detail("2 Works");
    assert_eq!(shown.message(), "All of the works are synchronized to the latest");
}
