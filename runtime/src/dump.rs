//! What a person who debugs may look at: stores, queues, sessions and leases, as JSON.
//!
//! Whoever has something to show is asked when somebody looks, never before. Parts show names, versions, times and
//! counts, never what is in an object. An answer is bounded, however much there is.

use std::{
    collections::BTreeMap,
    fmt::{self, Display},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

/// Entries of one list, unless more are asked for.
const LIST_DEFAULT: usize = 100;
/// Entries of one answer.
const ANSWER_MAX: usize = 5_000;
/// Characters of a text that is not ours.
const TEXT_MAX: usize = 500;

/// What kind of thing a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Leader election.
    Leases,
    /// Keys that wait for a pass, and writes that wait for their turn.
    Queues,
    /// Connections between hub and members.
    Sessions,
    /// What watches have shown.
    Stores,
}

impl Section {
    const ALL: [Self; 4] = [Self::Leases, Self::Queues, Self::Sessions, Self::Stores];

    fn word(self) -> &'static str {
        match self {
            Self::Leases => "leases",
            Self::Queues => "queues",
            Self::Sessions => "sessions",
            Self::Stores => "stores",
        }
    }
}

type Show = Box<dyn Fn(&mut Look) -> Option<Value> + Send + Sync>;

/// The parts of a process that can be looked at. Cheap to clone.
#[derive(Clone, Default)]
pub struct Dump(Arc<Mutex<BTreeMap<(Section, String), Show>>>);

impl Dump {
    /// From now on `show` says what becomes of `part`, until it is dropped. One of the same name takes its place.
    pub fn add<T>(&self, section: Section, name: &str, part: &Arc<T>, show: fn(&T, &mut Look) -> Value)
    where
        T: Send + Sync + 'static,
    {
        let part: Weak<T> = Arc::downgrade(part);
        let show: Show = Box::new(move |look| Some(show(&*part.upgrade()?, look)));
        self.0.lock().insert((section, name.to_owned()), show);
    }

    /// What a path below the page (`stores/works`, empty: everything) and a query (`contains=…&limit=…`) ask for.
    pub fn read(&self, path: &str, query: &str) -> Result<Value, Refused> {
        let mut look = Look::new(query)?;
        let (section, name) = match path.split_once('/') {
            Some((section, name)) => (section, Some(name)),
            None => (path, None),
        };
        let sections: Vec<Section> = Section::ALL
            .into_iter()
            .filter(|known| section.is_empty() || known.word() == section)
            .collect();
        let mut out: Map<String, Value> = sections.iter().map(|s| (s.word().to_owned(), json!({}))).collect();
        let mut found = name.is_none() && !sections.is_empty();
        self.0.lock().retain(|(section, part), show| {
            let asked = sections.contains(section) && name.is_none_or(|name| name == part);
            if !asked {
                return true;
            }
            let Some(value) = show(&mut look) else { return false };
            found = true;
            out[section.word()][part] = value;
            true
        });
        if found {
            Ok(Value::Object(out))
        } else {
            Err(Refused::Unknown)
        }
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.lock().keys()).finish()
    }
}

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Nothing has this name.
    #[error("there is nothing of that name")]
    Unknown,
    /// The query makes no sense.
    #[error("the query is `contains=TEXT` and `limit=NUMBER`")]
    Query,
}

/// One look: which entries are wanted, and how many more fit.
#[derive(Debug)]
pub struct Look {
    contains: String,
    limit: usize,
    left: usize,
}

