//! Requests to the hub's API server: lists in pages, changes that survive conflicts, watches that begin again. Whatever
//! fails says which right or kind is missing.

mod follow;
mod kinds;
mod readyz;

use std::time::Duration;

use anyhow::{Context as _, Result};
use fleet_api::{guard::Guarded, kind::Kind};
use fleet_core::explain::quoted;
use kube::{
    Client,
    api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::{ClusterResourceScope, ObjectList, ObjectMeta, PartialObjectMeta, Request},
};
use serde::de::DeserializeOwned;

pub(crate) use follow::News;
pub(crate) use kinds::ServedKind;

use crate::{
    clusters::{self, KnownCluster},
    globals::{Globals, InNamespace},
    problem::Problem,
};

/// Objects of a page. Ten times the largest are still a few megabytes.
const PAGE: u32 = 250;
/// Of namespaces and Events, which are small.
const CORE_PAGE: u32 = 500;
/// A list that takes so long that the API server forgets where it began is begun again, but not for ever.
const LISTS_MAX: usize = 3;
/// How often a write is tried that somebody else's write came before.
pub(crate) const ATTEMPTS: usize = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// The hub, as the user may see it.
#[derive(Clone)]
pub(crate) struct Hub {
    client: Client,
    /// The same without a limit of time between two events.
    watches: Client,
    /// The kubeconfig context that it was asked for by; empty for the hub.
    context: String,
    /// What watches are about; all objects of their kind if it is empty.
    watched: Watched,
}

/// One object, for watches.
#[derive(Debug, Clone, Default)]
struct Watched {
    namespace: String,
    fields: String,
}

impl Watched {
    fn ask(&self) -> Ask<'_> {
        Ask {
            namespace: &self.namespace,
            fields: &self.fields,
            ..Ask::default()
        }
    }
}

/// The hub, and the namespace in which names without one are looked for.
pub(crate) struct Place {
    pub(crate) hub: Hub,
    pub(crate) namespace: String,
}

/// Which objects of a kind are listed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ask<'a> {
    /// Empty for those of all namespaces.
    pub(crate) namespace: &'a str,
    /// A label selector, unless it is empty.
    pub(crate) labels: &'a str,
    /// A field selector, unless it is empty.
    pub(crate) fields: &'a str,
    /// Objects of a page, if it is not the usual number.
    pub(crate) page: Option<u32>,
}

impl Ask<'_> {
    fn params(&self) -> ListParams {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ListParams {
            label_selector: given(self.labels),
            field_selector: given(self.fields),
            limit: Some(self.page.unwrap_or(PAGE)),
            ..ListParams::default()
        }
    }

    fn path<K: Kind>(&self) -> String {
        K::url_path(&(), Some(self.namespace).filter(|namespace| !namespace.is_empty()))
    }
}

/// What a list has found.
#[derive(Debug)]
pub(crate) struct Listed<K> {
    pub(crate) items: Vec<K>,
    /// Where a watch goes on.
    pub(crate) version: String,
    /// Objects that are not what their kind says, with the reason.
    pub(crate) odd: Vec<String>,
}

/// An object by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

/// What of an object is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but its status.
    Object,
    Status,
}

/// Why an object is not as it should be.
#[derive(Debug)]
pub(crate) enum Unchanged {
    /// It could not be read.
    Unread(Problem),
    /// It could not be written.
    Unwritten(Problem),
    /// What it has is not what its kind says.
    Odd(anyhow::Error),
}

impl From<Unchanged> for anyhow::Error {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Unread(problem) | Unchanged::Unwritten(problem) => problem.into(),
            Unchanged::Odd(error) => error,
        }
    }
}

impl Hub {
    /// The hub that kubectl would speak to with these flags, for commands that scripts of KubeFleet's plugin know.
    pub(crate) async fn connect(globals: &Globals) -> Result<Self> {
        let cluster = clusters::connect_with(globals).await;
        Ok(Self::of(&cluster.context("failed to create hub cluster client")?))
    }

    /// The hub that kubectl would speak to with these flags.
    pub(crate) async fn reach(globals: &Globals, named: &InNamespace) -> Result<Place> {
        let cluster = clusters::connect_with(globals).await?;
        let given = named.namespace.clone().filter(|namespace| !namespace.is_empty());
        Ok(Place {
            hub: Self::of(&cluster),
            namespace: given.unwrap_or(cluster.namespace),
        })
    }

