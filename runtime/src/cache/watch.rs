//! Keeps a store like the API server, for as long as the process lives.

use kube::Resource;

use super::{
    Event, Odd, Selection, Source, State, Store, event,
    interruption::Interruption,
    stream::{Shown, Start, Stream},
};
use crate::{key::Key, logs};

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// Keeps the store like the API server. Never ends; whoever starts it drops it.
    ///
    /// What arrives is the kind itself with [`plain`](super::plain), its metadata, or a guard around it that decodes always.
    pub async fn watch<S: Source>(self, source: S, selection: Selection, decode: fn(S::Object) -> Result<K, String>) {
        let mut stream = Stream::new(source, selection, Start::List, self.progress());
        loop {
            let interruption = stream.run(&mut |shown| self.take(shown, decode)).await;
            self.interrupted(interruption);
            stream.pause().await;
        }
    }

    fn take<W: Resource>(&self, shown: Shown<W>, decode: fn(W) -> Result<K, String>) {
        // A server whose versions are no numbers gets no read-your-writes, but works.
        let number = |version: &str| version.parse().unwrap_or(0);
        let kind = self.name();
        match shown {
            Shown::Restarted => self.feed(Event::Restarted),
            Shown::Listed(object) => self.feed(match opened(object, decode) {
                Ok(object) => Event::Listed(object),
                Err(odd) => Event::ListedOdd(odd),
            }),
            Shown::ListDone(version) => self.feed(Event::ListDone {
                version: number(&version),
            }),
            Shown::Watching { .. } => {
                if matches!(&*self.state().borrow(), State::Failing { .. }) {
                    tracing::info!(kind, "Watch works again");
                }
                self.set_state(State::Watching);
            }
            Shown::Applied(object) => self.feed(match opened(object, decode) {
                Ok(object) => Event::Applied(object),
                Err(odd) => Event::AppliedOdd(odd),
            }),
            Shown::Deleted(object) => self.feed(Event::deleted(&object)),
            Shown::Progress(version) => self.feed(Event::Progress {
                version: number(&version),
            }),
            Shown::Undecodable(error) => {
                tracing::warn!(kind, error = %logs::chain(&error), "Event cannot be decoded");
            }
            Shown::WentBack { now, held } => tracing::warn!(kind, now, held, "The server's versions went back"),
            Shown::EraOver => {
                tracing::warn!(kind, "The server has gone back in time: listing everything anew");
                self.forget();
            }
        }
    }

    fn interrupted(&self, interruption: Interruption) {
        let Interruption {
            failures,
            reason,
            message,
        } = interruption;
        // Once per interruption, then only in detail; the state has the rest.
        if failures == 1 {
            tracing::warn!(kind = self.name(), error = message, "Watch interrupted");
        } else {
            tracing::debug!(kind = self.name(), error = message, failures, "Watch still interrupted");
        }
        // One failed reconnect is an API server that restarts; the store is hardly older for it.
        if failures > 1 || !self.is_synced() {
            self.set_state(State::Failing { reason, message });
        }
    }
}

fn opened<W: Resource, K>(object: W, decode: fn(W) -> Result<K, String>) -> Result<K, Odd> {
    let meta = object.meta();
    let (key, uid, version) = (Key::of(&object), meta.uid.clone(), event::version(meta));
    decode(object).map_err(|error| Odd {
        key,
        uid,
        version,
        error,
    })
}
