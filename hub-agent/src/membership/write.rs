//! The writes of this controller: each waits for its turn, and its answer goes into the store.

use std::fmt::Debug;

use fleet_api::names::field_managers::MEMBER_CLUSTER as FIELD_MANAGER;
use fleet_runtime::{
    Key,
    cache::Store,
    writes::{Lane, Target},
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Context, Error};

/// A kind that this controller writes.
pub(super) trait Written:
    Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Written for K where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned + Send + Sync + 'static
{
}

fn failed<K: Written>(verb: &'static str, key: &Key, source: kube::Error) -> Error {
    Error::Write {
        verb,
        kind: kind::<K>(),
        name: key.to_string(),
        source,
    }
}

fn kind<K: Written>() -> &'static str {
    // The kinds written here have constant names.
    match K::kind(&()) {
        std::borrow::Cow::Borrowed(kind) => kind,
        std::borrow::Cow::Owned(_) => "object",
    }
}

impl Context {
    /// Creates an object. `AlreadyExists` means that the cache was behind: the store is not touched, and the caller
    /// looks at what is there.
    pub(super) async fn create<K: Written>(
        &self,
        api: &Api<K>,
        store: &Store<K>,
        object: &K,
    ) -> Result<Created, Error> {
        let key = Key::of(object);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let answer = self
            .writes
            .write(Lane::Objects, Target::new(kind::<K>(), key.clone()), &key, || {
                Some(api.create(&params, object))
            })
            .await;
        match answer {
            Some(Ok(created)) => {
                store.wrote(created);
                Ok(Created::Now)
            }
            Some(Err(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Ok(Created::Before),
            Some(Err(source)) => Err(failed::<K>("create", &key, source)),
            None => Ok(Created::Before),
        }
    }

    /// Server-side apply: creates it, or takes our fields back.
    pub(super) async fn apply<K: Written>(&self, api: &Api<K>, store: &Store<K>, object: &K) -> Result<(), Error> {
        let key = Key::of(object);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(object);
        let answer = self
            .writes
            .write(Lane::Objects, Target::new(kind::<K>(), key.clone()), &key, || {
                Some(api.patch(key.name(), &params, &patch))
            })
            .await;
        match answer {
            Some(Ok(applied)) => {
                store.wrote(applied);
                Ok(())
            }
            Some(Err(source)) => Err(failed::<K>("apply", &key, source)),
            None => Ok(()),
        }
    }

    /// Merge-patches the object as it is when its turn comes; `patch` gives none if there is nothing left to change.
    pub(super) async fn patch<K: Written>(
        &self,
        api: &Api<K>,
        store: &Store<K>,
        key: &Key,
        part: Part,
        patch: impl FnOnce(&K) -> Option<Value>,
    ) -> Result<bool, Error> {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let lane = match part {
            Part::Object => Lane::Objects,
            Part::Status => Lane::Status,
        };
        let body = || {
            let found = store.get(key)?;
            let patch = fleet_api::patch::pinned(patch(&found)?, &*found);
            let params = &params;
            Some(async move {
                let patch = Patch::Merge(patch);
                match part {
                    Part::Object => api.patch(key.name(), params, &patch).await,
                    Part::Status => api.patch_status(key.name(), params, &patch).await,
                }
            })
        };
        match self
            .writes
            .write(lane, Target::new(kind::<K>(), key.clone()), key, body)
            .await
        {
            None => Ok(false),
            Some(Ok(answer)) => {
                // Removing the last finalizer of a deleting object answers with the object that is no more.
                let meta = answer.meta();
                let gone = meta.deletion_timestamp.is_some() && meta.finalizers.as_ref().is_none_or(Vec::is_empty);
                match (gone, meta.uid.clone()) {
                    (true, uid) => store.deleted(key, uid.as_deref()),
                    (false, _) => _ = store.wrote(answer),
                }
                Ok(true)
            }
            Some(Err(source)) if is_not_found(&source) => Ok(false),
            Some(Err(source)) => Err(failed::<K>("patch", key, source)),
        }
    }

    /// Deletes an object, if it is still the one with this uid.
    pub(super) async fn delete<K: Written>(&self, api: &Api<K>, key: &Key, uid: Option<&str>) -> Result<(), Error> {
        let params = DeleteParams {
            preconditions: uid.map(|uid| Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::background()
        };
        let answer = self
            .writes
            .write(Lane::Objects, Target::new(kind::<K>(), key.clone()), key, || {
                Some(api.delete(key.name(), &params))
            })
            .await;
        match answer {
            Some(Err(source)) if !is_not_found(&source) => Err(failed::<K>("delete", key, source)),
            _ => Ok(()),
        }
    }
}

/// Which part of an object is patched.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Object,
    Status,
}

/// Whether an object was created by us just now.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Created {
    Now,
    Before,
}

pub(super) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
