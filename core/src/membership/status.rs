//! The status of a living or leaving MemberCluster: what its InternalMemberCluster reports, and what follows from it.
//!
//! The hub's membership controller owns MemberCluster status. One exception: heartbeats that change nothing else are
//! written to the MemberCluster first, so here the later heartbeat time wins.

use fleet_api::cluster::{AgentType, InternalMemberCluster, MemberCluster, MemberClusterStatus};
use fleet_api::conditions::{self, Words as _, find, member_cluster};
use fleet_api::events::MemberClusterEvent as Event;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::agents;
use super::heartbeat::{self, Grace};

/// Condition types that are the hub's own: whoever reports them, they are not copied.
pub const HUB_OWNED: [&str; 3] = [
    member_cluster::ReadyToJoin::TYPE,
    member_cluster::Joined::TYPE,
    member_cluster::Healthy::TYPE,
];

/// How long a new member has to report before its join state is said to be unknown. An agent that is waiting for its
/// MemberCluster looks at least this often, so that a join that goes well is not shown as a doubtful one first.
pub const FIRST_WORD: SignedDuration = SignedDuration::from_secs(5);

/// What the status depends on besides the objects.
#[derive(Debug, Clone, Copy)]
pub struct StatusSettings {
    /// Networking agents are expected too.
    pub networking: bool,
    /// Silence that means a lost heartbeat.
    pub unhealthy_threshold: SignedDuration,
    /// What to make of silence after a change of leader.
    pub grace: Grace,
}

/// A MemberCluster's new status, the Events that go with it, and when it changes by time alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// To be written if it differs.
    pub status: MemberClusterStatus,
    /// To be recorded once it is written.
    pub events: Vec<Event>,
    /// When to look again.
    pub look_again: Option<Timestamp>,
}

/// Status of a MemberCluster whose hub objects are in place, or cannot be (`not_ready` says why).
///
/// `previous_imc_uid` is the uid of the InternalMemberCluster of the last look, if there was one: what another one reported
/// is void.
pub fn judge(
    mc: &MemberCluster,
    imc: Option<&InternalMemberCluster>,
    previous_imc_uid: Option<&str>,
    not_ready: Option<&str>,
    settings: &StatusSettings,
    now: Timestamp,
) -> Judged {
    let generation = mc.metadata.generation.unwrap_or_default();
    let before = mc.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let leaving = mc.metadata.deletion_timestamp.is_some();
    if let Some(why) = not_ready {
        let state = member_cluster::ReadyToJoin::NotReady.with_detail(why);
        conditions::set(&mut status.conditions, &state, generation, now);
    } else if !leaving {
        conditions::set(
            &mut status.conditions,
            &member_cluster::ReadyToJoin::Ready,
            generation,
            now,
        );
    }
    let mut look_again = None;
    if let Some(imc) = imc {
        if is_void(&status, imc, previous_imc_uid) {
            status.agent_status.clear();
        }
        copy(&mut status, imc, generation, now);
        let name = mc.metadata.name.as_deref().unwrap_or_default();
        let joined = agents::joined(name, &status.agent_status, settings.networking);
        look_again = first_word_until(&status, imc).filter(|until| now < *until);
        if look_again.is_none() {
            conditions::set(&mut status.conditions, &joined, generation, now);
        }
        if joined == member_cluster::Joined::Left {
            conditions::set(
                &mut status.conditions,
                &member_cluster::ReadyToJoin::NotReady,
                generation,
                now,
            );
        }
    }
    let agent = status.agent(&AgentType::MemberAgent).cloned();
    // Nothing is said about the health of a cluster that has never spoken.
    if agent.is_some() || find(&status.conditions, member_cluster::Healthy::TYPE).is_some() {
        let period = mc.spec.heartbeat_period_seconds;
        let threshold = settings.unhealthy_threshold;
        let health = heartbeat::health(agent.as_ref(), period, threshold, &settings.grace, now);
        conditions::set(&mut status.conditions, &health.state, generation, now);
        look_again = health.look_again;
    }
    let events = events(&before.conditions, &status.conditions, not_ready);
    Judged {
        status,
        events,
        look_again,
    }
}

