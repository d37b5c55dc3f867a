//! Lists and watches one kind for as long as the process lives.

use std::{fmt, future::Future, time::Duration};

use futures::{StreamExt, TryFutureExt as _, stream::BoxStream};
use kube::{
    Api, Resource,
    api::{ListParams, WatchParams},
    core::{ObjectList, PartialObjectMeta, Status, WatchEvent},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::{Event, Odd, Reason, State, Store, table};
use crate::{backoff::Backoff, key::Key, logs};

/// How long a request may take to be answered.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// The server ends a watch after this time.
const WATCH_SECS: u32 = 290;
/// A watch that says nothing for longer is dead: the server would have ended it.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECS as u64 + 5);

/// A watch that lived so long was no failure when it ended.
const HEALTHY: Duration = Duration::from_secs(10);

/// Which objects to watch, and how patiently.
#[derive(Clone, Debug)]
pub struct Selection {
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
    /// The delays after failures.
    pub backoff: Backoff,
}

impl Default for Selection {
    fn default() -> Self {
        let backoff = Backoff {
            min: Duration::from_millis(500),
            max: Duration::from_secs(30),
        };
        Self {
            labels: None,
            fields: None,
            backoff,
        }
    }
}

/// Where the objects of a kind come from.
pub trait Source: Send + Sync {
    /// How many are listed at a time. The answer is held as text, decoded and stored at the same time.
    const PAGE: u32;
    /// What arrives.
    type Object: Resource + Clone + DeserializeOwned + fmt::Debug + Send + 'static;

    /// A page of them.
    fn list(&self, params: &ListParams) -> impl Future<Output = kube::Result<ObjectList<Self::Object>>> + Send;

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

    fn list(&self, params: &ListParams) -> impl Future<Output = kube::Result<ObjectList<W>>> + Send {
        Self::list(self, params)
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

    fn list(&self, params: &ListParams) -> impl Future<Output = kube::Result<ObjectList<Self::Object>>> + Send {
        self.0.list_metadata(params)
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

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("could not list")]
    List(#[source] kube::Error),
    #[error("could not watch")]
    Watch(#[source] kube::Error),
    #[error("the server ended the watch: {}", .0.message)]
    Ended(Box<Status>),
    #[error("the server did not answer within {}s", ANSWER_TIMEOUT.as_secs())]
    Timeout,
    #[error("the list has no version")]
    NoVersion,
    #[error("the watch ended as soon as it began")]
    Short,
}

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// Keeps the store like the API server. Never ends; whoever starts it drops it.
    ///
    /// What arrives is the kind itself with [`plain`], its metadata, or a guard around it that decodes always.
    pub async fn watch<S: Source>(self, source: S, selection: Selection, decode: fn(S::Object) -> Result<K, String>) {
        let mut from: Option<String> = None;
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let outcome = match &mut from {
                None => self
                    .list(&source, &selection, decode)
                    .await
                    .map(|version| from = Some(version)),
                Some(version) => {
                    let outcome = self.follow(&source, &selection, decode, version).await;
                    if outcome.is_ok() || began.elapsed() >= HEALTHY {
                        failures = 0;
                    }
                    outcome
                }
            };
            let Err(failure) = outcome else { continue };
            if failure.expired() {
                from = None;
            }
            failures += 1;
            let message = logs::chain(&failure).to_string();
            // Once per interruption, then only in detail; the state has the rest.
            if failures == 1 {
                tracing::warn!(kind = self.name(), error = message, "Watch interrupted");
            } else {
                tracing::debug!(kind = self.name(), error = message, failures, "Watch still interrupted");
            }
            // One failed reconnect is an API server that restarts; the store is hardly older for it.
            if failures > 1 || !self.is_synced() {
                self.set_state(State::Failing {
                    reason: failure.reason(),
                    message,
                });
            }
            tokio::time::sleep(selection.backoff.delay(failures)).await;
        }
    }

    async fn list<S: Source>(
        &self,
        source: &S,
        selection: &Selection,
        decode: fn(S::Object) -> Result<K, String>,
    ) -> Result<String, Failure> {
        self.feed(Event::Restarted);
        let mut params = ListParams {
            label_selector: selection.labels.clone(),
            field_selector: selection.fields.clone(),
            limit: Some(S::PAGE),
            ..ListParams::default()
        };
        loop {
            let page = answered(source.list(&params)).await?.map_err(Failure::List)?;
            for object in page.items {
                self.feed(match opened(object, decode) {
                    Ok(object) => Event::Listed(object),
                    Err(odd) => Event::ListedOdd(odd),
                });
            }
            params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page
                    .metadata
                    .resource_version
                    .filter(|v| !v.is_empty())
                    .ok_or(Failure::NoVersion)?;
                // A server whose versions are no numbers gets no read-your-writes, but works.
                self.feed(Event::ListDone {
                    version: version.parse().unwrap_or(0),
                });
                return Ok(version);
            }
        }
    }

    /// Follows one watch to its end, moving `version` along.
    async fn follow<S: Source>(
        &self,
        source: &S,
        selection: &Selection,
        decode: fn(S::Object) -> Result<K, String>,
        version: &mut String,
    ) -> Result<(), Failure> {
        let params = WatchParams {
            label_selector: selection.labels.clone(),
            field_selector: selection.fields.clone(),
            timeout: Some(WATCH_SECS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let began = Instant::now();
        let mut events = answered(source.watch(&params, version))
            .await?
            .map_err(Failure::Watch)?;
        if matches!(&*self.state().borrow(), State::Failing { .. }) {
            tracing::info!(kind = self.name(), "Watch works again");
        }
        self.set_state(State::Watching);
        let mut shown = 0_u64;
        // Silence is an end like the server's own: go on from where we are.
        while let Ok(Some(event)) = timeout(SILENCE_MAX, events.next()).await {
            shown += 1;
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    version.clone_from(object.meta().resource_version.as_ref().ok_or(Failure::NoVersion)?);
                    self.feed(match opened(object, decode) {
                        Ok(object) => Event::Applied(object),
                        Err(odd) => Event::AppliedOdd(odd),
                    });
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let meta = object.meta();
                    version.clone_from(meta.resource_version.as_ref().ok_or(Failure::NoVersion)?);
                    let (key, uid) = (Key::of(&object), meta.uid.clone());
                    self.feed(Event::Deleted {
                        key,
                        uid,
                        version: table::version(meta),
                    });
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    version.clone_from(&bookmark.metadata.resource_version);
                    self.feed(Event::Progress {
                        version: version.parse().unwrap_or(0),
                    });
                }
                Ok(WatchEvent::Error(status)) => return Err(Failure::Ended(status)),
                // Starting the watch again would bring the same event again.
                Err(error @ kube::Error::SerdeError(_)) => {
                    tracing::warn!(kind = self.name(), error = %logs::chain(&error), "Event cannot be decoded");
                }
                Err(error) => return Err(Failure::Watch(error)),
            }
        }
        // A proxy that accepts and closes would otherwise be asked without a pause.
        if shown == 0 && began.elapsed() < Duration::from_secs(1) {
            Err(Failure::Short)
        } else {
            Ok(())
        }
    }
}

async fn answered<T>(request: impl Future<Output = T>) -> Result<T, Failure> {
    timeout(ANSWER_TIMEOUT, request).await.map_err(|_| Failure::Timeout)
}

fn opened<W: Resource, K>(object: W, decode: fn(W) -> Result<K, String>) -> Result<K, Odd> {
    let meta = object.meta();
    let (key, uid, version) = (Key::of(&object), meta.uid.clone(), table::version(meta));
    decode(object).map_err(|error| Odd {
        key,
        uid,
        version,
        error,
    })
}

impl Failure {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::List(kube::Error::Api(status)) | Self::Watch(kube::Error::Api(status)) | Self::Ended(status) => {
                Some(status)
            }
            _ => None,
        }
    }

    /// Whether the version to go on from is of no use any more.
    fn expired(&self) -> bool {
        matches!(self, Self::NoVersion) || self.status().is_some_and(|status| status.code == 410)
    }

    fn reason(&self) -> Reason {
        match self.status().map(|status| status.code) {
            Some(401) => Reason::Unauthorized,
            Some(403) => Reason::Forbidden,
            Some(404) => Reason::NotFound,
            _ => Reason::Unavailable,
        }
    }
}
