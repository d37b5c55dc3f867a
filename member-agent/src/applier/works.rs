//! The Works of this cluster, read from the hub.

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use fleet_api::{
    annotations,
    conditions::{self, work as words},
    finalizers,
    guard::Guarded,
    names::ClusterName,
    placement::{AppliedWork, ApplyStrategyType, Work, WorkSpec},
};
use fleet_core::{
    apply::deletion::WorkView,
    session::digest::{Digest, digest},
};
use fleet_runtime::{
    Key,
    backoff::Backoff,
    cache::{Change, Selection, Store, prune},
};
use jiff::Timestamp;
use kube::{
    Api, Client, Resource,
    core::{ObjectMeta, PartialObjectMeta},
};

/// Before the MemberCluster exists the hub refuses us.
const PATIENCE: Backoff = Backoff {
    min: Duration::from_millis(500),
    max: Duration::from_secs(5),
};

/// A Work without its status: of that only whether it is what we last said.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    meta: ObjectMeta,
    pub(super) spec: WorkSpec,
    pub(super) stored: Option<Digest>,
    /// The stored status says that this generation is applied and available, or compared.
    pub(super) is_well: bool,
    /// What its manifests are, in short.
    pub(super) content: u64,
}

impl Resource for Seen {
    type DynamicType = ();
    type Scope = <Work as Resource>::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        Work::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Work::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Work::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Work::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl From<Work> for Seen {
    fn from(work: Work) -> Self {
        Self {
            stored: work.status.as_ref().map(digest),
            is_well: is_well(&work),
            content: content(&work.spec),
            meta: work.metadata,
            spec: work.spec,
        }
    }
}

/// Tells one content from another of the same generation, which a hub that was restored from a backup may have.
fn content(spec: &WorkSpec) -> u64 {
    let mut hash = DefaultHasher::new();
    for manifest in &spec.workload.manifests {
        manifest.as_str().hash(&mut hash);
    }
    hash.finish()
}

fn is_well(work: &Work) -> bool {
    let generation = work.metadata.generation.unwrap_or_default();
    let status = work.status.as_ref();
    let is = |condition| status.is_some_and(|status| conditions::is_true(&status.conditions, condition, generation));
    let strategy = work.spec.apply_strategy.as_ref().map(|strategy| &strategy.type_);
    if strategy == Some(&ApplyStrategyType::ReportDiff) {
        is(words::DiffReported::TYPE)
    } else {
        is(words::Applied::TYPE) && is(words::Available::TYPE)
    }
}

impl Seen {
    pub(super) fn created(&self) -> Option<Timestamp> {
        self.meta.creation_timestamp.as_ref().map(|time| time.0)
    }

    pub(super) fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn generation(&self) -> i64 {
        self.meta.generation.unwrap_or_default()
    }

    pub(super) fn view(&self) -> WorkView {
        let annotation = |key| self.meta.annotations.as_ref().and_then(|list| list.get(key));
        WorkView {
            deleting: self.meta.deletion_timestamp.is_some(),
            has_finalizer: self
                .meta
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == finalizers::WORK),
            abandon: annotation(annotations::DELETE_PROPAGATION).is_some_and(|value| value == annotations::ABANDON),
        }
    }
}

/// The store of this cluster's Works.
pub(super) fn store() -> Store<Seen> {
    Store::<Seen>::builder("works").prune(prune::<Seen>).build()
}

/// Keeps the store like the hub, for ever.
pub(super) async fn watch(store: Store<Seen>, hub: Client, cluster: &ClusterName) {
    let api: Api<Guarded<Work>> = Api::namespaced(hub, &cluster.namespace());
    let selection = Selection {
        backoff: PATIENCE,
        ..Selection::default()
    };
    let decode = |guarded: Guarded<Work>| guarded.0.map(Seen::from).map_err(|odd| odd.error);
    store.watch(api, selection, decode).await;
}

/// AppliedWorks without a Work; none before both are known.
pub(super) fn orphans(
    works: &Store<Seen>,
    applied: &Store<PartialObjectMeta<AppliedWork>>,
    cluster: &ClusterName,
) -> Vec<String> {
    if !(works.is_synced() && applied.is_synced()) {
        return Vec::new();
    }
    let all = applied.all();
    let names = all.iter().filter_map(|object| object.metadata.name.clone());
    names.filter(|name| works.get(&key(cluster, name)).is_none()).collect()
}

/// Whether a change can mean something to do: another Work, spec, finalizer or deletion.
pub(super) fn matters(change: &Change<Seen>) -> bool {
    change.differs(|work| (work.uid().to_owned(), work.generation(), work.content, work.view()))
}

/// The key of a Work of this cluster.
pub(super) fn key(cluster: &ClusterName, name: &str) -> Key {
    Key::namespaced(cluster.namespace(), name)
}
