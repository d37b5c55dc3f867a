//! Running sums over this cluster, kept up to date by watches.

use std::sync::Arc;

use fleet_core::membership::properties::{Amounts, Namespaces, Usage};
use fleet_runtime::cache::{Change, Era, Reason, Selection, State, Store, plain};
use futures::future::join_all;
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::lean::{LeanNamespace, LeanNode, LeanPod};

/// The API server leaves out what occupies nothing.
const PODS_THAT_COUNT: &str = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";

/// What is known of this cluster.
#[derive(Debug)]
pub struct OwnCluster {
    nodes: Store<LeanNode>,
    pods: Option<Store<LeanPod>>,
    namespaces: Option<Store<LeanNamespace>>,
    facts: Mutex<Facts>,
    /// Stores whose first list is not summed up yet.
    missing: watch::Sender<usize>,
    changed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Facts {
    usage: Usage,
    namespaces: Namespaces,
}

impl OwnCluster {
    /// Nothing is known yet.
    pub fn new(pods: bool, namespaces: bool) -> Self {
        Self {
            nodes: Store::new("nodes"),
            pods: pods.then(|| Store::new("pods")),
            namespaces: namespaces.then(|| Store::new("namespaces")),
            facts: Mutex::default(),
            missing: watch::Sender::new(1 + usize::from(pods) + usize::from(namespaces)),
            changed: Arc::new(Notify::new()),
        }
    }

    /// Told when nodes, capacity or namespaces changed; pods come and go without a word.
    pub fn changed(&self) -> Arc<Notify> {
        self.changed.clone()
    }

    /// Watches, for ever.
    pub async fn run(&self, client: Client, era: &Era) {
        let counting = Selection {
            fields: Some(PODS_THAT_COUNT.to_owned()),
            ..Selection::all(era)
        };
        let nodes = self
            .nodes
            .clone()
            .watch(Api::all(client.clone()), Selection::all(era), plain);
        let pods = optional(
            self.pods
                .clone()
                .map(|store| store.watch(Api::all(client.clone()), counting, plain)),
        );
        let namespaces = self.namespaces.clone();
        let namespaces = optional(namespaces.map(|store| store.watch(Api::all(client), Selection::all(era), plain)));
        tokio::join!(nodes, pods, namespaces, self.sum_up());
    }

    /// Sums up what the stores hold, for ever.
    async fn sum_up(&self) {
        let nodes = self.feed(&self.nodes, Self::node);
        let pods = optional(self.pods.as_ref().map(|store| self.feed(store, Self::pod)));
        let namespaces = optional(self.namespaces.as_ref().map(|store| self.feed(store, Self::namespace)));
        tokio::join!(nodes, pods, namespaces);
    }

    async fn feed<K>(&self, store: &Store<K>, apply: fn(&mut Facts, &Change<K>) -> bool)
    where
        K: Resource + Send + Sync + 'static,
    {
        // Half a list would be reported as if it were all.
        store.synced().await;
        let mut changes = store.subscribe();
        let take = |change: Option<Change<K>>, changes: &mut fleet_runtime::cache::Changes<K>| {
            let mut structural = false;
            let mut next = change.or_else(|| changes.try_next());
            while let Some(change) = next {
                structural |= apply(&mut self.facts.lock(), &change);
                next = changes.try_next();
            }
            if structural {
                self.changed.notify_one();
            }
        };
        take(None, &mut changes);
        self.missing.send_modify(|missing| *missing -= 1);
        loop {
            let change = changes.next().await;
            take(Some(change), &mut changes);
        }
    }

    fn node(facts: &mut Facts, change: &Change<LeanNode>) -> bool {
        match &change.new {
            Some(node) => facts.usage.set_node(change.key.name(), node.facts.clone()),
            None => facts.usage.remove_node(change.key.name()),
        }
    }

    fn pod(facts: &mut Facts, change: &Change<LeanPod>) -> bool {
        let occupies = change.new.as_ref().and_then(|pod| pod.occupies);
        facts.usage.set_pod(&change.key.to_string(), occupies);
        false
    }

