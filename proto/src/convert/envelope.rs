//! The two envelopes, and what only they carry.

use fleet_core::session::{
    Outcome, WorkRef,
    cluster::{AgentReport, PropertiesReport},
    work::WorkReport,
};

use super::{Accept, CleanupProgress, Event, Hello, OnWire as _, Reject, on_wire, work::work_ref};
use crate::invalid::{Invalid, Problem, cut, generation, required, text, uid};
use crate::{limits, pb};

/// A message of a member.
#[derive(Debug, Clone, PartialEq)]
pub struct FromMember {
    /// Increases within a session.
    pub seq: u64,
    /// The session; zero in Hello.
    pub epoch: u64,
    /// What it says.
    pub body: MemberMessage,
}

/// What a member can say.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberMessage {
    /// Opens the session.
    Hello(Hello),
    /// Alive.
    Heartbeat,
    /// Joined and Healthy.
    AgentStatus(AgentReport),
    /// About the cluster.
    Properties(PropertiesReport),
    /// About a Work.
    WorkStatus(WorkReport),
    /// Wants to start applying a Work.
    Claim(WorkRef),
    /// Still deleting.
    CleanupProgress(CleanupProgress),
    /// Nothing is left of a Work.
    CleanupComplete(WorkRef),
    /// The join gate is closed for this InternalMemberCluster uid and generation.
    ApplierStopped {
        /// Its uid.
        imc_uid: String,
        /// Its generation.
        imc_generation: i64,
    },
    /// For people.
    Event(Event),
}

/// What the hub can say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HubMessage {
    /// The session is open.
    Accept(Accept),
    /// The stream ends.
    Reject(Reject),
    /// A report was dealt with.
    Ack(Ack),
    /// Stop applying.
    Fenced {
        /// The newer session.
        session: u64,
        /// Its leadership.
        lease_transitions: u64,
    },
}

/// The answer to one report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Which message.
    pub seq: u64,
    /// Which Work, if it was about one.
    pub work: Option<WorkRef>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why.
    pub reason: String,
}

on_wire!(Outcome = Outcome as "outcome" {
    Persisted, Unchanged, Superseded, UidMismatch, Gone, NotDeleting, Invalid, RetryLater, TooLarge,
});

impl TryFrom<pb::MemberMessage> for FromMember {
    type Error = Invalid;

    fn try_from(wire: pb::MemberMessage) -> Result<Self, Invalid> {
        use pb::member_message::Body;
        let pb::MemberMessage { seq, epoch, body } = wire;
        let body = match required("body", body)? {
            Body::Hello(m) => Hello::try_from(m)
                .map(MemberMessage::Hello)
                .map_err(|e| e.within("hello")),
            Body::Heartbeat(pb::Heartbeat {}) => Ok(MemberMessage::Heartbeat),
            Body::AgentStatus(m) => AgentReport::try_from(m)
                .map(MemberMessage::AgentStatus)
                .map_err(|e| e.within("agent_status")),
            Body::Properties(m) => PropertiesReport::try_from(m)
                .map(MemberMessage::Properties)
                .map_err(|e| e.within("properties")),
            Body::WorkStatus(m) => WorkReport::try_from(m)
                .map(MemberMessage::WorkStatus)
                .map_err(|e| e.within("work_status")),
            Body::Claim(pb::Claim { name, uid }) => work_ref(name, uid)
                .map(MemberMessage::Claim)
                .map_err(|e| e.within("claim")),
            Body::CleanupProgress(m) => CleanupProgress::try_from(m)
                .map(MemberMessage::CleanupProgress)
                .map_err(|e| e.within("cleanup_progress")),
            Body::CleanupComplete(pb::CleanupComplete { name, uid }) => work_ref(name, uid)
                .map(MemberMessage::CleanupComplete)
                .map_err(|e| e.within("cleanup_complete")),
            Body::ApplierStopped(m) => stopped(m).map_err(|e| e.within("applier_stopped")),
            Body::Event(m) => Event::try_from(m)
                .map(MemberMessage::Event)
                .map_err(|e| e.within("event")),
        }?;
        if seq == 0 {
            return Err(Invalid::new("seq", Problem::Missing));
        }
        match (&body, epoch) {
            (MemberMessage::Hello(_), 0) => {}
            (MemberMessage::Hello(_), _) => {
                return Err(Invalid::new(
                    "epoch",
                    Problem::Malformed("given before a session is open"),
                ));
            }
            (_, 0) => return Err(Invalid::new("epoch", Problem::Missing)),
            _ => {}
        }
        Ok(Self { seq, epoch, body })
    }
}

