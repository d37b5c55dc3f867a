//! Follows one kind on this cluster, in whichever version it is served, from the current state on and without listing anything.

use std::time::Duration;

use fleet_runtime::{backoff::Backoff, cache::is_before, logs};
use futures::{StreamExt as _, pin_mut};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, WatchParams},
    core::{ApiResource, WatchEvent},
};
use tokio::{
    sync::watch as channel,
    time::{Instant, sleep, timeout},
};

use super::{Name, Watches};
use crate::applier::member_api::kinds::{Elsewhere, Gvk};

const WATCH_SECS: u32 = 290;
/// A watch that says nothing for longer is dead: the server would have ended it.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_SECS as u64 + 5);
/// A watch that lived so long and ended was ended by the server when its time was up.
const WHOLE: Duration = Duration::from_secs(WATCH_SECS as u64 - 5);
/// Servers send a bookmark about every minute. One that does not may not know where we are.
const QUIET: Duration = Duration::from_secs(90);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const PATIENCE: Backoff = Backoff {
    min: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

/// One kind.
struct Kind {
    watches: Watches,
    api: Api<DynamicObject>,
    name: Name,
    running: channel::Sender<bool>,
    /// Where to go on; none to begin at the current version.
    from: Option<String>,
    /// Whether the server was asked since the last interruption if it has gone back in time.
    checked: bool,
    known_before: bool,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{}", logs::chain(.0))]
    Request(kube::Error),
    #[error("{0}")]
    Ended(String),
    #[error("no answer")]
    Timeout,
    #[error("the server's versions went back")]
    Back,
}

/// Tells of every change to objects of a kind, for ever. `running` says whether changes are seen.
pub(super) async fn follow(watches: Watches, mut resource: ApiResource, name: Name, running: channel::Sender<bool>) {
    // The kind may be that of another API server, behind this cluster's.
    let era = watches.era().behind();
    let mut number = era.number();
    let mut failures = 0;
    let mut kind = Kind {
        api: Api::all_with(watches.client(), &resource),
        watches,
        name,
        running,
        from: None,
        checked: true,
        known_before: false,
    };
    loop {
        let outcome = tokio::select! {
            now = era.over(number) => {
                number = now;
                kind.from = None;
                continue;
            }
            outcome = kind.once() => outcome,
        };
        let error = match outcome {
            Ok(()) => {
                failures = 0;
                continue;
            }
            Err(Failure::Back) => {
                tracing::warn!(kind = resource.plural, "The cluster's versions went back");
                era.end(number);
                continue;
            }
            Err(error) => error,
        };
        failures += 1;
        kind.running.send_replace(false);
        if error.is_unserved()
            && let Some(other) = kind.elsewhere(&resource).await
        {
            kind.api = Api::all_with(kind.watches.client(), &other);
            kind.from = None;
            resource = other;
        }
        let error = error.to_string();
        let plural = &resource.plural;
        if failures == 1 {
            tracing::info!(kind = plural, group = resource.group, error, "Watch interrupted");
        } else {
            tracing::debug!(
                kind = plural,
                group = resource.group,
                error,
                failures,
                "Watch still interrupted"
            );
        }
        sleep(PATIENCE.delay(failures)).await;
    }
}

impl Failure {
    /// Whether nobody serves what was asked for, in this version.
    fn is_unserved(&self) -> bool {
        matches!(self, Self::Request(kube::Error::Api(status)) if status.code == 404)
    }
}

impl Kind {
    /// The kind in another version, if it has moved there.
    async fn elsewhere(&self, resource: &ApiResource) -> Option<ApiResource> {
        let gvk = Gvk {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
        };
        let kinds = self.watches.kinds();
        kinds.forget(&gvk);
        match kinds.elsewhere(&gvk).await {
            Elsewhere::Served(kind) if kind.resource != *resource => {
                let (from, to) = (&gvk.version, &kind.resource.version);
                tracing::info!(kind = gvk.kind, group = gvk.group, from, to, "Watching another version");
                Some(kind.resource)
            }
            _ => None,
        }
    }

    /// Follows one watch to its end, moving `from` along.
    async fn once(&mut self) -> Result<(), Failure> {
        let anew = self.from.is_none();
        let mut version = match self.from.clone() {
            None => self.current().await?,
            Some(version) if self.checked => version,
            Some(version) => self.check(version).await?,
        };
        self.checked = false;
        let params = WatchParams {
            timeout: Some(WATCH_SECS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let events = answered(self.api.watch_metadata(&params, &version)).await?;
        pin_mut!(events);
        let (began, mut heard) = (Instant::now(), Instant::now());
        self.running.send_replace(true);
        if anew {
            let first = !std::mem::replace(&mut self.known_before, true);
            self.watches.missed(&self.name, first);
        }
        loop {
            self.from = Some(version.clone());
            let event = match timeout(QUIET, events.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(_) if heard.elapsed() >= SILENCE_MAX => break,
                Err(_) => {
                    version = self.check(version).await?;
                    continue;
                }
            };
            heard = Instant::now();
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object)) => {
                    if let Some(newer) = object.resource_version() {
                        version = newer;
                    }
                    self.watches.event(&self.name, &object);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Error(status)) => {
                    self.from = None;
                    return Err(Failure::Ended(status.message.clone()));
                }
                Err(kube::Error::SerdeError(error)) => {
                    tracing::warn!(kind = self.name.1, %error, "Event cannot be decoded");
                }
                Err(error) => return Err(Failure::Request(error)),
            }
        }
        self.checked = began.elapsed() >= WHOLE;
        // A proxy that accepts and closes would otherwise be asked without a pause.
        if began.elapsed() < Duration::from_secs(1) {
            return Err(Failure::Ended("the watch ended as soon as it began".to_owned()));
        }
        Ok(())
    }

    /// Where the server is. One object is enough to learn the version of the whole.
    async fn current(&self) -> Result<String, Failure> {
        let list = answered(self.api.list_metadata(&ListParams::default().limit(1))).await?;
        Ok(list.metadata.resource_version.unwrap_or_default())
    }

    /// The version, unless the server has gone back behind it: it would accept it and stay silent.
    async fn check(&self, version: String) -> Result<String, Failure> {
        if is_before(&self.current().await?, &version) {
            Err(Failure::Back)
        } else {
            Ok(version)
        }
    }
}

async fn answered<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Failure> {
    match timeout(ANSWER_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(Failure::Request),
        Err(_) => Err(Failure::Timeout),
    }
}
