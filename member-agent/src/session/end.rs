//! Why a session, or an attempt at one, ended.

use fleet_proto::convert::{Reject, RejectCode};
use tonic::Code;

/// Why it ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum End {
    /// Nobody says where to connect, or what is said makes no sense.
    #[error("{0}")]
    NoEndpoint(String),
    /// There is nothing to prove ourselves with.
    #[error("no credential for the hub: {0}")]
    NoCredential(String),
    /// No connection, or the other side could not prove to be the hub. No credential has been sent.
    #[error("could not connect to {address}: {error}")]
    Connect {
        /// Where to.
        address: String,
        /// Why not.
        error: String,
    },
    /// The hub did not answer in time.
    #[error("the hub did not answer our Hello within {0} s")]
    Silent(u64),
    /// The hub does not want us, or no longer.
    #[error("the hub refused us: {code:?}: {message}")]
    Rejected {
        /// In one word.
        code: RejectCode,
        /// In full.
        message: String,
        /// Not to try again sooner than this.
        retry_after_ms: u64,
    },
    /// A newer session of this cluster exists.
    #[error("a newer session ({session}, lease transitions {lease_transitions}) speaks for this cluster")]
    Fenced {
        /// The newer session.
        session: u64,
        /// Its leadership.
        lease_transitions: u64,
    },
    /// The stream broke.
    #[error("the stream broke: {0}")]
    Broken(String),
    /// The hub closed the stream without a word.
    #[error("the hub closed the stream")]
    Closed,
    /// The InternalMemberCluster is gone: there is nobody to speak for.
    #[error("the InternalMemberCluster is gone")]
    Gone,
}

impl End {
    /// For metrics: a closed set.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoEndpoint(_) => "no_endpoint",
            Self::NoCredential(_) => "no_credential",
            Self::Connect { .. } => "connect",
            Self::Silent(_) => "silent",
            Self::Rejected { code, .. } => code.word(),
            Self::Fenced { .. } => "fenced",
            Self::Broken(_) => "broken",
            Self::Closed => "closed",
            Self::Gone => "gone",
        }
    }

    /// Whether the cluster is not a member as far as the hub is concerned, which somebody may be about to change.
    pub(super) fn not_member(&self) -> bool {
        matches!(
            self,
            Self::Rejected {
                code: RejectCode::NotMember | RejectCode::PermissionDenied,
                ..
            } | Self::NoEndpoint(_)
                | Self::Gone
        )
    }

    /// Whether the hub knows no cluster that we could speak for. Alone it may be a mistake in an identity.
    pub(super) fn denies(&self) -> bool {
        let code = RejectCode::PermissionDenied;
        matches!(self, Self::Rejected { code: said, .. } if *said == code)
    }

    /// Whether somebody else speaks for this cluster, or nobody may: we must not apply until the hub accepts us again.
    pub(super) fn bars(&self) -> bool {
        matches!(
            self,
            Self::Fenced { .. }
                | Self::Rejected {
                    code: RejectCode::NotMember | RejectCode::Superseded | RejectCode::AlreadyConnected,
                    ..
                }
        )
    }
}

impl From<Reject> for End {
    fn from(reject: Reject) -> Self {
        let Reject {
            code,
            message,
            retry_after_ms,
        } = reject;
        Self::Rejected {
            code,
            message,
            retry_after_ms,
        }
    }
}

impl From<tonic::Status> for End {
    /// A hub, or a proxy before it, that answers with a status instead of a message.
    fn from(status: tonic::Status) -> Self {
        let code = match status.code() {
            Code::Unauthenticated => RejectCode::Unauthenticated,
            Code::PermissionDenied => RejectCode::PermissionDenied,
            Code::Unimplemented => RejectCode::Unsupported,
            Code::ResourceExhausted => RejectCode::Unavailable,
            _ => return Self::Broken(format!("{:?}: {}", status.code(), status.message())),
        };
        Self::Rejected {
            code,
            message: status.message().to_owned(),
            retry_after_ms: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(code: RejectCode) -> End {
        End::Rejected {
            code,
            message: String::new(),
            retry_after_ms: 0,
        }
    }

    #[test]
    fn only_who_must_not_apply_is_barred() {
        for code in [
            RejectCode::NotMember,
            RejectCode::Superseded,
            RejectCode::AlreadyConnected,
        ] {
            assert!(rejected(code).bars(), "{code:?}");
        }
        for code in [
            RejectCode::Unauthenticated,
            RejectCode::PermissionDenied,
            RejectCode::Unsupported,
            RejectCode::Misbehaved,
            RejectCode::Unavailable,
        ] {
            assert!(
                !rejected(code).bars(),
                "trouble with the channel stops nothing: {code:?}"
            );
        }
        assert!(!End::Closed.bars() && !End::Broken(String::new()).bars());
    }

    #[test]
    fn a_status_is_as_good_as_a_reject() {
        let end = End::from(tonic::Status::permission_denied("no"));
        assert!(end.not_member());
        assert_eq!(end.reason(), "permission_denied");
        assert_eq!(End::from(tonic::Status::unavailable("away")).reason(), "broken");
    }
}
