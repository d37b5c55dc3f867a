//! Keeps the snapshots of overrides, of both kinds by one code path.

use std::collections::BTreeMap;

use fleet_api::{
    events::OverrideEvent,
    finalizers,
    kind::{Kind, SpecKind},
    labels,
    names::Scope,
    placement::{
        ClusterResourceOverride, ClusterResourceOverrideSnapshot, ClusterResourceOverrideSnapshotSpec,
        ResourceOverride, ResourceOverrideSnapshot, ResourceOverrideSnapshotSpec,
    },
    raw::RawJson,
};
use fleet_core::{
    admission::{
        Verdict,
        overrides::{self as admission, Others},
    },
    overrides::snapshots::{self as core, Existing},
};
use fleet_runtime::{
    Key,
    cache::{Index, Store},
    controller::{self, Measures},
    events::Recorder,
    queue::{Next, Queue},
};
use k8s_openapi::ByteString;
use kube::{
    Resource, ResourceExt,
    core::{ObjectMeta, object::HasSpec},
};
use serde::Serialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{
        family::{Family, beside, owned_by},
        overrides::{OverrideStores, another, parents},
    },
    pipeline::Error,
    writer::{Part, Writer, record, with_finalizers, without_finalizers},
};
use fleet_api::placement::{ClusterScoped, Namespaced};

/// What a pass works with.
#[derive(Clone)]
pub(crate) struct OverrideSnapshots {
    pub(crate) stores: OverrideStores,
    pub(crate) cluster: Family<ClusterScoped>,
    pub(crate) namespaced: Family<Namespaced>,
    pub(crate) writer: Writer,
    pub(crate) events: Recorder,
}

/// Overrides, their snapshots, and the snapshots by override.
type Stores<'a, K, N> = (&'a Store<K>, &'a Store<N>, &'a Index<N, Key>);

/// A kind of override, with that of its snapshots.
trait Override: SpecKind<Spec: Serialize + Clone + Send> {
    type Snapshot: SpecKind<Spec: Send>;

    fn snapshot_spec(spec: Self::Spec, hash: Vec<u8>) -> <Self::Snapshot as HasSpec>::Spec;
    fn hash(snapshot: &Self::Snapshot) -> Vec<u8>;
    fn stores(ctx: &OverrideSnapshots) -> Stores<'_, Self, Self::Snapshot>;
    /// Of which scope the objects are that it selects.
    const SCOPE: Scope;
    /// How many there are that count together with it, it included.
    fn count(key: &Key, stores: &OverrideStores) -> usize;
    /// What the webhook would say of it, were it new beside so many others.
    fn judge(&self, key: &Key, stores: &OverrideStores, count: usize) -> Verdict;
}

impl Override for ClusterResourceOverride {
    type Snapshot = ClusterResourceOverrideSnapshot;

    fn snapshot_spec(override_spec: Self::Spec, hash: Vec<u8>) -> ClusterResourceOverrideSnapshotSpec {
        ClusterResourceOverrideSnapshotSpec {
            override_spec,
            override_hash: ByteString(hash),
        }
    }

    fn hash(snapshot: &Self::Snapshot) -> Vec<u8> {
        snapshot.spec.override_hash.0.clone()
    }

    fn stores(ctx: &OverrideSnapshots) -> Stores<'_, Self, Self::Snapshot> {
        let stores = &ctx.stores;
        (
            &stores.cluster_wide,
            &stores.cluster_wide_snapshots,
            &stores.cluster_wide_of,
        )
    }

    const SCOPE: Scope = Scope::Cluster;

    fn count(_: &Key, stores: &OverrideStores) -> usize {
        stores.cluster_wide.len()
    }

    fn judge(&self, key: &Key, stores: &OverrideStores, count: usize) -> Verdict {
        let others = Others {
            count,
            selecting: &|selected| another(stores.cluster_wide_selecting.keys(selected), key),
        };
        admission::cluster_wide(key.name(), &self.spec, None, &others)
    }
}

impl Override for ResourceOverride {
    type Snapshot = ResourceOverrideSnapshot;

