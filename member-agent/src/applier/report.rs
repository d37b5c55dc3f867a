//! A Work's status as a message to the hub.

use bytes::Bytes;
use fleet_api::placement::{ManifestCondition, PatchDetail, WorkResourceIdentifier, WorkStatus};
use fleet_core::apply::{decide::Verdict, status::ManifestReport};
use fleet_proto::{
    convert::{self, Condition, DifferenceDetails, ManifestEntry, ManifestIdentifier, Phase, WorkRef},
    limits,
};
use sha2::{Digest as _, Sha256};

/// A report may have this much; what cannot be sent at all would end the session, and every one after it.
const TEXT_MAX: usize = limits::MESSAGE_BYTES / 2;
/// What a sentence may have where everything is cut.
const LEAN_SENTENCE: usize = 1024;

/// The message that carries this status, without details if it was or would be too large with them.
pub(super) fn message(
    work: WorkRef,
    generation: i64,
    status: &WorkStatus,
    reports: &[ManifestReport],
    lean: bool,
) -> convert::WorkStatus {
    let lean = lean || text_bytes(status) > TEXT_MAX;
    let entry = |(condition, report)| entry(condition, report, lean);
    convert::WorkStatus {
        work,
        observed_generation: generation,
        phase: Phase::Result,
        conditions: status
            .conditions
            .iter()
            .map(|condition| said(condition, lean))
            .collect(),
        manifests: status.manifest_conditions.iter().zip(reports).map(entry).collect(),
    }
}

/// Bytes of the parts of a status that can be large.
fn text_bytes(status: &WorkStatus) -> usize {
    let details = |list: &[PatchDetail]| {
        let each = list.iter();
        each.map(|d| d.path.len() + d.value_in_member.len() + d.value_in_hub.len())
            .sum::<usize>()
    };
    let entry = |entry: &ManifestCondition| {
        let sentences: usize = entry.conditions.iter().map(|condition| condition.message.len()).sum();
        let drift = entry.drift_details.as_ref().map_or(0, |d| details(&d.observed_drifts));
        let diff = entry.diff_details.as_ref().map_or(0, |d| details(&d.observed_diffs));
        let mirrored = entry
            .back_reported_status
            .as_ref()
            .and_then(|m| m.observed_status.as_ref());
        sentences + drift + diff + mirrored.map_or(0, |json| json.as_str().len())
    };
    status.manifest_conditions.iter().map(entry).sum()
}

/// The message that says that these manifests are about to be processed.
pub(super) fn preparing<'a>(
    work: WorkRef,
    generation: i64,
    good: impl Iterator<Item = &'a WorkResourceIdentifier>,
) -> convert::WorkStatus {
    convert::WorkStatus {
        work,
        observed_generation: generation,
        phase: Phase::Preparing,
        conditions: Vec::new(),
        manifests: good
            .map(|id| ManifestEntry {
                identifier: identifier(id),
                conditions: Vec::new(),
                drift: None,
                diff: None,
                mirrored: None,
            })
            .collect(),
    }
}

fn entry(condition: &ManifestCondition, report: &ManifestReport, lean: bool) -> ManifestEntry {
    let total = match &report.verdict {
        Verdict::Applied(Some(found))
        | Verdict::Drifted(_, found)
        | Verdict::Differs(_, found)
        | Verdict::Diff(found) => found.total,
        _ => 0,
    };
    let details = |list: &[PatchDetail]| {
        let most = if lean { 1 } else { list.len() };
        list.iter()
            .take(most)
            .map(|detail| convert::PatchDetail {
                path: detail.path.clone(),
                value_in_member: detail.value_in_member.clone(),
                value_in_hub: detail.value_in_hub.clone(),
            })
            .collect()
    };
    ManifestEntry {
        identifier: identifier(&condition.identifier),
        conditions: condition
            .conditions
            .iter()
            .map(|condition| said(condition, lean))
            .collect(),
        drift: condition.drift_details.as_ref().map(|drift| DifferenceDetails {
            observed_at: drift.observation_time.0,
            observed_in_member_generation: Some(drift.observed_in_member_cluster_generation),
            details: details(&drift.observed_drifts),
            total: u32::try_from(total).unwrap_or(u32::MAX),
        }),
        diff: condition.diff_details.as_ref().map(|diff| DifferenceDetails {
            observed_at: diff.observation_time.0,
            observed_in_member_generation: diff.observed_in_member_cluster_generation,
            details: details(&diff.observed_diffs),
            total: u32::try_from(total).unwrap_or(u32::MAX),
        }),
        mirrored: condition
            .back_reported_status
            .as_ref()
            .filter(|_| !lean)
            .and_then(|mirrored| {
                Some(convert::MirroredStatus {
                    observed_at: mirrored.observation_time.0,
                    json: Bytes::copy_from_slice(mirrored.observed_status.as_ref()?.as_str().as_bytes()),
                })
            }),
    }
}

pub(super) fn identifier(id: &WorkResourceIdentifier) -> ManifestIdentifier {
    ManifestIdentifier {
        ordinal: u32::try_from(id.ordinal).unwrap_or_default(),
        group: id.group.clone(),
        version: id.version.clone(),
        kind: id.kind.clone(),
        resource: id.resource.clone(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}

fn said(condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition, lean: bool) -> Condition {
    let mut message = condition.message.clone();
    if lean && message.len() > LEAN_SENTENCE {
        message.truncate(message.floor_char_boundary(LEAN_SENTENCE));
    }
    Condition {
        type_: condition.type_.clone(),
        status: convert::Status::parse(&condition.status).unwrap_or(convert::Status::Unknown),
        reason: condition.reason.clone(),
        message,
        observed_generation: condition.observed_generation.unwrap_or_default(),
    }
}

/// Digest of what is mirrored; empty if nothing is.
pub(super) fn mirrored(status: &WorkStatus) -> String {
    let mut hash = Sha256::new();
    let mut any = false;
    for (index, entry) in status.manifest_conditions.iter().enumerate() {
        let text = entry
            .back_reported_status
            .as_ref()
            .and_then(|mirrored| mirrored.observed_status.as_ref());
        if let Some(text) = text {
            any = true;
            hash.update(index.to_be_bytes());
            hash.update(text.as_str());
        }
    }
    if any { hex(&hash.finalize()) } else { String::new() }
}

/// Digest of a text.
pub(super) fn digest_of(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// Whether the status carries times that grow old.
pub(super) fn has_times(status: &WorkStatus) -> bool {
    status.manifest_conditions.iter().any(|entry| {
        entry.drift_details.is_some() || entry.diff_details.is_some() || entry.back_reported_status.is_some()
    })
}
