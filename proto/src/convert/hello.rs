//! Opening a session: Hello, and the hub's two answers.

use std::collections::BTreeMap;

use fleet_api::cluster::AgentType;
use fleet_core::session::{
    digest::KnownWork,
    hello::{Claim, Refusal},
};
use jiff::Timestamp;

use super::{OnWire as _, ms, on_wire};
use crate::invalid::{Invalid, bounded, cut, generation, list, map, name, required, text, time, uid, word};
use crate::{limits, pb};

/// Why a stream is not, or no longer, welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectCode {
    /// The credential proves nothing, or no longer does.
    Unauthenticated,
    /// Not the identity of the MemberCluster that it claims to be, or no such MemberCluster.
    PermissionDenied,
    /// The caller's membership is gone or going.
    NotMember,
    /// A newer session of the same cluster exists.
    Superseded,
    /// Another cluster has this name.
    AlreadyConnected,
    /// No common protocol version, or an unknown agent type.
    Unsupported,
    /// Rate, size or order of messages broke the rules.
    Misbehaved,
    /// The hub cannot judge right now.
    Unavailable,
}

impl RejectCode {
    /// As a label of metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::PermissionDenied => "permission_denied",
            Self::NotMember => "not_member",
            Self::Superseded => "superseded",
            Self::AlreadyConnected => "already_connected",
            Self::Unsupported => "unsupported",
            Self::Misbehaved => "misbehaved",
            Self::Unavailable => "unavailable",
        }
    }
}

on_wire!(RejectCode = RejectCode as "code" {
    Unauthenticated, PermissionDenied, NotMember, Superseded, AlreadyConnected, Unsupported, Misbehaved, Unavailable,
});
on_wire!(AgentType = AgentType as "agent_type" {
    MemberAgent, MultiClusterServiceAgent, ServiceExportImportAgent,
} Self::Unknown(_));

impl From<Refusal> for RejectCode {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::PermissionDenied => Self::PermissionDenied,
            Refusal::NotMember => Self::NotMember,
            Refusal::Superseded => Self::Superseded,
            Refusal::AlreadyConnected => Self::AlreadyConnected,
            Refusal::Unsupported => Self::Unsupported,
        }
    }
}

/// The first message of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The MemberCluster that the caller says it is.
    pub member_cluster: String,
    /// Which agent.
    pub agent_type: AgentType,
    /// The highest protocol version that it speaks.
    pub protocol_version: u32,
    /// For people.
    pub build_version: String,
    /// Random per process.
    pub instance_id: String,
    /// Transitions of the member's own Lease.
    pub lease_transitions: u64,
    /// uid of the member's kube-system namespace.
    pub cluster_uid: String,
    /// Labels that the platform gave the cluster.
    pub platform_labels: BTreeMap<String, String>,
    /// What the member holds.
    pub works: Vec<KnownWork>,
    /// AppliedWorks without a Work.
    pub orphaned_applied_works: Vec<String>,
}

impl Hello {
    /// What decides about it.
    pub fn claim(&self) -> Claim {
        Claim {
            member_cluster: self.member_cluster.clone(),
            agent_type: self.agent_type.clone(),
            protocol_version: self.protocol_version,
            cluster_uid: self.cluster_uid.clone(),
            lease_transitions: self.lease_transitions,
        }
    }
}

/// The session is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accept {
    /// Number of the session.
    pub session: u64,
    /// The version that the session speaks.
    pub protocol_version: u32,
    /// The hub's clock. Nobody reads it; members up to 0.1 demand that it is there.
    pub hub_time: Option<Timestamp>,
    /// uid of the InternalMemberCluster as the hub knows it.
    pub imc_uid: String,
    /// Its generation.
    pub imc_generation: i64,
    /// What the hub enforces.
    pub limits: SessionLimits,
    /// Works to report again.
    pub resend_works: Vec<String>,
    /// For people.
    pub build_version: String,
}

/// What the hub enforces per session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// Bytes of one message.
    pub max_message_bytes: u64,
    /// Reports without an answer.
    pub max_in_flight: u32,
    /// Sustained rate.
    pub messages_per_second: u32,
    /// Sustained rate.
    pub bytes_per_second: u32,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: limits::MESSAGE_BYTES as u64,
            max_in_flight: limits::IN_FLIGHT,
            messages_per_second: limits::MESSAGES_PER_SECOND,
            bytes_per_second: limits::BYTES_PER_SECOND,
        }
    }
}

/// The last message of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reject {
    /// Why.
    pub code: RejectCode,
    /// Why, for people.
    pub message: String,
    /// Try again no sooner; zero leaves it to the member.
    pub retry_after_ms: u64,
}

impl TryFrom<pb::Hello> for Hello {
    type Error = Invalid;