impl Look {
    fn new(query: &str) -> Result<Self, Refused> {
        let mut look = Self {
            contains: String::new(),
            limit: LIST_DEFAULT,
            left: ANSWER_MAX,
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                // What is looked for are names, which are never escaped but for the slash.
                Some(("contains", text)) => look.contains = text.replace("%2F", "/").replace("%2f", "/"),
                Some(("limit", number)) => look.limit = number.parse().map_err(|_| Refused::Query)?,
                _ => return Err(Refused::Query),
            }
        }
        Ok(look)
    }

    /// A list: how many entries there are, how many of them are wanted, and the first of these in the order of their names.
    pub fn list<T>(
        &mut self,
        entries: impl IntoIterator<Item = (impl Display, T)>,
        show: impl Fn(T) -> Map<String, Value>,
    ) -> Value {
        let room = self.limit.min(self.left);
        let (mut count, mut matching) = (0, 0_usize);
        // The number tells entries of one name apart. No more than those that are shown are ever held.
        let mut first: BTreeMap<(String, usize), T> = BTreeMap::new();
        for (name, entry) in entries {
            count += 1;
            let name = name.to_string();
            if !name.contains(&self.contains) {
                continue;
            }
            matching += 1;
            first.insert((name, matching), entry);
            if first.len() > room {
                first.pop_last();
            }
        }
        self.left -= first.len();
        let shown: Vec<Value> = first
            .into_iter()
            .map(|((name, _), entry)| {
                let mut shown = Map::from_iter([("name".to_owned(), Value::String(name))]);
                shown.extend(show(entry));
                Value::Object(shown)
            })
            .collect();
        json!({ "count": count, "matching": matching, "shown": shown })
    }
}

/// The fields of `json!({…})`.
pub fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

/// A duration as people read it.
pub fn seconds(duration: Duration) -> Value {
    json!((duration.as_secs_f64() * 1000.0).round() / 1000.0)
}

/// A text that somebody else has written: not all of it, should it be long.
pub fn text(text: &str) -> String {
    text.chars().take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(dump: &Dump, name: &str, up_to: u32) -> Arc<u32> {
        let part = Arc::new(up_to);
        dump.add(Section::Stores, name, &part, |up_to, look| {
            look.list((0..*up_to).map(|n| (format!("n{n:05}"), n)), |n| {
                fields(json!({ "n": n }))
            })
        });
        part
    }

    #[test]
    fn a_part_is_shown_until_it_is_dropped() {
        let dump = Dump::default();
        let part = numbers(&dump, "numbers", 2);
        let shown = json!({ "count": 2, "matching": 2, "shown": [
            { "name": "n00000", "n": 0 }, { "name": "n00001", "n": 1 } ] });
        assert_eq!(dump.read("stores/numbers", "").unwrap()["stores"]["numbers"], shown);
        let all = dump.read("", "").unwrap();
        assert_eq!(all["stores"]["numbers"], shown);
        assert_eq!(all["leases"], json!({}));
        drop(part);
        assert_eq!(dump.read("", "").unwrap()["stores"], json!({}));
        assert_eq!(dump.read("stores/numbers", ""), Err(Refused::Unknown));
        assert_eq!(dump.read("secrets", ""), Err(Refused::Unknown));
    }

    #[test]
    fn an_answer_is_bounded_whatever_is_asked() {
        let dump = Dump::default();
        let (_one, _other) = (numbers(&dump, "a", 90_000), numbers(&dump, "b", 90_000));
        let shown = |all: &Value, part: &str| all["stores"][part]["shown"].as_array().unwrap().len();
        let all = dump.read("", "").unwrap();
        assert_eq!((shown(&all, "a"), shown(&all, "b")), (LIST_DEFAULT, LIST_DEFAULT));
        assert_eq!(all["stores"]["a"]["count"], 90_000);
        let all = dump.read("", "limit=99999999").unwrap();
        assert_eq!(shown(&all, "a") + shown(&all, "b"), ANSWER_MAX);
    }

    #[test]
    fn one_name_is_found_among_many() {
        let dump = Dump::default();
        let _part = numbers(&dump, "a", 90_000);
        let found = dump.read("stores/a", "contains=n77777").unwrap();
        assert_eq!(found["stores"]["a"]["matching"], 1);
        assert_eq!(found["stores"]["a"]["shown"][0]["n"], 77777);
        assert_eq!(dump.read("", "limit=many"), Err(Refused::Query));
        assert_eq!(dump.read("", "secrets=yes"), Err(Refused::Query));
    }

    #[test]
    fn of_long_texts_the_beginning_is_enough() {
        assert_eq!(text(&"ä".repeat(2 * TEXT_MAX)).chars().count(), TEXT_MAX);
    }
}
