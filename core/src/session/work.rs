//! Whether and how a report about a Work is stored.

use std::borrow::Cow;
use std::collections::BTreeSet;

use fleet_api::conditions::{find, work as words};
use fleet_api::placement::WorkStatus;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::condition::ReportedCondition;
use super::merge::{self, Details, ManifestReport};
use super::trim::{count, trim};
use super::{Decision, Outcome, WorkRef};

/// Condition types that a member reports, on Works and on manifests. `StatusTrimmed` is the hub's.
const REPORTED: [&str; 3] = [words::Applied::TYPE, words::Available::TYPE, words::DiffReported::TYPE];

/// Differences listed for one object.
const DETAILS_MAX: usize = 100;

/// Everything about one Work.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkReport {
    /// Which Work.
    pub work: WorkRef,
    /// The generation that this was computed for.
    pub observed_generation: i64,
    /// About to be processed, or processed.
    pub phase: Phase,
    /// The Work's conditions.
    pub conditions: Vec<ReportedCondition>,
    /// One entry per manifest, in order.
    pub manifests: Vec<ManifestReport>,
}

/// How far the member is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// About to process the generation: identifiers only.
    Preparing,
    /// Processed.
    Result,
}

/// A Work as far as a report about it is judged: what its manifests are and how large, without their content.
#[derive(Debug, Clone)]
pub struct StoredWork<'a> {
    /// Its metadata.
    pub metadata: &'a ObjectMeta,
    /// What each manifest is, in order.
    pub manifests: &'a [ManifestIdentity],
    /// Bytes of the JSON of its whole spec.
    pub spec_bytes: usize,
    /// Whether it asks for the status of its objects.
    pub mirror: bool,
    /// Its status.
    pub status: Option<WorkStatus>,
    /// Bytes that its status may have ([`room`](super::trim::room)).
    pub room: usize,
}

/// What identifies a manifest. Empty strings where it says nothing; all empty if it cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManifestIdentity {
    /// Group and version.
    pub api_version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
}

impl ManifestIdentity {
    /// What a manifest's text says.
    pub fn of(text: &str) -> Self {
        let Ok(manifest) = serde_json::from_str::<Manifest<'_>>(text) else {
            return Self::default();
        };
        let metadata = manifest.metadata.unwrap_or_default();
        Self {
            api_version: manifest.api_version.into(),
            kind: manifest.kind.into(),
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
        }
    }
}

impl StoredWork<'_> {
    /// Bytes of the Work's JSON without the value of its status.
    pub fn bytes_without_status(&self) -> usize {
        const AROUND: &str =
            r#"{"apiVersion":"placement.kubernetes-fleet.io/v1beta1","kind":"Work","metadata":,"spec":,"status":}"#;
        AROUND.len() + count(self.metadata) + self.spec_bytes
    }
}

/// Decides about a report, given the Work of that name in the member's own namespace. `live` says that it was just read
/// from the API server and not from a cache.
pub fn persist(work: Option<&StoredWork<'_>>, report: &WorkReport, live: bool, now: Timestamp) -> Decision<WorkStatus> {
    let Some(work) = work else {
        return if live {
            Decision::answer(Outcome::Gone, "no such Work")
        } else {
            Decision::ReadAgain
        };
    };
    if work.metadata.uid.as_deref() != Some(report.work.uid.as_str()) {
        return if live {
            Decision::answer(Outcome::UidMismatch, "the Work of this name is another one now")
        } else {
            Decision::ReadAgain
        };
    }
    let generation = work.metadata.generation.unwrap_or_default();
    if report.observed_generation < generation {
        // Also a hub that went back in time has the lower one, and its caches may not know it yet.
        if !live {
            return Decision::ReadAgain;
        }
        let reason = format!(
            "computed for generation {}, but the Work is at {generation}",
            report.observed_generation
        );
        return Decision::answer(Outcome::Superseded, reason);
    }
    if report.observed_generation > generation {
        if !live {
            return Decision::ReadAgain;
        }
        let reason = format!(
            "generation {} does not exist, the Work is at {generation}",
            report.observed_generation
        );
        return Decision::answer(Outcome::Invalid, reason);
    }
    if let Err(why) = validate(work, report) {
        return Decision::answer(Outcome::Invalid, why);
    }
    let empty = WorkStatus::default();
    let stored = work.status.as_ref().unwrap_or(&empty);
    let mut status = match report.phase {
        Phase::Preparing => {
            let done = find(&stored.conditions, words::Applied::TYPE).and_then(|c| c.observed_generation);
            if done == Some(generation) {
                return Decision::answer(Outcome::Unchanged, "there is already a result for this generation");
            }
            merge::preparing(stored, &report.manifests, generation, now)
        }
        Phase::Result => {
            let (conditions, manifests) = (&report.conditions, &report.manifests);
            merge::result(stored, conditions, manifests, generation, work.mirror, now)
        }
    };
    if report.phase == Phase::Result {
        trim(work.room, work.bytes_without_status(), &mut status, generation, now);
    }
    if !merge::worth_writing(stored, &status, now) && work.status.is_some() {
        return Decision::answer(Outcome::Unchanged, "");
    }
    Decision::write(status)
}

