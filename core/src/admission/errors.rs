//! Several errors as one.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

/// So many are kept; those beyond are only counted. Lists without a bound of their own can have tens of thousands.
const KEPT_MAX: usize = 1000;
/// So many are printed.
const PRINTED_MAX: usize = 50;
/// Nothing more is printed after so many bytes.
const TEXT_MAX: usize = 16 * 1024;
/// So much of one is printed.
const ONE_MAX: usize = 2 * TEXT_MAX;

/// What is wrong with an object, in the order in which it was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    kept: Vec<String>,
    further: usize,
}

impl Errors {
    /// Nothing is wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// One more.
    pub fn push(&mut self, error: impl Into<String>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(error.into());
        } else {
            self.further += 1;
        }
    }

    /// All of these, too.
    pub fn append(&mut self, others: Self) {
        self.extend(others.kept);
        self.further += others.further;
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.further == 0
    }

    /// Those that `old` did not have already, each as often as it has it more.
    #[must_use]
    pub fn beyond(mut self, old: &Self) -> Self {
        let mut known = HashMap::<&str, usize>::new();
        for error in &old.kept {
            *known.entry(error).or_default() += 1;
        }
        self.kept.retain(|error| match known.get_mut(error.as_str()) {
            Some(left) if *left > 0 => {
                *left -= 1;
                false
            }
            _ => true,
        });
        self.further = self.further.saturating_sub(old.further);
        self
    }
}

impl Extend<String> for Errors {
    fn extend<I: IntoIterator<Item = String>>(&mut self, errors: I) {
        for error in errors {
            self.push(error);
        }
    }
}

impl FromIterator<String> for Errors {
    fn from_iter<I: IntoIterator<Item = String>>(errors: I) -> Self {
        let mut all = Self::none();
        all.extend(errors);
        all
    }
}

impl fmt::Display for Errors {
    /// One as itself; several in brackets, none of them twice. Of very many the first, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut seen = BTreeSet::new();
        let distinct: Vec<&str> = self
            .kept
            .iter()
            .map(String::as_str)
            .filter(|e| seen.insert(*e))
            .collect();
        if let ([one], 0) = (distinct.as_slice(), self.further) {
            return f.write_str(&shortened(one));
        }
        let mut printed = Vec::new();
        let mut bytes = 0;
        for error in distinct.iter().take(PRINTED_MAX) {
            if bytes > TEXT_MAX {
                break;
            }
            let error = shortened(error);
            bytes += error.len();
            printed.push(error);
        }
        let more = distinct.len() - printed.len() + self.further;
        if more > 0 {
            printed.push(format!("and {more} more"));
        }
        write!(f, "[{}]", printed.join(", "))
    }
}

fn shortened(error: &str) -> String {
    match error.get(..error.floor_char_boundary(ONE_MAX)) {
        Some(start) if start.len() < error.len() => format!("{start}…"),
        _ => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errors: &[&str]) -> Errors {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn one_is_printed_as_itself_and_several_in_brackets_without_doubles() {
        assert_eq!(of(&["a"]).to_string(), "a");
        assert_eq!(of(&["a", "a"]).to_string(), "a");
        assert_eq!(of(&["b", "a", "b"]).to_string(), "[b, a]");
        let mut outer = of(&["a"]);
        outer.append(of(&["b", "c"]));
        assert_eq!(outer.to_string(), "[a, b, c]", "lists in lists are one list");
    }

    #[test]
    fn what_was_wrong_before_is_left_out_as_often_as_it_was() {
        assert_eq!(of(&["a", "b"]).beyond(&of(&["a", "c"])), of(&["b"]));
        assert_eq!(of(&["a"]).beyond(&of(&["a", "a"])), Errors::none());
        assert_eq!(of(&["a", "a"]).beyond(&of(&["a"])), of(&["a"]), "one more of the same");
    }

    #[test]
    fn of_very_many_the_first_are_kept_and_printed() {
        let many: Errors = (0..60_000).map(|i| format!("error {i}")).collect();
        let text = many.to_string();
        assert!(
            text.starts_with("[error 0, error 1, ") && text.ends_with(", error 49, and 59950 more]"),
            "{text}"
        );
        assert!(many.clone().beyond(&many).is_empty());
        let mut one_more = many.clone();
        one_more.push("x");
        assert!(!one_more.beyond(&many).is_empty());
        // Long ones are cut, between two characters.
        let long: Errors = (0..40).map(|i| "é".repeat(100_000 + i)).collect();
        assert!(long.to_string().len() < 2 * ONE_MAX, "{}", long.to_string().len());
    }
}
