//! The memory that the bodies of requests take, shared by source address.
//!
//! Whoever takes more has to leave at least as much free as it then holds: one source gets half of it, two a third each,
//! and there is always something left for the next.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use crate::channel::Source;

/// What all requests together may hold, in KiB.
const MAX: usize = 64 * 1024;

/// All bodies. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Bodies(Arc<Mutex<Held>>);

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_source: HashMap<Source, usize>,
}

impl Bodies {
    /// A body from there, empty so far.
    pub(super) fn of(&self, source: Source) -> Paid {
        Paid {
            bodies: self.clone(),
            source,
            kib: 0,
        }
    }
}

/// What one body has been paid with. Dropped, it is given back.
#[derive(Debug)]
pub(super) struct Paid {
    bodies: Bodies,
    source: Source,
    kib: usize,
}

impl Paid {
    /// Pays for a body that is so long by now; false where its source holds too much. Nobody waits for memory: who waits
    /// holds on to what it has.
    pub(super) fn covers(&mut self, bytes: usize) -> bool {
        let more = bytes.div_ceil(1024).saturating_sub(self.kib);
        if more == 0 {
            return true;
        }
        let mut held = self.bodies.0.lock();
        let (own, total) = (held.by_source.get(&self.source).unwrap_or(&0) + more, held.total + more);
        if own + total > MAX {
            return false;
        }
        held.total = total;
        held.by_source.insert(self.source, own);
        drop(held);
        self.kib += more;
        true
    }
}

impl Drop for Paid {
    fn drop(&mut self) {
        if self.kib == 0 {
            return;
        }
        let mut held = self.bodies.0.lock();
        held.total = held.total.saturating_sub(self.kib);
        if let Some(own) = held.by_source.get_mut(&self.source) {
            *own = own.saturating_sub(self.kib);
            if *own == 0 {
                held.by_source.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_body_is_charged_by_its_length_however_it_comes() {
        let bodies = Bodies::default();
        let mut body = bodies.of(source("10.0.0.1"));
        assert!((1..=64 * 1024).all(|bytes| body.covers(bytes)));
        assert_eq!(bodies.0.lock().total, 64);
        drop(body);
        let held = bodies.0.lock();
        assert_eq!((held.total, held.by_source.len()), (0, 0));
    }

    #[test]
    fn one_source_leaves_room_for_others_and_two_for_a_third() {
        let bodies = Bodies::default();
        let all_of = |of: &str| {
            let mut held = Vec::new();
            loop {
                let mut body = bodies.of(source(of));
                if !body.covers(1024 * 1024) {
                    return held;
                }
                held.push(body);
            }
        };
        let first = all_of("10.0.0.1");
        assert_eq!(first.len(), 32);
        let second = all_of("10.0.0.2");
        assert_eq!(second.len(), 16);
        let third = all_of("10.0.0.3");
        assert_eq!(third.len(), 8);
        drop(first);
        assert!(bodies.of(source("10.0.0.3")).covers(7 * 1024 * 1024));
    }
}
