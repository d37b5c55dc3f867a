//! What is remembered of each Work between rounds, in one part for each phase. All of it can be found out again.

use fleet_api::{
    conditions::manifest::{ApplyFailure, Available},
    placement::WorkResourceIdentifier,
};
use fleet_core::apply::{
    backoff::Overwrites,
    decide::{LastApplied, Verdict},
    identify::{Manifest, ObjectKey},
    inventory::Inventory,
    requeue::Quiet,
    status::ManifestReport,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    measures::Stage,
    member_api::json::{text, uid},
    works::HubWork,
};

/// One Work.
#[derive(Debug, Default)]
pub(super) struct WorkMemory {
    /// For admit: what was last looked at.
    pub(super) version: Version,
    /// For write ahead and conclude: what the AppliedWork says.
    pub(super) ledger: Ledger,
    /// For waves: each manifest, by its place in the Work.
    pub(super) manifests: Vec<ManifestMemory>,
    /// For conclude: when to look again.
    pub(super) schedule: Schedule,
    /// For report: how long a generation takes.
    pub(super) timing: Timing,
}

/// One version of a Work.
#[derive(Debug, Default)]
pub(super) struct Version {
    pub(super) work_uid: String,
    pub(super) generation: i64,
    pub(super) spec_digest: String,
    /// [`HubWork::content`].
    pub(super) content: u64,
}

/// An AppliedWork, and what its status was last made to say.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) owner_uid: String,
    pub(super) inventory: Inventory,
    /// Digest of the status as it was last written.
    pub(super) written: String,
}

/// When to look again although nothing happened.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    pub(super) quiet: Quiet,
    pub(super) due: Option<Instant>,
    /// When everything was last looked at.
    pub(super) full_at: Option<Instant>,
}

/// How far a generation has come, and since when it is known.
#[derive(Debug, Default)]
pub(super) struct Timing {
    /// None if the hub knew its result already.
    pub(super) since: Option<Instant>,
    pub(super) reached: Vec<Stage>,
}

impl WorkMemory {
    /// The Work is looked at as it is now. Another version of it is looked at as a whole, and timed from now on.
    pub(super) fn move_to(&mut self, work: &HubWork) {
        let spec_digest = work.spec_digest();
        if self.version.generation != work.generation() || self.version.spec_digest != spec_digest {
            self.schedule.full_at = None;
            self.timing = Timing {
                since: Some(Instant::now()),
                reached: Vec::new(),
            };
        }
        self.version = Version {
            work_uid: work.uid().to_owned(),
            generation: work.generation(),
            spec_digest,
            content: work.content,
        };
    }

    /// Whether the object may be ours although the Work no longer names it.
    pub(super) fn is_left_over(&self, key: &ObjectKey) -> bool {
        let is_it = |manifest: &ManifestMemory| manifest.key().as_ref() == Some(key);
        self.ledger.inventory.entries.contains_key(key) && !self.manifests.iter().any(is_it)
    }
}

/// One manifest, with as little of its live object as a report needs.
#[derive(Debug, Clone)]
pub(super) struct ManifestMemory {
    pub(super) id: WorkResourceIdentifier,
    pub(super) verdict: Verdict,
    pub(super) available: Option<Available>,
    pub(super) taken_over: bool,
    /// JSON text: as a tree it would take ten times as much.
    pub(super) outline: Option<Box<str>>,
    pub(super) last: Option<LastApplied>,
    pub(super) overwrites: Overwrites,
    /// Not to be overwritten before.
    pub(super) until: Option<Timestamp>,
    /// The uid of the live object, if it is ours.
    pub(super) owned: Option<Box<str>>,
}

impl ManifestMemory {
    /// What a manifest came to that is not looked at further.
    pub(super) fn failed(manifest: &Manifest) -> Self {
        let failure = manifest.object.clone().err();
        Self {
            id: manifest.id.clone(),
            verdict: failure.map_or(Verdict::AppliedUnchecked(String::new()), Verdict::Failed),
            available: None,
            taken_over: false,
            outline: None,
            last: None,
            overwrites: Overwrites::default(),
            until: None,
            owned: None,
        }
    }

    pub(super) fn key(&self) -> Option<ObjectKey> {
        ObjectKey::of(&self.id)
    }

    /// Whether this cluster did not know its kind, or knew another of that name.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(&self.verdict, Verdict::Failed(failure) if is_unknown(failure))
    }

    /// Whether it can be looked at by itself: it names an object, and no other manifest names the same.
    pub(super) fn is_workable(&self) -> bool {
        !matches!(&self.verdict, Verdict::Failed(failure) if failure.is_about_identity())
    }

    /// Whether nothing is to be done until something happens.
    pub(super) fn is_settled(&self) -> bool {
        let available = matches!(self.available, Some(Available::Available | Available::NotTrackable));
        match &self.verdict {
            Verdict::Applied(None) => available,
            Verdict::NoDiff | Verdict::Diff(_) => true,
            _ => false,
        }
    }

    pub(super) fn report(&self) -> ManifestReport {
        ManifestReport {
            id: self.id.clone(),
            verdict: self.verdict.clone(),
            live: self.outline.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            available: self.available.clone(),
            taken_over: self.taken_over,
        }
    }

    /// The manifest, as far as leftovers are told from it.
    pub(super) fn outline_manifest(&self) -> Manifest {
        Manifest {
            id: self.id.clone(),
            object: match &self.verdict {
                Verdict::Failed(failure) => Err(failure.clone()),
                _ => Ok(Value::Null),
            },
        }
    }
}

/// Whether a definition that comes or changes may help.
pub(super) fn is_unknown(failure: &ApplyFailure) -> bool {
    matches!(failure, ApplyFailure::UnknownKind { .. }) || failure.is_about_scope()
}

/// What a report needs of a live object.
pub(super) fn outline(live: &Value, mirror: bool) -> Box<str> {
    let mut outline = json!({
        "apiVersion": text(live, &["apiVersion"]), "kind": text(live, &["kind"]),
        "metadata": {"uid": uid(live), "generation": live.pointer("/metadata/generation").unwrap_or(&Value::Null)},
    });
    if mirror && let Some(status) = live.get("status") {
        outline["status"] = status.clone();
    }
    outline.to_string().into_boxed_str()
}
