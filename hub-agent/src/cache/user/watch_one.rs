//! One object of any kind, watched for its conditions alone.

use std::time::Duration;

use fleet_core::{selection::ObjectId, updaterun::GateObject};
use fleet_runtime::{
    Key,
    cache::{self, Store},
    queue::Queue,
};
use kube::{Api, ResourceExt as _, core::DynamicObject};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::timeout};

use super::UserResources;

/// An API that does not list in this time does not hold up others.
const SYNC_WAIT: Duration = Duration::from_secs(5);

/// A watch of one object. It ends when this is dropped.
pub(crate) struct WatchedObject {
    store: Store<DynamicObject>,
    key: Key,
    _tasks: JoinSet<()>,
}

impl UserResources {
    /// Watches an object, which need not be there yet; `wakes` is added to the queue whenever it changes. None if the hub
    /// does not serve its kind.
    pub(crate) async fn watch_one(
        &self,
        object: &ObjectId,
        wakes: (Queue<Key>, Key),
    ) -> kube::Result<Option<WatchedObject>> {
        self.discover().await?;
        if self.place(object).is_none() {
            self.refresh().await?;
        }
        let Some(place) = self.place(object) else {
            return Ok(None);
        };
        if place.key.namespace().is_some_and(str::is_empty) {
            return Ok(None);
        }
        let api: Api<DynamicObject> = match place.key.namespace() {
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &place.api),
            None => Api::all_with(self.client(), &place.api),
        };
        let selection = cache::Selection {
            fields: Some(format!("metadata.name={}", place.key.name())),
            ..cache::Selection::all(&self.0.era.behind())
        };
        let store = Store::builder("objects of gates").prune(keep_conditions).build();
        let mut tasks = JoinSet::new();
        tasks.spawn(store.clone().watch(api, selection, cache::plain));
        let mut changes = store.subscribe();
        tasks.spawn(async move {
            let (queue, key) = wakes;
            loop {
                changes.next().await;
                queue.add(key.clone());
            }
        });
        let _ = timeout(SYNC_WAIT, store.settled()).await;
        Ok(Some(WatchedObject {
            store,
            key: place.key,
            _tasks: tasks,
        }))
    }
}

impl WatchedObject {
    /// What it says of itself, if it is there.
    pub(crate) fn object(&self) -> Option<GateObject> {
        let object = self.store.get(&self.key)?;
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        let read = |condition: &Value| serde_json::from_value(condition.clone()).ok();
        Some(GateObject {
            generation: object.metadata.generation.unwrap_or_default(),
            conditions: conditions.into_iter().flatten().filter_map(read).collect(),
        })
    }
}

fn keep_conditions(object: &mut DynamicObject) {
    object.managed_fields_mut().clear();
    object.annotations_mut().clear();
    object.labels_mut().clear();
    let conditions = object.data.pointer_mut("/status/conditions").map(Value::take);
    object.data = json!({ "status": { "conditions": conditions } });
}