    fn snapshot_spec(override_spec: Self::Spec, hash: Vec<u8>) -> ResourceOverrideSnapshotSpec {
        ResourceOverrideSnapshotSpec {
            override_spec,
            override_hash: ByteString(hash),
        }
    }

    fn hash(snapshot: &Self::Snapshot) -> Vec<u8> {
        snapshot.spec.override_hash.0.clone()
    }

    fn stores(ctx: &OverrideSnapshots) -> Stores<'_, Self, Self::Snapshot> {
        let stores = &ctx.stores;
        (&stores.namespaced, &stores.namespaced_snapshots, &stores.namespaced_of)
    }

    const SCOPE: Scope = Scope::Namespaced;

    fn count(key: &Key, stores: &OverrideStores) -> usize {
        stores
            .namespaced_in
            .count(&key.namespace().unwrap_or_default().to_owned())
    }

    fn judge(&self, key: &Key, stores: &OverrideStores, count: usize) -> Verdict {
        let others = Others {
            count,
            selecting: &|selected| another(stores.namespaced_selecting.keys(selected), key),
        };
        let namespace = key.namespace().unwrap_or_default();
        admission::namespaced((namespace, key.name()), &self.spec, None, &others)
    }
}

/// Whether a binding names the snapshot, or a run will have one name it.
fn is_used(ctx: &OverrideSnapshots, snapshot: &Key) -> bool {
    fn by<S: fleet_api::placement::Scope>(family: &Family<S>, snapshot: &Key) -> bool {
        family.bindings_naming.count(snapshot) > 0 || family.updates.runs_needing.count(snapshot) > 0
    }
    by(&ctx.cluster, snapshot) || by(&ctx.namespaced, snapshot)
}

/// Runs the controllers of both kinds for one term of leadership.
pub(crate) async fn run(ctx: OverrideSnapshots, measures: Measures, stop: CancellationToken) {
    tokio::join!(
        run_kind::<ClusterResourceOverride>(&ctx, "clusterresourceoverride-controller", &measures, &stop),
        run_kind::<ResourceOverride>(&ctx, "resourceoverride-controller", &measures, &stop),
    );
}

async fn run_kind<K: Override>(
    ctx: &OverrideSnapshots,
    name: &'static str,
    measures: &Measures,
    stop: &CancellationToken,
) {
    let queue = Queue::<Key>::default();
    let (overrides, snapshots, _) = K::stores(ctx);
    let feeds = async {
        tokio::join!(
            controller::feed(overrides.subscribe(), queue.clone(), |change| {
                let matters = change.differs(|o| {
                    let m = o.meta();
                    (
                        m.uid.clone(),
                        m.generation,
                        m.deletion_timestamp.clone(),
                        m.finalizers.clone(),
                    )
                });
                matters.then(|| change.key.clone())
            }),
            // Others' edits and deletions.
            controller::feed(snapshots.subscribe(), queue.clone(), |change| {
                if change.old.is_some() {
                    parents(&**change.object())
                } else {
                    Vec::new()
                }
            }),
        )
    };
    let passes = controller::run(
        queue.clone(),
        controller::Options::new(name),
        measures.clone(),
        stop.clone(),
        {
            let ctx = ctx.clone();
            move |key| {
                let ctx = ctx.clone();
                async move { pass::<K>(&ctx, &key).await }
            }
        },
    );
    tokio::select! {
        () = passes => {}
        _ = feeds => {}
    }
}