fn stopped(wire: pb::ApplierStopped) -> Result<MemberMessage, Invalid> {
    let pb::ApplierStopped {
        imc_uid,
        imc_generation,
    } = wire;
    Ok(MemberMessage::ApplierStopped {
        imc_uid: uid("imc_uid", imc_uid)?,
        imc_generation: generation("imc_generation", imc_generation)?,
    })
}

impl From<FromMember> for pb::MemberMessage {
    fn from(plain: FromMember) -> Self {
        use pb::member_message::Body;
        let FromMember { seq, epoch, body } = plain;
        let body = match body {
            MemberMessage::Hello(m) => Body::Hello(m.into()),
            MemberMessage::Heartbeat => Body::Heartbeat(pb::Heartbeat {}),
            MemberMessage::AgentStatus(m) => Body::AgentStatus(m.into()),
            MemberMessage::Properties(m) => Body::Properties(m.into()),
            MemberMessage::WorkStatus(m) => Body::WorkStatus(m.into()),
            MemberMessage::Claim(WorkRef { name, uid }) => Body::Claim(pb::Claim { name, uid }),
            MemberMessage::CleanupProgress(m) => Body::CleanupProgress(m.into()),
            MemberMessage::CleanupComplete(WorkRef { name, uid }) => {
                Body::CleanupComplete(pb::CleanupComplete { name, uid })
            }
            MemberMessage::ApplierStopped {
                imc_uid,
                imc_generation,
            } => Body::ApplierStopped(pb::ApplierStopped {
                imc_uid,
                imc_generation,
            }),
            MemberMessage::Event(m) => Body::Event(m.into()),
        };
        Self {
            seq,
            epoch,
            body: Some(body),
        }
    }
}

impl TryFrom<pb::HubMessage> for HubMessage {
    type Error = Invalid;

    fn try_from(wire: pb::HubMessage) -> Result<Self, Invalid> {
        use pb::hub_message::Body;
        let pb::HubMessage { body } = wire;
        match required("body", body)? {
            Body::Accept(m) => Accept::try_from(m).map(Self::Accept).map_err(|e| e.within("accept")),
            Body::Reject(m) => Reject::try_from(m).map(Self::Reject).map_err(|e| e.within("reject")),
            Body::Ack(m) => Ack::try_from(m).map(Self::Ack).map_err(|e| e.within("ack")),
            Body::Fenced(pb::Fenced {
                newer_session,
                newer_lease_transitions,
            }) => Ok(Self::Fenced {
                session: newer_session,
                lease_transitions: newer_lease_transitions,
            }),
        }
    }
}

impl From<HubMessage> for pb::HubMessage {
    fn from(plain: HubMessage) -> Self {
        use pb::hub_message::Body;
        let body = match plain {
            HubMessage::Accept(m) => Body::Accept(m.into()),
            HubMessage::Reject(m) => Body::Reject(m.into()),
            HubMessage::Ack(m) => Body::Ack(m.into()),
            HubMessage::Fenced {
                session,
                lease_transitions,
            } => Body::Fenced(pb::Fenced {
                newer_session: session,
                newer_lease_transitions: lease_transitions,
            }),
        };
        Self { body: Some(body) }
    }
}

impl TryFrom<pb::Ack> for Ack {
    type Error = Invalid;

    fn try_from(wire: pb::Ack) -> Result<Self, Invalid> {
        let pb::Ack {
            seq,
            work_name,
            work_uid,
            outcome,
            reason,
        } = wire;
        let work = match (work_name.is_empty(), work_uid.is_empty()) {
            (true, true) => None,
            _ => Some(work_ref(work_name, work_uid)?),
        };
        Ok(Self {
            seq,
            work,
            outcome: Outcome::from_wire(outcome)?,
            reason: cut(text("reason", reason, limits::MESSAGE_BYTES)?, limits::TEXT_BYTES),
        })
    }
}

impl From<Ack> for pb::Ack {
    fn from(plain: Ack) -> Self {
        let Ack {
            seq,
            work,
            outcome,
            reason,
        } = plain;
        let (work_name, work_uid) = work.map_or_else(Default::default, |WorkRef { name, uid }| (name, uid));
        Self {
            seq,
            work_name,
            work_uid,
            outcome: outcome.to_wire(),
            reason,
        }
    }
}
