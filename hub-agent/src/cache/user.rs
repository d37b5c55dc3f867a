//! Users' own objects, of any kind: watched when a placement first asks for the kind, kept as metadata, and read in full
//! only when they are put into a snapshot.
//!
//! Runs on the leader. [`UserResources::view`] answers what selection asks; [`UserResources::content`] gives the texts;
//! [`UserResources::listen`] tells which objects changed.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    placement::{ResourceSelector, SelectionScope},
    raw::RawJson,
};
use fleet_core::selection::{self, Hub, KindInfo, Object, ObjectId, apis::Apis};
use fleet_runtime::{
    Key,
    cache::{self, Index, Selection, Store},
};
use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::GetParams,
    core::{ApiResource, DynamicResourceScope, ObjectMeta, Request},
    discovery::{Discovery, Scope, verbs},
};
use parking_lot::{Mutex, RwLock};
use serde::Deserialize;
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

/// Group, version and kind.
pub(crate) type Gvk = (String, String, String);

/// An API that does not list in this time does not hold up the placements that could do without it.
const SYNC_WAIT: Duration = Duration::from_secs(10);
/// How often an unknown kind may make us ask which kinds there are.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(2);
/// Reads at the same time: a selection of a thousand objects must not open a thousand connections.
const READS: usize = 8;

/// An object without its content.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Light {
    #[serde(default)]
    metadata: ObjectMeta,
    /// Of a Secret its type; nothing that other kinds call so is read.
    #[serde(default, rename = "type")]
    type_: Option<Value>,
}

/// What changed: the object before, and after.
#[derive(Debug)]
pub(crate) struct Touched {
    pub(crate) before: Option<Object>,
    pub(crate) after: Option<Object>,
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct UserResources(Arc<Inner>);

struct Inner {
    client: Client,
    apis: Apis,
    kinds: RwLock<Kinds>,
    watched: Mutex<HashMap<Gvk, Watched>>,
    texts: Mutex<HashMap<ObjectId, (String, RawJson)>>,
    listeners: Mutex<Vec<mpsc::UnboundedSender<Touched>>>,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Default)]
struct Kinds {
    /// Every version that is served and can be watched.
    served: BTreeMap<Gvk, Served>,
    /// The preferred version of each namespaced kind that may be placed.
    namespaced: Vec<Gvk>,
    asked: Option<Instant>,
}

#[derive(Clone)]
struct Served {
    api: ApiResource,
    cluster_scoped: bool,
}

#[derive(Clone)]
struct Watched {
    store: Store<Light>,
    by_namespace: Index<Light, String>,
}

/// What selection may look at, taken at one moment.
#[derive(Debug, Default)]
pub(crate) struct View {
    kinds: BTreeMap<Gvk, KindInfo>,
    namespaced: Vec<Gvk>,
    objects: BTreeMap<Gvk, Vec<Object>>,
}

impl UserResources {
    pub(crate) fn new(client: Client, apis: Apis) -> Self {
        Self(Arc::new(Inner {
            client,
            apis,
            kinds: RwLock::default(),
            watched: Mutex::default(),
            texts: Mutex::default(),
            listeners: Mutex::default(),
            tasks: Mutex::default(),
        }))
    }

    /// Every change of a watched kind, from now on.
    pub(crate) fn listen(&self) -> mpsc::UnboundedReceiver<Touched> {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.0.listeners.lock().push(sender);
        receiver
    }

    /// Stops all watches.
    pub(crate) fn stop(&self) {
        self.0.tasks.lock().abort_all();
        self.0.watched.lock().clear();
    }

    /// Whether objects of this kind have no namespace; none if the hub does not know the kind.
    pub(crate) fn is_cluster_scoped(&self, object: &ObjectId) -> Option<bool> {
        let gvk = (object.group.clone(), object.version.clone(), object.kind.clone());
        self.0.kinds.read().served.get(&gvk).map(|served| served.cluster_scoped)
    }

