use fleet_core::session::{Outcome, WorkRef};
use fleet_runtime::metrics::Metrics;
use jiff::Timestamp;

use super::*;
use crate::{membership::WantedState, properties::Collected};

struct Scene {
    reports: Reports,
    outgoing: Arc<Outgoing>,
    metrics: Metrics,
    seq: u64,
}

impl Scene {
    fn new() -> Self {
        let (outgoing, metrics) = (Arc::new(Outgoing::default()), Metrics::new());
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let reports = Reports::new(outgoing.clone(), Measures::new(&metrics), clock);
        Self {
            reports,
            outgoing,
            metrics,
            seq: 1,
        }
    }

    /// Everything that is to be sent now.
    fn sent(&mut self) -> Vec<(u64, MemberMessage)> {
        let mut sent = Vec::new();
        while let Some((message, _)) = self.outgoing.next(self.seq + 1, Timestamp::UNIX_EPOCH, true) {
            self.seq += 1;
            sent.push((self.seq, message));
        }
        sent
    }

    /// Everything that is to be sent now, in short, answered like this.
    fn answer(&mut self, outcome: Outcome) -> Vec<String> {
        let sent = self.sent();
        for (seq, message) in &sent {
            if !matches!(message, MemberMessage::Event(_)) {
                self.reports.answered(&ack(*seq, outcome));
            }
        }
        sent.into_iter().map(|(_, message)| short(&message)).collect()
    }
}

fn ack(seq: u64, outcome: Outcome) -> Ack {
    Ack {
        seq,
        work: None,
        outcome,
        reason: "why".into(),
    }
}

fn short(message: &MemberMessage) -> String {
    match message {
        MemberMessage::AgentStatus(status) => {
            let words: Vec<String> = status
                .conditions
                .iter()
                .map(|c| format!("{}={:?}", c.type_, c.status))
                .collect();
            format!("{}/{} {}", status.imc_uid, status.imc_generation, words.join(" "))
        }
        MemberMessage::Properties(p) => format!("{}/{} properties", p.imc_uid, p.imc_generation),
        MemberMessage::ApplierStopped {
            imc_uid,
            imc_generation,
        } => format!("{imc_uid}/{imc_generation} stopped"),
        MemberMessage::Event(event) => event.reason.clone(),
        other => format!("{other:?}"),
    }
}

fn joined(uid: &str, generation: i64) -> Phase {
    Phase::Joined(Arc::new(Imc::for_tests(uid, generation)))
}

fn stopped(uid: &str, generation: i64) -> Phase {
    let imc = Imc {
        wanted: WantedState::Leave,
        ..Imc::for_tests(uid, generation)
    };
    Phase::Stopped(Arc::new(imc))
}

fn report(nodes: &str, second: i64) -> Arc<ClusterReport> {
    let mut collected = Collected::default();
    collected.set("nodes", nodes, Timestamp::from_second(second).unwrap());
    Arc::new(ClusterReport {
        collected: Some(collected),
        conditions: vec![],
    })
}

#[test]
fn joining_is_said_once_and_announced_when_stored() {
    let mut scene = Scene::new();
    scene.reports.set_phase(joined("u", 1));
    scene.reports.set_health(Some(Healthy::Healthy));
    assert_eq!(scene.answer(Outcome::Persisted), ["u/1 Joined=True Healthy=True"]);
    assert_eq!(
        scene.answer(Outcome::Persisted),
        ["InternalMemberClusterJoined", "InternalMemberClusterHealthy"]
    );
    scene.reports.set_phase(joined("u", 1));
    scene.reports.set_health(Some(Healthy::Healthy));
    assert!(scene.sent().is_empty(), "nothing is new");

    scene.reports.set_health(Some(Healthy::Unhealthy { code: 500 }));
    assert_eq!(scene.answer(Outcome::Persisted), ["u/1 Joined=True Healthy=False"]);
    assert_eq!(scene.answer(Outcome::Persisted), ["InternalMemberClusterUnhealthy"]);
    assert!(
        scene
            .metrics
            .encode()
            .contains("join_result_counter{result=\"success\"} 1\n")
    );

    // Another session: everything again, and no news for people.
    scene.reports.say_again();
    assert_eq!(scene.answer(Outcome::Unchanged), ["u/1 Joined=True Healthy=False"]);
    assert!(scene.sent().is_empty());
}

