//! A Work's status as a message to the hub.

use fleet_api::{
    conditions::Status,
    placement::{ManifestCondition, PatchDetail, WorkResourceIdentifier, WorkStatus},
};
use fleet_core::session::{
    WorkRef,
    condition::ReportedCondition,
    merge::{Details, Differences, ManifestReport, Mirrored},
    work::{Phase, WorkReport},
};
use fleet_proto::limits;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use sha2::{Digest as _, Sha256};

use crate::applier::digest::hex;

/// A report may have this much; what cannot be sent at all would end the session, and every one after it.
const TEXT_MAX: usize = limits::MESSAGE_BYTES / 2;
/// What a sentence may have where everything is cut.
const LEAN_SENTENCE: usize = 1024;

/// The message that carries this status, without details if it was or would be too large with them.
pub(super) fn message(work: WorkRef, generation: i64, status: &WorkStatus, lean: bool) -> WorkReport {
    let lean = lean || text_bytes(status) > TEXT_MAX;
    WorkReport {
        work,
        observed_generation: generation,
        phase: Phase::Result,
        conditions: status
            .conditions
            .iter()
            .map(|condition| said(condition, lean))
            .collect(),
        manifests: status
            .manifest_conditions
            .iter()
            .map(|condition| entry(condition, lean))
            .collect(),
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
) -> WorkReport {
    WorkReport {
        work,
        observed_generation: generation,
        phase: Phase::Preparing,
        conditions: Vec::new(),
        manifests: good
            .map(|id| ManifestReport {
                identifier: id.clone(),
                conditions: Vec::new(),
                details: None,
                mirrored: None,
            })
            .collect(),
    }
}

fn entry(condition: &ManifestCondition, lean: bool) -> ManifestReport {
    let listed = |list: &[PatchDetail]| {
        let most = if lean { 1 } else { list.len() };
        list.iter().take(most).cloned().collect()
    };
    let drift = condition.drift_details.as_ref().map(|drift| {
        Details::Drift(Differences {
            observed_at: drift.observation_time.0,
            generation: Some(drift.observed_in_member_cluster_generation),
            details: listed(&drift.observed_drifts),
        })
    });
    let diff = condition.diff_details.as_ref().map(|diff| {
        Details::Diff(Differences {
            observed_at: diff.observation_time.0,
            generation: diff.observed_in_member_cluster_generation,
            details: listed(&diff.observed_diffs),
        })
    });
    let mirrored = condition.back_reported_status.as_ref().filter(|_| !lean);
    ManifestReport {
        identifier: condition.identifier.clone(),
        conditions: condition
            .conditions
            .iter()
            .map(|condition| said(condition, lean))
            .collect(),
        details: drift.or(diff),
        mirrored: mirrored.and_then(|mirrored| {
            Some(Mirrored {
                observed_at: mirrored.observation_time.0,
                json: mirrored.observed_status.clone()?,
            })
        }),
    }
}

fn said(condition: &Condition, lean: bool) -> ReportedCondition {
    let mut message = condition.message.clone();
    if lean && message.len() > LEAN_SENTENCE {
        message.truncate(message.floor_char_boundary(LEAN_SENTENCE));
    }
    ReportedCondition {
        type_: condition.type_.clone(),
        status: Status::of(condition),
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

/// Whether the status carries times that grow old.
pub(super) fn has_times(status: &WorkStatus) -> bool {
    status.manifest_conditions.iter().any(|entry| {
        entry.drift_details.is_some() || entry.diff_details.is_some() || entry.back_reported_status.is_some()
    })
}
