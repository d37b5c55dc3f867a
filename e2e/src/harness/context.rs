//! What a scenario works with: unique names, clients, kubectl, and a list of what it made.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::fleet::Fleet;
use crate::kubectl::Kubectl;
use crate::wait;

/// An object that a scenario made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The cluster.
    pub cluster: String,
    /// Its kind.
    pub kind: ApiResource,
    /// Its namespace, unless it is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// Handed to a scenario. Clones share everything.
#[derive(Clone)]
pub struct Ctx {
    inner: Arc<Inner>,
}

struct Inner {
    fleet: Fleet,
    prefix: String,
    clients: Mutex<BTreeMap<String, Client>>,
    made: Mutex<Vec<Made>>,
    processes: Mutex<Vec<String>>,
}

impl Debug for Ctx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx")
            .field("prefix", &self.inner.prefix)
            .finish_non_exhaustive()
    }
}

impl Ctx {
    pub(super) fn new(fleet: Fleet, scenario: &str) -> Self {
        let random = std::iter::repeat_with(|| fastrand::char('a'..='z'))
            .take(5)
            .collect::<String>();
        let prefix = format!("{scenario}-{random}");
        let inner = Inner {
            fleet,
            prefix,
            clients: Mutex::default(),
            made: Mutex::default(),
            processes: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The fleet.
    pub fn fleet(&self) -> &Fleet {
        &self.inner.fleet
    }

    /// What every name of this scenario begins with.
    pub fn prefix(&self) -> &str {
        &self.inner.prefix
    }

    /// A name that no other scenario uses.
    pub fn name(&self, word: &str) -> String {
        format!("{}-{word}", self.inner.prefix)
    }

    /// A client with all rights on a cluster.
    pub async fn client(&self, cluster: &str) -> Result<Client> {
        if let Some(client) = lock(&self.inner.clients).get(cluster) {
            return Ok(client.clone());
        }
        let client = self.inner.fleet.client(cluster).await?;
        lock(&self.inner.clients).insert(cluster.to_owned(), client.clone());
        Ok(client)
    }

    /// A client for the hub.
    pub async fn hub(&self) -> Result<Client> {
        self.client("hub").await
    }

    /// The real kubectl on a cluster.
    pub fn kubectl(&self, cluster: &str) -> Result<Kubectl> {
        self.inner.fleet.kubectl(cluster)
    }

    /// Makes this scenario's namespace on a cluster, ready for pods; returns its name. The same name on every cluster.
    pub async fn namespace(&self, cluster: &str) -> Result<String> {
        self.namespace_called(cluster, &self.inner.prefix).await
    }

    /// One more namespace.
    pub async fn another_namespace(&self, cluster: &str, word: &str) -> Result<String> {
        self.namespace_called(cluster, &self.name(word)).await
    }

    async fn namespace_called(&self, cluster: &str, name: &str) -> Result<String> {
        let namespace = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        self.create::<Namespace>(cluster, namespace).await?;
        // Pods are refused until the controller manager has made this one.
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(cluster).await?, name);
        wait::until_present(accounts, "default", "exists", |_| true).await?;
        Ok(name.to_owned())
    }

    /// Creates a cluster-scoped object, to be removed at the end.
    pub async fn create<K>(&self, cluster: &str, object: K) -> Result<K>
    where
        K: Resource<Scope = ClusterResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.client(cluster).await?);
        self.create_with(cluster, &api, object).await
    }

    /// Creates an object in a namespace, to be removed at the end.
    pub async fn create_in<K>(&self, cluster: &str, namespace: &str, object: K) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client(cluster).await?, namespace);
        self.create_with(cluster, &api, object).await
    }

    async fn create_with<K>(&self, cluster: &str, api: &Api<K>, object: K) -> Result<K>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let kind = ApiResource::erase::<K>(&());
        let created = api
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("cannot create {} {} on {cluster}", kind.kind, object.name_any()))?;
        let (namespace, name) = (created.namespace(), created.name_any());
        self.made(Made {
            cluster: cluster.to_owned(),
            kind,
            namespace,
            name,
        });
        Ok(created)
    }

    /// Notes an object that was made in another way, so that it is shown on failure and removed at the end.
    pub fn made(&self, object: Made) {
        lock(&self.inner.made).push(object);
    }

    /// Starts a process under the supervisor (an agent, say); it is killed at the end, and its log shown on failure.
    pub async fn start_process(&self, spec: crate::process::Spec) -> Result<()> {
        lock(&self.inner.processes).push(spec.name.clone());
        self.inner.fleet.start_process(spec).await
    }

    pub(super) fn all_made(&self) -> Vec<Made> {
        lock(&self.inner.made).clone()
    }

    /// Removes what was made, the last first. Does not wait for namespaces, which take five seconds each.
    pub(super) async fn clean_up(&self) -> Result<()> {
        let processes = std::mem::take(&mut *lock(&self.inner.processes));
        for process in processes {
            self.inner.fleet.kill(&process).await?;
        }
        for made in self.all_made().into_iter().rev() {
            let Made {
                cluster,
                kind,
                namespace,
                name,
            } = made;
            let client = self.client(&cluster).await?;
            match api(client, &kind, namespace.as_deref())
                .delete(&name, &DeleteParams::background())
                .await
            {
                Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => {}
                result => _ = result.with_context(|| format!("cannot delete {} {name} on {cluster}", kind.kind))?,
            }
        }
        Ok(())
    }
}

/// The API of a kind that is known by name only.
pub(super) fn api(client: Client, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, kind),
        None => Api::all_with(client, kind),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
