//! A binding's status, from what became of its Works.
//!
//! Conditions are changed in place, so that `lastTransitionTime` means what it says; types that were not reached this
//! time are removed, and those of others (`RolloutStarted`) left alone.

use fleet_api::conditions::binding::{Applied, Available, DiffReported, Overridden, RolloutStarted, WorkSynchronized};
use fleet_api::conditions::{self, ConditionState, Status, Words as _, binding, work};
use fleet_api::labels;
use fleet_api::placement::{
    BindingStatus, DiffedPlacement, DriftedPlacement, EnvelopeIdentifier, EnvelopeType, FailedPlacement,
    ManifestCondition, ResourceIdentifier, Work,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::failure::{Shown, WorkFailure};
use crate::selection::ObjectId;

/// The most that each of the three lists may have, by the schema.
pub const DETAILS_MAX: usize = 100;

/// A Work's status, with what it needs to be understood.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// The Work's name.
    pub name: &'a str,
    /// Its generation; conditions about another one do not count.
    pub generation: i64,
    /// Its conditions.
    pub conditions: &'a [Condition],
    /// Its manifests' conditions.
    pub manifests: &'a [ManifestCondition],
    /// The envelope it was made from.
    pub envelope: Option<EnvelopeIdentifier>,
}

impl<'a> View<'a> {
    /// The view on a Work.
    pub fn of(work: &'a Work) -> Self {
        let status = work.status.as_ref();
        let label = |key| {
            work.metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .cloned()
        };
        let envelope = label(labels::ENVELOPE_NAME).map(|name| EnvelopeIdentifier {
            name,
            namespace: label(labels::ENVELOPE_NAMESPACE).unwrap_or_default(),
            type_: EnvelopeType::from(label(labels::ENVELOPE_TYPE).unwrap_or_default().as_str()),
        });
        Self {
            name: work.metadata.name.as_deref().unwrap_or_default(),
            generation: work.metadata.generation.unwrap_or_default(),
            conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
            manifests: status
                .map(|status| status.manifest_conditions.as_slice())
                .unwrap_or_default(),
            envelope,
        }
    }

    fn said(&self, type_name: &str) -> Option<&Condition> {
        conditions::fresh(self.conditions, type_name, self.generation).filter(|c| Status::of(c) != Status::Unknown)
    }

    fn says(&self, type_name: &str, status: Status) -> bool {
        self.said(type_name)
            .is_some_and(|condition| Status::of(condition) == status)
    }
}

/// How far the Works are.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// They could not be made or written.
    Failed(&'a WorkFailure),
    /// They are written, and the member has not had time to answer.
    JustWritten,
    /// They are as they should be; these are all of them that live.
    Written(&'a [View<'a>]),
}

/// Since when the Works have the content that they have. The time for which a cluster counts as unavailable because
/// nobody can tell starts with the content, not with the first `Available` there ever was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentClock {
    /// It has not changed since this process knows the binding.
    Unchanged,
    /// It was written at this time.
    Since(Timestamp),
    /// Nobody knows, after a restart: a verdict on an older generation of the binding may be one on other content.
    Unknown,
}

/// What the status is made for.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The binding's generation.
    pub generation: i64,
    /// Whether the binding names any override.
    pub overridden: bool,
    /// Whether it only reports differences.
    pub reports_diff: bool,
    /// The content's age.
    pub clock: ContentClock,
    /// The status that it has.
    pub previous: Option<&'a BindingStatus>,
}

/// The binding's status. Compare it with the previous one before writing.
pub fn binding_status(subject: &Subject<'_>, progress: Progress<'_>, now: Timestamp) -> BindingStatus {
    let mut writer = Writer {
        subject: *subject,
        now,
        conditions: subject
            .previous
            .map(|previous| previous.conditions.clone())
            .unwrap_or_default(),
        reached: Vec::new(),
    };
    let details = writer.write(progress);
    let Writer {
        mut conditions,
        reached,
        ..
    } = writer;
    let ours = [
        Overridden::TYPE,
        WorkSynchronized::TYPE,
        Applied::TYPE,
        Available::TYPE,
        DiffReported::TYPE,
    ];
    conditions.retain(|c| !ours.contains(&c.type_.as_str()) || reached.contains(&c.type_.as_str()));
    let works = if let Progress::Written(works) = progress {
        works
    } else {
        &[]
    };
    BindingStatus {
        failed_placements: if details.failed { failed(works) } else { Vec::new() },
        drifted_placements: if details.drifted { drifted(works) } else { Vec::new() },
        diffed_placements: if details.diffed { diffed(works) } else { Vec::new() },
        conditions,
    }
}

