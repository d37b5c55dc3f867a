//! How every watch is doing: what is hidden from the user, and since when what is shown may be old.

use std::sync::Arc;

use fleet_runtime::cache::{Reason, State};
use jiff::Timestamp;
use parking_lot::Mutex;

/// All kinds that are watched. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Kinds(Arc<Mutex<Vec<Hearing>>>);

/// How the watch of one kind is doing. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hearing {
    name: &'static str,
    heard: Arc<Mutex<Heard>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Heard {
    /// Nothing yet.
    #[default]
    Nothing,
    /// All there is.
    All,
    /// The user may not read it, or the hub does not have it.
    Hidden { missing: bool },
    /// Nothing any more, since then.
    Old { since: Timestamp, why: String },
}

/// What pages say of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reception {
    /// Kinds that the user may not read.
    pub(crate) forbidden: Vec<&'static str>,
    /// Kinds that the hub does not have.
    pub(crate) missing: Vec<&'static str>,
    /// Kinds that are not listed yet.
    pub(crate) starting: Vec<&'static str>,
    /// Since when something may be old, and why.
    pub(crate) stale: Option<(Timestamp, String)>,
}

impl Kinds {
    pub(crate) fn add(&self, name: &'static str) -> Hearing {
        let hearing = Hearing {
            name,
            heard: Arc::default(),
        };
        self.0.lock().push(hearing.clone());
        hearing
    }

    pub(crate) fn are_settled(&self) -> bool {
        self.0.lock().iter().all(|kind| *kind.heard.lock() != Heard::Nothing)
    }

    pub(crate) fn reception(&self) -> Reception {
        let mut reception = Reception::default();
        for kind in self.0.lock().iter() {
            match &*kind.heard.lock() {
                Heard::Nothing => reception.starting.push(kind.name),
                Heard::All => {}
                Heard::Hidden { missing: true } => reception.missing.push(kind.name),
                Heard::Hidden { missing: false } => reception.forbidden.push(kind.name),
                Heard::Old { since, why } => {
                    let earlier = reception.stale.as_ref().is_none_or(|(known, _)| since < known);
                    if earlier {
                        reception.stale = Some((*since, why.clone()));
                    }
                }
            }
        }
        reception
    }
}

impl Hearing {
    /// The first list is complete.
    pub(crate) fn listed(&self) {
        let mut heard = self.heard.lock();
        if *heard == Heard::Nothing {
            *heard = Heard::All;
        }
    }

    pub(crate) fn note(&self, state: &State, now: Timestamp) {
        let mut heard = self.heard.lock();
        *heard = match (state, &*heard) {
            (State::Starting, before) => before.clone(),
            (State::Watching, _) => Heard::All,
            (State::Failing { reason, message }, before) => match reason {
                Reason::Forbidden => Heard::Hidden { missing: false },
                Reason::NotFound => Heard::Hidden { missing: true },
                Reason::Unauthorized | Reason::Unavailable => {
                    let since = match before {
                        Heard::Old { since, .. } => *since,
                        _ => now,
                    };
                    let why = match reason {
                        Reason::Unauthorized => "the hub does not accept your credentials any more".to_owned(),
                        _ => message.clone(),
                    };
                    Heard::Old { since, why }
                }
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(reason: Reason) -> State {
        State::Failing {
            reason,
            message: "connection refused".into(),
        }
    }

    #[test]
    fn what_is_hidden_and_what_is_old_is_said_until_it_is_over() {
        let kinds = Kinds::default();
        let (a, b) = (kinds.add("a"), kinds.add("b"));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(kinds.reception().starting, ["a", "b"]);
        a.listed();
        b.note(&failing(Reason::Forbidden), at(1));
        assert!(kinds.are_settled());
        assert_eq!(kinds.reception().forbidden, ["b"]);
        a.note(&failing(Reason::Unavailable), at(5));
        a.note(&failing(Reason::Unavailable), at(9));
        b.note(&failing(Reason::Unavailable), at(7));
        assert_eq!(
            kinds.reception().stale,
            Some((at(5), "connection refused".into())),
            "since the first failure"
        );
        a.note(&State::Watching, at(10));
        b.note(&failing(Reason::NotFound), at(11));
        let reception = kinds.reception();
        assert_eq!((reception.stale, reception.missing), (None, vec!["b"]));
    }
}