    /// Asks which kinds there are, unless that is known.
    pub(crate) async fn discover(&self) -> kube::Result<()> {
        if self.0.kinds.read().asked.is_none() {
            self.refresh().await?;
        }
        Ok(())
    }

    async fn refresh(&self) -> kube::Result<()> {
        let found = match Discovery::new(self.0.client.clone()).run_aggregated().await {
            Ok(found) => found,
            Err(_) => Discovery::new(self.0.client.clone()).run().await?,
        };
        let mut kinds = Kinds {
            asked: Some(Instant::now()),
            ..Kinds::default()
        };
        for group in found.groups() {
            let versions: BTreeSet<String> = group.versions().map(ToOwned::to_owned).collect();
            for version in &versions {
                for (api, can) in group.versioned_resources(version) {
                    if can.supports_operation(verbs::LIST) && can.supports_operation(verbs::WATCH) {
                        let cluster_scoped = can.scope == Scope::Cluster;
                        kinds.served.insert(gvk(&api), Served { api, cluster_scoped });
                    }
                }
            }
            // The group's preferred version, but for kinds that are not in it: of envelopes there is no `v1`.
            let mut preferred = BTreeSet::new();
            for (api, _) in group
                .recommended_resources()
                .into_iter()
                .chain(group.resources_by_stability())
            {
                if !preferred.insert(api.kind.clone()) {
                    continue;
                }
                let gvk = gvk(&api);
                let placeable = self.0.apis.is_enabled(&gvk.0, &gvk.1, &gvk.2);
                if placeable && kinds.served.get(&gvk).is_some_and(|served| !served.cluster_scoped) {
                    kinds.namespaced.push(gvk);
                }
            }
        }
        kinds.namespaced.sort();
        kinds.namespaced.dedup();
        *self.0.kinds.write() = kinds;
        Ok(())
    }

    /// What these selectors may look at. Starts the watches that they need, and waits for them.
    pub(crate) async fn view(&self, namespace: Option<&str>, selectors: &[ResourceSelector]) -> kube::Result<View> {
        self.discover().await?;
        let named: Vec<Gvk> = selectors
            .iter()
            .map(|s| (s.group.clone(), s.version.clone(), s.kind.clone()))
            .collect();
        let unknown = named.iter().any(|gvk| !self.0.kinds.read().served.contains_key(gvk));
        let asked = self.0.kinds.read().asked;
        if unknown && asked.is_none_or(|at| at.elapsed() >= DISCOVERY_PAUSE) {
            self.refresh().await?;
        }
        let whole = namespace.is_none()
            && selectors
                .iter()
                .any(|s| is_namespace(s) && s.selection_scope == SelectionScope::NamespaceWithResources);
        let mut needed: BTreeSet<Gvk> = named.into_iter().collect();
        if whole {
            needed.extend(self.0.kinds.read().namespaced.iter().cloned());
        }
        let watched = self.watch(&needed);
        let synced = futures::future::join_all(watched.values().map(|watched| watched.store.synced()));
        let _ = tokio::time::timeout(SYNC_WAIT, synced).await;
        Ok(self.collect(namespace, selectors, &watched, whole))
    }

    fn collect(
        &self,
        namespace: Option<&str>,
        selectors: &[ResourceSelector],
        watched: &BTreeMap<Gvk, Watched>,
        whole: bool,
    ) -> View {
        let kinds = self.0.kinds.read();
        let mut view = View::default();
        if whole {
            view.namespaced.clone_from(&kinds.namespaced);
        }
        // A superset of the namespaces that can matter: selecting looks closer.
        let namespaces: Vec<String> = match namespace {
            Some(namespace) => vec![namespace.to_owned()],
            None => self.namespaces(selectors, watched),
        };
        for (gvk, watched) in watched {
            let Some(served) = kinds.served.get(gvk) else { continue };
            let info = KindInfo {
                plural: served.api.plural.clone(),
                cluster_scoped: served.cluster_scoped,
                synced: watched.store.is_synced(),
            };
            view.kinds.insert(gvk.clone(), info);
            let found = if served.cluster_scoped {
                watched.store.all()
            } else {
                namespaces.iter().flat_map(|ns| watched.by_namespace.get(ns)).collect()
            };
            view.objects
                .insert(gvk.clone(), found.iter().map(|light| light.object(gvk)).collect());
        }
        view
    }

