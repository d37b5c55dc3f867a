//! The writes of the controllers: each waits for its turn, its body is made then, and its answer goes into the store, so
//! that whoever acts next need not wait for the watch.
//!
//! Requests are made from paths and not through `Api`, because code that is generic over the scope cannot name one for
//! namespaced kinds, and because a Work is written with manifests that the store does not keep.

mod any_kind;

use std::{borrow::Cow, sync::Arc, time::Duration};

use fleet_api::{guard, patch, raw::RawJson};
use fleet_runtime::{
    Key,
    cache::Store,
    client::answered,
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

/// A request, or why there is none.
type Made = kube::Result<Request<Vec<u8>>>;

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
        make: impl FnOnce() -> Option<serde_json::Result<RawJson>> + Send,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let mut make = Some(make);
        let mut request = || {
            let body = make.take()?()?.map_err(kube::Error::SerdeError);
            Some(body.and_then(|body| {
                let body = body.as_str().as_bytes().to_vec();
                path::<K>(key).create(&params, body).map_err(kube::Error::BuildRequest)
            }))
        };
        match self.send(Lane::Objects, kind::<K>(), key, group, &mut request).await {
            Some(Err(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Ok(None),
            answer => stored("create", store, key, answer),
        }
    }

    /// Server-side apply: creates the object, or takes our fields of it back. `make` is called when its turn has come, and
    /// gives none if there is nothing left to change.
    pub(crate) async fn apply<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        make: impl FnOnce() -> Option<serde_json::Result<RawJson>> + Send,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PatchParams::apply(self.manager).force();
        let mut make = Some(make);
        let mut request = || {
            let body = make.take()?()?.map_err(kube::Error::SerdeError);
            Some(body.and_then(|body| {
                let request = path::<K>(key).patch(key.name(), &params, &Patch::Apply(body));
                request.map_err(kube::Error::BuildRequest)
            }))
        };
        let answer = self.send(Lane::Objects, kind::<K>(), key, group, &mut request).await;
        stored("apply", store, key, answer)
    }

    /// Merge-patches the object as it is when its turn comes; `patch` gives none if there is nothing left to change.
    pub(crate) async fn patch<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        part: Part,
        patch: impl FnOnce(&K) -> Option<Value> + Send,
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
        patch: impl FnOnce(&K) -> Option<serde_json::Result<RawJson>> + Send,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        let lane = match part {
            Part::Object => Lane::Objects,
            Part::Status => Lane::Status,
        };
        let mut patch = Some(patch);
        let mut make = |found: &K| {
            let body = patch.take()?(found)?.map_err(kube::Error::SerdeError);
            Some(body.and_then(|body| {
                let (to, merge) = (path::<K>(key), Patch::Merge(body));
                let request = match part {
                    Part::Object => to.patch(key.name(), &params, &merge),
                    Part::Status => to.patch_subresource("status", key.name(), &params, &merge),
                };
                request.map_err(kube::Error::BuildRequest)
            }))
        };
        self.change("patch", lane, store, key, group, &mut make).await
    }

    /// Replaces the status of the object as it is when its turn comes; `status` gives none if nothing is left to change.
    /// For large ones, where a merge costs the server half as much again. What it does not mention is lost.
    pub(crate) async fn replace_status<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        status: impl FnOnce(&K) -> Option<serde_json::Result<Value>> + Send,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let params = PostParams {
            field_manager: Some(self.manager.to_owned()),
            ..PostParams::default()
        };
        let mut status = Some(status);
        let mut make = |found: &K| {
            let meta = found.meta();
            let body = status.take()?(found)?.and_then(|status| {
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
        self.change("replace the status of", Lane::Rollup, store, key, group, &mut make)
            .await
    }

    /// Changes the object as it is when its turn comes; after a conflict waits until the store knows what the other one
    /// wrote.
    async fn change<K: Written>(
        &self,
        verb: &'static str,
        lane: Lane,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        make: &mut (dyn FnMut(&K) -> Option<Made> + Send),
    ) -> Result<Option<Arc<K>>, WriteError> {
        let mut based_on = None;
        let mut request = || {
            let found = store.get(key)?;
            based_on.clone_from(&found.meta().resource_version);
            make(&found)
        };
        let answer = self.send(lane, kind::<K>(), key, group, &mut request).await;
        match answer {
            Some(Err(source)) if is_not_found(&source) => Ok(None),
            answer => {
                let outcome = stored(verb, store, key, answer);
                if outcome.as_ref().is_err_and(WriteError::is_conflict) {
                    let _ = tokio::time::timeout(CATCH_UP, past(store, key, based_on)).await;
                }
                outcome
            }
        }
    }

    /// The name under which it writes.
    pub(crate) fn manager(&self) -> &'static str {
        self.manager
    }

    /// Deletes an object if it is still the one with this uid, and if asked for only as one that `only` holds for. True
    /// if a request was sent and answered.
    pub(crate) async fn delete<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        uid: Option<&str>,
        only: Option<fn(&K) -> bool>,
    ) -> Result<bool, WriteError> {
        let mut based_on = None;
        let mut request = || {
            // Nothing that is going or gone by now is deleted again.
            let found = store.get(key)?;
            let meta = found.meta();
            if meta.deletion_timestamp.is_some() || only.is_some_and(|holds| !holds(&found)) {
                return None;
            }
            based_on.clone_from(&meta.resource_version);
            let preconditions = Preconditions {
                uid: uid.map(ToOwned::to_owned),
                resource_version: based_on.clone().filter(|_| only.is_some()),
            };
            let given = preconditions.uid.is_some() || preconditions.resource_version.is_some();
            let params = DeleteParams {
                preconditions: given.then_some(preconditions),
                ..DeleteParams::background()
            };
            let request = path::<K>(key).delete(key.name(), &params);
            Some(request.map_err(kube::Error::BuildRequest))
        };
        let answer = self.send(Lane::Objects, kind::<K>(), key, group, &mut request).await;
        match answer {
            None => Ok(false),
            Some(Ok(answer)) => {
                // Finalizers hold it, or in a namespace's case what it contains; else the answer is a Status.
                let object = serde_json::from_str::<K>(&answer).ok();
                match object.filter(|object| object.meta().deletion_timestamp.is_some()) {
                    Some(going) => _ = store.wrote(going),
                    None => store.deleted(key, uid),
                }
                Ok(true)
            }
            Some(Err(source)) if is_not_found(&source) => Ok(true),
            Some(Err(source)) => {
                let error = failed::<K>("delete", key, source);
                if error.is_conflict() {
                    let _ = tokio::time::timeout(CATCH_UP, past(store, key, based_on)).await;
                }
                Err(error)
            }
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
        let mut request = || {
            let request = Path::new(K::url_path(&(), namespace)).delete_collection(&params, &list);
            Some(request.map_err(kube::Error::BuildRequest))
        };
        match self.send(Lane::Objects, kind::<K>(), &key, group, &mut request).await {
            Some(Err(source)) => Err(failed::<K>("delete all", &key, source)),
            _ => Ok(()),
        }
    }

    /// Whether the API server has an object, whatever the stores say.
    pub(crate) async fn exists<K: Written>(&self, key: &Key) -> Result<bool, WriteError> {
        let request = path::<K>(key)
            .get(key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest);
        match answered(async { self.client.request_text(request?).await }).await {
            Ok(_) => Ok(true),
            Err(source) if is_not_found(&source) => Ok(false),
            Err(source) => Err(failed::<K>("read", key, source)),
        }
    }

    /// Sends what `make` makes when its turn has come. Knows no kind, so that it is compiled once and not for each.
    async fn send(
        &self,
        lane: Lane,
        kind: Cow<'static, str>,
        key: &Key,
        group: &Key,
        make: &mut (dyn FnMut() -> Option<Made> + Send),
    ) -> Option<kube::Result<String>> {
        let body = || {
            let request = make()?;
            Some(async move { self.client.request_text(request?).await })
        };
        self.writes
            .write(lane, Target::new(kind, key.clone()), group, body)
            .await
    }
}

/// Keeps an answer.
fn stored<K: Written>(
    verb: &'static str,
    store: &Store<K>,
    key: &Key,
    answer: Option<kube::Result<String>>,
) -> Result<Option<Arc<K>>, WriteError> {
    let Some(answer) = answer else { return Ok(None) };
    let decode = |text: String| guard::decode(&text).map_err(kube::Error::SerdeError);
    match answer.and_then(decode) {
        Ok(object) => Ok(Some(store.wrote(object))),
        Err(source) => Err(failed::<K>(verb, key, source)),
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
