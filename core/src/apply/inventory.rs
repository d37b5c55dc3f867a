//! What may exist on the member because of a Work, written down before it is made.
//!
//! The inventory is kept in the status of the AppliedWork: `appliedResources` and, for whatever is not among them, a short
//! list of names. An entry is dropped only when its object is confirmed gone, confirmed not to be ours, or released: no
//! mode, failure or new order of manifests ever drops one.

use fleet_api::conditions::manifest::{Applied, ApplyFailure};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{
    AppliedResource, AppliedWorkInventory, AppliedWorkStatus, InventoryObjects, ManifestCondition,
    WorkResourceIdentifier, WorkStatus,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

use super::decide::Live;
use super::identify::{Manifest, ObjectKey};
use super::json::{at, text};
use super::owners::Owner;
use super::status::ManifestReport;

/// Everything that may exist, and the attempt that was last written down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// The last attempt.
    pub attempt: Attempt,
    /// The objects.
    pub entries: BTreeMap<ObjectKey, WorkResourceIdentifier>,
}

/// What was attempted. The digest is there because a hub restored from a backup counts its generations again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Uid of the Work.
    pub work_uid: String,
    /// Its generation.
    pub generation: i64,
    /// Digest of its spec.
    pub spec_digest: String,
    /// When it was first made; none if an older release wrote it down.
    pub at: Option<Timestamp>,
}

impl Inventory {
    /// Notes what this attempt may make. Whether that has to be written before the first change: an object that is
    /// written down already is found again whatever happens, so the attempt alone can wait for the result. That of another
    /// Work cannot, for it says whose deletion is meant.
    pub fn intend(&mut self, attempt: &Attempt, manifests: &[Manifest]) -> bool {
        let mut news = self.attempt.work_uid != attempt.work_uid;
        self.attempt = attempt.clone();
        for manifest in manifests.iter().filter(|manifest| manifest.object.is_ok()) {
            if let Some(key) = ObjectKey::of(&manifest.id) {
                // Version and place may have moved.
                news |= self.entries.insert(key, manifest.id.clone()).is_none();
            }
        }
        news
    }

    /// Entries that the spec no longer names. A manifest that cannot be mapped or has failed is still named; while one
    /// cannot even be read, nothing is left over, since nobody knows what it names.
    pub fn leftovers(&self, manifests: &[Manifest]) -> Vec<&WorkResourceIdentifier> {
        let unreadable = |manifest: &Manifest| matches!(manifest.object, Err(ApplyFailure::NotAnObject { .. }));
        if manifests.iter().any(unreadable) {
            return Vec::new();
        }
        self.unnamed(manifests)
    }

    /// Entries that no manifest names.
    pub fn unnamed(&self, manifests: &[Manifest]) -> Vec<&WorkResourceIdentifier> {
        let named: BTreeSet<ObjectKey> = manifests
            .iter()
            .filter_map(|manifest| ObjectKey::of(&manifest.id))
            .collect();
        let left = self.entries.iter().filter(|(key, _)| !named.contains(key));
        left.map(|(_, id)| id).collect()
    }

    /// Manifests that name an object of the same namespace and name as one that is left over: it may be the very same
    /// object, under another group or kind.
    pub fn namesakes<'a>(left: &[WorkResourceIdentifier], manifests: &'a [Manifest]) -> Vec<&'a Manifest> {
        let places: BTreeSet<(&str, &str)> = left.iter().map(|id| (&*id.namespace, &*id.name)).collect();
        let same = |manifest: &&Manifest| places.contains(&(&*manifest.id.namespace, &*manifest.id.name));
        manifests.iter().filter(same).collect()
    }

    /// Drops the entry of an object for which `confirmed` holds.
    pub fn forget(&mut self, id: &WorkResourceIdentifier, _confirmed: Confirmed) {
        if let Some(key) = ObjectKey::of(id) {
            self.entries.remove(&key);
        }
    }

    /// The inventory of a cluster on which upstream's agent ran: all that it may have created.
    pub fn adopted(work: &WorkStatus, applied: &[AppliedResource]) -> Self {
        let maybe_made = |entry: &&ManifestCondition| {
            let condition = conditions::find(&entry.conditions, Applied::TYPE);
            // No condition is a sign of `ReportDiff`, under which objects are taken over: they may be ours.
            condition.is_none_or(|c| Status::of(c) == Status::True || c.reason == "PreparingToProcess")
        };
        let made = work.manifest_conditions.iter().filter(maybe_made);
        let ids = made.map(|entry| &entry.identifier).chain(applied.iter().map(|a| &a.id));
        Self {
            attempt: Attempt::default(),
            entries: keyed(ids.cloned()),
        }
    }

    /// The inventory that an AppliedWork carries; none if it was never written, as on clusters of other agents.
    pub fn stored(status: &AppliedWorkStatus) -> Option<Self> {
        let stored = status.inventory.as_ref()?;
        let applied = status.applied_resources.iter().map(|applied| applied.id.clone());
        let intended = stored.objects.iter().flat_map(|objects| {
            objects.names.iter().map(|name| WorkResourceIdentifier {
                ordinal: 0,
                group: objects.group.clone(),
                version: objects.version.clone(),
                kind: objects.kind.clone(),
                resource: objects.resource.clone(),
                namespace: objects.namespace.clone(),
                name: name.clone(),
            })
        });
        Some(Self {
            attempt: Attempt {
                work_uid: stored.work_uid.clone(),
                generation: stored.generation,
                spec_digest: stored.spec_digest.clone(),
                at: stored.recorded_at.as_ref().map(|time| time.0),
            },
            entries: keyed(intended.chain(applied)),
        })
    }

    /// What is written beside `appliedResources`, which list the objects for which `is_listed` holds.
    pub fn to_store(&self, is_listed: impl Fn(&ObjectKey) -> bool) -> AppliedWorkInventory {
        let mut groups: BTreeMap<[&str; 5], Vec<String>> = BTreeMap::new();
        for (_, id) in self.entries.iter().filter(|(key, _)| !is_listed(key)) {
            let group = [&*id.group, &*id.version, &*id.kind, &*id.resource, &*id.namespace];
            groups.entry(group).or_default().push(id.name.clone());
        }
        let objects = groups.into_iter().map(
            |([group, version, kind, resource, namespace], names)| InventoryObjects {
                group: group.to_owned(),
                version: version.to_owned(),
                kind: kind.to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                names,
            },
        );
        AppliedWorkInventory {
            work_uid: self.attempt.work_uid.clone(),
            generation: self.attempt.generation,
            spec_digest: self.attempt.spec_digest.clone(),
            recorded_at: self.attempt.at.map(Time),
            objects: objects.collect(),
        }
    }
}

/// By object, nameless ones left out: there is no object that they could stand for.
fn keyed(ids: impl Iterator<Item = WorkResourceIdentifier>) -> BTreeMap<ObjectKey, WorkResourceIdentifier> {
    ids.filter_map(|id| Some((ObjectKey::of(&id)?, id))).collect()
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
    let applied = reports.iter().filter(|report| report.verdict.is_applied());
    let uid = |live: &Value| text(live, &["metadata", "uid"]).to_owned();
    applied
        .map(|report| AppliedResource {
            id: report.id.clone(),
            uid: report.live.as_ref().map(uid).unwrap_or_default(),
        })
        .collect()
}

#[cfg(test)]
mod tests;