    #[expect(clippy::unused_self, reason = "belongs to the collection")]
    fn namespaces(&self, selectors: &[ResourceSelector], watched: &BTreeMap<Gvk, Watched>) -> Vec<String> {
        let mut names = BTreeSet::new();
        for selector in selectors.iter().filter(|s| is_namespace(s)) {
            if !selector.name.is_empty() {
                names.insert(selector.name.clone());
                continue;
            }
            let all = watched.get(&namespace_gvk()).map(|w| w.store.all()).unwrap_or_default();
            let touched = |object: &Object| {
                let selector = std::slice::from_ref(selector);
                selection::touches(fleet_api::names::Scope::Cluster, selector, object, None)
            };
            let objects = all.iter().map(|light| light.object(&namespace_gvk()));
            names.extend(objects.filter(touched).map(|object| object.id.name));
        }
        names.into_iter().collect()
    }

    /// The Namespace of this name, if namespaces are watched.
    pub(crate) fn namespace(&self, name: &str) -> Option<Object> {
        let watched = self.0.watched.lock().get(&namespace_gvk()).cloned()?;
        watched
            .store
            .get(&Key::cluster(name))
            .map(|light| light.object(&namespace_gvk()))
    }

    fn watch(&self, needed: &BTreeSet<Gvk>) -> BTreeMap<Gvk, Watched> {
        let kinds = self.0.kinds.read();
        let mut watched = self.0.watched.lock();
        let mut found = BTreeMap::new();
        for gvk in needed {
            let Some(served) = kinds.served.get(gvk) else { continue };
            let entry = watched
                .entry(gvk.clone())
                .or_insert_with(|| self.start(gvk.clone(), &served.api));
            found.insert(gvk.clone(), entry.clone());
        }
        found
    }

    fn start(&self, gvk: Gvk, api: &ApiResource) -> Watched {
        let mut builder = Store::<Light>::builder("selected resources");
        let by_namespace = builder.index(|light: &Light| light.metadata.namespace.iter().cloned().collect());
        let store = builder.build();
        let mut tasks = self.0.tasks.lock();
        let api = Api::<Light>::all_with(self.0.client.clone(), api);
        tasks.spawn(store.clone().watch(api, Selection::default(), cache::plain));
        let (inner, mut changes) = (Arc::downgrade(&self.0), store.subscribe());
        tasks.spawn(async move {
            loop {
                let change = changes.next().await;
                let Some(inner) = inner.upgrade() else { return };
                if !change.differs(Light::content) {
                    continue;
                }
                let object = |light: &Option<Arc<Light>>| light.as_ref().map(|light| light.object(&gvk));
                if change.new.is_none() {
                    inner.texts.lock().remove(&change.object().object(&gvk).id);
                }
                inner.listeners.lock().retain(|listener| {
                    let (before, after) = (object(&change.old), object(&change.new));
                    listener.send(Touched { before, after }).is_ok()
                });
            }
        });
        Watched { store, by_namespace }
    }

    /// What a snapshot holds of these objects. Only what has changed since it was last asked for is read; none if an
    /// object is gone meanwhile.
    pub(crate) async fn content(&self, objects: &[ObjectId]) -> kube::Result<Option<Vec<RawJson>>> {
        // Owned, for a future that borrows out of an iterator cannot be sent to another thread.
        let reads: Vec<_> = objects
            .iter()
            .map(|object| {
                let (this, object) = (self.clone(), object.clone());
                async move { this.text(&object).await }.boxed()
            })
            .collect();
        let texts: Vec<Option<RawJson>> = stream::iter(reads).buffered(READS).try_collect().await?;
        Ok(texts.into_iter().collect())
    }

