//! What came of the manifests of a Work.

use fleet_api::{placement::PatchDetail, raw::RawJson};
use fleet_core::session::{
    WorkRef,
    merge::{Details, Differences, ManifestReport, Mirrored},
    work::{Phase, WorkReport},
};

use super::{OnWire as _, ms, on_wire, work::work_ref};
use crate::invalid::{Invalid, Problem, bounded, generation, list, required, required_time, text};
use crate::{limits, pb};

on_wire!(Phase = WorkPhase as "phase" { Preparing, Result });

impl TryFrom<pb::WorkStatus> for WorkReport {
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
        let report = Self {
            work: work_ref(name, uid)?,
            observed_generation: generation("observed_generation", observed_generation)?,
            phase: Phase::from_wire(phase)?,
            conditions: list("conditions", conditions, limits::CONDITIONS)?,
            manifests: list("manifests", manifests, limits::MANIFESTS)?,
        };
        if report.phase == Phase::Preparing && !report.conditions.is_empty() {
            return Err(Invalid::new(
                "conditions",
                Problem::Malformed("given before there is a result"),
            ));
        }
        Ok(report)
    }
}

impl From<WorkReport> for pb::WorkStatus {
    fn from(plain: WorkReport) -> Self {
        let WorkReport {
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

impl TryFrom<pb::ManifestEntry> for ManifestReport {
    type Error = Invalid;

    fn try_from(wire: pb::ManifestEntry) -> Result<Self, Invalid> {
        let pb::ManifestEntry {
            identifier,
            conditions,
            drift,
            diff,
            mirrored,
        } = wire;
        let differences = |field, wire: pb::DifferenceDetails| Differences::try_from(wire).map_err(|e| e.within(field));
        let details = match (drift, diff) {
            (Some(_), Some(_)) => return Err(Invalid::new("diff", Problem::Malformed("given together with drift"))),
            (Some(drift), None) => Some(Details::Drift(differences("drift", drift)?)),
            (None, Some(diff)) => Some(Details::Diff(differences("diff", diff)?)),
            (None, None) => None,
        };
        Ok(Self {
            identifier: required("identifier", identifier)?
                .try_into()
                .map_err(|e: Invalid| e.within("identifier"))?,
            conditions: list("conditions", conditions, limits::CONDITIONS)?,
            details,
            mirrored: mirrored
                .map(|m| Mirrored::try_from(m).map_err(|e| e.within("mirrored")))
                .transpose()?,
        })
    }
}

impl From<ManifestReport> for pb::ManifestEntry {
    fn from(plain: ManifestReport) -> Self {
        let ManifestReport {
            identifier,
            conditions,
            details,
            mirrored,
        } = plain;
        let (drift, diff) = match details {
            Some(Details::Drift(drift)) => (Some(drift.into()), None),
            Some(Details::Diff(diff)) => (None, Some(diff.into())),
            None => (None, None),
        };
        Self {
            identifier: Some(identifier.into()),
            conditions: conditions.into_iter().map(Into::into).collect(),
            drift,
            diff,
            mirrored: mirrored.map(Into::into),
        }
    }
}

impl TryFrom<pb::DifferenceDetails> for Differences {
    type Error = Invalid;

    fn try_from(wire: pb::DifferenceDetails) -> Result<Self, Invalid> {
        let pb::DifferenceDetails {
            observed_at_ms,
            observed_in_member_generation,
            details,
        } = wire;
        Ok(Self {
            observed_at: required_time("observed_at_ms", observed_at_ms)?,
            generation: observed_in_member_generation
                .map(|g| generation("observed_in_member_generation", g))
                .transpose()?,
            details: list("details", details, limits::DETAILS)?,
        })
    }
}

impl From<Differences> for pb::DifferenceDetails {
    fn from(plain: Differences) -> Self {
        let Differences {
            observed_at,
            generation,
            details,
        } = plain;
        Self {
            observed_at_ms: ms(observed_at),
            observed_in_member_generation: generation,
            details: details.into_iter().map(Into::into).collect(),
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

impl TryFrom<pb::MirroredStatus> for Mirrored {
    type Error = Invalid;

    fn try_from(wire: pb::MirroredStatus) -> Result<Self, Invalid> {
        let pb::MirroredStatus { observed_at_ms, json } = wire;
        bounded("json", json.len(), limits::WORK_OBJECT_BYTES)?;
        if json.is_empty() {
            return Err(Invalid::new("json", Problem::Missing));
        }
        let text = String::from_utf8(json.into()).ok();
        let json = text.and_then(|text| RawJson::from_text(text).ok());
        Ok(Self {
            observed_at: required_time("observed_at_ms", observed_at_ms)?,
            json: json.ok_or_else(|| Invalid::new("json", Problem::Malformed("not JSON")))?,
        })
    }
}

impl From<Mirrored> for pb::MirroredStatus {
    fn from(plain: Mirrored) -> Self {
        let Mirrored { observed_at, json } = plain;
        Self {
            observed_at_ms: ms(observed_at),
            json: json.as_str().to_owned().into(),
        }
    }
}