/// Whether what the MemberCluster shows was said through another InternalMemberCluster. If nobody remembers which one it
/// was, then it was another if it said its last word before this one existed.
fn is_void(status: &MemberClusterStatus, imc: &InternalMemberCluster, previous_uid: Option<&str>) -> bool {
    if let Some(previous) = previous_uid {
        return imc.metadata.uid.as_deref() != Some(previous);
    }
    let agent = status.agent(&AgentType::MemberAgent);
    let last = agent.and_then(|agent| agent.last_received_heartbeat.as_ref());
    let created = imc.metadata.creation_timestamp.as_ref();
    last.zip(created).is_some_and(|(last, created)| last.0 < created.0)
}

/// Until when a member that was never heard of is given time to speak.
fn first_word_until(status: &MemberClusterStatus, imc: &InternalMemberCluster) -> Option<Timestamp> {
    let silent = status.agent_status.is_empty() && find(&status.conditions, member_cluster::Joined::TYPE).is_none();
    let created = imc.metadata.creation_timestamp.as_ref().filter(|_| silent)?;
    Some(heartbeat::add(created.0, FIRST_WORD))
}

/// Copies what the InternalMemberCluster says. Without any agent's word everything stays as it is, whoever wrote it.
fn copy(status: &mut MemberClusterStatus, imc: &InternalMemberCluster, generation: i64, now: Timestamp) {
    let Some(reported) = imc.status.as_ref().filter(|s| !s.agent_status.is_empty()) else {
        return;
    };
    let mut agents = reported.agent_status.clone();
    for agent in &mut agents {
        conditions::observe(&mut agent.conditions, generation);
        let known = status
            .agent(&agent.type_)
            .and_then(|a| a.last_received_heartbeat.clone());
        agent.last_received_heartbeat = later(agent.last_received_heartbeat.take(), known, now);
    }
    status.agent_status = agents;
    status.resource_usage.clone_from(&reported.resource_usage);
    status.namespaces.clone_from(&reported.namespaces);
    status.properties.clone_from(&reported.properties);
    for condition in reported
        .conditions
        .iter()
        .filter(|c| !HUB_OWNED.contains(&c.type_.as_str()))
    {
        put(&mut status.conditions, condition, generation);
    }
}

/// Sets a copied condition by type. Unlike a condition of our own it brings its transition time along.
fn put(list: &mut Vec<Condition>, source: &Condition, generation: i64) {
    let mut new = Condition {
        observed_generation: Some(generation).filter(|g| *g != 0),
        ..source.clone()
    };
    match list.iter_mut().find(|c| c.type_ == new.type_) {
        Some(old) => {
            if old.status == new.status {
                new.last_transition_time = old.last_transition_time.clone();
            }
            *old = new;
        }
        None => list.push(new),
    }
}

/// The later of two heartbeats. One that lies in the future counts for nothing; if there is no other, silence begins now.
fn later(a: Option<Time>, b: Option<Time>, now: Timestamp) -> Option<Time> {
    let said = a.is_some() || b.is_some();
    let known = [a, b].into_iter().flatten();
    let newest = known
        .filter(|time| !heartbeat::is_ahead(time.0, now))
        .max_by_key(|time| time.0);
    newest.or_else(|| said.then(|| Time(Timestamp::from_second(now.as_second()).unwrap_or(now))))
}

/// One Event for each condition that is new or has changed its status.
fn events(before: &[Condition], after: &[Condition], not_ready: Option<&str>) -> Vec<Event> {
    let turned = |type_: &str| {
        let now = find(after, type_)?.status.as_str();
        (find(before, type_).map(|c| c.status.as_str()) != Some(now)).then_some(now)
    };
    let mut events = vec![];
    match (turned(member_cluster::ReadyToJoin::TYPE), not_ready) {
        (Some("True"), _) => events.push(Event::ReadyToJoin),
        (Some(_), Some(why)) => events.push(Event::NotReadyToJoin { error: why.to_owned() }),
        _ => {}
    }
    match turned(member_cluster::Joined::TYPE) {
        Some("True") => events.push(Event::Joined),
        Some("False") => events.push(Event::Left),
        Some(_) => events.push(Event::JoinStateUnknown),
        None => {}
    }
    let silent = member_cluster::Healthy::HeartbeatLost {
        last: Timestamp::UNIX_EPOCH,
    };
    let silent = silent.reason();
    let lost = |list: &[Condition]| find(list, member_cluster::Healthy::TYPE).is_some_and(|c| c.reason == silent);
    match (lost(before), lost(after)) {
        (false, true) => events.push(Event::HeartbeatLost),
        (true, false) => events.push(Event::HeartbeatRestored),
        _ => {}
    }
    events
}

#[cfg(test)]
mod tests;
