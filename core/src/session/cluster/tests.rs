use super::*;
use crate::membership::fixtures::{Fixture as _, agent, at, internal};

fn said(type_: &str, status: Status) -> ReportedCondition {
    ReportedCondition {
        type_: type_.into(),
        status,
        reason: "R".into(),
        message: String::new(),
        observed_generation: 0,
    }
}

fn report(generation: i64, joined: Status) -> AgentReport {
    AgentReport {
        imc_uid: "i".into(),
        imc_generation: generation,
        conditions: vec![said("Joined", joined)],
    }
}

fn imc(generation: i64) -> InternalMemberCluster {
    let mut imc = internal("c1", "i");
    imc.metadata.generation = Some(generation);
    imc
}

/// Carries a decision out.
fn apply(imc: &mut InternalMemberCluster, decision: Decision<InternalMemberClusterStatus>) -> Option<Outcome> {
    let outcome = decision.outcome();
    if let Decision::Write { write, .. } = decision {
        imc.status = Some(write);
    }
    outcome
}

fn tell(imc: &mut InternalMemberCluster, report: &AgentReport, now: i64) -> Option<Outcome> {
    let decision = agent_status(imc, &AgentType::MemberAgent, report, at(now));
    apply(imc, decision)
}

#[test]
fn conditions_are_stored_with_their_generation_and_the_hubs_time() {
    let mut imc = imc(2);
    assert_eq!(tell(&mut imc, &report(2, Status::True), 9), Some(Outcome::Persisted));
    let stored = &imc.status.as_ref().expect("written").agent_status[0];
    assert_eq!(stored.conditions[0].observed_generation, Some(2));
    assert_eq!(stored.conditions[0].last_transition_time.0, at(9));
    assert_eq!(stored.last_received_heartbeat, Some(Time(at(9))));
    assert_eq!(
        tell(&mut imc, &report(2, Status::True), 20),
        Some(Outcome::Unchanged),
        "a duplicate"
    );
}

#[test]
fn a_late_joined_never_undoes_a_leave() {
    let mut imc = imc(3);
    assert_eq!(tell(&mut imc, &report(3, Status::False), 1), Some(Outcome::Persisted));
    assert_eq!(
        tell(&mut imc, &report(2, Status::True), 2),
        Some(Outcome::Unchanged),
        "ignored, but answered"
    );
    let status = imc.status.as_ref().expect("written");
    assert_eq!(Status::of(&status.agent_status[0].conditions[0]), Status::False);
}

#[test]
fn a_report_for_another_object_or_one_not_seen_yet_is_not_written() {
    let mut imc = imc(1);
    let foreign = AgentReport {
        imc_uid: "old".into(),
        ..report(1, Status::True)
    };
    assert_eq!(tell(&mut imc, &foreign, 1), Some(Outcome::UidMismatch));
    assert_eq!(tell(&mut imc, &report(2, Status::True), 1), None, "read again");
    let odd = AgentReport {
        conditions: vec![said("Other", Status::True)],
        ..report(1, Status::True)
    };
    assert_eq!(tell(&mut imc, &odd, 1), Some(Outcome::Invalid));
    assert!(imc.status.is_none());
}

#[test]
fn other_agents_entries_are_left_alone() {
    let mut other = agent(Some(1));
    other.type_ = "MultiClusterServiceAgent".into();
    let mut imc = imc(1).reporting(other.clone());
    tell(&mut imc, &report(1, Status::True), 5);
    assert_eq!(imc.status.expect("written").agent_status[0], other);
}

fn properties_report(value: &str, observed: i64) -> PropertiesReport {
    let property = PropertyValue {
        value: value.into(),
        observation_time: Time(at(observed)),
    };
    PropertiesReport {
        imc_uid: "i".into(),
        imc_generation: 1,
        collected: true,
        properties: [("p".to_owned(), property)].into(),
        usage: None,
        namespaces: None,
        conditions: vec![],
    }
}

#[test]
fn observation_times_are_clamped_and_alone_cause_no_write() {
    let mut imc = imc(1);
    let decision = properties(&imc, &properties_report("1", 500), at(100));
    assert_eq!(apply(&mut imc, decision), Some(Outcome::Persisted));
    assert_eq!(
        imc.status.as_ref().expect("written").properties["p"].observation_time.0,
        at(100)
    );
    assert_eq!(
        properties(&imc, &properties_report("1", 200), at(200)).outcome(),
        Some(Outcome::Unchanged)
    );
    assert_eq!(
        properties(&imc, &properties_report("2", 200), at(200)).outcome(),
        Some(Outcome::Persisted)
    );
}

#[test]
fn what_the_hub_owns_is_refused_and_the_rest_kept() {
    let mut imc = imc(1);
    let mut report = properties_report("1", 1);
    report.conditions = ["Joined", "ReadyToJoin", "Healthy", "ClusterPropertyCollectionSucceeded"]
        .map(|t| said(t, Status::False))
        .into();
    let decision = properties(&imc, &report, at(2));
    let Decision::Write { then, .. } = &decision else {
        panic!("{decision:?}")
    };
    assert_eq!(then.reason, "ignored conditions Joined, ReadyToJoin, Healthy");
    apply(&mut imc, decision);
    let status = imc.status.expect("written");
    assert_eq!(
        status.conditions.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(),
        ["ClusterPropertyCollectionSucceeded"]
    );
    assert_eq!(status.properties.len(), 1);
}

#[test]
fn a_failed_collection_keeps_the_old_values() {
    let mut imc = imc(1);
    let decision = properties(&imc, &properties_report("1", 1), at(2));
    apply(&mut imc, decision);
    let failed = PropertiesReport {
        collected: false,
        properties: BTreeMap::new(),
        conditions: vec![said("ClusterPropertyCollectionSucceeded", Status::False)],
        ..properties_report("", 1)
    };
    let decision = properties(&imc, &failed, at(3));
    assert_eq!(apply(&mut imc, decision), Some(Outcome::Persisted));
    assert_eq!(imc.status.expect("written").properties["p"].value, "1");
}
