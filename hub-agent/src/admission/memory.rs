//! What requests may take of the agent's memory: all together, and those of one source.
//!
//! A body is paid for before it is read, and what it is decoded to before it is decoded: a list of a million empty entries
//! is three megabytes of text and hundreds of megabytes of objects. Who holds much holds it back from others at the same
//! address only.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::channel::Source;

/// What all bodies together may have, and those of one source, in KiB.
const BODIES_MAX: usize = 48 * 1024;
const BODIES_OF_SOURCE_MAX: usize = 16 * 1024;
/// The same of what they are decoded to.
const DECODED_MAX: usize = 64 * 1024;
const DECODED_OF_SOURCE_MAX: usize = 48 * 1024;
/// The most that one body may be decoded to: an override as large as the API server stores it, with its old self.
pub(super) const WEIGHT_MAX: usize = DECODED_OF_SOURCE_MAX * 1024;
/// What an entry of a list or of an object takes beside its text.
const ENTRY_BYTES: usize = 256;

/// Both kinds of memory.
pub(super) struct Memory {
    bodies: Pool,
    decoded: Pool,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            bodies: Pool::new(BODIES_MAX, BODIES_OF_SOURCE_MAX),
            decoded: Pool::new(DECODED_MAX, DECODED_OF_SOURCE_MAX),
        }
    }
}

impl Memory {
    /// What a caller may take.
    pub(super) fn share(&self, source: Source) -> Share {
        Share {
            bodies: self.bodies.share(source),
            decoded: self.decoded.share(source),
        }
    }
}

/// What the callers of one source may take together.
pub(super) struct Share {
    bodies: Part,
    decoded: Part,
}

impl Share {
    /// For as many bytes of a body.
    pub(super) async fn body(&self, bytes: usize) -> Held {
        self.bodies.take(bytes).await
    }

    /// For what a body is decoded to. None if that is too much for anybody.
    pub(super) async fn decoded(&self, body: &[u8]) -> Option<Held> {
        let weight = weight(body);
        if weight > WEIGHT_MAX {
            return None;
        }
        Some(self.decoded.take(weight).await)
    }
}

struct Pool {
    all: Arc<Semaphore>,
    of_source: usize,
    sources: Mutex<HashMap<Source, Weak<Semaphore>>>,
}

struct Part {
    all: Arc<Semaphore>,
    own: Arc<Semaphore>,
}

/// Memory that is taken until this is dropped. None only if there is none to be had any more.
pub(super) type Held = Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>;

impl Pool {
    fn new(all: usize, of_source: usize) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all)),
            of_source,
            sources: Mutex::default(),
        }
    }

    fn share(&self, source: Source) -> Part {
        let mut sources = self.sources.lock();
        sources.retain(|_, own| own.strong_count() > 0);
        let known = sources.get(&source).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| Arc::new(Semaphore::new(self.of_source)));
        sources.insert(source, Arc::downgrade(&own));
        Part {
            all: self.all.clone(),
            own,
        }
    }
}

impl Part {
    /// Its own share first: who waits for that holds nothing of what others wait for.
    async fn take(&self, bytes: usize) -> Held {
        let price = u32::try_from(bytes.div_ceil(1024)).ok()?;
        let own = self.own.clone().acquire_many_owned(price).await.ok()?;
        let all = self.all.clone().acquire_many_owned(price).await.ok()?;
        Some((own, all))
    }
}

/// Bytes in memory of what a text in JSON is decoded to, at most about that.
fn weight(json: &[u8]) -> usize {
    let (mut entries, mut quoted, mut escaped) = (0, false, false);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' | b',' if !quoted => entries += 1,
            _ => {}
        }
    }
    2 * json.len() + ENTRY_BYTES * entries
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn many_small_entries_weigh_more_than_their_text() {
        assert_eq!(weight(br#""a,b\",{[""#), 2 * 10, "what is quoted is text");
        assert_eq!(weight(br#"{"a":[1,2]}"#), 2 * 11 + 3 * ENTRY_BYTES);
        let text = "x".repeat(3 << 20);
        assert!(weight(format!("[\"{text}\",\"{text}\"]").as_bytes()) < WEIGHT_MAX);
        let entries = format!("[{}1]", "{\"\":0},".repeat((3 << 20) / 7));
        assert!(weight(entries.as_bytes()) > WEIGHT_MAX);
    }

    #[tokio::test]
    async fn a_source_that_holds_all_it_may_leaves_room_for_others() {
        let memory = Memory::default();
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        let (greedy, again) = (memory.share(source("10.0.0.1")), memory.share(source("10.0.0.1")));
        let held = greedy.body(BODIES_OF_SOURCE_MAX * 1024).await;
        assert!(held.is_some());
        assert!(again.body(1).now_or_never().is_none());
        let other = memory.share(source("10.0.0.2"));
        assert!(other.body(7 << 20).now_or_never().is_some());
        drop((held, greedy, again));
        assert!(memory.share(source("10.0.0.1")).body(1).now_or_never().is_some());
    }
}
