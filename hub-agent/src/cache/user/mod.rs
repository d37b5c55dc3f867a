//! Users' own objects, of any kind: watched while a placement asks for the kind, kept as metadata, and read in full only
//! when they are put into a snapshot.
//!
//! Runs on the leader. [`UserResources::view`] answers what selection asks; [`UserResources::content`] gives the texts;
//! [`UserResources::listen`] tells which objects changed, and which placements name kinds that came or went.

mod any_kind;
mod catalogue;
mod content;
mod definitions;
mod kinds;
mod light;
mod place;
#[cfg(test)]
mod tests;
mod view;
mod watch_one;
mod watches;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    names::Scope,
    placement::{ResourceSelector, SelectionScope},
};
use fleet_core::selection::{self, KindInfo, Object, ObjectId, apis::Apis};
use fleet_runtime::{
    Key,
    cache::{Era, Store},
};
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, timeout},
};

pub(crate) use self::{catalogue::Catalogue, place::Place, view::View, watch_one::WatchedObject};
use self::{
    content::Versions,
    definitions::{Definition, Service},
    kinds::{Gvk, Kinds, Unheard},
    light::Light,
    watches::Watched,
};

/// An API that does not list in this time does not hold up the placements that could do without it.
const SYNC_WAIT: Duration = Duration::from_secs(10);
/// How often an unknown kind may make us ask which kinds there are, until the watch of CRDs has told.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(2);

/// Changes that wait for a listener.
const TOUCHED_MAX: usize = 256;

/// A placement of either scope.
pub(crate) type Owner = (Scope, Key);

/// What changed.
#[derive(Debug, Clone)]
pub(crate) enum Touched {
    /// An object: as it was, as it is, or both.
    Object(Vec<Object>),
    /// The kinds that this placement names, or that are in its namespaces, are others than before.
    Kinds(Owner),
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct UserResources(Arc<Inner>);

struct Inner {
    client: Client,
    era: Era,
    apis: Apis,
    kinds: RwLock<Arc<Kinds>>,
    /// What should be served: kinds that are defined, and those of other API servers.
    definitions: Store<Definition>,
    services: Store<Service>,
    discovered: watch::Sender<bool>,
    asked: Mutex<Option<Instant>>,
    needs: Mutex<HashMap<Owner, Needs>>,
    watched: Mutex<HashMap<Gvk, Watched>>,
    versions: Mutex<HashMap<Owner, Arc<Versions>>>,
    listeners: Mutex<Vec<mpsc::Sender<Touched>>>,
    sweeps: Mutex<JoinSet<()>>,
}

/// The kinds that a placement looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Needs {
    named: BTreeSet<Gvk>,
    /// Every namespaced kind too, for it takes whole namespaces.
    whole: bool,
}

impl Needs {
    fn new(namespace: Option<&str>, selectors: &[ResourceSelector]) -> Self {
        let takes_all = |s: &ResourceSelector| s.selection_scope == SelectionScope::NamespaceWithResources;
        let services = selectors.iter().filter_map(selection::services);
        let named = selectors.iter().cloned().chain(services);
        Self {
            named: named.map(|s| Gvk::new(&s.group, &s.version, &s.kind)).collect(),
            whole: namespace.is_none() && selectors.iter().any(|s| is_namespace(s) && takes_all(s)),
        }
    }

    fn kinds(&self, kinds: &Kinds) -> BTreeSet<Gvk> {
        let mut all = self.named.clone();
        if self.whole {
            all.extend(kinds.namespaced.iter().cloned());
        }
        all
    }
}

impl UserResources {
    pub(crate) fn new(client: Client, era: Era, apis: Apis) -> Self {
        Self(Arc::new(Inner {
            client,
            era,
            apis,
            kinds: RwLock::default(),
            definitions: Store::new("customresourcedefinitions"),
            services: Store::new("apiservices"),
            discovered: watch::Sender::new(false),
            asked: Mutex::default(),
            needs: Mutex::default(),
            watched: Mutex::default(),
            versions: Mutex::default(),
            listeners: Mutex::default(),
            sweeps: Mutex::default(),
        }))
    }

    fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// Every change of a watched kind, from now on.
    pub(crate) fn listen(&self) -> mpsc::Receiver<Touched> {
        let (sender, receiver) = mpsc::channel(TOUCHED_MAX);
        self.0.listeners.lock().push(sender);
        receiver
    }

