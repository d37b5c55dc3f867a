//! A report about a Work, merged with the status that is stored.

use std::collections::BTreeMap;

use fleet_api::conditions::{self, Status, manifest, work as words};
use fleet_api::names::manifest_identity;
use fleet_api::placement::{
    BackReportedStatus, DiffDetails, DriftDetails, ManifestCondition, PatchDetail, WorkResourceIdentifier, WorkStatus,
};
use fleet_api::raw::RawJson;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::condition::{ReportedCondition, clamped};

/// A refresh of observation times alone is stored at most this often.
pub const REFRESH_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// What a member says about one manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestReport {
    /// Which manifest, and what it became.
    pub identifier: WorkResourceIdentifier,
    /// Its conditions.
    pub conditions: Vec<ReportedCondition>,
    /// Drift or diff; never both.
    pub details: Option<Details>,
    /// The live object's status.
    pub mirrored: Option<Mirrored>,
}

/// Differences between hub and member.
#[derive(Debug, Clone, PartialEq)]
pub enum Details {
    /// Changes made on the member since it was applied.
    Drift(Differences),
    /// Differences found before it was applied.
    Diff(Differences),
}

/// The differences of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Differences {
    /// On the member's clock.
    pub observed_at: Timestamp,
    /// Generation of the live object; none if there is none.
    pub generation: Option<i64>,
    /// The first of them.
    pub details: Vec<PatchDetail>,
}

/// Status of a live object.
#[derive(Debug, Clone, PartialEq)]
pub struct Mirrored {
    /// On the member's clock.
    pub observed_at: Timestamp,
    /// With apiVersion, kind and status.
    pub json: RawJson,
}

/// The status after a result. Times of conditions and first observations stay where the fact stayed.
pub fn result(
    stored: &WorkStatus,
    said: &[ReportedCondition],
    manifests: &[ManifestReport],
    generation: i64,
    mirror: bool,
    now: Timestamp,
) -> WorkStatus {
    let of_generation = |said: &ReportedCondition| ReportedCondition {
        observed_generation: generation,
        ..said.clone()
    };
    // The hub's own StatusTrimmed is decided anew by `trim`; until then it stays, so that its time does too.
    let mut merged: Vec<_> = said
        .iter()
        .map(|s| of_generation(s).merged(&stored.conditions, now))
        .collect();
    merged.extend(conditions::find(&stored.conditions, words::StatusTrimmed::TYPE).cloned());
    merged.sort_by_key(|c| words::TYPES.iter().position(|t| *t == c.type_));
    let mut old = Old::new(&stored.manifest_conditions);
    let manifest_conditions = manifests
        .iter()
        .map(|report| {
            let before = old.take(&report.identifier);
            entry(before, report, mirror, now)
        })
        .collect();
    WorkStatus {
        conditions: merged,
        manifest_conditions,
    }
}

fn entry(
    before: Option<&ManifestCondition>,
    report: &ManifestReport,
    mirror: bool,
    now: Timestamp,
) -> ManifestCondition {
    let stored = before.map(|b| b.conditions.as_slice()).unwrap_or_default();
    let (mut drift_details, mut diff_details) = (None, None);
    match &report.details {
        Some(Details::Drift(d)) => {
            let observation_time = clamped(d.observed_at, now);
            let first = before
                .and_then(|b| b.drift_details.as_ref())
                .map(|b| b.first_drifted_observed_time.clone());
            drift_details = Some(DriftDetails {
                first_drifted_observed_time: first.unwrap_or_else(|| observation_time.clone()),
                observation_time,
                observed_in_member_cluster_generation: d.generation.unwrap_or_default(),
                observed_drifts: d.details.clone(),
            });
        }
        Some(Details::Diff(d)) => {
            let observation_time = clamped(d.observed_at, now);
            let first = before
                .and_then(|b| b.diff_details.as_ref())
                .map(|b| b.first_diffed_observed_time.clone());
            diff_details = Some(DiffDetails {
                first_diffed_observed_time: first.unwrap_or_else(|| observation_time.clone()),
                observation_time,
                observed_in_member_cluster_generation: d.generation,
                observed_diffs: d.details.clone(),
            });
        }
        None => {}
    }
    let mirrored = report.mirrored.as_ref().filter(|_| mirror);
    // Of an object that could not be looked at what was seen last stays; one that nobody refreshes does not.
    let applied = |said: &ReportedCondition| said.type_ == manifest::Applied::TYPE && said.status == Status::True;
    let kept = before
        .and_then(|before| before.back_reported_status.clone())
        .filter(|_| mirror && !report.conditions.iter().any(applied));
    ManifestCondition {
        identifier: report.identifier.clone(),
        conditions: report.conditions.iter().map(|s| s.merged(stored, now)).collect(),
        drift_details,
        diff_details,
        back_reported_status: mirrored
            .map(|m| BackReportedStatus {
                observed_status: Some(m.json.clone()),
                observation_time: clamped(m.observed_at, now),
            })
            .or(kept),
    }
}

