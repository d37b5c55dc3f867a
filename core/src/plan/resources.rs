//! What is selected, and the snapshot that would hold it.

use std::collections::BTreeSet;
use std::ops::Range;

use fleet_api::placement::RolloutStrategyType;
use fleet_api::raw::RawJson;
use fleet_api::{annotations, labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::answer::{PlacedObject, Resources};
use super::{Walk, World};
use crate::envelope::EnvelopeKind;
use crate::selection::ObjectId;
use crate::snapshot::delay::Flags;
use crate::snapshot::number;
use crate::snapshot::resource::{self, Existing, Rules, Selection};
use crate::work::{Group, Snapshot};

/// The snapshots of the group that counts.
pub(super) struct Frozen<'w> {
    /// The master's name.
    pub(super) snapshot: String,
    index: String,
    texts: &'w [RawJson],
    ranges: Vec<Range<usize>>,
}

impl Frozen<'_> {
    /// As the work generator reads it.
    pub(super) fn group(&self) -> Group<'_> {
        let snapshots = self.ranges.iter().enumerate().map(|(position, range)| Snapshot {
            subindex: position.checked_sub(1),
            resources: &self.texts[range.clone()],
        });
        Group {
            index: &self.index,
            snapshots: snapshots.collect(),
        }
    }
}

/// Freezes the selection. Changes that the hub would hold back for a moment count: the plan is about what comes of them.
pub(super) fn freeze<'w>(walk: &Walk<'w, '_>) -> (Resources, Frozen<'w>) {
    let (world, texts) = (walk.world, walk.texts);
    let objects: Vec<_> = texts
        .iter()
        .filter_map(|text| Some((ObjectId::of(text).ok()?, text)))
        .collect();
    let envelopes = objects.iter().filter(|(object, _)| EnvelopeKind::of(object).is_some());
    let selection = Selection {
        objects: texts,
        envelopes: envelopes.count(),
    };
    let live = world
        .snapshots
        .iter()
        .filter(|it| it.metadata.deletion_timestamp.is_none());
    let existing: Vec<_> = live.map(|snapshot| Existing::of(snapshot.metadata)).collect();
    let named: BTreeSet<&str> = world
        .bindings
        .iter()
        .map(|binding| binding.spec.resource_snapshot_name.as_str())
        .collect();
    let of_bindings = existing.iter().filter(|it| named.contains(it.name.as_str()));
    let mut used: BTreeSet<u64> = of_bindings.filter_map(|it| it.index).collect();
    used.extend(world.named_by_runs);
    // What somebody deletes is made again by the rollout as it was; a run takes another index.
    let by_run = world.placement.spec.rollout_type() == RolloutStrategyType::External;
    let recorded = world.recorded_by_runs.iter().copied();
    let taken = recorded.chain(resource::greatest_index(world.key, named)).max();
    let rules = Rules {
        history_limit: walk.history_limit(),
        flags: Flags::default(),
        at_once: true,
        above: taken.filter(|_| by_run),
    };
    let in_use = |index| used.contains(&index);
    let changes = resource::plan(world.key, selection, rules, &existing, &in_use, world.now);
    let snapshot = names::resource_snapshot(world.key, changes.index);
    let resources = Resources {
        is_new: !existing.iter().any(|it| it.name == snapshot),
        snapshot: snapshot.clone(),
        index: changes.index,
        hash: resource::hash(texts),
        bytes: texts.iter().map(|text| text.as_str().len()).sum(),
        objects: objects.into_iter().map(placed).collect(),
    };
    let frozen = Frozen {
        snapshot,
        index: changes.index.to_string(),
        texts,
        ranges: resource::split(texts),
    };
    (resources, frozen)
}

/// What was selected at an earlier time.
pub(super) struct Then {
    index: u64,
    snapshot: String,
    hash: String,
    /// Whether one of the group says how many there are.
    pub(super) has_master: bool,
    pub(super) texts: Vec<RawJson>,
}

/// The group of an index that a run names, if it is there.
pub(super) fn of_index(world: &World<'_>, index: &str) -> Option<Then> {
    let asked: u64 = index.parse().ok()?;
    let live = world
        .snapshots
        .iter()
        .filter(|it| it.metadata.deletion_timestamp.is_none());
    let group: Vec<_> = live
        .filter(|it| number(it.metadata, labels::RESOURCE_INDEX) == Some(asked))
        .collect();
    group.first()?;
    let hash = |metadata: &ObjectMeta| {
        let hash = metadata.annotations.as_ref()?.get(annotations::RESOURCE_HASH)?;
        Some(hash.clone()).filter(|hash| !hash.is_empty())
    };
    let master = group.iter().find(|it| hash(it.metadata).is_some());
    let collected = master.and_then(|master| {
        let all = group.iter().map(|snapshot| **snapshot);
        Group::collect(world.key, **master, all).ok()
    });
    Some(Then {
        index: asked,
        snapshot: names::resource_snapshot(world.key, asked),
        hash: master.and_then(|master| hash(master.metadata)).unwrap_or_default(),
        has_master: master.is_some(),
        texts: collected
            .map(|group| group.resources().cloned().collect())
            .unwrap_or_default(),
    })
}

/// The same as of a selection of now. Nothing new is made of it.
pub(super) fn frozen_then<'w>(walk: &Walk<'w, '_>, then: &Then) -> (Resources, Frozen<'w>) {
    let texts = walk.texts;
    let objects = texts.iter().filter_map(|text| Some((ObjectId::of(text).ok()?, text)));
    let resources = Resources {
        snapshot: then.snapshot.clone(),
        index: then.index,
        is_new: false,
        hash: then.hash.clone(),
        bytes: texts.iter().map(|text| text.as_str().len()).sum(),
        objects: objects.map(placed).collect(),
    };
    let frozen = Frozen {
        snapshot: then.snapshot.clone(),
        index: then.index.to_string(),
        texts,
        ranges: resource::split(texts),
    };
    (resources, frozen)
}

fn placed((object, text): (ObjectId, &RawJson)) -> PlacedObject {
    PlacedObject {
        api_version: object.api_version(),
        kind: object.kind,
        namespace: object.namespace,
        name: object.name,
        bytes: text.as_str().len(),
    }
}
