//! Reads past the caches: one whose watch fails may be old, which matters before anything is destroyed, and one of a hub
//! that went back in time is ahead.

use std::{collections::HashSet, sync::Arc};

use fleet_api::guard::{self, Guarded};
use fleet_runtime::{
    Key,
    cache::{Store, is_before},
    client::{answered, is_not_found},
};
use kube::{
    api::{DynamicObject, GetParams, ListParams},
    core::{ObjectList, ObjectMeta, PartialObjectMeta, Request as Path},
};

use super::{WriteError, WriteFailure, Writer, Written, failed, path};

impl Writer {
    /// The metadata of an object as the API server has it now; none if it is gone.
    pub(crate) async fn metadata<K: Written>(&self, key: &Key) -> Result<Option<ObjectMeta>, WriteError> {
        let request = path::<K>(key)
            .get_metadata(key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest);
        match answered(async { self.client.request::<PartialObjectMeta<K>>(request?).await }).await {
            Ok(object) => Ok(Some(object.metadata)),
            Err(source) if is_not_found(&source) => Ok(None),
            Err(source) => Err(failed::<K>("read", key, source)),
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

    /// Reads an object past the cache, into the cache; none if it is gone.
    pub(crate) async fn read<K: Written>(&self, store: &Store<K>, key: &Key) -> Result<Option<Arc<K>>, WriteFailure> {
        // Of before the question: what comes meanwhile is another one.
        let before = store.get(key);
        let request = path::<K>(key)
            .get(key.name(), &GetParams::default())
            .map_err(kube::Error::BuildRequest);
        let decode = |text: String| guard::decode::<K>(&text).map_err(kube::Error::SerdeError);
        match answered(async { self.client.request_text(request?).await.and_then(decode) }).await {
            Ok(object) => Ok(Some(store.wrote(object))),
            Err(error) if is_not_found(&error) => {
                // Gone for the API server: gone for us, whatever the watch has shown so far.
                if let Some(old) = before {
                    store.deleted(key, old.meta().uid.as_deref());
                }
                Ok(None)
            }
            Err(error) => Err(WriteFailure::of(&error)),
        }
    }

    /// Reads all objects of a cluster-scoped kind with these labels past the cache, into the cache. `known` are those that
    /// the cache has: who is not among the answer is gone, unless it is younger.
    pub(crate) async fn list<K: Written + Clone>(
        &self,
        store: &Store<K>,
        labels: Option<&str>,
        known: &[Arc<K>],
    ) -> Result<(), WriteError> {
        let params = labels.map_or_else(ListParams::default, |labels| ListParams::default().labels(labels));
        let request = Path::new(K::url_path(&(), None))
            .list(&params)
            .map_err(kube::Error::BuildRequest);
        let answer = answered(async { self.client.request::<ObjectList<Guarded<K>>>(request?).await });
        let list = answer
            .await
            .map_err(|source| failed::<K>("list", &Key::cluster(labels.unwrap_or_default()), source))?;
        let version = list.metadata.resource_version.unwrap_or_default();
        let mut found = HashSet::new();
        for item in list.items {
            match item.0 {
                Ok(object) => {
                    found.insert(object.meta().uid.clone());
                    store.wrote(object);
                }
                // Its last readable state stays.
                Err(odd) => _ = found.insert(odd.metadata.uid),
            }
        }
        for old in known {
            let meta = old.meta();
            let held = meta.resource_version.as_deref().unwrap_or_default();
            if !found.contains(&meta.uid) && is_before(held, &version) {
                store.deleted(&Key::of(&**old), meta.uid.as_deref());
            }
        }
        Ok(())
    }

    /// Whether the API server has any object of a kind with these labels now.
    pub(crate) async fn any<K: Written>(&self, namespace: &str, labels: &str) -> Result<bool, WriteError> {
        let one = ListParams::default().labels(labels).limit(1);
        let request = Path::new(K::url_path(&(), Some(namespace)))
            .list_metadata(&one)
            .map_err(kube::Error::BuildRequest);
        match answered(async {
            self.client
                .request::<ObjectList<PartialObjectMeta<DynamicObject>>>(request?)
                .await
        })
        .await
        {
            Ok(list) => Ok(!list.items.is_empty()),
            Err(source) => Err(failed::<K>("list", &Key::namespaced(namespace, labels), source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_kind_that_is_not_served_is_no_object_that_is_gone() {
        let answer = |reason: &str, details| {
            let status =
                json!({ "status": "Failure", "code": 404, "message": "m", "reason": reason, "details": details });
            let status: Status = serde_json::from_value(status).unwrap();
            is_not_found(&kube::Error::Api(Box::new(status)))
        };
        assert!(answer("NotFound", json!({ "name": "a", "kind": "configmaps" })));
        assert!(!answer("NotFound", json!({ "kind": "gizmos" })), "the CRD is not there");
        assert!(!answer("NotFound", json!(null)));
        assert!(
            !answer("404 page not found", json!(null)),
            "an API server that has just started"
        );
    }
}