    pub(crate) fn new(client: Client) -> Self {
        Self {
            watches: client.clone(),
            client,
            context: String::new(),
            watched: Watched::default(),
        }
    }

    /// The hub of a cluster that the kubeconfig knows.
    pub(crate) fn of(cluster: &KnownCluster) -> Self {
        Self {
            watches: cluster.watches.clone(),
            ..Self::new(cluster.client.clone())
        }
    }

    /// The cluster of a context that somebody has named for a member.
    pub(crate) async fn of_member(globals: &Globals, context: &str) -> Result<Self> {
        let cluster = clusters::connect_with(&globals.of_member(context)).await?;
        Ok(Self {
            context: context.to_owned(),
            ..Self::of(&cluster)
        })
    }

    /// kubectl, as it speaks to this cluster.
    pub(crate) fn kubectl(&self) -> String {
        match self.context.as_str() {
            "" => "kubectl".to_owned(),
            context => format!("kubectl --context {}", quoted(context)),
        }
    }

    /// The same, whose watches are about one object: who may read only its namespace may watch it too.
    pub(crate) fn watching(&self, namespace: &str, name: &str) -> Self {
        Self {
            client: self.client.clone(),
            watches: self.watches.clone(),
            context: self.context.clone(),
            watched: Watched {
                namespace: namespace.to_owned(),
                fields: format!("metadata.name={name}"),
            },
        }
    }