    fn namespace(facts: &mut Facts, change: &Change<LeanNamespace>) -> bool {
        match &change.new {
            Some(namespace) if !namespace.terminating => facts.namespaces.set(change.key.name(), &namespace.owner),
            _ => facts.namespaces.remove(change.key.name()),
        }
    }

    /// Resolves when everything is summed up and the watches work, so that an answer is not an old one.
    pub async fn ready(&self) {
        // Neither sender can go: both are ours.
        let _ = self.missing.subscribe().wait_for(|missing| *missing == 0).await;
        let states = [
            Some(self.nodes.state()),
            self.pods.as_ref().map(Store::state),
            self.namespaces.as_ref().map(Store::state),
        ];
        let working = states.into_iter().flatten().map(|mut state| async move {
            let _ = state.wait_for(|state| *state == State::Watching).await;
        });
        join_all(working).await;
    }

    /// What keeps the sums from being true: the first watch that fails, and why.
    pub fn hindrance(&self) -> Option<String> {
        let watches = [
            Some((self.nodes.name(), self.nodes.state())),
            self.pods.as_ref().map(|store| (store.name(), store.state())),
            self.namespaces.as_ref().map(|store| (store.name(), store.state())),
        ];
        watches
            .into_iter()
            .flatten()
            .find_map(|(kind, state)| match &*state.borrow() {
                State::Failing {
                    reason: Reason::Forbidden,
                    ..
                } => Some(format!(
                    "the agent may not list and watch {kind} of this cluster (Forbidden): grant it that"
                )),
                State::Failing { message, .. } => Some(format!("{kind} cannot be watched: {message}")),
                State::Starting | State::Watching => None,
            })
    }

    /// Reads the sums.
    pub fn usage<T>(&self, read: impl FnOnce(&Usage) -> T) -> T {
        read(&self.facts.lock().usage)
    }

    /// What no pod has asked for; none if pods are not watched.
    pub fn available(&self) -> Option<Amounts> {
        self.pods.as_ref().map(|_| self.facts.lock().usage.available())
    }

    /// Reads the namespaces; none if they are not watched.
    pub fn namespaces<T>(&self, read: impl FnOnce(&Namespaces) -> T) -> Option<T> {
        self.namespaces.as_ref().map(|_| read(&self.facts.lock().namespaces))
    }

    /// The region that a node says it is in.
    pub fn region(&self) -> Option<String> {
        self.nodes
            .all()
            .iter()
            .find_map(|node| Some(node.region.as_deref()?.to_owned()))
    }
}

async fn optional(future: Option<impl Future<Output = ()>>) {
    if let Some(future) = future {
        future.await;
    }
}

#[cfg(test)]
impl OwnCluster {
    /// A cluster that nobody watches: with these objects, for ever.
    pub(super) async fn of(
        nodes: Vec<LeanNode>,
        pods: Vec<LeanPod>,
        namespaces: Option<Vec<LeanNamespace>>,
    ) -> Arc<Self> {
        let cluster = Arc::new(Self::new(true, namespaces.is_some()));
        let summing = cluster.clone();
        tokio::spawn(async move { summing.sum_up().await });
        fill(&cluster.nodes, nodes);
        fill(cluster.pods.as_ref().unwrap(), pods);
        if let Some(store) = &cluster.namespaces {
            fill(store, namespaces.unwrap_or_default());
        }
        let _ = cluster.missing.subscribe().wait_for(|missing| *missing == 0).await;
        cluster
    }
}

#[cfg(test)]
fn fill<K: Resource + Send + Sync + 'static>(store: &Store<K>, objects: Vec<K>) {
    use fleet_runtime::cache::Event;
    store.feed(Event::Restarted);
    for object in objects {
        store.feed(Event::Listed(object));
    }
    store.feed(Event::ListDone { version: 1 });
}

#[cfg(test)]
mod tests;
