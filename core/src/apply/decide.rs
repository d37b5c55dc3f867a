//! One manifest: what to do next, and what came of it.
//!
//! [`next`] looks at all that is known and names one step. The caller carries it out and asks again with what it
//! learned (the dry run's answer, the object after take-over), or hands the answer of the last call to [`settle`].

use fleet_api::annotations;
use fleet_api::conditions::manifest::ApplyFailure;
use fleet_api::placement::{ApplyStrategy, ApplyStrategyType, ComparisonOption, WhenToApply, WhenToTakeOver};
use serde_json::{Value, json};

use super::backoff::Hold;
use super::clean::{ReservedKeys, spec_hash};
use super::compare::{Comparison, DryRun, compare};
use super::diff::Differences;
use super::json::{is_part, object_mut, text};
use super::merge::{self, Patch, Rules};
use super::owners::Owner;
use super::prepare::{Prepared, digest, migrated_managers, only_ours, prepare};

/// What the member's API server has under the manifest's name.
#[derive(Debug, Clone, Copy)]
pub enum Live<'a> {
    /// Nothing.
    Absent,
    /// This object.
    Found(&'a Value),
    /// It did not say.
    Failed(&'a str),
}

/// What is known when a manifest is looked at.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The manifest as it is in the Work.
    pub manifest: &'a Value,
    /// The live object, read in this round.
    pub live: Live<'a>,
    /// The Work's strategy, defaults filled in.
    pub strategy: &'a ApplyStrategy,
    /// The Work's AppliedWork.
    pub owner: &'a Owner,
    /// How the kind merges; none merges as JSON.
    pub rules: Option<&'a Rules>,
    /// The answer to a dry run, once one was asked for.
    pub dry_run: Option<&'a DryRun>,
    /// Whether this member's namespace has a Work of that name.
    pub work_exists: &'a dyn Fn(&str) -> Result<bool, String>,
    /// What the last successful apply left behind, if the caller remembers.
    pub last: Option<&'a LastApplied>,
    /// The object is left alone for now, because somebody else keeps changing it back.
    pub hold: Option<&'a Hold>,
    /// Which keys take part in comparisons.
    pub reserved: ReservedKeys,
}

/// What to remember of a successful apply, so that the next round can tell that there is nothing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastApplied {
    /// Version of the object that came back.
    pub resource_version: String,
    /// [`Prepared::digest`] of what was sent.
    pub digest: String,
}

/// The next thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Send the manifest as a forced server-side apply in dry-run mode, and ask again with the answer.
    DryRun,
    /// Update the live object to this (its resource version is in it), and ask again with what comes back.
    TakeOver(Value),
    /// Create this.
    Create(Value),
    /// Send this patch.
    Patch(Patch),
    /// Send this as a server-side apply.
    ServerSideApply {
        /// The object, with a resource version if it must not have changed since it was read.
        object: Value,
        /// Whether to take fields from other managers.
        force: bool,
        /// Managed fields to write first, with the live object's resource version.
        migrated_managers: Option<Vec<Value>>,
    },
    /// The object is as it should be: send nothing, and settle with the live object.
    Nothing,
    /// There is nothing more to do.
    Done(Verdict),
}

/// What came of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It is applied; differences that a full comparison found are reported as drift.
    Applied(Option<Differences>),
    /// It is applied, but what came of it could not be compared; the error is for the log.
    AppliedUnchecked(String),
    /// It is not, and this is why; with the drift that stands in the way.
    Drifted(ApplyFailure, Differences),
    /// It is not, and this is why; with the differences that stand in the way.
    Differs(ApplyFailure, Differences),
    /// It is not, and this is why.
    Failed(ApplyFailure),
    /// It was compared: there is no difference.
    NoDiff,
    /// It was compared: there are these.
    Diff(Differences),
    /// It could not be compared.
    DiffFailed(String),
}

impl Verdict {
    /// Whether the object on the member is as the manifest says, so that its availability counts.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied(_) | Self::AppliedUnchecked(_))
    }

    /// Whether it would be, if somebody else did not keep changing it back.
    pub fn is_contested(&self) -> bool {
        matches!(self, Self::Failed(ApplyFailure::Contested { .. }))
    }
}

/// The next step for one manifest.
pub fn next(now: &Situation<'_>) -> Step {
    let live = match now.live {
        Live::Failed(error) => return failed(ApplyFailure::Lookup { api: error.to_owned() }),
        Live::Absent => None,
        Live::Found(live) => Some(live),
    };
    if let Some(live) = live.filter(|live| !now.owner.owns(live)) {
        match now.strategy.when_to_take_over {
            WhenToTakeOver::Always | WhenToTakeOver::IfNoDiff => return take_over(now, live),
            // A word of a newer hub: the careful reading is to leave what is not ours.
            WhenToTakeOver::Never | WhenToTakeOver::Unknown(_) => {}
        }
    }
    if now.strategy.type_ == ApplyStrategyType::ReportDiff {
        return report_diff(now, live);
    }
    if let Some(live) = live {
        if !now.owner.owns(live) {
            return failed(ApplyFailure::NotTakenOver);
        }
        if let Some(step) = drift_before(now, live) {
            return step;
        }
    }
    apply(now, live)
}

