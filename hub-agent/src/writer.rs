//! The writes of the controllers: each waits for its turn, its body is made then, and its answer goes into the store, so
//! that whoever acts next need not wait for the watch.
//!
//! Requests are made from paths and not through `Api`, because code that is generic over the scope cannot name one for
//! namespaced kinds, and because a Work is written with manifests that the store does not keep.

mod any_kind;

use std::{borrow::Cow, sync::Arc, time::Duration};

use fleet_api::{patch, raw::RawJson};
use fleet_runtime::{
    Key,
    cache::Store,
    writes::{Lane, Target, Writes},
};
use http::Request;
use kube::{
    Client, Resource,
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::Request as Path,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// After a conflict the watch has this long to show what came in between. It is mostly there before the refusal.
const CATCH_UP: Duration = Duration::from_secs(2);

/// A kind that is written.
pub(crate) trait Written: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static {}

impl<K> Written for K where K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static {}

/// A write that failed. Its pass is repeated with a growing delay.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} {kind} {name}")]
pub(crate) struct WriteError {
    pub(crate) verb: &'static str,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) name: Box<str>,
    pub(crate) source: kube::Error,
}

impl WriteError {
    /// Whether somebody else was faster. The store knows by now what they wrote: decide anew, at once.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(&self.source, kube::Error::Api(status) if status.reason == "Conflict")
    }

    /// What the API server said, in its words.
    pub(crate) fn said(&self) -> String {
        match &self.source {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        }
    }

    /// The code of its answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match &self.source {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }
}

/// Which part of an object is patched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Spec and metadata.
    Object,
    /// Status, of something small.
    Status,
}

/// Writes under one field manager. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    writes: Writes,
    manager: &'static str,
}

fn kind<K: Written>() -> Cow<'static, str> {
    K::kind(&())
}

fn path<K: Written>(key: &Key) -> Path {
    Path::new(K::url_path(&(), key.namespace()))
}

impl Writer {
    pub(crate) fn new(client: Client, writes: Writes, manager: &'static str) -> Self {
        Self {
            client,
            writes,
            manager,
        }
    }

    /// Creates an object; `make` is called when its turn has come. None if there was nothing to make any more, or if it
    /// exists already: its name is derived, so a lost answer is the usual reason, and the watch shows what is there.
    pub(crate) async fn create<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        make: impl FnOnce() -> Option<serde_json::Result<RawJson>>,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let request = || {
            let body = make()?.map_err(kube::Error::SerdeError);
            Some(body.and_then(|body| {
                let body = body.as_str().as_bytes().to_vec();
                path::<K>(key).create(&params, body).map_err(kube::Error::BuildRequest)
            }))
        };
        match self.send(Lane::Objects, kind::<K>(), key, group, request).await {
            None => Ok(None),
            Some(Ok(created)) => Ok(Some(store.wrote(created))),
            Some(Err(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Ok(None),
            Some(Err(source)) => Err(failed::<K>("create", key, source)),
        }
    }

    /// Server-side apply: creates the object, or takes our fields of it back. `make` is called when its turn has come, and
    /// gives none if there is nothing left to change.
    pub(crate) async fn apply<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        make: impl FnOnce() -> Option<serde_json::Result<RawJson>>,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PatchParams::apply(self.manager).force();
        let request = || {
            let body = make()?.map_err(kube::Error::SerdeError);
            Some(body.and_then(|body| {
                let request = path::<K>(key).patch(key.name(), &params, &Patch::Apply(body));
                request.map_err(kube::Error::BuildRequest)
            }))
        };
        match self.send(Lane::Objects, kind::<K>(), key, group, request).await {
            None => Ok(None),
            Some(Ok(applied)) => Ok(Some(store.wrote(applied))),
            Some(Err(source)) => Err(failed::<K>("apply", key, source)),
        }
    }

