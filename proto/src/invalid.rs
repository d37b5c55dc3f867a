//! What is wrong with a message, and where; and the checks that say so.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::limits;

/// A message that cannot be accepted, with the path of the offending field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Invalid {
    /// Path in the message, for instance `work_status.manifests[3].identifier`.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not there, or empty where something must be.
    #[error("missing")]
    Missing,
    /// More than allowed, in bytes or entries.
    #[error("{got} exceeds the limit of {limit}")]
    TooLong {
        /// How long it is.
        got: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A number that this build knows no word for.
    #[error("unknown value {0}")]
    Unknown(i32),
    /// Not of the form that the field must have.
    #[error("{0}")]
    Malformed(&'static str),
}

impl Invalid {
    pub(crate) fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self {
            field: field.into(),
            problem,
        }
    }

    /// The same problem seen from the message that contains this one.
    pub(crate) fn within(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }

    /// The same problem seen from the list that contains this one.
    pub(crate) fn at(mut self, list: &str, index: usize) -> Self {
        self.field = format!("{list}[{index}].{}", self.field);
        self
    }
}

pub(crate) fn required<T>(field: &str, value: Option<T>) -> Result<T, Invalid> {
    value.ok_or_else(|| Invalid::new(field, Problem::Missing))
}

pub(crate) fn bounded(field: &str, got: usize, limit: usize) -> Result<(), Invalid> {
    if got > limit {
        Err(Invalid::new(field, Problem::TooLong { got, limit }))
    } else {
        Ok(())
    }
}

/// A string that may be empty.
pub(crate) fn text(field: &str, value: String, limit: usize) -> Result<String, Invalid> {
    bounded(field, value.len(), limit)?;
    Ok(value)
}

/// A string that must say something.
pub(crate) fn word(field: &str, value: String, limit: usize) -> Result<String, Invalid> {
    if value.is_empty() {
        return Err(Invalid::new(field, Problem::Missing));
    }
    text(field, value, limit)
}

/// An object's name. Only the form that the API server knows, so that it can never be a path.
pub(crate) fn name(field: &str, value: String) -> Result<String, Invalid> {
    let value = word(field, value, limits::NAME_BYTES)?;
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let well_formed = value.split('.').all(|label| {
        label.bytes().all(|b| inside(b) || b == b'-')
            && label.bytes().next().is_some_and(inside)
            && label.bytes().next_back().is_some_and(inside)
    });
    if well_formed {
        Ok(value)
    } else {
        Err(Invalid::new(field, Problem::Malformed("not a valid object name")))
    }
}

pub(crate) fn uid(field: &str, value: String) -> Result<String, Invalid> {
    let value = word(field, value, limits::UID_BYTES)?;
    if value.bytes().all(|b| b.is_ascii_graphic() && b != b'/') {
        Ok(value)
    } else {
        Err(Invalid::new(field, Problem::Malformed("not a valid uid")))
    }
}

pub(crate) fn generation(field: &str, value: i64) -> Result<i64, Invalid> {
    if value < 0 {
        Err(Invalid::new(field, Problem::Malformed("negative generation")))
    } else {
        Ok(value)
    }
}

/// A time, or none if nothing was said.
pub(crate) fn time(field: &str, ms: i64) -> Result<Option<Timestamp>, Invalid> {
    if ms == 0 {
        return Ok(None);
    }
    match Timestamp::from_millisecond(ms) {
        Ok(at) if ms > 0 => Ok(Some(at)),
        _ => Err(Invalid::new(field, Problem::Malformed("not a time"))),
    }
}

pub(crate) fn required_time(field: &str, ms: i64) -> Result<Timestamp, Invalid> {
    required(field, time(field, ms)?)
}

/// A list whose elements convert one by one; the error names the element.
pub(crate) fn list<A, B>(field: &str, values: Vec<A>, limit: usize) -> Result<Vec<B>, Invalid>
where
    B: TryFrom<A, Error = Invalid>,
{
    bounded(field, values.len(), limit)?;
    values
        .into_iter()
        .enumerate()
        .map(|(i, v)| B::try_from(v).map_err(|e| e.at(field, i)))
        .collect()
}

/// A map of strings with bounded keys and values.
pub(crate) fn map(
    field: &str,
    values: BTreeMap<String, String>,
    entries: usize,
    key_bytes: usize,
    value_bytes: usize,
) -> Result<BTreeMap<String, String>, Invalid> {
    bounded(field, values.len(), entries)?;
    for (key, value) in &values {
        if key.is_empty() {
            return Err(Invalid::new(format!("{field} key"), Problem::Missing));
        }
        bounded(&format!("{field} key"), key.len(), key_bytes)?;
        bounded(&format!("{field}[{key}]"), value.len(), value_bytes)?;
    }
    Ok(values)
}

/// The text, cut to `limit` bytes between two characters.
pub(crate) fn cut(mut value: String, limit: usize) -> String {
    value.truncate(value.floor_char_boundary(limit));
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_the_api_server_takes_for_one() {
        for good in ["a", "a-1.b", "9", "crp-work"] {
            assert!(name("name", good.into()).is_ok(), "{good}");
        }
        for bad in [
            "",
            "../b",
            "a/b",
            "A",
            "-a",
            "a-",
            "a..b",
            ".",
            "a b",
            "é",
            &"a".repeat(254),
        ] {
            assert!(name("name", bad.into()).is_err(), "{bad}");
        }
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("aé".into(), 2), "a");
        assert_eq!(cut("aé".into(), 3), "aé");
        assert_eq!(cut("a".into(), 9), "a");
    }

    #[test]
    fn the_error_names_the_path_of_the_field() {
        let error = Invalid::new("reason", Problem::Missing)
            .at("conditions", 2)
            .within("agent_status");
        assert_eq!(error.to_string(), "agent_status.conditions[2].reason: missing");
    }
}