/// The status before a generation is processed: entries that exist stay word for word, new ones say that they are being
/// prepared, and the Work's own conditions are untouched.
pub fn preparing(stored: &WorkStatus, manifests: &[ManifestReport], generation: i64, now: Timestamp) -> WorkStatus {
    let mut old = Old::new(&stored.manifest_conditions);
    let manifest_conditions = manifests
        .iter()
        .map(|report| {
            old.take(&report.identifier)
                .cloned()
                .unwrap_or_else(|| ManifestCondition {
                    identifier: report.identifier.clone(),
                    conditions: vec![conditions::to_condition(&manifest::Applied::Preparing, generation, now)],
                    ..ManifestCondition::default()
                })
        })
        .collect();
    WorkStatus {
        conditions: stored.conditions.clone(),
        manifest_conditions,
    }
}

/// Stored entries by identity. Duplicates go by ordinal; what has no identity goes by ordinal alone.
struct Old<'a> {
    entries: BTreeMap<String, Vec<&'a ManifestCondition>>,
}

impl<'a> Old<'a> {
    fn new(stored: &'a [ManifestCondition]) -> Self {
        let mut entries: BTreeMap<String, Vec<&ManifestCondition>> = BTreeMap::new();
        for entry in stored {
            entries.entry(key(&entry.identifier)).or_default().push(entry);
        }
        Self { entries }
    }

    fn take(&mut self, identifier: &WorkResourceIdentifier) -> Option<&'a ManifestCondition> {
        let same = self.entries.get_mut(&key(identifier))?;
        let at = same
            .iter()
            .position(|e| e.identifier.ordinal == identifier.ordinal)
            .unwrap_or(0);
        (at < same.len()).then(|| same.remove(at))
    }
}

fn key(id: &WorkResourceIdentifier) -> String {
    manifest_identity(&id.group, &id.version, &id.kind, &id.namespace, &id.name)
        .unwrap_or_else(|| format!("#{}", id.ordinal))
}

/// Whether a status differs from the stored one by more than observation times that are fresh enough.
pub fn worth_writing(stored: &WorkStatus, new: &WorkStatus, now: Timestamp) -> bool {
    if stored == new {
        return false;
    }
    let timeless = |status: &WorkStatus| {
        let mut status = status.clone();
        for entry in &mut status.manifest_conditions {
            let never = || Time(Timestamp::UNIX_EPOCH);
            entry
                .drift_details
                .iter_mut()
                .for_each(|d| d.observation_time = never());
            entry.diff_details.iter_mut().for_each(|d| d.observation_time = never());
            entry
                .back_reported_status
                .iter_mut()
                .for_each(|b| b.observation_time = never());
        }
        status
    };
    if timeless(stored) != timeless(new) {
        return true;
    }
    let oldest = stored.manifest_conditions.iter().flat_map(|entry| {
        let drift = entry.drift_details.as_ref().map(|d| d.observation_time.0);
        let diff = entry.diff_details.as_ref().map(|d| d.observation_time.0);
        [
            drift,
            diff,
            entry.back_reported_status.as_ref().map(|b| b.observation_time.0),
        ]
        .into_iter()
        .flatten()
    });
    oldest.min().is_some_and(|at| now.duration_since(at) >= REFRESH_AFTER)
}
