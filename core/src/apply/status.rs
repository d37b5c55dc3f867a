//! What the member reports of a Work: conditions of the whole and of each manifest.

use fleet_api::conditions::manifest::{self, ApplyFailure, TAKEN_OVER_WHILE_COMPARING};
use fleet_api::conditions::work::{self, DEGRADED_COUNTS_AS_NOT_REPORTED};
use fleet_api::conditions::{self, ConditionState, Words};
use fleet_api::placement::{
    BackReportedStatus, DiffDetails, DriftDetails, ManifestCondition, WorkResourceIdentifier, WorkStatus,
};
use fleet_api::raw::RawJson;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::decide::Verdict;
use super::diff::Differences;
use super::identify::identity;
use super::json::{generation, text};

/// What one round found out about one manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct ManifestReport {
    /// Which manifest.
    pub id: WorkResourceIdentifier,
    /// What came of it.
    pub verdict: Verdict,
    /// The live object after that, if there is one.
    pub live: Option<Value>,
    /// Whether it is available; nothing unless it is applied.
    pub available: Option<manifest::Available>,
    /// In `ReportDiff` mode: the object is ours only because it was taken over on the way.
    pub taken_over: bool,
}

/// What one round found out about a Work.
#[derive(Debug, Clone, Copy)]
pub struct Round<'a> {
    /// The Work's generation that was processed.
    pub generation: i64,
    /// Whether the strategy is `ReportDiff`.
    pub report_diff: bool,
    /// Whether the status of the objects is mirrored.
    pub mirror: bool,
    /// Whether a difference found in degraded mode counts as reported. Upstream says no.
    pub degraded_counts: bool,
    /// Why objects that left the Work could not be removed yet.
    pub leftovers: Option<&'a str>,
    /// The one time of this round.
    pub now: Timestamp,
}

/// The status after `round`. `previous` is the last one, which gives times that have not moved.
pub fn status(previous: &WorkStatus, manifests: &[ManifestReport], round: &Round<'_>) -> WorkStatus {
    let manifest_conditions = manifests
        .iter()
        .map(|report| manifest_condition(find(&previous.manifest_conditions, &report.id), report, round))
        .collect();
    let mut conditions = previous.conditions.clone();
    work_conditions(&mut conditions, manifests, round);
    conditions.sort_by_key(|condition| work::TYPES.iter().position(|name| *name == condition.type_));
    WorkStatus {
        conditions,
        manifest_conditions,
    }
}

/// The status before the first change: every good manifest with its previous entry, or as being prepared. `good` are
/// the identifiers of manifests without a failure.
pub fn preparing(
    previous: &WorkStatus,
    good: &[WorkResourceIdentifier],
    work_generation: i64,
    now: Timestamp,
) -> WorkStatus {
    let entry = |id: &WorkResourceIdentifier| {
        find(&previous.manifest_conditions, id)
            .cloned()
            .unwrap_or_else(|| ManifestCondition {
                identifier: id.clone(),
                conditions: vec![conditions::to_condition(
                    &manifest::Applied::Preparing,
                    work_generation,
                    now,
                )],
                ..Default::default()
            })
    };
    WorkStatus {
        conditions: previous.conditions.clone(),
        manifest_conditions: good.iter().map(entry).collect(),
    }
}

/// The previous entry of the same object; of duplicates the one at the same place.
fn find<'a>(previous: &'a [ManifestCondition], id: &WorkResourceIdentifier) -> Option<&'a ManifestCondition> {
    let wanted = identity(id)?;
    let mut same = previous
        .iter()
        .filter(|entry| identity(&entry.identifier).as_ref() == Some(&wanted));
    let first = same.clone().next();
    same.find(|entry| entry.identifier.ordinal == id.ordinal).or(first)
}

