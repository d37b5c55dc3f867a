//! Lists and watches one kind for as long as somebody asks: pages, bookmarks, versions that are too old, and API servers
//! that went back in time. What becomes of what it shows is not known here.

use std::time::Duration;

use futures::StreamExt as _;
use kube::{
    Resource as _,
    api::{ListParams, WatchParams},
    core::WatchEvent,
};
use tokio::time::{Instant, timeout};

use super::{
    Era, Reason, Source,
    era::is_before,
    interruption::{ANSWER_TIMEOUT, Interruption, WatchFailure, is_undecodable},
    pages::Pages,
};
use crate::backoff::Backoff;

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
    /// Those after the server has refused to show the kind, for lack of a right or of the kind; the same if there are none.
    pub refused: Option<Backoff>,
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
            refused: None,
            era: Era::default(),
        }
    }
}

/// Where a stream begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With a list of everything that is there.
    List,
    /// With what happens from now on.
    Now,
}

/// What a stream shows.
#[derive(Debug)]
pub enum Shown<O> {
    /// A list begins, the first or one after an interruption that was too long.
    Restarted,
    /// An object of the list.
    Listed(O),
    /// The list is complete, and shows the state at this version.
    ListDone(String),
    /// What happens from now on is shown. `anew`: what happened since it was last shown, if ever, is not, but for what a
    /// list has said.
    Watching {
        /// Whether there is a gap.
        anew: bool,
    },
    /// An object was added or changed.
    Applied(O),
    /// An object is gone.
    Deleted(O),
    /// Nothing happened to these objects up to this version.
    Progress(String),
    /// Something that is no event of this kind.
    Undecodable(kube::Error),
    /// This stream has noticed that the server went back in time.
    WentBack {
        /// Where the server is.
        now: String,
        /// What it has shown before.
        held: String,
    },
    /// The server has gone back in time, whoever noticed: versions mean nothing any more, and everything begins anew.
    EraOver,
}

/// Takes what a stream shows.
pub type Sink<'a, O> = &'a mut (dyn FnMut(Shown<O>) + Send);

/// What happens to the objects of one kind.
#[derive(Debug)]
pub struct Stream<S> {
    source: S,
    selection: Selection,
    start: Start,
    pages: Pages,
    /// The newest version that was shown.
    version: String,
    /// Whether it can be gone on from there.
    follows: bool,
    /// Whether the watch that is to come begins with a gap.
    anew: bool,
    /// Whether the server was asked, since the last interruption, if it has gone back in time.
    checked: bool,
    era: u64,
    failures: u32,
    /// How many of the last failures were refusals.
    refusals: u32,
}

impl<S: Source> Stream<S> {
    /// A stream that has not begun. Up to the version `held` everything was shown by another.
    pub fn new(source: S, selection: Selection, start: Start, held: u64) -> Self {
        Self {
            era: selection.era.number(),
            source,
            selection,
            start,
            pages: Pages::new(S::PAGE),
            version: held.to_string(),
            follows: false,
            anew: false,
            checked: true,
            failures: 0,
            refusals: 0,
        }
    }

    /// The same objects are elsewhere now. Begins anew.
    pub fn move_to(&mut self, source: S) {
        self.source = source;
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.follows = false;
        self.version.clear();
    }

    /// Shows what happens, until that is interrupted. Asked again it goes on; [`pause`](Self::pause) first.
    pub async fn run(&mut self, sink: Sink<'_, S::Object>) -> Interruption {
        loop {
            let (began, follows, era) = (Instant::now(), self.follows, self.selection.era.clone());
            let outcome = tokio::select! {
                // What this stream has noticed itself ends here too.
                now = era.over(self.era) => {
                    self.era = now;
                    self.begin_anew();
                    sink(Shown::EraOver);
                    continue;
                }
                outcome = self.step(sink) => outcome,
            };
            if follows && (outcome.is_ok() || began.elapsed() >= HEALTHY) {
                (self.failures, self.refusals) = (0, 0);
            }
            let failure = match outcome {
                Ok(()) => continue,
                Err(WatchFailure::Back { now, held }) => {
                    sink(Shown::WentBack { now, held });
                    self.selection.era.end(self.era);
                    continue;
                }
                Err(failure) => failure,
            };
            if failure.expired() {
                self.follows = false;
            }
            self.failures += 1;
            let interruption = failure.interrupts(self.failures);
            let is_refused = matches!(interruption.reason, Reason::Forbidden | Reason::NotFound);
            self.refusals = if is_refused { self.refusals + 1 } else { 0 };
            return interruption;
        }
    }

    /// Waits after an interruption, the longer the more there were.
    pub async fn pause(&self) {
        let delay = match self.selection.refused {
            Some(refused) if self.refusals > 0 => refused.delay(self.refusals),
            _ => self.selection.backoff.delay(self.failures),
        };
        tokio::time::sleep(delay).await;
    }

