//! Resource snapshots.

use std::collections::BTreeMap;
use std::ops::Range;

use fleet_api::names::{self, PlacementKey};
use fleet_api::raw::RawJson;
use fleet_api::{annotations, labels};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::delay::{self, Decision, Flags};
use super::{OldSnapshot, is_latest, number, surplus};

/// The most that the objects of one snapshot have together, unless one alone has more.
pub const CHUNK_BYTES_MAX: usize = 800 * 1024;

/// One object of a snapshot group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Existing {
    /// Its name.
    pub name: String,
    /// The group's index; none if the label cannot be read.
    pub index: Option<u64>,
    /// None for a master.
    pub subindex: Option<usize>,
    /// What only a master has.
    pub master: Option<Master>,
}

/// What only the master of a group has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Master {
    /// Whether it carries the label of the latest.
    pub labelled_latest: bool,
    /// The hash of the group's content.
    pub hash: String,
    /// When it was created.
    pub created: Timestamp,
    /// The annotation with the time of detection, as it is.
    pub detected: Option<String>,
}

impl Existing {
    /// A resource snapshot of either scope.
    pub fn of(metadata: &ObjectMeta) -> Self {
        let annotation = |key| metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            index: number(metadata, labels::RESOURCE_INDEX),
            subindex: annotation(annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT).and_then(|text| text.parse().ok()),
            master: annotation(annotations::RESOURCE_HASH).map(|hash| Master {
                labelled_latest: is_latest(metadata),
                hash,
                created: metadata
                    .creation_timestamp
                    .as_ref()
                    .map(|time| time.0)
                    .unwrap_or_default(),
                detected: annotation(annotations::NEXT_RESOURCE_SNAPSHOT_DETECTED),
            }),
        }
    }
}

/// What to write: first take the label away, then delete, then create in order, then the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Take the label of the latest from these.
    pub demote: Vec<String>,
    /// Delete these.
    pub delete: Vec<String>,
    /// Create these, the master first.
    pub create: Vec<New>,
    /// Give this one the label of the latest.
    pub promote: Option<String>,
    /// Write the time of detection to this one.
    pub record: Option<(String, Timestamp)>,
    /// Take the time of detection from this one: the change was taken back.
    pub forget: Option<String>,
    /// A change is held back until then. What the placement shows is still the group of `index`.
    pub wait: Option<Timestamp>,
    /// The index of the group that counts once this is written.
    pub index: u64,
}

/// A snapshot to create. Its owner is the placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct New {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Which of the selected objects it holds.
    pub range: Range<usize>,
}

/// The selection to be frozen.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The objects as they are stored, in order.
    pub objects: &'a [RawJson],
    /// How many of them are envelopes.
    pub envelopes: usize,
}

/// How much a placement keeps and how long it waits.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// `revisionHistoryLimit`.
    pub history_limit: usize,
    /// The flags that hold back changes.
    pub flags: Flags,
    /// Whether nothing is held back: for an update run that takes its own snapshot.
    pub at_once: bool,
    /// A new group gets an index above this one. What bindings and runs name may have been deleted: other content under the
    /// name of it would reach those clusters all at once, as what they have already.
    pub above: Option<u64>,
}

/// The greatest index in the names of these master snapshots of a placement.
pub fn greatest_index<'a>(placement: &PlacementKey, masters: impl IntoIterator<Item = &'a str>) -> Option<u64> {
    let index = |name: &str| {
        let rest = name.strip_prefix(placement.name())?.strip_prefix('-')?;
        rest.strip_suffix("-snapshot")?.parse().ok()
    };
    masters.into_iter().filter_map(index).max()
}