/// Whether this is only a step on the way: nothing is wrong, and more is about to be said.
pub fn is_interim(status: &BindingStatus, generation: i64) -> bool {
    let said = |type_name| conditions::fresh(&status.conditions, type_name, generation);
    let arrived = [Available::TYPE, DiffReported::TYPE].into_iter().filter_map(said);
    let mut arrived = arrived.filter(|condition| Status::of(condition) == Status::True);
    let under_way = [Applied::InProgress.reason(), DiffReported::InProgress.reason()];
    let steps = [
        RolloutStarted::TYPE,
        Overridden::TYPE,
        WorkSynchronized::TYPE,
        Applied::TYPE,
        DiffReported::TYPE,
    ];
    let mut steps = steps.into_iter().filter_map(said);
    let fails = |step: &Condition| Status::of(step) == Status::False && !under_way.contains(&step.reason.as_str());
    arrived.next().is_none() && !steps.any(fails)
}

/// Which of the lists are shown.
#[derive(Default)]
struct Details {
    failed: bool,
    drifted: bool,
    diffed: bool,
}

struct Writer<'a> {
    subject: Subject<'a>,
    now: Timestamp,
    conditions: Vec<Condition>,
    reached: Vec<&'static str>,
}

impl Writer<'_> {
    fn set(&mut self, state: &impl ConditionState) {
        self.reached.push(state.type_name());
        conditions::set(&mut self.conditions, state, self.subject.generation, self.now);
    }

    fn write(&mut self, progress: Progress<'_>) -> Details {
        let overridden = if self.subject.overridden {
            Overridden::Succeeded
        } else {
            Overridden::NoneSpecified
        };
        match progress {
            Progress::Failed(failure) => match failure.shown() {
                Shown::Overridden(state) => self.set(&state),
                Shown::WorkSynchronized(state) => {
                    self.set(&overridden);
                    self.set(&state);
                }
            },
            Progress::JustWritten => {
                self.set(&overridden);
                self.set(&WorkSynchronized::Synced);
                if self.subject.reports_diff {
                    self.set(&DiffReported::InProgress);
                } else {
                    self.set(&Applied::InProgress);
                }
            }
            Progress::Written(works) => {
                self.set(&overridden);
                self.set(&WorkSynchronized::Synced);
                return if self.subject.reports_diff {
                    self.write_diff(works)
                } else {
                    self.write_applied(works)
                };
            }
        }
        Details::default()
    }

    fn write_diff(&mut self, works: &[View<'_>]) -> Details {
        let state = match verdict(works, work::DiffReported::TYPE) {
            Verdict::Incomplete(work) => DiffReported::Incomplete { work },
            Verdict::Failed(work) => DiffReported::Failed { work },
            Verdict::Good => DiffReported::AllReported,
        };
        self.set(&state);
        Details {
            diffed: state.status() == Status::True,
            ..Details::default()
        }
    }

    fn write_applied(&mut self, works: &[View<'_>]) -> Details {
        match verdict(works, work::Applied::TYPE) {
            Verdict::Incomplete(work) => {
                self.set(&Applied::Incomplete { work });
                return Details::default();
            }
            Verdict::Failed(work) => {
                self.set(&Applied::Failed { work });
                return Details {
                    failed: true,
                    drifted: true,
                    diffed: true,
                };
            }
            Verdict::Good => self.set(&Applied::AllApplied),
        }
        match verdict(works, work::Available::TYPE) {
            Verdict::Incomplete(work) => self.set(&Available::Incomplete { work }),
            Verdict::Failed(work) => {
                self.set(&Available::NotYet { work });
                return Details {
                    failed: true,
                    drifted: true,
                    diffed: false,
                };
            }
            Verdict::Good => self.set_available(&available(works)),
        }
        Details {
            drifted: true,
            ..Details::default()
        }
    }

    fn set_available(&mut self, state: &Available) {
        let old = conditions::find(&self.conditions, Available::TYPE);
        let anew = old.is_some_and(|old| match self.subject.clock {
            ContentClock::Unchanged => false,
            ContentClock::Since(since) => old.last_transition_time.0.as_second() < since.as_second(),
            ContentClock::Unknown => old.observed_generation.unwrap_or_default() != self.subject.generation,
        });
        if anew {
            self.reached.push(Available::TYPE);
            conditions::set_anew(&mut self.conditions, state, self.subject.generation, self.now);
        } else {
            self.set(state);
        }
    }
}

/// What all Works say about one thing. The Work that is named is the first by name.
enum Verdict {
    Incomplete(String),
    Failed(String),
    Good,
}

fn verdict(works: &[View<'_>], type_name: &str) -> Verdict {
    let first =
        |of: &dyn Fn(&View<'_>) -> bool| works.iter().filter(|w| of(w)).map(|w| w.name).min().map(str::to_owned);
    if let Some(work) = first(&|work| work.said(type_name).is_none()) {
        return Verdict::Incomplete(work);
    }
    first(&|work| work.says(type_name, Status::False)).map_or(Verdict::Good, Verdict::Failed)
}

fn available(works: &[View<'_>]) -> Available {
    let untrackable = works.iter().filter(|work| {
        let reason = work
            .said(work::Available::TYPE)
            .map(|condition| condition.reason.as_str());
        reason.is_some_and(|reason| binding::NOT_TRACKABLE_REASONS.contains(&reason))
    });
    match untrackable.map(|work| work.name).min() {
        Some(work) => Available::NotTrackable { work: work.into() },
        None => Available::AllAvailable,
    }
}

fn failed(works: &[View<'_>]) -> Vec<FailedPlacement> {
    let bad = works.iter().filter(|work| {
        work.says(work::Applied::TYPE, Status::False) || work.says(work::Available::TYPE, Status::False)
    });
    let list = bad.flat_map(|work| {
        work.manifests.iter().filter_map(|manifest| {
            let is_false = |type_name| {
                conditions::find(&manifest.conditions, type_name).filter(|c| Status::of(c) == Status::False)
            };
            let condition = is_false(work::Applied::TYPE).or_else(|| is_false(work::Available::TYPE))?;
            Some(FailedPlacement::new(identify(work, manifest), condition.clone()))
        })
    });
    sorted(list.collect(), FailedPlacement::resource)
}

fn drifted(works: &[View<'_>]) -> Vec<DriftedPlacement> {
    let list = works.iter().flat_map(|work| {
        work.manifests.iter().filter_map(|manifest| {
            let details = manifest.drift_details.as_ref()?;
            Some(DriftedPlacement::new(
                identify(work, manifest),
                details.observation_time.clone(),
                details.observed_in_member_cluster_generation,
                details.first_drifted_observed_time.clone(),
                details.observed_drifts.clone(),
            ))
        })
    });
    sorted(list.collect(), DriftedPlacement::resource)
}

fn diffed(works: &[View<'_>]) -> Vec<DiffedPlacement> {
    let list = works.iter().flat_map(|work| {
        work.manifests.iter().filter_map(|manifest| {
            let details = manifest.diff_details.as_ref()?;
            Some(DiffedPlacement::new(
                identify(work, manifest),
                details.observation_time.clone(),
                details.observed_in_member_cluster_generation,
                details.first_diffed_observed_time.clone(),
                details.observed_diffs.clone(),
            ))
        })
    });
    sorted(list.collect(), DiffedPlacement::resource)
}

fn identify(work: &View<'_>, manifest: &ManifestCondition) -> ResourceIdentifier {
    let mut identifier = ObjectId::from(&manifest.identifier).to_identifier();
    identifier.envelope.clone_from(&work.envelope);
    identifier
}

/// Always sorted, so that equal facts are an equal list, and cut to what the schema takes.
fn sorted<T>(mut list: Vec<T>, resource: impl Fn(&T) -> ResourceIdentifier) -> Vec<T> {
    list.sort_by_cached_key(|item| sort_key(&resource(item)));
    list.truncate(DETAILS_MAX);
    list
}

fn sort_key(resource: &ResourceIdentifier) -> String {
    let ResourceIdentifier {
        group,
        version,
        kind,
        name,
        namespace,
        envelope,
    } = resource;
    let key = format!("{group}/{version}/{kind}/{namespace}/{name}");
    match envelope {
        Some(envelope) => format!("{key}/{}/{}/{}", envelope.type_, envelope.namespace, envelope.name),
        None => key,
    }
}
