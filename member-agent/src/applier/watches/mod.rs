//! One watch per kind that was applied, so that changes are seen when they happen.
//!
//! Only metadata travels, and nothing is stored but which objects matter to which Work and how new the state is that
//! was last looked at: memory grows with what was applied, whatever else is on the cluster. A watch begins at the
//! cluster's current version without listing anything; after a gap every object that matters counts as changed.

mod follow;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_core::apply::identify::ObjectKey;
use fleet_runtime::{
    cache::Era,
    dump::{self, Dump, Section},
    queue::Queue,
};
use kube::{
    Client, ResourceExt as _,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::{sync::watch as channel, task::AbortHandle, time::timeout};

use self::follow::follow;
use super::member_api::{json::number, kinds::Kinds};

/// How long a round waits for a watch to begin. Without it, it looks twice.
const START_MAX: Duration = Duration::from_secs(2);

/// Group and kind.
pub(super) type Name = (String, String);

/// All watches. Cheap to clone.
#[derive(Clone)]
pub(super) struct Watches(Arc<Inner>);

struct Inner {
    client: Client,
    era: Era,
    kinds: Kinds,
    queue: Queue<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kinds: HashMap<Name, Watched>,
    by_work: HashMap<String, BTreeSet<ObjectKey>>,
    /// Objects that changed, and to which version, by Work.
    changed: HashMap<String, BTreeMap<ObjectKey, u64>>,
}

struct Watched {
    objects: HashMap<(String, String), Interest>,
    /// Works to which any object of the kind matters.
    whole: BTreeSet<String>,
    running: channel::Receiver<bool>,
    task: AbortHandle,
}

/// To which Works an object matters, and how much of it each has seen: what one has written is news to the others.
#[derive(Default)]
struct Interest {
    works: BTreeMap<String, Known>,
}

#[derive(Default)]
struct Known {
    /// The version that was last looked at or written; 0 if it was not there.
    version: u64,
    looked_at: bool,
}

impl Known {
    fn is_news(&self, version: u64) -> bool {
        version == 0 || version > self.version
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    pub(super) fn new(client: Client, era: Era, kinds: Kinds, queue: Queue<String>) -> Self {
        Self(Arc::new(Inner {
            client,
            era,
            kinds,
            queue,
            state: Mutex::default(),
        }))
    }

    /// Lets people who debug see which kinds are watched, and for how many objects.
    pub(super) fn show_in(&self, dump: &Dump) {
        dump.add(Section::Stores, "applied kinds", &self.0, |inner, look| {
            let state = inner.state.lock();
            let kinds = state.kinds.iter();
            look.list(
                kinds.map(|((group, kind), watched)| (format!("{group}/{kind}"), watched)),
                |watched| {
                    dump::fields(json!({ "watching": *watched.running.borrow(), "count": watched.objects.len() }))
                },
            )
        });
    }

    pub(super) fn client(&self) -> Client {
        self.0.client.clone()
    }

    /// The era of this cluster.
    pub(super) fn kinds(&self) -> &Kinds {
        &self.0.kinds
    }

    pub(super) fn era(&self) -> &Era {
        &self.0.era
    }

    /// From now on these objects matter to the Work, and no others; with `whole`, any object of those kinds too.
    /// Returns when their watches have begun, so that nothing that is read afterwards can change unseen.
    pub(super) async fn follow(&self, work: &str, objects: Vec<(ApiResource, ObjectKey)>, whole: &[ApiResource]) {
        let mut starting = Vec::new();
        {
            let mut state = self.0.state.lock();
            let mut keys: BTreeSet<ObjectKey> = objects.iter().map(|(_, key)| key.clone()).collect();
            let resources = objects.iter().map(|(resource, _)| resource).chain(whole);
            for resource in resources {
                let name = (resource.group.clone(), resource.kind.clone());
                let watched = state
                    .kinds
                    .entry(name.clone())
                    .or_insert_with(|| self.start(resource, name));
                if !*watched.running.borrow() {
                    starting.push(watched.running.clone());
                }
            }
            for (resource, key) in &objects {
                let name = (resource.group.clone(), resource.kind.clone());
                if let Some(watched) = state.kinds.get_mut(&name) {
                    let interest = watched.objects.entry((key.namespace.clone(), key.name.clone()));
                    interest.or_default().works.entry(work.to_owned()).or_default();
                }
            }
            for watched in state.kinds.values_mut() {
                watched.whole.remove(work);
            }
            for resource in whole {
                if let Some(watched) = state.kinds.get_mut(&(resource.group.clone(), resource.kind.clone())) {
                    watched.whole.insert(work.to_owned());
                }
            }
            std::mem::swap(state.by_work.entry(work.to_owned()).or_default(), &mut keys);
            let current = state.by_work.get(work).cloned().unwrap_or_default();
            state.release(work, keys.difference(&current));
        }
        let begun = async {
            for mut running in starting {
                let _ = running.wait_for(|running| *running).await;
            }
        };
        if timeout(START_MAX, begun).await.is_err() {
            tracing::debug!(work, "Some watches have not begun");
        }
    }

    /// Nothing matters to this Work any more.
    pub(super) fn forget(&self, work: &str) {
        let mut state = self.0.state.lock();
        let keys = state.by_work.remove(work).unwrap_or_default();
        for watched in state.kinds.values_mut() {
            watched.whole.remove(work);
        }
        state.release(work, keys.iter());
        state.changed.remove(work);
    }

    /// Ends all watches.
    pub(super) fn stop(&self) {
        *self.0.state.lock() = State::default();
    }

    /// This Work has looked at this version of the object, or written it: up to it nothing is news to it.
    pub(super) fn noted(&self, work: &str, key: &ObjectKey, version: u64) {
        let mut state = self.0.state.lock();
        let known = state
            .kinds
            .get_mut(&(key.group.clone(), key.kind.clone()))
            .and_then(|watched| watched.objects.get_mut(&(key.namespace.clone(), key.name.clone())))
            .and_then(|interest| interest.works.get_mut(work));
        if let Some(known) = known {
            known.version = known.version.max(version);
            known.looked_at = true;
        }
    }

    /// What has changed for a Work since it was last asked.
    pub(super) fn take_changed(&self, work: &str) -> BTreeSet<ObjectKey> {
        let mut state = self.0.state.lock();
        let changed = state.changed.remove(work).unwrap_or_default();
        let news = |(key, version): &(ObjectKey, u64)| {
            let known = state
                .kinds
                .get(&(key.group.clone(), key.kind.clone()))
                .and_then(|watched| watched.objects.get(&(key.namespace.clone(), key.name.clone())))
                .and_then(|interest| interest.works.get(work));
            known.is_none_or(|known| known.is_news(*version))
        };
        changed.into_iter().filter(news).map(|(key, _)| key).collect()
    }

    /// Whether every change to what this Work brought is seen.
    pub(super) fn sees_all_of(&self, work: &str) -> bool {
        let state = self.0.state.lock();
        state.by_work.get(work).is_some_and(|keys| {
            keys.iter().all(|key| {
                let watched = state.kinds.get(&(key.group.clone(), key.kind.clone()));
                watched.is_some_and(|watched| *watched.running.borrow())
            })
        })
    }

    fn start(&self, resource: &ApiResource, name: Name) -> Watched {
        tracing::debug!(kind = name.1, group = name.0, "Watching");
        let (sender, running) = channel::channel(false);
        let task = tokio::spawn(follow(self.clone(), resource.clone(), name, sender));
        Watched {
            objects: HashMap::new(),
            whole: BTreeSet::new(),
            running,
            task: task.abort_handle(),
        }
    }

    /// Events may have been missed: after a gap everything counts as changed, before the first event what was looked at.
    /// After a gap versions may be lower than before, too.
    pub(super) fn missed(&self, name: &Name, first: bool) {
        let state = &mut *self.0.state.lock();
        let Some(watched) = state.kinds.get_mut(name) else {
            return;
        };
        for ((namespace, object), interest) in &mut watched.objects {
            let key = key(name, namespace, object);
            let works = interest.works.iter_mut();
            for (work, known) in works.filter(|(_, known)| known.looked_at || !first) {
                if !first {
                    known.version = 0;
                }
                state.changed.entry(work.clone()).or_default().insert(key.clone(), 0);
                self.0.queue.add(work.clone());
            }
        }
    }

    pub(super) fn event(&self, name: &Name, object: &PartialObjectMeta<DynamicObject>) {
        let (namespace, object_name) = (object.namespace().unwrap_or_default(), object.name_any());
        let version = object.resource_version().as_deref().map_or(0, number);
        let state = &mut *self.0.state.lock();
        let Some(watched) = state.kinds.get(name) else { return };
        let interest = watched.objects.get(&(namespace.clone(), object_name.clone()));
        let works = interest
            .into_iter()
            .flat_map(|interest| &interest.works)
            .filter(|(_, known)| known.is_news(version))
            .map(|(work, _)| work)
            .chain(&watched.whole);
        let key = key(name, &namespace, &object_name);
        for work in works {
            state
                .changed
                .entry(work.clone())
                .or_default()
                .insert(key.clone(), version);
            self.0.queue.add(work.clone());
        }
    }
}

impl State {
    fn release<'a>(&mut self, work: &str, keys: impl Iterator<Item = &'a ObjectKey>) {
        for key in keys {
            let Some(watched) = self.kinds.get_mut(&(key.group.clone(), key.kind.clone())) else {
                continue;
            };
            let place = (key.namespace.clone(), key.name.clone());
            if let Some(interest) = watched.objects.get_mut(&place) {
                interest.works.remove(work);
                if interest.works.is_empty() {
                    watched.objects.remove(&place);
                }
            }
        }
        // A kind that nothing matters of is not watched.
        self.kinds
            .retain(|_, watched| !watched.objects.is_empty() || !watched.whole.is_empty());
    }
}

fn key((group, kind): &Name, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        group: group.clone(),
        kind: kind.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