fn manifest_condition(
    previous: Option<&ManifestCondition>,
    report: &ManifestReport,
    round: &Round<'_>,
) -> ManifestCondition {
    let live_generation = report.live.as_ref().map(generation);
    let mut list = previous.map(|entry| entry.conditions.clone()).unwrap_or_default();
    let mut put = |wanted: Option<(&dyn ConditionState, Option<String>)>, type_name: &str| match wanted {
        Some((state, detail)) => {
            let state = Shown { state, detail };
            conditions::set(&mut list, &state, live_generation.unwrap_or_default(), round.now);
        }
        None => {
            conditions::remove(&mut list, type_name);
        }
    };
    let cut = found(&report.verdict).and_then(Differences::cut_notice);
    let applied = (!round.report_diff).then(|| applied_state(&report.verdict));
    put(
        applied
            .as_ref()
            .map(|state| (state as &dyn ConditionState, cut.clone())),
        manifest::Applied::TYPE,
    );
    put(
        report
            .available
            .as_ref()
            .map(|state| (state as &dyn ConditionState, None)),
        manifest::Available::TYPE,
    );
    let diff = round.report_diff.then(|| diff_state(&report.verdict));
    let notes: Vec<String> = cut
        .into_iter()
        .chain(report.taken_over.then(|| TAKEN_OVER_WHILE_COMPARING.to_owned()))
        .collect();
    let notes = (!notes.is_empty()).then(|| notes.join("; "));
    put(
        diff.as_ref().map(|state| (state as &dyn ConditionState, notes)),
        manifest::DiffReported::TYPE,
    );

    let now = whole_seconds(round.now);
    let (drift_details, diff_details) = match &report.verdict {
        Verdict::Applied(Some(found)) | Verdict::Drifted(_, found) => {
            let first =
                previous.and_then(|entry| Some(entry.drift_details.as_ref()?.first_drifted_observed_time.clone()));
            let details = DriftDetails {
                observation_time: now.clone(),
                observed_in_member_cluster_generation: live_generation.unwrap_or_default(),
                first_drifted_observed_time: first.unwrap_or_else(|| now.clone()),
                observed_drifts: found.details.clone(),
            };
            (Some(details), None)
        }
        Verdict::Diff(found) | Verdict::Differs(_, found) => {
            let first =
                previous.and_then(|entry| Some(entry.diff_details.as_ref()?.first_diffed_observed_time.clone()));
            let details = DiffDetails {
                observation_time: now.clone(),
                observed_in_member_cluster_generation: live_generation,
                first_diffed_observed_time: first.unwrap_or_else(|| now.clone()),
                observed_diffs: found.details.clone(),
            };
            (None, Some(details))
        }
        _ => (None, None),
    };
    ManifestCondition {
        identifier: report.id.clone(),
        conditions: list,
        drift_details,
        diff_details,
        back_reported_status: mirrored(previous, report, round, &now),
    }
}

/// Switched off means cleared: a mirrored status that nobody refreshes is worse than none.
fn mirrored(
    previous: Option<&ManifestCondition>,
    report: &ManifestReport,
    round: &Round<'_>,
    now: &Time,
) -> Option<BackReportedStatus> {
    if !round.mirror {
        return None;
    }
    let live = report.live.as_ref().filter(|_| report.verdict.is_applied());
    let Some((live, status)) = live.and_then(|live| Some((live, live.get("status")?))) else {
        return previous?.back_reported_status.clone();
    };
    let shown = json!({
        "apiVersion": text(live, &["apiVersion"]), "kind": text(live, &["kind"]), "status": status,
    });
    Some(BackReportedStatus {
        observed_status: Some(RawJson::from(&shown)),
        observation_time: now.clone(),
    })
}

fn applied_state(verdict: &Verdict) -> manifest::Applied {
    match verdict {
        Verdict::Applied(_) => manifest::Applied::Applied,
        Verdict::AppliedUnchecked(_) => manifest::Applied::AppliedWithFailedDriftDetection,
        Verdict::Failed(failure) | Verdict::Drifted(failure, _) | Verdict::Differs(failure, _) => {
            manifest::Applied::Failed {
                failure: failure.clone(),
            }
        }
        // A verdict of the other mode cannot be; if it is, the object was not applied.
        Verdict::NoDiff | Verdict::Diff(_) | Verdict::DiffFailed(_) => manifest::Applied::Failed {
            failure: ApplyFailure::NotTakenOver,
        },
    }
}

