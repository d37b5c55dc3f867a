//! What is known of the hub: one watch per kind with the user's own rights, kept as the agents keep theirs.
//!
//! Metadata alone where that is enough (InternalMemberClusters, Works, resource snapshots: the latter two would bring every
//! manifest, Secrets among them). Secrets themselves are never asked for. A kind that the user may not read, or that the hub
//! does not have, is left out and named.

mod beats;
mod bound;
mod cell;
mod family;
mod gather;
mod grid;
mod health;
mod stand;
mod within;

use std::sync::Arc;

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    guard::Guarded,
    kind::Kind,
    names::MEMBER_NAMESPACE_PREFIX,
    placement::{
        ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterScoped, Namespaced, Scope,
        Work,
    },
};
use fleet_runtime::{
    Key,
    backoff::Backoff,
    cache::{self, Builder, Change, Era, Index, Metadata, Selection, Store},
    clock::Clock,
    shutdown::Tasks,
};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, Client, Resource,
    core::{PartialObjectMeta, PartialObjectMetaExt as _},
};
use tokio::{sync::watch, time::Duration};

use self::bound::Bound;
use self::within::Within;
pub(crate) use self::{
    cell::{Cell, Mark},
    family::{Family, key as family_key, name, parent, parent_name},
    grid::{Column, Grid},
    health::{Kinds, Reception, unreadable},
    stand::Stand,
};
use crate::view::Name;

/// Somebody looks at the page and waits for the API server to come back.
const BACKOFF: Backoff = Backoff {
    min: Duration::from_millis(250),
    max: Duration::from_secs(3),
};
/// A kind that one may not read, or that is not there, stays so until somebody does something about it.
const REFUSED: Backoff = Backoff {
    min: Duration::from_secs(5),
    max: Duration::from_mins(5),
};
/// Events of what runs on the hub itself say nothing of the fleet, and are many.
const FLEET_EVENTS: &str = "involvedObject.apiVersion!=v1,involvedObject.apiVersion!=apps/v1,\
                            involvedObject.apiVersion!=batch/v1,involvedObject.apiVersion!=events.k8s.io/v1,\
                            involvedObject.apiVersion!=autoscaling/v2,involvedObject.apiVersion!=policy/v1";

/// What is known of the hub. Cheap to clone.
#[derive(Clone)]
pub struct Hub {
    pub(crate) clock: Clock,
    /// The only namespace that is looked at, if not all are.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) members: Store<MemberCluster>,
    internals: Store<PartialObjectMeta<InternalMemberCluster>>,
    pub(crate) works: Store<PartialObjectMeta<Work>>,
    works_on: Index<PartialObjectMeta<Work>, String>,
    pub(crate) budgets: Store<ClusterResourcePlacementDisruptionBudget>,
    pub(crate) evictions: Store<ClusterResourcePlacementEviction>,
    pub(crate) events: Store<Event>,
    pub(crate) cluster: Family<ClusterScoped>,
    pub(crate) namespaced: Family<Namespaced>,
    pub(crate) grid: Arc<Grid>,
    /// How every watch is doing.
    pub(crate) kinds: Kinds,
    changed: watch::Sender<u64>,
}

/// Starts watches.
struct Watching<'a> {
    client: Client,
    /// Where what comes next is watched, if not everywhere.
    namespace: Option<Arc<str>>,
    era: Era,
    clock: Clock,
    tasks: &'a mut Tasks,
    kinds: Kinds,
    changed: watch::Sender<u64>,
}