    /// Stops all watches.
    pub(crate) fn stop(&self) {
        self.0.sweeps.lock().abort_all();
        self.0.watched.lock().clear();
    }

    /// Whether the hub says of all of these that it serves them.
    fn serves_all(&self, expected: impl IntoIterator<Item = Gvk>) -> bool {
        let kinds = self.0.kinds.read();
        expected.into_iter().all(|gvk| kinds.served.contains_key(&gvk))
    }

    /// Asks which kinds there are, unless that is known.
    pub(crate) async fn discover(&self) -> kube::Result<()> {
        if self.0.asked.lock().is_none() {
            self.refresh().await?;
        }
        Ok(())
    }

    /// Asks which kinds there are. Ends the watches of those that are gone, and wakes whom the difference concerns.
    async fn refresh(&self) -> kube::Result<()> {
        let now = Kinds::discover(&self.0.client, &self.0.apis).await?;
        *self.0.asked.lock() = Some(Instant::now());
        let (changed, vanished) = {
            let mut kinds = self.0.kinds.write();
            let changed = kinds.difference(&now);
            let vanished: Vec<Gvk> = changed
                .iter()
                .filter(|gvk| !now.served.contains_key(gvk))
                .cloned()
                .collect();
            // What was placeable in namespaces, or is now.
            let namespaced = changed
                .iter()
                .any(|gvk| kinds.namespaced.contains(gvk) || now.namespaced.contains(gvk));
            *kinds = Arc::new(now);
            ((changed, namespaced), vanished)
        };
        self.0.watched.lock().retain(|gvk, _| !vanished.contains(gvk));
        let (changed, namespaced) = changed;
        if changed.is_empty() {
            return Ok(());
        }
        let concerned =
            |needs: &Needs| needs.whole && namespaced || needs.named.iter().any(|gvk| changed.contains(gvk));
        let owners: Vec<Owner> = {
            let needs = self.0.needs.lock();
            let found = needs.iter().filter(|(_, needs)| concerned(needs));
            found.map(|(owner, _)| owner.clone()).collect()
        };
        for owner in owners {
            self.0.tell(&Touched::Kinds(owner)).await;
        }
        Ok(())
    }

    /// Asks which kinds there are, unless somebody has just now.
    pub(crate) async fn discover_again(&self, pause: Duration) -> kube::Result<()> {
        let recently = self.0.asked.lock().is_some_and(|at| at.elapsed() < pause);
        if recently { Ok(()) } else { self.refresh().await }
    }

    /// What these selectors of `owner` may look at. Starts the watches that they need, and waits for them.
    ///
    /// `placed` gives the objects that are placed already. A kind that the hub does not list is left out of whole
    /// namespaces if none of them is of it: leaving one out that is placed would delete it on members.
    pub(crate) async fn view(
        &self,
        owner: &Owner,
        selectors: &[ResourceSelector],
        placed: impl FnOnce() -> Vec<ObjectId>,
    ) -> kube::Result<View> {
        self.discover().await?;
        let namespace = owner.1.namespace();
        let needs = Needs::new(namespace, selectors);
        let before = self.0.needs.lock().insert(owner.clone(), needs.clone());
        let recently = self.0.asked.lock().is_some_and(|at| at.elapsed() < DISCOVERY_PAUSE);
        if !recently && !self.serves_all(needs.named.iter().cloned()) {
            self.refresh().await?;
        }
        let kinds = self.0.kinds.read().clone();
        let watched = self.watch(&needs.kinds(&kinds), &kinds);
        if before.is_some_and(|before| before != needs) {
            self.sweep();
        }
        let settled = futures::future::join_all(watched.values().map(|watched| watched.store.settled()));
        let _ = timeout(SYNC_WAIT, settled).await;
        let fails = watched.values().any(|watched| watched.failure().is_some());
        let unheard = if needs.whole {
            self.unheard(&kinds)
        } else {
            Unheard::default()
        };
        let placed = if fails || !unheard.is_empty() {
            placed()
        } else {
            Vec::new()
        };
        let mut view = collect(namespace, selectors, &needs, &kinds, &watched, &placed);
        let mine = placed.iter().filter(|id| !id.namespace.is_empty()).map(Gvk::of);
        view.wait_for(mine.filter(|gvk| unheard.contains(gvk)));
        Ok(view)
    }

