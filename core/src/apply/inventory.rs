//! What may exist on the member because of a Work, written down before it is made.
//!
//! The inventory is kept in the status of the AppliedWork. An entry is dropped only when its object is confirmed gone,
//! confirmed not to be ours, or released: no mode, failure or new order of manifests ever drops one.

use fleet_api::conditions::manifest::{Applied, ApplyFailure};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{AppliedResource, WorkResourceIdentifier, WorkStatus};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use super::decide::Live;
use super::identify::{Manifest, ObjectKey};
use super::json::{at, text};
use super::owners::Owner;
use super::status::ManifestReport;

/// Everything that may exist, and the attempt that was last written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// The last attempt.
    #[serde(flatten)]
    pub attempt: Attempt,
    /// The objects, in no particular order.
    pub entries: Vec<Entry>,
}

/// What was attempted. The digest is there because a hub restored from a backup counts its generations again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Attempt {
    /// Uid of the Work.
    pub work_uid: String,
    /// Its generation.
    pub generation: i64,
    /// Digest of its spec.
    pub spec_digest: String,
}

/// One object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Which.
    #[serde(flatten)]
    pub id: WorkResourceIdentifier,
    /// Its uid, once known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// How far it is known to have come.
    #[serde(default)]
    pub state: State,
}

/// How far an object is known to have come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// It may exist, and may be ours.
    #[default]
    Intended,
    /// It was applied or taken over.
    Owned,
}

impl Inventory {
    /// The inventory to be written before the first change of this attempt; nothing if it already was.
    pub fn intend(&self, attempt: &Attempt, manifests: &[Manifest]) -> Option<Self> {
        let mut entries = self.keyed();
        for manifest in manifests.iter().filter(|manifest| manifest.object.is_ok()) {
            let Some(key) = ObjectKey::of(&manifest.id) else {
                continue;
            };
            let entry = entries.entry(key).or_default();
            // Version and place may have moved; what is known of the object stays.
            entry.id = manifest.id.clone();
        }
        let next = Self {
            attempt: attempt.clone(),
            entries: entries.into_values().collect(),
        };
        (next != *self).then_some(next)
    }

    /// Notes that the object was applied or taken over.
    pub fn owned(&mut self, id: &WorkResourceIdentifier, uid: &str) {
        let key = ObjectKey::of(id);
        let known = self.entries.iter_mut().find(|entry| ObjectKey::of(&entry.id) == key);
        match known {
            Some(entry) => {
                uid.clone_into(&mut entry.uid);
                entry.state = State::Owned;
            }
            // Not written down before: late is better than never.
            None => self.entries.push(Entry {
                id: id.clone(),
                uid: uid.to_owned(),
                state: State::Owned,
            }),
        }
    }

    /// Entries that the spec no longer names. A manifest that cannot be mapped or has failed is still named; while one
    /// cannot even be read, nothing is left over, since nobody knows what it names.
    pub fn leftovers(&self, manifests: &[Manifest]) -> Vec<&Entry> {
        let unreadable = |manifest: &Manifest| matches!(manifest.object, Err(ApplyFailure::NotAnObject { .. }));
        if manifests.iter().any(unreadable) {
            return Vec::new();
        }
        let named: BTreeSet<ObjectKey> = manifests
            .iter()
            .filter_map(|manifest| ObjectKey::of(&manifest.id))
            .collect();
        self.entries
            .iter()
            .filter(|entry| ObjectKey::of(&entry.id).is_none_or(|key| !named.contains(&key)))
            .collect()
    }

    /// Drops the entry of an object for which `confirmed` holds.
    pub fn forget(&mut self, id: &WorkResourceIdentifier, _confirmed: Confirmed) {
        let key = ObjectKey::of(id);
        self.entries.retain(|entry| ObjectKey::of(&entry.id) != key);
    }