#[tracing::instrument(name = "override", level = "error", skip_all, fields(object = %key))]
async fn pass<K: Override>(ctx: &OverrideSnapshots, key: &Key) -> Result<Next, Error> {
    let (overrides, snapshots, of) = K::stores(ctx);
    let Some(found) = overrides.get(key) else {
        return Ok(Next::Wait);
    };
    let held = found.finalizers().iter().any(|f| f == finalizers::OVERRIDE);
    if found.meta().deletion_timestamp.is_some() {
        if held {
            let selector = format!("{}={}", labels::PARENT_OVERRIDE, key.name());
            ctx.writer
                .delete_all::<K::Snapshot>(key.namespace(), &selector, key)
                .await?;
            let patch = |found: &K| without_finalizers(found, &[finalizers::OVERRIDE]);
            ctx.writer.patch(overrides, key, key, Part::Object, patch).await?;
        }
        return Ok(Next::Wait);
    }
    if !held {
        let patch = |found: &K| with_finalizers(found, &[finalizers::OVERRIDE]);
        ctx.writer.patch(overrides, key, key, Part::Object, patch).await?;
    }
    let compare = |error| Error::Compare(key.to_string(), error);
    let hash = core::hash(found.spec()).map_err(compare)?;
    let stored = of.get(key);
    let existing: Vec<_> = stored
        .iter()
        .filter(|snapshot| snapshot.meta().deletion_timestamp.is_none())
        .map(|snapshot| existing::<K>(ctx, snapshot))
        .collect();
    let is_named = |name: &str| is_used(ctx, &beside(key, name));
    let changes = core::plan(key.name(), &hash, &existing, is_named);
    let changes = changes.map_err(|error| Error::NotYet(error.to_string()))?;
    if let Some((name, index)) = changes.create {
        let snapshot = new::<K>(key, &found, &name, index, hash);
        let own = Key::of(&snapshot);
        let made = ctx
            .writer
            .create(snapshots, &own, key, || Some(RawJson::from_serialize(&snapshot)));
        if made.await?.is_none() {
            return Err(Error::NotYet(format!("{} {own} exists already", K::Snapshot::KIND)));
        }
        tracing::info!(snapshot = name, "Created the override snapshot");
        warn(ctx, key, &*found, stored.is_empty());
    }
    let relabel = changes
        .promote
        .iter()
        .map(|name| (name, labels::TRUE))
        .chain(changes.demote.iter().map(|name| (name, labels::FALSE)));
    for (name, value) in relabel {
        let patch = |_: &K::Snapshot| Some(json!({ "metadata": { "labels": { labels::IS_LATEST_SNAPSHOT: value } } }));
        ctx.writer
            .patch(snapshots, &beside(key, name), key, Part::Object, patch)
            .await?;
    }
    for name in changes.delete {
        let own = beside(key, &name);
        let uid = snapshots.get(&own).and_then(|snapshot| snapshot.uid());
        ctx.writer.delete(snapshots, &own, key, uid.as_deref(), None).await?;
    }
    Ok(Next::Wait)
}

/// Says of new content what the webhook would have said: it may have been away, or two replicas may each have let in one of
/// two overrides that select the same, or of which there are too many.
fn warn<K: Override>(ctx: &OverrideSnapshots, key: &Key, found: &K, is_first: bool) {
    // One that was there before may be changed however many there are.
    let others = if is_first {
        K::count(key, &ctx.stores).saturating_sub(1)
    } else {
        0
    };
    if let Verdict::Denied(why) = found.judge(key, &ctx.stores, others) {
        record(&ctx.events, K::SCOPE, found, &OverrideEvent::Invalid { why });
    }
}

fn existing<K: Override>(ctx: &OverrideSnapshots, snapshot: &K::Snapshot) -> Existing {
    let label = |key: &str| snapshot.labels().get(key);
    Existing {
        name: snapshot.name_any(),
        index: label(labels::OVERRIDE_INDEX).and_then(|text| text.parse().ok()),
        labelled_latest: label(labels::IS_LATEST_SNAPSHOT).and_then(|text| labels::parse_bool(text)) == Some(true),
        hash: K::hash(snapshot),
        in_use: is_used(ctx, &Key::of(snapshot)),
    }
}

fn new<K: Override>(key: &Key, owner: &K, name: &str, index: u64, hash: Vec<u8>) -> K::Snapshot {
    let labels = BTreeMap::from([
        (labels::PARENT_OVERRIDE.to_owned(), key.name().to_owned()),
        (labels::OVERRIDE_INDEX.to_owned(), index.to_string()),
        (labels::IS_LATEST_SNAPSHOT.to_owned(), labels::TRUE.to_owned()),
    ]);
    let meta = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: key.namespace().map(ToOwned::to_owned),
        labels: Some(labels),
        owner_references: owned_by(owner),
        ..ObjectMeta::default()
    };
    K::Snapshot::from_spec(meta, K::snapshot_spec(owner.spec().clone(), hash))
}
