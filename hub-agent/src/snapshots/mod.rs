//! Keeps a placement's snapshots as its policy and its selection ask for.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use fleet_api::{
    annotations,
    kind::SpecKind,
    labels,
    names::PlacementKey,
    placement::{PolicySnapshotSpec, ResourceSnapshotSpec, Scope},
    raw::RawJson,
};
use fleet_core::{
    snapshot::{history_limit, policy, resource},
    updaterun::{Run, needed_indexes, recorded_indexes},
};
use fleet_runtime::{Key, cache::Store};
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::{
    Resource, ResourceExt,
    core::{
        ObjectMeta,
        object::{HasSpec as _, HasStatus as _},
    },
};
use serde_json::{Value, json};

use crate::{
    cache::family::{beside, owned_by, parent},
    pipeline::{Error, Pipeline, key_of},
    writer::Part,
};

/// What a snapshot freezes.
pub(crate) struct Content {
    pub(crate) texts: Vec<RawJson>,
    pub(crate) envelopes: usize,
}

/// Whether there are more snapshots than the placement wants to keep, so that a release may let one go.
pub(crate) fn has_surplus<S: Scope>(ctx: &Pipeline<S>, key: &Key) -> bool {
    let Some(placement) = ctx.family.placements.get(key) else {
        return false;
    };
    let limit = history_limit(placement.spec());
    ctx.family.policies_of.count(key) > limit || ctx.family.snapshots_of.count(key) > limit
}

/// The policy snapshot.
pub(crate) async fn policy<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &S::Placement) -> Result<(), Error> {
    let name = key_of(key)?;
    let named: BTreeSet<_> = ctx
        .family
        .bindings_of
        .get(key)
        .iter()
        .map(|binding| binding.spec().scheduling_policy_snapshot_name.clone())
        .collect();
    let stored = ctx.family.policies_of.get(key);
    let existing: Vec<_> = stored
        .iter()
        .filter(|snapshot| snapshot.meta().deletion_timestamp.is_none())
        .map(|snapshot| {
            let in_use = named.contains(&snapshot.name_any());
            policy::Existing::of(snapshot.meta(), snapshot.spec(), in_use)
        })
        .collect();
    let wanted = placement.spec().policy.as_ref();
    let generation = placement.meta().generation.unwrap_or_default();
    let changes = policy::plan(&name, generation, wanted, history_limit(placement.spec()), &existing)
        .map_err(|error| Error::Compare(key.to_string(), error))?;
    let store = &ctx.family.policies;
    demote(ctx, store, key, &changes.demote).await?;
    delete(ctx, store, key, &changes.delete).await?;
    if let Some(policy::New {
        name,
        labels,
        annotations,
        hash,
    }) = changes.create
    {
        let spec = PolicySnapshotSpec {
            // Its number of clusters may be outdated: scaling makes no new snapshot, the annotation counts.
            policy: wanted.cloned(),
            policy_hash: ByteString(hash),
        };
        let meta = metadata::<S>(key, placement, &name, labels, annotations);
        create(ctx, store, key, S::PolicySnapshot::from_spec(meta, spec)).await?;
        tracing::info!(snapshot = name, "Created the policy snapshot");
    }
    if let Some(policy::Update {
        name,
        labels,
        annotations,
    }) = changes.update
    {
        let patch = json!({ "metadata": { "labels": labels, "annotations": annotations } });
        write(ctx, store, key, &name, patch).await?;
    }
    Ok(())
}

/// What became of a selection.
pub(crate) struct Frozen {
    /// The index of the group that counts.
    pub(crate) index: u64,
    /// A change is held back until then.
    pub(crate) wait: Option<Timestamp>,
}

/// The resource snapshots. A change may be held back for a while, unless it is wanted `at_once`.
pub(crate) async fn resources<S: Scope>(
    ctx: &Pipeline<S>,
    key: &Key,
    placement: &S::Placement,
    content: &Content,
    at_once: bool,
) -> Result<Frozen, Error> {
    let name = key_of(key)?;
    let stored = ctx.family.snapshots_of.get(key);
    let live = stored
        .iter()
        .filter(|snapshot| snapshot.meta().deletion_timestamp.is_none());
    let existing: Vec<_> = live.map(|snapshot| resource::Existing::of(snapshot.meta())).collect();
    let indexes: HashMap<_, _> = existing
        .iter()
        .filter_map(|s| Some((s.name.as_str(), s.index?)))
        .collect();
    let used: BTreeSet<u64> = ctx
        .family
        .bindings_of
        .get(key)
        .iter()
        .filter_map(|binding| indexes.get(binding.spec().resource_snapshot_name.as_str()).copied())
        .chain(named_by_runs(ctx, key))
        .collect();
    let rules = resource::Rules {
        history_limit: history_limit(placement.spec()),
        flags: ctx.shared.settings.delay,
        at_once,
        // What somebody deletes is made again by the rollout as it was; a run takes another index.
        above: if at_once { greatest_named(ctx, key, &name) } else { None },
    };
    let frozen = resource::Selection {
        objects: &content.texts,
        envelopes: content.envelopes,
    };
    let changes = resource::plan(
        &name,
        frozen,
        rules,
        &existing,
        &|index| used.contains(&index),
        ctx.now(),
    );
    let store = &ctx.family.snapshots;
    if !existing.is_empty() && !changes.create.is_empty() {
        let generation = placement.meta().generation.unwrap_or_default();
        ctx.signals.steps.begin_again(key, generation);
    }
    demote(ctx, store, key, &changes.demote).await?;
    delete(ctx, store, key, &changes.delete).await?;
    for resource::New {
        name,
        labels,
        annotations,
        range,
    } in changes.create
    {
        let spec = ResourceSnapshotSpec {
            selected_resources: content.texts[range].to_vec(),
        };
        let meta = metadata::<S>(key, placement, &name, labels, annotations);
        create(ctx, store, key, S::ResourceSnapshot::from_spec(meta, spec)).await?;
        tracing::info!(snapshot = name, "Created the resource snapshot");
    }
    if let Some(name) = changes.promote {
        let patch = json!({ "metadata": { "labels": { labels::IS_LATEST_SNAPSHOT: labels::TRUE } } });
        write(ctx, store, key, &name, patch).await?;
    }
    if let Some((name, at)) = changes.record {
        let at = at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let note = json!({ annotations::NEXT_RESOURCE_SNAPSHOT_DETECTED: at });
        write(ctx, store, key, &name, json!({ "metadata": { "annotations": note } })).await?;
    }
    if let Some(name) = changes.forget {
        let note = json!({ annotations::NEXT_RESOURCE_SNAPSHOT_DETECTED: null });
        write(ctx, store, key, &name, json!({ "metadata": { "annotations": note } })).await?;
    }
    Ok(Frozen {
        index: changes.index,
        wait: changes.wait,
    })
}

