//! Tells an open page what has changed: its fragment anew, whenever it is another one.
//!
//! A stream holds nothing but a hash. It renders when the browser has taken what was sent before, so a slow one gets fewer
//! fragments and never a queue of them; a tab that is not seen closes its stream (the script does), and gets the newest
//! when it is seen again.

use std::{
    convert::Infallible,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use http::StatusCode;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::{Duration, Instant, timeout_at},
};

use super::Shared;
use crate::{pages, view::View};

/// Changes come in crowds: this long they are gathered.
const GATHER: Duration = Duration::from_millis(50);
/// Rendering takes its time from the watches and from other tabs: what it took is rested so many times, unless that is too
/// long. A few changes in a row are shown at once all the same.
const REST: u32 = 2;
const REST_MAX: Duration = Duration::from_secs(3);
const BURST: Duration = Duration::from_millis(300);
/// Texts say how long something lasts, and nothing has to change for it to last longer.
const TICK: Duration = Duration::from_secs(10);

/// The stream of a page.
pub(crate) fn url(view: &View) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    format!("/live?{}", query.append_pair("at", &view.url()).finish())
}

struct Listener {
    shared: Arc<Shared>,
    view: View,
    changed: watch::Receiver<u64>,
    sent: u64,
    /// When all rests are over.
    rests: Instant,
    /// As long as it lasts, another stream may not take its place.
    _permit: OwnedSemaphorePermit,
}

pub(crate) async fn stream(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let at = form_urlencoded::parse(query.as_bytes())
        .find(|(key, _)| key == "at")
        .map(|(_, at)| at);
    let at = at.unwrap_or_default();
    let (path, query) = at.split_once('?').unwrap_or((&at, ""));
    let Some(view) = View::parse(path, query) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let Ok(permit) = shared.streams.clone().try_acquire_owned() else {
        return StatusCode::TOO_MANY_REQUESTS.into_response();
    };
    let mut changed = shared.hub.changed();
    changed.mark_changed();
    let stop = shared.stop.clone();
    let listener = Listener {
        shared,
        view,
        changed,
        sent: 0,
        rests: Instant::now(),
        _permit: permit,
    };
    let events = fragments(listener);
    let events = futures::StreamExt::take_until(events, stop.cancelled_owned());
    Sse::new(events)
        .keep_alive(KeepAlive::new().interval(Duration::from_secs(20)))
        .into_response()
}

fn fragments(listener: Listener) -> impl Stream<Item = Result<Event, Infallible>> {
    stream::unfold(listener, async |mut listener| {
        let fragment = listener.next().await?;
        Some((Ok(Event::default().event("fragment").data(fragment)), listener))
    })
}

impl Listener {
    /// When it may render again.
    fn rested(&self) -> Instant {
        self.rests.checked_sub(BURST).unwrap_or(self.rests)
    }

    /// The next fragment that is another one than the last.
    async fn next(&mut self) -> Option<String> {
        loop {
            // A change, or enough time for ages to have changed.
            if let Ok(ended) = timeout_at(Instant::now() + TICK, self.changed.changed()).await {
                ended.ok()?;
                tokio::time::sleep_until(self.rested().max(Instant::now() + GATHER)).await;
                self.changed.mark_unchanged();
            }
            for act in pages::acts(&self.shared.hub, &self.view) {
                self.shared.rights.learn(&act.needs()).await;
            }
            let begun = Instant::now();
            let site = self.shared.site();
            let page = pages::page(&site, &self.view);
            let fragment = pages::fragment(&site, &page).0;
            let mut hasher = DefaultHasher::new();
            fragment.hash(&mut hasher);
            let hash = hasher.finish();
            self.rests = self.rests.max(begun) + REST_MAX.min(begun.elapsed() * REST);
            if hash != self.sent {
                self.sent = hash;
                return Some(fragment);
            }
        }
    }
}
