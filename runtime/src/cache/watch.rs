//! Lists and watches one kind for as long as the process lives.

use std::{future::Future, time::Duration};

use futures::StreamExt as _;
use kube::{
    Resource,
    api::{ListParams, WatchParams},
    core::{Status, WatchEvent},
};
use tokio::time::{Instant, timeout};

use super::{Era, Event, Odd, Reason, Source, State, Store, is_before, pages::Pages, table};
use crate::{backoff::Backoff, key::Key, logs};

/// How long a request may take to be answered.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// The server ends a watch after this time.
const WATCH_SECS: u32 = 290;
/// A watch that says nothing for longer is dead: the server would have ended it.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECS as u64 + 5);
/// A watch that lived so long and ended was ended by the server when its time was up.
const WHOLE: Duration = Duration::from_secs(WATCH_SECS as u64 - 5);
/// Servers send a bookmark about every minute. One that does not may have nothing to say, or not know where we are.
const QUIET: Duration = Duration::from_secs(90);

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
    /// The era of the API server, which all watches of it share.
    pub era: Era,
}

impl Selection {
    /// Every object of an API server.
    pub fn all(era: &Era) -> Self {
        Self {
            era: era.clone(),
            ..Self::default()
        }
    }
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
            era: Era::default(),
        }
    }
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
    #[error("the server is at version {now}, behind {held}, which it has shown: it was restored from a backup")]
    Back { now: String, held: String },
}

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// Keeps the store like the API server. Never ends; whoever starts it drops it.
    ///
    /// What arrives is the kind itself with [`plain`](super::plain), its metadata, or a guard around it that decodes always.
    pub async fn watch<S: Source>(self, source: S, selection: Selection, decode: fn(S::Object) -> Result<K, String>) {
        let mut from: Option<String> = None;
        let mut pages = Pages::new(S::PAGE);
        let mut failures = 0;
        let mut era = selection.era.number();
        // Whether the server was asked, since the last interruption, if it has gone back in time.
        let mut checked = true;
        loop {
            let (began, follows) = (Instant::now(), from.is_some());
            let step = async {
                match &mut from {
                    None => {
                        from = Some(self.list(&source, &selection, decode, &mut pages).await?);
                        checked = true;
                        Ok(())
                    }
                    Some(version) => {
                        if !checked {
                            check(&source, &selection, version).await?;
                        }
                        checked = false;
                        let outcome = self.follow(&source, &selection, decode, version).await;
                        checked = outcome.is_ok() && began.elapsed() >= WHOLE;
                        outcome
                    }
                }
            };
            let outcome = tokio::select! {
                // What this watch has noticed itself ends here too.
                now = selection.era.over(era) => {
                    tracing::warn!(kind = self.name(), "The server has gone back in time: listing everything anew");
                    era = now;
                    from = None;
                    self.forget();
                    continue;
                }
                outcome = step => outcome,
            };
            if follows && (outcome.is_ok() || began.elapsed() >= HEALTHY) {
                failures = 0;
            }
            let Err(failure) = outcome else { continue };
            if let Failure::Back { now, held } = &failure {
                tracing::warn!(kind = self.name(), now, held, "The server's versions went back");
                selection.era.end(era);
                continue;
            }
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
        pages: &mut Pages,
    ) -> Result<String, Failure> {
        let before = self.progress().to_string();
        self.feed(Event::Restarted);
        let mut params = ListParams {
            label_selector: selection.labels.clone(),
            field_selector: selection.fields.clone(),
            ..ListParams::default()
        };
        loop {
            let mut sink = |object| {
                self.feed(match opened(object, decode) {
                    Ok(object) => Event::Listed(object),
                    Err(odd) => Event::ListedOdd(odd),
                });
            };
            let page = pages.read(source, &params, &mut sink).await.map_err(Failure::List)?;
            params.continue_token = page.continue_.filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                let version = page
                    .resource_version
                    .filter(|v| !v.is_empty())
                    .ok_or(Failure::NoVersion)?;
                // A server whose versions are no numbers gets no read-your-writes, but works.
                self.feed(Event::ListDone {
                    version: version.parse().unwrap_or(0),
                });
                return if is_before(&version, &before) {
                    Err(Failure::Back {
                        now: version,
                        held: before,
                    })
                } else {
                    Ok(version)
                };
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
        let (mut shown, mut heard) = (0_u64, Instant::now());
        loop {
            let event = match timeout(QUIET, events.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                // Silence is an end like the server's own: go on from where we are.
                Err(_) if heard.elapsed() >= SILENCE_MAX => break,
                Err(_) => {
                    check(source, selection, version).await?;
                    continue;
                }
            };
            shown += 1;
            heard = Instant::now();
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
                Err(error) if is_undecodable(&error) => {
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

/// Asks for one object, to learn where the server is. What has gone back in time would accept our version and stay silent.
async fn check<S: Source>(source: &S, selection: &Selection, held: &str) -> Result<(), Failure> {
    let one = ListParams {
        label_selector: selection.labels.clone(),
        field_selector: selection.fields.clone(),
        ..ListParams::default()
    };
    let list = Pages::new(1).read(source, &one, &mut |_| {}).await;
    match list.map_err(Failure::List)?.resource_version {
        Some(now) if is_before(&now, held) => Err(Failure::Back {
            now,
            held: held.to_owned(),
        }),
        _ => Ok(()),
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

/// What is no event of this kind. The client takes anything else for a status, and any object is one that says nothing.
fn is_undecodable(error: &kube::Error) -> bool {
    match error {
        kube::Error::SerdeError(_) => true,
        kube::Error::Api(status) => status.code == 0 && status.message.is_empty() && status.reason.is_empty(),
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_says_nothing_about_a_fault_is_an_odd_object() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"x"},"status":{"conditions":null}}}"#;
        let odd: Status = serde_json::from_str(line).unwrap();
        assert!(is_undecodable(&kube::Error::Api(Box::new(odd))));
        let gone: Status = serde_json::from_str(r#"{"code":410,"message":"too old","reason":"Expired"}"#).unwrap();
        assert!(!is_undecodable(&kube::Error::Api(Box::new(gone))));
    }
}