    /// Merge-patches the object as it is when its turn comes; `patch` gives none if there is nothing left to change.
    pub(crate) async fn patch<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        part: Part,
        patch: impl FnOnce(&K) -> Option<Value>,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let body = |found: &K| patch(found).map(|patch| Ok(RawJson::from(patch::pinned(patch, found))));
        self.patch_raw(store, key, group, part, body).await
    }

    /// The same with a patch that is text already and names the version that it is based on.
    pub(crate) async fn patch_raw<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        part: Part,
        patch: impl FnOnce(&K) -> Option<serde_json::Result<RawJson>>,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        let lane = match part {
            Part::Object => Lane::Objects,
            Part::Status => Lane::Status,
        };
        let mut based_on = None;
        let request = || {
            let found = store.get(key)?;
            let body = patch(&found)?.map_err(kube::Error::SerdeError);
            based_on.clone_from(&found.meta().resource_version);
            Some(body.and_then(|body| {
                let (to, merge) = (path::<K>(key), Patch::Merge(body));
                let request = match part {
                    Part::Object => to.patch(key.name(), &params, &merge),
                    Part::Status => to.patch_subresource("status", key.name(), &params, &merge),
                };
                request.map_err(kube::Error::BuildRequest)
            }))
        };
        let answer = self.send::<K>(lane, kind::<K>(), key, group, request).await;
        self.settle(store, key, based_on, "patch", answer).await
    }

    /// Replaces the status of the object as it is when its turn comes; `status` gives none if nothing is left to change.
    /// For large ones, where a merge costs the server half as much again. What it does not mention is lost.
    pub(crate) async fn replace_status<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        status: impl FnOnce(&K) -> Option<serde_json::Result<Value>>,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let mut based_on = None;
        let request = || {
            let found = store.get(key)?;
            let status = status(&found)?;
            let meta = found.meta();
            based_on.clone_from(&meta.resource_version);
            let body = status.and_then(|status| {
                serde_json::to_vec(&json!({
                    "apiVersion": K::api_version(&()),
                    "kind": K::kind(&()),
                    "metadata": {
                        "name": meta.name,
                        "namespace": meta.namespace,
                        "uid": meta.uid,
                        "resourceVersion": meta.resource_version,
                    },
                    "status": status,
                }))
            });
            Some(body.map_err(kube::Error::SerdeError).and_then(|body| {
                let request = path::<K>(key).replace_subresource("status", key.name(), &params, body);
                request.map_err(kube::Error::BuildRequest)
            }))
        };
        let answer = self.send::<K>(Lane::Rollup, kind::<K>(), key, group, request).await;
        self.settle(store, key, based_on, "replace the status of", answer).await
    }

    /// Keeps an answer; after a conflict waits until the store knows what the other one wrote.
    async fn settle<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        based_on: Option<String>,
        verb: &'static str,
        answer: Option<kube::Result<K>>,
    ) -> Result<Option<Arc<K>>, WriteError> {
        match answer {
            None => Ok(None),
            Some(Ok(answer)) => Ok(Some(store.wrote(answer))),
            Some(Err(source)) if is_not_found(&source) => Ok(None),
            Some(Err(source)) => {
                let error = failed::<K>(verb, key, source);
                if error.is_conflict() {
                    let _ = tokio::time::timeout(CATCH_UP, past(store, key, based_on)).await;
                }
                Err(error)
            }
        }
    }

    /// The name under which it writes.
    pub(crate) fn manager(&self) -> &'static str {
        self.manager
    }

    /// Deletes an object if it is still the one with this uid. True if a request was sent and answered.
    pub(crate) async fn delete<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        uid: Option<&str>,
    ) -> Result<bool, WriteError> {
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let target = Target::new(kind::<K>(), key.clone());
        let answer = self.writes.write(Lane::Objects, target, group, || {
            // Nothing that is going or gone by now is deleted again.
            store
                .get(key)
                .filter(|found| found.meta().deletion_timestamp.is_none())?;
            let request = path::<K>(key)
                .delete(key.name(), &params)
                .map_err(kube::Error::BuildRequest);
            Some(async move { self.client.request_status::<K>(request?).await })
        });
        match answer.await {
            None => Ok(false),
            Some(Ok(answer)) => {
                // Finalizers hold it, or in a namespace's case what it contains.
                match answer
                    .left()
                    .filter(|object| object.meta().deletion_timestamp.is_some())
                {
                    Some(going) => _ = store.wrote(going),
                    None => store.deleted(key, uid),
                }
                Ok(true)
            }
            Some(Err(source)) if is_not_found(&source) => Ok(true),
            Some(Err(source)) => Err(failed::<K>("delete", key, source)),
        }
    }

    /// Deletes everything of a kind with these labels, in one request. The watch tells what became of each.
    pub(crate) async fn delete_all<K: Written>(
        &self,
        namespace: Option<&str>,
        labels: &str,
        group: &Key,
    ) -> Result<(), WriteError> {
        let key = match namespace {
            Some(namespace) => Key::namespaced(namespace, labels),
            None => Key::cluster(labels),
        };
        let (params, list) = (DeleteParams::background(), ListParams::default().labels(labels));
        let request = || {
            let path = Path::new(K::url_path(&(), namespace));
            Some(
                path.delete_collection(&params, &list)
                    .map_err(kube::Error::BuildRequest),
            )
        };
        let answer = self.send::<serde::de::IgnoredAny>(Lane::Objects, kind::<K>(), &key, group, request);
        match answer.await {
            Some(Err(source)) => Err(failed::<K>("delete all", &key, source)),
            _ => Ok(()),
        }
    }

    /// Whether the API server has an object, whatever the stores say.
    pub(crate) async fn exists<K: Written>(&self, key: &Key) -> Result<bool, WriteError> {
        let request = path::<K>(key)
            .get(key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest);
        let answer = async { self.client.request::<serde::de::IgnoredAny>(request?).await };
        match answer.await {
            Ok(_) => Ok(true),
            Err(source) if is_not_found(&source) => Ok(false),
            Err(source) => Err(failed::<K>("read", key, source)),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        lane: Lane,
        kind: Cow<'static, str>,
        key: &Key,
        group: &Key,
        request: impl FnOnce() -> Option<kube::Result<Request<Vec<u8>>>>,
    ) -> Option<kube::Result<T>> {
        let body = || {
            let request = request()?;
            Some(async move { self.client.request::<T>(request?).await })
        };
        self.writes
            .write(lane, Target::new(kind, key.clone()), group, body)
            .await
    }
}

/// Resolves when the store has another version of an object than this.
async fn past<K: Written>(store: &Store<K>, key: &Key, version: Option<String>) {
    loop {
        let shown = store.progress();
        if store.get(key).and_then(|found| found.meta().resource_version.clone()) != version {
            return;
        }
        store.reached(shown + 1).await;
    }
}

fn failed<K: Written>(verb: &'static str, key: &Key, source: kube::Error) -> WriteError {
    WriteError {
        verb,
        kind: kind::<K>(),
        name: key.to_string().into(),
        source,
    }
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
