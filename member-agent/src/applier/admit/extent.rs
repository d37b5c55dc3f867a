//! What of a Work has to be looked at.

use std::{collections::BTreeSet, time::Duration};

use fleet_core::apply::identify::ObjectKey;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::applier::{
    memory::{ManifestMemory, WorkMemory},
    round::Extent,
};

/// Why a Work may have to be looked at.
pub(super) struct Cause {
    /// Objects that changed.
    pub(super) changed: BTreeSet<ObjectKey>,
    /// The hub asked for a report.
    pub(super) asked: bool,
    /// Steady time.
    pub(super) now: Timestamp,
    /// Everything is looked at as often as that.
    pub(super) longest: Duration,
}

/// What has to be looked at; none if nothing has.
pub(super) fn extent(memory: &WorkMemory, cause: &Cause) -> Option<Extent> {
    let Cause { changed, now, .. } = cause;
    let schedule = &memory.schedule;
    let fresh = schedule.full_at.is_some_and(|at| at.elapsed() < cause.longest);
    if !fresh {
        return Some(Extent::All);
    }
    let timer = schedule.due.is_none_or(|due| due <= Instant::now());
    let due = |until: Option<Timestamp>| until.is_some_and(|until| until <= *now);
    let defined = changed.iter().any(|key| key.kind == "CustomResourceDefinition");
    // What is unknown is neither written down nor watched yet; a round over everything begins that.
    if (defined || timer) && memory.manifests.iter().any(ManifestMemory::is_unknown) {
        return Some(Extent::All);
    }
    let in_changed_namespace = |manifest: &ManifestMemory| {
        let is_it = |key: &ObjectKey| key.kind == "Namespace" && key.name == manifest.id.namespace;
        changed.iter().any(is_it)
    };
    // What is left over may stand in the way of what failed, until it goes.
    let room = changed.iter().any(|key| memory.is_left_over(key));
    let places = memory.manifests.iter().enumerate().filter(|(_, manifest)| {
        if !manifest.is_workable() {
            return false;
        }
        let touched = manifest.key().is_some_and(|key| changed.contains(&key));
        touched || due(manifest.until) || !manifest.is_settled() && (timer || room || in_changed_namespace(manifest))
    });
    let places: BTreeSet<usize> = places.map(|(at, _)| at).collect();
    // A namespace that we only look at, or the echo of an own write, is nothing to report.
    let ours = changed
        .iter()
        .any(|key| memory.ledger.inventory.entries.contains_key(key));
    let nothing = places.is_empty() && !ours && !cause.asked && !timer && !defined;
    (!nothing).then_some(Extent::Some(places))
}