/// The parts of a manifest that identify it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize, Default)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
}

/// A mirrored status: these three and nothing else.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Outline<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "status")]
    _status: IgnoredAny,
}

/// What a member may not say, whatever it is.
fn validate(work: &StoredWork<'_>, report: &WorkReport) -> Result<(), String> {
    types(&report.conditions, "the Work")?;
    let manifests = work.manifests;
    if report.manifests.len() > manifests.len() {
        return Err(format!(
            "{} entries for {} manifests",
            report.manifests.len(),
            manifests.len()
        ));
    }
    let mut ordinals = BTreeSet::new();
    for entry in &report.manifests {
        let ordinal = entry.identifier.ordinal;
        let manifest = usize::try_from(ordinal).ok().and_then(|i| manifests.get(i));
        let Some(manifest) = manifest else {
            return Err(format!("there is no manifest {ordinal}"));
        };
        if !ordinals.insert(ordinal) {
            return Err(format!("two entries for manifest {ordinal}"));
        }
        one(entry, manifest).map_err(|why| format!("manifest {ordinal}: {why}"))?;
    }
    Ok(())
}

fn types(said: &[ReportedCondition], whose: &str) -> Result<(), String> {
    let mut seen = BTreeSet::new();
    for condition in said {
        let type_ = condition.type_.as_str();
        if !REPORTED.contains(&type_) {
            return Err(format!("{whose} has no condition {type_} that a member reports"));
        }
        if !seen.insert(type_) {
            return Err(format!("{whose} has condition {type_} twice"));
        }
    }
    Ok(())
}

fn one(entry: &ManifestReport, wanted: &ManifestIdentity) -> Result<(), String> {
    types(&entry.conditions, "the manifest")?;
    if let Some(Details::Drift(d) | Details::Diff(d)) = &entry.details
        && d.details.len() > DETAILS_MAX
    {
        return Err(format!(
            "{} differences listed, at most {DETAILS_MAX} may be",
            d.details.len()
        ));
    }
    let id = &entry.identifier;
    let version = if id.group.is_empty() {
        id.version.clone()
    } else {
        format!("{}/{}", id.group, id.version)
    };
    let same = |said: &str, is: &str| said.is_empty() || is.is_empty() || said == is;
    let consistent = same(&version, &wanted.api_version)
        && same(&id.kind, &wanted.kind)
        && same(&id.name, &wanted.name)
        && same(&id.namespace, &wanted.namespace);
    if !consistent {
        return Err("the identifier is not the manifest's".into());
    }
    if let Some(mirrored) = &entry.mirrored {
        let outline: Outline<'_> = serde_json::from_str(mirrored.json.as_str())
            .map_err(|_| "mirrored status is not an object with exactly apiVersion, kind and status".to_owned())?;
        if outline.api_version != *wanted.api_version || outline.kind != *wanted.kind {
            return Err("mirrored status is of another kind than the manifest".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
