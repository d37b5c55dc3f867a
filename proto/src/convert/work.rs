//! What a member says about its Works.

use bytes::Bytes;
use jiff::Timestamp;

use super::{Condition, ms, wire_enum};
use crate::invalid::{
    Invalid, Problem, bounded, cut, generation, list, name, required, required_time, text, time, uid, word,
};
use crate::{limits, pb};

wire_enum! {
    /// How far the member is with a generation.
    Phase = WorkPhase as "phase" {
        /// About to process it.
        Preparing,
        /// Processed.
        Result,
    }
}

/// A Work by name and uid. Its namespace is the session's, never the message's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkRef {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl WorkRef {
    pub(super) fn checked(work_name: String, work_uid: String) -> Result<Self, Invalid> {
        Ok(Self {
            name: name("name", work_name)?,
            uid: uid("uid", work_uid)?,
        })
    }
}

/// Everything about one Work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkStatus {
    /// Which Work.
    pub work: WorkRef,
    /// The generation that it was computed for.
    pub observed_generation: i64,
    /// How far the member is.
    pub phase: Phase,
    /// The Work's conditions.
    pub conditions: Vec<Condition>,
    /// One entry per manifest, in order.
    pub manifests: Vec<ManifestEntry>,
}

/// One manifest's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestEntry {
    /// Which manifest, and what it became.
    pub identifier: ManifestIdentifier,
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Changes made on the member since it was applied.
    pub drift: Option<DifferenceDetails>,
    /// Differences found before it was applied.
    pub diff: Option<DifferenceDetails>,
    /// The live object's status.
    pub mirrored: Option<MirroredStatus>,
}

/// A manifest's position and object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ManifestIdentifier {
    /// Position in the Work.
    pub ordinal: u32,
    /// API group, empty for core.
    pub group: String,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Plural.
    pub resource: String,
    /// Namespace, empty if cluster-scoped.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Drift or diff of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceDetails {
    /// On the member's clock.
    pub observed_at: Timestamp,
    /// Generation of the live object; none if there is none.
    pub observed_in_member_generation: Option<i64>,
    /// The first differences.
    pub details: Vec<PatchDetail>,
    /// How many there were.
    pub total: u32,
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchDetail {
    /// JSON pointer.
    pub path: String,
    /// Empty if it is not there.
    pub value_in_member: String,
    /// Empty if it is not there.
    pub value_in_hub: String,
}

/// Status of a live object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredStatus {
    /// On the member's clock.
    pub observed_at: Timestamp,
    /// JSON with apiVersion, kind and status, as it came.
    pub json: Bytes,
}

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
    pub identifier: ManifestIdentifier,
    /// Why it is still there.
    pub reason: String,
}

impl TryFrom<pb::WorkStatus> for WorkStatus {
    type Error = Invalid;

    fn try_from(wire: pb::WorkStatus) -> Result<Self, Invalid> {
        let pb::WorkStatus {
            name,
            uid,
            observed_generation,
            phase,
            conditions,
            manifests,
        } = wire;
        let status = Self {
            work: WorkRef::checked(name, uid)?,
            observed_generation: generation("observed_generation", observed_generation)?,
            phase: Phase::from_wire(phase)?,
            conditions: list("conditions", conditions, limits::CONDITIONS)?,
            manifests: list("manifests", manifests, limits::MANIFESTS)?,
        };
        if status.phase == Phase::Preparing && !status.conditions.is_empty() {
            return Err(Invalid::new(
                "conditions",
                Problem::Malformed("given before there is a result"),
            ));
        }
        Ok(status)
    }
}

