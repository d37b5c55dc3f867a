//! What is remembered of each Work between rounds. All of it can be found out again.

use fleet_api::{
    conditions::manifest::{ApplyFailure, Available},
    placement::WorkResourceIdentifier,
};
use fleet_core::{
    apply::{
        backoff::Overwrites,
        decide::{LastApplied, Verdict},
        identify::{Manifest, ObjectKey},
        inventory::Inventory,
        requeue::Quiet,
        status::ManifestReport,
    },
    session::digest::Digest,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    json::{text, uid},
    measures::Stage,
};

/// One Work.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub(super) work_uid: String,
    pub(super) generation: i64,
    pub(super) spec_digest: String,
    /// [`Seen::content`](super::works::Seen) of the Work that was last looked at.
    pub(super) content: u64,
    pub(super) owner_uid: String,
    pub(super) inventory: Inventory,
    /// Digest of the AppliedWork's status as it was last written.
    pub(super) written: String,
    /// By place in the Work.
    pub(super) kept: Vec<Kept>,
    pub(super) quiet: Quiet,
    /// When to look again although nothing happened.
    pub(super) due: Option<Instant>,
    /// When everything was last looked at.
    pub(super) full_at: Option<Instant>,
    /// When this generation was first seen, and how far it has come; nothing if the hub knew its result already.
    pub(super) since: Option<Instant>,
    pub(super) reached: Vec<Stage>,
}

/// What was last said about a Work.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) uid: String,
    pub(super) generation: i64,
    pub(super) digest: Digest,
    /// Digest of what is mirrored, which the other does not have.
    pub(super) mirrored: String,
    pub(super) at: Timestamp,
    /// The hub has it.
    pub(super) stored: bool,
    /// What the hub found too large goes without what is not needed.
    pub(super) lean: bool,
    /// When this generation was first seen, until the hub has it.
    pub(super) since: Option<Instant>,
}

/// One manifest, with as little of its live object as a report needs.
#[derive(Debug, Clone)]
pub(super) struct Kept {
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

impl Kept {
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

    /// Whether this cluster did not know its kind.
    pub(super) fn is_unknown(&self) -> bool {
        matches!(self.verdict, Verdict::Failed(ApplyFailure::UnknownKind { .. }))
    }

    /// Whether it can be looked at by itself: it names an object, and no other manifest names the same.
    pub(super) fn is_workable(&self) -> bool {
        let hopeless = matches!(
            self.verdict,
            Verdict::Failed(
                ApplyFailure::UnknownKind { .. }
                    | ApplyFailure::Duplicated
                    | ApplyFailure::GenerateName
                    | ApplyFailure::NotAnObject { .. }
            )
        );
        !hopeless
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
