//! The watches of users' kinds: begun when a placement asks for a kind, ended a while after none does.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use fleet_runtime::{
    cache::{self, Index, Store},
    dump::{Dump, Section},
};
use kube::Api;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    Owner, Touched, UserResources,
    kinds::{Gvk, Kinds, Served},
    light::Light,
};

/// How long a kind that no placement asks for stays watched: a placement that is made again soon need not list it anew.
const LINGER: Duration = Duration::from_mins(5);

#[derive(Clone)]
pub(super) struct Watched {
    pub(super) store: Store<Light>,
    pub(super) by_namespace: Index<Light, String>,
    /// Since when no placement has asked for it.
    unused: Option<Instant>,
    /// The watch ends with the last of these.
    _tasks: Arc<JoinSet<()>>,
}

impl Watched {
    /// Why its objects are not known.
    pub(super) fn failure(&self) -> Option<String> {
        match &*self.store.state().borrow() {
            cache::State::Failing { message, .. } if !self.store.is_synced() => Some(message.clone()),
            _ => None,
        }
    }
}

impl UserResources {
    /// Lets people who debug see which kinds are watched. How many objects there are, not which: they are the users' own.
    pub(crate) fn show_in(&self, dump: &Dump) {
        dump.add(Section::Stores, "selected resources", &self.0, |inner, look| {
            let watched = inner.watched.lock();
            let named = |gvk: &Gvk| format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
            let kinds = watched.iter().map(|(gvk, watched)| (named(gvk), watched));
            look.list(kinds, |watched| watched.store.summary())
        });
    }

    /// A placement that is gone asks for nothing any more.
    pub(crate) fn release(&self, owner: &Owner) {
        self.0.versions.lock().remove(owner);
        if self.0.needs.lock().remove(owner).is_some() {
            self.sweep();
        }
    }

    /// Ends the watches that nobody has asked for in a while.
    pub(super) fn sweep(&self) {
        let needed: BTreeSet<Gvk> = {
            let (needs, kinds) = (self.0.needs.lock(), self.0.kinds.read());
            let whole = needs.values().any(|needs| needs.whole).then_some(&kinds.namespaced);
            let named = needs.values().flat_map(|needs| &needs.named);
            named.chain(whole.into_iter().flatten()).cloned().collect()
        };
        let now = Instant::now();
        let mut began = false;
        self.0.watched.lock().retain(|gvk, watched| {
            if needed.contains(gvk) {
                watched.unused = None;
                return true;
            }
            began |= watched.unused.is_none();
            let since = *watched.unused.get_or_insert(now);
            now.duration_since(since) < LINGER
        });
        if began {
            let weak = Arc::downgrade(&self.0);
            let mut sweeps = self.0.sweeps.lock();
            while sweeps.try_join_next().is_some() {}
            sweeps.spawn(async move {
                sleep(LINGER).await;
                if let Some(inner) = weak.upgrade() {
                    Self(inner).sweep();
                }
            });
        }
    }

    pub(super) fn watch(&self, needed: &BTreeSet<Gvk>, kinds: &Kinds) -> BTreeMap<Gvk, Watched> {
        let mut watched = self.0.watched.lock();
        let mut found = BTreeMap::new();
        for gvk in needed {
            let Some(served) = kinds.served.get(gvk) else { continue };
            let entry = watched
                .entry(gvk.clone())
                .or_insert_with(|| self.start(gvk.clone(), served));
            entry.unused = None;
            found.insert(gvk.clone(), entry.clone());
        }
        found
    }

    fn start(&self, gvk: Gvk, served: &Served) -> Watched {
        let mut builder = Store::<Light>::builder("selected resources").prune(Light::prune);
        let by_namespace = builder.index(|light: &Light| light.metadata.namespace.iter().cloned().collect());
        let store = builder.build();
        let mut tasks = JoinSet::new();
        let api = Api::<Light>::all_with(self.client(), &served.api);
        // Its versions may be those of another API server, behind the hub's.
        let (mirror, all) = (store.clone(), cache::Selection::all(&self.0.era.behind()));
        if gvk.is_secret() {
            tasks.spawn(mirror.watch(api, all, cache::plain));
        } else {
            tasks.spawn(mirror.watch(cache::Metadata(api), all, Light::of));
        }
        let (inner, mut changes) = (Arc::downgrade(&self.0), store.subscribe());
        tasks.spawn(async move {
            loop {
                let change = changes.next().await;
                let Some(inner) = inner.upgrade() else { return };
                if change.differs(|light| light.content(&gvk)) {
                    let sides = change.old.iter().chain(&change.new);
                    let touched = Touched::Object(sides.map(|light| light.object(&gvk)).collect());
                    inner.tell(&touched).await;
                }
            }
        });
        Watched {
            store,
            by_namespace,
            unused: None,
            _tasks: Arc::new(tasks),
        }
    }
}
