//! Watches.

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    fault::refusal,
    objects::{Happened, Objects},
    path::{Target, value},
    read::{is_selected, metadata},
};

/// Somebody who watches.
pub(crate) struct Watcher {
    target: Target,
    query: String,
    metadata_only: bool,
    sender: UnboundedSender<Bytes>,
    /// What it has been told so far.
    seen: u64,
}

impl Watcher {
    /// A watch from the version that the query names. One that history no longer has ends with 410.
    pub(crate) fn begin(
        objects: &Objects,
        target: Target,
        query: &str,
        metadata_only: bool,
    ) -> (Option<Self>, UnboundedReceiver<Bytes>) {
        let (sender, receiver) = unbounded_channel();
        let from = value(query, "resourceVersion").and_then(|text| text.parse().ok());
        let from: u64 = from.unwrap_or(objects.version);
        if from < objects.compacted {
            let (_, status) = refusal(410, "too old resource version", None);
            let _ = sender.send(line("ERROR", &status));
            return (None, receiver);
        }
        let watcher = Self {
            target,
            query: query.to_owned(),
            metadata_only,
            sender,
            seen: from,
        };
        (Some(watcher), receiver)
    }

    /// Tells what it has not been told; false once nobody listens.
    pub(crate) fn tell(&mut self, objects: &Objects) -> bool {
        for event in objects.history.iter().filter(|event| event.version > self.seen) {
            if self.target.has(&event.place)
                && is_selected(&event.object, &self.query)
                && self.sender.send(self.shown(event)).is_err()
            {
                return false;
            }
        }
        self.seen = self.seen.max(objects.version);
        !self.sender.is_closed()
    }

    /// Tells how far it is.
    pub(crate) fn bookmark(&self) -> bool {
        let object = json!({ "kind": "Bookmark", "apiVersion": "v1",
                             "metadata": { "resourceVersion": self.seen.to_string() } });
        self.sender.send(line("BOOKMARK", &object)).is_ok()
    }

    fn shown(&self, event: &Happened) -> Bytes {
        if self.metadata_only {
            line(event.what, &metadata(&event.object))
        } else {
            line(event.what, &event.object)
        }
    }
}

/// The type first, as real ones write it: what follows need not be buffered then.
fn line(what: &str, object: &Value) -> Bytes {
    Bytes::from(format!("{{\"type\":\"{what}\",\"object\":{object}}}\n"))
}
