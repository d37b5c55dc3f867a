//! Why sessions end, and when members may come back.

use std::time::Duration;

use fleet_core::session::epoch::SessionId;
use fleet_proto::convert::RejectCode;

/// Why a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Close {
    /// What the member is told.
    pub(crate) code: RejectCode,
    /// The same for people.
    pub(crate) message: String,
    /// When it may come back; zero leaves it to the member.
    pub(crate) retry_after: Duration,
    /// The newer leader of the same cluster, if there is one: then the member stops applying.
    pub(crate) fenced: Option<SessionId>,
}

impl Close {
    pub(crate) fn new(code: RejectCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retry_after: Duration::ZERO,
            fenced: None,
        }
    }
}

/// Somewhere in the next seconds, so that members do not come back in one instant.
pub(super) fn later() -> Duration {
    Duration::from_millis(fastrand::u64(500..5_000))
}

/// Nobody can be judged yet.
pub(super) fn starting() -> Close {
    Close::new(RejectCode::Unavailable, "the hub agent is still starting")
}

pub(super) fn stopping() -> Close {
    Close {
        // Soon: another replica is there, or the next one starts.
        retry_after: Duration::from_millis(fastrand::u64(100..2_000)),
        ..Close::new(RejectCode::Unavailable, "the hub agent is stopping")
    }
}