fn diff_state(verdict: &Verdict) -> manifest::DiffReported {
    match verdict {
        Verdict::NoDiff | Verdict::Applied(_) | Verdict::AppliedUnchecked(_) => manifest::DiffReported::NoDiff,
        Verdict::Diff(found) if found.degraded => manifest::DiffReported::DegradedDiff,
        Verdict::Diff(_) => manifest::DiffReported::Diff,
        Verdict::DiffFailed(error) => manifest::DiffReported::Failed { error: error.clone() },
        Verdict::Failed(failure) | Verdict::Drifted(failure, _) | Verdict::Differs(failure, _) => {
            manifest::DiffReported::Blocked {
                failure: failure.clone(),
            }
        }
    }
}

fn found(verdict: &Verdict) -> Option<&Differences> {
    match verdict {
        Verdict::Applied(found) => found.as_ref(),
        Verdict::Drifted(_, found) | Verdict::Differs(_, found) | Verdict::Diff(found) => Some(found),
        _ => None,
    }
}

fn work_conditions(
    list: &mut Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
    manifests: &[ManifestReport],
    round: &Round<'_>,
) {
    let total = manifests.len();
    let detail = round.leftovers.map(str::to_owned);
    let mut put = |state: &dyn ConditionState, detail: Option<String>| {
        conditions::set(list, &Shown { state, detail }, round.generation, round.now);
    };
    if round.report_diff {
        let is_degraded = |verdict: &Verdict| matches!(verdict, Verdict::Diff(found) if found.degraded);
        let degraded = manifests.iter().filter(|report| is_degraded(&report.verdict)).count();
        let counts = |verdict: &Verdict| {
            matches!(verdict, Verdict::NoDiff | Verdict::Diff(_)) && (round.degraded_counts || !is_degraded(verdict))
        };
        let reported = manifests.iter().filter(|report| counts(&report.verdict)).count();
        if reported == total {
            put(&work::DiffReported::AllReported, None);
        } else {
            let why = (degraded > 0 && !round.degraded_counts).then(|| DEGRADED_COUNTS_AS_NOT_REPORTED.to_owned());
            put(&work::DiffReported::SomeNotReported { reported, total }, why);
        }
        conditions::remove(list, work::Applied::TYPE);
        conditions::remove(list, work::Available::TYPE);
        return;
    }
    let applied = manifests.iter().filter(|report| report.verdict.is_applied()).count();
    if applied == total {
        put(&work::Applied::AllApplied, detail);
        let is = |report: &ManifestReport, state: &manifest::Available| report.available.as_ref() == Some(state);
        let untracked = manifests
            .iter()
            .filter(|report| is(report, &manifest::Available::NotTrackable))
            .count();
        let tracked = manifests
            .iter()
            .filter(|report| is(report, &manifest::Available::Available))
            .count();
        let available = untracked + tracked;
        match (available == total, untracked) {
            (true, 0) => put(&work::Available::AllAvailable, None),
            (true, _) => put(&work::Available::NotTrackable, None),
            (false, _) => put(&work::Available::SomeNotAvailable { available, total }, None),
        }
    } else {
        put(&work::Applied::SomeNotApplied { applied, total }, detail);
        conditions::remove(list, work::Available::TYPE);
    }
    conditions::remove(list, work::DiffReported::TYPE);
}

/// A state with a detail that is not known to be there until it is shown.
struct Shown<'a> {
    state: &'a dyn ConditionState,
    detail: Option<String>,
}

impl Words for Shown<'_> {
    fn status(&self) -> conditions::Status {
        self.state.status()
    }

    fn reason(&self) -> &'static str {
        self.state.reason()
    }

    fn message(&self) -> String {
        match &self.detail {
            Some(detail) if !self.published() => format!("{}; {detail}", self.state.message()),
            _ => self.state.message(),
        }
    }

    fn published(&self) -> bool {
        self.state.published()
    }
}

impl ConditionState for Shown<'_> {
    fn type_name(&self) -> &'static str {
        self.state.type_name()
    }
}

/// Times in the API have whole seconds.
fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
mod tests;
