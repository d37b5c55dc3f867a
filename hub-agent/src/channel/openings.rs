//! Streams that have shown a credential and not yet said whom they speak for. Any ServiceAccount of the hub can open them, so
//! none may hold the places of others, and only who is a member's identity may send more than a few bytes.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::memory::Pools;

/// How many streams of one identity may wait for their Hello. Many members may share one; but their Hello comes with the stream, and
/// no more than a few of them are let in at once.
const OPENINGS_MAX: usize = 64;

/// Streams that wait for their Hello, by identity.
pub(super) type Openings = Mutex<HashMap<String, Waiting>>;

/// Those of one identity.
#[derive(Debug)]
pub(super) struct Waiting {
    count: usize,
    /// What their Hellos may come to together.
    share: Arc<Pools>,
}

/// One of them, until it is dropped.
pub(super) struct Opening<'a> {
    all: &'a Openings,
    user: &'a str,
    /// What its Hello is paid from.
    pub(super) share: Arc<Pools>,
}

impl<'a> Opening<'a> {
    /// One more, unless the identity has as many as it may.
    pub(super) fn begin(all: &'a Openings, user: &'a str) -> Option<Self> {
        let mut open = all.lock();
        let waiting = open.entry(user.to_owned()).or_insert_with(|| Waiting {
            count: 0,
            share: Arc::new(Pools::of_member()),
        });
        if waiting.count >= OPENINGS_MAX {
            return None;
        }
        waiting.count += 1;
        let share = waiting.share.clone();
        Some(Self { all, user, share })
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut open = self.all.lock();
        if let Some(waiting) = open.get_mut(self.user) {
            waiting.count -= 1;
            if waiting.count == 0 {
                open.remove(self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_holds_only_its_own_places() {
        let all = Openings::default();
        let mine: Vec<_> = (0..OPENINGS_MAX).filter_map(|_| Opening::begin(&all, "mine")).collect();
        assert_eq!(mine.len(), OPENINGS_MAX);
        assert!(Opening::begin(&all, "mine").is_none());
        let other = Opening::begin(&all, "other");
        assert!(other.is_some());
        drop(mine);
        assert!(Opening::begin(&all, "mine").is_some());
        drop(other);
        assert!(all.lock().is_empty());
    }
}
