//! The only way to write: each write waits for its turn, its body is made then, and its answer goes into the store, so that
//! whoever acts next need not wait for the watch. A controller's pass that meets a conflict is repeated as a whole; what is
//! to be answered is decided anew until it can be ([`Writer::decide`]).
//!
//! Requests are made from paths and not through `Api`, because code that is generic over the scope cannot name one for
//! namespaced kinds, and because a Work is written with manifests that the store does not keep.

mod any_kind;
mod decide;
mod delete;
mod error;
mod events;
mod failure;
mod finalizers;
mod reads;

use std::{borrow::Cow, sync::Arc, time::Duration};

use fleet_api::{guard, patch, raw::RawJson};
use fleet_runtime::{
    Key,
    cache::Store,
    client::is_not_found,
    writes::{Lane, Target, Writes},
};
use http::Request;
use kube::{
    Client, Resource,
    api::{Patch, PatchParams, PostParams},
    core::Request as Path,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use self::error::failed;
pub(crate) use self::{
    decide::{About, Edit, ToDo},
    delete::delete_exactly,
    error::WriteError,
    events::record,
    failure::WriteFailure,
    finalizers::{with_finalizers, without_finalizers},
};

/// After a conflict the watch has this long to show what came in between. It is mostly there before the refusal.
const CATCH_UP: Duration = Duration::from_secs(2);

/// A kind that is written.
pub(crate) trait Written: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static {}

impl<K> Written for K where K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static {}

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
        self.try_patch(store, key, group, part, |found| Ok(patch(found))).await
    }

    /// The same for what has to be compared first.
    pub(crate) async fn try_patch<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        part: Part,
        patch: impl FnOnce(&K) -> serde_json::Result<Option<Value>> + Send,
    ) -> Result<Option<Arc<K>>, WriteError> {
        let body = |found: &K| {
            let pinned = |patch| RawJson::from(patch::pinned(patch, found));
            patch(found).map(|patch| patch.map(pinned)).transpose()
        };
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
                    caught_up(store, key, based_on).await;
                }
                outcome
            }
        }
    }

    /// The same under another name.
    pub(crate) fn named(&self, manager: &'static str) -> Self {
        Self {
            manager,
            ..self.clone()
        }
    }

    /// The name under which it writes.
    pub(crate) fn manager(&self) -> &'static str {
        self.manager
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

/// After a conflict: waits until the store has another version of the object than the one that the write was based on. Sent
/// again from the same state, it would only collide again.
async fn caught_up<K: Written>(store: &Store<K>, key: &Key, based_on: Option<String>) {
    let _ = tokio::time::timeout(CATCH_UP, past(store, key, based_on)).await;
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
