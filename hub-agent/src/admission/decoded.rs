//! The memory that reviews take once they are decoded: all together, and those of one source.
//!
//! It is paid for before anything is decoded: a list of a million empty entries is three megabytes of text and hundreds of
//! megabytes of objects. A source that holds much of it leaves less to others at its address, and enough to all others.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::channel::Source;

/// What all may take together, and those of one source, in KiB.
const MAX: usize = 64 * 1024;
const OF_SOURCE_MAX: usize = 48 * 1024;
/// The most that one review may take: an override as large as the API server stores it, with its old self.
pub(super) const WEIGHT_MAX: usize = OF_SOURCE_MAX * 1024;
/// What an entry of a list or of an object takes beside its text.
const ENTRY_BYTES: usize = 256;

/// All reviews that are being judged.
pub(super) struct Decoded {
    all: Arc<Semaphore>,
    sources: Mutex<HashMap<Source, Weak<Semaphore>>>,
}

impl Default for Decoded {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MAX)),
            sources: Mutex::default(),
        }
    }
}

/// Memory that is taken until this is dropped.
pub(super) type Taken = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Decoded {
    /// Takes what a body is decoded to, as soon as there is room. None if that is too much for anybody.
    pub(super) async fn take(&self, source: Source, body: &[u8]) -> Option<Taken> {
        let weight = weight(body);
        if weight > WEIGHT_MAX {
            return None;
        }
        let price = u32::try_from(weight.div_ceil(1024)).ok()?;
        // Its own share first: who waits for that holds nothing of what others wait for.
        let own = self.of(source).acquire_many_owned(price).await.ok()?;
        let all = self.all.clone().acquire_many_owned(price).await.ok()?;
        Some((own, all))
    }

    fn of(&self, source: Source) -> Arc<Semaphore> {
        let mut sources = self.sources.lock();
        sources.retain(|_, own| own.strong_count() > 0);
        let known = sources.get(&source).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| Arc::new(Semaphore::new(OF_SOURCE_MAX)));
        sources.insert(source, Arc::downgrade(&own));
        own
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
        let decoded = Decoded::default();
        let source = |text: &str| Source::from(text.parse::<IpAddr>().unwrap());
        let large = vec![b' '; WEIGHT_MAX / 2];
        let held = decoded.take(source("10.0.0.1"), &large).await;
        assert!(held.is_some());
        assert!(decoded.take(source("10.0.0.1"), b"{}").now_or_never().is_none());
        let other = decoded.take(source("10.0.0.2"), &large[..7 << 20]);
        assert!(other.now_or_never().is_some());
        drop(held);
        assert!(decoded.take(source("10.0.0.1"), b"{}").now_or_never().is_some());
    }
}
