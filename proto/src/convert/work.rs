//! A Work, its manifests, and how its deletion goes.

use fleet_api::placement::WorkResourceIdentifier;
use fleet_core::session::WorkRef;
use jiff::Timestamp;

use super::ms;
use crate::invalid::{Invalid, cut, list, name, required, text, time, uid, word};
use crate::{limits, pb};

/// How a deletion is going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanupProgress {
    /// Which Work.
    pub work: WorkRef,
    /// On the member's clock.
    pub since: Option<Timestamp>,
    /// Objects that are still there.
    pub remaining: u32,
    /// The first of them.
    pub blockers: Vec<Blocker>,
}

/// What a deletion waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocker {
    /// The object.
    pub identifier: WorkResourceIdentifier,
    /// Why it is still there.
    pub reason: String,
}

/// A Work by the names of a message.
pub(super) fn work_ref(work_name: String, work_uid: String) -> Result<WorkRef, Invalid> {
    Ok(WorkRef {
        name: name("name", work_name)?,
        uid: uid("uid", work_uid)?,
    })
}

impl TryFrom<pb::ManifestIdentifier> for WorkResourceIdentifier {
    type Error = Invalid;

    /// Everything but the ordinal may be empty: a manifest that does not decode has no more.
    fn try_from(wire: pb::ManifestIdentifier) -> Result<Self, Invalid> {
        let pb::ManifestIdentifier {
            ordinal,
            group,
            version,
            kind,
            resource,
            namespace,
            name,
        } = wire;
        let short = |field, value| text(field, value, limits::NAME_BYTES);
        Ok(Self {
            ordinal: ordinal.into(),
            group: short("group", group)?,
            version: short("version", version)?,
            kind: short("kind", kind)?,
            resource: short("resource", resource)?,
            namespace: short("namespace", namespace)?,
            // Names of some kinds (RBAC) are freer than DNS names.
            name: text("name", name, limits::KEY_BYTES)?,
        })
    }
}

impl From<WorkResourceIdentifier> for pb::ManifestIdentifier {
    fn from(plain: WorkResourceIdentifier) -> Self {
        let WorkResourceIdentifier {
            ordinal,
            group,
            version,
            kind,
            resource,
            namespace,
            name,
        } = plain;
        Self {
            ordinal: u32::try_from(ordinal).unwrap_or_default(),
            group,
            version,
            kind,
            resource,
            namespace,
            name,
        }
    }
}

impl TryFrom<pb::CleanupProgress> for CleanupProgress {
    type Error = Invalid;

    fn try_from(wire: pb::CleanupProgress) -> Result<Self, Invalid> {
        let pb::CleanupProgress {
            name,
            uid,
            since_ms,
            remaining,
            blockers,
        } = wire;
        Ok(Self {
            work: work_ref(name, uid)?,
            since: time("since_ms", since_ms)?,
            remaining,
            blockers: list("blockers", blockers, limits::BLOCKERS)?,
        })
    }
}

impl From<CleanupProgress> for pb::CleanupProgress {
    fn from(plain: CleanupProgress) -> Self {
        let CleanupProgress {
            work: WorkRef { name, uid },
            since,
            remaining,
            blockers,
        } = plain;
        Self {
            name,
            uid,
            since_ms: since.map_or(0, ms),
            remaining,
            blockers: blockers.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::Blocker> for Blocker {
    type Error = Invalid;

    fn try_from(wire: pb::Blocker) -> Result<Self, Invalid> {
        let pb::Blocker { identifier, reason } = wire;
        Ok(Self {
            identifier: required("identifier", identifier)?
                .try_into()
                .map_err(|e: Invalid| e.within("identifier"))?,
            reason: cut(word("reason", reason, limits::TEXT_BYTES)?, limits::REASON_BYTES),
        })
    }
}

impl From<Blocker> for pb::Blocker {
    fn from(plain: Blocker) -> Self {
        let Blocker { identifier, reason } = plain;
        Self {
            identifier: Some(identifier.into()),
            reason,
        }
    }
}