    /// Lists, or follows one watch to its end.
    async fn step(&mut self, sink: Sink<'_, S::Object>) -> Result<(), WatchFailure> {
        if !self.follows {
            match self.start {
                Start::List => self.list(sink).await?,
                Start::Now => self.version = versioned(self.current().await?)?,
            }
            (self.follows, self.anew, self.checked) = (true, true, true);
            return Ok(());
        }
        let began = Instant::now();
        if !self.checked {
            self.check().await?;
        }
        self.checked = false;
        let outcome = self.follow(sink).await;
        self.checked = outcome.is_ok() && began.elapsed() >= WHOLE;
        outcome
    }

    fn params(&self) -> ListParams {
        ListParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            ..ListParams::default()
        }
    }

    async fn list(&mut self, sink: Sink<'_, S::Object>) -> Result<(), WatchFailure> {
        sink(Shown::Restarted);
        let mut params = self.params();
        let page = loop {
            let mut listed = |object| sink(Shown::Listed(object));
            let page = self.pages.read(&self.source, &params, &mut listed).await;
            let page = page.map_err(WatchFailure::List)?;
            params.continue_token = page.continue_.clone().filter(|token| !token.is_empty());
            if params.continue_token.is_none() {
                break page;
            }
        };
        let version = versioned(page.resource_version)?;
        let held = std::mem::replace(&mut self.version, version.clone());
        sink(Shown::ListDone(version));
        not_before(&self.version, &held)
    }

    /// Follows one watch to its end, moving the version along.
    async fn follow(&mut self, sink: Sink<'_, S::Object>) -> Result<(), WatchFailure> {
        let params = WatchParams {
            label_selector: self.selection.labels.clone(),
            field_selector: self.selection.fields.clone(),
            timeout: Some(WATCH_SECS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let began = Instant::now();
        let events = answered(self.source.watch(&params, &self.version)).await?;
        let mut events = events.map_err(WatchFailure::Watch)?;
        sink(Shown::Watching {
            anew: std::mem::take(&mut self.anew),
        });
        let (mut shown, mut heard) = (0_u64, Instant::now());
        loop {
            let event = match timeout(QUIET, events.next()).await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                // Silence is an end like the server's own: go on from where we are.
                Err(_) if heard.elapsed() >= SILENCE_MAX => break,
                Err(_) => {
                    self.check().await?;
                    continue;
                }
            };
            shown += 1;
            heard = Instant::now();
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    self.version = versioned(object.meta().resource_version.clone())?;
                    sink(Shown::Applied(object));
                }
                Ok(WatchEvent::Deleted(object)) => {
                    self.version = versioned(object.meta().resource_version.clone())?;
                    sink(Shown::Deleted(object));
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    self.version = bookmark.metadata.resource_version;
                    sink(Shown::Progress(self.version.clone()));
                }
                Ok(WatchEvent::Error(status)) => return Err(WatchFailure::Ended(status)),
                // Starting the watch again would bring the same event again.
                Err(error) if is_undecodable(&error) => sink(Shown::Undecodable(error)),
                Err(error) => return Err(WatchFailure::Watch(error)),
            }
        }
        // A proxy that accepts and closes would otherwise be asked without a pause.
        if shown == 0 && began.elapsed() < Duration::from_secs(1) {
            Err(WatchFailure::Short)
        } else {
            Ok(())
        }
    }

    /// Where the server is. One object is enough to learn the version of the whole.
    async fn current(&self) -> Result<Option<String>, WatchFailure> {
        let mut ignore = |_| {};
        let page = Pages::new(1).read(&self.source, &self.params(), &mut ignore).await;
        Ok(page.map_err(WatchFailure::List)?.resource_version)
    }

    /// Asks where the server is. What has gone back in time would accept our version and stay silent.
    async fn check(&self) -> Result<(), WatchFailure> {
        let now = self.current().await?;
        now.map_or(Ok(()), |now| not_before(&now, &self.version))
    }
}

fn not_before(now: &str, held: &str) -> Result<(), WatchFailure> {
    if is_before(now, held) {
        let (now, held) = (now.to_owned(), held.to_owned());
        return Err(WatchFailure::Back { now, held });
    }
    Ok(())
}

fn versioned(version: Option<String>) -> Result<String, WatchFailure> {
    version
        .filter(|version| !version.is_empty())
        .ok_or(WatchFailure::NoVersion)
}

async fn answered<T>(request: impl Future<Output = T>) -> Result<T, WatchFailure> {
    timeout(ANSWER_TIMEOUT, request)
        .await
        .map_err(|_| WatchFailure::Timeout)
}

#[cfg(test)]
mod tests;
