//! Several errors as one.

use std::collections::BTreeSet;
use std::fmt;

/// What is wrong with an object, in the order in which it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors(Vec<String>);

impl Errors {
    /// Nothing is wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// One more.
    pub fn push(&mut self, error: impl Into<String>) {
        self.0.push(error.into());
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that `old` did not have already.
    #[must_use]
    pub fn beyond(mut self, old: &Self) -> Self {
        self.0.retain(|error| !old.0.contains(error));
        self
    }
}

impl Extend<String> for Errors {
    fn extend<I: IntoIterator<Item = String>>(&mut self, errors: I) {
        self.0.extend(errors);
    }
}

impl FromIterator<String> for Errors {
    fn from_iter<I: IntoIterator<Item = String>>(errors: I) -> Self {
        Self(errors.into_iter().collect())
    }
}

impl IntoIterator for Errors {
    type Item = String;
    type IntoIter = std::vec::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for Errors {
    /// One as itself; several in brackets, none of them twice.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = BTreeSet::new();
        let distinct: Vec<&str> = self.0.iter().map(String::as_str).filter(|e| seen.insert(*e)).collect();
        match distinct.as_slice() {
            [one] => f.write_str(one),
            several => write!(f, "[{}]", several.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_printed_as_itself_and_several_in_brackets_without_doubles() {
        let of = |errors: &[&str]| errors.iter().map(ToString::to_string).collect::<Errors>();
        assert_eq!(of(&["a"]).to_string(), "a");
        assert_eq!(of(&["a", "a"]).to_string(), "a");
        assert_eq!(of(&["b", "a", "b"]).to_string(), "[b, a]");
        let mut outer = of(&["a"]);
        outer.extend(of(&["b", "c"]));
        assert_eq!(outer.to_string(), "[a, b, c]", "lists in lists are one list");
        assert_eq!(of(&["a", "b"]).beyond(&of(&["a", "c"])), of(&["b"]));
    }
}
