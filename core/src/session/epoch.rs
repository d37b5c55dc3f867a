//! Which session speaks for a member: the annotation that every replica of the hub agent reads and writes.

use std::fmt;
use std::str::FromStr;

use fleet_api::annotations::MEMBER_SESSION;
use fleet_api::cluster::InternalMemberCluster;

/// `<cluster UID>/<lease transitions>/<session>` on the InternalMemberCluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionId {
    /// uid of the member cluster's kube-system namespace.
    pub cluster_uid: String,
    /// Transitions of the member's own Lease.
    pub lease_transitions: u64,
    /// Counts the sessions of this InternalMemberCluster, whichever replica served them.
    pub session: u64,
}

/// Not a session annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not of the form <cluster UID>/<lease transitions>/<session>")]
pub struct NotASession;

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.cluster_uid, self.lease_transitions, self.session)
    }
}

impl FromStr for SessionId {
    type Err = NotASession;

    fn from_str(text: &str) -> Result<Self, NotASession> {
        let mut parts = text.split('/');
        let (Some(uid), Some(lease), Some(session), None) = (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NotASession);
        };
        if uid.is_empty() {
            return Err(NotASession);
        }
        Ok(Self {
            cluster_uid: uid.into(),
            lease_transitions: lease.parse().map_err(|_| NotASession)?,
            session: session.parse().map_err(|_| NotASession)?,
        })
    }
}

/// The session that an InternalMemberCluster names. What is not of our form counts as none.
pub fn stored(imc: &InternalMemberCluster) -> Option<SessionId> {
    imc.metadata.annotations.as_ref()?.get(MEMBER_SESSION)?.parse().ok()
}

/// Where a session stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It speaks for the member.
    Current,
    /// Another one does: close this one as superseded and discard what it queued.
    Fenced(Option<SessionId>),
}

/// Where the session `mine` stands, now that the InternalMemberCluster reads so. Only a *newer* session fences: a cache
/// that is still behind our own acceptance shows an older one.
pub fn standing(mine: &SessionId, named: Option<SessionId>) -> Standing {
    match named {
        Some(other) if other.session > mine.session => Standing::Fenced(Some(other)),
        Some(other) if other.session == mine.session && other != *mine => Standing::Fenced(Some(other)),
        _ => Standing::Current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SessionId {
        text.parse().expect(text)
    }

    #[test]
    fn the_annotation_reads_as_it_is_written() {
        assert_eq!(id("abc-1/2/3").to_string(), "abc-1/2/3");
        for bad in ["", "a", "a/1", "a/1/2/3", "/1/2", "a/x/2", "a/1/-2", "a/1/"] {
            assert_eq!(bad.parse::<SessionId>(), Err(NotASession), "{bad}");
        }
    }

    #[test]
    fn only_a_newer_session_fences() {
        let mine = id("u/1/5");
        assert_eq!(standing(&mine, Some(id("u/1/5"))), Standing::Current);
        assert_eq!(
            standing(&mine, Some(id("u/1/4"))),
            Standing::Current,
            "a cache that is behind"
        );
        assert_eq!(standing(&mine, None), Standing::Current);
        assert_eq!(standing(&mine, Some(id("u/2/6"))), Standing::Fenced(Some(id("u/2/6"))));
        assert_eq!(
            standing(&mine, Some(id("v/1/5"))),
            Standing::Fenced(Some(id("v/1/5"))),
            "lost the race"
        );
    }
}
