use fleet_api::cluster::{AgentStatus, PropertyValue};
use jiff::SignedDuration;

use super::super::fixtures::{Fixture as _, agent, at, condition, internal, member};
use super::*;

const SETTINGS: StatusSettings = StatusSettings {
    networking: false,
    unhealthy_threshold: SignedDuration::from_secs(60),
    grace: Grace::NONE,
};

fn speaking(last: i64, joined: &str) -> AgentStatus {
    let mut agent = agent(Some(last));
    agent.conditions = vec![condition("Joined", joined, 3), condition("Healthy", "True", 4)];
    agent
}

fn line(status: &MemberClusterStatus, type_: &str) -> String {
    find(&status.conditions, type_).map_or_else(
        || "absent".into(),
        |c| format!("{} {}: {}", c.status, c.reason, c.message),
    )
}

#[test]
fn a_new_member_is_ready_to_join_and_nothing_else() {
    let judged = judge(&member("c1"), None, None, None, &SETTINGS, at(10));
    assert_eq!(judged.status.conditions.len(), 1);
    assert_eq!(judged.events, [Event::ReadyToJoin]);
    assert_eq!(judged.look_again, None);
}

#[test]
fn before_any_report_the_join_state_is_unknown() {
    let mut imc = internal("c1", "i1");
    imc.metadata.creation_timestamp = Some(Time(at(10)));
    let judge = |now| judge(&member("c1"), Some(&imc), None, None, &SETTINGS, at(now));
    let at_first = judge(14);
    assert_eq!(line(&at_first.status, "Joined"), "absent", "an agent may be on its way");
    assert_eq!(at_first.look_again, Some(at(15)));
    assert_eq!(at_first.events, [Event::ReadyToJoin]);
    let judged = judge(15);
    assert_eq!(
        line(&judged.status, "Joined"),
        "Unknown MemberClusterJoinStateUnknown: \
         Member cluster c1 has not reported all the expected agents, expected 1, got 0"
    );
    assert_eq!(judged.events, [Event::ReadyToJoin, Event::JoinStateUnknown]);
    assert_eq!(line(&judged.status, "Healthy"), "absent");
}

#[test]
fn a_report_is_copied_with_the_members_generation_and_the_original_times() {
    let imc = internal("c1", "i1").reporting(speaking(5, "True"));
    let judged = judge(&member("c1"), Some(&imc), None, None, &SETTINGS, at(10));
    let copied = &judged.status.agent_status[0];
    assert_eq!(copied.conditions[0].observed_generation, Some(7));
    assert_eq!(copied.conditions[0].last_transition_time.0, at(3));
    assert_eq!(
        line(&judged.status, "Healthy"),
        "True MemberClusterHealthy: Member cluster is healthy"
    );
    assert_eq!(judged.events, [Event::ReadyToJoin, Event::Joined]);
    assert_eq!(
        judged.look_again,
        Some(at(125) + SignedDuration::from_millis(1)),
        "two periods after the last beat"
    );

    let mut again = member("c1");
    again.status = Some(judged.status.clone());
    let second = judge(&again, Some(&imc), Some("i1"), None, &SETTINGS, at(11));
    assert_eq!(second.status, judged.status, "nothing to write");
    assert_eq!(second.events, []);
}

#[test]
fn the_later_heartbeat_wins() {
    let mc = member("c1").reporting(speaking(50, "True"));
    let imc = internal("c1", "i1").reporting(speaking(20, "True"));
    let judged = judge(&mc, Some(&imc), None, None, &SETTINGS, at(51));
    assert_eq!(
        judged.status.agent_status[0].last_received_heartbeat,
        Some(Time(at(50)))
    );
    let newer = internal("c1", "i1").reporting(speaking(51, "True"));
    let judged = judge(&mc, Some(&newer), None, None, &SETTINGS, at(51));
    assert_eq!(
        judged.status.agent_status[0].last_received_heartbeat,
        Some(Time(at(51)))
    );
}

#[test]
fn what_the_hub_owns_is_not_copied_and_what_the_member_drops_stays() {
    let mut imc = internal("c1", "i1").reporting(speaking(5, "True"));
    let status = imc.status.get_or_insert_default();
    status.conditions = vec![
        condition("Joined", "False", 0),
        condition("Healthy", "False", 0),
        condition("ReadyToJoin", "False", 0),
        condition("X", "True", 2),
    ];
    let mut mc = member("c1");
    let value = PropertyValue {
        value: "1".into(),
        observation_time: Time(at(1)),
    };
    let old = mc.status.get_or_insert_default();
    old.properties.insert("p".into(), value);
    old.conditions = vec![condition("ClusterPropertyProviderStarted", "True", 1)];
    let judged = judge(&mc, Some(&imc), None, None, &SETTINGS, at(10)).status;
    assert!(line(&judged, "Joined").starts_with("True "));
    assert!(line(&judged, "ReadyToJoin").starts_with("True "));
    assert!(line(&judged, "Healthy").starts_with("True "));
    assert_eq!(
        find(&judged.conditions, "X").map(|c| (c.observed_generation, c.last_transition_time.0)),
        Some((Some(7), at(2)))
    );
    assert!(
        find(&judged.conditions, "ClusterPropertyProviderStarted").is_some(),
        "never removed"
    );
    assert!(judged.properties.is_empty(), "replaced, also by nothing");
}