    async fn text(&self, object: &ObjectId) -> kube::Result<Option<RawJson>> {
        let gvk = (object.group.clone(), object.version.clone(), object.kind.clone());
        let Some(served) = self.0.kinds.read().served.get(&gvk).cloned() else {
            return Ok(None);
        };
        let namespace = (!served.cluster_scoped).then_some(object.namespace.as_str());
        let key = namespace.map_or_else(
            || Key::cluster(object.name.as_str()),
            |namespace| Key::namespaced(namespace, object.name.as_str()),
        );
        let seen = self
            .0
            .watched
            .lock()
            .get(&gvk)
            .and_then(|watched| watched.store.get(&key));
        let version = seen.and_then(|light| light.metadata.resource_version.clone());
        if let Some((known, text)) = self.0.texts.lock().get(object)
            && version.as_ref() == Some(known)
        {
            return Ok(Some(text.clone()));
        }
        let path = Light::url_path(&served.api, namespace);
        let request = Request::new(path)
            .get(key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        let value = match self.0.client.request::<Value>(request).await {
            Ok(value) => value,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(error),
        };
        let version = value["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let text = selection::stored(value);
        self.0.texts.lock().insert(object.clone(), (version, text.clone()));
        Ok(Some(text))
    }
}

impl Light {
    fn object(&self, (group, version, kind): &Gvk) -> Object {
        let secret_type = self.type_.as_ref().and_then(Value::as_str).filter(|_| kind == "Secret");
        Object {
            id: ObjectId {
                group: group.clone(),
                version: version.clone(),
                kind: kind.clone(),
                namespace: self.metadata.namespace.clone().unwrap_or_default(),
                name: self.name_any(),
            },
            labels: self.metadata.labels.clone().unwrap_or_default(),
            deleting: self.metadata.deletion_timestamp.is_some(),
            owned: self
                .metadata
                .owner_references
                .as_ref()
                .is_some_and(|list| !list.is_empty()),
            secret_type: secret_type.unwrap_or_default().to_owned(),
        }
    }

    /// What a change must touch to matter. A kind that counts generations does so for its spec and not for its status;
    /// of the others every version counts.
    fn content(&self) -> impl PartialEq {
        let m = &self.metadata;
        let version = m.generation.is_none().then(|| m.resource_version.clone());
        let words = (m.labels.clone(), m.annotations.clone());
        (
            m.uid.clone(),
            m.generation,
            version,
            words,
            m.deletion_timestamp.is_some(),
        )
    }
}

impl Hub for View {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<KindInfo> {
        self.kinds.get(&(group.into(), version.into(), kind.into())).cloned()
    }

    fn objects(&self, group: &str, version: &str, kind: &str, namespace: Option<&str>) -> Vec<&Object> {
        let objects = self.objects.get(&(group.into(), version.into(), kind.into()));
        let inside = |object: &&Object| namespace.is_none_or(|namespace| object.id.namespace == namespace);
        objects.into_iter().flatten().filter(inside).collect()
    }

    fn namespaced_kinds(&self) -> Vec<Gvk> {
        self.namespaced.clone()
    }
}

fn gvk(api: &ApiResource) -> Gvk {
    (api.group.clone(), api.version.clone(), api.kind.clone())
}

fn namespace_gvk() -> Gvk {
    (String::new(), "v1".to_owned(), "Namespace".to_owned())
}

fn is_namespace(selector: &ResourceSelector) -> bool {
    selector.group.is_empty() && selector.version == "v1" && selector.kind == "Namespace"
}

impl Resource for Light {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(api: &ApiResource) -> Cow<'_, str> {
        api.kind.as_str().into()
    }

    fn group(api: &ApiResource) -> Cow<'_, str> {
        api.group.as_str().into()
    }

    fn version(api: &ApiResource) -> Cow<'_, str> {
        api.version.as_str().into()
    }

    fn api_version(api: &ApiResource) -> Cow<'_, str> {
        api.api_version.as_str().into()
    }

    fn plural(api: &ApiResource) -> Cow<'_, str> {
        api.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