/// The greatest index that a binding or an update run names, whether it is there or not.
fn greatest_named<S: Scope>(ctx: &Pipeline<S>, key: &Key, placement: &PlacementKey) -> Option<u64> {
    let bindings = ctx.family.bindings_of.get(key);
    let named = bindings
        .iter()
        .map(|binding| binding.spec().resource_snapshot_name.as_str());
    let runs = ctx.family.updates.runs_of.get(key);
    let recorded = recorded_indexes(&views::<S>(&runs)).into_iter();
    recorded.chain(resource::greatest_index(placement, named)).max()
}

fn views<S: Scope>(runs: &[Arc<S::UpdateRun>]) -> Vec<Run<'_>> {
    runs.iter()
        .map(|run| Run::of(run.meta(), run.spec(), run.status()))
        .collect()
}

/// The groups that unfinished update runs name, or may have to give back.
fn named_by_runs<S: Scope>(ctx: &Pipeline<S>, key: &Key) -> Vec<u64> {
    let runs = ctx.family.updates.runs_of.get(key);
    let views = views::<S>(&runs);
    let mut named = needed_indexes(&views);
    // What a run has frozen is in its status only a moment later: nothing goes while another one makes its plan too.
    if views.iter().filter(|run| run.is_to_freeze()).count() > 1 {
        let all = ctx.family.snapshots_of.get(key);
        named.extend(
            all.iter()
                .filter_map(|snapshot| resource::Existing::of(snapshot.meta()).index),
        );
    }
    named
}

fn metadata<S: Scope>(
    key: &Key,
    placement: &S::Placement,
    name: &str,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: key.namespace().map(ToOwned::to_owned),
        labels: Some(labels),
        annotations: Some(annotations),
        owner_references: owned_by(placement),
        ..ObjectMeta::default()
    }
}

async fn create<S: Scope, K: SpecKind>(
    ctx: &Pipeline<S>,
    store: &Store<K>,
    placement: &Key,
    object: K,
) -> Result<(), Error> {
    let key = Key::of(&object);
    let make = || Some(RawJson::from_serialize(&object));
    if ctx.shared.writer.create(store, &key, placement, make).await?.is_some() {
        return Ok(());
    }
    let known = store.get(&key);
    if known.is_some_and(|known| parent(&*known).as_ref() != Some(placement)) {
        let label = labels::PARENT_PLACEMENT;
        return Err(Error::Held(format!(
            "{} {key} is in the way: its label {label} does not name this placement; delete it",
            K::KIND
        )));
    }
    // A lost answer, or a cache that is behind: what is there decides, and the watch brings it.
    Err(Error::NotYet(format!("{} {key} exists already", K::KIND)))
}

async fn demote<S: Scope, K: SpecKind>(
    ctx: &Pipeline<S>,
    store: &Store<K>,
    placement: &Key,
    names: &[String],
) -> Result<(), Error> {
    let patch = json!({ "metadata": { "labels": { labels::IS_LATEST_SNAPSHOT: labels::FALSE } } });
    try_join_all(
        names
            .iter()
            .map(|name| write(ctx, store, placement, name, patch.clone())),
    )
    .await?;
    Ok(())
}

async fn write<S: Scope, K: SpecKind>(
    ctx: &Pipeline<S>,
    store: &Store<K>,
    placement: &Key,
    name: &str,
    patch: Value,
) -> Result<(), Error> {
    let key = beside(placement, name);
    let patch = |_: &K| Some(patch);
    ctx.shared
        .writer
        .patch(store, &key, placement, Part::Object, patch)
        .await?;
    Ok(())
}

async fn delete<S: Scope, K: SpecKind>(
    ctx: &Pipeline<S>,
    store: &Store<K>,
    placement: &Key,
    names: &[String],
) -> Result<(), Error> {
    for name in names {
        let key = beside(placement, name);
        let uid = store.get(&key).and_then(|object| object.uid());
        ctx.shared
            .writer
            .delete(store, &key, placement, uid.as_deref(), None)
            .await?;
    }
    Ok(())
}