fn take_over(now: &Situation<'_>, live: &Value) -> Step {
    let taken = match now
        .owner
        .taken_over(live, now.strategy.allow_co_ownership, now.work_exists)
    {
        Ok(object) => object,
        Err(failure) => return failed(failure),
    };
    if now.strategy.when_to_take_over == WhenToTakeOver::Always {
        return Step::TakeOver(taken);
    }
    match comparison(now, live) {
        Comparison::NeedsDryRun => Step::DryRun,
        Comparison::Same => Step::TakeOver(taken),
        Comparison::Failed(error) => failed(ApplyFailure::TakeOverComparison { error }),
        Comparison::Different(found) => {
            let failure = if found.degraded {
                ApplyFailure::TakeOverDiffsDegraded
            } else {
                ApplyFailure::TakeOverDiffs
            };
            Step::Done(Verdict::Differs(failure, found))
        }
    }
}

fn report_diff(now: &Situation<'_>, live: Option<&Value>) -> Step {
    let Some(live) = live else {
        return Step::Done(Verdict::Diff(Differences::absent()));
    };
    Step::Done(match comparison(now, live) {
        Comparison::NeedsDryRun => return Step::DryRun,
        Comparison::Same => Verdict::NoDiff,
        Comparison::Different(found) => Verdict::Diff(found),
        Comparison::Failed(error) => Verdict::DiffFailed(error),
    })
}

/// Drift only counts against the manifest that made the object: a changed one overwrites it.
fn drift_before(now: &Situation<'_>, live: &Value) -> Option<Step> {
    let asked = !matches!(now.strategy.when_to_apply, WhenToApply::Always);
    if !asked || is_changed(now, live) {
        return None;
    }
    match comparison(now, live) {
        Comparison::NeedsDryRun => Some(Step::DryRun),
        Comparison::Same => None,
        Comparison::Failed(error) => Some(failed(ApplyFailure::DriftDetection { error })),
        Comparison::Different(found) => {
            let failure = if found.degraded {
                ApplyFailure::DriftsDegraded
            } else {
                ApplyFailure::Drifts
            };
            Some(Step::Done(Verdict::Drifted(failure, found)))
        }
    }
}

/// Whether the manifest is another one than made the object. The hash leaves reserved labels out, as KubeFleet's does: where
/// they are compared, the record of what was applied tells, or without one what we remember.
fn is_changed(now: &Situation<'_>, live: &Value) -> bool {
    let written = |key| text(live, &["metadata", "annotations", key]);
    if written(annotations::SPEC_HASH) != spec_hash(now.manifest) {
        return true;
    }
    if now.reserved == ReservedKeys::Hidden {
        return false;
    }
    let before = match written(annotations::LAST_APPLIED_CONFIGURATION) {
        "" => now.last.map(|last| last.digest.clone()),
        record => Some(digest(record)),
    };
    before.is_some_and(|before| before != prepare(now.manifest, now.owner, &now.strategy.type_).digest)
}

fn apply(now: &Situation<'_>, live: Option<&Value>) -> Step {
    if let ApplyStrategyType::Unknown(word) = &now.strategy.type_ {
        return failed(ApplyFailure::UnknownStrategy {
            strategy: word.to_string(),
        });
    }
    if let Err(invalid) = now.owner.validate(now.manifest, live, now.strategy.allow_co_ownership) {
        return failed(ApplyFailure::Owners(invalid));
    }
    let prepared = prepare(now.manifest, now.owner, &now.strategy.type_);
    let step = match live {
        None => Step::Create(prepared.object),
        Some(live) if unchanged(now, live, &prepared) => return Step::Nothing,
        Some(live) if prepared.server_side => server_side(now, live, prepared),
        Some(live) => client_side(now, live, &prepared),
    };
    match (step, now.hold) {
        (Step::Create(_) | Step::Patch(_) | Step::ServerSideApply { .. }, Some(hold)) => failed(contested(hold)),
        (step, _) => step,
    }
}

fn unchanged(now: &Situation<'_>, live: &Value, prepared: &Prepared) -> bool {
    let version = text(live, &["metadata", "resourceVersion"]);
    now.last
        .is_some_and(|last| !version.is_empty() && last.resource_version == version && last.digest == prepared.digest)
}

fn client_side(now: &Situation<'_>, live: &Value, prepared: &Prepared) -> Step {
    let base = text(
        live,
        &["metadata", "annotations", annotations::LAST_APPLIED_CONFIGURATION],
    );
    let mut patch = match merge::create(base, &prepared.object, live, now.rules) {
        Ok(Some(patch)) => patch,
        Ok(None) => return Step::Nothing,
        Err(error) => {
            return failed(ApplyFailure::MergePatch {
                error: error.to_string(),
            });
        }
    };
    if (locks(now) || patch.locked)
        && let Err(failure) = lock(&mut patch.body, live)
    {
        return failed(failure);
    }
    Step::Patch(patch)
}