    /// The Namespace of this name, if namespaces are watched.
    pub(crate) fn namespace(&self, name: &str) -> Option<Object> {
        let watched = self.0.watched.lock().get(&Gvk::namespace()).cloned()?;
        let found = watched.store.get(&Key::cluster(name))?;
        Some(found.object(&Gvk::namespace()))
    }

    fn versions(&self, owner: &Owner) -> Arc<Versions> {
        self.0.versions.lock().get(owner).cloned().unwrap_or_default()
    }

    fn keep_versions(&self, owner: &Owner, versions: Versions) {
        self.0.versions.lock().insert(owner.clone(), Arc::new(versions));
    }
}

/// What selection sees of all this.
fn collect(
    namespace: Option<&str>,
    selectors: &[ResourceSelector],
    needs: &Needs,
    kinds: &Kinds,
    watched: &BTreeMap<Gvk, Watched>,
    placed: &[ObjectId],
) -> View {
    let mut view = View::default();
    if needs.whole {
        view.namespaced = kinds.namespaced.iter().cloned().collect();
    }
    // In whatever version: the preferred one may be another than when they were placed.
    let is_placed = |gvk: &Gvk| placed.iter().any(|id| id.group == gvk.group && id.kind == gvk.kind);
    // A superset of the namespaces that can matter: selecting looks closer.
    let namespaces: Vec<String> = match namespace {
        Some(namespace) => vec![namespace.to_owned()],
        None => namespaces(selectors, watched),
    };
    for (gvk, watched) in watched {
        let Some(served) = kinds.served.get(gvk) else { continue };
        let spared = watched
            .failure()
            .filter(|_| !needs.named.contains(gvk) && !is_placed(gvk));
        if let Some(failure) = &spared {
            view.left_out.push(format!("{} ({failure})", served.api.plural));
        }
        let info = KindInfo {
            plural: served.api.plural.clone(),
            cluster_scoped: served.cluster_scoped,
            synced: watched.store.is_synced() || spared.is_some(),
        };
        view.kinds.insert(gvk.clone(), info);
        let found = if served.cluster_scoped {
            outside(selectors, gvk, &watched.store)
        } else {
            namespaces.iter().flat_map(|ns| watched.by_namespace.get(ns)).collect()
        };
        view.objects
            .insert(gvk.clone(), found.iter().map(|light| light.object(gvk)).collect());
    }
    view
}

impl Inner {
    /// Waits for listeners that are behind. What a watch shows meanwhile is summed up by object, so nothing piles up.
    async fn tell(&self, touched: &Touched) {
        let listeners = {
            let mut all = self.listeners.lock();
            all.retain(|listener| !listener.is_closed());
            all.clone()
        };
        for listener in listeners {
            let _ = listener.send(touched.clone()).await;
        }
    }
}

/// Of a cluster-scoped kind what the selectors can be about: what they name, or if one goes by labels, everything.
fn outside(selectors: &[ResourceSelector], gvk: &Gvk, store: &Store<Light>) -> Vec<Arc<Light>> {
    let own = selectors
        .iter()
        .filter(|s| Gvk::new(&s.group, &s.version, &s.kind) == *gvk);
    let names: Option<BTreeSet<&str>> = own
        .map(|s| Some(s.name.as_str()).filter(|name| !name.is_empty()))
        .collect();
    let Some(names) = names else { return store.all() };
    let keys = names.into_iter().map(Key::cluster);
    keys.filter_map(|key| store.get(&key)).collect()
}

fn namespaces(selectors: &[ResourceSelector], watched: &BTreeMap<Gvk, Watched>) -> Vec<String> {
    let mut names = BTreeSet::new();
    for selector in selectors.iter().filter(|s| is_namespace(s)) {
        if !selector.name.is_empty() {
            names.insert(selector.name.clone());
            continue;
        }
        let gvk = Gvk::namespace();
        let all = watched.get(&gvk).map(|w| w.store.all()).unwrap_or_default();
        let touched = |object: &Object| {
            let selector = std::slice::from_ref(selector);
            selection::touches(Scope::Cluster, selector, object, None)
        };
        let objects = all.iter().map(|light| light.object(&gvk));
        names.extend(objects.filter(touched).map(|object| object.id.name));
    }
    names.into_iter().collect()
}

fn is_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty() && selector.version == "v1" && selector.kind == "Namespace"
}