#[test]
fn leaving_is_said_only_after_the_hub_has_released_the_works() {
    let mut scene = Scene::new();
    scene.reports.set_health(Some(Healthy::Healthy));
    scene.reports.set_phase(joined("u", 1));
    scene.answer(Outcome::Persisted);
    scene.sent();
    let Phase::Stopped(imc) = stopped("u", 2) else {
        unreachable!()
    };

    scene.reports.set_phase(stopped("u", 2));
    assert_eq!(
        scene.answer(Outcome::NotDeleting),
        ["u/2 stopped"],
        "the hub has not read its own write yet"
    );
    assert!(scene.sent().is_empty(), "a second later");
    scene.outgoing.disconnected();
    assert_eq!(scene.answer(Outcome::Persisted), ["u/2 stopped"]);
    assert!(!scene.reports.has_left(&imc));
    assert_eq!(scene.answer(Outcome::Persisted), ["u/2 Joined=False Healthy=True"]);
    assert!(scene.reports.has_left(&imc));
    assert_eq!(scene.answer(Outcome::Persisted), ["InternalMemberClusterLeft"]);
    assert!(
        scene
            .metrics
            .encode()
            .contains("leave_result_counter{result=\"success\"} 1\n")
    );

    // On every connection while the state is Leave, also after a restart.
    scene.reports.say_again();
    assert_eq!(scene.answer(Outcome::Unchanged), ["u/2 stopped"]);
    assert_eq!(scene.answer(Outcome::Unchanged), ["u/2 Joined=False Healthy=True"]);

    // The MemberCluster is created anew.
    scene.reports.set_phase(Phase::Idle);
    scene.reports.set_phase(joined("v", 1));
    assert_eq!(scene.answer(Outcome::Persisted), ["v/1 Joined=True Healthy=True"]);
    assert!(
        scene
            .metrics
            .encode()
            .contains("join_result_counter{result=\"success\"} 2\n")
    );
}

#[test]
fn a_hub_that_does_not_let_us_leave_is_quoted() {
    let mut scene = Scene::new();
    scene.reports.set_phase(stopped("u", 2));
    assert_eq!(scene.answer(Outcome::Invalid), ["u/2 stopped"]);
    let sent = scene.sent();
    let [(seq, MemberMessage::AgentStatus(status))] = sent.as_slice() else {
        panic!("{sent:?}")
    };
    assert_eq!(status.conditions[0].reason, "InternalMemberClusterFailedToLeave");
    assert_eq!(status.conditions[0].message, "Invalid: why");
    scene.reports.answered(&ack(*seq, Outcome::Persisted));
    // The next session tries again.
    scene.reports.say_again();
    assert_eq!(
        scene.answer(Outcome::Persisted),
        ["u/2 stopped", "InternalMemberClusterFailedToLeave"]
    );
    assert_eq!(scene.answer(Outcome::Persisted), ["u/2 Joined=False"]);
}

#[test]
fn nothing_of_an_old_membership_is_said_under_a_new_one() {
    let mut scene = Scene::new();
    scene.reports.set_properties(Some(report("1", 0)));
    scene.reports.set_phase(joined("u", 1));
    scene.reports.set_phase(joined("v", 1));
    assert_eq!(
        scene.answer(Outcome::UidMismatch),
        ["v/1 Joined=True", "v/1 properties"]
    );
    // The hub's cache was behind, not ours: again, a second later.
    assert!(scene.sent().is_empty());
    assert_eq!(scene.outgoing.unanswered(), 2);
    scene.reports.set_phase(Phase::Idle);
    assert_eq!(scene.outgoing.unanswered(), 0, "gone");
}

#[test]
fn properties_are_said_when_they_differ_and_now_and_then() {
    let mut scene = Scene::new();
    scene.reports.set_phase(joined("u", 1));
    scene.answer(Outcome::Persisted);
    scene.answer(Outcome::Persisted);
    scene.reports.set_properties(Some(report("1", 0)));
    assert_eq!(scene.answer(Outcome::Persisted), ["u/1 properties"]);
    for beat in 1..REFRESH_BEATS {
        scene.reports.beat();
        scene.reports.set_properties(Some(report("1", i64::from(beat))));
        assert!(scene.sent().is_empty(), "only the time is new");
    }
    scene.reports.beat();
    scene.reports.set_properties(Some(report("1", 9)));
    assert_eq!(scene.answer(Outcome::Unchanged), ["u/1 properties"]);
    scene.reports.set_properties(Some(report("2", 9)));
    assert_eq!(scene.answer(Outcome::Persisted), ["u/1 properties"]);
    scene.reports.set_phase(joined("u", 2));
    assert_eq!(scene.answer(Outcome::Persisted), ["u/2 Joined=True", "u/2 properties"]);
}

#[test]
fn an_answer_about_a_work_is_left_as_it_is() {
    let mut scene = Scene::new();
    scene.reports.set_phase(joined("u", 1));
    scene.answer(Outcome::Persisted);
    scene.answer(Outcome::Persisted);
    let work = WorkRef {
        name: "w".into(),
        uid: "x".into(),
    };
    scene
        .outgoing
        .report(Subject::Claim("w".into()), MemberMessage::Claim(work.clone()));
    let (seq, _) = scene.sent()[0];
    let answer = Ack {
        work: Some(work),
        ..ack(seq, Outcome::UidMismatch)
    };
    assert_eq!(
        scene.reports.answered(&answer),
        Settled::Done(Subject::Claim("w".into()))
    );
}