    /// The inventory of a cluster on which upstream's agent ran: all that it may have created.
    pub fn adopted(work: &WorkStatus, applied: &[AppliedResource]) -> Self {
        let mut inventory = Self::default();
        for entry in &work.manifest_conditions {
            let condition = conditions::find(&entry.conditions, Applied::TYPE);
            // No condition is a sign of `ReportDiff`, under which objects are taken over: they may be ours.
            let maybe = condition.is_none_or(|c| Status::of(c) == Status::True || c.reason == "PreparingToProcess");
            if maybe && ObjectKey::of(&entry.identifier).is_some() {
                inventory.entries.push(Entry {
                    id: entry.identifier.clone(),
                    ..Entry::default()
                });
            }
        }
        for resource in applied {
            inventory.owned(&identifier(resource), &resource.uid);
        }
        inventory.entries = inventory.keyed().into_values().collect();
        inventory
    }

    /// Entries by object, nameless ones left out: there is no object that they could stand for.
    fn keyed(&self) -> BTreeMap<ObjectKey, Entry> {
        self.entries
            .iter()
            .filter_map(|entry| Some((ObjectKey::of(&entry.id)?, entry.clone())))
            .collect()
    }
}

/// Why an entry may be dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confirmed {
    /// The object does not exist.
    Gone,
    /// It exists and does not carry our reference.
    NotOurs,
    /// Our reference was removed from it.
    Released,
    /// It is the same object (by uid) as one that the spec names, under another group or kind.
    Renamed,
}

/// What to do about a leftover.
#[derive(Debug, Clone, PartialEq)]
pub enum Removal {
    /// Forget the entry.
    Forget(Confirmed),
    /// Delete the object, if it still has this uid; forget the entry once it is gone.
    Delete {
        /// The precondition.
        uid: String,
    },
    /// Update the object to this, which no longer has our reference; then forget the entry.
    Release(Value),
    /// It is going already, or its state is not known: keep the entry and look again.
    Keep,
}

/// What to do about a leftover whose live object is `live`. `current` has the uids of the live objects that the spec names.
pub fn removal(live: Live<'_>, owner: &Owner, current: &BTreeSet<String>) -> Removal {
    let live = match live {
        Live::Failed(_) => return Removal::Keep,
        Live::Absent => return Removal::Forget(Confirmed::Gone),
        Live::Found(live) => live,
    };
    let uid = text(live, &["metadata", "uid"]);
    if current.contains(uid) {
        return Removal::Forget(Confirmed::Renamed);
    }
    if !owner.owns(live) {
        return Removal::Forget(Confirmed::NotOurs);
    }
    if at(live, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null()) {
        return Removal::Keep;
    }
    if owner.shares(live) {
        Removal::Release(owner.released(live))
    } else {
        Removal::Delete { uid: uid.to_owned() }
    }
}

/// `status.appliedResources`: what was applied in this round, in order, with upstream's exact meaning.
pub fn applied_resources(reports: &[ManifestReport]) -> Vec<AppliedResource> {
    reports
        .iter()
        .filter(|report| report.verdict.is_applied())
        .map(|report| {
            let WorkResourceIdentifier {
                ordinal,
                group,
                version,
                kind,
                resource,
                namespace,
                name,
            } = report.id.clone();
            let uid = report
                .live
                .as_ref()
                .map(|live| text(live, &["metadata", "uid"]).to_owned())
                .unwrap_or_default();
            AppliedResource {
                ordinal,
                group,
                version,
                kind,
                resource,
                namespace,
                name,
                uid,
            }
        })
        .collect()
}

fn identifier(resource: &AppliedResource) -> WorkResourceIdentifier {
    let AppliedResource {
        ordinal,
        group,
        version,
        kind,
        resource,
        namespace,
        name,
        ..
    } = resource.clone();
    WorkResourceIdentifier {
        ordinal,
        group,
        version,
        kind,
        resource,
        namespace,
        name,
    }
}

#[cfg(test)]
mod tests;