impl From<WorkStatus> for pb::WorkStatus {
    fn from(plain: WorkStatus) -> Self {
        let WorkStatus {
            work: WorkRef { name, uid },
            observed_generation,
            phase,
            conditions,
            manifests,
        } = plain;
        Self {
            name,
            uid,
            observed_generation,
            phase: phase.to_wire(),
            conditions: conditions.into_iter().map(Into::into).collect(),
            manifests: manifests.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::ManifestEntry> for ManifestEntry {
    type Error = Invalid;

    fn try_from(wire: pb::ManifestEntry) -> Result<Self, Invalid> {
        let pb::ManifestEntry {
            identifier,
            conditions,
            drift,
            diff,
            mirrored,
        } = wire;
        if drift.is_some() && diff.is_some() {
            return Err(Invalid::new("diff", Problem::Malformed("given together with drift")));
        }
        let details = |field, wire: Option<pb::DifferenceDetails>| {
            wire.map(|d| DifferenceDetails::try_from(d).map_err(|e| e.within(field)))
                .transpose()
        };
        Ok(Self {
            identifier: required("identifier", identifier)?
                .try_into()
                .map_err(|e: Invalid| e.within("identifier"))?,
            conditions: list("conditions", conditions, limits::CONDITIONS)?,
            drift: details("drift", drift)?,
            diff: details("diff", diff)?,
            mirrored: mirrored
                .map(|m| MirroredStatus::try_from(m).map_err(|e| e.within("mirrored")))
                .transpose()?,
        })
    }
}

impl From<ManifestEntry> for pb::ManifestEntry {
    fn from(plain: ManifestEntry) -> Self {
        let ManifestEntry {
            identifier,
            conditions,
            drift,
            diff,
            mirrored,
        } = plain;
        Self {
            identifier: Some(identifier.into()),
            conditions: conditions.into_iter().map(Into::into).collect(),
            drift: drift.map(Into::into),
            diff: diff.map(Into::into),
            mirrored: mirrored.map(Into::into),
        }
    }
}

impl TryFrom<pb::ManifestIdentifier> for ManifestIdentifier {
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
            ordinal,
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

impl From<ManifestIdentifier> for pb::ManifestIdentifier {
    fn from(plain: ManifestIdentifier) -> Self {
        let ManifestIdentifier {
            ordinal,
            group,
            version,
            kind,
            resource,
            namespace,
            name,
        } = plain;
        Self {
            ordinal,
            group,
            version,
            kind,
            resource,
            namespace,
            name,
        }
    }
}

impl TryFrom<pb::DifferenceDetails> for DifferenceDetails {
    type Error = Invalid;

    fn try_from(wire: pb::DifferenceDetails) -> Result<Self, Invalid> {
        let pb::DifferenceDetails {
            observed_at_ms,
            observed_in_member_generation,
            details,
            total,
        } = wire;
        let details: Vec<PatchDetail> = list("details", details, limits::DETAILS)?;
        let listed = u32::try_from(details.len()).unwrap_or(u32::MAX);
        Ok(Self {
            observed_at: required_time("observed_at_ms", observed_at_ms)?,
            observed_in_member_generation: observed_in_member_generation
                .map(|g| generation("observed_in_member_generation", g))
                .transpose()?,
            details,
            // An older member does not say; then nothing was cut.
            total: total.max(listed),
        })
    }
}

impl From<DifferenceDetails> for pb::DifferenceDetails {
    fn from(plain: DifferenceDetails) -> Self {
        let DifferenceDetails {
            observed_at,
            observed_in_member_generation,
            details,
            total,
        } = plain;
        Self {
            observed_at_ms: ms(observed_at),
            observed_in_member_generation,
            details: details.into_iter().map(Into::into).collect(),
            total,
        }
    }
}

impl TryFrom<pb::PatchDetail> for PatchDetail {
    type Error = Invalid;

    fn try_from(wire: pb::PatchDetail) -> Result<Self, Invalid> {
        let pb::PatchDetail {
            path,
            value_in_member,
            value_in_hub,
        } = wire;
        Ok(Self {
            path: text("path", path, limits::PATH_BYTES)?,
            value_in_member: text("value_in_member", value_in_member, limits::VALUE_BYTES)?,
            value_in_hub: text("value_in_hub", value_in_hub, limits::VALUE_BYTES)?,
        })
    }
}

impl From<PatchDetail> for pb::PatchDetail {
    fn from(plain: PatchDetail) -> Self {
        let PatchDetail {
            path,
            value_in_member,
            value_in_hub,
        } = plain;
        Self {
            path,
            value_in_member,
            value_in_hub,
        }
    }
}

impl TryFrom<pb::MirroredStatus> for MirroredStatus {
    type Error = Invalid;

    fn try_from(wire: pb::MirroredStatus) -> Result<Self, Invalid> {
        let pb::MirroredStatus { observed_at_ms, json } = wire;
        bounded("json", json.len(), limits::WORK_OBJECT_BYTES)?;
        if json.is_empty() {
            return Err(Invalid::new("json", Problem::Missing));
        }
        Ok(Self {
            observed_at: required_time("observed_at_ms", observed_at_ms)?,
            json,
        })
    }
}

impl From<MirroredStatus> for pb::MirroredStatus {
    fn from(plain: MirroredStatus) -> Self {
        let MirroredStatus { observed_at, json } = plain;
        Self {
            observed_at_ms: ms(observed_at),
            json,
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
            work: WorkRef::checked(name, uid)?,
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
