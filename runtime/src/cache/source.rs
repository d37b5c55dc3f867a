//! What is listed and watched: whole objects, or their metadata alone.

use std::{fmt, future::Future};

use futures::{StreamExt, TryFutureExt as _, stream::BoxStream};
use http::Request;
use kube::{
    Api, Client, Resource,
    api::{ListParams, WatchParams},
    core::{PartialObjectMeta, Request as Path, WatchEvent},
};
use serde::de::DeserializeOwned;

/// Where the objects of a kind come from.
pub trait Source: Send + Sync {
    /// How many are listed at a time at most; fewer if they are large.
    const PAGE: u32;
    /// What arrives.
    type Object: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static;

    /// Who asks the server.
    fn client(&self) -> Client;

    /// The request for a page of them.
    ///
    /// # Errors
    /// If the parameters make no request.
    fn list(&self, params: &ListParams) -> kube::Result<Request<Vec<u8>>>;

    /// What happens to them after this version.
    fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<Events<Self::Object>>> + Send;
}

/// The events of a watch.
pub type Events<K> = BoxStream<'static, kube::Result<WatchEvent<K>>>;

/// Whole objects.
impl<W> Source for Api<W>
where
    W: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    const PAGE: u32 = 50;
    type Object = W;

    fn client(&self) -> Client {
        self.clone().into_client()
    }

    fn list(&self, params: &ListParams) -> kube::Result<Request<Vec<u8>>> {
        let request = Path::new(self.resource_url()).list(params);
        request.map_err(kube::Error::BuildRequest)
    }

    fn watch(&self, params: &WatchParams, version: &str) -> impl Future<Output = kube::Result<Events<W>>> + Send {
        Self::watch(self, params, version).map_ok(StreamExt::boxed)
    }
}

/// Their metadata alone, which is all that the server sends then.
#[derive(Debug)]
pub struct Metadata<W>(pub Api<W>);

impl<W> Source for Metadata<W>
where
    W: Resource + Clone + DeserializeOwned + fmt::Debug + Send + Sync + 'static,
{
    const PAGE: u32 = 250;
    type Object = PartialObjectMeta<W>;

    fn client(&self) -> Client {
        self.0.clone().into_client()
    }

    fn list(&self, params: &ListParams) -> kube::Result<Request<Vec<u8>>> {
        let request = Path::new(self.0.resource_url()).list_metadata(params);
        request.map_err(kube::Error::BuildRequest)
    }

    fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> impl Future<Output = kube::Result<Events<Self::Object>>> + Send {
        self.0.watch_metadata(params, version).map_ok(StreamExt::boxed)
    }
}

/// How an object is decoded that arrives as it is to be kept.
///
/// # Errors
/// None. One odd object fails a whole page then: kinds that users write arrive in a guard instead, which `decode` opens.
pub fn plain<K>(object: K) -> Result<K, String> {
    Ok(object)
}
