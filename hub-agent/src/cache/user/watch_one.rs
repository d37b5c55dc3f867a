//! One object of any kind, watched for its conditions alone.

use std::{fmt, time::Duration};

use fleet_core::{
    selection::ObjectId,
    updaterun::{GateCondition, GateObject},
};
use fleet_runtime::{
    Key,
    cache::{self, Store},
};
use kube::{Api, core::ObjectMeta};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use tokio::{task::JoinSet, time::timeout};

use super::{UserResources, any_kind::of_any_kind};

/// An API that does not list in this time does not hold up others.
const SYNC_WAIT: Duration = Duration::from_secs(5);
/// More conditions than this has no object that is about one thing.
const CONDITIONS_MAX: usize = 64;
/// The longest text of a condition that is kept; a gate asks for none that is longer.
const TEXT_MAX: usize = 253;

/// An object of any kind, of which nothing but conditions is decoded.
#[derive(Clone, Debug, Default, Deserialize)]
struct Reporting {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<ReportedStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct ReportedStatus {
    #[serde(default, deserialize_with = "first_conditions")]
    conditions: Vec<GateCondition>,
}

of_any_kind!(Reporting);

/// A watch of one object. It ends when this is dropped.
pub(crate) struct WatchedObject {
    store: Store<Reporting>,
    key: Key,
    _tasks: JoinSet<()>,
}

impl UserResources {
    /// Watches an object, which need not be there yet; `tell` is called whenever it has changed. None if the hub does
    /// not serve its kind, as far as is known, or if it is not in a namespace although it has to be.
    pub(crate) async fn watch_one(
        &self,
        object: &ObjectId,
        in_namespace: bool,
        tell: impl Fn() + Send + 'static,
    ) -> Option<WatchedObject> {
        let place = self.place(object)?;
        let api: Api<Reporting> = match place.key.namespace() {
            Some("") => return None,
            Some(namespace) => Api::namespaced_with(self.client(), namespace, &place.api),
            None if in_namespace => return None,
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
            loop {
                changes.next().await;
                tell();
            }
        });
        let _ = timeout(SYNC_WAIT, store.settled()).await;
        Some(WatchedObject {
            store,
            key: place.key,
            _tasks: tasks,
        })
    }
}

impl WatchedObject {
    /// What it says of itself, if it is there.
    pub(crate) fn object(&self) -> Option<GateObject> {
        let object = self.store.get(&self.key)?;
        let conditions = object.status.as_ref().map(|report| report.conditions.clone());
        Some(GateObject {
            generation: object.metadata.generation.unwrap_or_default(),
            conditions: conditions.unwrap_or_default(),
            unwatched: None,
        })
    }
}

fn keep_conditions(object: &mut Reporting) {
    let whole = std::mem::take(&mut object.metadata);
    object.metadata = ObjectMeta {
        name: whole.name,
        namespace: whole.namespace,
        uid: whole.uid,
        resource_version: whole.resource_version,
        generation: whole.generation,
        deletion_timestamp: whole.deletion_timestamp,
        ..ObjectMeta::default()
    };
}

/// The first conditions of a list, however long it is. What is no list has none.
fn first_conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<GateCondition>, D::Error> {
    struct First;
    impl<'de> Visitor<'de> for First {
        type Value = Vec<GateCondition>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("conditions")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut first = Vec::new();
            while first.len() < CONDITIONS_MAX {
                let Some(mut condition) = list.next_element::<GateCondition>()? else {
                    return Ok(first);
                };
                for text in [&mut condition.type_, &mut condition.status, &mut condition.reason] {
                    text.truncate(text.floor_char_boundary(TEXT_MAX));
                    text.shrink_to_fit();
                }
                first.push(condition);
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(first)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(Vec::new())
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }
    }
    deserializer.deserialize_any(First)
}

#[cfg(test)]
mod tests {
    use fleet_core::selection::apis::Apis;
    use fleet_runtime::{
        cache::Era,
        queue::{Next, Queue},
    };
    use fleet_testkit::Server;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn an_object_that_is_deleted_and_made_anew_wakes_its_run_each_time() {
        const PATH: &str = "/apis/example.com/v1/namespaces/ops/checks/one";
        let server = Server::new();
        server.serve("/api/v1", "services", "Service", true);
        server.serve("/apis/example.com/v1", "checks", "Check", true);
        let user = UserResources::new(server.client(), Era::default(), Apis::default());
        user.discover().await.unwrap();
        let (queue, run) = (Queue::default(), Key::cluster("run"));
        let check = ObjectId {
            group: "example.com".to_owned(),
            version: "v1".to_owned(),
            kind: "Check".to_owned(),
            namespace: "ops".to_owned(),
            name: "one".to_owned(),
        };
        let (wakes, key) = (queue.clone(), run.clone());
        let watched = user
            .watch_one(&check, true, move || wakes.add(key.clone()))
            .await
            .unwrap();
        let woken = async || {
            let taken = timeout(SYNC_WAIT, queue.take()).await.unwrap();
            queue.done(&taken.key, Next::Wait);
            assert_eq!(taken.key, run);
        };
        assert_eq!(watched.object(), None);
        for _ in 0..2 {
            let good = json!([{ "type": "Complete", "status": "True", "reason": "Checked" }]);
            server.put(PATH, json!({ "status": { "conditions": good } }));
            woken().await;
            assert_eq!(watched.object().unwrap().conditions.len(), 1);
            server.delete(PATH);
            woken().await;
            assert_eq!(watched.object(), None);
        }
    }

    #[test]
    fn a_large_object_is_kept_as_a_few_short_conditions() {
        let long = "x".repeat(100_000);
        let condition = json!({ "type": "Ready", "status": "True", "reason": long, "message": long });
        let mut object: Reporting = serde_json::from_value(json!({
            "metadata": { "name": "a", "generation": 2, "annotations": { "a": long }, "labels": { "b": "c" } },
            "spec": [long],
            "status": { "conditions": vec![condition; 100], "other": { "x": [long] } },
        }))
        .unwrap();
        keep_conditions(&mut object);
        let conditions = object.status.unwrap().conditions;
        assert_eq!(conditions.len(), CONDITIONS_MAX);
        assert_eq!(
            (conditions[0].reason.len(), conditions[0].type_.as_str()),
            (TEXT_MAX, "Ready")
        );
        let kept = ObjectMeta {
            name: Some("a".into()),
            generation: Some(2),
            ..ObjectMeta::default()
        };
        assert_eq!(object.metadata, kept);
    }

    #[test]
    fn what_has_no_conditions_is_read_all_the_same() {
        for status in [
            json!(null),
            json!({}),
            json!({ "conditions": null }),
            json!({ "conditions": { "a": 1 } }),
        ] {
            let object: Reporting = serde_json::from_value(json!({ "metadata": {}, "status": status })).unwrap();
            assert!(object.status.unwrap_or_default().conditions.is_empty());
        }
    }
}