    fn try_from(wire: pb::Hello) -> Result<Self, Invalid> {
        let pb::Hello {
            member_cluster,
            agent_type,
            protocol_version,
            build_version,
            instance_id,
            lease_transitions,
            cluster_uid,
            platform_labels,
            works,
            orphaned_applied_works,
        } = wire;
        bounded("orphaned_applied_works", orphaned_applied_works.len(), limits::ORPHANS)?;
        Ok(Self {
            member_cluster: name("member_cluster", member_cluster)?,
            agent_type: AgentType::from_wire(agent_type)?,
            protocol_version: required("protocol_version", Some(protocol_version).filter(|v| *v > 0))?,
            build_version: text("build_version", build_version, limits::WORD_BYTES)?,
            instance_id: word("instance_id", instance_id, limits::WORD_BYTES)?,
            lease_transitions,
            cluster_uid: uid("cluster_uid", cluster_uid)?,
            platform_labels: map(
                "platform_labels",
                platform_labels,
                limits::PLATFORM_LABELS,
                limits::KEY_BYTES,
                limits::LABEL_VALUE_BYTES,
            )?,
            works: list("works", works, limits::WORKS)?,
            orphaned_applied_works: orphaned_applied_works
                .into_iter()
                .map(|n| name("orphaned_applied_works", n))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl From<Hello> for pb::Hello {
    fn from(plain: Hello) -> Self {
        let Hello {
            member_cluster,
            agent_type,
            protocol_version,
            build_version,
            instance_id,
            lease_transitions,
            cluster_uid,
            platform_labels,
            works,
            orphaned_applied_works,
        } = plain;
        Self {
            member_cluster,
            agent_type: agent_type.to_wire(),
            protocol_version,
            build_version,
            instance_id,
            lease_transitions,
            cluster_uid,
            platform_labels,
            works: works.into_iter().map(Into::into).collect(),
            orphaned_applied_works,
        }
    }
}

impl TryFrom<pb::KnownWork> for KnownWork {
    type Error = Invalid;

    fn try_from(wire: pb::KnownWork) -> Result<Self, Invalid> {
        let pb::KnownWork {
            name: known,
            uid: known_uid,
            generation: processed,
            status_digest,
        } = wire;
        bounded("status_digest", status_digest.len(), limits::DIGEST_BYTES)?;
        Ok(Self {
            name: name("name", known)?,
            uid: uid("uid", known_uid)?,
            generation: generation("generation", processed)?,
            status_digest: status_digest.into(),
        })
    }
}

impl From<KnownWork> for pb::KnownWork {
    fn from(plain: KnownWork) -> Self {
        let KnownWork {
            name,
            uid,
            generation,
            status_digest,
        } = plain;
        Self {
            name,
            uid,
            generation,
            status_digest: status_digest.into(),
        }
    }
}

impl TryFrom<pb::Accept> for Accept {
    type Error = Invalid;

    fn try_from(wire: pb::Accept) -> Result<Self, Invalid> {
        let pb::Accept {
            session,
            protocol_version,
            hub_time_ms,
            imc_uid,
            imc_generation,
            limits: enforced,
            resend_works,
            build_version,
        } = wire;
        bounded("resend_works", resend_works.len(), limits::WORKS)?;
        Ok(Self {
            session: required("session", Some(session).filter(|s| *s > 0))?,
            protocol_version: required("protocol_version", Some(protocol_version).filter(|v| *v > 0))?,
            hub_time: time("hub_time_ms", hub_time_ms)?,
            imc_uid: uid("imc_uid", imc_uid)?,
            imc_generation: generation("imc_generation", imc_generation)?,
            limits: required("limits", enforced)?.into(),
            resend_works: resend_works
                .into_iter()
                .map(|n| name("resend_works", n))
                .collect::<Result<_, _>>()?,
            build_version: text("build_version", build_version, limits::WORD_BYTES)?,
        })
    }
}

impl From<Accept> for pb::Accept {
    fn from(plain: Accept) -> Self {
        let Accept {
            session,
            protocol_version,
            hub_time,
            imc_uid,
            imc_generation,
            limits: enforced,
            resend_works,
            build_version,
        } = plain;
        Self {
            session,
            protocol_version,
            hub_time_ms: hub_time.map(ms).unwrap_or_default(),
            imc_uid,
            imc_generation,
            limits: Some(enforced.into()),
            resend_works,
            build_version,
        }
    }
}

impl From<pb::Limits> for SessionLimits {
    /// Zero means "not said" and leaves the default, so that a hub that enforces less is understood.
    fn from(wire: pb::Limits) -> Self {
        let pb::Limits {
            max_message_bytes,
            max_in_flight,
            messages_per_second,
            bytes_per_second,
        } = wire;
        let default = Self::default();
        let or = |said: u32, default: u32| if said == 0 { default } else { said };
        Self {
            max_message_bytes: if max_message_bytes == 0 {
                default.max_message_bytes
            } else {
                max_message_bytes
            },
            max_in_flight: or(max_in_flight, default.max_in_flight),
            messages_per_second: or(messages_per_second, default.messages_per_second),
            bytes_per_second: or(bytes_per_second, default.bytes_per_second),
        }
    }
}

impl From<SessionLimits> for pb::Limits {
    fn from(plain: SessionLimits) -> Self {
        let SessionLimits {
            max_message_bytes,
            max_in_flight,
            messages_per_second,
            bytes_per_second,
        } = plain;
        Self {
            max_message_bytes,
            max_in_flight,
            messages_per_second,
            bytes_per_second,
        }
    }
}

impl TryFrom<pb::Reject> for Reject {
    type Error = Invalid;

    fn try_from(wire: pb::Reject) -> Result<Self, Invalid> {
        let pb::Reject {
            code,
            message,
            retry_after_ms,
        } = wire;
        Ok(Self {
            code: RejectCode::from_wire(code)?,
            message: cut(message, limits::TEXT_BYTES),
            retry_after_ms,
        })
    }
}

impl From<Reject> for pb::Reject {
    fn from(plain: Reject) -> Self {
        let Reject {
            code,
            message,
            retry_after_ms,
        } = plain;
        Self {
            code: code.to_wire(),
            message,
            retry_after_ms,
        }
    }
}
