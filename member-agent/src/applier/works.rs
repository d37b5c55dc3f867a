//! The Works of this cluster, read from the hub.

use std::{borrow::Cow, time::Duration};

use fleet_api::{
    annotations, finalizers,
    guard::Guarded,
    names::ClusterName,
    placement::{Work, WorkSpec},
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
use kube::{Api, Client, Resource, core::ObjectMeta};

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
            meta: work.metadata,
            spec: work.spec,
        }
    }
}

impl Seen {
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

/// Whether a change can mean something to do: another Work, spec, finalizer or deletion.
pub(super) fn matters(change: &Change<Seen>) -> bool {
    change.differs(|work| (work.uid().to_owned(), work.generation(), work.view()))
}

/// The key of a Work of this cluster.
pub(super) fn key(cluster: &ClusterName, name: &str) -> Key {
    Key::namespaced(cluster.namespace(), name)
}
