//! Watching objects of a kind until something has happened to them.

use std::{ops::ControlFlow, time::Duration};

use fleet_api::{guard::Guarded, kind::Kind};
use futures::StreamExt as _;
use kube::{
    Resource as _,
    api::{WatchEvent, WatchParams},
    core::Request,
};
use tokio::time::{Instant, timeout, timeout_at};

use super::Hub;
use crate::problem::Problem;

/// How long one watch lasts. API servers end them anyway; no connection is trusted for longer.
const WATCH_SECS: u32 = 240;
/// An API server answers a watch at once, with nothing if there is nothing yet. One that does not is frozen.
const OPEN_MAX: Duration = Duration::from_secs(30);
/// It ends a watch when it said it would. One that does not is frozen too.
const ENDS_AFTER: Duration = Duration::from_secs(WATCH_SECS as u64 + 30);
/// How often in a row a watch may fail before the API server counts as gone.
const FAILURES_MAX: u32 = 6;
/// Before the first repetition; each later one waits twice as long.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// What is known of objects.
#[derive(Debug)]
pub(crate) enum News<K> {
    /// One is like this now.
    Is(K),
    /// One is gone, and was like this.
    Gone(K),
    /// These are all there are: what happened in between nobody knows.
    All(Vec<K>),
}

impl Hub {
    /// Tells `each` what has happened since `version` to the objects that `keep` wants, until it has heard enough. A watch
    /// that ends is begun again where it was. `version` is how far it has come: the next call goes on there.
    pub(crate) async fn follow<K: Kind>(
        &self,
        version: &mut String,
        keep: impl Fn(&K) -> bool,
        mut each: impl FnMut(News<K>) -> ControlFlow<()>,
    ) -> Result<(), Problem> {
        let mut failures = 0;
        loop {
            let heard = self.watch_once(version, &keep, &mut each).await;
            let (problem, was_heard) = match heard {
                Heard::Enough => return Ok(()),
                // Not at once: a proxy may end every watch as it begins.
                Heard::Ended => {
                    tokio::time::sleep(AFTER_FAILURE).await;
                    failures = 0;
                    continue;
                }
                Heard::Failed { problem, was_heard } => (problem, was_heard),
            };
            if problem.is_expired() {
                let now = self.ask(self.watched.ask(), &keep).await?;
                *version = now.version;
                if each(News::All(now.items)).is_break() {
                    return Ok(());
                }
                continue;
            }
            failures = if was_heard { 1 } else { failures + 1 };
            if !problem.is_passing() || failures >= FAILURES_MAX {
                return Err(problem);
            }
            tokio::time::sleep(AFTER_FAILURE * 2_u32.pow(failures - 1)).await;
        }
    }

    async fn watch_once<K: Kind>(
        &self,
        version: &mut String,
        keep: &impl Fn(&K) -> bool,
        each: &mut impl FnMut(News<K>) -> ControlFlow<()>,
    ) -> Heard {
        let mut was_heard = false;
        let failed = |error, was_heard| Heard::Failed {
            problem: Problem::new::<K>("watch", error),
            was_heard,
        };
        let ask = self.watched.ask();
        let mut params = WatchParams::default().timeout(WATCH_SECS);
        if !ask.fields.is_empty() {
            params = params.fields(ask.fields);
        }
        let request = Request::new(ask.path::<K>()).watch(&params, version);
        let end = Instant::now() + ENDS_AFTER;
        let opened = match request.map_err(kube::Error::BuildRequest) {
            Ok(request) => {
                let opening = self.watches.request_events::<Guarded<K>>(request);
                timeout(OPEN_MAX, opening).await.unwrap_or_else(|_| Err(silent()))
            }
            Err(error) => Err(error),
        };
        let mut events = match opened {
            Ok(events) => Box::pin(events),
            Err(error) => return failed(error, was_heard),
        };
        loop {
            let event = match timeout_at(end, events.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => return Heard::Ended,
                Err(_) => return failed(silent(), was_heard),
            };
            let (object, is_gone) = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => (object, false),
                Ok(WatchEvent::Deleted(object)) => (object, true),
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    *version = bookmark.metadata.resource_version;
                    continue;
                }
                Ok(WatchEvent::Error(status)) => return failed(kube::Error::Api(status), was_heard),
                Err(error) => return failed(error, was_heard),
            };
            was_heard = true;
            if let Some(newer) = &object.meta().resource_version {
                version.clone_from(newer);
            }
            let news = match object {
                Guarded(Ok(object)) if keep(&object) && is_gone => News::Gone(object),
                Guarded(Ok(object)) if keep(&object) => News::Is(object),
                Guarded(_) => continue,
            };
            if each(news).is_break() {
                return Heard::Enough;
            }
        }
    }
}

/// What is said of an API server that says nothing.
fn silent() -> kube::Error {
    kube::Error::Service("the API server does not answer".into())
}

/// How a watch ended.
enum Heard {
    Enough,
    /// By the API server, as it should.
    Ended,
    Failed {
        problem: Problem,
        /// Whether it had shown anything before.
        was_heard: bool,
    },
}
