//! Deletions: of one object that is still the one that was meant, or of all with some labels.

use fleet_runtime::{
    Key,
    cache::Store,
    client::{answered, is_not_found},
    writes::Lane,
};
use http::{HeaderValue, Request, header::ACCEPT};
use kube::{
    Api, Resource,
    api::{DeleteParams, ListParams, Preconditions},
    core::Request as Path,
};
use serde::de::DeserializeOwned;

use super::{WriteError, Writer, Written, caught_up, failed, kind, path};

/// Deletes an object that was just read, and no other that somebody may have put in its place since. Past the queue: for what
/// is not the leader's to write.
pub(crate) async fn delete_exactly<K>(api: &Api<K>, found: &K) -> kube::Result<()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let only = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.meta().uid.clone(),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let name = found.meta().name.as_deref().unwrap_or_default();
    answered(api.delete(name, &only)).await.map(drop)
}

/// What was deleted is answered with all of its content, unless one asks for less.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

impl Writer {
    /// Deletes an object if it is still the one with this uid, and if asked for only as one that `only` holds for when its
    /// turn has come: then it is deleted as just that one. True if a request was sent and answered.
    pub(crate) async fn delete<K: Written>(
        &self,
        store: &Store<K>,
        key: &Key,
        group: &Key,
        uid: Option<&str>,
        only: Option<&(dyn Fn(&K) -> bool + Sync)>,
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
                    caught_up(store, key, based_on).await;
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
            let lean = |mut request: Request<Vec<u8>>| {
                request.headers_mut().insert(ACCEPT, HeaderValue::from_static(METADATA));
                request
            };
            Some(request.map(lean).map_err(kube::Error::BuildRequest))
        };
        match self.send(Lane::Objects, kind::<K>(), &key, group, &mut request).await {
            Some(Err(source)) => Err(failed::<K>("delete all", &key, source)),
            _ => Ok(()),
        }
    }
}
