//! What both agents share: options, logs, metrics, health, leases, caches, the write queue.
//!
//! A controller is a store, a queue that the store feeds, a pass over one key, and writes that wait for their turn:
//!
//! ```no_run
//! # use fleet_runtime::{Key, cache::{self, Selection, Store}, controller, metrics::Metrics, queue::{Next, Queue}};
//! # use fleet_runtime::writes::{Lane, Target, Writes};
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use kube::{Api, ResourceExt, api::{Patch, PatchParams}};
//! # async fn example(client: kube::Client, metrics: Metrics, stop: tokio_util::sync::CancellationToken) {
//! let mut builder = Store::<ConfigMap>::builder("configmaps");
//! let by_app = builder.index(|object| object.labels().get("app").cloned().into_iter().collect());
//! let store = builder.build();
//! // Kinds that users write come in a guard: `Api<Guarded<K>>`, opened by `|guarded| guarded.0.map_err(|e| e.error)`.
//! tokio::spawn(store.clone().watch(Api::all(client.clone()), Selection::default(), cache::plain));
//! store.synced().await;
//!
//! let (queue, writes) = (Queue::<Key>::default(), Writes::new("hub", &metrics));
//! tokio::spawn(controller::feed(store.subscribe(), queue.clone(), |change| {
//!     change.differs(|object| object.data.clone()).then(|| change.key.clone())
//! }));
//! controller::run(queue, controller::Options::new("demo"), controller::Measures::new(&metrics), stop, move |key| {
//!     let (store, writes, by_app, client) = (store.clone(), writes.clone(), by_app.clone(), client.clone());
//!     async move {
//!         let api: Api<ConfigMap> = Api::namespaced(client, key.namespace().unwrap_or("default"));
//!         let body = || {
//!             let object = store.get(&key)?; // read when the turn has come
//!             let siblings = by_app.count(object.labels().get("app")?).to_string();
//!             let patch = serde_json::json!({ "metadata": {
//!                 "resourceVersion": object.resource_version(), "annotations": { "siblings": siblings } } });
//!             let (api, name) = (&api, key.name());
//!             Some(async move { api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await })
//!         };
//!         if let Some(answer) = writes.write(Lane::Objects, Target::new("configmaps", key.clone()), &key, body).await {
//!             store.wrote(answer?); // readers have it now; the echo wakes nobody
//!         }
//!         Ok::<_, kube::Error>(Next::Wait)
//!     }
//! })
//! .await;
//! # }
//! ```

pub mod admin;
pub mod answer;
pub mod backoff;
pub mod cache;
pub mod client;
pub mod clock;
pub mod controller;
pub mod dump;
pub mod events;
pub mod files;
pub mod grace;
pub mod health;
pub mod key;
pub mod lease;
pub mod logs;
pub mod metrics;
pub mod options;
pub mod proxy;
pub mod queue;
pub mod shutdown;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod writes;

pub use key::Key;
