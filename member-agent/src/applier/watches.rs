//! One watch per kind that was applied, so that changes are seen when they happen.
//!
//! Only metadata travels, and nothing is stored but which objects matter to which Work and how new the state is that
//! was last looked at: memory grows with what was applied, whatever else is on the cluster. A watch begins at the
//! cluster's current version without listing anything; after a gap every object that matters counts as changed.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use fleet_core::apply::identify::ObjectKey;
use fleet_runtime::{backoff::Backoff, logs, queue::Queue};
use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DynamicObject, ListParams, WatchParams},
    core::{ApiResource, PartialObjectMeta, WatchEvent},
};
use parking_lot::Mutex;
use tokio::{
    sync::watch as channel,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::json::number;

const WATCH_SECS: u32 = 290;
/// A watch that says nothing for longer is dead: the server would have ended it.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECS as u64 + 5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a round waits for a watch to begin. Without it, it looks twice.
const START_MAX: Duration = Duration::from_secs(2);
const PATIENCE: Backoff = Backoff {
    min: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

/// Group and kind.
type Name = (String, String);

/// All watches. Cheap to clone.
#[derive(Clone)]
pub(super) struct Watches(Arc<Inner>);

struct Inner {
    client: Client,
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

#[derive(Default)]
struct Interest {
    works: BTreeSet<String>,
    /// The version that was last looked at or written; 0 if it was not there.
    known: u64,
    looked_at: bool,
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watches {
    pub(super) fn new(client: Client, queue: Queue<String>) -> Self {
        Self(Arc::new(Inner {
            client,
            queue,
            state: Mutex::default(),
        }))
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
                    interest.or_default().works.insert(work.to_owned());
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

    /// This version of the object was looked at, or is our own: up to it nothing is news.
    pub(super) fn noted(&self, key: &ObjectKey, version: u64) {
        let mut state = self.0.state.lock();
        let interest = state
            .kinds
            .get_mut(&(key.group.clone(), key.kind.clone()))
            .and_then(|watched| watched.objects.get_mut(&(key.namespace.clone(), key.name.clone())));
        if let Some(interest) = interest {
            interest.known = interest.known.max(version);
            interest.looked_at = true;
        }
    }

    /// What has changed for a Work since it was last asked.
    pub(super) fn take_changed(&self, work: &str) -> BTreeSet<ObjectKey> {
        let mut state = self.0.state.lock();
        let changed = state.changed.remove(work).unwrap_or_default();
        let news = |(key, version): &(ObjectKey, u64)| {
            let interest = state
                .kinds
                .get(&(key.group.clone(), key.kind.clone()))
                .and_then(|watched| watched.objects.get(&(key.namespace.clone(), key.name.clone())));
            *version == 0 || interest.is_none_or(|interest| *version > interest.known)
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
        let task = tokio::spawn(watch(self.clone(), resource.clone(), name, sender));
        Watched {
            objects: HashMap::new(),
            whole: BTreeSet::new(),
            running,
            task: task.abort_handle(),
        }
    }

    /// Events may have been missed: after a gap everything counts as changed, before the first event what was looked at.
    fn missed(&self, name: &Name, first: bool) {
        let state = &mut *self.0.state.lock();
        let Some(watched) = state.kinds.get(name) else { return };
        let objects = watched.objects.iter();
        for ((namespace, object), interest) in objects.filter(|(_, interest)| interest.looked_at || !first) {
            let key = key(name, namespace, object);
            for work in &interest.works {
                state.changed.entry(work.clone()).or_default().insert(key.clone(), 0);
                self.0.queue.add(work.clone());
            }
        }
    }

    fn event(&self, name: &Name, object: &PartialObjectMeta<DynamicObject>) {
        let (namespace, object_name) = (object.namespace().unwrap_or_default(), object.name_any());
        let version = object.resource_version().as_deref().map_or(0, number);
        let state = &mut *self.0.state.lock();
        let Some(watched) = state.kinds.get(name) else { return };
        let interest = watched.objects.get(&(namespace.clone(), object_name.clone()));
        let works = interest
            .filter(|interest| version == 0 || version > interest.known)
            .into_iter()
            .flat_map(|interest| &interest.works)
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

async fn watch(watches: Watches, resource: ApiResource, name: Name, running: channel::Sender<bool>) {
    let api: Api<DynamicObject> = Api::all_with(watches.0.client.clone(), &resource);
    let mut failures = 0;
    let mut from: Option<String> = None;
    let mut known_before = false;
    loop {
        let error = match follow(&watches, &api, &name, &mut from, &mut known_before, &running).await {
            Ok(()) => {
                failures = 0;
                continue;
            }
            Err(error) => error,
        };
        failures += 1;
        running.send_replace(false);
        let (kind, error) = (&resource.plural, error.to_string());
        if failures == 1 {
            tracing::info!(kind, group = resource.group, error, "Watch interrupted");
        } else {
            tracing::debug!(kind, group = resource.group, error, failures, "Watch still interrupted");
        }
        sleep(PATIENCE.delay(failures)).await;
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", logs::chain(.0))]
    Request(kube::Error),
    #[error("{0}")]
    Ended(String),
    #[error("no answer")]
    Timeout,
}

/// Follows one watch to its end, moving `from` along.
async fn follow(
    watches: &Watches,
    api: &Api<DynamicObject>,
    name: &Name,
    from: &mut Option<String>,
    known_before: &mut bool,
    running: &channel::Sender<bool>,
) -> Result<(), Failure> {
    let resumed = from.is_some();
    let mut version = if let Some(version) = from.take() {
        version
    } else {
        // One object is enough to learn the version of the whole.
        let list = answered(api.list_metadata(&ListParams::default().limit(1))).await?;
        list.metadata.resource_version.unwrap_or_default()
    };
    let params = WatchParams {
        timeout: Some(WATCH_SECS),
        bookmarks: true,
        ..WatchParams::default()
    };
    let events = answered(api.watch_metadata(&params, &version)).await?;
    pin_mut!(events);
    let began = Instant::now();
    running.send_replace(true);
    if !resumed {
        watches.missed(name, !std::mem::replace(known_before, true));
    }
    while let Ok(Some(event)) = timeout(SILENCE_MAX, events.next()).await {
        match event {
            Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
                if let Some(newer) = object.resource_version() {
                    version = newer;
                }
                watches.event(name, &object);
            }
            Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
            Ok(WatchEvent::Error(status)) => return Err(Failure::Ended(status.message.clone())),
            Err(kube::Error::SerdeError(error)) => tracing::warn!(kind = name.1, %error, "Event cannot be decoded"),
            Err(error) => {
                *from = Some(version);
                return Err(Failure::Request(error));
            }
        }
    }
    *from = Some(version);
    // A proxy that accepts and closes would otherwise be asked without a pause.
    if began.elapsed() < Duration::from_secs(1) {
        return Err(Failure::Ended("the watch ended as soon as it began".to_owned()));
    }
    Ok(())
}

async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(ANSWER_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(Failure::Request),
        Err(_) => Err(Failure::Timeout),
    }
}
