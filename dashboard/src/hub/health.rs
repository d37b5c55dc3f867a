//! How every watch is doing: what is hidden from the user, and since when what is shown may be old.

use std::sync::Arc;

use fleet_runtime::cache::{Reason, State};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::view::Name;

/// All kinds that are watched. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Kinds(Arc<Mutex<Vec<Hearing>>>);

/// How the watch of one kind is doing. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hearing {
    name: &'static str,
    known: Arc<Mutex<Known>>,
    /// The objects that are there and cannot be decoded.
    odd: Arc<dyn Fn() -> Vec<Name> + Send + Sync>,
}

#[derive(Default)]
struct Known {
    heard: Heard,
    /// It was complete once: what is shown of it may be from then.
    listed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
enum Heard {
    /// Nothing yet.
    #[default]
    Nothing,
    /// All there is.
    All,
    /// The user may not read it, or the hub does not have it; any more, if that was otherwise once.
    Hidden { missing: bool, since: Option<Timestamp> },
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
    /// Kinds that could be read until then: what is shown of them is as old.
    pub(crate) lost: Vec<(&'static str, Timestamp)>,
    /// Objects that are there, and are not as their kind is known here.
    pub(crate) odd: Vec<(&'static str, Vec<Name>)>,
    /// Kinds that are not listed yet.
    pub(crate) starting: Vec<&'static str>,
    /// Since when something may be old, and why.
    pub(crate) stale: Option<(Timestamp, String)>,
}

impl Reception {
    /// Why nobody can say that all is well; nothing if everything there is was read.
    pub(crate) fn gaps(&self) -> Option<String> {
        let lost = self.lost.iter().map(|(kind, _)| *kind);
        let hidden: Vec<_> = self.forbidden.iter().copied().chain(lost).collect();
        let mut gaps = Vec::new();
        if !hidden.is_empty() {
            gaps.push(format!("you may not read {}", hidden.join(", ")));
        }
        if !self.starting.is_empty() {
            gaps.push(format!("{} are still being read", self.starting.join(", ")));
        }
        for (kind, names) in &self.odd {
            gaps.push(unreadable(kind, names));
        }
        if self.stale.is_some() {
            gaps.push("what is known may be old".to_owned());
        }
        (!gaps.is_empty()).then(|| gaps.join("; "))
    }
}

/// That objects cannot be understood, with the first of their names.
pub(crate) fn unreadable(kind: &str, names: &[Name]) -> String {
    const NAMED_MAX: usize = 5;
    let first: Vec<_> = names.iter().take(NAMED_MAX).map(Name::shown).collect();
    let more = match names.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{kind} {}{more} cannot be understood", first.join(", "))
}

impl Kinds {
    /// `odd` tells the objects of the kind that cannot be decoded.
    pub(crate) fn add(&self, name: &'static str, odd: impl Fn() -> Vec<Name> + Send + Sync + 'static) -> Hearing {
        let hearing = Hearing {
            name,
            known: Arc::default(),
            odd: Arc::new(odd),
        };
        self.0.lock().push(hearing.clone());
        hearing
    }

    pub(crate) fn are_settled(&self) -> bool {
        self.0
            .lock()
            .iter()
            .all(|kind| kind.known.lock().heard != Heard::Nothing)
    }

    /// Why none of these may be known although there are some; nothing if all there are were read.
    pub(crate) fn unread(&self, names: &[&str]) -> Option<String> {
        let all = self.0.lock();
        let of = |kind: &&Hearing| names.contains(&kind.name);
        let why = all.iter().filter(of).filter_map(|kind| match kind.known.lock().heard {
            Heard::Nothing => Some(format!("{} are still being read", kind.name)),
            Heard::Hidden { missing: false, .. } => Some(format!("you may not read {}", kind.name)),
            Heard::Hidden { missing: true, .. } => None,
            Heard::All | Heard::Old { .. } => {
                let odd = kind.names_of_odd();
                (!odd.is_empty()).then(|| unreadable(kind.name, &odd))
            }
        });
        let why: Vec<_> = why.collect();
        (!why.is_empty()).then(|| why.join("; "))
    }

    pub(crate) fn reception(&self) -> Reception {
        let mut reception = Reception::default();
        for kind in self.0.lock().iter() {
            let odd = kind.names_of_odd();
            if !odd.is_empty() {
                reception.odd.push((kind.name, odd));
            }
            match &kind.known.lock().heard {
                Heard::Nothing => reception.starting.push(kind.name),
                Heard::All => {}
                Heard::Hidden { since: Some(since), .. } => reception.lost.push((kind.name, *since)),
                Heard::Hidden { missing: true, .. } => reception.missing.push(kind.name),
                Heard::Hidden { missing: false, .. } => reception.forbidden.push(kind.name),
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
    fn names_of_odd(&self) -> Vec<Name> {
        let mut names = (self.odd)();
        names.sort();
        names
    }

    /// The first list is complete.
    pub(crate) fn listed(&self) {
        let mut known = self.known.lock();
        known.listed = true;
        if known.heard == Heard::Nothing {
            known.heard = Heard::All;
        }
    }

    pub(crate) fn note(&self, state: &State, now: Timestamp) {
        let mut known = self.known.lock();
        let before = match &known.heard {
            Heard::Old { since, .. } | Heard::Hidden { since: Some(since), .. } => Some(*since),
            _ => None,
        };
        let since = before.unwrap_or(now);
        known.heard = match state {
            State::Starting => return,
            State::Watching => {
                known.listed = true;
                Heard::All
            }
            State::Failing { reason, message } => match reason {
                Reason::Forbidden | Reason::NotFound => Heard::Hidden {
                    missing: *reason == Reason::NotFound,
                    since: known.listed.then_some(since),
                },
                Reason::Unauthorized => Heard::Old {
                    since,
                    why: "The hub does not accept your credentials any more: what is shown may be old.".to_owned(),
                },
                Reason::Unavailable => Heard::Old {
                    since,
                    why: format!("The hub's API server does not answer: what is shown may be old. {message}"),
                },
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
        let (a, b) = (kinds.add("a", Vec::new), kinds.add("b", Vec::new));
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
            Some((
                at(5),
                "The hub's API server does not answer: what is shown may be old. connection refused".into()
            )),
            "since the first failure"
        );
        a.note(&State::Watching, at(10));
        b.note(&failing(Reason::NotFound), at(11));
        let reception = kinds.reception();
        assert_eq!((reception.stale, reception.missing), (None, vec!["b"]));
    }

    #[test]
    fn a_right_that_is_taken_away_leaves_what_is_old() {
        let kinds = Kinds::default();
        let (a, b) = (kinds.add("a", Vec::new), kinds.add("b", Vec::new));
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(kinds.unread(&["a"]).unwrap(), "a are still being read");
        a.listed();
        b.note(&failing(Reason::Forbidden), at(1));
        assert_eq!(kinds.unread(&["b", "c"]).unwrap(), "you may not read b");
        assert_eq!(kinds.reception().gaps().unwrap(), "you may not read b");
        b.note(&State::Watching, at(2));
        assert_eq!((kinds.unread(&["a", "b"]), kinds.reception().gaps()), (None, None));
        a.note(&failing(Reason::Unavailable), at(3));
        assert_eq!(kinds.reception().gaps().unwrap(), "what is known may be old");
        a.note(&failing(Reason::Forbidden), at(4));
        a.note(&failing(Reason::Forbidden), at(9));
        let reception = kinds.reception();
        assert_eq!((reception.lost, reception.forbidden), (vec![("a", at(3))], vec![]));
        assert_eq!(kinds.unread(&["a"]).unwrap(), "you may not read a");
    }

    #[test]
    fn objects_that_cannot_be_understood_are_a_gap() {
        let kinds = Kinds::default();
        let name = |at: usize| Name::new("shop", format!("odd-{at}"));
        kinds.add("a", move || vec![name(2), name(1)]).listed();
        kinds.add("b", move || (1..8).map(name).collect()).listed();
        let said = "a shop/odd-1, shop/odd-2 cannot be understood";
        assert_eq!(kinds.unread(&["a"]).unwrap(), said);
        let gaps = kinds.reception().gaps().unwrap();
        assert!(
            gaps.starts_with(said) && gaps.ends_with("shop/odd-5 and 2 more cannot be understood"),
            "{gaps}"
        );
    }

    #[test]
    fn credentials_that_are_refused_are_no_silence() {
        let kinds = Kinds::default();
        let kind = kinds.add("a", Vec::new);
        kind.note(&failing(Reason::Unauthorized), Timestamp::UNIX_EPOCH);
        let (_, why) = kinds.reception().stale.unwrap();
        assert!(why.contains("credentials") && !why.contains("does not answer"), "{why}");
    }
}