#[test]
fn without_an_agent_in_the_report_nothing_is_touched() {
    let mut mc = member("c1").reporting(speaking(5, "True"));
    mc.status
        .get_or_insert_default()
        .namespaces
        .insert("n".into(), String::new());
    let judged = judge(&mc, Some(&internal("c1", "i1")), Some("i1"), None, &SETTINGS, at(10)).status;
    assert_eq!(judged.agent_status, mc.status.as_ref().expect("status").agent_status);
    assert_eq!(judged.namespaces.len(), 1);
    assert!(line(&judged, "Joined").starts_with("True "));
}

#[test]
fn another_internal_member_cluster_voids_what_the_old_one_said() {
    let mc = member("c1").reporting(speaking(5, "True"));
    let judged = judge(&mc, Some(&internal("c1", "i2")), Some("i1"), None, &SETTINGS, at(10)).status;
    assert!(judged.agent_status.is_empty());
    assert!(line(&judged, "Joined").starts_with("Unknown "));
}

#[test]
fn a_word_older_than_its_internal_member_cluster_was_said_to_another() {
    let mc = member("c1").reporting(speaking(5, "True"));
    for (created, joined) in [(5, "True"), (6, "Unknown")] {
        let mut imc = internal("c1", "i2");
        imc.metadata.creation_timestamp = Some(Time(at(created)));
        // Nobody remembers: this is the first look of a new leader.
        let judged = judge(&mc, Some(&imc), None, None, &SETTINGS, at(20));
        assert!(
            line(&judged.status, "Joined").starts_with(joined),
            "created at {created}"
        );
    }
}

#[test]
fn what_is_in_the_way_is_shown() {
    let judged = judge(&member("c1"), None, None, Some("roles is forbidden"), &SETTINGS, at(1));
    assert_eq!(
        line(&judged.status, "ReadyToJoin"),
        "False MemberClusterNotReadyToJoin: Member cluster is not ready to join the fleet; roles is forbidden"
    );
    assert_eq!(
        judged.events,
        [Event::NotReadyToJoin {
            error: "roles is forbidden".into()
        }]
    );
}

#[test]
fn a_member_that_has_left_is_no_longer_ready_to_join() {
    let imc = internal("c1", "i1").reporting(speaking(5, "False"));
    let judged = judge(&member("c1").deleting(4), Some(&imc), None, None, &SETTINGS, at(6)).status;
    assert_eq!(
        line(&judged, "Joined"),
        "False MemberClusterLeft: Member cluster has left the fleet"
    );
    assert!(line(&judged, "ReadyToJoin").starts_with("False "));
}

#[test]
fn a_lost_heartbeat_is_one_event_and_so_is_its_return() {
    let imc = internal("c1", "i1").reporting(speaking(0, "True"));
    let mut mc = member("c1");
    mc.status = Some(judge(&mc, Some(&imc), None, None, &SETTINGS, at(1)).status);
    let lost = judge(&mc, Some(&imc), Some("i1"), None, &SETTINGS, at(121));
    assert_eq!(lost.events, [Event::HeartbeatLost]);
    assert!(line(&lost.status, "Healthy").starts_with("Unknown MemberClusterHeartbeatLost"));
    assert!(
        line(&lost.status, "Joined").starts_with("True "),
        "silence is not leaving"
    );
    mc.status = Some(lost.status);
    assert_eq!(judge(&mc, Some(&imc), Some("i1"), None, &SETTINGS, at(500)).events, []);
    let back = internal("c1", "i1").reporting(speaking(501, "True"));
    assert_eq!(
        judge(&mc, Some(&back), Some("i1"), None, &SETTINGS, at(501)).events,
        [Event::HeartbeatRestored]
    );
}

#[test]
fn a_heartbeat_from_the_future_is_overwritten_and_its_silence_is_noticed() {
    let imc = internal("c1", "i1").reporting(speaking(5_000, "True"));
    let judged = judge(&member("c1"), Some(&imc), Some("i1"), None, &SETTINGS, at(1_000));
    let stamp = |status: &MemberClusterStatus| status.agent_status[0].last_received_heartbeat.clone();
    assert_eq!(stamp(&judged.status), Some(Time(at(1_000))), "silence begins now");
    let mut mc = member("c1");
    mc.status = Some(judged.status);
    let later = judge(&mc, Some(&imc), Some("i1"), None, &SETTINGS, at(1_060));
    assert_eq!(stamp(&later.status), Some(Time(at(1_000))), "and stays where it began");
    let lost = judge(&mc, Some(&imc), Some("i1"), None, &SETTINGS, at(1_121));
    assert_eq!(find(&lost.status.conditions, "Healthy").unwrap().status, "Unknown");
    let slightly = internal("c1", "i1").reporting(speaking(1_020, "True"));
    let judged = judge(&member("c1"), Some(&slightly), Some("i1"), None, &SETTINGS, at(1_000));
    assert_eq!(stamp(&judged.status), Some(Time(at(1_020))), "clocks differ a little");
}
