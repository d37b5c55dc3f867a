//! A lease as people who debug see it.

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::watch, time::Instant};

use super::{Elector, State, decide::Record};
use crate::dump::{self, Dump, Look, Section};

/// The lease as it was last seen.
#[derive(Debug)]
pub(super) struct Shown {
    identity: String,
    leads: watch::Receiver<State>,
    seen: Mutex<Option<(Record, Instant)>>,
}

impl Shown {
    pub(super) fn new(identity: &str, leads: watch::Receiver<State>) -> Self {
        Self {
            identity: identity.to_owned(),
            leads,
            seen: Mutex::default(),
        }
    }

    /// This is what the lease says now.
    pub(super) fn note(&self, record: &Record) {
        *self.seen.lock() = Some((record.clone(), Instant::now()));
    }

    fn show(&self, _: &mut Look) -> Value {
        let term = match &*self.leads.borrow() {
            State::Leading(term) => Some(term.transitions()),
            State::Standby => None,
        };
        let seen = self.seen.lock();
        json!({
            "identity": self.identity,
            "leads": term.is_some(),
            "term": term,
            "seen": seen.as_ref().map(|(record, at)| json!({
                "holder": record.holder,
                "transitions": record.transitions,
                "durationSeconds": dump::seconds(record.duration),
                "secondsAgo": dump::seconds(at.elapsed()),
            })),
        })
    }
}

impl Elector {
    /// Lets people who debug see the lease.
    pub fn show_in(&self, dump: &Dump) {
        dump.add(Section::Leases, &self.config.name, &self.shown, Shown::show);
    }
}