    fn raw<K: Kind>(&self, namespace: Option<&str>) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<K>(&());
        match namespace {
            None => Api::all_with(self.client.clone(), &kind),
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &kind),
        }
    }

    /// A cluster-scoped object, if it is there.
    pub(crate) async fn find<K: Kind<Scope = ClusterResourceScope>>(&self, name: &str) -> Result<Option<K>, Problem> {
        let answer = Api::<K>::all(self.client.clone()).get(name).await;
        match answer.map_err(|error| Problem::new::<K>("get", error)) {
            Ok(object) => Ok(Some(object)),
            Err(problem) if problem.is_missing() => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// All objects of a kind that `keep` wants, in pages. With a label selector, unless it is empty.
    pub(crate) async fn list<K: Kind>(&self, labels: &str, keep: impl FnMut(&K) -> bool) -> Result<Listed<K>, Problem> {
        let ask = Ask {
            labels,
            ..Ask::default()
        };
        self.ask(ask, keep).await
    }

    /// All objects that are asked for and that `keep` wants, in pages.
    pub(crate) async fn ask<K: Kind>(
        &self,
        ask: Ask<'_>,
        mut keep: impl FnMut(&K) -> bool,
    ) -> Result<Listed<K>, Problem> {
        for _ in 1..LISTS_MAX {
            match self.ask_once(ask, &mut keep).await {
                Err(problem) if problem.is_expired() => {}
                answer => return answer,
            }
        }
        self.ask_once(ask, &mut keep).await
    }

    async fn ask_once<K: Kind>(&self, ask: Ask<'_>, keep: &mut impl FnMut(&K) -> bool) -> Result<Listed<K>, Problem> {
        let (mut items, mut odd) = (Vec::new(), Vec::new());
        let version = self
            .pages::<K, _>(ask, Request::list, |Guarded(object): Guarded<K>| match object {
                Ok(object) if keep(&object) => items.push(object),
                Ok(_) => {}
                Err(error) => {
                    let name = error.metadata.name.as_deref().unwrap_or_default();
                    odd.push(format!("{} {name} cannot be read: {error}", K::KIND));
                }
            })
            .await
            .map_err(|error| Problem::new::<K>("list", error))?;
        Ok(Listed { items, version, odd })
    }

    /// The metadata of all objects that are asked for: no more of them is sent.
    pub(crate) async fn ask_metadata<K: Kind>(&self, ask: Ask<'_>) -> Result<Vec<ObjectMeta>, Problem> {
        let mut found = Vec::new();
        let each = |object: PartialObjectMeta<K>| found.push(object.metadata);
        let done = self.pages::<K, _>(ask, Request::list_metadata, each).await;
        done.map_err(|error| Problem::new::<K>("list", error))?;
        Ok(found)
    }

    /// Objects of a kind that is Kubernetes' own, in pages; of all namespaces unless one is named.
    pub(crate) async fn core<K>(&self, namespace: &str, params: &ListParams) -> kube::Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned,
    {
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        let path = Request::new(K::url_path(&(), namespace));
        let (mut params, mut found) = (params.clone().limit(CORE_PAGE), Vec::new());
        loop {
            let request = path.list(&params).map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<K> = self.client.request(request).await?;
            found.extend(page.items);
            let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                return Ok(found);
            };
            params = params.continue_token(&next);
        }
    }

    async fn pages<K: Kind, T: Clone + DeserializeOwned>(
        &self,
        ask: Ask<'_>,
        request: impl Fn(&Request, &ListParams) -> Result<http::Request<Vec<u8>>, kube::core::request::Error>,
        mut each: impl FnMut(T),
    ) -> kube::Result<String> {
        let (path, mut params) = (Request::new(ask.path::<K>()), ask.params());
        loop {
            let request = request(&path, &params).map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<T> = self.client.request(request).await?;
            page.items.into_iter().for_each(&mut each);
            let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
                return Ok(page.metadata.resource_version.unwrap_or_default());
            };
            params = params.continue_token(&next);
        }
    }

    /// The version of a kind's objects now: a watch from there misses nothing that happens from now on.
    pub(crate) async fn version<K: Kind>(&self) -> Result<String, Problem> {
        let ask = Ask {
            page: Some(1),
            ..self.watched.ask()
        };
        let failed = |error| Problem::new::<K>("list", error);
        let request = Request::new(ask.path::<K>()).list_metadata(&ask.params());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let page: ObjectList<PartialObjectMeta<K>> = self.client.request(request).await.map_err(failed)?;
        Ok(page.metadata.resource_version.unwrap_or_default())
    }

    pub(crate) async fn create<K: Kind<Scope = ClusterResourceScope>>(&self, object: &K) -> Result<K, Problem> {
        let api = Api::<K>::all(self.client.clone());
        let answer = api.create(&PostParams::default(), object).await;
        answer.map_err(|error| Problem::new::<K>("create", error))
    }

    /// Deletes an object; one that is not there any more counts.
    pub(crate) async fn delete<K: Kind>(&self, named: Named<'_>) -> Result<(), Problem> {
        let answer = self
            .raw::<K>(named.namespace)
            .delete(named.name, &DeleteParams::default())
            .await;
        match answer.map_err(|error| Problem::new::<K>("delete", error)) {
            Err(problem) if !problem.is_missing() => Err(problem),
            _ => Ok(()),
        }
    }

    /// Reads an object, changes it, and writes it back as a whole, with the fields that this program does not know: who has
    /// only the right to "update" it may do so, whatever roles were made for. `change` says whether there is anything to
    /// write. The writes of others in between are no failure unless they never end.
    pub(crate) async fn change<K: Kind>(
        &self,
        named: Named<'_>,
        part: Part,
        change: impl Fn(&mut DynamicObject) -> Result<bool>,
    ) -> Result<bool, Unchanged> {
        for _ in 1..ATTEMPTS {
            match self.change_once::<K>(named, part, &change).await {
                Err(Unchanged::Unwritten(problem)) if problem.is_conflict() => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS).await;
                }
                answer => return answer,
            }
        }
        self.change_once::<K>(named, part, &change).await
    }

    async fn change_once<K: Kind>(
        &self,
        Named { namespace, name }: Named<'_>,
        part: Part,
        change: impl Fn(&mut DynamicObject) -> Result<bool>,
    ) -> Result<bool, Unchanged> {
        let api = self.raw::<K>(namespace);
        let read = api.get(name).await;
        let mut object = read.map_err(|error| Unchanged::Unread(Problem::new::<K>("get", error)))?;
        if !change(&mut object).map_err(Unchanged::Odd)? {
            return Ok(false);
        }
        let params = PostParams::default();
        let written = match part {
            Part::Object => {
                let answer = api.replace(name, &params, &object).await;
                answer.map_err(|error| Problem::new::<K>("update", error))
            }
            Part::Status => {
                let answer = api.replace_status(name, &params, &object).await;
                answer.map_err(|error| Problem::of_status::<K>("update", error))
            }
        };
        written.map(|_| true).map_err(Unchanged::Unwritten)
    }
}

#[cfg(test)]
mod tests;