fn server_side(now: &Situation<'_>, live: &Value, prepared: Prepared) -> Step {
    let mut object = prepared.object;
    if locks(now)
        && let Err(failure) = lock(&mut object, live)
    {
        return failed(failure);
    }
    let configured = now
        .strategy
        .server_side_apply_config
        .as_ref()
        .is_some_and(|config| config.force);
    let force = configured || only_ours(live);
    Step::ServerSideApply {
        object,
        force,
        // Also where only the record did not fit: our own earlier patch would be a conflict once somebody else has fields.
        migrated_managers: migrated_managers(live),
    }
}

fn locks(now: &Situation<'_>) -> bool {
    !matches!(now.strategy.when_to_apply, WhenToApply::Always)
}

fn lock(body: &mut Value, live: &Value) -> Result<(), ApplyFailure> {
    let version = text(live, &["metadata", "resourceVersion"]);
    if version.is_empty() {
        let name = |key| text(live, &["metadata", key]);
        return Err(ApplyFailure::NoResourceVersion {
            object: format!("{}/{}", name("namespace"), name("name")),
        });
    }
    object_mut(body, &["metadata"]).insert("resourceVersion".into(), json!(version));
    Ok(())
}

/// The verdict once the call of `step` was answered with the object as it now is, or with the API server's words.
pub fn settle(now: &Situation<'_>, step: &Step, answer: Result<&Value, &str>) -> Verdict {
    let object = match (answer, step) {
        (Ok(object), _) => object,
        (Err(api), Step::TakeOver(_)) => return Verdict::Failed(ApplyFailure::TakeOver { api: api.to_owned() }),
        (Err(api), Step::Create(_)) => return Verdict::Failed(ApplyFailure::Create { api: api.to_owned() }),
        (Err(api), Step::ServerSideApply { .. }) => {
            return Verdict::Failed(ApplyFailure::ServerSideApply { api: api.to_owned() });
        }
        (Err(api), _) => return Verdict::Failed(ApplyFailure::Patch { api: api.to_owned() }),
    };
    // As it should be for a moment: it counts once it has stayed so for as long as the hold lasts.
    if let Some(hold) = now.hold {
        return Verdict::Failed(contested(hold));
    }
    if now.strategy.comparison_option != ComparisonOption::FullComparison {
        return Verdict::Applied(None);
    }
    match compare(
        now.manifest,
        object,
        &ComparisonOption::FullComparison,
        None,
        now.reserved,
    ) {
        Comparison::Different(found) => Verdict::Applied(Some(found)),
        Comparison::Failed(error) => Verdict::AppliedUnchecked(error),
        Comparison::Same | Comparison::NeedsDryRun => Verdict::Applied(None),
    }
}

/// Whether the object in `now`, which is the answer to `patch`, is as the manifest says. A patch without a lock meets
/// whatever somebody else has written meanwhile. What would only be sent again is as good as it gets: the API server has a
/// word of its own for it.
pub fn came_out(now: &Situation<'_>, patch: &Patch) -> bool {
    let Live::Found(live) = now.live else { return true };
    if !now.owner.owns(live) {
        return false;
    }
    let prepared = prepare(now.manifest, now.owner, &now.strategy.type_);
    match client_side(now, live, &prepared) {
        Step::Patch(again) => locks(now) || is_part(&again.body, &patch.body),
        _ => true,
    }
}

/// What to remember after a successful call, for [`Situation::last`].
pub fn record(now: &Situation<'_>, object: &Value) -> LastApplied {
    LastApplied {
        resource_version: text(object, &["metadata", "resourceVersion"]).to_owned(),
        digest: prepare(now.manifest, now.owner, &now.strategy.type_).digest,
    }
}

/// Whether `live` is ours without ever having been applied: in `ReportDiff` mode that has to be said, since it will be
/// deleted together with the placement.
pub fn merely_taken_over(owner: &Owner, live: &Value) -> bool {
    owner.owns(live) && text(live, &["metadata", "annotations", annotations::SPEC_HASH]).is_empty()
}

fn comparison(now: &Situation<'_>, live: &Value) -> Comparison {
    compare(
        now.manifest,
        live,
        &now.strategy.comparison_option,
        now.dry_run,
        now.reserved,
    )
}

fn contested(hold: &Hold) -> ApplyFailure {
    ApplyFailure::Contested {
        manager: hold.manager.clone().unwrap_or_else(|| "somebody".to_owned()),
    }
}

fn failed(failure: ApplyFailure) -> Step {
    Step::Done(Verdict::Failed(failure))
}

#[cfg(test)]
mod tests;