impl Watching<'_> {
    fn selection(&self) -> Selection {
        Selection {
            backoff: BACKOFF,
            refused: Some(REFUSED),
            ..Selection::all(&self.era)
        }
    }

    /// A kind of the fleet. Users write most of them: one odd object must not stop the watch.
    fn whole<K: Kind>(&mut self, builder: Builder<K>) -> Store<K> {
        self.some(builder, |_| true)
    }

    /// The same, where not every change is one to look at.
    fn some<K: Kind>(&mut self, builder: Builder<K>, matters: fn(&Change<K>) -> bool) -> Store<K> {
        let store = builder.build();
        let api = Within::<Guarded<K>>::api(&self.client, self.namespace.as_deref());
        let decode = |Within(guarded): Within<Guarded<K>>| guarded.0.map_err(|odd| odd.error);
        let watch = store.clone().watch(api, self.selection(), decode);
        self.tasks.spawn_endless(store.name(), watch);
        self.follow(&store, matters);
        store
    }

    /// Bindings, with somebody who hears of every one that changes, before pages do.
    fn bound<S: Scope>(
        &mut self,
        builder: Builder<Bound<S>>,
        each: impl Fn(&Bound<S>) + Send + Sync + 'static,
    ) -> Store<Bound<S>> {
        let store = builder.build();
        let api = Within::<Guarded<S::Binding>>::api(&self.client, self.namespace.as_deref());
        let decode = |Within(guarded): Within<Guarded<S::Binding>>| guarded.0.map(Bound::of).map_err(|odd| odd.error);
        let watch = store.clone().watch(api, self.selection(), decode);
        self.tasks.spawn_endless(store.name(), watch);
        self.follow(&store, move |change| {
            each(change.object());
            true
        });
        store
    }

    /// A kind of which the names are enough.
    fn names<K: Kind>(&mut self, builder: Builder<PartialObjectMeta<K>>) -> Store<PartialObjectMeta<K>> {
        let store = builder.build();
        let api = Metadata(Within::<K>::api(&self.client, self.namespace.as_deref()));
        let decode = |partial: PartialObjectMeta<Within<K>>| Ok(partial.metadata.into_response_partial::<K>());
        let watch = store.clone().watch(api, self.selection(), decode);
        self.tasks.spawn_endless(store.name(), watch);
        self.follow(&store, |change| change.differs(|it| beats::names(&it.metadata)));
        store
    }

    fn events(&mut self) -> Store<Event> {
        let store = Store::new("events");
        let selection = Selection {
            fields: Some(FLEET_EVENTS.to_owned()),
            ..self.selection()
        };
        let api = match &self.namespace {
            None => Api::<Event>::all(self.client.clone()),
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
        };
        let watch = store.clone().watch(api, selection, cache::plain);
        self.tasks.spawn_endless(store.name(), watch);
        self.follow(&store, |_| true);
        store
    }

    /// Tells everybody of every change of a store that matters, and notes how its watch is doing.
    fn follow<K: Resource + Send + Sync + 'static>(
        &mut self,
        store: &Store<K>,
        matters: impl Fn(&Change<K>) -> bool + Send + Sync + 'static,
    ) {
        let all = store.clone();
        let hearing = self.kinds.add(store.name(), move || {
            let odd = all.odd();
            odd.iter().map(|it| name(&it.key)).collect()
        });
        let (mut changes, mut state) = (store.subscribe(), store.state());
        let (listeners, clock) = (self.changed.clone(), self.clock.clone());
        let mut synced = Box::pin(store.clone().into_synced());
        let mut waits = true;
        self.tasks.spawn_endless("changes", async move {
            loop {
                tokio::select! {
                    change = changes.next() => {
                        let mut any = matters(&change);
                        while let Some(change) = changes.try_next() {
                            any |= matters(&change);
                        }
                        if !any {
                            continue;
                        }
                    }
                    Ok(()) = state.changed() => {
                        let now = state.borrow_and_update().clone();
                        hearing.note(&now, clock.now());
                    }
                    () = &mut synced, if waits => {
                        waits = false;
                        hearing.listed();
                    }
                }
                listeners.send_modify(|number| *number += 1);
            }
        });
    }
}

/// Waits on a store that it owns.
trait IntoSynced {
    fn into_synced(self) -> impl Future<Output = ()> + Send;
}

impl<K: Resource + Send + Sync + 'static> IntoSynced for Store<K> {
    async fn into_synced(self) {
        self.synced().await;
    }
}