/// The hash of a selection: over the whole ordered list, before it is split.
pub fn hash(objects: &[RawJson]) -> String {
    let mut json = String::from(r#"{"selectedResources":["#);
    for (i, object) in objects.iter().enumerate() {
        if i > 0 {
            json.push(',');
        }
        json.push_str(object.as_str());
    }
    json.push_str("]}");
    names::sha256_hex(json)
}

/// Splits a selection into chunks, in order, each as large as allowed. An object that is too large for any chunk sits
/// alone; nothing at all is one empty chunk.
pub fn split(objects: &[RawJson]) -> Vec<Range<usize>> {
    let mut chunks = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (i, object) in objects.iter().enumerate() {
        // Upstream's objects end with a newline, which counts.
        let size = object.as_str().len() + 1;
        if i > start && bytes + size > CHUNK_BYTES_MAX {
            chunks.push(start..i);
            (start, bytes) = (i, 0);
        }
        bytes += size;
    }
    chunks.push(start..objects.len());
    chunks
}

/// What the selection needs, given the placement's snapshots. `in_use` tells whether a binding names a group.
pub fn plan(
    placement: &PlacementKey,
    selection: Selection<'_>,
    rules: Rules,
    existing: &[Existing],
    in_use: &dyn Fn(u64) -> bool,
    now: Timestamp,
) -> Changes {
    let hash = hash(selection.objects);
    let masters = masters(existing);
    // Of several that carry the label the highest index counts; of none, too: a crash came before the next one.
    let latest = masters
        .iter()
        .max_by_key(|(index, _, master)| (master.labelled_latest, *index));
    let highest = existing.iter().filter_map(|snapshot| snapshot.index).max();

    let mut changes = Changes::default();
    let mut creating = false;
    match latest {
        Some((index, name, master)) if master.hash == hash => {
            changes.index = *index;
            changes.promote = (!master.labelled_latest).then(|| (*name).to_owned());
            changes.forget = master.detected.is_some().then(|| (*name).to_owned());
            changes.create = missing(placement, selection, &hash, *index, existing);
        }
        Some((index, name, master)) if master.labelled_latest && !rules.at_once => {
            let detected = master.detected.as_deref().and_then(|at| at.parse().ok());
            let mut created: Vec<_> = masters.iter().map(|(_, _, master)| master.created).collect();
            created.sort_unstable_by(|a, b| b.cmp(a));
            match delay::decide(rules.flags, &created, detected, now) {
                Decision::Wait { until, record } => {
                    changes.index = *index;
                    changes.wait = Some(until);
                    changes.record = record.map(|at| ((*name).to_owned(), at));
                }
                Decision::Now => creating = true,
            }
        }
        Some(_) | None => creating = true,
    }
    if creating {
        changes.index = highest.max(rules.above).map_or(0, |index| index.saturating_add(1));
        changes.create = chunks(placement, selection, &hash, changes.index);
    }
    let current = changes.index;
    let others = masters.iter().filter(|(index, ..)| *index != current);
    let demote = others
        .filter(|(_, _, master)| master.labelled_latest)
        .map(|(_, name, _)| (*name).to_owned());
    changes.demote = demote.collect();
    changes.delete = old_groups(existing, current, rules.history_limit, in_use);
    changes.demote.retain(|name| !changes.delete.contains(name));
    changes
}

fn masters(existing: &[Existing]) -> Vec<(u64, &str, &Master)> {
    existing
        .iter()
        .filter_map(|s| Some((s.index?, s.name.as_str(), s.master.as_ref()?)))
        .collect()
}

/// The objects of the group that are not there yet: a crash came in between.
fn missing(
    placement: &PlacementKey,
    selection: Selection<'_>,
    hash: &str,
    index: u64,
    existing: &[Existing],
) -> Vec<New> {
    let mut chunks = chunks(placement, selection, hash, index);
    chunks.retain(|new| !existing.iter().any(|snapshot| snapshot.name == new.name));
    chunks
}

fn chunks(placement: &PlacementKey, selection: Selection<'_>, hash: &str, index: u64) -> Vec<New> {
    let ranges = split(selection.objects);
    let total = ranges.len();
    let make = |(position, range): (usize, Range<usize>)| {
        let mut labels = BTreeMap::from([
            (labels::PARENT_PLACEMENT.to_owned(), placement.name().to_owned()),
            (labels::RESOURCE_INDEX.to_owned(), index.to_string()),
        ]);
        let Some(subindex) = position.checked_sub(1) else {
            labels.insert(labels::IS_LATEST_SNAPSHOT.into(), labels::TRUE.into());
            let annotations = [
                (annotations::RESOURCE_HASH, hash.to_owned()),
                (annotations::NUMBER_OF_RESOURCE_SNAPSHOTS, total.to_string()),
                (annotations::NUMBER_OF_ENVELOPES, selection.envelopes.to_string()),
            ];
            let annotations = annotations.map(|(key, value)| (key.to_owned(), value)).into();
            return New {
                name: names::resource_snapshot(placement, index),
                labels,
                annotations,
                range,
            };
        };
        let annotations = [(
            annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT.to_owned(),
            subindex.to_string(),
        )]
        .into();
        New {
            name: names::resource_subsnapshot(placement, index, subindex),
            labels,
            annotations,
            range,
        }
    };
    ranges.into_iter().enumerate().map(make).collect()
}

/// All objects of the groups beyond the limit, except the current group and groups in use.
fn old_groups(existing: &[Existing], current: u64, limit: usize, in_use: &dyn Fn(u64) -> bool) -> Vec<String> {
    let mut indexes: Vec<_> = existing
        .iter()
        .filter_map(|s| s.index)
        .filter(|index| *index != current)
        .collect();
    indexes.sort_unstable();
    indexes.dedup();
    let held: Vec<_> = indexes
        .iter()
        .map(|index| OldSnapshot {
            index: *index,
            in_use: in_use(*index),
        })
        .collect();
    let gone = surplus(&held, limit, true);
    let mut names: Vec<_> = existing
        .iter()
        .filter(|s| s.index.is_some_and(|i| gone.contains(&i)))
        .collect();
    // Newest first, and masters last: a group never looks complete when it is not.
    names.sort_by_key(|s| (std::cmp::Reverse(s.index), s.master.is_some(), s.subindex));
    names.into_iter().map(|s| s.name.clone()).collect()
}

#[cfg(test)]
mod tests;