impl Hub {
    /// Starts to watch. With a namespace, placements in namespaces, what belongs to them, and Events are watched there alone.
    pub fn watch(client: Client, namespace: Option<&str>, clock: Clock, tasks: &mut Tasks) -> Self {
        let namespace: Option<Arc<str>> = namespace.map(Arc::from);
        let grid = Arc::new(Grid::default());
        let changed = |grid: &Arc<Grid>| {
            let grid = grid.clone();
            move |placement: &Name| grid.changed(placement)
        };
        let mut watching = Watching {
            client,
            namespace: None,
            era: Era::default(),
            clock: clock.clone(),
            tasks,
            kinds: Kinds::default(),
            changed: watch::Sender::new(0),
        };
        let mut works = Store::builder("works");
        let works_on = works.index(|work: &PartialObjectMeta<Work>| {
            let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
            let cluster = namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX);
            cluster.map(str::to_owned).into_iter().collect()
        });
        let members = watching.some(Store::builder(MemberCluster::CRD.plural), |change| {
            change.differs(beats::without)
        });
        // These are in the namespaces of members, and say of them what the fleet says.
        let internals = watching.names(Store::builder(InternalMemberCluster::CRD.plural));
        let works = watching.names(works);
        let budgets = watching.whole(Store::builder(ClusterResourcePlacementDisruptionBudget::CRD.plural));
        let evictions = watching.whole(Store::builder(ClusterResourcePlacementEviction::CRD.plural));
        let cluster = Family::watch(&mut watching, changed(&grid));
        watching.namespace.clone_from(&namespace);
        Self {
            members,
            internals,
            works,
            works_on,
            budgets,
            evictions,
            events: watching.events(),
            cluster,
            namespaced: Family::watch(&mut watching, changed(&grid)),
            grid,
            kinds: watching.kinds.clone(),
            changed: watching.changed.clone(),
            clock,
            namespace,
        }
    }

    /// The flag for the namespace that is looked at, with a space before it: for commands that say the same of the fleet.
    pub(crate) fn flag(&self) -> String {
        let namespace = self.namespace.as_deref();
        Name::new(namespace.unwrap_or_default(), "").flag()
    }

    /// Why nobody can say that all is well; nothing if everything there is was read.
    pub(crate) fn gaps(&self) -> Option<String> {
        let alone = self.namespace.as_ref();
        let alone = alone.map(|namespace| format!("of all namespaces only {namespace} is looked at"));
        let all: Vec<_> = self.kinds.reception().gaps().into_iter().chain(alone).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether somebody has asked for another namespace than this one.
    pub(crate) fn passes_over(&self, namespace: &str) -> bool {
        let only = self.namespace.as_deref();
        !namespace.is_empty() && only.is_some_and(|only| only != namespace)
    }

    /// A number that is another one whenever something has changed.
    pub(crate) fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until every kind is listed, or it is known why it cannot be.
    pub async fn settled(&self) {
        let mut changed = self.changed();
        while !self.kinds.are_settled() {
            if changed.changed().await.is_err() {
                return;
            }
        }
    }

    /// All placements, by name.
    pub(crate) fn placements(&self) -> Vec<Name> {
        let cluster = self.cluster.placements.all();
        let namespaced = self.namespaced.placements.all();
        let cluster = cluster.iter().map(|it| name(&Key::of(&**it)));
        let mut all: Vec<_> = cluster
            .chain(namespaced.iter().map(|it| name(&Key::of(&**it))))
            .collect();
        all.sort();
        all
    }

    /// The Works of a member, by name.
    pub(crate) fn works_on(&self, cluster: &str) -> Vec<Arc<PartialObjectMeta<Work>>> {
        self.works_on.get(&cluster.to_owned())
    }

    pub(crate) fn member(&self, name: &str) -> Option<Arc<MemberCluster>> {
        self.members.get(&Key::cluster(name))
    }
}
